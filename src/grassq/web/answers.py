"""How answers look on the wire."""

from __future__ import annotations

from aiohttp import web

from grassq import __version__
from grassq.errors import BadInput, GrassError, NotFound, Refused, StoreUnavailable

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
