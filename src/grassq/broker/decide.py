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
from grassq.core.model import AttemptId, Job, Pairs, State
from grassq.core.states import Place, Ready, Started, Stuck
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
        self.read_only: str | None = None
        #: Grows whenever queues or machines change, so that what was read of them can be kept until then.
        self.generation = 0
        self.board = Board()
        self.reload()

    def reload(self) -> None:
        """Forget the board and read it again from the store."""
        loaded = self._store.load()
        self.generation += 1
        online = [station.info for station in self.board.stations.values() if station.online]
        self.store_id = loaded.store_id
        self._next_id = max(loaded.highest_id, self._floor_id) + 1
        self.board = Board(loaded.paused, self._patience)
        for job in loaded.jobs:
            self.board.put(job)
        now = self._clock.wall()
        for info in loaded.workers:
            self.board.set_worker(info, online=False, now=now)
        for info in online:
            self.board.set_worker(info, online=True, now=now)
        self._sent.clear()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def process(self, messages: Sequence[Message]) -> Effects:
        """Decide and commit one batch."""
        if self.read_only is not None and self._clock.mono() < self._retry_at:
            return self._only_read(messages)
        batch = self._batch()
        try:
            effects = self._decide(batch, messages)
            if not batch.changes.empty:
                self._store.commit(batch.changes)
        except (StoreUnavailable, GuardFailed) as error:
            return self._commit_failed(messages, error)
        self._failures, self.read_only = 0, None
        self._next_id = batch.next_id
        effects.orders += self._orders(batch.mono)
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
        for job in [job for job in self.board.retrying.values() if _ready_at(job) <= batch.now]:
            batch.move(job, Ready())
        plan = placement.plan(self.board, batch.mono)
        for job_id, where in plan.placements:
            batch.move(self.board.jobs[job_id], Place(where))
        self.board.heads = plan.heads
        effects.again = plan.more
        return effects

    def _answer(self, batch: Batch, call: Call) -> object:
        before = batch.next_id, len(batch.changes.story)
        try:
            return call.handler(batch)
        except (StoreUnavailable, GuardFailed, InvalidMove):
            raise
        except GrassError as error:
            if before != (batch.next_id, len(batch.changes.story)):
                raise GuardFailed(f"a refused action had changed something already: {error}") from error
            return error

    def _hello(self, batch: Batch, hello: Hello) -> list[tuple[str, Order]]:
        info = hello.info
        known = self.board.stations.get(info.name)
        self.board.set_worker(info, online=True, now=batch.now)
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
            log.info("late_report job=%s attempt=%s event=%s", report.job, event.attempt, type(event).__name__)
        else:
            try:
                batch.move(job, event)
            except InvalidMove as error:
                # A worker that contradicts itself must not take the others' messages down with it.
                log.error("report_makes_no_sense %s", error)
                return []
        if isinstance(event, Started | Stuck):
            return []
        self._sent.pop((report.job, event.attempt), None)
        return [(worker, Ack(report.job, event.attempt))]

    def _orders(self, mono: float) -> list[tuple[str, Order]]:
        orders: list[tuple[str, Order]] = []
        for name, station in self.board.stations.items():
            if not station.online:
                continue
            for job in reconcile.due(self.board, name, self._sent, mono):
                self._sent[job.attempt_id] = reconcile.told(job, mono)
                orders.append((name, reconcile.stop_of(job) if job.cancel_requested else self._start(job)))
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
        except StoreUnavailable as worse:
            self.read_only = str(worse)
            self._retry_at = self._clock.mono() + RETRY_STORE_S
            return Effects([(m, worse) for m in messages if isinstance(m, Call)], [], [])
        answers = [(m, self._recalled(m) or refusal) for m in messages if isinstance(m, Call)]
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
                try:
                    answers.append((message, refusal if message.changing else self._answer(batch, message)))
                except StoreUnavailable as error:
                    answers.append((message, error))
        return Effects(answers, [], [])

    def next_wake(self) -> float | None:
        """Seconds until something is due by itself; None when only a message can change anything."""
        wall, mono = self._clock.wall(), self._clock.mono()
        due = [_ready_at(job) - wall for job in self.board.retrying.values()]
        due += [
            (last.at if (last := self._sent.get(job.attempt_id)) else mono) + reconcile.RESEND_S - mono
            for job in self.board.holding.values()
            if job.state is State.PLACED or job.cancel_requested
        ]
        wait_s = self.board.patience.wait_s
        due += [left for head in self.board.heads.values() if (left := head.since + wait_s - mono) > 0]
        if self.read_only is not None:
            due.append(self._retry_at - mono)
        return max(0.0, min(due)) if due else None


def _ready_at(job: Job) -> float:
    assert job.ready_at is not None
    return job.ready_at
