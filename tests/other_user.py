"""What another user of this machine can do: a process of that user does it, and tells."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

#: The uid and gid of nobody, as every distribution has them.
NOBODY = 65534
ANSWER_S = 10.0


def as_user(uid: int, act: Callable[[], bytes], cwd: Path | None = None) -> bytes:
    """Return what `act` returns in a process of this user, which begins in `cwd` even if the user may not enter it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(cwd or ".")
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writing, act())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def answer_to(sock: socket.socket, request: bytes, half: bool = False) -> bytes:
    """Send a request and return everything that is answered; with `half`, close the sending half before."""
    parts: list[bytes] = []
    with sock, contextlib.suppress(ConnectionError):
        sock.settimeout(ANSWER_S)
        sock.sendall(request)
        if half:
            sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(1 << 16):
            parts.append(data)
    return b"".join(parts)


def unix_socket(path: str) -> socket.socket:
    """Connect to a unix socket."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock
