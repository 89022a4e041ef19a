"""Reads requests and writes answers: one request per connection, within a time and a size, on a thread of its own."""

from __future__ import annotations

import errno
import io
import json
import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from time import monotonic
from urllib.parse import urlsplit

from grassq.compat.gpupeasy.admission import body_length, refusal
from grassq.compat.gpupeasy.api import PeasyAnswer, PeasyApi, body_max, failure, method_of
from grassq.compat.signals import Signals
from grassq.peer_uid import uid_of_peer

#: Seconds for a whole request to come, and for an answer to be taken.
REQUEST_S, ANSWER_S = 10.0, 30.0
#: Bytes of the head of a request.
HEAD_MAX = 16 << 10
#: Connections at a time; more are closed at once.
CONNECTIONS_MAX = 64
#: Bytes that are still read of a refused request, so that a reset does not destroy the answer, and the seconds for it.
REST_BYTES_MAX, REST_S = 64 << 10, 1.0
#: Seconds without a new connection when the machine has no descriptors or threads for it.
PAUSE_S = 0.1
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

#: Returns the user at the other end of a connection; None if it is unknown.
PeerUid = Callable[[tuple[object, ...], tuple[object, ...]], int | None]


class HttpServer:
    """Serves GPUPeasy's API until a signal comes."""

    def __init__(
        self,
        api: PeasyApi,
        sockets: list[socket.socket],
        signals: Signals,
        uid_of: PeerUid = uid_of_peer,
        request_s: float = REQUEST_S,
    ) -> None:
        """`uid_of` tells whose connection it is; `request_s` is the time in which a request must have come."""
        self.api = api
        self.request_s = request_s
        self.port = int(sockets[0].getsockname()[1])
        self._sockets = sockets
        self._signals = signals
        self._uid_of = uid_of
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def run(self) -> int:
        """Serve until the first signal; return it."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        listening = {each.fileno(): each for each in self._sockets}
        for sock in self._sockets:
            sock.setblocking(False)
            poll.register(sock, select.POLLIN)
        while not self._signals.take():
            for descriptor, _ in poll.poll():
                if descriptor in listening:
                    self._accept(listening[descriptor])
        for sock in self._sockets:
            sock.close()
        return self._signals.first

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, address = listening.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._pause()
            return  # otherwise the client has gone
        if not self._places.acquire(blocking=False):
            connection.close()
            return
        try:
            threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()
        except (RuntimeError, MemoryError):  # the machine has no more threads
            self._places.release()
            connection.close()
            self._pause()

    def _pause(self) -> None:
        """Wait a moment, or until a signal comes: the client still waits, so that `poll` would return at once."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.poll(PAUSE_S * 1000)

    def _serve(self, connection: socket.socket, address: tuple[object, ...]) -> None:
        try:
            with connection, suppress(OSError):
                connection.setblocking(True)
                # First of all: another user of this machine gets no byte of an answer, and holds no thread.
                if self._uid_of(connection.getsockname(), address) in (0, os.geteuid()):
                    Exchange(connection, address, self)  # type: ignore[arg-type]  # no socketserver
                else:
                    connection.settimeout(ANSWER_S)
                    _send(connection, failure(403, "this server answers programs of its owner only"))
        finally:
            self._places.release()


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"
    command = ""
    server: HttpServer  # type: ignore[assignment]

    def setup(self) -> None:
        """Bound what is read of the connection, in bytes and in time."""
        self._reader = _BoundedReader(self.request, HEAD_MAX, monotonic() + self.server.request_s)
        self.rfile = io.BufferedReader(self._reader)
        self.wfile = io.BytesIO()

    def finish(self) -> None:
        """Leave the connection to its thread, which closes it."""
        self.rfile.close()

    def handle(self) -> None:
        """Read one request and answer it."""
        self.close_connection = True
        try:
            self.raw_requestline = self.rfile.readline(HEAD_MAX)
            if not self.raw_requestline or not self.parse_request():
                self._flush()
                return
            answer = self._answer()
        except TimeoutError:
            answer = failure(408, f"the request took longer than {self.server.request_s:g} s")
        except _TooLarge:
            answer = failure(431, f"the head of the request has more than {HEAD_MAX:,} bytes")
        self.request.settimeout(ANSWER_S)
        _send(self.request, answer, with_body=self.command != "HEAD")
        _drain(self.request)

    def _answer(self) -> PeasyAnswer:
        refused = refusal(self.headers.items(), self.server.port)
        if refused is not None:
            return refused
        path = urlsplit(self.path).path if self.path.startswith("/") else ""
        method = method_of(path)
        if method is None:
            return failure(404, "there is no such route; the page is opened by `grass web` or gpupeasy-gui")
        if self.command != method and not (method == "GET" and self.command == "HEAD"):
            return failure(405, f"{path[:80]} takes {method} only")
        if method == "GET":
            return self.server.api.get(path)
        named = {name.lower(): self.headers.get_all(name) or [] for name in ("Content-Length", "Transfer-Encoding")}
        length = body_length(named, body_max(path))
        if isinstance(length, PeasyAnswer):
            return length
        self._reader.allow(length)
        body = self.rfile.read(length)
        if len(body) < length:
            return failure(400, "the body ends before its Content-Length")
        return self.server.api.post(path, body, self.headers.get_content_type())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is no HTTP."""
        _send(self.request, failure(int(code), message or "this is not a request of HTTP"))

    def _flush(self) -> None:
        with suppress(OSError):
            self.request.sendall(self.wfile.getvalue())  # type: ignore[attr-defined]

    def handle_expect_100(self) -> bool:
        """Let a client send its body, if its headers are not refused anyway."""
        if refusal(self.headers.items(), self.server.port) is None:
            self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the daemon's audit has what was done."""


class _TooLarge(Exception):
    """More bytes came than a request may have."""


class _BoundedReader(io.RawIOBase):
    """Reads from a connection up to a number of bytes, and up to a time."""

    def __init__(self, connection: socket.socket, most: int, until: float) -> None:
        self._connection = connection
        self._left = most
        self._until = until

    def allow(self, more: int) -> None:
        """Let this many more bytes be read."""
        self._left += more

    def readable(self) -> bool:
        """Tell that this can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read what has come; raise TimeoutError after the time."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        if self._left <= 0:
            raise _TooLarge
        left_s = self._until - monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(view[: self._left])
        self._left -= count
        return count


def _send(connection: socket.socket, answer: PeasyAnswer, *, with_body: bool = True) -> None:
    body = json.dumps(answer.document).encode("ascii") + b"\n"
    lines = [
        f"HTTP/1.1 {answer.code} {_REASONS.get(answer.code, 'Refused')}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    with suppress(OSError):
        connection.sendall(head + body if with_body else head)


def _drain(connection: socket.socket) -> None:
    """Read a little of what a client still sends after its answer."""
    until, left = monotonic() + REST_S, REST_BYTES_MAX
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while left > 0 and (left_s := until - monotonic()) > 0:
            connection.settimeout(left_s)
            part = connection.recv(min(left, 8192))
            if not part:
                return
            left -= len(part)


_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
