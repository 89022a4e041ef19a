"""The streamed answer to a subscriber to one queue: starts, output and ends of its jobs, as they happen.

One JSON line each, and after the line of an output its bytes. What is told is committed. A job that was placed behind
another one is started when it runs, any other when it is placed, so starts come in the order of the plan. After what
there was comes `shown`: which jobs have not ended, so that a reader finds out which ones exist no more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec
from aiohttp import web

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.job_change import JobChange
from grassq.broker.subscriptions import Filter
from grassq.core.model import FINAL, HOLDING, ID_MAX, State
from grassq.core.resources.amounts import allocation_json
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.access.principal import CALLER
from grassq.web.events.query import SubscriptionQuery, read_query
from grassq.web.events.queue_pages import QueuePages, check_queue, queue_status
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.listen.abort import cut
from grassq.web.logs.serve import LOOK_S, Cursor, Source, Sources

#: Something is said so often at least, so that both sides notice when the other is gone.
BEAT_S = 15.0
#: Frames are gathered up to so many bytes, then written; who reads slowly is waited for.
FLUSH_BYTES = 256 << 10
#: How long what comes right after something that was written is gathered.
GATHER_S = 0.02
#: So many jobs that have not ended are listed; of those above them nothing is said.
SHOWN_MAX = 30_000
#: While workers may still tell of jobs the store has forgotten, nobody is told that they are gone; asked again then.
ROLL_S = 2.0
#: A log that gives less than this at a time has been read to its end.
SHORT = 32 << 10

_BEAT = b'{"beat":true}\n'


async def serve_queue_stream(
    request: web.Request, engine: Engine, sources: Sources, temporary: TemporaryQueues
) -> web.StreamResponse:
    """Answer with what happens in a queue, until the reader goes; a temporary queue is kept as long."""
    query = read_query(request)
    transport = request.transport
    if transport is None:
        raise BadInput("the connection is gone")
    stream = QueueStream(engine, sources, query, temporary.settled_at)
    with stream.subscription, temporary.subscribed(query.queue, transport) as leaving:
        await engine.read(partial(check_queue, queue=query.queue))
        response = web.StreamResponse()
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        task = stream.start(response)
        # As a WebSocket hears of it: nothing else tells while there is nothing to write.
        request.protocol.set_parser(cast(Any, _Hangup(task.cancel)))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            # On this machine a connection does not break by itself: then nobody is there any more.
            leaving.expected = not (transport.is_closing() and request[CALLER].is_local)
            cut(transport)
    if not task.cancelled():
        task.result()
    return response


class _Hangup:
    """Hears that the peer has gone; what it still sends is nothing to us."""

    def __init__(self, gone: Callable[[], object]) -> None:
        self._gone = gone

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Bytes have come."""
        return False, b""

    def feed_eof(self) -> None:
        """Nothing more will come."""
        self._gone()


class _Reading:
    """An attempt that has been told as started: whose log it is, and how far that was read."""

    def __init__(self, job: JobChange, offset: int) -> None:
        assert job.placement is not None
        self.worker = job.placement.worker
        self.cursor = Cursor(job.job, job.attempt, "out" if job.split else "log", offset)


