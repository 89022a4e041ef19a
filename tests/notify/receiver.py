"""A real HTTP server on loopback that answers as it is told, and keeps what it was sent."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What arrived, and how to answer: by path a list of statuses, the last of them for ever."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.statuses: dict[str, list[int]] = {}
        self.headers: dict[str, str] = {}
        self.port = 0
        #: Requests to /hang wait for this.
        self.let_go = threading.Event()

    def url(self, path: str = "/") -> str:
        """The address of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    def documents(self, path: str) -> list[Any]:
        """What was posted to a path."""
        return [json.loads(body) for at, body in self.bodies if at == path]

    def status(self, path: str) -> int:
        """How to answer now."""
        planned = self.statuses.get(path, [200])
        return planned.pop(0) if len(planned) > 1 else planned[0]


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve until the end of the block."""
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.bodies.append((self.path, body))
            if self.path == "/hang":
                state.let_go.wait(30)
                return
            status = state.status(self.path)
            with contextlib.suppress(OSError):
                self.send_response(status)
                for name, value in state.headers.items():
                    self.send_header(name, value)
                if status in (301, 302, 307, 308):
                    self.send_header("Location", self.path)
                self.end_headers()
                while self.path == "/huge":
                    self.wfile.write(b"x" * 65536)

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()
