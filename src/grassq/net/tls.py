"""TLS to a broker on another machine. Loaded only by commands that go there: `ssl` and `socket` are slow to load.

A broker is known by the SHA-256 of its certificate and by nothing else. The certificates people make for it name no
host, and one a broker makes for itself is signed by nobody, so a check of names or signatures would prove nothing;
that a certificate has expired does not change whose it is. The fingerprint came with the code of `join` or `login`,
and it is compared before anything is sent.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from time import monotonic

from grassq.errors import GrassError, Unreachable
from grassq.net.http import NoDaemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from grassq.core.syntax.addresses import Address

    Found = TypeVar("Found")

#: For one machine to take the connection and shake hands; then the next is tried.
CONNECT_TIMEOUT_S = 5.0
#: For one round over all addresses.
ROUND_S = 30.0
#: Of a name that stands for more machines the rest is not tried.
PLACES_MAX = 16
#: A peer that is gone without a word is given up after about KEEPALIVE_IDLE_S + 3 * KEEPALIVE_S.
KEEPALIVE_IDLE_S = 15
KEEPALIVE_S = 5
UNACKNOWLEDGED_MS = 30_000

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"}


class _Absent(Exception):
    """Nobody answers there now."""


def dial(addresses: Iterable[Address], judge: Callable[[Address, bytes], Found]) -> tuple[ssl.SSLSocket, Found]:
    """Connect to the first address whose certificate passes; nothing has been sent yet but the handshake.

    `judge` is given the address and the fingerprint it shows, and raises a GrassError if that is not the one. NoDaemon
    says that it may be otherwise in a moment; other errors that trying again is no use.
    """
    deadline = monotonic() + ROUND_S
    absent: list[str] = []
    refused: GrassError | None = None
    for address in addresses:
        try:
            return _dial_one(address, judge, deadline)
        except _Absent as error:
            absent.append(str(error))
        except GrassError as error:
            refused = refused or error
    if refused is not None and not absent:
        raise refused
    raise NoDaemon("; ".join([*absent, *([str(refused)] if refused else [])]))


def _dial_one(
    address: Address, judge: Callable[[Address, bytes], Found], deadline: float
) -> tuple[ssl.SSLSocket, Found]:
    """Every machine the address stands for; one that shows another certificate says more than one that is absent."""
    absent = "no time was left to try it"
    refused: GrassError | None = None
    for family, place in _places(address):
        left = deadline - monotonic()
        if left <= 0:
            break
        try:
            connection = _shake_hands(family, place, min(CONNECT_TIMEOUT_S, left))
        except ssl.SSLError as error:
            if error.reason in _NO_TLS:
                refused = refused or Unreachable(f"what listens at {address} speaks no TLS 1.2 or newer: no broker")
            absent = error.reason or str(error)
            continue
        except OSError as error:
            absent = error.strerror or str(error)
            continue
        try:
            certificate = connection.getpeercert(binary_form=True) or b""
            return connection, judge(address, hashlib.sha256(certificate).digest())
        except GrassError as error:
            connection.close()
            refused = refused or error
        except BaseException:
            connection.close()
            raise
    if refused is not None:
        raise refused
    raise _Absent(f"{address}: {absent}")


def _places(address: Address) -> list[tuple[int, tuple[object, ...]]]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise _Absent(f"{address}: the name cannot be looked up now") from error
        raise Unreachable(f"no machine is called {address.host}") from error
    except OSError as error:
        raise _Absent(f"{address}: {error.strerror}") from error
    return [(family, place) for family, _, _, _, place in found[:PLACES_MAX]]


def _shake_hands(family: int, place: tuple[object, ...], timeout_s: float) -> ssl.SSLSocket:
    plain = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        plain.settimeout(timeout_s)
        plain.connect(place)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A log may be silent for days; a broker that lost its power says nothing, either.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        return _context().wrap_socket(plain)
    except BaseException:
        plain.close()
        raise


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Not "no verification": the fingerprint is the verification, as the top of this file says.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
