"""The gate on TCP: what a peer may cost before it has shown a token, and which connections are open."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Sequence

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput, Refused
from grassq.web.listen.abort import cut
from grassq.web.listen.identity import Identity

log = logging.getLogger(__name__)

#: From connecting to the first request with a good token; the TLS handshake is in it.
HELLO_S = 10.0
#: Connections without a token yet, in all and of one address. Each costs about 300 KB, nearly all of it TLS.
STRANGERS_MAX = 96
PEER_MAX = 48
#: When there are so many, the oldest is cut for a new one, if it has had this long.
YOUNG_S = 0.75
#: Connections that wait for their turn, with nothing read of them yet; when there are more, the oldest is closed.
LINE_MAX = 1024
PEER_LINE_MAX = 256
LOOK_S = 0.25
BACKLOG = 1024
#: How long a close may take until the peer agrees.
CLOSE_S = 2.0
#: How long what we send may stay unacknowledged.
UNACKED_MS = 30_000
KEEPALIVE_S = 75.0
HEADER_MAX = 8190
HEADERS_MAX = 64
#: After such an error a moment passes before the next connection is taken.
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ClientConnection(asyncio.Protocol):
    """One connection: a stranger's until a request with a good token came through it."""

    def __init__(self, inner: asyncio.Protocol, peer: str, closed: Callable[[ClientConnection], None]) -> None:
        self.peer = peer
        self.since = asyncio.get_running_loop().time()
        #: The requests under way.
        self.tasks: set[asyncio.Task[object]] = set()
        self.closing: list[Callable[[ClientConnection], None]] = [closed]
        self.is_known = False
        self.was_open = False
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._known: Callable[[ClientConnection], None] | None = None
        self._limit: asyncio.TimerHandle | None = None

    def begin(self, handshake: asyncio.Task[None], known: Callable[[ClientConnection], None]) -> None:
        """The time to show a token begins."""
        self._handshake, self._known = handshake, known
        self._limit = asyncio.get_running_loop().call_later(HELLO_S, self.cut)

    def welcome(self) -> None:
        """A good token came through: the limits for strangers end."""
        if not self.is_known:
            self.is_known = True
            self._stop_limit()
            if self._known is not None:
                self._known(self)

    def cut(self, spare: asyncio.Task[object] | None = None) -> None:
        """Close at once, whatever is under way; but let one request give its answer."""
        for task in self.tasks - {spare}:
            task.cancel()
        if spare in self.tasks:
            return
        if self._transport is not None:
            cut(self._transport)
        elif self._handshake is not None:
            self._handshake.cancel()

    def closed(self) -> None:
        """It is gone; tell those who count it."""
        self._stop_limit()
        for tell in self.closing:
            tell(self)
        self.closing.clear()
        # What holds each other would stay until the collector comes, with 300 KB each.
        self._transport = self._handshake = self._known = None

    def _stop_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.was_open = transport, True
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self.closed()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer sends no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The peer takes no more for now."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The peer takes more again."""
        self._inner.resume_writing()


class Arrival(Struct, frozen=True):
    """A connection whose turn has not come."""

    sock: socket.socket
    at: float


