"""Compare what a worker holds when it connects with what the store knows.

A store that was restored from a backup is detected here, by a worker that proves to have seen more of the store's
history than the store itself. Then nothing is started until every known worker has said what it holds. Attempts that
ran after the backup do not come back: their numbers and ids are never used again, their run dirs stay, and `grass
doctor` on their machines names them.

A worker is believed about attempts that the store has no record of only while a restore is certain and the worker has
not spoken since. Otherwise what it says of them changes no job and no id: those of ended jobs, and those that it named
then, only keep the worker itself from other jobs until they have ended.
"""

from __future__ import annotations

import logging

from msgspec import Struct, field
from msgspec.structs import replace

from grassq.broker.actions.suspend import order_again
from grassq.broker.batch import Batch
from grassq.broker.inbox import Orders
from grassq.core import reconcile
from grassq.core.job_options import STOP_GRACE_S
from grassq.core.messages import Forget, Hello, Report, Stop, StoreHistory, StorePosition, Withdraw
from grassq.core.model import ATTEMPT_MAX, FINAL, ID_MAX, AttemptId, Job, Outcome, State
from grassq.core.states import Exited, Hold, RefusedByWorker
from grassq.store.base import Loaded
from grassq.store.high_water import HighWater

log = logging.getLogger(__name__)

#: The word in a store that a mark is kept beside it.
MARKED = "marked"

#: How many of the attempts that a worker holds are compared with the store; the worker names the newest first.
HELD_MAX = 50_000
#: How many ids a broker may have given after the last position that it told a worker.
UNTOLD_MAX = 1000
#: How many abandoned attempts are remembered, to stop them if their workers reconnect.
FENCED_MAX = 10_000
FORGET_MAX = 10_000
#: How many running jobs are remembered of which a worker has a newer attempt; the oldest are dropped first.
NEWER_MAX = 10_000


class RecoveryState(Struct):
    """What is remembered of workers while this broker runs; restored when a batch fails."""

    #: The workers that have said what they hold.
    spoken: set[str] = field(default_factory=set)
    #: The store was found to be restored from a backup.
    restored: bool = False
    #: Attempts given up while their workers were out of touch, to be stopped if they still run.
    fenced: dict[AttemptId, tuple[str, Stop]] = field(default_factory=dict)
    #: Jobs that the store believes to run, and the worker and number of a newer attempt it has no record of.
    newer: dict[int, tuple[str, int]] = field(default_factory=dict)

    def copy(self) -> RecoveryState:
        """Return a copy, to restore after a failed batch."""
        return RecoveryState(set(self.spoken), self.restored, dict(self.fenced), dict(self.newer))


