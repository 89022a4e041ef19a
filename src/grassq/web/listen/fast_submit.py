"""The short way in on the user's own socket: what our own clients submit is answered without the web server.

A submission spelled exactly as `net/http.py` spells it, and here as a whole, is read and answered by a few lines.
Anything else on that socket, from a longer body to a browser, is the web server's from there on.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus

from grassq import __version__
from grassq.errors import Gone, GrassError
from grassq.web.access.auth import own_uid
from grassq.web.access.principal import OWNER
from grassq.web.listen.abort import cut
from grassq.web.responses import Reply, error_status, refused
from grassq.web.submit.handler import Handler

log = logging.getLogger(__name__)

#: Longer bodies are the web server's: it reads them in parts, within a time.
BODY_MAX = 256 << 10
#: How long those that are being answered may take when the daemon ends.
CLOSE_S = 5.0

_HEAD = re.compile(
    rb"POST (/v1/[a-z-]+) HTTP/1\.1\r\nHost: grass\r\nConnection: (keep-alive|close)\r\n"
    rb"Content-Type: application/json\r\nContent-Length: ([1-9][0-9]{0,5})\r\n\r\n"
)

Handlers = Mapping[bytes, Handler]
Inner = Callable[[], asyncio.Protocol]


class FastSubmit(asyncio.Protocol):
    """One connection: ours while it brings submissions, the web server's from the first other thing on."""

    def __init__(self, handlers: Handlers, inner: Inner, open_now: set[FastSubmit]) -> None:
        self._handlers = handlers
        self._make_inner = inner
        self._open = open_now
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._has_ended = False
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)
        try:
            own_uid(transport)
        except GrassError:
            self._hand_over()  # it says in words why not

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended; what it asked for is done all the same."""
        self._open.discard(self)
        self._transport = None
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: a whole one of ours is answered here."""
        if self._inner is None and self.task is None:
            head = _HEAD.match(data)
            if head is not None and len(data) - head.end() == int(head[3]) <= BODY_MAX:
                handler = self._handlers.get(head[1])
                if handler is not None:
                    keep = head[2] == b"keep-alive"
                    self.task = asyncio.create_task(self._answer(handler, data[head.end() :], keep))
                    self.task.add_done_callback(self._answered)
                    return
        elif self.task is not None:
            # A request before the answer to the one before: none of our clients does that.
            self.cut()
            return
        self._hand_over()
        assert self._inner is not None
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer sends no more."""
        if self._inner is not None:
            return self._inner.eof_received()
        self._has_ended = True
        return self.task is not None  # an answer that is under way is still wanted

    def pause_writing(self) -> None:
        """The peer takes no more for now."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The peer takes more again."""
        if self._inner is not None:
            self._inner.resume_writing()

    def cut(self) -> None:
        """End it at once."""
        cut(self._transport)

    def close(self) -> None:
        """End it if nothing of ours is under way; what the web server has, it ends itself."""
        if self._inner is None and self._transport is not None:
            self._transport.close()

    def _hand_over(self) -> None:
        if self._inner is None:
            assert self._transport is not None
            self._inner = self._make_inner()
            self._inner.connection_made(self._transport)

    async def _answer(self, handler: Handler, body: bytes, keep: bool) -> None:
        try:
            reply = await handler(body, OWNER)
        except Gone:
            # Cut off and not answered: then the client asks again, and the next daemon answers.
            self.cut()
            return
        except GrassError as error:
            reply = refused(error, error_status(error))
        # Before the answer is written: the next request may be here while we still say goodbye to this one.
        self.task = None
        if self._transport is not None:
            self._transport.write(_written(reply, keep))
            if not keep or self._has_ended:
                self._transport.close()

    def _answered(self, task: asyncio.Task[None]) -> None:
        """A bug in one request goes into the log, and whoever waits for its answer does not wait for ever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("submission_failed", exc_info=error)
            self.cut()


def _written(reply: Reply, keep: bool) -> bytes:
    headers = {
        "Content-Type": reply.kind,
        "Content-Length": str(len(reply.body)),
        "Connection": "keep-alive" if keep else "close",
        "Grass-Version": __version__,
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}", *(f"{n}: {v}" for n, v in headers.items())]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + reply.body


async def open_hatch(
    stack: AsyncExitStack, sock: socket.socket, handlers: Handlers, inner: Inner, backlog: int
) -> None:
    """Serve the user's own socket: these paths by the short way, the rest by the web server."""
    open_now: set[FastSubmit] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FastSubmit(handlers, inner, open_now), sock=sock, backlog=backlog)

    async def close() -> None:
        server.close()
        under_way = [hatch.task for hatch in open_now if hatch.task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_S)
        for hatch in list(open_now):
            hatch.close()

    stack.push_async_callback(close)
