"""Sessions of a running ssh process, in OpenSSH's own protocol for them (PROTOCOL.mux, version 4).

The `ssh` command can ask for a session too. It would be one more process for each session, it says only in words why
it failed, and it logs in a second time where the first ssh is gone. Here a refusal is an answer.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from typing import IO

from grassq.core.printable import printable
from grassq.machines.transport import LinkLost

#: The longest message of the ssh process that is read, in bytes: its messages are a few words.
MESSAGE_MAX = 64 << 10
#: The exit code of a session that ended without one, as ssh itself gives it.
NO_CODE = 255
#: How long the word of an end may take that has happened already, for a caller that does not wait.
ENDED_S = 0.02
_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION = 0x10000002
_TERMINATE = 0x10000005
_EXIT_MESSAGE = 0x80000004
_SESSION_OPENED = 0x80000006
_NO_ESCAPE = 0xFFFFFFFF
#: A part of what ssh says where the server's MaxSessions is reached.
_REFUSED = "refused by peer"


class TooManySessions(LinkLost):
    """The server gives this login no further session; the connection itself is well."""


class MuxConnection:
    """One connection to the control socket of an ssh process; every wait has an end."""

    def __init__(self, path: str, within_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deadline = clock() + within_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._in_time():
                self._socket.connect(path)
            self._send(struct.pack(">II", _HELLO, _VERSION))
            kind, body = self._receive()
            if kind != _HELLO or body[:4] != struct.pack(">I", _VERSION):
                raise LinkLost(0, f"this ssh gives its sessions by another protocol than version {_VERSION}")
        except BaseException:
            self._socket.close()
            raise

    def start(self, command: str, descriptors: tuple[int, int, int]) -> None:
        """Start a command there with these three descriptors; TooManySessions if the server refuses."""
        # No tty, no X11, no agent, no subsystem, no escape character, no terminal, no environment.
        request = struct.pack(">II", _NEW_SESSION, 0) + _text(b"") + struct.pack(">IIIII", 0, 0, 0, 0, _NO_ESCAPE)
        self._send(request + _text(b"") + _text(command.encode("ascii")))
        for descriptor in descriptors:
            with self._in_time():
                socket.send_fds(self._socket, [b"\0"], [descriptor])
        kind, body = self._receive()
        if kind == _SESSION_OPENED:
            return
        # A failure: the id of the request, and the reason as a text.
        reason = printable(body[8:].decode("utf-8", "backslashreplace"))
        if _REFUSED in reason:
            raise TooManySessions(0, "the server gives this login no further session (see MaxSessions of sshd_config)")
        raise LinkLost(0, f"ssh opened no session: {reason or hex(kind)}")

    def end_ssh(self, within_s: float) -> None:
        """Ask the ssh process to end."""
        self._deadline = self._clock() + within_s
        self._send(struct.pack(">II", _TERMINATE, 0))

    def exit_code(self, within_s: float) -> int:
        """Wait for the end of the session, and return its exit code; NO_CODE if it ended without one."""
        self._deadline = self._clock() + max(within_s, ENDED_S)
        while message := self._receive_or_end():
            kind, body = message
            if kind == _EXIT_MESSAGE and len(body) >= 8:
                return int(struct.unpack(">I", body[4:8])[0])
        return NO_CODE

    @property
    def has_ended(self) -> bool:
        """Whether the ssh process has closed this connection, as it does when it ends."""
        self._socket.settimeout(0)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection; the ssh process ends its session."""
        self._socket.close()

    def _send(self, message: bytes) -> None:
        with self._in_time():
            self._socket.sendall(_text(message))

    def _receive(self) -> tuple[int, bytes]:
        message = self._receive_or_end()
        if message is None:
            raise LinkLost(0, "the ssh process has ended")
        return message

    def _receive_or_end(self) -> tuple[int, bytes] | None:
        """Return the kind and the body of the next message; None if there is none any more."""
        head = self._read(4)
        if len(head) < 4:
            return None
        size = int(struct.unpack(">I", head)[0])
        if not 4 <= size <= MESSAGE_MAX:
            raise LinkLost(0, f"ssh answers with a message of {size:,} bytes")
        message = self._read(size)
        return (int(struct.unpack(">I", message[:4])[0]), message[4:]) if len(message) == size else None

    def _read(self, size: int) -> bytes:
        """Return this many bytes; fewer at the end of the connection."""
        data = b""
        while len(data) < size:
            with self._in_time():
                try:
                    more = self._socket.recv(size - len(data))
                except ConnectionError:
                    break
            if not more:
                break
            data += more
        return data

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Let one system call wait until the deadline, and say its failure in our words."""
        left = self._deadline - self._clock()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            yield
        except TimeoutError as error:
            raise LinkLost(0, "ssh does not answer") from error
        except OSError as error:
            raise LinkLost(0, f"the ssh process cannot be asked: {error.strerror}") from error


class MuxSession:
    """One command on the far side. Its streams and its end look like those of a local process."""

    def __init__(self, path: str, command: str, within_s: float, on_abandon: Callable[[], None]) -> None:
        """Start the command; `on_abandon` is called when its session is left before the end of the command."""
        self._on_abandon = on_abandon
        self._connection = MuxConnection(path, within_s)
        near: list[int] = []
        far: list[int] = []
        try:
            for _ in range(3):
                read, write = os.pipe()
                near.append(read)
                far.append(write)
            # The command reads its stdin and writes the other two.
            near[0], far[0] = far[0], near[0]
            self._connection.start(command, (far[0], far[1], far[2]))
        except BaseException:
            self._connection.close()
            for descriptor in near:
                os.close(descriptor)
            raise
        finally:
            for descriptor in far:
                os.close(descriptor)
        self.stdin: IO[bytes] = FileIO(near[0], "wb")
        self.stdout: IO[bytes] = FileIO(near[1], "rb")
        self.stderr: IO[bytes] = FileIO(near[2], "rb")
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        """Return the exit code of the command; subprocess.TimeoutExpired if it has not ended."""
        if self._code is None:
            try:
                self._code = self._connection.exit_code(timeout)
            except LinkLost as error:
                raise subprocess.TimeoutExpired("ssh", timeout) from error
            self._connection.close()
        return self._code

    def terminate(self) -> None:
        """End the session: the ssh process closes it when this connection is closed."""
        self._connection.close()
        self._code = NO_CODE
        self._on_abandon()

    kill = terminate


def _text(data: bytes) -> bytes:
    """Return bytes with their length in front, as the protocol has texts and messages."""
    return struct.pack(">I", len(data)) + data
