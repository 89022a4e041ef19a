"""Answers: documents, also those that take long, text for the command line, and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypedDict

import msgspec
from aiohttp import web

from grassq import __version__
from grassq.broker import views
from grassq.broker.actions.bulk import BulkResult
from grassq.broker.actions.dry_run import DryRunDocument
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.core import protocol
from grassq.core.model import Job, State
from grassq.core.syntax.enqueue import Enqueue
from grassq.errors import BadInput, Gone, GrassError, NotFound, Refused, StoreUnavailable, Unreachable
from grassq.run import rundir
from grassq.web.access.principal import CALLER, Principal
from grassq.web.listen.abort import cut

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: What is still read of a refused request after its answer, so that a reset does not destroy the answer.
REST_BYTES_MAX = 64 << 10
REST_S = 1.0
#: The most characters of a refusal in a header.
WORDS_MAX = 500
#: A client whose answer is not ready gets a blank this often, so that it knows that the daemon is at work.
BLANK_S = 1.0
#: When a client may ask again if the store is away.
RETRY_S = "1"

_JSON = {"Content-Type": "application/json"}


class ErrorText(TypedDict):
    """A refusal in words."""

    #: The exit code of a command that is refused so.
    exit: int
    #: What happened, and what to do.
    message: str


class ErrorDocument(TypedDict):
    """A refusal."""

    error: ErrorText


class BulkDocument(TypedDict):
    """What an action on jobs has done."""

    count: int
    ids: list[int]
    #: Of killed jobs: how many run until they have stopped.
    stopping: int
    #: The grace times of those, in seconds.
    grace_s: list[float]
    #: The jobs themselves if they are few.
    jobs: list[JobDocument]
    #: What else there is to say, such as why a job was left out.
    notes: list[str]


def job_documents(batch: Batch, jobs: Sequence[Job], caller: Principal) -> list[JobDocument]:
    """Return jobs as documents that say whether the caller may change them."""
    return [
        {**shown, "may_change": caller.may_change(job.spec.by)}
        for job, shown in zip(jobs, views.documents(batch, jobs), strict=True)
    ]


class Denied(Refused):
    """Access is denied; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUS: tuple[tuple[type[GrassError], int], ...] = (
    (BadInput, 400),
    (NotFound, 404),
    (StoreUnavailable, 503),
    (Unreachable, 503),
    (Refused, 409),
)


def _status(error: GrassError) -> int:
    if isinstance(error, Denied):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def digest(raw: bytes) -> bytes:
    """Return the digest that tells whether a repeated key came with the same request."""
    return hashlib.sha256(raw).digest()


async def version_header(request: web.Request, response: web.StreamResponse) -> None:
    """Add the daemon's version to every answer to a known caller."""
    if CALLER in request:
        response.headers["Grass-Version"] = __version__


def enqueued(exit_code: int, out: str, err: str, **extra: object) -> web.Response:
    """Return what `grass enqueue` prints and its exit code, so that it need not read JSON; `extra` become headers."""
    body = out.encode("utf-8", "backslashreplace")
    headers = {"Grass-Exit": str(exit_code), "Grass-Stdout": str(len(body))}
    headers |= {f"Grass-{name.capitalize()}": str(value) for name, value in extra.items() if value is not None}
    body += err.encode("utf-8", "backslashreplace")
    return web.Response(body=body, headers=headers, content_type="application/octet-stream")


def written_words(words: Iterable[bytes]) -> str:
    """Return words as a list in JSON, in the form in which a client sends words."""
    return msgspec.json.encode([rundir.encode_word(word) for word in words]).decode()


