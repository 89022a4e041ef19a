"""TLS to a broker on another machine.

Every command to a broker imports it, so it stands on `_ssl` and `_socket`: `ssl` and `socket` cost 12 ms.

A broker is known by the SHA-256 of its public key and by nothing else. The certificates people make for it name no
host, and the one a broker makes for itself is signed by no authority, so a check of names or signatures would prove
nothing; an expired certificate is still the broker's, and a renewed one with the same key is too. The pin came with the
code of `join` or `login`, and it is compared before anything is sent.
"""

from __future__ import annotations

import _socket
import _ssl
from time import monotonic

from grassq.errors import GrassError, Refused, Unreachable
from grassq.net.http import NoDaemon
from grassq.pins import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

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


def dial(addresses: Iterable[Address], check: Callable[[Address, Shown], Found]) -> tuple[TlsConnection, Found]:
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
) -> tuple[TlsConnection, Found]:
    """Try every machine of an address; a wrong certificate is reported rather than an absent machine."""
    absent = "no time was left to try it"
    refused: GrassError | None = None
    for family, sockaddr in _resolve(address):
        left = deadline - monotonic()
        if left <= 0:
            break
        try:
            connection = _shake_hands(family, sockaddr, min(CONNECT_TIMEOUT_S, left))
        except _ssl.SSLError as error:
            if error.reason in _NO_TLS:
                refused = refused or Unreachable(f"{address} does not speak TLS 1.2 or newer, so it is not a broker")
            absent = error.reason or str(error)
            continue
        except OSError as error:
            absent = error.strerror or str(error)
            continue
        try:
            return connection, check(address, Shown(connection.certificate))
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
        found = _socket.getaddrinfo(host, address.port, 0, _socket.SOCK_STREAM)
    except (_socket.gaierror, UnicodeError) as error:
        if isinstance(error, _socket.gaierror) and error.errno == _socket.EAI_AGAIN:
            raise _Absent(f"{address}: the name cannot be looked up now") from error
        raise Unreachable(f"the name {address.host} cannot be looked up") from error
    except OSError as error:
        raise _Absent(f"{address}: {error.strerror}") from error
    return [(family, sockaddr) for family, _, _, _, sockaddr in found[:SOCKADDRS_MAX]]


def _shake_hands(family: int, sockaddr: tuple[object, ...], timeout_s: float) -> TlsConnection:
    plain = _Plain(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        plain.settimeout(timeout_s)
        plain.connect(sockaddr)
        plain.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        # A log may be silent for days, and a broker that lost its power is silent too.
        plain.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
        plain.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        plain.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, KEEPALIVE_S)
        plain.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, 3)
        plain.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        return TlsConnection(plain)
    except BaseException:
        plain.close()
        raise


class _Plain(_socket.socket):
    """A socket that TLS can refer to weakly."""

    __slots__ = ("__weakref__",)


class TlsConnection:
    """A connection after its handshake, with the methods of a socket that `net.http` calls."""

    def __init__(self, plain: _socket.socket) -> None:
        """Shake hands over a connected socket."""
        # `Any`: the types of this module leave a method out.
        context: Any = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = _ssl.PROTO_TLSv1_2
        # Not "no verification": the pin is the verification, as the top of this file says.
        context.check_hostname = False
        context.verify_mode = _ssl.CERT_NONE
        self.plain = plain
        self._tls = context._wrap_socket(plain, False)
        self._tls.do_handshake()

    @property
    def certificate(self) -> bytes:
        """The certificate of the other side, as DER."""
        found: bytes = self._tls.getpeercert(True) or b""
        return found

    def sendall(self, data: bytes) -> None:
        """Send every byte."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]

    def recv(self, size: int) -> bytes:
        """Return the next bytes; b"" at the end, also if the other side just hung up."""
        try:
            found: bytes = self._tls.read(size)
        except _ssl.SSLEOFError:
            return b""
        return found

    def settimeout(self, seconds: float | None) -> None:
        """Set how long each call may take."""
        self.plain.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        """End the connection in any thread."""
        self.plain.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self.plain.close()
