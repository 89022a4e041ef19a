"""Logs over HTTP: what is there, and what comes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from aiohttp import web

from grassq.broker import selection
from grassq.broker.engine import Engine
from grassq.core.model import FINAL, Job
from grassq.core.selectors import Ids
from grassq.errors import BadInput

LOOK_S = 0.1
#: How often a follower asks whether its job has ended or was started anew.
STATE_EVERY = 5
STREAMS = ("log", "out", "err")
OFFSET_MAX = 1 << 60
LINES_MAX = 1_000_000


class LogReader(Protocol):
    """Reads logs where they are: on this machine, or later through a worker's link."""

    async def read(self, job: int, attempt: int, stream: str, offset: int) -> bytes:
        """What a stream holds from an offset on, up to a bound."""

    async def size(self, job: int, attempt: int, stream: str) -> int:
        """How many bytes a stream holds."""

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Where the last lines begin."""


async def serve_log(request: web.Request, engine: Engine, reader: LogReader) -> web.StreamResponse:
    """Answer with a log from an offset on; with follow, until the job has ended."""
    job = await _job(engine, int(request.match_info["id"]))
    stream = request.query.get("stream") or ("out" if job.spec.split else "log")
    if stream not in STREAMS or (stream == "log") == job.spec.split:
        has = "out and err" if job.spec.split else "one log"
        raise BadInput(f"job {job.id} has {has}, no stream {stream!r}")
    attempt = _number(request, "attempt", job.attempt, 1 << 30)
    offset = _number(request, "offset", 0, OFFSET_MAX)
    if "tail" in request.query:
        offset = await reader.tail_offset(job.id, attempt, stream, _number(request, "tail", 0, LINES_MAX))
    headers = {"Grass-Attempt": str(attempt), "Grass-State": str(job.state), "Grass-Offset": str(offset)}
    response = web.StreamResponse(headers=headers)
    response.content_type = "application/octet-stream"
    await response.prepare(request)
    offset = await _copy(response, reader, job.id, attempt, stream, offset)
    if request.query.get("follow") == "1":
        await _follow(response, engine, reader, job.id, attempt, stream, offset)
    await response.write_eof()
    return response


async def _follow(
    response: web.StreamResponse, engine: Engine, reader: LogReader, job_id: int, attempt: int, stream: str, offset: int
) -> None:
    looks = 0
    while True:
        job = await _job(engine, job_id) if looks % STATE_EVERY == 0 else None
        # A job that has not started yet is followed from its first try on.
        attempt = attempt or (1 if job and job.attempt else 0)
        grown = await _copy(response, reader, job_id, attempt, stream, offset)
        if job is not None and (job.state in FINAL or job.attempt > attempt > 0):
            # The look at the state came before the copy, so nothing the job wrote is left out.
            return
        looks = 0 if grown == offset and looks % STATE_EVERY == STATE_EVERY - 1 else looks + 1
        offset = grown
        await asyncio.sleep(LOOK_S)


async def _copy(
    response: web.StreamResponse, reader: LogReader, job: int, attempt: int, stream: str, offset: int
) -> int:
    if attempt and offset and await reader.size(job, attempt, stream) < offset:
        # A job that opens its own stdout anew truncates it; clients know this mark and count on from 0 after it.
        await response.write(b"\n[grass: the log shrank at %d bytes]\n" % offset)
        offset = 0
    while attempt and (data := await reader.read(job, attempt, stream, offset)):
        await response.write(data)
        offset += len(data)
    return offset


async def _job(engine: Engine, id_: int) -> Job:
    found = await engine.read(partial(selection.select, selectors=[Ids(((id_, id_),))]))
    return found[0]


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise BadInput(f"{name}={text[:20]!r} is no number from 0 to {most}")
    return int(text)
