"""The agent: turns orders into processes and what becomes of them into reports.

It keeps nothing that the run dirs do not hold: after a restart the broker says what it believes runs here, and the
agent looks. An end is reported again and again until it is acknowledged.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct

from grassq.core.messages import Ack, Check, Hello, Order, Report, Start, Stop
from grassq.core.model import AttemptId, Outcome, WorkerInfo
from grassq.core.reconcile import Found, Verdict, judge
from grassq.core.states import Exited, Lost, Refused, Started, Stuck
from grassq.core.states import Report as Event

log = logging.getLogger(__name__)

REPEAT_S = 2.0
ORDER_AGAIN_S = 5.0
ORPHAN_LOOK_S = 2.0
#: A shim of an earlier launcher that is killed is nobody's child here: only a look finds that out.
RUNNING_LOOK_S = 10.0


class Runner(Protocol):
    """How attempts become processes: real ones, or a simulator's."""

    boot: str

    def begin(self, start: Start) -> None:
        """Lay out the run dir and order the attempt; OSError when the disk refuses."""

    def look(self, attempt: AttemptId) -> Found:
        """What the run dir and the process table say."""

    def watch(self, attempt: AttemptId) -> None:
        """Say so (`Agent.shim_gone`) when the attempt's shim is gone."""

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Have the attempt's shim end it."""

    def void(self, attempt: AttemptId, boot: str) -> bool:
        """Give the attempt up unless a shim claimed it."""

    def end_orphan(self, attempt: AttemptId, *, kill: bool) -> None:
        """Signal what is left of an attempt whose shim is gone."""


class Phase(Enum):
    """How far an attempt has come here."""

    ORDERED = "told to a shim, not yet claimed"
    RUNNING = "runs under a shim"
    ORPHANED = "runs without a shim"
    ENDED = "ended, and the report is not acknowledged"


class Holding(Struct):
    """One attempt this worker knows of."""

    id: AttemptId
    phase: Phase
    #: When something was last done about it, and when it was last looked at.
    at: float
    start: Start | None = None
    pid: int = 0
    shim: int = 0
    end: Exited | Lost | Refused | None = None
    stop_grace_s: float | None = None
    stop_at: float | None = None
    stuck: str | None = None
    looked_at: float = 0.0


