"""TLS to a broker on another machine. Only commands that need it import it: `ssl` and `socket` are slow to load.

A broker is known by the SHA-256 of its public key and by nothing else. The certificates people make for it name no
host, and the one a broker makes for itself is signed by no authority, so a check of names or signatures would prove
nothing; an expired certificate is still the broker's, and a renewed one with the same key is too. The pin came with the
code of `join` or `login`, and it is compared before anything is sent.
"""

from __future__ import annotations

import socket
import ssl
from time import monotonic

from grassq.errors import GrassError, Refused, Unreachable
from grassq.net.http import NoDaemon
from grassq.pins import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from grassq.core.syntax.addresses import Address

    Found = TypeVar("Found")

#: Seconds for one machine to accept the connection and finish the handshake; then the next machine is tried.
CONNECT_TIMEOUT_S = 5.0
#: Seconds for one round over all addresses.
ROUND_S = 30.0
#: How many machines behind one name are tried.
SOCKADDRS_MAX = 16
#: A silent peer is given up after about KEEPALIVE_IDLE_S + 3 * KEEPALIVE_S.
KEEPALIVE_IDLE_S = 15
KEEPALIVE_S = 5
UNACKNOWLEDGED_MS = 30_000

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"}


class _Absent(Exception):
    """No broker answers at this address now."""


def dial(addresses: Iterable[Address], check: Callable[[Address, Shown], Found]) -> tuple[ssl.SSLSocket, Found]:
    """Connect to the first address whose certificate passes; only the handshake has been sent by then.

    `check` gets the address and what it shows, and raises a GrassError for a wrong one. NoDaemon means that trying
    again may help, and any other error that it does not: a wrong key at one address is final.
    """
    deadline = monotonic() + ROUND_S
    absent: list[str] = []
    refused: GrassError | None = None
    for address in addresses:
        try:
            return _dial_one(address, check, deadline)
        except _Absent as error:
            absent.append(str(error))
        except GrassError as error:
            if refused is None or (isinstance(error, Refused) and not isinstance(refused, Refused)):
                refused = error
    if refused is not None and (isinstance(refused, Refused) or not absent):
        raise refused
    raise NoDaemon("; ".join([*absent, *([str(refused)] if refused else [])]))


def _dial_one(
    address: Address, check: Callable[[Address, Shown], Found], deadline: float
) -> tuple[ssl.SSLSocket, Found]:
    """Try every machine of an address; a wrong certificate is reported rather than an absent machine."""
    absent = "no time was left to try it"
    refused: GrassError | None = None
    for family, sockaddr in _resolve(address):
        left = deadline - monotonic()
        if left <= 0:
            break
        try:
            connection = _shake_hands(family, sockaddr, min(CONNECT_TIMEOUT_S, left))
        except ssl.SSLError as error:
            if error.reason in _NO_TLS:
                refused = refused or Unreachable(f"{address} does not speak TLS 1.2 or newer, so it is not a broker")
            absent = error.reason or str(error)
            continue
        except OSError as error:
            absent = error.strerror or str(error)
            continue
        try:
            return connection, check(address, Shown(connection.getpeercert(binary_form=True) or b""))
        except GrassError as error:
            connection.close()
            refused = refused or error
        except BaseException:
            connection.close()
            raise
    if refused is not None:
        raise refused
    raise _Absent(f"{address}: {absent}")


def check_host(address: Address) -> None:
    """Raise Unreachable if the host of an address cannot be looked up."""
    try:
        _resolve(address)
    except (_Absent, Unreachable) as error:
        raise Unreachable(
            f"the name {address.host} cannot be looked up; is it spelled right? (There is no token for it either.)"
        ) from error


def _resolve(address: Address) -> list[tuple[int, tuple[object, ...]]]:
    try:
        # As bytes where that is enough: the codec for other alphabets takes 4 ms to load.
        host = address.host.encode("ascii") if address.host.isascii() else address.host
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise _Absent(f"{address}: the name cannot be looked up now") from error
        raise Unreachable(f"the name {address.host} cannot be looked up") from error
    except OSError as error:
        raise _Absent(f"{address}: {error.strerror}") from error
    return [(family, sockaddr) for family, _, _, _, sockaddr in found[:SOCKADDRS_MAX]]


def _shake_hands(family: int, sockaddr: tuple[object, ...], timeout_s: float) -> ssl.SSLSocket:
    plain = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        plain.settimeout(timeout_s)
        plain.connect(sockaddr)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A log may be silent for days, and a broker that lost its power is silent too.
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
    # Not "no verification": the pin is the verification, as the top of this file says.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
