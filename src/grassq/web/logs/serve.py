"""GET /v1/jobs/ID/log: a log from an offset on, whole, up to a limit, or as it grows."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Literal

from aiohttp import web
from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Filter, Subscription
from grassq.core.model import FINAL, Job
from grassq.core.syntax.selectors import ByIds
from grassq.errors import BadInput, GrassError, NotFound, Refused
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.listen.abort import cut, write_until_hangup
from grassq.web.logs.download import ByteRange, file_name, find_range, is_range
from grassq.web.logs.tail import OFFSET_MAX, LogPart, LogTail, Sources
from grassq.web.requests import number

STREAMS = ("log", "out", "err")
LINES_MAX = 1_000_000
ATTEMPTS_MAX = 1 << 30
#: Bytes of a log that are written at once.
PIECE = 128 << 10


#: The path of a log, and the parameters of every route about one.
LOG_PATH = r"/v1/jobs/{id:\d{1,15}}/log"
LOG_CHOICE = (
    Parameter("attempt", "The number of an attempt", int, "the last one"),
    Parameter("stream", "Of a job with split output out or err, else log", Literal["log", "out", "err"]),
)


def log_route(engine: Engine, sources: Sources) -> Route:
    """Return the route."""
    about = Description(
        "logs",
        "The bytes of a log, whole, a part of it, or as it grows",
        None,
        "bytes",
        (
            *LOG_CHOICE,
            Parameter("offset", "The first byte", int, 0),
            Parameter("limit", "How many bytes; not with follow", int, "all"),
            Parameter("tail", "Begin this many lines before the end", int),
            Parameter("follow", "Go on until the attempt is over", bool),
            Parameter("download", "Answer with a file to save; one range of bytes may be asked for (`Range`)", bool),
            Parameter("resume", "End where the log does not go on at the offset that the client counts", bool),
        ),
    )
    return Route("GET", LOG_PATH, partial(serve_log, engine=engine, sources=sources), "read", waits=True, about=about)


class FoundLog(Struct, frozen=True):
    """A job, and the worker of each of its attempts."""

    job: Job
    workers: dict[int, str]


async def serve_log(request: web.Request, engine: Engine, sources: Sources) -> web.StreamResponse:
    """Answer with a log from an offset on; with `follow=1`, until the attempt is over."""
    id_ = int(request.match_info["id"])
    if request.query.get("follow") != "1":
        return await _LogAnswer(request, engine, sources, await find(engine, id_)).serve(None)
    with engine.subscriptions.subscribe(Filter(frozenset({id_}))) as changes:
        # The job is read after the subscription has begun, so that no change is missed.
        return await _LogAnswer(request, engine, sources, await find(engine, id_)).serve(changes)


class _LogAnswer:
    """One answer with a log."""

    def __init__(self, request: web.Request, engine: Engine, sources: Sources, found: FoundLog) -> None:
        self._request = request
        self._engine = engine
        self._sources = sources
        self._found = found
        self._attempt, self._stream = chosen(request, found.job)
        #: Bytes that are still to be written; None for all.
        self._left = number(request, "limit", 0, OFFSET_MAX) if "limit" in request.query else None
        if self._left is not None and request.query.get("follow") == "1":
            raise BadInput("limit= and follow=1 cannot go together")
        self._offset = number(request, "offset", 0, OFFSET_MAX)
        self._lines = number(request, "tail", 0, LINES_MAX) if "tail" in request.query else None
        #: The client counts its offset by the bytes it receives, and asks again where the offset jumps.
        self._counts = request.query.get("resume") == "1"

    async def serve(self, changes: Subscription | None) -> web.StreamResponse:
        """Send the log; with `changes`, follow it until the attempt is over."""
        part = await self._range() if changes is None else None
        if part is not None:
            if not part.count:
                return web.Response(status=416, headers=part.headers)
            self._offset, self._left, self._lines = part.first, part.count, None
        tail = self._tail()
        first = await self._first(tail, may_wait=changes is not None)
        headers = {"Content-Type": "application/octet-stream"}
        headers |= {"Grass-Attempt": str(self._attempt), "Grass-State": str(self._found.job.state)}
        if first is not None and not first.data:
            headers["Grass-Shrank"] = str(first.offset)
        headers["Grass-Offset"] = str(first.offset if first is not None and first.data else tail.offset if tail else 0)
        headers |= self._download_headers() | ({} if part is None else part.headers)
        response = web.StreamResponse(status=200 if part is None else 206, headers=headers)
        if changes is not None:
            response.force_close()
        await response.prepare(self._request)
        try:
            if first is not None:
                await _write(response, first.data[: self._left])
            if self._left is not None and tail is not None:
                await self._write_limited(response, tail, self._left - (len(first.data) if first else 0))
            elif changes is None:
                if tail is not None:
                    tail.end()
                    await self._write_rest(response, tail)
            elif not await write_until_hangup(self._request, self._follow(response, tail, changes)):
                raise Refused("the client hung up")
        except (GrassError, OSError):
            # The client or the worker disconnected, or the log shrank. An answer without its end is known to be
            # incomplete: the client asks again from its offset, and is told why.
            cut(self._request.transport)
            return response
        await response.write_eof()
        return response

    async def _range(self) -> ByteRange | None:
        """Return the range of bytes that the header `Range` asks for; None for the whole log."""
        asked, worker = self._request.headers.get("Range"), self._found.workers.get(self._attempt)
        if asked is None or worker is None or not is_range(asked):
            return None
        log = self._found.job.id, self._attempt, self._stream
        return await find_range(asked, self._sources.source(worker, *log), log)

    def _download_headers(self) -> dict[str, str]:
        if self._request.query.get("download") != "1":
            return {}
        name = file_name(self._found.job, self._attempt, self._stream)
        return {"Content-Disposition": f'attachment; filename="{name}"', "Accept-Ranges": "bytes"}

    async def _write_limited(self, response: web.StreamResponse, tail: LogTail, left: int) -> None:
        while left > 0 and (part := await tail.read()) is not None:
            if not part.data:
                raise Refused("the log shrank; the next answer says so in its headers")
            await _write(response, part.data[:left])
            left -= len(part.data)

    def _tail(self) -> LogTail | None:
        """Return the log of the attempt; None before the first attempt has a worker."""
        worker = self._found.workers.get(self._attempt)
        if worker is None:
            return None
        return LogTail(self._sources, worker, self._found.job.id, self._attempt, self._stream, self._offset)

    async def _first(self, tail: LogTail | None, may_wait: bool) -> LogPart | None:
        """Return the first part; raise a refusal here, where the answer can still be an error."""
        if tail is None:
            return None
        try:
            if self._lines is not None:
                await tail.seek_last_lines(self._lines)
            return await tail.read()
        except GrassError:
            # The worker of an unfinished job may come back, but the offset of its last lines is not known here.
            if not may_wait or self._found.job.state in FINAL or self._lines is not None:
                raise
            return None

    async def _follow(self, response: web.StreamResponse, tail: LogTail | None, changes: Subscription) -> None:
        """Write the log until the attempt is over."""
        while tail is None:
            if self._found.job.state in FINAL or self._found.job.attempt > self._attempt > 0:
                return
            await changes.next()
            self._found = await find(self._engine, self._found.job.id)
            # A job that has not started yet is followed from its first attempt on.
            self._attempt = self._attempt or (1 if self._found.job.attempt else 0)
            tail = self._tail()
        watching = asyncio.create_task(self._end_with_attempt(tail, changes))
        try:
            await self._write_rest(response, tail)
            await watching  # raises when it cannot be known whether the attempt is over
        finally:
            watching.cancel()

    async def _end_with_attempt(self, tail: LogTail, changes: Subscription) -> None:
        """End the tail when its attempt is over, or when that cannot be known any more."""
        try:
            while self._found.job.state not in FINAL and self._found.job.attempt <= tail.attempt:
                await changes.next()
                self._found = await find(self._engine, tail.job)
        finally:
            tail.end()

    async def _write_rest(self, response: web.StreamResponse, tail: LogTail) -> None:
        at = tail.offset
        async for part in tail:
            if not part.data:
                raise Refused("the log shrank; the next answer says so in its headers")
            if self._counts and part.offset != at:
                raise Refused("a part of the log was cut out; the next answer begins with the mark, and says where")
            await _write(response, part.data)
            at = part.offset + len(part.data)


def chosen(request: web.Request, job: Job) -> tuple[int, str]:
    """Return the attempt and the stream that a request asks for; raise if the job has no such log."""
    stream = request.query.get("stream") or ("out" if job.spec.split else "log")
    if stream not in STREAMS or (stream == "log") == job.spec.split:
        has = "out and err" if job.spec.split else "one log"
        raise BadInput(f"job {job.id} has {has}, no stream {stream!r}")
    attempt = number(request, "attempt", job.attempt, ATTEMPTS_MAX)
    if attempt > job.attempt:
        has = "1 attempt" if job.attempt == 1 else f"{job.attempt} attempts" if job.attempt else "not started"
        raise NotFound(f"job {job.id} has {has}{' so far' if job.state not in FINAL else ''}, no attempt {attempt}")
    return attempt, stream


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Write bytes of a log; other clients have a turn after every piece, however fast this one takes it."""
    for at in range(0, len(data), PIECE):
        await response.write(data[at : at + PIECE])
        await asyncio.sleep(0)


async def find(engine: Engine, id_: int) -> FoundLog:
    """Return a job and the worker of each of its attempts; raise NotFound if there is no such job."""
    return await engine.read(partial(_look_up, id_=id_))


def _look_up(batch: Batch, id_: int) -> FoundLog:
    job = selection.select(batch, [ByIds(((id_, id_),))])[0]
    workers = {attempt.number: attempt.placement.worker for attempt in batch.store.attempts(id_)}
    if job.placement is not None:
        workers[job.attempt] = job.placement.worker
    return FoundLog(job, workers)
