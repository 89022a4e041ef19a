"""Listening on TCP with TLS: the certificate in use, and limits for connections that have not shown a token."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import ipaddress
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence

from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput, Refused
from grassq.web.listen.abort import cut

log = logging.getLogger(__name__)

#: Seconds from connecting to the first request with a valid token, the TLS handshake included.
HELLO_S = 10.0
#: Connections that have not shown a token. Each costs about 300 KB, nearly all of it TLS. When there are more, the
#: oldest of the address that has most of them is cut: a flood from one address cuts no connection of another.
UNAUTHENTICATED_MAX = 96
BACKLOG = 1024
#: Seconds until a closing connection is cut.
CLOSE_S = 2.0
#: Milliseconds that sent bytes may stay unacknowledged.
UNACKED_MS = 30_000
KEEPALIVE_S = 75.0
HEADER_MAX = 8190
HEADERS_MAX = 64
#: Days before a certificate expires from which a broker warns.
WARN_DAYS = 30


class Identity(Struct, frozen=True):
    """A certificate in use. Not in `certificate.py`, which is slow to load and needed only with --bind."""

    context: ssl.SSLContext
    #: SHA-256 of the certificate (DER): what clients pin.
    fingerprint: bytes
    #: The names the certificate was made for.
    names: tuple[str, ...]
    since: float
    until: float
    notes: list[str]

    def expiry(self, now: float) -> str | None:
        """Return a warning about the dates, or None. Clients that have pinned the certificate ignore its dates."""
        day = datetime.datetime.fromtimestamp(self.until, datetime.UTC).date()
        if now >= self.until:
            return f"the certificate expired on {day}; clients that know it still connect, but replace it with --cert"
        if now < self.since:
            return "the certificate is not valid yet by this machine's clock; check the clock"
        if self.until - now <= WARN_DAYS * 86400:
            return (
                f"the certificate expires on {day}; replace it with --cert (every client then joins or logs in again)"
            )
        return None


class ClientConnection(asyncio.Protocol):
    """One TCP connection. Limits apply until it has brought a request with a valid token, within HELLO_S."""

    def __init__(
        self, server: web.Server, context: ssl.SSLContext, unauthenticated: dict[ClientConnection, None]
    ) -> None:
        self.peer = ""
        #: The requests in progress.
        self.tasks: set[asyncio.Task[object]] = set()
        #: Called when the connection has ended.
        self.closing: list[Callable[[ClientConnection], None]] = []
        self.handshake: asyncio.Task[None] | None = None
        self._inner: asyncio.Protocol = server()
        self._context = context
        self._unauthenticated = unauthenticated
        #: The plain connection during the handshake, then the TLS connection.
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the TLS handshake and the time to show a token; cut another connection if there are too many."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # the TLS handshake reads
        self._transport = transport
        self.peer = network_of((transport.get_extra_info("peername") or ("gone",))[0])
        self._unauthenticated[self] = None
        if len(self._unauthenticated) > UNAUTHENTICATED_MAX:
            [(busiest, _)] = Counter(each.peer for each in self._unauthenticated).most_common(1)
            next(each for each in self._unauthenticated if each.peer == busiest).cut()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HELLO_S, self.cut)
        self.handshake = loop.create_task(self._shake_hands(transport))

    async def _shake_hands(self, plain: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            plain.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKED_MS)
        secure = None
        try:
            if not plain.is_closing():
                secure = await loop.start_tls(
                    plain, self, self._context, server_side=True,
                    ssl_handshake_timeout=HELLO_S, ssl_shutdown_timeout=CLOSE_S,
                )  # fmt: skip
        except OSError as error:
            # The peer speaks no TLS or too old a TLS, or has gone: not an error of this daemon.
            log.debug("handshake_failed peer=%s error=%s", self.peer, error)
            # The traceback would hold the connection, 300 KB, until the garbage collector runs.
            error.__traceback__ = None
        self.handshake = None
        if secure is None or plain.is_closing() or self._transport is None:
            cut(plain)
            self.connection_lost(None)
            return
        self._transport, self._is_open = secure, True
        self._inner.connection_made(secure)
        if self._early:
            self._inner.data_received(self._early)
            self._early = b""

    def end_limits(self) -> None:
        """End the limits: a request brought a valid token."""
        self._unauthenticated.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def cut(self, keep: asyncio.Task[object] | None = None) -> None:
        """Close the connection and cancel its requests, except for the request `keep`, which may still answer."""
        self._unauthenticated.pop(self, None)
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
        # Otherwise the two objects hold each other, with 300 KB each, until the garbage collector runs.
        self._transport = None
        if self._is_open:
            self._is_open = False
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand bytes of a request on; the first bytes may come before the handshake's task has run."""
        if self._is_open:
            self._inner.data_received(data)
        else:
            self._early += data

    def eof_received(self) -> bool | None:
        """Close the connection as the web server wants when the peer sends no more."""
        return self._inner.eof_received() if self._is_open else None

    def pause_writing(self) -> None:
        """Tell the web server that the peer reads nothing for now."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell the web server that the peer reads again."""
        self._inner.resume_writing()


