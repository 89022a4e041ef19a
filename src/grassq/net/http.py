"""One HTTP/1.1 exchange with the daemon over its unix socket, or with a broker over TLS; every read is bounded.

Every enqueue imports it, so it imports `_socket` and `os` only (`socket` alone costs 9 ms).
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SHUT_RDWR, SO_PEERCRED, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, socket
from errno import ETIMEDOUT
from sys import byteorder
from time import monotonic, sleep

from grassq.errors import BadInput, GrassError, NotFound, Refused, Unreachable
from grassq.home import SOCKET_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from grassq.net.broker import Broker
    from grassq.net.tls import TlsConnection

    #: Where requests go: the daemon of a home, or a broker on another machine.
    Target: TypeAlias = "str | Broker"

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
HEAD_LIMIT = 64 << 10
BODY_LIMIT = 256 << 20
CHUNK_LINE_LIMIT = 4096
#: The most digits of a number, and the most interim answers that are skipped.
NUMBER_MAX = 18
INTERIM_MAX = 16
READ_SIZE = 64 << 10
#: The error class for each exit code a daemon names.
ERRORS: dict[int, type[GrassError]] = {kind.exit_code: kind for kind in (BadInput, NotFound, Unreachable, Refused)}


class NoDaemon(Unreachable):
    """No daemon listens in the home, or no broker at its addresses."""


class Broken(Unreachable):
    """The connection ended before the whole answer had arrived."""


class Response:
    """A daemon's answer: status, headers (names in lower case) and body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Connection:
    """An open connection to a home's daemon or to a broker; `request` may be called again while it is kept open."""

    def __init__(self, target: Target, *, timeout_s: float | None = ANSWER_TIMEOUT_S) -> None:
        self._peer = "the daemon"
        self._headers: tuple[str, ...] = ()
        self._socket: socket | TlsConnection
        if isinstance(target, str):
            self._socket = _connect(target)
        else:
            self._peer = f"the broker {target}"
            self._socket, self._headers = target.open()
        self._socket.settimeout(timeout_s)
        self._buffer = b""
        self.reusable = False

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def interrupt(self) -> None:
        """End the connection in any thread: a reader gets `Broken`."""
        try:
            self._socket.shutdown(SHUT_RDWR)
        except OSError:
            # It has ended already.
            return

    def request(self, method: str, path: str, body: bytes = b"", *, keep: bool = False) -> Response:
        """Send one request and read the whole answer."""
        self._send(method, path, body, keep)
        response = self._head()
        response.body = b"".join(bounded(self._body(response.headers)))
        if response.headers.get("connection", "").lower() == "close":
            self.reusable = False
        return response

    def stream(self, path: str) -> tuple[Response, Iterator[bytes]]:
        """GET an answer of unknown length: return its head, and its bytes as they come. Broken: its end is missing."""
        self._send("GET", path, b"", False)
        response = self._head()
        return response, self._body(response.headers)

    def _send(self, method: str, path: str, body: bytes, keep: bool) -> None:
        self.reusable = False
        lines = [f"{method} {path} HTTP/1.1", "Host: grass", f"Connection: {'keep-alive' if keep else 'close'}"]
        lines += self._headers
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
        try:
            self._socket.sendall(head + body)
        except TimeoutError as error:
            raise self._broken(error) from error
        except OSError:
            # The daemon may have refused the request before reading all of it; its answer says more than our failure.
            pass

    def _head(self) -> Response:
        for _ in range(INTERIM_MAX):
            response = _parse_head(self._until(b"\r\n\r\n", HEAD_LIMIT, " (header too long)"))
            if response is None:
                raise self._unexpected("")
            if response.status >= 200:
                return response
        raise self._unexpected(" (no end of interim answers)")

    def _body(self, headers: dict[str, str]) -> Iterator[bytes]:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunked()
        length = headers.get("content-length", "")
        if not is_number(length):
            # A missing length too: an answer that ends with the connection may be incomplete.
            raise self._unexpected(" (length)")
        return self._exactly(int(length), whole=True)

    def _exactly(self, length: int, *, whole: bool) -> Iterator[bytes]:
        while length:
            if not self._buffer:
                self._fill()
            part = self._buffer[:length]
            self._buffer = self._buffer[length:]
            length -= len(part)
            yield part
        self.reusable = whole

    def _chunked(self) -> Iterator[bytes]:
        while size := _chunk_size(self._line()):
            if size < 0:
                raise self._unexpected(" (chunk size)")
            yield from self._exactly(size, whole=False)
            self._line()
        while self._line():
            pass  # trailers
        self.reusable = True

    def _line(self) -> bytes:
        return self._until(b"\r\n", CHUNK_LINE_LIMIT, " (chunk)")

    def _until(self, mark: bytes, limit: int, what: str) -> bytes:
        """Return the bytes before a mark and drop the mark; raise Unreachable if they are more than `limit`."""
        while (end := self._buffer.find(mark)) < 0 and len(self._buffer) <= limit:
            self._fill()
        if not 0 <= end <= limit:
            raise self._unexpected(what)
        found, self._buffer = self._buffer[:end], self._buffer[end + len(mark) :]
        return found

    def _fill(self) -> None:
        try:
            part = self._socket.recv(READ_SIZE)
        except OSError as error:
            raise self._broken(error) from error
        if not part:
            raise Broken(f"{self._peer} closed the connection before it answered")
        self._buffer += part

    def _broken(self, error: OSError) -> Unreachable:
        # With an errno, the kernel gave up a dead connection; without one, the timeout of this socket ended.
        if isinstance(error, TimeoutError) and error.errno != ETIMEDOUT:
            # Not Broken: the daemon has the request and may be at work on it, so sending it again would only add load.
            hint = "; `grass doctor` tells more" if self._peer == "the daemon" else ""
            return Unreachable(f"{self._peer} took the request and has not answered in time{hint}")
        return Broken(f"the connection to {self._peer} broke: {error.strerror or error}")

    def _unexpected(self, what: str) -> Unreachable:
        where = "what listens on the socket" if self._peer == "the daemon" else self._peer
        return Unreachable(f"{where} does not answer like a Grass daemon{what}")


