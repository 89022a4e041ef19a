"""A TCP proxy before PostgreSQL that counts the protocol's messages, and cuts or freezes the line at any of them."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Literal

Side = Literal["client", "server"]
_LINGER_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Between a store and a server's socket. Nothing happens to the line until a test says so."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._frozen = False
        #: After so many more messages of that side the line is cut; and whether the server is told.
        self._cut: tuple[Side, int, bool] | None = None
        #: After so many more messages of the client, of these kinds, nothing passes any more.
        self._freeze_at: tuple[int, bytes] | None = None
        #: The kinds of the messages that passed, a letter each.
        self.passed: dict[Side, bytes] = {"client": b"", "server": b""}
        self._open: list[socket.socket] = []
        #: What clients said into the frozen line.
        self._held: list[tuple[socket.socket, bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database_url: str) -> str:
        """How to reach through this proxy what the URL names by its socket."""
        name = database_url.partition("@/")[2].partition("?")[0]
        port = self._listener.getsockname()[1]
        return f"postgresql://grass@127.0.0.1:{port}/{name}?sslmode=disable&gssencmode=disable&connect_timeout=2"

    def count(self) -> None:
        """Count from here."""
        with self._lock:
            self.passed = {"client": b"", "server": b""}

    def cut(self, side: Side, after: int, *, unnoticed: bool = False) -> None:
        """Cut the line after so many more messages of one side; `unnoticed` leaves the server waiting."""
        with self._lock:
            self._cut = (side, after, unnoticed)

    def freeze(self, after: int = 0, kind: bytes = b"") -> None:
        """After so many more messages of the client (of one kind: their letter) let nothing pass and close nothing."""
        with self._lock:
            self._freeze_at = (after, kind)

    def heal(self) -> None:
        """New connections are as good as ever."""
        with self._lock:
            self._cut, self._freeze_at, self._frozen = None, None, False

    def thaw(self) -> None:
        """What was said into the frozen line arrives after all."""
        self.heal()
        for sink, message in self._held:
            with suppress(OSError):
                sink.sendall(message)

    def close(self) -> None:
        """Cut everything."""
        self._listener.close()
        for line in self._open:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            # Small messages go out at once, as those of a client do.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            try:
                server.connect(self._target)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._pump, args=("client", client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=("server", server, client), daemon=True).start()

    def _pump(self, side: Side, source: socket.socket, sink: socket.socket) -> None:
        waiting, first, frozen = b"", side == "client", False
        with suppress(OSError):
            while data := source.recv(65536):
                waiting += data
                while (length := _length(waiting, first)) is not None and len(waiting) >= length:
                    message, waiting, first = waiting[:length], waiting[length:], False
                    frozen = self._pass(side, message, source, sink) or frozen
        if not frozen and not self._frozen:
            for line in (source, sink):
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def _pass(self, side: Side, message: bytes, source: socket.socket, sink: socket.socket) -> bool:
        """Hand one message on, unless the line ends here; True if it is swallowed."""
        with self._lock:
            if side == "client" and self._freeze_at is not None:
                left, kind = self._freeze_at
                self._frozen = self._frozen or left <= 0
                self._freeze_at = (left - message.startswith(kind), kind)
            if self._frozen:
                if side == "client":
                    self._held.append((sink, message))
                return True
            self.passed[side] += message[:1]
            if self._cut is not None and self._cut[0] == side:
                _, left, unnoticed = self._cut
                if left <= 0:
                    client, server = (source, sink) if side == "client" else (sink, source)
                    _reset(client)
                    if not unnoticed:
                        _reset(server)
                    return unnoticed
                self._cut = (side, left - 1, unnoticed)
            sink.sendall(message)
            return False


def _reset(line: socket.socket) -> None:
    with suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        line.shutdown(socket.SHUT_RDWR)


def _length(waiting: bytes, first: bool) -> int | None:
    """How long the next message is: a kind and a length, but for the first of a client, which has no kind."""
    start = 0 if first else 1
    if len(waiting) < start + 4:
        return None
    return start + int.from_bytes(waiting[start : start + 4], "big")
