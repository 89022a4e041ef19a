"""The streamed answer to a subscriber to one queue: starts, output and ends of its jobs, as they happen.

Each frame is one JSON line; the line of an output is followed by its bytes. Everything sent is committed. A prefetched
job is reported as started when it runs, any other job when it is placed, so starts come in the order of the plan. After
the jobs that existed at the beginning comes `shown`: the unfinished jobs, so that a reader notices removed ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from aiohttp import web

from grassq.broker.engine import Engine
from grassq.broker.job_change import JobChange
from grassq.broker.subscriptions import Filter
from grassq.core.model import FINAL, HOLDING, ID_MAX, State
from grassq.core.resources.amounts import allocation_json
from grassq.core.syntax.numbers import id_ranges
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.access.principal import CALLER
from grassq.web.events.queue_pages import QueuePages, SubscriptionQuery, check_queue, queue_status, read_query
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.listen.abort import cut, write_until_hangup
from grassq.web.logs.tail import LogTail, Sources

#: A line is sent at least this often, so that both ends notice a lost connection.
BEAT_S = 15.0
#: Frames are buffered up to this many bytes, then written; a slow reader delays the rest.
FLUSH_BYTES = 256 << 10
#: Frames right after a write are buffered for this long.
GATHER_S = 0.02
#: The log of a job is followed once the job has run for this long. The log of a shorter job is read at its end.
FOLLOW_AFTER_S = 0.1
#: At most this many unfinished jobs are listed; `upto` is below the next one.
SHOWN_MAX = 30_000
#: The list waits while workers may still report jobs that the store has forgotten; it is tried again after this.
LIST_S = 2.0


async def serve_queue_stream(
    request: web.Request, engine: Engine, sources: Sources, temporary: TemporaryQueues
) -> web.StreamResponse:
    """Answer with the events of a queue until the reader disconnects; a temporary queue is kept as long."""
    query = read_query(request)
    transport = request.transport
    if transport is None:
        raise BadInput("the connection is gone")
    stream = QueueStream(engine, sources, query, temporary.settled_at)
    with stream.subscription, temporary.subscribed(query.queue) as leaving:
        await engine.read(partial(check_queue, queue=query.queue))
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        try:
            await write_until_hangup(request, stream.write(response))
        finally:
            # On this machine a connection does not break by itself: the reader has closed it or has died.
            leaving.expected = not (transport.is_closing() and request[CALLER].is_local)
            cut(transport)
    return response


class _OpenJob:
    """An attempt that was reported as started: its log, the time to follow it, and the task that follows it."""

    def __init__(self, tail: LogTail, follow: Callable[[_OpenJob], None]) -> None:
        self.tail = tail
        self.timer = asyncio.get_running_loop().call_later(FOLLOW_AFTER_S, follow, self)
        self.task: asyncio.Task[None] | None = None


class QueueStream:
    """One reader's frames: changes of jobs become lines, and logs are followed."""

    def __init__(self, engine: Engine, sources: Sources, query: SubscriptionQuery, settled_at: float) -> None:
        """After `settled_at`, workers have reported what they run."""
        self._engine = engine
        self._sources = sources
        self._first = query.first
        self._offsets = dict(query.offsets)
        #: When the unfinished jobs are listed; infinity after that.
        self._list_at = settled_at
        self._was_offered = False
        #: The generation of queues when this queue was last checked.
        self._generation = -1
        self._pages = QueuePages(query.queue, query.first, query.over)
        self.subscription = engine.subscriptions.subscribe(Filter(queue=query.queue), wake=self._wake)
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Attempts that hold devices now, by job.
        self._open: dict[int, _OpenJob] = {}
        self._response: web.StreamResponse
        self._out = bytearray()
        self._writing = asyncio.Lock()
        self._said_at = 0.0

    async def write(self, response: web.StreamResponse) -> None:
        """Write frames until the queue is deleted; stop when the reader disconnects or has missed a change."""
        self._response = response
        self._task = asyncio.current_task()
        try:
            await self._write_all()
        except (GrassError, OSError):
            # The engine ends, or the reader is gone: an answer without its end is known to be incomplete.
            return
        finally:
            for job in self._open.values():
                job.timer.cancel()
                if job.task is not None:
                    job.task.cancel()

    def _wake(self) -> None:
        self._awake.set()
        if self.subscription.must_reread and self._task is not None:
            # The task may wait for a reader that takes nothing.
            self._task.cancel()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        self._said_at = loop.time()
        while not self._pages.is_complete:
            for change in await self._engine.read(self._pages.page):
                await self._hear(change)
            await self._hear_news()
            await self._flush()
        while True:
            self._awake.clear()
            await self._hear_news()
            if loop.time() >= self._list_at:
                self._list_at = float("inf") if await self._list() else loop.time() + LIST_S
            if await self._is_gone():
                self._line({"gone": True})
                await self._flush()
                await self._response.write_eof()
                return
            if loop.time() - self._said_at >= BEAT_S and not self._out:
                self._line({"beat": True})
            await self._flush()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(BEAT_S, self._list_at - loop.time()))):
                    await self._awake.wait()
            # The first frame is sent at once; in a stream of short jobs the next ones are buffered for a moment.
            await asyncio.sleep(max(0.0, self._said_at + GATHER_S - loop.time()))

    async def _list(self) -> bool:
        """Send the list of unfinished jobs; return False while it cannot be known."""
        ids: list[int] = []
        first = self._first
        while first and len(ids) < SHOWN_MAX:
            found = await self._engine.read(partial(self._pages.unfinished, first=first))
            if found is None:
                return False
            ids += found[0]
            first = found[1]
        # A job that is missing in the list may just have ended.
        await self._hear_news()
        self._line({"shown": id_ranges(ids), "upto": first - 1 if first else ID_MAX})
        return True

    async def _is_gone(self) -> bool:
        """Return whether the queue was deleted, having been offered before or still having jobs."""
        generation = self._engine.status.generation
        if generation == self._generation:
            return False
        self._generation = generation
        was_offered = self._was_offered
        self._was_offered, is_needed = await self._engine.read(partial(queue_status, queue=self._pages.queue))
        return not self._was_offered and (was_offered or is_needed)

    async def _hear_news(self) -> None:
        changes = self.subscription.take()
        if changes is None:
            raise Refused("the subscriber fell behind and must read again")
        for change in changes:
            if self._pages.is_news(change):
                await self._hear(change)

    async def _hear(self, change: JobChange) -> None:
        """Send a change, in the order of commits: all output of an ended job comes before later starts."""
        known = self._open.get(change.job)
        if known is not None and (change.state not in HOLDING or change.attempt > known.tail.attempt):
            del self._open[change.job]
            unread = await self._finish(known)
            if change.state in FINAL and change.attempt == known.tail.attempt:
                self._end(change, unread)
                return
        if change.job not in self._open and _has_begun(change):
            unread = None
            if change.placement is not None:
                job = self._begin(change)
                if change.state in FINAL:
                    unread = await self._finish(job)
                else:
                    self._open[change.job] = job
            if change.state in FINAL:
                self._end(change, unread)

    def _begin(self, change: JobChange) -> _OpenJob:
        where = change.placement
        assert where is not None
        attempt, offset = self._offsets.pop(change.job, (0, 0))
        self._line({"started": change.job, "attempt": change.attempt, "allocation": allocation_json(where.allocation)})
        stream, begin = "out" if change.split else "log", offset if attempt == change.attempt else 0
        tail = LogTail(self._sources, where.worker, change.job, change.attempt, stream, begin)
        return _OpenJob(tail, self._follow_later)

    def _end(self, change: JobChange, unread: str | None) -> None:
        how = {"exit_code": change.exit_code, "signal": change.signal, "outcome": change.outcome}
        self._line({"ended": change.job, "state": str(change.state), **how, "error": change.error, "unread": unread})

    def _line(self, document: Mapping[str, object]) -> None:
        self._out += msgspec.json.encode(document) + b"\n"

    def _follow_later(self, job: _OpenJob) -> None:
        job.task = asyncio.create_task(self._follow(job.tail))
        self._awake.set()

    async def _follow(self, tail: LogTail) -> None:
        async for part in tail:
            if part.data:
                frame = {"output": tail.job, "attempt": tail.attempt, "offset": part.offset, "size": len(part.data)}
                self._line(frame)
                self._out += part.data
                self._awake.set()
            if len(self._out) >= FLUSH_BYTES:
                await self._flush()

    async def _finish(self, job: _OpenJob) -> str | None:
        """Send the rest of a log; return the reason if the log cannot be read."""
        job.tail.end()
        job.timer.cancel()
        try:
            await (job.task or self._follow(job.tail))
        except (GrassError, OSError) as error:
            return str(error)
        return None

    async def _flush(self) -> None:
        async with self._writing:
            if self._out:
                out, self._out = self._out, bytearray()
                self._said_at = asyncio.get_running_loop().time()
                await self._response.write(out)


def _has_begun(job: JobChange) -> bool:
    """Return whether a job counts as started; a prefetched job starts when it runs."""
    if job.state is State.PLACED:
        return job.placement is not None and job.placement.after is None
    return job.state is State.RUNNING or job.state in FINAL