class Recovery:
    """Decides what becomes of the attempts that workers name when they connect."""

    def __init__(self, incarnation: str, mark: HighWater | None = None) -> None:
        self.incarnation = incarnation
        self._mark = mark
        self.state = RecoveryState()
        self._incarnations: dict[str, int] = {}
        self._key = ""
        #: The highest id of any stored job, removed jobs included.
        self._highest_id = 0
        #: The highest id that the store may have given before it was restored from a backup.
        self._restored_to = 0
        self.is_unsure_of_ids = False

    def loaded(self, loaded: Loaded) -> None:
        """Take over the store's history and its ids."""
        self._incarnations = loaded.incarnations
        self._key = loaded.position_key
        self._highest_id = loaded.highest_id
        self._restored_to = loaded.restored_to
        self.state.newer = dict(loaded.newer)

    def begin(self, batch: Batch, store_id: str, lost_jobs: int) -> None:
        """Notice by the mark beside the store, before any worker speaks, that the store went back in time.

        `lost_jobs` have folders on this machine and no record. Every command says so until `grass resume --restored`.
        """
        if lost_jobs:
            batch.board.lost_jobs = batch.changes.lost_jobs = lost_jobs
            _keep_ids(batch)
        if self._mark is None:
            return
        was_kept = batch.store.put_word(MARKED, "yes") is not None
        history = self.history(batch.store.number, batch.next_id - 1)
        found = self._mark.compare(store_id, history, was_kept=was_kept)
        if found is None:
            self._mark.reserve(batch.next_id - 1)
        else:
            batch.next_id = max(batch.next_id, found.ids_to + 1)
            self.restored(batch, found.why)
            others = batch.board.workers.keys() - batch.board.roles.trusted
            self.is_unsure_of_ids = batch.board.is_unsure_of_ids = bool(others) and not found.is_certain

    def storing(self, batch: Batch) -> None:
        """Raise the mark above the ids of new jobs, before they are given."""
        if self._mark is not None and batch.changes.inserted:
            self._mark.reserve(batch.next_id - 1)

    def stored(self, batch: Batch) -> None:
        """Note that a batch was stored: the ids of its new jobs, and what it says of a restore."""
        self._restored_to = max(self._restored_to, batch.changes.restored_to or 0)
        self._highest_id = max([self._highest_id, *batch.changes.inserted])
        if self._mark is None:
            return
        if self.is_unsure_of_ids and not batch.board.unreconciled:
            self.is_unsure_of_ids = batch.board.is_unsure_of_ids = False
            self._mark.reserve(batch.next_id - 1)
        self._mark.note(self.incarnation, batch.store.number)

    def close(self) -> None:
        """Close the mark."""
        if self._mark is not None:
            self._mark.close()

    @property
    def _taken_to(self) -> int:
        return max(self._highest_id, self._restored_to)

    def history(self, number: int, highest_id: int) -> StoreHistory:
        """Return the store's history up to the commit of this number, when this was the highest id given."""
        position = StorePosition(self.incarnation, number, highest_id).proved(self._key)
        return StoreHistory(position, self._key, self._incarnations)

    def hello(self, batch: Batch, hello: Hello) -> Orders:
        """Answer a fresh hello: give up unrecorded attempts, and have the run dirs of removed jobs deleted."""
        name = hello.info.name
        if len(hello.held) > HELD_MAX:
            log.warning("held_not_compared worker=%s attempts=%s", name, len(hello.held) - HELD_MAX)
        newer = {(job, attempt) for job, (worker, attempt) in self.state.newer.items() if worker == name}
        newer &= {*hello.held, *hello.unrecorded}
        seen = self._proved(batch, name, hello.seen)
        is_ahead = self.history(batch.store.number, batch.next_id - 1).is_behind(seen)
        is_restored = is_ahead or name in batch.board.unreconciled
        is_restored |= self.state.restored and name not in self.state.spoken
        told_to = self._taken_to if seen is None or not is_ahead else max(seen.highest_id, self._restored_to)
        held, unrecorded, known = self._believed(batch, _without(hello, newer), told_to, is_restored)
        # A restored store cannot tell a removed job from a job it has no record of.
        restored_to = ID_MAX if is_restored else self._restored_to
        found = reconcile.unknown(held, known, self._taken_to, restored_to)
        self.state.spoken.add(name)
        if is_ahead or any(job in known or job > self._taken_to for job, _ in found.unrecorded):
            batch.next_id = max(batch.next_id, *(1 + id_ for id_ in (told_to, *(job for job, _ in held))))
            self.restored(batch, f"worker {name} has seen more than the store holds")
        # These attempts may run: their devices are in use until the worker reports their ends. An attempt may have been
        # given up before, in an answer that the worker did not get.
        last = {job.attempt_id: job for job in known.values()}
        skipped = [each for each in held if each in last and is_skipped(batch, last[each])]
        may_run = {*found.unrecorded, *found.unwanted, *unrecorded, *skipped, *newer}
        batch.board.workers[name].unrecorded = may_run
        stops = {each: stop for each, (worker, stop) in self.state.fenced.items() if worker == name}
        for each in sorted(may_run):
            if each[0] in known and known[each[0]].state in FINAL:
                stops.setdefault(each, Stop(*each, STOP_GRACE_S, hello.info.boot))
        orders: Orders = [(name, stop) for stop in stops.values()]
        for attempt_id in found.unrecorded:
            orders += self._give_up(batch, name, attempt_id)
        for attempt_id in sorted(may_run):
            orders.append((name, Withdraw(*attempt_id, hello.info.boot, unrecorded=True)))
        if is_restored:
            _keep_ids(batch)
        batch.set_unreconciled(batch.board.unreconciled - {name})
        kept = {job for job, _ in unrecorded}
        return orders + _forget(batch, name, [job for job in found.removed if job not in kept])

    def _proved(self, batch: Batch, name: str, seen: StorePosition | None) -> StorePosition | None:
        """Return the position that a worker was told; None if it was told none, or claims another."""
        if seen is None or seen.is_proved(self._key):
            return seen
        if self.history(batch.store.number, batch.next_id - 1).is_behind(seen):
            log.error("unproved_position worker=%s claims to know later commits than the store", name)
        return None

    def _believed(
        self, batch: Batch, hello: Hello, told_to: int, is_restored: bool
    ) -> tuple[list[AttemptId], list[AttemptId], dict[int, Job]]:
        """Return the attempts that a worker can hold, those of them without a record, and the jobs of both."""
        name, is_trusted = hello.info.name, hello.info.name in batch.board.roles.trusted
        highest_id = ID_MAX - 1 if is_trusted else told_to + UNTOLD_MAX * is_restored
        said = len(hello.held[:HELD_MAX]) + len(hello.unrecorded[:HELD_MAX])
        held, unrecorded = _possible(hello.held, highest_id), _possible(hello.unrecorded, highest_id)
        known = batch.fetch({job for job, _ in held + unrecorded})
        if not (is_restored or is_trusted):
            # Without a restore there is no attempt that the store never heard of. An attempt of an ended job may be
            # left of an earlier restore: only the worker itself waits for it.
            alive = {id_: job for id_, job in known.items() if job.state not in FINAL}
            held = [each for each in held if each[0] not in alive or each[1] <= alive[each[0]].attempt]
            unrecorded = [each for each in unrecorded if each[0] not in alive or is_skipped(batch, alive[each[0]])]
        if len(held) + len(unrecorded) < said:
            log.error("invented_attempts worker=%s count=%s", name, said - len(held) - len(unrecorded))
        return held + unrecorded, unrecorded, known

    def restored(self, batch: Batch, why: str) -> None:
        """Start nothing until every known worker has reconnected: the store is, or may be, older than what was done."""
        _keep_ids(batch)
        if self.state.restored:
            return
        self.state.restored = True
        order_again(batch)
        missing = batch.board.workers.keys() - self.state.spoken
        batch.set_unreconciled(batch.board.unreconciled | missing)
        log.error(
            "restored_from_backup %s; nothing is started until these workers have connected: %s "
            "(`grass resume --restored` goes on without them)",
            why,
            ", ".join(sorted(missing)) or "none is missing",
        )

    def _give_up(self, batch: Batch, worker: str, attempt_id: AttemptId) -> Orders:
        """Let no job use this attempt's number again, and hold the job unless it runs."""
        job_id, attempt = attempt_id
        log.error(
            "unrecorded_attempt worker=%s job=%s attempt=%s: `grass doctor` there names its command",
            worker,
            *attempt_id,
        )
        job = batch.alive(job_id)
        if job is None:
            return []
        if job.state is State.RUNNING:
            # A worker is not believed about a job that runs elsewhere until the running attempt has ended.
            self.state.newer[job_id] = (worker, attempt)
            while len(self.state.newer) > NEWER_MAX:
                del self.state.newer[next(iter(self.state.newer))]
            batch.changes.newer = dict(self.state.newer)
            return []
        orders: Orders = []
        if job.state is State.PLACED:
            # This attempt ended before the newer attempt began, or never began: it must not begin now.
            assert job.placement is not None
            stop = reconcile.stop_of(job)
            self.fence(job.placement.worker, stop)
            orders = [(job.placement.worker, stop)]
            job = batch.move(job, RefusedByWorker(job.attempt, f"worker {worker} has a newer attempt"))
        if job.state not in FINAL:
            _hold(batch, job, worker, attempt)
        return orders

    def settle(self, batch: Batch) -> Orders:
        """Hold jobs that have ended an attempt and have a newer one; stop unrecorded attempts of ended jobs."""
        for job_id in [job_id for job_id in self.state.newer if job_id not in batch.board.holding]:
            worker, attempt = self.state.newer.pop(job_id)
            batch.changes.newer = dict(self.state.newer)
            job = batch.alive(job_id)
            if job is not None and job.attempt < attempt:
                _hold(batch, job, worker, attempt)
        orders: Orders = []
        for name, state in batch.board.workers.items():
            for job_id, attempt in sorted(state.unrecorded):
                if job_id in batch.changes.updated and batch.alive(job_id) is None:
                    stop = Stop(job_id, attempt, STOP_GRACE_S, state.info.boot)
                    self.fence(name, stop)
                    orders.append((name, stop))
        return orders

    def reported(self, batch: Batch, worker: str, attempt: AttemptId) -> bool:
        """Note that an attempt has ended; return whether its worker may take jobs again because of that."""
        fenced = self.state.fenced.get(attempt)
        if fenced is not None and fenced[0] == worker:
            del self.state.fenced[attempt]
        state = batch.board.workers.get(worker)
        if state is None or attempt not in state.unrecorded:
            return False
        state.unrecorded.remove(attempt)
        return not state.unrecorded

    def fence(self, worker: str, stop: Stop) -> None:
        """Remember to stop an abandoned attempt if its worker reconnects and still runs it."""
        self.state.fenced[stop.id] = (worker, stop)
        while len(self.state.fenced) > FENCED_MAX:
            del self.state.fenced[next(iter(self.state.fenced))]


