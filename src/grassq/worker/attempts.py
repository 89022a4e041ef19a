"""The state that an agent keeps of each attempt."""

from __future__ import annotations

import contextlib
import heapq
import logging
import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from enum import Enum
from typing import Any

from msgspec import Struct

from grassq.core.messages import Start, SuspendOrder
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Exited, Lost, RefusedByWorker
from grassq.core.suspension.events import Resumed, Suspended, SuspendRefused, SuspensionOutdated, SuspensionReport
from grassq.errors import Refused
from grassq.run import exit_record
from grassq.run.rundir import Lease, RunDirState
from grassq.worker.machine import AttemptProcesses

log = logging.getLogger(__name__)

#: The launcher or the pidfd reports the end of a shim. This check finds an end that neither reported.
RUNNING_LOOK_S = 10.0
#: At most this many watched attempts are checked in one tick, those checked longest ago first.
RUNNING_LOOKS_MAX = 10
#: Run dirs of an earlier daemon that are looked at in one tick.
LOOKS_MAX = 500
#: Removed jobs that are remembered.
FORGOTTEN_MAX = 20_000

End = Exited | Lost | RefusedByWorker


class Phase(Enum):
    """The phases of an attempt on this worker."""

    PREFETCHED = "waits until its predecessor has ended"
    ORDERED = "told to a shim, not yet claimed"
    RUNNING = "runs under a shim"
    ORPHANED = "runs without a shim"
    COLLECTING = "has ended, and its files are brought back"
    ENDED = "ended, and the report is not acknowledged"


class HeldAttempt(Struct):
    """One attempt that this worker knows of."""

    id: AttemptId
    phase: Phase
    #: The monotonic time of the last order or report.
    at: float
    start: Start | None = None
    pid: int = 0
    shim: int = 0
    end: End | None = None
    #: The monotonic time when a stopped attempt is killed.
    stop_at: float = math.inf
    stuck: str | None = None
    looked_at: float = 0.0
    #: The launcher or a pidfd reports the end of the attempt's shim.
    watched: bool = False
    #: No run dir exists; the attempt is known only from the broker. Dropped when the worker connects again.
    traceless: bool = False
    #: The attempt has a run dir, so another attempt can be prefetched behind it.
    laid_out: bool = False
    #: The lease in the run dir, for an attempt that may be started elsewhere.
    lease: Lease | None = None
    #: The newest order about a suspension, as in `RunState`.
    suspension: tuple[int, bool] = (0, False)

    @property
    def unclaimed(self) -> bool:
        """Whether no shim is known to have claimed the attempt."""
        return self.phase in (Phase.PREFETCHED, Phase.ORDERED)


class RemovedJobs:
    """The jobs that were removed last; of more than FORGOTTEN_MAX the oldest are dropped."""

    def __init__(self) -> None:
        self._jobs: dict[int, None] = {}

    def add(self, jobs: Iterable[int]) -> None:
        """Remember jobs."""
        self._jobs |= dict.fromkeys(jobs)
        for job in list(self._jobs)[:-FORGOTTEN_MAX]:
            del self._jobs[job]

    def __contains__(self, job: int) -> bool:
        return job in self._jobs


class LeftAttempts:
    """The attempts of an earlier daemon whose end the broker may not know, or which still run: looked at once."""

    def __init__(self, machine: AttemptProcesses, mono: Callable[[], float]) -> None:
        self._machine = machine
        self._mono = mono
        self._left: deque[AttemptId] | None = None

    def __bool__(self) -> bool:
        return bool(self._left)

    def begin(self, attempts: Iterable[AttemptId]) -> None:
        """Take these attempts, unless some were taken before."""
        if self._left is None:
            self._left = deque(attempts)

    def looked_at(self, most: int, until: float, known: Container[AttemptId]) -> Iterator[tuple[AttemptId, RunState]]:
        """Look at some attempts that are not known, up to a time; yield those that have ended or still run.

        The broker asks about the others if it believes them to run: only it knows the boot in which they began.
        """
        left = self._left or deque()
        for _ in range(min(LOOKS_MAX, len(left), most)):
            if self._mono() > until:
                return
            attempt = left.popleft()
            if attempt in known:
                continue
            try:
                found = self._machine.look(attempt)
            except OSError as error:
                log.error("outbox_put_off job=%s attempt=%s error=%s", *attempt, error)
                left.append(attempt)
                continue
            if found.exit is not None or found.shim_alive or found.command_alive:
                yield attempt, found


