"""The agent: turns orders into processes and what becomes of them into reports.

It keeps nothing that the run dirs do not hold: after a restart the broker says what it believes runs here, and the
agent looks. An end is reported again and again until it is acknowledged.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable
from typing import Any

from grassq.core.job_options import STOP_GRACE_S
from grassq.core.messages import (
    Ack,
    Check,
    Forget,
    Hello,
    Order,
    Report,
    Start,
    Stop,
    StorePosition,
    Withdraw,
    WorkerMessage,
)
from grassq.core.model import AttemptId, WorkerInfo
from grassq.core.reconcile import Conclusion, RunState, judge
from grassq.core.states import Exited, Lost, RefusedByWorker, Started, Stuck
from grassq.core.states import Report as Event
from grassq.run.lease_timer import GRACE_PART
from grassq.worker.attempts import End, Forgotten, HeldAttempt, Phase, exited, one_alone
from grassq.worker.lender import Lender
from grassq.worker.machine import AttemptProcesses
from grassq.worker.unacked import UnackedReports

log = logging.getLogger(__name__)

REPEAT_S = 2.0
ORDER_AGAIN_S = 5.0
ORPHAN_LOOK_S = 2.0
#: The end of a shim is told by its launcher or by its pidfd; only a look finds it out where neither does.
RUNNING_LOOK_S = 10.0
#: At so many that are watched we look in one tick all the same, the longest not looked at first.
RUNNING_LOOKS_MAX = 10
#: How many attempts are named in a hello; the broker asks of itself about older ones it believes to run.
HELD_MAX = 10_000


class Agent:
    """One worker's mind: synchronous, driven by orders, by what its processes do, and by a tick."""

    def __init__(
        self,
        info: WorkerInfo,
        machine: AttemptProcesses,
        send: Callable[[WorkerMessage], None],
        mono: Callable[[], float],
        *,
        boottime: Callable[[], float],
        seen: Callable[[], StorePosition | None] = lambda: None,
    ) -> None:
        """`boottime` is the clock of pings and leases; `seen` says which position of the broker's store we know of."""
        self.info = info
        self._machine = machine
        self._send = send
        self._mono = mono
        self._lender = Lender(boottime, machine)
        self._seen = seen
        self._held: dict[AttemptId, HeldAttempt] = {}
        #: Orders that met a disk or process table that could not be read; tried again at the tick.
        self._put_off: dict[tuple[type[Order], AttemptId], Order] = {}
        self._outbox = UnackedReports(machine)
        #: Who takes over from an attempt when that has ended.
        self._next: dict[AttemptId, AttemptId] = {}
        self._forgotten = Forgotten()

    def hello(self, *, fresh: bool = True) -> None:
        """Tell the broker who this is; on a fresh connection it answers with what it believes runs here."""
        if not fresh:
            return self._send(Hello(self.info, False))
        # What the broker still wants started it says again; what it wanted before may run elsewhere by now.
        self._put_off = {key: order for key, order in self._put_off.items() if not isinstance(order, Start)}
        self._held = {attempt: holding for attempt, holding in self._held.items() if not holding.traceless}
        self._give_up_followers()
        self._outbox.fill()
        held, unrecorded = self._machine.inventory(HELD_MAX), self._machine.unrecorded(HELD_MAX)
        self._send(Hello(self.info, True, tuple(held), self._seen(), tuple(unrecorded)))

    def _give_up_followers(self) -> None:
        """Nobody begins without being asked after this: a broker restored from a backup would not know of it."""
        for attempt, holding in list(self._held.items()):
            if holding.waits_behind:
                with one_alone(attempt):
                    if self._machine.void(attempt, self._machine.boot):
                        del self._held[attempt]

    def describe(self, info: WorkerInfo) -> None:
        """Something about this worker is new: its offers, or its devices."""
        self.info = info
        self.hello(fresh=False)

    def order(self, order: Order) -> None:
        """Do what the broker asks; the same order may come any number of times."""
        if isinstance(order, Forget):
            return self._forget(order)
        try:
            self._obey(order)
        except OSError as error:
            log.error("order_put_off order=%s error=%s", type(order).__name__, error)
            self._put_off[type(order), order.id] = order

    def confirmed(self, at: float) -> None:
        """The broker has answered a ping sent at this moment of `boottime`: leases last longer."""
        if self._lender.confirm(at):
            for holding in self._held.values():
                with one_alone(holding.id):
                    self._lender.renew(holding)

    def _obey(self, order: Start | Check | Stop | Withdraw | Ack) -> None:
        match order:
            case Start():
                self._start(order)
            case Check():
                self._check(order.id, order.boot)
            case Stop():
                self._stop(order.id, order.grace_s, order.boot)
            case Withdraw():
                if order.unrecorded:
                    self._machine.mark_unrecorded(order.id)
                self._withdraw(order.id, order.boot)
            case Ack():
                self._acknowledged(order.id)

    def _acknowledged(self, attempt: AttemptId) -> None:
        holding = self._held.get(attempt)
        if holding is None or holding.end is not None:
            self._held.pop(attempt, None)
            self._machine.acked(attempt)

    def _forget(self, order: Forget) -> None:
        active = {holding.id[0] for holding in self._held.values() if holding.end is None}
        jobs = [job for job in order.jobs if job not in active]
        self._forgotten.add(jobs)
        gone = set(jobs)
        self._held = {attempt: holding for attempt, holding in self._held.items() if attempt[0] not in gone}
        self._machine.forget(jobs, order.spare)

    def _start(self, start: Start) -> None:
        if start.job in self._forgotten:
            log.warning("start_ignored job=%s attempt=%s: the job was removed", *start.id)
            return
        holding = self._held.get(start.id)
        if holding is not None and self._lender.has_lapsed(holding):
            holding = None
        if holding is None:
            self._recover(start.id, start, start.placement.boot)
        else:
            waited, holding.start = holding.waits_behind, start
            if (waited and start.placement.after is None) or (holding.phase is Phase.ORDERED and holding.stuck):
                # The one it waited behind is over, as the broker knows; or its run dir may be made by now.
                self._begin(holding)
            self._tell(holding)

    def _check(self, attempt: AttemptId, boot: str) -> None:
        holding = self._held.get(attempt)
        if holding is None:
            self._recover(attempt, None, boot)
        else:
            self._tell(holding)

    def _recover(self, attempt: AttemptId, start: Start | None, boot: str, found: RunState | None = None) -> None:
        """Look how an attempt stands, and go on from there."""
        found = found or self._machine.look(attempt)
        verdict = judge(attempt[1], found, may_start=start is not None, same_boot=boot == self._machine.boot)
        now = self._mono()
        laid_out = found.claimed
        holding = HeldAttempt(attempt, Phase.ORDERED, now, start, found.pid or 0, looked_at=now, laid_out=laid_out)
        if verdict is Conclusion.ORDER and not self._lender.grant(holding):
            return
        if verdict in (Conclusion.WATCH, Conclusion.ORPHANED):
            holding.lease = self._machine.leased(attempt)
        self._held[attempt] = holding
        match verdict:
            case Conclusion.ORDER:
                self._begin(holding)
            case Conclusion.WATCH:
                holding.phase = Phase.RUNNING
                self._watch(holding)
                self._tell(holding)
            case Conclusion.ORPHANED:
                self._orphaned(holding)
            case Exited() | Lost() | RefusedByWorker():
                holding.traceless = found == RunState()
                self._ended(holding, verdict)

    def _begin(self, holding: HeldAttempt) -> None:
        assert holding.start is not None
        holding.at = self._mono()
        before, holding.stuck = holding.stuck, None
        after = holding.start.placement.after
        try:
            if after is None or self._is_over(after):
                self._machine.start(holding.start, holding.lease)
            elif after in self._held:
                self._next[after] = holding.id
                self._machine.start(holding.start, holding.lease, after)
            else:
                return  # of that one nothing is known yet; this one is tried again at the tick
            holding.laid_out = True
        except OSError as error:
            # Kept as ordered and tried again at the tick: a full disk is no reason to use the job's tries up.
            holding.stuck = f"its run dir cannot be made: {error.strerror}"
            if holding.stuck != before:
                self._report(holding, Stuck(holding.id[1], holding.stuck))

    def _is_over(self, attempt: AttemptId) -> bool:
        """Whether an attempt is known to have ended: one there is no trace of may be yet to come."""
        holding = self._held.get(attempt)
        if holding is not None:
            return holding.end is not None
        found = self._machine.look(attempt)
        return found.exit is not None or (found.claimed and not found.shim_alive and not found.command_alive)

    def _withdraw(self, attempt: AttemptId, boot: str) -> None:
        """Give an attempt up that waits behind another, unless it has begun."""
        holding = self._held.get(attempt)
        if holding is None:
            self._adopt_to_stop(attempt, boot)
        elif holding.end is not None:
            self._tell(holding)
        elif holding.phase is Phase.ORDERED and self._machine.void(attempt, boot):
            self._ended(holding, RefusedByWorker(attempt[1], "taken back, to start where there is room sooner"))

    def _orphaned(self, holding: HeldAttempt) -> None:
        holding.phase = Phase.ORPHANED
        self._report(holding, Started(holding.id[1], holding.pid))
        if holding.lease is None:
            why = "supervisor gone; it runs on, but its exit code will not be known"
        else:
            why = "supervisor gone; it is ended, because nobody else would do so when its lease is over"
            grace_s = min(STOP_GRACE_S, GRACE_PART * holding.lease.length_s)
            holding.stop_at = min(holding.stop_at or math.inf, self._mono() + grace_s)
            self._machine.end_orphan(holding.id, kill=self._mono() >= holding.stop_at)
        self._report(holding, Stuck(holding.id[1], why))

    def _ended(self, holding: HeldAttempt, end: End, *, goes_on: bool = False) -> None:
        """Report an end; `goes_on` says that its shim begins the attempt that takes over."""
        holding.phase, holding.end = Phase.ENDED, end
        self._report(holding, end)
        prefetched = self._held.get(self._next.pop(holding.id, holding.id))
        if prefetched is None or prefetched is holding or prefetched.phase is not Phase.ORDERED or goes_on:
            return
        with one_alone(prefetched.id):
            self._begin(prefetched)

    def _tell(self, holding: HeldAttempt) -> None:
        """Say again how an attempt stands."""
        if holding.end is not None:
            return self._report(holding, holding.end)
        if holding.phase is not Phase.ORDERED:
            # An adopted shim may have claimed and not yet spawned when we first looked.
            holding.pid = holding.pid or self._machine.look(holding.id).pid or 0
            if holding.pid:
                self._report(holding, Started(holding.id[1], holding.pid))
        if holding.stuck is not None:
            self._report(holding, Stuck(holding.id[1], holding.stuck))

    def _report(self, holding: HeldAttempt, event: Event) -> None:
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
            self._machine.end_orphan(attempt, kill=self._mono() >= holding.stop_at)
        else:
            self._machine.stop(attempt, grace_s)
            self._tell(holding)

    def _adopt_to_stop(self, attempt: AttemptId, boot: str) -> None:
        """A stop for an attempt never heard of: give it up if nobody claimed it, else look."""
        if boot == self._machine.boot and self._machine.void(attempt, boot):
            self._ended(
                self._held.setdefault(attempt, HeldAttempt(attempt, Phase.ENDED, self._mono())),
                RefusedByWorker(attempt[1], "given up before it started"),
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
            with one_alone(holding.id):
                self._heard_of(holding, event, report)

    def _heard_of(self, holding: HeldAttempt, event: str, report: dict[str, Any]) -> None:
        match event:
            case "started":
                holding.phase, holding.pid, holding.shim = Phase.RUNNING, report["pid"], report["shim"]
                holding.looked_at, holding.stuck = self._mono(), None
                self._report(holding, Started(holding.id[1], holding.pid))
                holding.watched = not report.get("stray")
                if not holding.watched:
                    self._watch(holding)
                if holding.stop_grace_s is not None:
                    self._machine.stop(holding.id, holding.stop_grace_s)
            case "exited":
                # Of what was over at once only this is said: that it ran is part of it.
                self._ended(holding, exited(holding.id[1], report["record"]), goes_on=bool(report.get("next")))
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

    def _look_again(self, holding: HeldAttempt) -> None:
        holding.looked_at = self._mono()
        try:
            found = self._machine.look(holding.id)
        except OSError as error:
            log.error("look_failed job=%s attempt=%s error=%s", *holding.id, error)
            return  # what cannot be known now is looked at again at a later tick
        holding.pid = found.pid or holding.pid
        # What has run once is never ordered again, also when its run dir has vanished.
        may_start = holding.start is not None and holding.phase is Phase.ORDERED
        verdict = judge(holding.id[1], found, may_start=may_start, same_boot=True)
        match verdict:
            case Conclusion.ORDER:
                holding.phase = Phase.ORDERED
            case Conclusion.WATCH:
                if holding.phase is Phase.ORDERED:
                    holding.phase, holding.stuck = Phase.RUNNING, None
                    self._watch(holding)
                    self._tell(holding)
            case Conclusion.ORPHANED:
                if holding.phase is not Phase.ORPHANED:
                    self._orphaned(holding)
            case Exited() | Lost() | RefusedByWorker():
                self._ended(holding, verdict)

    def tick(self) -> None:
        """Repeat what was not answered, and look after what nobody watches."""
        now = self._mono()
        put_off, self._put_off = self._put_off, {}
        for order in put_off.values():
            self.order(order)
        for holding in list(self._held.values()):
            if holding.phase is not Phase.RUNNING:
                with one_alone(holding.id):
                    self._look_after(holding, now)
        self._look_around(now)
        for attempt, found in self._outbox.take(self._held):
            with one_alone(attempt):
                self._recover(attempt, None, self._machine.boot, found)

    def _look_after(self, holding: HeldAttempt, now: float) -> None:
        waited = now - holding.at
        if holding.phase is Phase.ENDED and waited >= REPEAT_S:
            self._tell(holding)
        elif holding.phase is Phase.ORDERED and waited >= ORDER_AGAIN_S:
            self._order_again(holding)
        elif holding.phase is Phase.ORPHANED and now - holding.looked_at >= ORPHAN_LOOK_S:
            self._look_again(holding)
            if holding.end is None and holding.stop_at is not None:
                self._machine.end_orphan(holding.id, kill=now >= holding.stop_at)

    def _look_around(self, now: float) -> None:
        """Look at what runs unwatched, and at a few of the others: of a thousand, at all in ten minutes."""
        due = [h for h in self._held.values() if h.phase is Phase.RUNNING and now - h.looked_at >= RUNNING_LOOK_S]
        unwatched = [holding for holding in due if not holding.watched]
        watched = (holding for holding in due if holding.watched)
        few = heapq.nsmallest(RUNNING_LOOKS_MAX, watched, key=lambda holding: holding.looked_at)
        for holding in (*unwatched, *few):
            with one_alone(holding.id):
                self._look_again(holding)

    def _order_again(self, holding: HeldAttempt) -> None:
        found = self._machine.look(holding.id)
        holding.at = self._mono()
        if found.claimed or found.exit is not None or found.void:
            self._look_again(holding)
        elif self._lender.has_lapsed(holding):
            # A shim that takes the order yet finds its lease over; whether it is still wanted the broker says.
            del self._held[holding.id]
        elif holding.start is not None:
            self._begin(holding)

    def watch_all(self) -> None:
        """The launcher died, and with it the word of when its shims end: watch them directly."""
        for holding in self._held.values():
            if holding.phase is Phase.RUNNING:
                holding.watched = False
                with one_alone(holding.id):
                    self._watch(holding)

    def _watch(self, holding: HeldAttempt) -> None:
        self._machine.watch(holding.id)
        holding.watched = True

    @property
    def active(self) -> int:
        """How many attempts are held that have not ended."""
        return sum(holding.end is None for holding in self._held.values())

    @property
    def idle(self) -> bool:
        """Nothing is held that needs a tick."""
        return not self._outbox and all(holding.phase is Phase.RUNNING for holding in self._held.values())
