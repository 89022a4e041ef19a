"""The streamed answer to who attends a queue: starts, output and ends of its jobs, as they happen.

One JSON line each, and after the line of an output its bytes. What is told is committed. A job that was placed behind
another one is started when it runs, any other when it is placed, so starts come in the order of the plan.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import Any, cast

import msgspec
from aiohttp import web

from grassq.broker.audience import Attendant, check_queue
from grassq.broker.engine import Engine
from grassq.core.model import ATTEMPT_MAX, FINAL, HOLDING, ID_MAX, Job, State
from grassq.core.names import check_name
from grassq.core.resources import allocation_json
from grassq.errors import BadInput, GrassError
from grassq.web.caller import CALLER
from grassq.web.cut import cut
from grassq.web.doors import Doors
from grassq.web.logs import DIGITS_MAX, LOOK_S, OFFSET_MAX, Cursor, Source, Sources, number

#: Something is said so often at least, so that both sides notice when the other is gone.
BEAT_S = 15.0
#: Frames are gathered up to so many bytes, then written; who reads slowly is waited for.
FLUSH_BYTES = 256 << 10
#: How long what comes right after something that was written is gathered.
GATHER_S = 0.01
#: Offsets that one request may tell.
OFFSETS_MAX = 1000
#: A log that gives less than this at a time has been read to its end.
SHORT = 32 << 10

_BEAT = b'{"beat":true}\n'
#: The largest job, attempt and offset.
_MOST = (ID_MAX, ATTEMPT_MAX, OFFSET_MAX)

Offsets = dict[int, tuple[int, int]]


async def serve_attendance(request: web.Request, engine: Engine, sources: Sources, doors: Doors) -> web.StreamResponse:
    """Answer with what happens in a queue, until the reader goes; as long as that lasts the queue is attended."""
    queue = check_name(request.match_info["queue"], "queue name")
    first = number(request, "from", 1, ID_MAX)
    offsets = read_offsets(request.query.get("offsets", ""))
    transport = request.transport
    if transport is None:
        raise BadInput("the connection is gone")
    feed = Feed(engine, sources, queue, first, offsets)
    with doors.attending(feed.attendant, transport) as leaving:
        await engine.read(partial(check_queue, queue=queue))
        response = web.StreamResponse()
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        task = feed.start(response)
        # As a WebSocket hears of it: nothing else tells while there is nothing to write.
        request.protocol.set_parser(cast(Any, _Ear(task.cancel)))
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


def read_offsets(text: str) -> Offsets:
    """How far attempts were read: JOB:ATTEMPT:OFFSET, with commas between."""
    found: Offsets = {}
    parts = text.split(",", OFFSETS_MAX) if text else []
    if len(parts) > OFFSETS_MAX:
        raise BadInput(f"more than {OFFSETS_MAX:,} offsets")
    for part in parts:
        words = part.split(":")
        numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX]
        if len(words) != len(_MOST) or len(numbers) != len(_MOST) or any(map(gt, numbers, _MOST)):
            raise BadInput(f"offsets: {part[:40]!r} is not JOB:ATTEMPT:OFFSET")
        found[numbers[0]] = (numbers[1], numbers[2])
    return found


class _Ear:
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

    def __init__(self, job: Job, offset: int) -> None:
        assert job.placement is not None
        self.worker = job.placement.worker
        self.cursor = Cursor(job.id, job.attempt, "out" if job.spec.split else "log", offset)


class Feed:
    """One reader's frames: what was heard of jobs becomes lines, and logs are read along."""

    def __init__(self, engine: Engine, sources: Sources, queue: str, first: int, offsets: Offsets) -> None:
        self._engine = engine
        self._sources = sources
        self._offsets = offsets
        self.attendant = Attendant(queue, first, self._wake)
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
        if self.attendant.has_missed and self._task is not None:
            # It may be waiting for a reader that takes nothing.
            self._task.cancel()

    async def _run(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        self._said_at = loop.time()
        try:
            while not self.attendant.is_up_to_date:
                for job in await self._engine.read(partial(self.attendant.page, first=self.attendant.upto)):
                    await self._hear(response, job)
                await self._flush(response)
            look_at = 0.0
            while True:
                self._awake.clear()
                for job in self.attendant.take():
                    await self._hear(response, job)
                # Not at every word of a job: of brief ones the log is read once, when they have ended.
                if self._open and loop.time() >= look_at:
                    look_at = await self._look(response) + loop.time()
                if loop.time() - self._said_at >= BEAT_S and not self._out:
                    self._out += _BEAT
                await self._flush(response)
                await self._wait(max(0.0, look_at - loop.time()) if self._open else BEAT_S)
                # The first word goes out at once; in a stream of brief jobs what follows is gathered for a moment.
                await asyncio.sleep(max(0.0, self._said_at + GATHER_S - loop.time()))
        except (GrassError, OSError):
            # The engine ends, or the reader is gone: an answer without its end says that it is not whole.
            return

    async def _wait(self, seconds: float) -> None:
        if self._awake.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()

    async def _hear(self, response: web.StreamResponse, job: Job) -> None:
        """A job is like this now. In the order of commits: all output of one that ended comes before later starts."""
        known = self._open.get(job.id)
        if known is not None and (job.state not in HOLDING or job.attempt > known.cursor.attempt):
            unread = await self._finish(response, known)
            del self._open[job.id]
            if job.state in FINAL and job.attempt == known.cursor.attempt:
                self._end(job, unread)
                return
        if job.id not in self._open and _has_begun(job):
            unread = None
            if job.placement is not None:
                reading = self._begin(job)
                if job.state in FINAL:
                    unread = await self._finish(response, reading)
                else:
                    self._open[job.id] = reading
            if job.state in FINAL:
                self._end(job, unread)

    def _begin(self, job: Job) -> _Reading:
        assert job.placement is not None
        attempt, offset = self._offsets.pop(job.id, (0, 0))
        self._line({"started": job.id, "attempt": job.attempt, "allocation": allocation_json(job.placement.allocation)})
        return _Reading(job, offset if attempt == job.attempt else 0)

    def _end(self, job: Job, unread: str | None) -> None:
        how = {"state": str(job.state), "exit_code": job.exit_code, "signal": job.signal, "outcome": job.outcome}
        self._line({"ended": job.id, **how, "error": job.error, "unread": unread})

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


def _has_begun(job: Job) -> bool:
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