class QueueStream:
    """One reader's frames: what was heard of jobs becomes lines, and logs are read along."""

    def __init__(self, engine: Engine, sources: Sources, query: SubscriptionQuery, settled_at: float) -> None:
        """From `settled_at` on workers have told what they run."""
        self._engine = engine
        self._sources = sources
        self._first = query.first
        self._offsets = dict(query.offsets)
        #: When the jobs that have not ended are listed; infinity when they were.
        self._list_at = settled_at
        self._was_offered = False
        #: What was known of queues when it was last looked whether this one is there.
        self._generation = -1
        self._pages = QueuePages(query.queue, query.first, query.over)
        self.subscription = engine.subscriptions.subscribe(Filter(queue=query.queue), wake=self._wake)
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Attempts that hold devices now, by job.
        self._open: dict[int, _Reading] = {}
        self._out = bytearray()
        self._said_at = 0.0

    def start(self, response: web.StreamResponse) -> asyncio.Task[None]:
        """Write frames, in a task that ends when the reader is gone or has missed something."""
        self._task = asyncio.get_running_loop().create_task(self._run(response))
        return self._task

    def _wake(self) -> None:
        self._awake.set()
        if self.subscription.must_reread and self._task is not None:
            # It may be waiting for a reader that takes nothing.
            self._task.cancel()

    async def _run(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        self._said_at = loop.time()
        try:
            while not self._pages.is_complete:
                for job in await self._engine.read(self._pages.page):
                    await self._hear(response, job)
                await self._hear_news(response)
                await self._flush(response)
            look_at = 0.0
            while True:
                self._awake.clear()
                await self._hear_news(response)
                # Not at every word of a job: of brief ones the log is read once, when they have ended.
                if self._open and loop.time() >= look_at:
                    look_at = await self._look(response) + loop.time()
                if loop.time() >= self._list_at:
                    self._list_at = float("inf") if await self._list(response) else loop.time() + ROLL_S
                if await self._is_gone():
                    self._line({"gone": True})
                    await self._flush(response)
                    await response.write_eof()
                    return
                if loop.time() - self._said_at >= BEAT_S and not self._out:
                    self._out += _BEAT
                await self._flush(response)
                wait_s = look_at - loop.time() if self._open else BEAT_S
                await self._wait(max(0.0, min(wait_s, self._list_at - loop.time())))
                # The first word goes out at once; in a stream of brief jobs what follows is gathered for a moment.
                await asyncio.sleep(max(0.0, self._said_at + GATHER_S - loop.time()))
        except (GrassError, OSError):
            # The engine ends, or the reader is gone: an answer without its end says that it is not whole.
            return

    async def _list(self, response: web.StreamResponse) -> bool:
        """Say which jobs have not ended; False while that cannot be known for sure."""
        ids: list[int] = []
        first = self._first
        while first and len(ids) < SHOWN_MAX:
            found = await self._engine.read(partial(_unfinished, pages=self._pages, first=first))
            if found is None:
                return False
            ids += found[0]
            first = found[1]
        # One that is not among them may just have ended.
        await self._hear_news(response)
        self._line({"shown": _ranges(ids), "upto": first - 1 if first else ID_MAX})
        return True

    async def _is_gone(self) -> bool:
        """Whether the queue was deleted, so that jobs of it would wait for it; one that has ended wholly is no loss."""
        generation = self._engine.decider.generation
        if generation == self._generation:
            return False
        self._generation = generation
        was_offered = self._was_offered
        self._was_offered, is_needed = await self._engine.read(partial(queue_status, queue=self._pages.queue))
        return not self._was_offered and (was_offered or is_needed)

    async def _wait(self, seconds: float) -> None:
        if self._awake.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()

    async def _hear_news(self, response: web.StreamResponse) -> None:
        changes = self.subscription.take()
        if changes is None:
            raise Refused("the subscriber fell behind and must read again")
        for change in changes:
            if self._pages.is_news(change):
                await self._hear(response, change)

    async def _hear(self, response: web.StreamResponse, job: JobChange) -> None:
        """Tell a change. In the order of commits: all output of a job that ended comes before later starts."""
        known = self._open.get(job.job)
        if known is not None and (job.state not in HOLDING or job.attempt > known.cursor.attempt):
            unread = await self._finish(response, known)
            del self._open[job.job]
            if job.state in FINAL and job.attempt == known.cursor.attempt:
                self._end(job, unread)
                return
        if job.job not in self._open and _has_begun(job):
            unread = None
            if job.placement is not None:
                reading = self._begin(job)
                if job.state in FINAL:
                    unread = await self._finish(response, reading)
                else:
                    self._open[job.job] = reading
            if job.state in FINAL:
                self._end(job, unread)

    def _begin(self, job: JobChange) -> _Reading:
        assert job.placement is not None
        attempt, offset = self._offsets.pop(job.job, (0, 0))
        self._line(
            {"started": job.job, "attempt": job.attempt, "allocation": allocation_json(job.placement.allocation)}
        )
        return _Reading(job, offset if attempt == job.attempt else 0)

    def _end(self, job: JobChange, unread: str | None) -> None:
        how = {"state": str(job.state), "exit_code": job.exit_code, "signal": job.signal, "outcome": job.outcome}
        self._line({"ended": job.job, **how, "error": job.error, "unread": unread})

    def _line(self, document: dict[str, object]) -> None:
        self._out += msgspec.json.encode(document) + b"\n"

    async def _look(self, response: web.StreamResponse) -> float:
        """A piece of each log that grows; after how long to look again."""
        look_s, has_more = LOOK_S, False
        for reading in self._open.values():
            try:
                source = self._source(reading)
                data = await _read(reading, source)
            except (GrassError, OSError):
                continue  # while a job runs its worker may come back
            look_s = max(look_s, source.look_s)
            has_more |= len(data) >= SHORT
            await self._put(response, reading, data)
        return 0.0 if has_more else look_s

    async def _finish(self, response: web.StreamResponse, reading: _Reading) -> str | None:
        """All that is left of a log; why not, if it cannot be read."""
        while True:
            try:
                source = self._source(reading)
                data = await _read(reading, source)
            except (GrassError, OSError) as error:
                return str(error)
            await self._put(response, reading, data)
            # A copy that leaves out the middle may give little before its gap.
            if not data or (len(data) < SHORT and source.cut_at is None):
                return None

    def _source(self, reading: _Reading) -> Source:
        at = reading.cursor
        return self._sources.source(reading.worker, at.job, at.attempt, at.stream)

    async def _put(self, response: web.StreamResponse, reading: _Reading, data: bytes) -> None:
        at = reading.cursor
        if data:
            begin = at.offset - len(data)
            self._line({"output": at.job, "attempt": at.attempt, "offset": begin, "size": len(data)})
            self._out += data
        if len(self._out) >= FLUSH_BYTES:
            await self._flush(response)

    async def _flush(self, response: web.StreamResponse) -> None:
        if self._out:
            out, self._out = self._out, bytearray()
            self._said_at = asyncio.get_running_loop().time()
            await response.write(out)


def _unfinished(batch: Batch, pages: QueuePages, first: int) -> tuple[list[int], int] | None:
    """Jobs that have not ended; None while workers may still bring some back that the store has forgotten."""
    if batch.board.unreconciled or batch.board.awaits(batch.mono):
        return None
    return pages.unfinished(batch, first)


def _ranges(ids: list[int]) -> list[list[int]]:
    """Ids in ascending order as [first, last] of those that follow one another."""
    found: list[list[int]] = []
    for id_ in ids:
        if found and id_ == found[-1][1] + 1:
            found[-1][1] = id_
        else:
            found.append([id_, id_])
    return found


def _has_begun(job: JobChange) -> bool:
    """Whether a job is to be told of: one that was placed behind another begins when it runs."""
    if job.state is State.PLACED:
        return job.placement is not None and job.placement.after is None
    return job.state is State.RUNNING or job.state in FINAL


async def _read(reading: _Reading, source: Source) -> bytes:
    """The next piece of a log; from its start, if that is not the log it was."""
    at = reading.cursor
    if source.cut_at is not None and await at.is_lost(source):
        at.offset = 0
    data = await at.read(source)
    if not data and await at.is_lost(source):
        at.offset = 0
        data = await at.read(source)
    return data
