"""How connections end: cut off at once, whatever waits in their buffers, or noticed when the client hangs up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, cast

from aiohttp import web


def cut(transport: asyncio.BaseTransport | None) -> None:
    """End a connection without a word; one that has ended already is left alone."""
    if isinstance(transport, asyncio.WriteTransport):
        # The TLS transport of Python 3.11.2, which Debian 12 has, cannot be aborted after its connection is lost.
        with contextlib.suppress(AttributeError):
            transport.abort()


async def write_until_hangup(
    request: web.Request,
    writing: Coroutine[Any, Any, None],
    started: Callable[[asyncio.Task[None]], None] | None = None,
) -> bool:
    """Write an answer that may be silent for days; return whether it was written whole.

    The writing is cancelled when the client hangs up. Nothing else can be asked over this connection afterwards.
    `started` is given the task, so that others can cancel it too.
    """
    task = asyncio.get_running_loop().create_task(writing)
    if started is not None:
        started(task)
    # As a WebSocket hears of it: nothing else tells while there is nothing to write.
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
    """Hears that the client has gone, in the place of a parser of requests; ignores what it still sends."""

    def __init__(self, gone: Callable[[], object]) -> None:
        self._gone = gone

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Ignore bytes."""
        return False, b""

    def feed_eof(self) -> None:
        """Tell that nothing more will come."""
        self._gone()
