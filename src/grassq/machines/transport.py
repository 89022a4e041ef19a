"""The seam to another computer: a command starts there, and its three streams are pipes here."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable
from typing import IO, Protocol

from grassq.core.printable import printable

#: The only characters of a command: they mean themselves in every login shell (sh, csh, fish), so nothing is quoted.
COMMAND = re.compile(r"[A-Za-z0-9/._=+ -]+")
#: The bytes of stderr, or of stdout before the marker, that are kept: the last ones, for a message.
STDERR_KEPT = 4096
#: The characters of a message that are the far side's: the last ones.
WORDS_MAX = 500
CHUNK = 256 << 10
#: The reads of stderr before stdout is looked at again: a far side may write to stderr without end.
STDERR_READS_MAX = 16
#: How long a stream has to end after it was closed here, before it is killed.
CLOSE_S = 2.0


class LinkLost(OSError):
    """The connection to a machine has ended, or the machine does not answer in time."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


def check_command(command: str) -> None:
    """Refuse a command that a login shell could read in another way: a bug of the caller."""
    if not COMMAND.fullmatch(command):
        raise ValueError(f"a command of other characters than {COMMAND.pattern}: {command!r}")


class Transport(Protocol):
    """Starts commands on a machine. May be used by several threads."""

    def open(self, command: str) -> Stream:
        """Start a command of the characters of COMMAND in the login shell there; LinkLost if that cannot be done."""