class TcpListener:
    """Takes connections in turn, within bounds for strangers, so that no stranger keeps others out for long."""

    def __init__(self, server: web.Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        #: Oldest first.
        self._strangers: dict[ClientConnection, None] = {}
        self._of_peer: Counter[str] = Counter()
        self._line: dict[str, deque[Arrival]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._look: asyncio.TimerHandle | None = None

    async def accept(self, listener: socket.socket) -> None:
        """Take connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, peer = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("accept_failed error=%s", error)
                await asyncio.sleep(LOOK_S if error.errno in SCARCE else 0)
                continue
            self._arrive(sock, neighbourhood(str(peer[0])))

    def _arrive(self, sock: socket.socket, peer: str) -> None:
        mine = self._line.setdefault(peer, deque())
        mine.append(Arrival(sock, asyncio.get_running_loop().time()))
        if len(mine) > PEER_LINE_MAX:
            mine.popleft().sock.close()
        elif sum(map(len, self._line.values())) > LINE_MAX:
            max(self._line.values(), key=len).popleft().sock.close()
        self._take_turns()

    def _take_turns(self) -> None:
        """Let in as many of those in line as there is room for; look again soon if some are left.

        The newest first: who has something to say is then heard at once, however many stand there in silence.
        """
        now = asyncio.get_running_loop().time()
        for peer in list(self._line):
            mine = self._line[peer]
            while mine and mine[0].at <= now - HELLO_S:
                mine.popleft().sock.close()
            while mine and self._has_room(peer, now):
                self._admit(mine.pop().sock, peer)
            if not mine:
                del self._line[peer]
        if self._line and self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_S, self._looked)

    def _looked(self) -> None:
        self._look = None
        self._take_turns()

    def _has_room(self, peer: str, now: float) -> bool:
        if self._of_peer[peer] >= PEER_MAX:
            oldest = next(connection for connection in self._strangers if connection.peer == peer)
        elif len(self._strangers) >= STRANGERS_MAX:
            oldest = next(iter(self._strangers))
        else:
            return True
        if oldest.since > now - YOUNG_S:
            return False
        self._forget(oldest)
        oldest.cut()
        return True

    def _admit(self, sock: socket.socket, peer: str) -> None:
        connection = ClientConnection(self._server(), peer, self._forget)
        self._strangers[connection] = None
        self._of_peer[peer] += 1
        task = asyncio.get_running_loop().create_task(self._shake_hands(sock, connection))
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._shaken(ended, sock, connection))
        connection.begin(task, self._forget)

    async def _shake_hands(self, sock: socket.socket, connection: ClientConnection) -> None:
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKED_MS)
            await loop.connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=HELLO_S,
                ssl_shutdown_timeout=CLOSE_S,
            )
        except OSError as error:
            # No TLS, too old a TLS, or a peer that went away: its own affair.
            log.debug("handshake_failed peer=%s error=%s", connection.peer, error)

    def _shaken(self, task: asyncio.Task[None], sock: socket.socket, connection: ClientConnection) -> None:
        self._tasks.discard(task)
        if not connection.was_open:
            sock.close()
            connection.closed()

    def _forget(self, connection: ClientConnection) -> None:
        """A stranger no more: it is known now, or gone."""
        if connection not in self._strangers:
            return
        del self._strangers[connection]
        self._of_peer[connection.peer] -= 1
        if not self._of_peer[connection.peer]:
            del self._of_peer[connection.peer]
        if self._line and self._look is None:
            self._look = asyncio.get_running_loop().call_later(0, self._looked)

    async def close(self) -> None:
        """Let nobody in any more; those that are known end with the server."""
        if self._look is not None:
            self._look.cancel()
        for mine in self._line.values():
            for arrival in mine:
                arrival.sock.close()
        self._line.clear()
        for connection in list(self._strangers):
            connection.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)


def neighbourhood(address: str) -> str:
    """What counts as one peer: an IPv4 address, or the /64 network that any IPv6 host has to itself."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))


class _TheirFault(logging.Filter):
    """Bytes that are no HTTP are answered, not logged: a stranger could fill the log with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


def make_runner(app: web.Application, shutdown_s: float) -> web.AppRunner:
    """What serves the application on every socket, with the limits of this module."""
    http_log = logging.getLogger("grassq.web.http")
    if not http_log.filters:
        http_log.addFilter(_TheirFault())
    return web.AppRunner(
        app,
        shutdown_timeout=shutdown_s,
        access_log=None,
        logger=http_log,
        keepalive_timeout=KEEPALIVE_S,
        # What a refused request still sends is not read: see `auth.refuse`.
        lingering_time=0,
        max_line_size=HEADER_MAX,
        max_field_size=HEADER_MAX,
        max_headers=HEADERS_MAX,
        auto_decompress=False,
    )


async def listen(
    stack: contextlib.AsyncExitStack, runner: web.AppRunner, addresses: Sequence[Address], identity: Identity
) -> list[socket.socket]:
    """Serve a runner that is set up on TCP, with TLS; every address is bound, or a sentence says why not."""
    assert runner.server is not None
    sockets: list[socket.socket] = []
    for address in dict.fromkeys(addresses):
        for sock in await _bind(address):
            stack.callback(sock.close)
            sockets.append(sock)
    gate = TcpListener(runner.server, identity.context)
    stack.push_async_callback(gate.close)
    for sock in sockets:
        task = asyncio.create_task(gate.accept(sock))
        task.add_done_callback(_accepting_ended)
        stack.push_async_callback(_end, task)
    return sockets


def _accepting_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.critical("accepting_failed", exc_info=task.exception())


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def _bind(address: Address) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise BadInput(f"--bind {address}: there is no address of the name {address.host!r}") from None
    bound: list[socket.socket] = []
    problems: list[str] = []
    for family, where in dict.fromkeys((family, where) for family, _, _, _, where in found):
        try:
            bound.append(_bound(family, where))
        except OSError as error:
            problems.append(_problem(address, str(where[0]), error))
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for sock in bound:
                    sock.close()
                raise Refused(problems[-1]) from None
    if not bound:
        raise Refused(problems[0])
    for problem in problems:
        log.warning("%s", problem)
    return bound


def _bound(family: int, where: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # So that :: and 0.0.0.0 can be bound both, and each means what it says.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(where)
        # Here and not later: that somebody else has the address may come out only now.
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _problem(address: Address, where: str, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"--bind {address}: port {address.port} of {where} is taken by another program; choose another port"
        case errno.EADDRNOTAVAIL:
            return f"--bind {address}: {where} is no address of this machine; 0.0.0.0 or [::] stands for all it has"
        case errno.EACCES:
            return f"--bind {address}: ports below 1024 are for root; choose another, such as 7500"
        case _:
            return f"--bind {address}: {where}: {error.strerror}"