def is_wildcard(host: str) -> bool:
    """Return whether a host stands for every address of this machine, as 0.0.0.0, 0, ::, * and no host do."""
    try:
        # As the system reads an IPv4 address: `0` is an address too.
        return ipaddress.ip_address(host if ":" in host else socket.inet_aton(host)).is_unspecified
    except (OSError, ValueError):
        return host in ("", "*")


def network_of(address: str) -> str:
    """Return what counts as one peer: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))


class _PeerErrors(logging.Filter):
    """Keeps errors about bytes that are no HTTP out of the log, which a peer could fill with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


def make_runner(app: web.Application, shutdown_s: float) -> web.AppRunner:
    """Return a runner that serves the application on every socket, with the limits of this module."""
    # What aiohttp says in every answer, also to a stranger, instead of its own version and Python's.
    web_response.SERVER_SOFTWARE = "grass"  # type: ignore[attr-defined]  # a constant it does not export
    http_log = logging.getLogger("grassq.web.http")
    if not http_log.filters:
        http_log.addFilter(_PeerErrors())
    return web.AppRunner(
        app,
        shutdown_timeout=shutdown_s,
        access_log=None,
        logger=http_log,
        keepalive_timeout=KEEPALIVE_S,
        # `responses.errors_in_words` reads what a refused request still sends, within its own limits.
        lingering_time=0,
        max_line_size=HEADER_MAX,
        max_field_size=HEADER_MAX,
        max_headers=HEADERS_MAX,
        auto_decompress=False,
    )


async def listen(
    stack: contextlib.AsyncExitStack, runner: web.AppRunner, addresses: Sequence[Address], identity: Identity
) -> list[socket.socket]:
    """Serve a runner on TCP with TLS. Bind every address, or raise a GrassError that says why not."""
    server = runner.server
    assert server is not None
    sockets: list[socket.socket] = []
    for address in dict.fromkeys(addresses):
        for sock in await _bind(address):
            stack.callback(sock.close)
            sockets.append(sock)
    #: Oldest first.
    unauthenticated: dict[ClientConnection, None] = {}
    stack.push_async_callback(_end, unauthenticated)
    for sock in sockets:
        listener = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(server, identity.context, unauthenticated), sock=sock, backlog=BACKLOG
        )
        stack.callback(listener.close)
    return sockets


async def _end(unauthenticated: dict[ClientConnection, None]) -> None:
    """Cut every connection without a token; the other connections end with the web server."""
    handshakes = [each.handshake for each in unauthenticated if each.handshake is not None]
    for each in list(unauthenticated):
        each.cut()
    if handshakes:
        await asyncio.wait(handshakes)


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
            # The IPv6 socket takes no IPv4, so that :: and 0.0.0.0 can both be bound.
            bound.append(socket.create_server(where, family=family, backlog=BACKLOG))
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


def _problem(address: Address, where: str, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"--bind {address}: port {address.port} of {where} is taken by another program; choose another port"
        case errno.EADDRNOTAVAIL:
            return (
                f"--bind {address}: {where} is no address of this machine; 0.0.0.0 or [::] stands for all its addresses"
            )
        case errno.EACCES:
            return f"--bind {address}: ports below 1024 are for root; choose another, such as 7500"
        case _:
            return f"--bind {address}: {where}: {os.strerror(error.errno or 0)}"