def _without(hello: Hello, attempts: set[AttemptId]) -> Hello:
    """Return a hello that does not name these attempts."""
    held, unrecorded = ([each for each in named if each not in attempts] for named in (hello.held, hello.unrecorded))
    return replace(hello, held=tuple(held), unrecorded=tuple(unrecorded)) if attempts else hello


def _possible(attempts: tuple[AttemptId, ...], highest_id: int) -> list[AttemptId]:
    """Return at most HELD_MAX of the attempts, only those whose numbers a store can have given."""
    return [each for each in attempts[:HELD_MAX] if 0 < each[0] <= highest_id and 0 < each[1] <= ATTEMPT_MAX]


def _keep_ids(batch: Batch) -> None:
    """Store that every id up to the highest known id is taken, and that the run dirs of these jobs must stay."""
    batch.changes.restored_to = batch.next_id - 1


def _forget(batch: Batch, worker: str, removed: list[int]) -> Orders:
    """Return the orders to delete the folders of removed jobs; `doctor` shows those on the broker's own machine."""
    if not removed or worker in batch.board.roles.shares_disk:
        return []
    spare = tuple(sorted(batch.store.rerun_jobs() & set(removed)))
    kept = batch.store.with_kept_logs(removed)
    parts = [([job for job in removed if job not in kept], False)]
    if batch.board.workers[worker].info.keeps_logs:
        parts.append((sorted(kept), True))
    return [
        (worker, Forget(tuple(jobs[at : at + FORGET_MAX]), spare, keep_logs))
        for jobs, keep_logs in parts
        for at in range(0, len(jobs), FORGET_MAX)
    ]