def due_for_a_look(held: Iterable[HeldAttempt], now: float) -> list[HeldAttempt]:
    """Return the running attempts that are not watched, and RUNNING_LOOKS_MAX of the watched ones."""
    due = [each for each in held if each.phase is Phase.RUNNING and now - each.looked_at >= RUNNING_LOOK_S]
    watched = (each for each in due if each.watched)
    few = heapq.nsmallest(RUNNING_LOOKS_MAX, watched, key=lambda each: each.looked_at)
    return [*(each for each in due if not each.watched), *few]


def exited(attempt: int, record: dict[str, Any]) -> End:
    """Return the event that an exit record reports."""
    word, code, signal = record["outcome"], record["code"], record["signal"]
    if word == exit_record.LEASE_ENDED:
        if code is None and signal is None:
            return RefusedByWorker(attempt, "its lease was over before it started")
        return Lost(attempt, Outcome.LOST, "its lease ended while the broker was out of reach", lease_ended=True)
    # A record says `exited` also for a command that a signal ended.
    outcome = Outcome.SIGNALLED if word == exit_record.EXITED and code is None else Outcome(word)
    times = record["started"], record["ended"]
    return Exited(attempt, outcome, code, signal, record["error"], *times, record.get("result"))


def run_state(attempt: AttemptId, found: RunDirState) -> RunState:
    """Return what a run dir and the process table say, as the agent judges it."""
    return RunState(
        exit=None if found.exit is None else exited(attempt[1], found.exit),
        void=found.void,
        claimed=found.claimed,
        shim_alive=found.shim_alive,
        command_alive=found.command_alive or bool(found.members),
        pid=None if found.command is None else found.command[0],
        suspension=found.suspension.order or (0, False),
    )


def suspend(machine: AttemptProcesses, held: HeldAttempt, order: SuspendOrder) -> SuspensionReport | None:
    """Carry out an order to suspend an attempt, or to let it go on; return what to report, None while nothing is."""
    try:
        is_done = machine.suspend(held.id, order.number, stop=order.stop)
    except Refused as error:
        return SuspendRefused(order.attempt, order.number, str(error))
    held.suspension = (order.number, order.stop) if is_done else machine.look(held.id).suspension
    if held.suspension[0] > order.number:
        return SuspensionOutdated(order.attempt, held.suspension[0])
    return confirmation(order.attempt, order.number, stopped=order.stop) if is_done else None


def confirmation(attempt: int, number: int, *, stopped: bool) -> SuspensionReport:
    """Return the event that an order to suspend an attempt, or to let it go on, was carried out."""
    return Suspended(attempt, number) if stopped else Resumed(attempt, number)


def let_run(machine: AttemptProcesses, held: HeldAttempt | None) -> None:
    """Let an attempt go on that is suspended, and of which the broker knows no suspension: its store was restored."""
    number, is_stopped = (0, False) if held is None else held.suspension
    if held is not None and held.end is None and is_stopped:
        machine.suspend(held.id, number + 1, stop=False)
        held.suspension = (number + 1, False)


def void_prefetched(machine: AttemptProcesses, all_held: dict[AttemptId, HeldAttempt]) -> None:
    """Void prefetched attempts: a broker restored from a backup would not know that they start."""
    for attempt, held in list(all_held.items()):
        if held.phase is Phase.PREFETCHED:
            with one_alone(attempt):
                if machine.void(attempt):
                    del all_held[attempt]


def is_over(machine: AttemptProcesses, all_held: dict[AttemptId, HeldAttempt], attempt: AttemptId) -> bool:
    """Return whether an attempt is known to have ended; an attempt without a run dir may still come."""
    held = all_held.get(attempt)
    if held is not None:
        return held.end is not None
    found = machine.look(attempt)
    return found.exit is not None or (found.claimed and not found.shim_alive and not found.command_alive)


def given_up(attempt: AttemptId) -> RefusedByWorker:
    """Return the event that an attempt was claimed by its worker, so that it never starts."""
    return RefusedByWorker(attempt[1], "given up before it started")


@contextlib.contextmanager
def one_alone(attempt: AttemptId) -> Iterator[None]:
    """Log an OSError of one attempt, so that the other attempts go on; a later tick tries again."""
    try:
        yield
    except OSError as error:
        log.error("attempt_put_off job=%s attempt=%s error=%s", *attempt, error)
