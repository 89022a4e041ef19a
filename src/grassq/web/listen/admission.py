"""Admission of connections that have not shown a token: in fair turns, and in a bounded number of places.

A connection costs a file descriptor until its client sends the first bytes. Then it waits for a turn: every peer may
begin one TLS handshake per turn of the event loop, so that a flood from one address keeps no other address waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from grassq.peer_uid import Endpoint, is_own, uid_of_peer
from grassq.web.listen.abort import cut
from grassq.web.listen.door import TLS, Door

log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Seconds from connecting to the first byte.
SILENT_S = 1.0
#: Connections that have not begun TLS. When there are more, the oldest of the address that has most of them is closed.
UNSPOKEN_MAX = 512
#: Seconds from the beginning of TLS to the first request with a valid token.
HELLO_S = 10.0
#: Connections in TLS that have not shown a token. Each costs about 300 KB, nearly all of it TLS. When there are more,
#: the oldest of the address that has most of them is cut: a flood from one address cuts no connection of another.
UNAUTHENTICATED_MAX = 96
#: Connections accepted in one turn of the event loop.
ACCEPTED_AT_ONCE = 64
#: Seconds without accepting when there are no file descriptors left.
PAUSE_S = 1.0
#: Seconds until a closing connection is cut.
CLOSE_S = 2.0
#: Milliseconds that sent bytes may stay unacknowledged.
UNACKED_MS = 30_000


class ClientConnection(asyncio.Protocol):
    """One TCP connection. Limits apply until it has brought a request with a valid token, within HELLO_S."""

    def __init__(
        self, inner: asyncio.Protocol, peer: str, unauthenticated: dict[ClientConnection, None], door: Door = TLS
    ) -> None:
        self.peer = peer
        #: Where the connection came in.
        self.door = door
        #: The requests in progress.
        self.tasks: set[asyncio.Task[object]] = set()
        #: Called when the connection has ended.
        self.closing: list[Callable[[ClientConnection], None]] = []
        self.handshake: asyncio.Task[None] | None = None
        self._inner = inner
        self._unauthenticated = unauthenticated
        self._unauthenticated[self] = None
        self._transport: asyncio.BaseTransport | None = None
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, self.cut)
        #: The user at the other end, once asked for.
        self._peer_uid: tuple[int | None] | None = None

    async def peer_uid(self) -> int | None:
        """Return the user of the process at the other end, on loopback; None over TLS, and if the kernel tells none."""
        if self._transport is None or not self.door.is_loopback:
            return None
        if self._peer_uid is None:
            self._peer_uid = (await asyncio.to_thread(uid_of_peer, *self._ends(self._transport)),)
        return self._peer_uid[0]

    async def is_own(self) -> bool:
        """Tell whether a process of this daemon's user, or of root, is at the other end, on loopback."""
        if self._transport is None or not self.door.is_loopback:
            return False
        uid = await self.peer_uid()
        if uid is not None:
            return uid in (0, os.geteuid())
        return await asyncio.to_thread(is_own, *self._ends(self._transport))

    @staticmethod
    def _ends(transport: asyncio.BaseTransport) -> tuple[Endpoint, Endpoint]:
        return transport.get_extra_info("sockname"), transport.get_extra_info("peername")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve requests: the TLS handshake is done."""
        self._transport = transport
        self._inner.connection_made(transport)

    def end_handshake(self, sock: socket.socket) -> None:
        """Drop the connection if the TLS handshake failed or was cut."""
        self.handshake = None
        if self._transport is None:
            sock.close()
            self.connection_lost(None)

    def end_limits(self) -> None:
        """End the limits: a request brought a valid token."""
        self._unauthenticated.pop(self, None)
        self._timer.cancel()

    def cut(self, keep: asyncio.Task[object] | None = None) -> None:
        """Close the connection and cancel its requests, except for the request `keep`, which may still answer."""
        self._unauthenticated.pop(self, None)
        if self.handshake is not None:
            self.handshake.cancel()
        for task in self.tasks - {keep}:
            task.cancel()
        if keep not in self.tasks:
            cut(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the connection, and call every `closing` function."""
        self.end_limits()
        for tell in self.closing:
            tell(self)
        self.closing.clear()
        if self._transport is not None:
            # Otherwise the two objects hold each other, with 300 KB each, until the garbage collector runs.
            self._transport = None
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand bytes of a request on."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Close the connection as the web server wants when the peer sends no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Tell the web server that the peer reads nothing for now."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell the web server that the peer reads again."""
        self._inner.resume_writing()


class Admission:
    """Accepts connections on the listening sockets of one door, and begins TLS with those that speak."""

    def __init__(self, server: web.Server, context: ssl.SSLContext | None, door: Door = TLS) -> None:
        """Serve with TLS; only the loopback door has no `context`, and begins requests at once."""
        if (context is None) != door.is_loopback:
            raise ValueError("every door but the loopback door needs TLS")
        self._server = server
        self._context = context
        self._door = door
        self._loop = asyncio.get_running_loop()
        #: Oldest first: the peer of each connection that has not begun TLS; a timer while nothing has come.
        self._unspoken: dict[socket.socket, tuple[str, asyncio.TimerHandle]] = {}
        #: The connections that wait for their turn, by peer; the peer whose turn comes next is first.
        self._waiting: dict[str, dict[socket.socket, None]] = {}
        #: Oldest first.
        self._unauthenticated: dict[ClientConnection, None] = {}
        #: All of them.
        self._open: set[ClientConnection] = set()
        self._turn: asyncio.Handle | None = None
        self._listeners: list[socket.socket] = []

    def listen(self, listener: socket.socket) -> None:
        """Accept connections on a socket that is bound."""
        listener.setblocking(False)
        self._listeners.append(listener)
        self._loop.add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """Cut every connection without a token; the other connections end with the web server."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
        self._listeners.clear()
        for sock in list(self._unspoken):
            self._close(sock)
        handshakes = [each.handshake for each in self._unauthenticated if each.handshake is not None]
        for each in list(self._unauthenticated):
            each.cut()
        if handshakes:
            await asyncio.wait(handshakes)

    def cut_all(self) -> None:
        """Cut the connections with a token, too."""
        for connection in list(self._open):
            connection.cut()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, address = listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.error("no connection is accepted for %g s: %s", PAUSE_S, error.strerror)
                    self._loop.remove_reader(listener)
                    self._loop.call_later(PAUSE_S, self._accept_again, listener)
                # Else there is none left, or it has ended already.
                return
            sock.setblocking(False)
            timer = self._loop.call_later(SILENT_S, self._close, sock)
            self._unspoken[sock] = (network_of(address[0]), timer)
            self._loop.add_reader(sock, self._speaks, sock)
            if len(self._unspoken) > UNSPOKEN_MAX:
                peers = {sock: peer for sock, (peer, _) in self._unspoken.items()}
                self._close(_oldest_of_busiest(peers))

    def _accept_again(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _close(self, sock: socket.socket) -> None:
        """Close a connection that has not begun TLS."""
        peer = self._forget(sock)
        line = self._waiting.get(peer, {})
        line.pop(sock, None)
        if not line:
            self._waiting.pop(peer, None)
        sock.close()

    def _forget(self, sock: socket.socket) -> str:
        peer, timer = self._unspoken.pop(sock)
        timer.cancel()
        self._loop.remove_reader(sock)
        return peer

    def _speaks(self, sock: socket.socket) -> None:
        """Put a connection into its peer's line: its first bytes are here, or its end."""
        peer, timer = self._unspoken[sock]
        timer.cancel()
        self._loop.remove_reader(sock)
        self._waiting.setdefault(peer, {})[sock] = None
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Begin TLS with one connection of every peer that waits; other work of the loop comes before the next turn."""
        for peer in list(self._waiting):
            line = self._waiting[peer]
            sock = next(iter(line))
            del line[sock]
            if not line:
                del self._waiting[peer]
            self._forget(sock)
            self._begin(peer, sock)
        self._turn = self._loop.call_soon(self._take_turn) if self._waiting else None

    def _begin(self, peer: str, sock: socket.socket) -> None:
        connection = ClientConnection(self._server(), peer, self._unauthenticated, self._door)
        self._open.add(connection)
        connection.closing.append(self._open.discard)
        if len(self._unauthenticated) > UNAUTHENTICATED_MAX:
            _oldest_of_busiest({each: each.peer for each in self._unauthenticated}).cut()
        connection.handshake = self._loop.create_task(self._shake_hands(connection, sock))
        # A task that is cancelled before it began runs no line of its own.
        connection.handshake.add_done_callback(lambda _: connection.end_handshake(sock))

    async def _shake_hands(self, connection: ClientConnection, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKED_MS)
        limits = {} if self._context is None else {"ssl_handshake_timeout": HELLO_S, "ssl_shutdown_timeout": CLOSE_S}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock, ssl=self._context, **limits)
        except OSError as error:
            # The peer speaks no TLS or too old a TLS, or has gone: not an error of this daemon.
            log.debug("handshake_failed peer=%s error=%s", connection.peer, error)
            # The traceback would hold the connection, 300 KB, until the garbage collector runs.
            error.__traceback__ = None


def _oldest_of_busiest(peers: dict[_T, str]) -> _T:
    """Return the first connection of the peer that has most of them."""
    [(busiest, _)] = Counter(peers.values()).most_common(1)
    return next(each for each, peer in peers.items() if peer == busiest)


def network_of(address: str) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
