"""Who attends a temporary queue, and when it goes: nobody attends it, and all its jobs have ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator
from functools import partial

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Subscriber
from grassq.core.model import Offer, State
from grassq.core.syntax.selectors import ByState as InState
from grassq.errors import GrassError
from grassq.web.listen.abort import cut
from grassq.web.workers.queue_admin import LogSources

log = logging.getLogger(__name__)

#: How long a queue waits for somebody to attend it: after a daemon has started, after it was made, and after a
#: connection ended that may have broken by itself.
BACK_S = 60.0
#: So long after a daemon has started its workers have told what they run, also what its store has forgotten.
SETTLE_S = 10.0
#: A queue that could not be deleted, because its worker is out of touch, is tried again after so long.
RETRY_S = 60.0
#: Looks for queues that may go are so far apart at least, however many jobs end meanwhile.
LOOK_S = 0.1
#: Held jobs that are looked through for one of a queue; with so many, it is kept.
HELD_MAX = 10_000


class PendingRemoval(Struct):
    """How somebody stopped attending: whether he is expected to come back."""

    expected: bool = False


class TemporaryQueues:
    """Counts who attends, and deletes temporary queues that nobody needs any more. Used from the event loop only."""

    def __init__(self, engine: Engine, directory: LogSources) -> None:
        self._engine = engine
        self._directory = directory
        #: Queues that nobody attends, and from when on they may go.
        self._due: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._open: set[asyncio.BaseTransport] = set()
        self._task: asyncio.Task[None] | None = None
        #: From when on it is known what runs.
        self.settled_at = 0.0
        engine.on_finished(self._heard)

    def start(self) -> None:
        """Begin to look after queues."""
        loop = asyncio.get_running_loop()
        self.settled_at = loop.time() + SETTLE_S
        self._task = loop.create_task(self._run())

    async def close(self) -> None:
        """The daemon ends: no queue goes any more, and who attends is cut off and finds the next daemon."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for transport in list(self._open):
            cut(transport)

    def made(self, queue: str) -> None:
        """A temporary queue was made: somebody will attend it soon."""
        self._expect(queue, BACK_S)

    @contextlib.contextmanager
    def attending(self, subscriber: Subscriber, transport: asyncio.BaseTransport) -> Iterator[PendingRemoval]:
        """While this lasts, a queue is attended."""
        queue, leaving = subscriber.queue, PendingRemoval()
        self._engine.subscriptions.enter(subscriber)
        self._due.pop(queue, None)
        self._open.add(transport)
        try:
            yield leaving
        finally:
            self._open.discard(transport)
            self._engine.subscriptions.leave(subscriber)
            self._expect(queue, BACK_S if leaving.expected else 0.0)

    def _expect(self, queue: str, within_s: float) -> None:
        if not self._engine.subscriptions.is_attended(queue):
            self._due[queue] = asyncio.get_running_loop().time() + within_s
            self._changed.set()

    def _heard(self, finished: list[int]) -> None:
        if self._due:
            self._changed.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        # By then every worker has said which queues it has.
        survey_at = loop.time() + BACK_S
        while True:
            now = loop.time()
            try:
                if now >= survey_at:
                    survey_at = float("inf")
                    known = await self._engine.read(_temporary)
                    for queue in known.keys() - self._due.keys() - self._engine.subscriptions.queues.keys():
                        self._due[queue] = now
                ripe = {queue for queue, at in self._due.items() if at <= now}
                if ripe:
                    await self._look(ripe)
            except GrassError as error:
                log.warning("temporary_queues_unknown error=%s", error)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(LOOK_S)
            await self._wait(min([survey_at, *(at for at in self._due.values() if at > now)]) - loop.time())

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == float("inf") else max(0.0, seconds)):
                await self._changed.wait()
        self._changed.clear()

    async def _look(self, ripe: set[str]) -> None:
        """Delete those that may go; the others are looked at again when a job has ended."""
        workers = await self._engine.read(_temporary)
        busy = await self._engine.read(partial(_busy, queues=ripe & workers.keys()))
        for queue in ripe - busy:
            if self._due.pop(queue, None) is None:
                continue  # attended meanwhile
            for worker, offer in workers.get(queue, {}).items():
                if not self._engine.subscriptions.is_attended(queue):
                    await self._delete(worker, offer)

    async def _delete(self, worker: str, offer: Offer) -> None:
        queue = offer.queue
        try:
            await self._directory.queue_admin(worker).withdraw(queue)
        except GrassError as error:
            log.info("temporary_queue_stays queue=%s worker=%s error=%s", queue, worker, error)
            self._expect(queue, RETRY_S)
            return
        # Somebody may have come, or submitted, between the look and the deletion: his jobs would wait for ever.
        is_needed = bool(await self._engine.read(partial(_busy, queues={queue})))
        if is_needed or self._engine.subscriptions.is_attended(queue):
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
    """Every temporary queue, and as what which worker has it."""
    found: dict[str, dict[str, Offer]] = {}
    for name, worker_state in batch.board.worker_states.items():
        for offer in worker_state.info.offers:
            if offer.temporary:
                found.setdefault(offer.queue, {})[name] = offer
    return found


def _busy(batch: Batch, queues: Collection[str]) -> set[str]:
    """Those of some queues that have a job which has not ended."""
    busy = {queue for queue in queues if batch.board.unfinished(queue)}
    if busy == queues:
        return busy
    held = batch.store.jobs(InState(State.HELD), HELD_MAX)
    if len(held) == HELD_MAX:
        return set(queues)
    return busy | {job.spec.queue for job in held if batch.current(job).state is State.HELD} & set(queues)