class Agent:
    """One worker's mind: synchronous, driven by orders, by what its processes do, and by a tick."""

    def __init__(
        self, info: WorkerInfo, runner: Runner, send: Callable[[Hello | Report], None], mono: Callable[[], float]
    ) -> None:
        self.info = info
        self._runner = runner
        self._send = send
        self._mono = mono
        self._held: dict[AttemptId, Holding] = {}
        #: Orders that met a disk or process table that could not be read; tried again at the tick.
        self._put_off: dict[tuple[type[Order], AttemptId], Order] = {}

    def hello(self, *, fresh: bool = True) -> None:
        """Tell the broker who this is; on a fresh connection it answers with what it believes runs here."""
        self._send(Hello(self.info, fresh))

    def describe(self, info: WorkerInfo) -> None:
        """Something about this worker is new: its offers, or its devices."""
        self.info = info
        self.hello(fresh=False)

    def order(self, order: Order) -> None:
        """Do what the broker asks; the same order may come any number of times."""
        try:
            self._obey(order)
        except OSError as error:
            log.error("order_put_off order=%s error=%s", type(order).__name__, error)
            self._put_off[type(order), order.id] = order

    def _obey(self, order: Order) -> None:
        match order:
            case Start():
                self._start(order)
            case Check():
                self._check(order.id, order.boot)
            case Stop():
                self._stop(order.id, order.grace_s, order.boot)
            case Ack():
                holding = self._held.get(order.id)
                if holding is not None and holding.end is not None:
                    del self._held[holding.id]

    def _start(self, start: Start) -> None:
        holding = self._held.get(start.id)
        if holding is None:
            self._recover(start.id, start, start.placement.boot)
        else:
            holding.start = holding.start or start
            self._tell(holding)

    def _check(self, attempt: AttemptId, boot: str) -> None:
        holding = self._held.get(attempt)
        if holding is None:
            self._recover(attempt, None, boot)
        else:
            self._tell(holding)

    def _recover(self, attempt: AttemptId, start: Start | None, boot: str) -> None:
        """Look how an attempt stands, and go on from there."""
        found = self._runner.look(attempt)
        verdict = judge(attempt[1], found, may_start=start is not None, same_boot=boot == self._runner.boot)
        now = self._mono()
        holding = Holding(attempt, Phase.ORDERED, now, start, found.pid or 0, looked_at=now)
        self._held[attempt] = holding
        match verdict:
            case Verdict.ORDER:
                self._begin(holding)
            case Verdict.WATCH:
                holding.phase = Phase.RUNNING
                self._runner.watch(attempt)
                self._tell(holding)
            case Verdict.ORPHANED:
                self._orphaned(holding)
            case Exited() | Lost() | Refused():
                self._ended(holding, verdict)

    def _begin(self, holding: Holding) -> None:
        assert holding.start is not None
        holding.at = self._mono()
        before, holding.stuck = holding.stuck, None
        try:
            self._runner.begin(holding.start)
        except OSError as error:
            # Kept as ordered and tried again at the tick: a full disk is no reason to use the job's tries up.
            holding.stuck = f"its run dir cannot be made: {error.strerror}"
            if holding.stuck != before:
                self._report(holding, Stuck(holding.id[1], holding.stuck))

    def _orphaned(self, holding: Holding) -> None:
        holding.phase = Phase.ORPHANED
        self._report(holding, Started(holding.id[1], holding.pid))
        self._report(holding, Stuck(holding.id[1], "supervisor gone; it runs on, but its exit code will not be known"))

    def _ended(self, holding: Holding, end: Exited | Lost | Refused) -> None:
        holding.phase, holding.end = Phase.ENDED, end
        self._report(holding, end)

    def _tell(self, holding: Holding) -> None:
        """Say again how an attempt stands."""
        if holding.end is not None:
            return self._report(holding, holding.end)
        if holding.phase is not Phase.ORDERED:
            # An adopted shim may have claimed and not yet spawned when we first looked.
            holding.pid = holding.pid or self._runner.look(holding.id).pid or 0
            if holding.pid:
                self._report(holding, Started(holding.id[1], holding.pid))
        if holding.stuck is not None:
            self._report(holding, Stuck(holding.id[1], holding.stuck))

    def _report(self, holding: Holding, event: Event) -> None:
        holding.at = self._mono()
        self._send(Report(holding.id[0], event))

    def _stop(self, attempt: AttemptId, grace_s: float, boot: str) -> None:
        if attempt not in self._held:
            self._adopt_to_stop(attempt, boot)
        holding = self._held[attempt]
        if holding.stop_at is None or holding.stop_grace_s != grace_s:
            holding.stop_at, holding.stop_grace_s = self._mono() + grace_s, grace_s
        if holding.end is not None:
            self._tell(holding)
        elif holding.phase is Phase.ORPHANED:
            self._runner.end_orphan(attempt, kill=self._mono() >= holding.stop_at)
        else:
            self._runner.stop(attempt, grace_s)
            self._tell(holding)

    def _adopt_to_stop(self, attempt: AttemptId, boot: str) -> None:
        """A stop for an attempt never heard of: give it up if nobody claimed it, else look."""
        if boot == self._runner.boot and self._runner.void(attempt, boot):
            self._ended(
                self._held.setdefault(attempt, Holding(attempt, Phase.ENDED, self._mono())),
                Refused(attempt[1], "cancelled before it started"),
            )
        else:
            self._recover(attempt, None, boot)

    def heard(self, report: dict[str, Any]) -> None:
        """A launcher or shim said something."""
        event = report["event"]
        if event == "gone":
            for attempt in [h.id for h in self._held.values() if h.shim == report["shim"]]:
                self.shim_gone(attempt)
            return
        holding = self._held.get((report.get("job", 0), report.get("attempt", 0)))
        if holding is not None and holding.end is None:
            with _one_alone(holding):
                self._heard_of(holding, event, report)

    def _heard_of(self, holding: Holding, event: str, report: dict[str, Any]) -> None:
        match event:
            case "started":
                holding.phase, holding.pid, holding.shim = Phase.RUNNING, report["pid"], report["shim"]
                holding.looked_at, holding.stuck = self._mono(), None
                self._report(holding, Started(holding.id[1], holding.pid))
                if holding.stop_grace_s is not None:
                    self._runner.stop(holding.id, holding.stop_grace_s)
            case "exited":
                self._ended(holding, exited(holding.id[1], report["record"]))
            case "stuck":
                holding.stuck = "killed, and yet it does not end; its devices stay taken"
                self._tell(holding)
            case "duplicate" | "bad_spec" | "claim_failed":
                if holding.phase is Phase.ORDERED:
                    self._look_again(holding)

    def shim_gone(self, attempt: AttemptId) -> None:
        """A shim ended: what it left says whether its attempt has."""
        holding = self._held.get(attempt)
        if holding is not None and holding.end is None:
            self._look_again(holding)

    def _look_again(self, holding: Holding) -> None:
        holding.looked_at = self._mono()
        try:
            found = self._runner.look(holding.id)
        except OSError as error:
            log.error("look_failed job=%s attempt=%s error=%s", *holding.id, error)
            return  # what cannot be known now is looked at again at a later tick
        holding.pid = found.pid or holding.pid
        # What has run once is never ordered again, also when its run dir has vanished.
        may_start = holding.start is not None and holding.phase is Phase.ORDERED
        verdict = judge(holding.id[1], found, may_start=may_start, same_boot=True)
        match verdict:
            case Verdict.ORDER:
                holding.phase = Phase.ORDERED
            case Verdict.WATCH:
                if holding.phase is Phase.ORDERED:
                    holding.phase, holding.stuck = Phase.RUNNING, None
                    self._runner.watch(holding.id)
                    self._tell(holding)
            case Verdict.ORPHANED:
                if holding.phase is not Phase.ORPHANED:
                    self._orphaned(holding)
            case Exited() | Lost() | Refused():
                self._ended(holding, verdict)

    def tick(self) -> None:
        """Repeat what was not answered, and look after what nobody watches."""
        now = self._mono()
        put_off, self._put_off = self._put_off, {}
        for order in put_off.values():
            self.order(order)
        for holding in list(self._held.values()):
            with _one_alone(holding):
                self._look_after(holding, now)

    def _look_after(self, holding: Holding, now: float) -> None:
        waited = now - holding.at
        if holding.phase is Phase.ENDED and waited >= REPEAT_S:
            self._tell(holding)
        elif holding.phase is Phase.ORDERED and waited >= ORDER_AGAIN_S:
            self._order_again(holding)
        elif holding.phase is Phase.RUNNING and now - holding.looked_at >= RUNNING_LOOK_S:
            self._look_again(holding)
        elif holding.phase is Phase.ORPHANED and now - holding.looked_at >= ORPHAN_LOOK_S:
            self._look_again(holding)
            if holding.end is None and holding.stop_at is not None:
                self._runner.end_orphan(holding.id, kill=now >= holding.stop_at)

    def _order_again(self, holding: Holding) -> None:
        found = self._runner.look(holding.id)
        holding.at = self._mono()
        if found.claimed or found.exit is not None or found.void:
            self._look_again(holding)
        elif holding.start is not None:
            self._begin(holding)

    def watch_all(self) -> None:
        """The launcher died, and with it the word of when its shims end: watch them directly."""
        for holding in self._held.values():
            if holding.phase is Phase.RUNNING:
                with _one_alone(holding):
                    self._runner.watch(holding.id)

    @property
    def idle(self) -> bool:
        """Nothing is held that needs a tick."""
        return all(holding.phase is Phase.RUNNING for holding in self._held.values())


@contextlib.contextmanager
def _one_alone(holding: Holding) -> Iterator[None]:
    """What fails for one attempt now is tried again later, and keeps no other from its turn."""
    try:
        yield
    except OSError as error:
        log.error("attempt_put_off job=%s attempt=%s error=%s", *holding.id, error)


def exited(attempt: int, record: dict[str, Any]) -> Exited:
    """An exit record as an event."""
    match record["outcome"]:
        case "exited":
            outcome = Outcome.EXITED if record["code"] is not None else Outcome.SIGNALLED
        case "cancelled":
            outcome = Outcome.CANCELLED
        case _:
            outcome = Outcome.SPAWN_FAILED
    return Exited(
        attempt,
        outcome,
        record["code"],
        record["signal"],
        record["error"],
        record["started"],
        record["ended"],
    )
