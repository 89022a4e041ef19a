"""Logs over HTTP: what is there, and what comes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from aiohttp import web
from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.core.model import FINAL, Job
from grassq.core.syntax.selectors import ByIds
from grassq.errors import BadInput, GrassError
from grassq.web.listen.abort import cut

LOOK_S = 0.1
#: The same through a worker's link, where each look is a question and an answer.
REMOTE_LOOK_S = 0.25
#: How often a follower asks whether its job has ended or was started anew.
STATE_EVERY = 5
STREAMS = ("log", "out", "err")
OFFSET_MAX = 1 << 60
DIGITS_MAX = 20
LINES_MAX = 1_000_000


class LogReader(Protocol):
    """Reads logs where they are: on this machine, through a worker's link, or from a copy."""

    async def read(self, job: int, attempt: int, stream: str, offset: int) -> bytes:
        """What a stream holds from an offset on, up to a bound."""

    async def size(self, job: int, attempt: int, stream: str) -> int:
        """How many bytes a stream holds."""

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Where the last lines begin."""


class Source(Struct, frozen=True):
    """Where one log is read."""

    reader: LogReader
    #: A copy that leaves out the middle of a long log is as the log was only up to here.
    cut_at: int | None = None
    look_s: float = LOOK_S


class Sources(Protocol):
    """Knows where logs are."""

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Where the log of an attempt is read that was given to this worker; refused when that cannot be now."""


class Cursor:
    """A place in one log, where reading goes on."""

    def __init__(self, job: int, attempt: int, stream: str, offset: int = 0) -> None:
        self.job = job
        self.attempt = attempt
        self.stream = stream
        self.offset = offset
        #: The offset is one in a copy that leaves out the middle of the log.
        self.in_copy = False

    async def read(self, source: Source) -> bytes:
        """The next bytes, up to a bound; none at the end."""
        self.in_copy = source.cut_at is not None
        data = await source.reader.read(self.job, self.attempt, self.stream, self.offset)
        self.offset += len(data)
        return data

    async def is_lost(self, source: Source) -> bool:
        """Whether the offset names no place, or another one, in what is read now: a log may shrink."""
        if source.cut_at is not None and not self.in_copy and self.offset > source.cut_at:
            return True
        return self.offset > 0 and await source.reader.size(self.job, self.attempt, self.stream) < self.offset


class FoundLog(Struct, frozen=True):
    """A job, and the worker of each of its attempts."""

    job: Job
    workers: dict[int, str]


async def serve_log(request: web.Request, engine: Engine, sources: Sources) -> web.StreamResponse:
    """Answer with a log from an offset on; with follow, until the job has ended."""
    found = await _find(engine, int(request.match_info["id"]))
    job = found.job
    stream = request.query.get("stream") or ("out" if job.spec.split else "log")
    if stream not in STREAMS or (stream == "log") == job.spec.split:
        has = "out and err" if job.spec.split else "one log"
        raise BadInput(f"job {job.id} has {has}, no stream {stream!r}")
    attempt = number(request, "attempt", job.attempt, 1 << 30)
    reading = _Reading(engine, sources, found, attempt, stream)
    tail = number(request, "tail", 0, LINES_MAX) if "tail" in request.query else None
    try:
        await reading.begin(number(request, "offset", 0, OFFSET_MAX), tail)
    except GrassError:
        # Of a job that has not ended the worker may come back; but its last lines cannot be counted from here.
        if request.query.get("follow") != "1" or job.state in FINAL or tail is not None:
            raise
    headers = {"Grass-Attempt": str(attempt), "Grass-State": str(job.state), "Grass-Offset": str(reading.offset)}
    response = web.StreamResponse(headers=headers)
    response.content_type = "application/octet-stream"
    await response.prepare(request)
    try:
        if request.query.get("follow") == "1":
            await reading.follow(request, response)
        else:
            await reading.copy(response)
    except (GrassError, OSError):
        # The worker went away in the middle. An answer without its end says so: the client asks again from where it
        # was, and is told in words.
        cut(request.transport)
        return response
    await response.write_eof()
    return response


class _Reading:
    """One request for a log: how far it has come, and where from."""

    def __init__(self, engine: Engine, sources: Sources, found: FoundLog, attempt: int, stream: str) -> None:
        self._engine = engine
        self._sources = sources
        self._found = found
        self._cursor = Cursor(found.job.id, attempt, stream)

    @property
    def offset(self) -> int:
        """How far it has come."""
        return self._cursor.offset

    def _source(self) -> Source | None:
        at = self._cursor
        worker = self._found.workers.get(at.attempt)
        return None if worker is None else self._sources.source(worker, at.job, at.attempt, at.stream)

    async def begin(self, offset: int, tail: int | None) -> None:
        """Find the place to start at; refused here, and not in the middle, when nobody can be asked."""
        at = self._cursor
        at.offset = offset
        source = self._source()
        if source is None:
            return
        if tail is not None:
            at.offset = await source.reader.tail_offset(at.job, at.attempt, at.stream, tail)
            at.in_copy = source.cut_at is not None
        else:
            await source.reader.size(at.job, at.attempt, at.stream)

    async def copy(self, response: web.StreamResponse) -> float:
        """Write what there is by now; how long to wait before the next look."""
        source = self._source()
        if source is None:
            return LOOK_S
        at = self._cursor
        if await at.is_lost(source):
            # A job that opens its own stdout anew truncates it; clients know this mark and count on from 0 after it.
            await response.write(b"\n[grass: the log shrank at %d bytes]\n" % at.offset)
            at.offset = 0
        while data := await at.read(source):
            await response.write(data)
        return source.look_s

    async def follow(self, request: web.Request, response: web.StreamResponse) -> None:
        """Write what comes, until the job has ended or was started anew, or nobody listens any more."""
        looks = 0
        while request.transport is not None and not request.transport.is_closing():
            known = looks % STATE_EVERY == 0
            if known:
                self._found = await _find(self._engine, self._cursor.job)
            job = self._found.job
            # A job that has not started yet is followed from its first try on.
            at = self._cursor
            at.attempt = at.attempt or (1 if known and job.attempt else 0)
            over = known and (job.state in FINAL or job.attempt > at.attempt > 0)
            before = self.offset
            try:
                look_s = await self.copy(response)
            except GrassError:
                # While a job runs its worker may come back.
                if over:
                    raise
                look_s = REMOTE_LOOK_S
            if over:
                # The look at the state came before the copy, so nothing the job wrote is left out.
                return
            looks = 0 if self.offset == before and looks % STATE_EVERY == STATE_EVERY - 1 else looks + 1
            await asyncio.sleep(look_s)


async def _find(engine: Engine, id_: int) -> FoundLog:
    return await engine.read(partial(_look_up, id_=id_))


def _look_up(batch: Batch, id_: int) -> FoundLog:
    job = selection.select(batch, [ByIds(((id_, id_),))])[0]
    workers = {attempt.number: attempt.placement.worker for attempt in batch.store.attempts(id_)}
    if job.placement is not None:
        workers[job.attempt] = job.placement.worker
    return FoundLog(job, workers)


def number(request: web.Request, name: str, default: int, most: int) -> int:
    """A number in a request's query."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX or int(text) > most:
        raise BadInput(f"{name}={text[:20]!r} is no number from 0 to {most}")
    return int(text)
