"""What a batch of messages leads to: answers, stored changes and orders. Synchronous: a simulator can drive it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from grassq.broker import service
from grassq.broker.batch import Batch, Clock
from grassq.core import placement, reconcile
from grassq.core.board import Board, Patience
from grassq.core.messages import Ack, Hello, Order, Report, Start
from grassq.core.model import AttemptId, Job, Outcome, Pairs, State
from grassq.core.states import RETRY_DELAY_S, Exited, Lost, Place, Ready, Refused, Started, Stuck
from grassq.errors import GrassError, GuardFailed, InvalidMove, StoreUnavailable
from grassq.store.base import Changes, Store, Submission

log = logging.getLogger(__name__)

FAILURES_MAX = 2
RETRY_STORE_S = 5.0
ENVIRONMENTS_CACHED = 256

Handler = Callable[[Batch], object]


class Call(Struct, eq=False):
    """A user's action or question, and who waits for the answer."""

    handler: Handler
    changing: bool = True
    key: str | None = None
    #: How to answer from what a key stored, when a commit's fate was unclear.
    recall: Callable[[Submission], object] | None = None


class FromWorker(Struct, eq=False):
    """Something a worker said."""

    worker: str
    message: Hello | Report


Message = Call | FromWorker


class Misbehaved(Exception):
    """A handler refused after it had changed something: a bug of ours that must not touch anybody else's request."""

    def __init__(self, call: Call, error: GrassError) -> None:
        super().__init__(str(error))
        self.call = call
        self.error = error


class Effects(Struct):
    """What to do now that the batch is on disk."""

    answers: list[tuple[Call, object]]
    orders: list[tuple[str, Order]]
    finished: list[int]
    #: Decide again at once: there was more to plan than one batch takes.
    again: bool = False


