"""How connections end: cut at once, or by a client that hangs up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, cast

from aiohttp import web


def cut(transport: asyncio.BaseTransport | None) -> None:
    """End a connection at once, with whatever is in its buffers; do nothing if it has ended."""
    if isinstance(transport, asyncio.WriteTransport):
        # The TLS transport of Python 3.11.2, which Debian 12 has, cannot be aborted after its connection is lost.
        with contextlib.suppress(AttributeError):
            transport.abort()


async def write_until_hangup(request: web.Request, writing: Coroutine[Any, Any, None]) -> bool:
    """Write an answer that may be silent for days; return whether it was written whole.

    The writing is cancelled when the client hangs up. The connection takes no other request afterwards.
    """
    task = asyncio.get_running_loop().create_task(writing)
    # As aiohttp does it for a WebSocket: without a parser, a hang-up shows only at the next write.
    request.protocol.set_parser(cast(Any, _HangUp(task.cancel)))
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    if task.cancelled():
        return False
    task.result()
    return True


class _HangUp:
    """Takes the place of aiohttp's request parser: reports that the client hung up, and ignores what it sends."""

    def __init__(self, gone: Callable[[], object]) -> None:
        self._gone = gone

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Ignore bytes."""
        return False, b""

    def feed_eof(self) -> None:
        """Report that the client hung up."""
        self._gone()