def answers(home: str) -> bool:
    """Tell whether a daemon takes connections in a home."""
    try:
        Connection(home).close()
    except NoDaemon:
        return False
    return True


def _connect(home: str) -> socket:
    try:
        # Through the opened directory: a socket address holds 107 bytes, and the path of a home may be longer.
        directory = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        # If a file has the name, starting a daemon gives a better message.
        raise NoDaemon(f"no daemon runs in {home}") from error
    except OSError as error:
        raise Refused(f"cannot open {home}: {error.strerror}; set GRASS_HOME to another directory") from error
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid():
            raise Refused(
                f"{home} belongs to uid {status.st_uid}, not to you; set GRASS_HOME to a directory of your own"
            )
        connection = _dial(home, f"/proc/self/fd/{directory}/{SOCKET_NAME}")
    finally:
        os.close(directory)
    try:
        _check_peer(home, status.st_mode, connection)
    except GrassError:
        connection.close()
        raise
    return connection


def _check_peer(home: str, mode: int, connection: socket) -> None:
    """Refuse a listener that another user may have put there: the environment is sent with a job."""
    if mode & 0o022:
        raise Refused(f"others may write in {home}; `chmod go-w {home}`, or set GRASS_HOME to another directory")
    # Three integers: the pid, the uid and the gid of the listener.
    peer = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    uid = int.from_bytes(peer[4:8], byteorder)
    if uid not in (os.geteuid(), 0):
        raise Refused(f"another user (uid {uid}) listens on {home}/{SOCKET_NAME}; remove it, then `grass start`")


def _dial(home: str, address: str) -> socket:
    deadline = monotonic() + CONNECT_TIMEOUT_S
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    connection.setblocking(False)
    failure: GrassError
    while True:
        try:
            connection.connect(address)
            return connection
        except BlockingIOError:
            # The daemon's backlog is full: many commands at once, or a stopped daemon.
            if monotonic() <= deadline:
                sleep(0.005)
                continue
            failure = Unreachable(f"the daemon in {home} takes no connections; is it stopped?")
        except (FileNotFoundError, ConnectionRefusedError):
            failure = NoDaemon(f"no daemon runs in {home}")
        except OSError as error:
            failure = Refused(f"cannot reach the daemon in {home}: {error.strerror}")
        connection.close()
        raise failure


def _parse_head(head: bytes) -> Response | None:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not is_number(code):
        return None
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Response(int(code), headers)


def is_number(text: str) -> bool:
    """Tell whether a header's value is a number."""
    # `int` takes other digits too, and refuses very long numbers.
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_MAX


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        return -1
    return size if size <= BODY_LIMIT else -1


def bounded(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts of an answer that is kept in memory; raise Unreachable above BODY_LIMIT."""
    size = 0
    for part in parts:
        size += len(part)
        if size > BODY_LIMIT:
            raise Unreachable(f"the answer is longer than {BODY_LIMIT >> 20} MiB; ask for fewer jobs")
        yield part
