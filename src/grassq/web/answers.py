"""How answers look on the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from grassq import __version__
from grassq.broker import views
from grassq.broker.service import Done
from grassq.core.argv import Enqueue
from grassq.errors import EXIT_USAGE, BadInput, GrassError, NotFound, Refused, StoreUnavailable

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_STATUS: tuple[tuple[type[GrassError], int], ...] = (
    (BadInput, 400),
    (NotFound, 404),
    (StoreUnavailable, 503),
    (Refused, 409),
)


def error_status(error: GrassError) -> int:
    """The HTTP status that goes with an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


async def version_header(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer says which daemon gave it."""
    response.headers["Grass-Version"] = __version__


def enqueued(exit_code: int, out: str, err: str, follow: int | None = None) -> web.Response:
    """What `grass enqueue` prints and returns, so that it need not read JSON."""
    body = out.encode("utf-8", "backslashreplace")
    headers = {"Grass-Exit": str(exit_code), "Grass-Stdout": str(len(body))}
    if follow is not None:
        headers["Grass-Follow"] = str(follow)
    return web.Response(body=body + err.encode("utf-8", "backslashreplace"), headers=headers)


def document(content: object, status: int = 200) -> web.Response:
    """An answer as JSON."""
    return web.Response(status=status, body=msgspec.json.encode(content), content_type="application/json")


def done_document(done: Done) -> web.Response:
    """What an action did, as JSON."""
    return document({"jobs": [views.job_document(job) for job in done.jobs], "notes": done.notes})


def enqueue_text(typed: Enqueue, job: int) -> str:
    """The line `grass enqueue` prints."""
    if typed.json:
        return msgspec.json.encode({"id": job, "queue": typed.queue}).decode() + "\n"
    if typed.quiet:
        return f"{job}\n"
    return f"job {job} {'held' if typed.hold else 'queued'} in {typed.queue}\n"


@web.middleware
async def errors_in_words(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell every refusal as one sentence and the exit code that goes with it."""
    try:
        return await handler(request)
    except GrassError as error:
        return document({"error": {"exit": error.exit_code, "message": str(error)}}, error_status(error))
    except web.HTTPException as error:
        message = f"{request.method} {request.path}: {error.reason}"
        return document({"error": {"exit": EXIT_USAGE, "message": message}}, error.status)
