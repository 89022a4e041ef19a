"""Listening on TCP with TLS: the certificate in use, and the addresses that are bound."""

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
from collections.abc import Sequence
from typing import Any

from aiohttp import web, web_response
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput, Refused
from grassq.web.listen.admission import Admission

log = logging.getLogger(__name__)

#: An address family, and an address as the socket module has it.
SocketAddress = tuple[int, tuple[Any, ...]]

BACKLOG = 1024
KEEPALIVE_S = 75.0
HEADER_MAX = 8190
HEADERS_MAX = 64
#: Days before a certificate expires from which a broker warns.
WARN_DAYS = 30
RENEW = "make a new one with the same key, so that everybody still knows this broker (docs/howto/several-machines.md)"


class Identity(Struct, frozen=True):
    """A certificate in use. Not in `certificate.py`, which is slow to load and needed only with --bind."""

    context: ssl.SSLContext
    #: SHA-256 of the public key: what clients pin.
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
            return f"the certificate expired on {day}; Grass ignores that, but other programs do not; {RENEW}"
        if now < self.since:
            return "the certificate is not valid yet by this machine's clock; check the clock"
        if self.until - now <= WARN_DAYS * 86400:
            return f"the certificate expires on {day}; {RENEW}"
        return None


def is_wildcard(host: str) -> bool:
    """Return whether a host stands for every address of this machine, as 0.0.0.0, 0, ::, * and no host do."""
    try:
        # As the system reads an IPv4 address: `0` is an address too.
        return ipaddress.ip_address(host if ":" in host else socket.inet_aton(host)).is_unspecified
    except (OSError, ValueError):
        return host in ("", "*")


def families(host: str) -> tuple[int, ...]:
    """Return the IP versions that a wildcard stands for: 0.0.0.0 for one, and `*` and :: for both."""
    return (4,) if "." in host or host.isalnum() else (4, 6)


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
    bound: set[SocketAddress] = set()
    for address in dict.fromkeys(addresses):
        for sock in await _bind(address, bound):
            stack.callback(sock.close)
            sockets.append(sock)
    admission = Admission(server, identity.context)
    stack.push_async_callback(admission.close)
    for sock in sockets:
        admission.listen(sock)
    return sockets


def only_here(sockets: Sequence[socket.socket]) -> str | None:
    """Return the addresses that are bound if none of them can be reached from another machine."""
    hosts = [str(sock.getsockname()[0]) for sock in sockets]
    return ", ".join(hosts) if all(ipaddress.ip_address(host.partition("%")[0]).is_loopback for host in hosts) else None


async def _resolve(address: Address) -> list[SocketAddress]:
    hosts = [address.host]
    if is_wildcard(address.host):
        hosts = [{4: "0.0.0.0", 6: "::"}[version] for version in families(address.host)]
    loop = asyncio.get_running_loop()
    try:
        found = [
            each
            for host in hosts
            for each in await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ]
    except (OSError, UnicodeError):
        raise BadInput(f"--bind {address}: no address has the name {address.host!r}") from None
    return list(dict.fromkeys((family, where) for family, _, _, _, where in found))


async def _bind(address: Address, taken: set[SocketAddress]) -> list[socket.socket]:
    bound: list[socket.socket] = []
    problems: list[str] = []
    wanted = [each for each in await _resolve(address) if each not in taken]
    taken.update(wanted)
    for family, where in wanted:
        try:
            # The IPv6 socket takes no IPv4, so that :: and 0.0.0.0 can both be bound.
            bound.append(socket.create_server(where, family=family, backlog=BACKLOG))
        except OSError as error:
            problems.append(_problem(address, str(where[0]), error))
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for sock in bound:
                    sock.close()
                raise Refused(problems[-1]) from None
    if problems and not bound:
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
                f"--bind {address}: {where} is not an address of this machine; 0.0.0.0 stands for all its IPv4"
                " addresses, and '*' or [::] for all its addresses"
            )
        case errno.EACCES:
            return f"--bind {address}: ports below 1024 are for root; choose another, such as 7500"
        case _:
            return f"--bind {address}: {where}: {os.strerror(error.errno or 0)}"
