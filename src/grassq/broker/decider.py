"""Turn a batch of messages into answers, stored changes and orders. Synchronous, so that a simulator can drive it.

A state change gives no order by itself. After each commit `core.reconcile.due` compares what every online worker should
do with what it was last told, and the difference is ordered. So a lost message, a restart and a reconnection need no
code of their own. Only three orders follow from a message directly: acknowledgements, checks after a hello, and stops
of abandoned attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from grassq.broker import inbox, worker_records
from grassq.broker.actions.suspend import let_return
from grassq.broker.batch import Batch, Clock, WantsNotice, names_targets
from grassq.broker.dispatch import Dispatch
from grassq.broker.inbox import BrokerStatus, Call, Effects, FromWorker, Message, Misbehaved, Orders
from grassq.broker.recovery import Recovery, note_late
from grassq.broker.sweeps import limits
from grassq.broker.tokens import is_revoked
from grassq.broker.waiting import eligibility, ends
from grassq.core import reconcile
from grassq.core.messages import Ack, Hello, Report, Silent
from grassq.core.model import HOLDING, AttemptId, Job, Outcome, State
from grassq.core.planner.board import NEAR_MAX, Board
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.plan import adopt, leased, limited
from grassq.core.planner.plan import plan as make_plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.planner.workers import WorkerRoles
from grassq.core.states import Exited, Lost, Place, Progress, Ready, RefusedByWorker, is_current
from grassq.core.waiting.dependencies import Dependencies
from grassq.errors import Deposed, GrassError, GuardFailed, InvalidMove, StoreFull, StoreUnavailable
from grassq.store.base import Changes, WorkerRecord
from grassq.store.high_water import HighWater
from grassq.store.relational import Store

log = logging.getLogger(__name__)

FAILURES_MAX = 2
RETRY_STORE_S = 5.0
#: Seconds that a new broker waits for the workers it knows before it starts anything. Only a worker can tell that the
#: store was restored from a backup, and workers reconnect within seconds.
AWAIT_S = 10.0
LEASE_S = 300.0
#: How many jobs are read from the store when the next queued job is not known whole.
READ_AHEAD = 256


class Decider:
    """Owns the board and the store behind it, and decides what follows from each message."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        incarnation: str,
        patience: ReservationPolicy | None = None,
        floor_id: int = 0,
        lost_jobs: int = 0,
        lease_s: float = LEASE_S,
        roles: WorkerRoles | None = None,
        near_max: int = NEAR_MAX,
        prefetch_policy: PrefetchPolicy | None = None,
        mark: HighWater | None = None,
        wants_notice: WantsNotice = names_targets,
    ) -> None:
        """Load the board. `incarnation` names this run of the broker; the board keeps `near_max` jobs whole."""
        self._store = store
        self._clock = clock
        self._floor_id, self._near_max = floor_id, near_max
        self._new_board = partial(
            Board, patience=patience, lease_s=lease_s, roles=roles, near_max=near_max, prefetch_policy=prefetch_policy
        )
        self._began = clock.mono()
        self._recovery = Recovery(incarnation, mark)
        self._dispatch = Dispatch(store)
        self._wants_notice = wants_notice
        self._failures, self._retry_at = 0, 0.0
        #: The time of the last commit or heartbeat in the store.
        self._beat_at = self._began
        #: The board may be ahead of the store: the board is reloaded before anything else is decided.
        self.stale = True
        #: A plan is made when something changed, at `_ripe_at`, or if this is set.
        self._replan = self._reevaluate = True
        self._ripe_at = float("inf")
        #: Messages of workers that no commit has included yet. Unlike reports, workers do not repeat them.
        self._unheard: list[FromWorker] = []
        self.read_only: str | None = None
        self._refusal: type[StoreUnavailable] = StoreUnavailable
        #: The number of the last committed change.
        self._seq = self._generation = 0
        self.board = Board()
        self._worker_records: dict[str, WorkerRecord] = {}
        #: The workers that were known when this broker began.
        self._awaited: set[str] = set()
        store.begin(incarnation)
        self.reload()
        self._awaited, self.board.awaited = set(self.board.workers), set(self.board.workers)
        batch = self._batch()
        self._recovery.begin(batch, self._store_id, lost_jobs)
        self._commit(batch)
        self._next_id = batch.next_id

    @property
    def status(self) -> BrokerStatus:
        """What the engine tells others of this broker after each batch."""
        history = self._recovery.history(self._store.number, self._next_id - 1)
        return BrokerStatus(self._store_id, history, self._generation, self.read_only, self.board.lost_jobs)

    @property
    def beat_s(self) -> float | None:
        """The seconds between two heartbeats in the store; None if no other broker could take the store over."""
        return self._store.beat_s

    @property
    def is_brisk(self) -> bool:
        """Whether a small batch is decided and stored within milliseconds: a local disk, and no work left over."""
        idle = not (self.stale or self._reevaluate or self.board.reevaluating)
        return idle and self.read_only is None and self._store.beat_s is None

    def reload(self) -> None:
        """Drop the board and read it again from the store."""
        loaded = self._store.load(self._near_max)
        self._generation += 1
        before, times = self.board.workers, self.board.times
        self._store_id = loaded.store_id
        self._next_id = max(loaded.highest_id, loaded.restored_to, self._floor_id) + 1
        self._recovery.loaded(loaded)
        self._worker_records = dict(loaded.worker_records)
        self.board = self._new_board(loaded.paused)
        self.board.unreconciled = set(loaded.unreconciled)
        self.board.is_unsure_of_ids = self._recovery.is_unsure_of_ids
        self.board.templates = dict(loaded.templates)
        for name, limit in loaded.group_limits.items():
            self.board.set_group_limit(name, limit)
        self.board.ended_tokens = {token.id for token in self._store.tokens() if is_revoked(token)}
        self.board.lost_jobs = loaded.lost_jobs
        self.board.awaited = (self._awaited & {info.name for info in loaded.workers}) - self._recovery.state.spoken
        self.board.awaited_until = self._began + AWAIT_S
        for group in loaded.groups:
            self.board.load(group.state, group.shape, group.orders)
        self.board.index(loaded.moved)
        self.board.dependencies = Dependencies(loaded.edges, loaded.queues, loaded.tokens)
        for job in loaded.jobs:
            if job.state in HOLDING or (job.ready_at is not None and job.state is State.WAITING):
                self.board.put(job)
            else:
                self.board.know(job)
        self.board.times.carry_over(times, self.board.holds)
        for info in loaded.workers:
            known = before.get(info.name)
            record = self._worker_records.get(info.name, WorkerRecord())
            worker_records.load(self.board, info, known, record, now=self._clock.wall(), began=self._began)
        limits.load(self.board, self._store)
        self._dispatch.forget_all()
        # A re-evaluation that had not finished begins again.
        self._replan = self._reevaluate = True
        self.stale = False

    def close(self) -> None:
        """Close the store."""
        self._store.close()
        self._recovery.close()

    def process(self, messages: Sequence[Message]) -> Effects:
        """Decide and commit one batch; raise Deposed when another broker has taken the store over.

        A message that fails is taken out, and the batch is decided anew: no message fails because of another.
        """
        messages = [*self._unheard, *messages]
        failed: list[tuple[Call, object]] = []
        while True:
            try:
                effects = self._process(messages)
            except Misbehaved as fault:
                log.error("message_failed error=%s", fault)
                messages = [message for message in messages if message is not fault.message]
                if isinstance(fault.message, Call):
                    failed.append((fault.message, fault.error))
            else:
                effects.answers += failed
                return effects

    def _process(self, messages: Sequence[Message]) -> Effects:
        self._unheard = inbox.said_once(messages)
        if self.read_only is not None and self._clock.mono() < self._retry_at:
            return self._only_read(messages)
        remembered = self._recovery.state.copy()
        try:
            if self.stale:
                self.reload()
            batch = self._batch()
            self.stale = True
            effects = self._decide(batch, messages)
            self._commit(batch)
        except (StoreUnavailable, GuardFailed) as error:
            self._recovery.state = remembered
            return self._commit_failed(messages, error)
        except BaseException:
            self._recovery.state = remembered
            raise
        self.stale, self._unheard, self.read_only = False, [], None
        self._next_id, self._seq = batch.next_id, batch.seq
        effects.orders += self._dispatch.orders(self.board, batch.mono)
        effects.machines_changed = batch.changes.of_machines or any(map(inbox.is_of_machines, messages))
        return effects

    def _commit(self, batch: Batch) -> None:
        changes, beat_s = batch.changes, self._store.beat_s
        # While nothing can be stored, a commit without changes proves that the store can be written again.
        if not changes.empty or self.read_only is not None:
            self._recovery.storing(batch)
            self._store.commit(changes)
            if not changes.empty:
                self._failures = 0
            self._recovery.stored(batch)
            self._worker_records |= changes.worker_records
            for name in changes.removed_workers:
                self._worker_records.pop(name, None)
            self._generation += bool(changes.removed_workers or changes.templates)
        elif beat_s is None or batch.mono - self._beat_at < beat_s:
            return
        else:
            self._store.beat()
        self._beat_at = batch.mono

    def _batch(self) -> Batch:
        wall, mono = self._clock.wall(), self._clock.mono()
        mine = self._next_id, Changes(), self._seq, self._worker_records, self._wants_notice
        return Batch(self.board, self._store, wall, mono, *mine, read_only=self.read_only)

    def _decide(self, batch: Batch, messages: Sequence[Message]) -> Effects:
        effects = Effects([], [], batch.changed)
        for message in messages:
            if isinstance(message, Call):
                effects.answers.append((message, inbox.answer_of(batch, message)))
            else:
                effects.orders += self._heard(batch, message)
        self._end_leases(batch)
        effects.orders += self._recovery.settle(batch)
        for id_ in self.board.start_times.due(batch.now, batch.mono):
            job = self.board.timed[id_]
            if job.for_time is not None:
                batch.move(job, Ready(job.for_time))
        more = ends.settle(batch)
        eligibility.block_unready(batch)
        if self._reevaluate:
            self._reevaluate = False
            eligibility.reevaluate(batch)
        elif self.board.reevaluating:
            eligibility.reevaluate_more(batch)
        effects.again = more or bool(self.board.reevaluating)
        if self._replan or not batch.changes.empty or batch.mono >= self._ripe_at:
            effects.again |= self._plan(batch)
        return effects

    def _heard(self, batch: Batch, message: FromWorker) -> Orders:
        worker, said = message.worker, message.message
        try:
            match said:
                case Hello():
                    return self._hello(batch, said)
                case Report():
                    return self._report(batch, worker, said)
                case Silent(heard):
                    if worker in self.board.workers:
                        self.board.lose_touch(worker, heard, batch.now)
            return []
        except (StoreUnavailable, GuardFailed, Deposed):
            raise
        except Exception as error:
            # The top of one message: a bug in it must not fail the batch, nor every batch in which it is tried again.
            log.exception("worker_message_failed worker=%s", worker)
            raise Misbehaved(message, inbox.bug_in_words(error)) from error

    def _end_leases(self, batch: Batch) -> None:
        """End attempts whose workers were silent for the whole lease: their shims have ended the commands by now."""
        for job, lost in reconcile.given_up(self.board, batch.mono):
            assert job.placement is not None
            log.warning("lease_over job=%s attempt=%s worker=%s", job.id, job.attempt, job.placement.worker)
            # In case the shim failed to end the command: the worker is told to stop it when it reconnects.
            self._recovery.fence(job.placement.worker, reconcile.stop_of(job))
            self._dispatch.forget(job.attempt_id)
            batch.move(job, lost)

    def _plan(self, batch: Batch) -> bool:
        """Place all jobs that can be placed; return True if there are more than one batch takes."""
        let_return(batch)
        more = self._place(batch)
        if not more and self.board.prefetch.tails(self.board):
            # Prefetch behind the attempts that were placed just now.
            more = self._place(batch)
        wait_s = self.board.patience.wait_s
        ripening = [head.since + wait_s for head in self.board.heads.values() if head.since + wait_s > batch.mono]
        if self.board.awaits(batch.mono):
            ripening.append(self.board.awaited_until)
        self._ripe_at = min(ripening, default=float("inf"))
        self._replan = more
        return more

    def _place(self, batch: Batch) -> bool:
        plan = make_plan(self.board, batch.mono)
        jobs = self._whole(batch, [*(id_ for id_, _ in plan.placements), *(h.job for h in plan.heads.values())])
        held = {id_ for id_, job in jobs.items() if eligibility.hold_revoked(batch, job)}
        for job_id, where in plan.placements:
            if job_id not in held:
                batch.move(jobs[job_id], Place(leased(jobs[job_id], limited(jobs[job_id], where))))
        adopt(self.board, plan, held)
        for head in self.board.heads.values():
            self.board.know(jobs[head.job])
        return plan.more or bool(held)

    def _whole(self, batch: Batch, ids: list[int]) -> dict[int, Job]:
        """Return queued jobs whole; if one of them must be read from the store, read the next queued jobs too."""
        known = self.board.jobs
        if all(id_ in known for id_ in ids):
            return {id_: known[id_] for id_ in ids}
        ahead = [id_ for id_ in self.board.next_ids(READ_AHEAD) if id_ not in known]
        jobs = batch.fetch_in_state(dict.fromkeys([*ids, *ahead]), State.QUEUED)
        for id_ in ahead:
            self.board.know(jobs[id_])
        return jobs

    def _hello(self, batch: Batch, hello: Hello) -> Orders:
        info, known = hello.info, self.board.workers.get(hello.info.name)
        if info.name in batch.changes.removed_workers or (known is None and not hello.fresh):
            # The worker was removed after it connected; its connection is about to end.
            return []
        self.board.set_worker(info, online=True, now=batch.now)
        self.board.note_boots(info.name, batch.mono if known is None or known.online else known.heard)
        if known is None:
            self.board.workers[info.name].drained = self._worker_records.get(info.name, WorkerRecord()).drained
        self._replan = True
        if known is None or known.said.lasting != info.lasting:
            batch.changes.workers[info.name] = info.lasting
            worker_records.note_offered(batch, info)
            self._generation += 1
            eligibility.reevaluate(batch)
        if not hello.fresh:
            return []
        for job in self.board.held_by(info.name):
            self._dispatch.forget(job.attempt_id)
        self.board.awaited.discard(info.name)
        orders: Orders = [(info.name, check) for check in reconcile.checks(self.board, info.name)]
        return orders + self._recovery.hello(batch, hello)

    def _report(self, batch: Batch, worker: str, report: Report) -> Orders:
        event = report.event
        attempt: AttemptId = (report.job, event.attempt)
        job = self.board.holding.get(report.job) or batch.alive(report.job)
        if job is not None and not isinstance(event, Progress) and self._may_run_elsewhere(batch, job):
            # No acknowledgement, so the worker repeats the report until every worker has reconnected.
            return []
        if job is None or not is_current(job, event, worker):
            note_late(batch, report)
        elif reconcile.may_outlive(self.board, job, event):
            # No acknowledgement, so the worker repeats the report, also when the lease is over.
            return []
        else:
            if isinstance(event, RefusedByWorker) and job.state is State.RUNNING:
                # The attempt ran, and its worker no longer knows it: the run dir was deleted.
                event = Lost(event.attempt, Outcome.UNKNOWN, event.why)
            try:
                batch.move(job, event)
            except InvalidMove as error:
                # A worker that contradicts itself must not break the batch of all others.
                log.error("invalid_report %s", error)
                return []
            if not isinstance(event, Progress):
                self._dispatch.forget(job.attempt_id)
            if isinstance(event, Exited) and event.started and event.ended and job.suspension is None:
                self.board.prefetch.note_duration(job, event.ended - event.started)
        if isinstance(event, Progress):
            return []
        self._replan |= self._recovery.reported(batch, worker, attempt)
        return [(worker, Ack(report.job, event.attempt))]

    def _may_run_elsewhere(self, batch: Batch, job: Job) -> bool:
        """Tell whether a worker that has not reconnected may run a newer attempt, started when this lease was over."""
        leased = job.placement is not None and job.placement.lease_s is not None
        return leased and bool(self.board.unreconciled or self.board.awaits(batch.mono))

    def _commit_failed(self, messages: Sequence[Message], error: GrassError) -> Effects:
        """Drop the board, which may be ahead of the disk; reload it, and answer each call by what was really stored."""
        log.error("commit_failed error=%s", error)
        self._failures += 1
        self._refusal = StoreFull if isinstance(error, StoreFull) else StoreUnavailable
        if self._failures >= FAILURES_MAX:
            self.read_only = str(error)
            self._retry_at = self._clock.mono() + RETRY_STORE_S
        refusal = inbox.unavailable(error)
        try:
            self.reload()
            answers = [(m, self._recalled(m) or refusal) for m in messages if isinstance(m, Call)]
        except StoreUnavailable as worse:
            self.stale, self.read_only = True, str(worse)
            self._retry_at = self._clock.mono() + RETRY_STORE_S
            return Effects([(m, worse) for m in messages if isinstance(m, Call)], [], must_reread=True)
        return Effects(answers, [], must_reread=True)

    def _recalled(self, call: Call) -> object:
        if call.key is None or call.recall is None:
            return None
        stored = self._store.submission(call.key)
        return None if stored is None else call.recall(stored)

    def _only_read(self, messages: Sequence[Message]) -> Effects:
        refusal = self._refusal(f"nothing can be stored now: {self.read_only}")
        batch = self._batch()
        answers: list[tuple[Call, object]] = []
        for message in messages:
            if isinstance(message, Call):
                readable = not message.changing and not self.stale
                try:
                    answers.append((message, inbox.answer_of(batch, message) if readable else refusal))
                except Misbehaved as fault:
                    answers.append((message, fault.error))
        return Effects(answers, [])

    def next_wake(self) -> float | None:
        """Return the seconds until something is due without a message; None if only a message can change anything."""
        wall, mono = self._clock.wall(), self._clock.mono()
        if self.read_only is not None:
            return max(0.0, self._retry_at - mono)
        next_start_s = self.board.start_times.next_in_s(wall, mono)
        due = [] if next_start_s is None else [next_start_s]
        due += self._dispatch.due_in_s(self.board, mono)
        at = [self._ripe_at]
        leases = (reconcile.leased_until(self.board, job) for job in self.board.holding.values())
        at += [until for until in leases if until is not None]
        if self._store.beat_s is not None:
            at.append(self._beat_at + self._store.beat_s)
        due += [when - mono for when in at if when < float("inf")]
        if self._unheard:
            due.append(0.0 if self._failures else RETRY_STORE_S)
        return max(0.0, min(due)) if due else None