class Running(Protocol):
    """A command that runs, as `subprocess.Popen` shows one."""

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def wait(self, timeout: float) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Stream:
    """The streams of one command on a machine. Used by one thread at a time; every wait has an end."""

    def __init__(self, process: Running, *, clock: Callable[[], float] = time.monotonic) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._clock = clock
        self._unread = bytearray()
        self._has_ended = False
        self._words = b""

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is output; `pending` may hold more."""
        return self._stdout.fileno()

    @property
    def pending(self) -> int:
        """The bytes that have been read from the pipe and not yet taken."""
        return len(self._unread)

    def write(self, data: bytes, within_s: float) -> None:
        """Write all of it; LinkLost if the other side does not take it within this time."""
        if not self._write(data, within_s):
            raise self._lost("the connection has ended")

    def end_input(self) -> None:
        """Close the command's stdin."""
        self._stdin.close()

    def send_input(self, data: bytes, within_s: float) -> None:
        """Write the whole input and close stdin. A command that ends before it has read it says why in its output."""
        self._write(data, within_s)
        self.end_input()

    def read_some(self, most: int, within_s: float) -> bytes:
        """Return what has come, at most `most` bytes; b"" at the end of the stream."""
        deadline = self._clock() + within_s
        while not self._unread and not self._has_ended:
            self._fill(deadline)
        return self._take(min(most, len(self._unread)))

    def read_exactly(self, size: int, within_s: float) -> bytes:
        """Return `size` bytes; LinkLost if the stream ends before."""
        deadline = self._clock() + within_s
        while len(self._unread) < size:
            if self._has_ended:
                raise self._lost("the connection ended in the middle of an answer")
            self._fill(deadline)
        return self._take(size)

    def read_line(self, most: int, within_s: float) -> bytes:
        """Return the next line without its newline; LinkLost if it is longer than `most`, or the stream ends."""
        deadline = self._clock() + within_s
        while (end := self._unread.find(b"\n", 0, most + 1)) < 0:
            if len(self._unread) > most:
                raise self._lost(f"a line of the answer is longer than {most:,} bytes")
            if self._has_ended:
                raise self._lost("the connection ended in the middle of an answer")
            self._fill(deadline)
        line = self._take(end)
        self._take(1)
        return line

    def skip_to(self, marker: bytes, most: int, within_s: float) -> int:
        """Drop output until a line is the marker, and return how much: a login shell may print its own words before."""
        deadline = self._clock() + within_s
        dropped, last = 0, b""
        wanted = b"\n" + marker + b"\n"
        self._unread[:0] = b"\n"
        while (at := self._unread.find(wanted)) < 0:
            extra = max(0, len(self._unread) - len(wanted))
            last = (last + self._take(extra))[-STDERR_KEPT:]
            dropped += extra
            if self._has_ended or dropped > most:
                raise self._lost("the login shell there did not run the command", last + self._unread)
            self._fill(deadline)
        self._take(at + len(wanted))
        # A command prints a newline before its marker.
        return max(0, dropped + at - 1)

    def finish(self, within_s: float) -> int:
        """Close stdin, drop the rest of the output, and return the exit code of the local process."""
        self._stdin.close()
        deadline = self._clock() + within_s
        while not self._has_ended:
            self._unread.clear()
            self._fill(deadline)
        try:
            return self._process.wait(max(0.0, deadline - self._clock()))
        except subprocess.TimeoutExpired as error:
            raise self._lost("the command there does not end") from error

    @property
    def words(self) -> str:
        """The last bytes of stderr on one line, as text for a message."""
        self._drain_stderr()
        return _on_one_line(self._words)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._stdout.closed

    def close(self) -> None:
        """End the local process of this stream, by force if it does not end by itself."""
        if self.is_closed:
            return
        self._drain_stderr()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()
        try:
            self._process.wait(0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(CLOSE_S)

    def _write(self, data: bytes, within_s: float) -> bool:
        """Write all of it; return False if the command has closed its stdin."""
        left = memoryview(data)
        deadline = self._clock() + within_s
        while left:
            try:
                left = left[os.write(self._stdin.fileno(), left[:CHUNK]) :]
            except BlockingIOError:
                self._wait(deadline, select.POLLOUT)
            except (BrokenPipeError, ValueError):
                return False
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._unread[:size])
        del self._unread[:size]
        return taken

    def _fill(self, deadline: float) -> None:
        """Wait for output and read some of it."""
        self._wait(deadline, 0)
        try:
            data = os.read(self._stdout.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost("the connection has ended") from error
        self._unread += data
        self._has_ended = not data

    def _wait(self, deadline: float, writing: int) -> None:
        """Wait until there is output, or room for input if `writing`; take what comes on stderr meanwhile."""
        if self.is_closed:
            raise LinkLost(0, "the connection was closed here")
        poll = select.poll()
        poll.register(self._stdin if writing else self._stdout, writing or select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        while (left := deadline - self._clock()) > 0:
            ready = dict(poll.poll(left * 1000 + 1))
            if self._stderr.fileno() in ready:
                if not self._drain_stderr():
                    poll.unregister(self._stderr)
                del ready[self._stderr.fileno()]
            if ready:
                return
        raise self._lost("the machine does not answer")

    def _drain_stderr(self) -> bool:
        """Keep the last bytes of stderr; return whether more may come."""
        try:
            for _ in range(STDERR_READS_MAX):
                data = os.read(self._stderr.fileno(), CHUNK)
                if not data:
                    return False
                self._words = (self._words + data)[-STDERR_KEPT:]
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        return True

    def _lost(self, what: str, said: bytes = b"") -> LinkLost:
        """Return the error, with the last words on stderr, or with these of stdout if there are none."""
        words = self.words or _on_one_line(said)
        return LinkLost(0, f"{what}: {words}" if words else what)


def _on_one_line(said: bytes) -> str:
    """Return the last words of a far side as text for a message."""
    lines = said[-STDERR_KEPT:].decode("utf-8", "backslashreplace").splitlines()
    return printable("; ".join(line.strip() for line in lines if line.strip())[-WORDS_MAX:])


class LocalTransport:
    """Starts commands on this computer, as sshd would: in a shell, in a home of its own. For tests of the far side."""

    def __init__(self, home: str, *, shell: tuple[str, ...] = ("sh",), env: dict[str, str] | None = None) -> None:
        self._home = home
        self._shell = shell
        self._env = {"HOME": home, "PATH": os.defpath, **(env or {})}

    def open(self, command: str) -> Stream:
        """Start a command in the shell."""
        check_command(command)
        return Stream(
            subprocess.Popen(
                [*self._shell, "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._home,
                env=self._env,
                start_new_session=True,
                bufsize=0,
            )
        )
