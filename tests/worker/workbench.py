"""An agent with run dirs as a test says they are, on a clock it turns by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tests.builders import BOOT, a_placement, a_spec, a_worker

from grassq.core.messages import Ack, Check, Order, Report, Start, Stop, WorkerMessage
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Exited
from grassq.errors import Refused
from grassq.run.rundir import ACKED, Lease
from grassq.worker.agent import Agent
from grassq.worker.machine import Inventory

ME: AttemptId = (1, 1)
START = Start(1, 1, a_spec(), a_placement("w"), ())
OLD_START = Start(1, 1, a_spec(), a_placement("w", boot="boot-0"), ())
CHECK = Check(1, 1, BOOT)
STOP = Stop(1, 1, 10.0, BOOT)
ACK = Ack(1, 1)
DONE = Exited(1, Outcome.EXITED, 0)
RECORD = {"outcome": "exited", "code": 0, "signal": None, "error": None, "started": None, "ended": None}


class FakeRunner:
    """Run dirs as the test says they are; what the agent did with them is written down."""

    boot = BOOT

    def __init__(self) -> None:
        self.found = RunState()
        self.left: list[AttemptId] = []
        self.marked: list[AttemptId] = []
        self.orders: dict[AttemptId, Start] = {}
        self.lease_found: Lease | None = None
        self.did: list[Any] = []
        self.trouble: OSError | None = None
        #: Whether an order to suspend is done at once, and why it cannot be.
        self.obeys = True
        self.refusal: str | None = None
        #: What comes of an end when its files are brought back; None while they are on their way.
        self.collected: Callable[[Exited], Exited | None] = lambda end: end

    def _do(self, *what: object) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.did.append(what if len(what) > 1 else what[0])

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        if after is not None:
            self._do("begin after", after)
        elif lease is None:
            self._do("begin")
        else:
            self._do("begin", lease)

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        if self.trouble is not None:
            raise self.trouble
        return self.collected(end)

    def look(self, attempt: AttemptId) -> RunState:
        if self.trouble is not None:
            raise self.trouble
        return self.found

    def watch(self, attempt: AttemptId) -> None:
        self._do("watch")

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        if self.found.claimed and not self.found.shim_alive:
            self._do("term" if grace_s > 0 else "kill")
        else:
            self._do("stop", grace_s)

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        if self.refusal is not None:
            raise Refused(self.refusal)
        self._do("suspend" if stop else "resume", number)
        return self.obeys

    def void(self, attempt: AttemptId) -> bool:
        self._do("void")
        if self.found.claimed:
            return False
        self.found = RunState(void=True, claimed=True)
        return True

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        self._do("lease", lease)

    def leased(self, attempt: AttemptId) -> Lease | None:
        return self.lease_found

    def inventory(self, most: int) -> Inventory:
        return Inventory(self.left[:most], self.left[:most])

    def mark(self, attempt: AttemptId, marker: str) -> None:
        if marker == ACKED:
            self.marked.append(attempt)
        else:
            self._do(marker, attempt)

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        self._do("forget", list(jobs), list(spare))


class Bench:
    """An agent, its fake runner, its clock, and what it said."""

    def __init__(self, found: RunState | None = None) -> None:
        self.runner = FakeRunner()
        self.runner.found = found or RunState()
        self.now = 0.0
        self.said: list[WorkerMessage] = []
        self.agent = self.new_life()

    def new_life(self) -> Agent:
        """The worker's daemon starts again: the run dirs are all it knows."""
        self.agent = Agent(a_worker(), self.runner, self.said.append, lambda: self.now, boottime=lambda: self.now)
        return self.agent

    def order(self, *orders: Order) -> list[Any]:
        for order in orders:
            self.agent.order(order)
        return self.events()

    def events(self) -> list[Any]:
        """What was reported since the last look."""
        events = [said.event if isinstance(said, Report) else said for said in self.said]
        self.said.clear()
        return events

    def did(self) -> list[Any]:
        done, self.runner.did[:] = list(self.runner.did), []
        return done

    def hear(self, event: str, **more: object) -> list[Any]:
        self.agent.heard({"event": event, "job": 1, "attempt": 1, "shim": 50, **more})
        return self.events()

    def tick(self, after: float) -> list[Any]:
        self.now += after
        self.agent.tick()
        return self.events()


ALIVE = RunState(claimed=True, shim_alive=True, command_alive=True, pid=7)
UNSPAWNED = RunState(claimed=True, shim_alive=True)
ORPHAN = RunState(claimed=True, command_alive=True, pid=7)
NOBODY = RunState(claimed=True, pid=7)
VOID = RunState(claimed=True, void=True)
ENDED = RunState(claimed=True, exit=DONE, pid=7)
