"""The agent: turns orders into processes, and ends of processes into reports.

The agent keeps nothing that the run dirs do not hold. After a restart, the broker says which attempts it believes to
run here, and the agent looks at their run dirs. An end is reported until the broker acknowledges it.
"""

from __future__ import annotations

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
    SuspendOrder,
    Withdraw,
    WorkerMessage,
)
from grassq.core.model import AttemptId, WorkerInfo
from grassq.core.reconcile import Conclusion, RunState, judge
from grassq.core.states import Exited, Lost, RefusedByWorker, Started, Stuck
from grassq.core.states import Report as Event
from grassq.run import rundir
from grassq.run.lease_timer import GRACE_PART
from grassq.worker import attempts
from grassq.worker.attempts import End, HeldAttempt, LeftAttempts, Phase, RemovedJobs, exited, given_up, one_alone
from grassq.worker.leases import Leases
from grassq.worker.machine import AttemptProcesses

log = logging.getLogger(__name__)

REPEAT_S, ORDER_AGAIN_S, ORPHAN_LOOK_S = 2.0, 5.0, 2.0
#: The machine tells when the files of an attempt are there. This check finds what it did not tell.
COLLECTING_LOOK_S = 10.0
#: Attempts named in a hello. The broker asks about older attempts that it believes to run.
HELD_MAX = 10_000
#: Ends of an earlier daemon that wait for an acknowledgement at a time.
UNTOLD_MAX = 1000
#: How long the looks of one tick may take: on another machine each is a round trip. The next tick does the rest.
LOOKS_S = 2.0


