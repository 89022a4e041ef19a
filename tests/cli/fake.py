"""A stand-in for the daemon: answers what a test tells it to, one connection after the other."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from grassq import __version__


class Request:
    """What a client sent."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.target, self.headers, self.body = method, target, headers, body

    @property
    def document(self) -> Any:
        return json.loads(self.body)


#: Bytes to answer with (then the connection closes, or stays for the next request), or None to break it.
Answer = bytes | None
Handler = Callable[[Request], Answer]


class FakeDaemon:
    """Listens on `grass.sock` in a home and keeps every request it saw."""

    def __init__(self, home: Path, handler: Handler) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._handler = handler
        self._socket = socket.socket(socket.AF_UNIX)
        self._path = home / "grass.sock"
        # Through the directory, as the daemon does: pytest's paths may be longer than a socket address.
        directory = os.open(home, os.O_PATH)
        self._socket.bind(f"/proc/self/fd/{directory}/grass.sock")
        os.close(directory)
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeDaemon:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()
        self._path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming:
            while (request := _read(incoming)) is not None:
                self.requests.append(request)
                answer = self._handler(request)
                if answer is None:
                    return
                try:
                    connection.sendall(answer)
                except BrokenPipeError:
                    return  # the client did not wait for the answer
                if b"Content-Length" not in answer.split(b"\r\n\r\n")[0]:
                    return


def reply(
    body: bytes, *, status: int = 200, headers: dict[str, object] | None = None, version: str = __version__
) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Grass-Version: {version}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def stored(stdout: bytes = b"1\n", stderr: bytes = b"", *, exit_code: int = 0, **headers: object) -> bytes:
    """An answer to /v1/enqueue."""
    fixed: dict[str, object] = {"Grass-Exit": exit_code, "Grass-Stdout": len(stdout)}
    return reply(stdout + stderr, headers={**fixed, **{k.replace("_", "-"): v for k, v in headers.items()}})


def document(content: object, *, status: int = 200) -> bytes:
    """A JSON answer."""
    return reply(json.dumps(content).encode(), status=status)


def stream(body: bytes, *, whole: bool = True, **headers: object) -> bytes:
    """An answer in chunks; one that is not whole breaks off before its last chunk."""
    lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + chunk + (b"0\r\n\r\n" if whole else b"")


def _read(incoming: Any) -> Request | None:
    first = incoming.readline()
    if not first:
        return None
    method, target, _ = first.decode().split()
    headers: dict[str, str] = {}
    while (line := incoming.readline().strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, target, headers, incoming.read(int(headers.get("content-length", 0))))