class Decider:
    """The board and the store behind it, and what follows from what arrives."""

    def __init__(self, store: Store, clock: Clock, *, patience: Patience | None = None, floor_id: int = 0) -> None:
        self._store = store
        self._clock = clock
        self._patience = patience
        self._floor_id = floor_id
        self._sent: dict[AttemptId, reconcile.Sent] = {}
        self._environments: OrderedDict[bytes, Pairs] = OrderedDict()
        self._failures = 0
        self._retry_at = 0.0
        #: The board may be ahead of the store: it is read again before anything else is decided.
        self.stale = True
        #: A plan is made when something changed, when a head has become ripe, or when this says so.
        self._replan = True
        self._ripe_at = float("inf")
        #: What workers said of themselves that no commit has heard yet; unlike a report, nobody repeats it.
        self._unheard: list[FromWorker] = []
        self.read_only: str | None = None
        #: Grows whenever queues or machines change, so that what was read of them can be kept until then.
        self.generation = 0
        self.board = Board()
        self.reload()

    def reload(self) -> None:
        """Forget the board and read it again from the store."""
        loaded = self._store.load()
        self.generation += 1
        online = {name for name, station in self.board.stations.items() if station.online}
        self.store_id = loaded.store_id
        self._next_id = max(loaded.highest_id, self._floor_id) + 1
        self.board = Board(loaded.paused, self._patience)
        for job in loaded.jobs:
            self.board.put(job)
        now = self._clock.wall()
        for info in loaded.workers:
            self.board.set_worker(info, online=info.name in online, now=now)
        self._sent.clear()
        self._replan = True
        self.stale = False

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def process(self, messages: Sequence[Message]) -> Effects:
        """Decide and commit one batch."""
        messages = [*self._unheard, *messages]
        self._unheard = [m for m in messages if isinstance(m, FromWorker) and isinstance(m.message, Hello)]
        if self.read_only is not None and self._clock.mono() < self._retry_at:
            return self._only_read(messages)
        try:
            if self.stale:
                self.reload()
            batch = self._batch()
            self.stale = True
            effects = self._decide(batch, messages)
            if not batch.changes.empty:
                self._store.commit(batch.changes)
                self._failures = 0
        except Misbehaved as fault:
            return self._without(fault, messages)
        except (StoreUnavailable, GuardFailed) as error:
            return self._commit_failed(messages, error)
        self.stale, self._unheard, self.read_only = False, [], None
        self._next_id = batch.next_id
        effects.orders += self._orders(batch.mono)
        return effects

    def _without(self, fault: Misbehaved, messages: Sequence[Message]) -> Effects:
        """The batch again, on a fresh board and without the call that spoilt it."""
        log.error("refused_too_late error=%s", fault)
        rest = [message for message in messages if message is not fault.call and message not in self._unheard]
        effects = self.process(rest)
        effects.answers.append((fault.call, fault.error))
        return effects

    def _batch(self) -> Batch:
        wall, mono = self._clock.wall(), self._clock.mono()
        return Batch(self.board, self._store, wall, mono, self._next_id, Changes(), [])

    def _decide(self, batch: Batch, messages: Sequence[Message]) -> Effects:
        effects = Effects([], [], batch.finished)
        for message in messages:
            if isinstance(message, Call):
                effects.answers.append((message, self._answer(batch, message)))
            elif isinstance(message.message, Hello):
                effects.orders += self._hello(batch, message.message)
            else:
                effects.orders += self._report(batch, message.worker, message.message)
        for job in [job for job in self.board.retrying.values() if _ready_in_s(job, batch.now) <= 0]:
            batch.move(job, Ready())
        service.park(batch)
        if self._replan or not batch.changes.empty or batch.mono >= self._ripe_at:
            effects.again = self._plan(batch)
        return effects

    def _plan(self, batch: Batch) -> bool:
        """Place what can be placed; True when there is more to place than one batch takes."""
        plan = placement.plan(self.board, batch.mono)
        for job_id, where in plan.placements:
            batch.move(self.board.jobs[job_id], Place(where))
        self.board.heads = plan.heads
        wait_s = self.board.patience.wait_s
        ripening = [head.since + wait_s for head in plan.heads.values() if head.since + wait_s > batch.mono]
        self._ripe_at = min(ripening, default=float("inf"))
        self._replan = plan.more
        return plan.more

    def _answer(self, batch: Batch, call: Call) -> object:
        before = batch.next_id, len(batch.changes.story)
        try:
            return call.handler(batch)
        except (StoreUnavailable, GuardFailed, InvalidMove):
            raise
        except GrassError as error:
            if before != (batch.next_id, len(batch.changes.story)):
                raise Misbehaved(call, error) from error
            return error

    def _hello(self, batch: Batch, hello: Hello) -> list[tuple[str, Order]]:
        info = hello.info
        known = self.board.stations.get(info.name)
        self.board.set_worker(info, online=True, now=batch.now)
        self._replan = True
        if known is None or known.info != info:
            batch.changes.workers[info.name] = info
            self.generation += 1
            service.settle(batch)
        if not hello.fresh:
            return []
        for job in self.board.held_by(info.name):
            self._sent.pop(job.attempt_id, None)
        return [(info.name, check) for check in reconcile.checks(self.board, info.name)]

    def _report(self, batch: Batch, worker: str, report: Report) -> list[tuple[str, Order]]:
        event = report.event
        job = self.board.jobs.get(report.job)
        if job is None or job.attempt != event.attempt or job.placement is None or job.placement.worker != worker:
            self._late(batch, report)
        else:
            if isinstance(event, Refused) and job.state is State.RUNNING:
                # It ran, and its worker no longer knows of it: its run dir was taken away.
                event = Lost(event.attempt, Outcome.UNKNOWN, event.why)
            try:
                batch.move(job, event)
            except InvalidMove as error:
                # A worker that contradicts itself must not take the others' messages down with it.
                log.error("report_makes_no_sense %s", error)
                return []
            if not isinstance(event, Started | Stuck):
                self._sent.pop(job.attempt_id, None)
        if isinstance(event, Started | Stuck):
            return []
        return [(worker, Ack(report.job, event.attempt))]

    def _late(self, batch: Batch, report: Report) -> None:
        """A report of what is over already goes into the story, never into the state."""
        kind = type(report.event).__name__.lower()
        log.info("late_report job=%s attempt=%s event=%s", report.job, report.event.attempt, kind)
        attempts = batch.store.attempts(report.job) if isinstance(report.event, Exited) else []
        given_up = (a.number for a in attempts if a.outcome in (Outcome.LOST, Outcome.UNKNOWN))
        if report.event.attempt in given_up:
            # News, not the repetition of what is stored: it had been given up, and ended after all.
            batch.tell(report.job, "late report", f"attempt {report.event.attempt} {kind} after all")

    def _orders(self, mono: float) -> list[tuple[str, Order]]:
        orders: list[tuple[str, Order]] = []
        for name, station in self.board.stations.items():
            if not station.online:
                continue
            for job in reconcile.due(self.board, name, self._sent, mono):
                try:
                    order = reconcile.stop_of(job) if job.cancel_requested else self._start(job)
                except StoreUnavailable as error:
                    # The batch is on disk and its answers are true; an order not given now is due again.
                    log.error("order_not_given job=%s error=%s", job.id, error)
                    continue
                self._sent[job.attempt_id] = reconcile.told(job, mono)
                orders.append((name, order))
        return orders

    def _start(self, job: Job) -> Start:
        assert job.placement is not None
        env = self._environment(job.spec.env_digest)
        return Start(job.id, job.attempt, job.spec, job.placement, env, job.name, job.rerun_of)

    def _environment(self, digest: bytes) -> Pairs:
        if digest in self._environments:
            self._environments.move_to_end(digest)
            return self._environments[digest]
        body = self._store.environment(digest)
        pairs = msgspec.msgpack.decode(body, type=Pairs) if body is not None else ()
        self._environments[digest] = pairs
        if len(self._environments) > ENVIRONMENTS_CACHED:
            self._environments.popitem(last=False)
        return pairs

    def _commit_failed(self, messages: Sequence[Message], error: GrassError) -> Effects:
        """The board may be ahead of the disk: drop it, read what is really stored, and answer by that."""
        log.error("commit_failed error=%s", error)
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self.read_only = str(error)
            self._retry_at = self._clock.mono() + RETRY_STORE_S
        refusal = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))
        try:
            self.reload()
            answers = [(m, self._recalled(m) or refusal) for m in messages if isinstance(m, Call)]
        except StoreUnavailable as worse:
            self.stale = True
            self.read_only = str(worse)
            self._retry_at = self._clock.mono() + RETRY_STORE_S
            return Effects([(m, worse) for m in messages if isinstance(m, Call)], [], [])
        return Effects(answers, [], [])

    def _recalled(self, call: Call) -> object:
        if call.key is None or call.recall is None:
            return None
        stored = self._store.submission(call.key)
        return None if stored is None else call.recall(stored)

    def _only_read(self, messages: Sequence[Message]) -> Effects:
        refusal = StoreUnavailable(f"nothing can be stored now: {self.read_only}")
        batch = self._batch()
        answers: list[tuple[Call, object]] = []
        for message in messages:
            if isinstance(message, Call):
                readable = not message.changing and not self.stale
                try:
                    answers.append((message, self._answer(batch, message) if readable else refusal))
                except StoreUnavailable as error:
                    answers.append((message, error))
        return Effects(answers, [], [])

    def next_wake(self) -> float | None:
        """Seconds until something is due by itself; None when only a message can change anything."""
        wall, mono = self._clock.wall(), self._clock.mono()
        due = [_ready_in_s(job, wall) for job in self.board.retrying.values()]
        due += [
            (last.at if (last := self._sent.get(job.attempt_id)) else mono) + reconcile.RESEND_S - mono
            for job in self.board.holding.values()
            if job.state is State.PLACED or job.cancel_requested
        ]
        if self._ripe_at < float("inf"):
            due.append(self._ripe_at - mono)
        if self.read_only is not None:
            due.append(self._retry_at - mono)
        elif self._unheard:
            due.append(0.0 if self._failures else RETRY_STORE_S)
        return max(0.0, min(due)) if due else None


def _ready_in_s(job: Job, now: float) -> float:
    assert job.ready_at is not None
    left_s = job.ready_at - now
    # More than was ever asked for means that the clock was set back meanwhile.
    return left_s if left_s <= RETRY_DELAY_S else 0.0