class Agent:
    """Runs one worker's attempts. Synchronous; driven by orders, by reports of processes, and by a tick."""

    def __init__(
        self,
        info: WorkerInfo,
        machine: AttemptProcesses,
        send: Callable[[WorkerMessage], None],
        mono: Callable[[], float],
        *,
        boottime: Callable[[], float],
    ) -> None:
        """`boottime` is the clock of pings and leases."""
        self.info = info
        self._machine = machine
        self._send = send
        self._mono = mono
        self._leases = Leases(boottime, machine)
        self._held: dict[AttemptId, HeldAttempt] = {}
        #: Orders that failed with an OSError of the disk or the process table; retried at the tick.
        self._put_off: dict[tuple[type[Order], AttemptId], Order] = {}
        self._left = LeftAttempts(machine, mono)
        #: The prefetched attempt of each attempt that has one.
        self._next: dict[AttemptId, AttemptId] = {}
        #: Removed jobs, of which a late start is ignored.
        self._forgotten = RemovedJobs()

    def hello(self, *, fresh: bool = True) -> None:
        """Send the broker this worker's description; with `fresh`, also the attempts that have a run dir here."""
        if not fresh:
            return self._send(Hello(self.info, False))
        # The broker repeats a start that it still wants. An earlier start may have gone to another worker since.
        self._put_off = {key: order for key, order in self._put_off.items() if not isinstance(order, Start)}
        self._held = {attempt: held for attempt, held in self._held.items() if not held.traceless}
        attempts.void_prefetched(self._machine, self._held)
        found = self._machine.inventory(HELD_MAX)
        self._left.begin(found.unacked)
        self._send(Hello(self.info, True, tuple(found.held), unrecorded=tuple(found.unrecorded)))

    def describe(self, info: WorkerInfo) -> None:
        """Send the broker a changed description of this worker: its offers or its devices."""
        self.info = info
        self.hello(fresh=False)

    def order(self, order: Order) -> None:
        """Execute an order of the broker; the same order may come any number of times."""
        if isinstance(order, Forget):
            return self._forget(order)
        try:
            match order:
                case Start():
                    self._start(order)
                case Check():
                    if (held := self._held.get(order.id)) is not None:
                        self._tell(held)
                    else:
                        self._recover(order.id, None, order.boot)
                case SuspendOrder():
                    self._suspend(order)
                case Stop():
                    self._stop(order.id, order.grace_s, order.boot)
                case Withdraw():
                    if order.unrecorded:
                        self._machine.mark(order.id, rundir.UNRECORDED)
                    self._withdraw(order.id, order.boot)
                case Ack():
                    self._acknowledged(order.id)
            if isinstance(order, Start | Withdraw) or (isinstance(order, Check) and not order.suspended):
                # The broker knows of no suspension: its store may have been restored from a backup.
                attempts.let_run(self._machine, self._held.get(order.id))
        except OSError as error:
            log.error("order_put_off order=%s error=%s", type(order).__name__, error)
            self._put_off[type(order), order.id] = order

    def confirmed(self, at: float) -> None:
        """Renew leases: the broker has answered a ping that was sent at this time of `boottime`."""
        if self._leases.confirm(at):
            for held in self._held.values():
                with one_alone(held.id):
                    self._leases.renew(held)

    def _acknowledged(self, attempt: AttemptId) -> None:
        held = self._held.get(attempt)
        if held is None or held.end is not None:
            self._held.pop(attempt, None)
            # Without the marker, the next daemon sends one report more.
            with one_alone(attempt):
                self._machine.mark(attempt, rundir.ACKED)

    def _forget(self, order: Forget) -> None:
        active = {held.id[0] for held in self._held.values() if held.end is None}
        gone = set(jobs := [job for job in order.jobs if job not in active])
        self._forgotten.add(jobs)
        self._held = {attempt: held for attempt, held in self._held.items() if attempt[0] not in gone}
        self._machine.forget(jobs, order.spare, keep_logs=order.keep_logs)

    def _start(self, start: Start) -> None:
        if start.job in self._forgotten:
            log.warning("start_ignored job=%s attempt=%s: the job was removed", *start.id)
            return
        held = self._held.get(start.id)
        if held is not None and self._leases.has_lapsed(held):
            held = None
        if held is None:
            self._recover(start.id, start, start.placement.boot)
        else:
            held.start = start
            if (held.phase is Phase.PREFETCHED and start.placement.after is None) or (held.unclaimed and held.stuck):
                # The broker knows that the predecessor has ended; or the run dir may be made now.
                self._begin(held)
            self._tell(held)

    def _recover(self, attempt: AttemptId, start: Start | None, boot: str, found: RunState | None = None) -> None:
        """Look at the run dir of an attempt that is not held, and continue from what is found."""
        found = found or self._machine.look(attempt)
        verdict = judge(attempt[1], found, may_start=start is not None, same_boot=boot == self._machine.boot)
        now, pid = self._mono(), found.pid or 0
        held = HeldAttempt(attempt, Phase.ORDERED, now, start, pid, looked_at=now, laid_out=found.claimed)
        held.suspension = found.suspension
        if verdict is Conclusion.ORDER and not self._leases.grant(held):
            return
        if verdict in (Conclusion.WATCH, Conclusion.ORPHANED):
            held.lease = self._machine.leased(attempt)
        self._held[attempt] = held
        if verdict is Conclusion.ORDER:
            self._begin(held)
        else:
            held.traceless = found == RunState()
            self._follow(held, verdict)

    def _follow(self, held: HeldAttempt, verdict: Conclusion | End) -> None:
        """Continue with an attempt as its run dir says."""
        match verdict:
            case Conclusion.WATCH if held.unclaimed:
                held.phase, held.stuck = Phase.RUNNING, None
                self._watch(held)
                self._tell(held)
            case Conclusion.ORPHANED if held.phase is not Phase.ORPHANED:
                self._orphaned(held)
            case Exited() | Lost() | RefusedByWorker():
                self._ended(held, verdict)

    def _begin(self, held: HeldAttempt) -> None:
        assert held.start is not None
        held.at = self._mono()
        before, held.stuck = held.stuck, None
        after = held.start.placement.after
        try:
            if after is None or attempts.is_over(self._machine, self._held, after):
                held.phase = Phase.ORDERED
                self._machine.start(held.start, held.lease)
            else:
                held.phase = Phase.PREFETCHED
                if after not in self._held:
                    return  # nothing is known of the predecessor yet; the tick tries this attempt again
                self._next[after] = held.id
                self._machine.start(held.start, held.lease, after)
            held.laid_out = True
        except OSError as error:
            # The attempt stays ordered and the tick tries again: a full disk must not use up the job's retries.
            held.stuck = f"its run dir cannot be made: {error.strerror}"
            if held.stuck != before:
                self._report(held, Stuck(held.id[1], held.stuck))

    def _withdraw(self, attempt: AttemptId, boot: str) -> None:
        """Void a prefetched attempt, unless it has begun."""
        held = self._held.get(attempt)
        if held is None:
            self._adopt_to_stop(attempt, boot)
        elif held.end is not None:
            self._tell(held)
        elif held.unclaimed and self._machine.void(attempt):
            self._ended(held, RefusedByWorker(attempt[1], "withdrawn, to start earlier elsewhere"))

    def _orphaned(self, held: HeldAttempt) -> None:
        held.phase = Phase.ORPHANED
        self._report(held, Started(held.id[1], held.pid))
        if held.lease is None:
            why = "supervisor gone; the command keeps running, but its exit code will not be known"
        else:
            why = "supervisor gone; the command is ended now: nothing else would end it when its lease is over"
            held.stop_at = min(held.stop_at, self._mono() + min(STOP_GRACE_S, GRACE_PART * held.lease.length_s))
            self._end(held)
        self._report(held, Stuck(held.id[1], why))

    def _ended(self, held: HeldAttempt, end: End, *, goes_on: bool = False) -> None:
        """Report an end when its files are there; with `goes_on`, its shim starts the prefetched attempt itself."""
        if isinstance(end, Exited):
            collected = self._machine.collect(held.id, end)
            if collected is None:
                held.phase, held.looked_at = Phase.COLLECTING, self._mono()
                return
            end = collected
        held.phase, held.end = Phase.ENDED, end
        self._report(held, end)
        prefetched = self._held.get(self._next.pop(held.id, held.id))
        if prefetched is None or prefetched is held or not prefetched.unclaimed or goes_on:
            return
        with one_alone(prefetched.id):
            self._begin(prefetched)

    def _tell(self, held: HeldAttempt) -> None:
        """Report the state of an attempt again."""
        if held.end is not None:
            return self._report(held, held.end)
        if not held.unclaimed:
            # When this worker adopted the shim, the shim may have claimed the attempt and not yet spawned the command.
            held.pid = held.pid or self._machine.look(held.id).pid or 0
            if held.pid:
                self._report(held, Started(held.id[1], held.pid))
        if held.stuck is not None:
            self._report(held, Stuck(held.id[1], held.stuck))

    def _report(self, held: HeldAttempt, event: Event) -> None:
        held.at = self._mono()
        self._send(Report(held.id[0], event))

    def _stop(self, attempt: AttemptId, grace_s: float, boot: str) -> None:
        if attempt not in self._held:
            self._adopt_to_stop(attempt, boot)
        held = self._held[attempt]
        # A repeated order may shorten the grace, never extend it.
        held.stop_at = min(held.stop_at, self._mono() + grace_s)
        if held.unclaimed and self._machine.void(attempt):
            # Its files may still be on their way, or its run dir cannot be made: no shim would find a stop file.
            return self._ended(held, given_up(attempt))
        if held.end is None:
            self._end(held)
        if held.phase is not Phase.ORPHANED:
            self._tell(held)

    def _suspend(self, order: SuspendOrder) -> None:
        """Suspend an attempt that runs, or let it go on; the broker repeats the order until that is reported."""
        if order.id not in self._held:
            self._recover(order.id, None, order.boot)
        held = self._held.get(order.id)
        if held is not None and held.phase in (Phase.RUNNING, Phase.ORPHANED):
            if (event := attempts.suspend(self._machine, held, order)) is None:
                # A shim of an earlier daemon does not tell when it is done: the next tick looks.
                self._put_off[SuspendOrder, order.id] = order
            else:
                self._report(held, event)

    def _end(self, held: HeldAttempt) -> None:
        """Stop an attempt within what is left of its grace."""
        self._machine.stop(held.id, max(0.0, held.stop_at - self._mono()))

    def _adopt_to_stop(self, attempt: AttemptId, boot: str) -> None:
        """Void an unknown attempt that must end, if no shim claimed it; else look at its run dir."""
        if boot == self._machine.boot and self._machine.void(attempt):
            held = self._held.setdefault(attempt, HeldAttempt(attempt, Phase.ENDED, self._mono()))
            self._ended(held, given_up(attempt))
        else:
            self._recover(attempt, None, boot)

    def heard(self, report: dict[str, Any]) -> None:
        """Handle a report of a launcher or shim."""
        event = report["event"]
        if event == "gone":
            for attempt in [h.id for h in self._held.values() if h.shim == report["shim"]]:
                self.shim_gone(attempt)
            return
        held = self._held.get((report.get("job", 0), report.get("attempt", 0)))
        if held is not None and held.end is None:
            with one_alone(held.id):
                self._heard_of(held, event, report)

    def _heard_of(self, held: HeldAttempt, event: str, report: dict[str, Any]) -> None:
        match event:
            case "started":
                held.phase, held.pid, held.shim = Phase.RUNNING, report["pid"], report["shim"]
                held.looked_at, held.stuck = self._mono(), None
                self._report(held, Started(held.id[1], held.pid))
                held.watched = not report.get("stray")
                if not held.watched:
                    self._watch(held)
                if held.stop_at < math.inf:
                    self._end(held)
            case "exited":
                # A command that ended at once sends only this report; it includes the start.
                self._ended(held, exited(held.id[1], report["record"]), goes_on=report.get("next", False))
            case "suspended":
                self._report(held, attempts.confirmation(held.id[1], report["number"], stopped=report["stop"]))
            case "delayed":
                held.stuck = report["why"]
                self._tell(held)
            case "refused":
                # Told before: the claim may not be written now, as on a full disk.
                held.stuck = report["why"]
                self._tell(held)
                if held.unclaimed and self._machine.void(held.id):
                    self._ended(held, RefusedByWorker(held.id[1], held.stuck, final=True))
            case "stuck":
                held.stuck = "killed, but it does not end; its devices stay in use"
                self._tell(held)
            case "duplicate" | "bad_spec" | "claim_failed":
                if held.unclaimed:
                    self._look_again(held)
                if held.unclaimed and "error" in report:
                    held.stuck = f"it cannot be claimed: {report['error']}"
                    self._tell(held)

    def shim_gone(self, attempt: AttemptId) -> None:
        """Look at the run dir of an attempt whose shim has ended."""
        held = self._held.get(attempt)
        if held is not None and held.end is None:
            with one_alone(attempt):
                self._look_again(held)

    def _look_again(self, held: HeldAttempt) -> None:
        held.looked_at = self._mono()
        found = self._machine.look(held.id)
        held.pid = found.pid or held.pid
        # An attempt that has run is never ordered again, even if its run dir has vanished.
        may_start = held.start is not None and held.unclaimed
        self._follow(held, judge(held.id[1], found, may_start=may_start, same_boot=True))

    def tick(self) -> None:
        """Repeat reports without an acknowledgement, and look at attempts that no pidfd or launcher watches."""
        now = self._mono()
        put_off, self._put_off = self._put_off, {}
        for order in put_off.values():
            self.order(order)
        # What was looked after is not due again at the next tick, so the others have their turn.
        until = now + LOOKS_S
        for held in list(self._held.values()):
            if held.phase is not Phase.RUNNING and self._mono() <= until:
                with one_alone(held.id):
                    self._look_after(held, now)
        self._look_around(now, until)
        self._look_at_left(until)

    def _look_after(self, held: HeldAttempt, now: float) -> None:
        waited = now - held.at
        if held.phase is Phase.ENDED and waited >= REPEAT_S:
            self._tell(held)
        elif held.unclaimed and waited >= ORDER_AGAIN_S:
            self._order_again(held)
        elif held.phase is Phase.COLLECTING and now - held.looked_at >= COLLECTING_LOOK_S:
            self._look_again(held)
        elif held.phase is Phase.ORPHANED and now - held.looked_at >= ORPHAN_LOOK_S:
            self._look_again(held)
            if held.end is None and held.stop_at < math.inf:
                self._end(held)

    def _look_around(self, now: float, until: float) -> None:
        """Look at running attempts that were not looked at for a while."""
        for held in attempts.due_for_a_look(self._held.values(), now):
            if self._mono() > until:
                return
            with one_alone(held.id):
                self._look_again(held)

    def _look_at_left(self, until: float) -> None:
        """Look at some attempts of an earlier daemon; report those that have ended or still run."""
        untold = sum(held.end is not None for held in self._held.values())
        for attempt, found in self._left.looked_at(UNTOLD_MAX - untold, until, self._held):
            with one_alone(attempt):
                self._recover(attempt, None, self._machine.boot, found)

    def _order_again(self, held: HeldAttempt) -> None:
        self._look_again(held)
        if self._leases.has_lapsed(held):
            # A shim that takes this order later finds the lease over. The broker decides whether to order again.
            del self._held[held.id]
        elif held.unclaimed:
            self._begin(held)

    def watch_all(self) -> None:
        """Watch the shim of every running attempt by its pidfd: the launcher, which reports their ends, died."""
        for held in self._held.values():
            if held.phase is Phase.RUNNING:
                held.watched = False
                with one_alone(held.id):
                    self._watch(held)

    def _watch(self, held: HeldAttempt) -> None:
        self._machine.watch(held.id)
        held.watched = True

    @property
    def active(self) -> int:
        """The number of held attempts that have not ended."""
        return sum(held.end is None for held in self._held.values())

    @property
    def idle(self) -> bool:
        """Whether no held attempt and no order needs a tick."""
        return not self._left and not self._put_off and all(held.phase is Phase.RUNNING for held in self._held.values())