def note_late(batch: Batch, report: Report) -> None:
    """Note a report of an older attempt in the story; the job's state stays."""
    kind = type(report.event).__name__.lower()
    log.info("late_report job=%s attempt=%s event=%s", report.job, report.event.attempt, kind)
    attempts = batch.store.attempts(report.job) if isinstance(report.event, Exited) else []
    given_up = (a.number for a in attempts if a.outcome in (Outcome.LOST, Outcome.UNKNOWN))
    if report.event.attempt in given_up:
        # The attempt was given up as lost, and has ended after all.
        batch.tell(report.job, "late report", f"attempt {report.event.attempt} {kind} after all")


def is_skipped(batch: Batch, job: Job) -> bool:
    """Tell whether the last attempt of a job was given up because the store has no record of it."""
    # Only a recorded attempt has a placement.
    if job.attempt == 0 or job.placement is not None or job.attempt_id in batch.changes.attempts:
        return False
    return all(recorded.number != job.attempt for recorded in batch.store.attempts(job.id))


def _hold(batch: Batch, job: Job, worker: str, attempt: int) -> None:
    """Hold a job of which a worker has a newer attempt; the next attempt gets a number that has no run dir."""
    if job.state is not State.HELD:
        job = batch.move(job, Hold())
    ran = f"worker {worker} ran attempt {attempt} of it after the backup that the store was restored from"
    batch.set(job, replace(job, attempt=attempt, reason=f"{ran}; `grass release {job.id}` runs it again"))


def lost_history_warning(lost_jobs: int) -> str:
    """Return the warning that the store does not know all jobs that have a folder on its machine."""
    some = "1 job is in no list: its folder is"
    if lost_jobs != 1:
        some = f"{lost_jobs} jobs are in no list: their folders are"
    return (
        f"{some} from another store, or from a newer copy of this one; `grass doctor` tells what can be brought back, "
        "`grass resume --restored` ends this warning"
    )
