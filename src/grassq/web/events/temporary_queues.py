"""Temporary queues: a queue is deleted when it has no subscriber and all its jobs have ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Filter, Subscription
from grassq.core.model import Offer, State
from grassq.core.syntax.selectors import ByState as InState
from grassq.errors import GrassError
from grassq.web.workers.directory import WorkerDirectory

log = logging.getLogger(__name__)

#: How long a queue waits for a subscriber after a daemon start, after the queue was made, and after a
#: connection that may have broken by itself.
BACK_S = 60.0
#: This long after a daemon start, workers have reported what they run, also jobs that the store has forgotten.
SETTLE_S = 10.0
#: A queue that could not be deleted, because its worker is not connected, is tried again after this.
RETRY_S = 60.0
#: The least time between two looks for queues to delete, however many jobs end.
LOOK_S = 0.1
#: Held jobs that are searched for jobs of a queue; a queue is kept when there are more.
HELD_MAX = 10_000


class PendingRemoval(Struct):
    """How a subscription ended: whether the subscriber is expected to come back."""

    expected: bool = False


class TemporaryQueues:
    """Counts subscribers, and deletes temporary queues that are no longer needed. Used from the event loop only."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory
        #: Queues without a subscriber, and the time from which they may be deleted.
        self._due: dict[str, float] = {}
        self._changed = asyncio.Event()
        #: The number of subscribers of each queue.
        self._open: Counter[str] = Counter()
        self._ends: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        #: The time from which it is known what runs.
        self.settled_at = 0.0

    def start(self) -> None:
        """Begin to delete temporary queues."""
        loop = asyncio.get_running_loop()
        self.settled_at = loop.time() + SETTLE_S
        self._ends = self._engine.subscriptions.subscribe(Filter(ended=True), wake=self._job_ended)
        self._task = loop.create_task(self._run())

    async def close(self) -> None:
        """Delete no more queues: the daemon ends, and subscribers connect to the next one."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._ends is not None:
            self._ends.close()

    def made(self, queue: str) -> None:
        """Note that a temporary queue was made: it will have a subscriber soon."""
        self._expect(queue, BACK_S)

    @contextlib.contextmanager
    def subscribed(self, queue: str) -> Iterator[PendingRemoval]:
        """Keep a queue while a subscriber is connected."""
        leaving = PendingRemoval()
        self._due.pop(queue, None)
        self._open[queue] += 1
        try:
            yield leaving
        finally:
            self._open[queue] -= 1
            if not self._open[queue]:
                del self._open[queue]
            self._expect(queue, BACK_S if leaving.expected else 0.0)

    def _expect(self, queue: str, within_s: float) -> None:
        if queue not in self._open:
            loop = asyncio.get_running_loop()
            self._due[queue] = loop.time() + within_s
            loop.call_at(self._due[queue], self._changed.set)

    def _job_ended(self) -> None:
        assert self._ends is not None
        self._ends.take()
        if self._due:
            self._changed.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        # By then every worker has reported its queues.
        survey_at = loop.time() + BACK_S
        loop.call_at(survey_at, self._changed.set)
        while True:
            await self._changed.wait()
            self._changed.clear()
            now = loop.time()
            try:
                if now >= survey_at:
                    survey_at = float("inf")
                    known = await self._engine.read(_temporary)
                    for queue in known.keys() - self._due.keys() - self._open.keys():
                        self._due[queue] = now
                ripe = {queue for queue, at in self._due.items() if at <= now}
                if ripe:
                    await self._look(ripe)
            except GrassError as error:
                log.warning("temporary_queues_unknown error=%s", error)
                loop.call_later(RETRY_S, self._changed.set)
            await asyncio.sleep(LOOK_S)

    async def _look(self, ripe: set[str]) -> None:
        """Delete the queues without unfinished jobs; look at the others again when a job has ended."""
        workers = await self._engine.read(_temporary)
        busy = await self._engine.read(partial(_busy, queues=ripe & workers.keys()))
        for queue in ripe - busy:
            if self._due.pop(queue, None) is None:
                continue  # a client has subscribed meanwhile
            for worker, offer in workers.get(queue, {}).items():
                if queue not in self._open:
                    await self._delete(worker, offer)

    async def _delete(self, worker: str, offer: Offer) -> None:
        queue = offer.queue
        try:
            await self._directory.queue_admin(worker).withdraw(queue)
        except GrassError as error:
            log.info("temporary_queue_stays queue=%s worker=%s error=%s", queue, worker, error)
            self._expect(queue, RETRY_S)
            return
        # A client may have subscribed or submitted between the look and the deletion: its jobs would wait for ever.
        is_needed = bool(await self._engine.read(partial(_busy, queues={queue})))
        if is_needed or queue in self._open:
            await self._restore(worker, offer)
        else:
            log.info("temporary_queue_gone queue=%s worker=%s", queue, worker)

    async def _restore(self, worker: str, offer: Offer) -> None:
        try:
            await self._directory.queue_admin(worker).offer(offer)
            log.info("temporary_queue_needed_again queue=%s worker=%s", offer.queue, worker)
        except GrassError as error:
            log.warning("temporary_queue_missing queue=%s worker=%s error=%s", offer.queue, worker, error)
        self._expect(offer.queue, 0.0)


def _temporary(batch: Batch) -> dict[str, dict[str, Offer]]:
    """Return the offers of every temporary queue, by queue and worker."""
    found: dict[str, dict[str, Offer]] = {}
    for name, worker in batch.board.workers.items():
        for offer in worker.info.offers:
            if offer.temporary:
                found.setdefault(offer.queue, {})[name] = offer
    return found


def _busy(batch: Batch, queues: Collection[str]) -> set[str]:
    """Return the queues of `queues` that have an unfinished job."""
    busy = {queue for queue in queues if batch.board.unfinished(queue)}
    if busy == queues:
        return busy
    held = batch.store.jobs(InState((State.HELD,)), HELD_MAX)
    if len(held) == HELD_MAX:
        return set(queues)
    return busy | {job.spec.queue for job in held if batch.current(job).state is State.HELD} & set(queues)
