"""The bodies of requests, read whole before a handler is called: bounded in size and time, large ones in turns."""

from __future__ import annotations

import asyncio

from aiohttp import StreamReader, web

from grassq.web.access.turns import CallerTurns
from grassq.web.responses import Denied

#: The largest body, and the seconds it may take to arrive. From another machine: the largest submission, and the
#: largest body of any other request.
BODY_MAX = 64 << 20
REMOTE_BODY_MAX = 8 << 20
SMALL_BODY_MAX = 1 << 20
BODY_S = 120.0
#: The largest body of a client without a token.
OPEN_BODY_MAX = 64 << 10
#: Over TCP, what is beyond LARGE bytes of a body is read in a turn. Each token has one turn at a time, and all tokens
#: together have LARGE_AT_ONCE.
LARGE = 64 << 10
LARGE_AT_ONCE = 8
#: In its turn a body has to arrive with this many bytes a second, after a start of some seconds.
RATE_MIN = 64 << 10
START_S = 5.0


class BodyReader:
    """Reads bodies, and gives the turns for large ones."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE)
        self._own = CallerTurns(1)

    async def read(self, request: web.Request, *, most: int, token: str | None) -> bytes:
        """Return the whole body of a request; refuse a body that is larger than `most` or too slow."""
        if request.method != "POST" or not request.body_exists:
            return b""
        size = request.content_length
        if size is not None and size > most:
            raise _too_large(most)
        if size is not None and request.content.is_eof():
            return request.content.read_nowait()  # the whole body came with the head
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                # A turn is taken only when bytes are here, so that a silent client holds no turn.
                if not await _read_upto(request.content, body, most if token is None else min(most, LARGE)):
                    if token is None or len(body) > most:
                        raise _too_large(most)
                    async with self._own.of(token), self._turns:
                        await _read_rest(request.content, body, most)
        except TimeoutError:
            raise Denied(408, f"the body did not arrive within {BODY_S:g} seconds") from None
        except web.RequestPayloadError:
            raise Denied(400, "the body was cut short") from None
        return bytes(body)


async def _read_upto(content: StreamReader, body: bytearray, limit: int) -> bool:
    """Read until the end or beyond the limit; return whether it was the end."""
    while len(body) <= limit:
        part = await content.readany()
        if not part:
            return True
        body += part
    return False


async def _read_rest(content: StreamReader, body: bytearray, most: int) -> None:
    """Read until the end, at RATE_MIN or faster."""
    loop = asyncio.get_running_loop()
    until = loop.time() + START_S
    while True:
        try:
            async with asyncio.timeout_at(until):
                part = await content.readany()
        except TimeoutError:
            raise Denied(408, f"the body came with less than {RATE_MIN:,} bytes a second") from None
        if not part:
            return
        body += part
        until += len(part) / RATE_MIN
        if len(body) > most:
            raise _too_large(most)


def _too_large(most: int) -> Denied:
    return Denied(413, f"the body is larger than {most:,} bytes")