def document(content: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer in JSON."""
    return web.Response(status=status, body=msgspec.json.encode(content), headers={**_JSON, **(headers or {})})


def job_lines(
    request: web.Request,
    head: Mapping[str, object],
    first: Sequence[Mapping[str, object]],
    more: AsyncIterator[Sequence[Mapping[str, object]]],
    tail: Callable[[], Mapping[str, object]] = dict,
) -> web.Response:
    """Return a document with a list of jobs that is too long for memory, each job on a line of its own.

    `head` and `tail` are the other fields; `tail` is called after the last job.
    """

    async def lines(jobs: bytes) -> AsyncIterator[bytes]:
        yield msgspec.json.encode({**head, "jobs": []})[:-2] + b"\n" + jobs
        try:
            async for page in more:
                if page:
                    yield b",\n" + b",\n".join(map(msgspec.json.encode, page))
        except GrassError:
            # The client sees that the document is not whole.
            cut(request.transport)
            return
        rest = msgspec.json.encode(tail())[1:]
        yield b"\n]" + (rest if rest == b"}" else b"," + rest) + b"\n"

    return web.Response(body=lines(b",\n".join(map(msgspec.json.encode, first))), content_type="application/json")


def bulk_document(done: BulkResult) -> BulkDocument:
    """Return what an action on jobs did, as data: the ids, and the jobs themselves if they are few."""
    return {
        "count": len(done.ids),
        "ids": done.ids,
        "stopping": done.stopping,
        "grace_s": done.graces,
        "jobs": [views.job_document(job) for job in done.jobs],
        "notes": done.notes,
    }


def enqueue_text(typed: Enqueue, job: int, state: State) -> str:
    """Return the line `grass enqueue` prints."""
    if typed.command.json:
        return msgspec.json.encode({"id": job, "queue": typed.options.queue, "state": state}).decode() + "\n"
    if typed.command.quiet:
        return f"{job}\n"
    return f"job {job} {state} in {typed.options.queue}\n"


def dry_run_text(typed: Enqueue, would: DryRunDocument) -> str:
    """Return what `grass enqueue --dry-run` prints."""
    if typed.command.json:
        return msgspec.json.encode(would).decode() + "\n"
    if (live := would["existing"]) is not None:
        return f"job {live} with unique key {typed.options.unique!r} is not finished; nothing would be queued\n"
    count = would["count"]
    lines = [f"{count} {'job' if count == 1 else 'jobs'} would be {would['state']} in {would['queue']}"]
    lines += [f"  {words[0] if would['shell'] else shlex.join(words)}" for words in would["commands"]]
    lines += ["  ..."] if count > len(would["commands"]) else []
    lines.append(f"asks for {would['request']}")
    where = ", ".join(would["workers"])
    lines.append(f"could start now on {where}" if where else f"would not start now: {would['reason']}")
    return "".join(f"{line}\n" for line in [*lines, "nothing was queued"])


def existing_text(typed: Enqueue, id_: int, job: Job | None) -> str:
    """Return the line `grass enqueue --unique` prints where nothing was queued; the job may be removed by now."""
    if typed.command.json:
        told = {"id": id_, "queue": typed.options.queue if job is None else job.spec.queue}
        told |= {"state": None if job is None else job.state, "existing": True}
        return msgspec.json.encode(told).decode() + "\n"
    if typed.command.quiet:
        return f"{id_}\n"
    return f"job {id_} with unique key {typed.options.unique!r} is not finished; nothing was queued\n"


def lines_text(typed: Enqueue, ids: Sequence[int], state: State, sweep: str | None = None) -> str:
    """Return the line `grass enqueue --stdin` or `grass sweep` prints: the number of jobs, and their ids."""
    count, which = len(ids), range_text(ids)
    if typed.command.json:
        told = {"first": ids[0] if ids else None, "count": count, "queue": typed.options.queue}
        told |= ({"state": state} if ids else {}) | ({"name": sweep, "sweep": ids[0]} if sweep else {})
        return msgspec.json.encode(told).decode() + "\n"
    if typed.command.quiet:
        return f"{which}\n" if ids else ""
    if sweep is not None:
        return f"sweep {sweep}: {count} {'job' if count == 1 else 'jobs'} {which}\n"
    return f"{count} {'job' if count == 1 else 'jobs'} enqueued{': ' if ids else ''}{which}\n"


def range_text(ids: Sequence[int]) -> str:
    """Return consecutive ids as a selector."""
    return "" if not ids else str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"


@web.middleware
async def errors_in_words(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error with one message and an exit code; if the body is still on the way, close the connection."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        # Without the header: a worker explains such a status itself, and says what to do.
        problem = BadInput(f"{request.method} {request.path}: {error.reason}")
        answer = document(error_document(problem), error.status)
    except GrassError as error:
        if isinstance(error, Gone):
            # The client gets no answer and asks again: then the next daemon answers.
            cut(request.transport)
        answer = refusal(error)
    if answer.status >= 400 and request.body_exists and not request.content.at_eof():
        await _tell_and_close(request, answer)
    return answer


def error_document(error: GrassError) -> ErrorDocument:
    """Return a refusal as data."""
    return {"error": {"exit": error.exit_code, "message": str(error)}}


def refusal(error: GrassError) -> web.Response:
    """Return a refusal. Its message is in a header too, because a client of a WebSocket sees only the headers."""
    words = " ".join(str(error).split())[:WORDS_MAX]
    # A header with a control character would not be sent, nor the answer.
    words = "".join(c if c.isascii() and c.isprintable() else "?" for c in words)
    headers = {protocol.ERROR_HEADER: words}
    if isinstance(error, StoreUnavailable):
        headers["Retry-After"] = RETRY_S
    return document(error_document(error), _status(error), headers)


async def _tell_and_close(request: web.Request, answer: web.Response) -> None:
    answer.force_close()
    with contextlib.suppress(ConnectionError, TimeoutError, web.RequestPayloadError):
        await answer.prepare(request)
        await answer.write_eof()
        left = REST_BYTES_MAX
        async with asyncio.timeout(REST_S):
            while left > 0 and (part := await request.content.readany()):
                left -= len(part)


class SlowAnswer:
    """An answer that may take long: while it is made, blanks before the document keep the client waiting.

    A client that has gone changes nothing: what it asked for is done all the same.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._told_at = self._loop.time()
        self._response: web.StreamResponse | None = None

    async def keep_alive(self) -> None:
        """Write a blank if the client has heard nothing for BLANK_S."""
        if self._loop.time() - self._told_at < BLANK_S:
            return
        self._told_at = self._loop.time()
        with contextlib.suppress(ConnectionError):
            if self._response is None:
                self._response = web.StreamResponse(headers=_JSON)
                await self._response.prepare(self._request)
            await self._response.write(b" ")

    async def end(self, content: Mapping[str, object]) -> web.StreamResponse:
        """Answer with a document."""
        if self._response is None:
            return document(content)
        with contextlib.suppress(ConnectionError):
            await self._response.write(msgspec.json.encode(content))
            await self._response.write_eof()
        return self._response

    async def refuse(self, error: GrassError) -> web.StreamResponse:
        """Answer with an error; after the first blank its status is in the document only."""
        if self._response is None:
            raise error
        if isinstance(error, Gone):
            cut(self._request.transport)
            return self._response
        return await self.end(error_document(error))
