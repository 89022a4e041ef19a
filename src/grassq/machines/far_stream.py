"""Requests to the script of the far side, and its answers, over one stream."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable

from grassq.core.printable import printable
from grassq.machines.transport import CHUNK, LinkLost, Stream, Transport

#: What a login shell may print before the script runs; the first bytes of it are shown.
NOISE_MAX = 1 << 20
NOISE_SHOWN = 300
#: The longest line of a request.
REQUEST_MAX = 8 << 20
#: The bytes of a request that the slowest line carries, and the slowest shell reads, in a second.
SLOWEST = 64 << 10
#: The longest answer, unless a request says otherwise.
ANSWER_MAX = 4 << 20
#: How long the local process of an ended stream has to exit.
ENDING_S = 5.0
#: The exit code of ssh when the connection, not the command, has failed.
SSH_FAILED = 255

Sections = dict[str, bytes]

_PLAIN = frozenset(range(0x21, 0x7F)) - {ord("\\")}
_ESCAPED = [bytes([byte]) if byte in _PLAIN else b"\\0%03o" % byte for byte in range(256)]


class NotRun(Exception):
    """The command there has ended without its marker: there is no script, or the login shell does not run commands."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class FarStream:
    """One running command of the far side, behind its marker."""

    def __init__(
        self,
        transport: Transport,
        command: str,
        marker: str,
        within_s: float,
        *,
        first: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start a command and wait for its marker; raise NotRun if it ends before, LinkLost if the connection does.

        `first` is sent before the marker, and must fit into a pipe: the login shell may not read until it has printed.
        """
        self._clock = clock
        self._read = bytearray(b"\n")
        self.stream: Stream = transport.open(command)
        try:
            # What the command said before it ended tells more than the failed write.
            with contextlib.suppress(LinkLost):
                self.stream.write(first, within_s)
            self._skip_to(b"\n%s\n" % marker.encode("ascii"), within_s)
        except BaseException:
            self.stream.close()
            raise

    def ask(self, words: Iterable[object], within_s: float, most: int = ANSWER_MAX) -> Sections:
        """Send a request and return the sections of its answer; LinkLost for anything else.

        A large request has more time than `within_s`.
        """
        token = secrets.token_hex(16).encode("ascii")
        line = b" ".join((token, *(word if isinstance(word, bytes) else str(word).encode("ascii") for word in words)))
        within_s += len(line) / SLOWEST
        deadline = self._clock() + within_s
        self.stream.write(line + b"\n", within_s)
        end = b"\n%s end\n" % token
        answer = self._take_to(end, deadline, most + len(end))
        empty, *sections = answer.split(b"\n%s " % token)
        if empty:
            raise LinkLost(0, "the answer is none to this request")
        found = {}
        for section in sections:
            name, newline, content = section.partition(b"\n")
            if not newline:
                raise LinkLost(0, "the answer has a section without a name")
            found[name.decode("ascii", "replace")] = content
        return found

    def finish(self, rest: bytes, within_s: float) -> None:
        """Send the rest of stdin, as far as the command takes it, and close it."""
        with contextlib.suppress(LinkLost):
            self.stream.write(rest, within_s)
        self.stream.end_input()

    def read_line(self, most: int, within_s: float) -> bytes:
        """Return a line that comes after the marker."""
        return self._take_to(b"\n", self._clock() + within_s, most)

    def close(self) -> None:
        """End the stream."""
        self.stream.close()

    def _skip_to(self, wanted: bytes, within_s: float) -> None:
        deadline = self._clock() + within_s
        noise = b""
        dropped = 0
        while (at := self._read.find(wanted)) < 0:
            extra = max(0, len(self._read) - len(wanted))
            noise += bytes(self._read[: min(extra, NOISE_SHOWN - len(noise))])
            dropped += extra
            del self._read[:extra]
            if dropped > NOISE_MAX:
                raise NotRun("the login shell there prints without end")
            if not self._fill(deadline):
                raise self._not_run(noise + bytes(self._read))
        del self._read[: at + len(wanted)]

    def _not_run(self, noise: bytes) -> NotRun | LinkLost:
        words = self.stream.words
        said = noise.decode("utf-8", "replace").strip() or words
        if self.stream.finish(ENDING_S) == SSH_FAILED:
            return LinkLost(0, words or "the connection has ended")
        return NotRun(printable(said, NOISE_SHOWN))

    def _take_to(self, wanted: bytes, deadline: float, most: int) -> bytes:
        looked = 0
        while (at := self._read.find(wanted, looked)) < 0:
            if len(self._read) > most:
                raise LinkLost(0, f"an answer of the machine is longer than {most:,} bytes")
            looked = max(0, len(self._read) - len(wanted))
            if not self._fill(deadline):
                raise LinkLost(0, self.stream.words or "the connection ended in the middle of an answer")
        taken = bytes(self._read[:at])
        del self._read[: at + len(wanted)]
        return taken

    def _fill(self, deadline: float) -> bool:
        data = self.stream.read_some(CHUNK, max(0.0, deadline - self._clock()))
        self._read += data
        return bool(data)


def escaped(data: bytes) -> bytes:
    """Return bytes as one word of a request, as `printf %b` reads it there."""
    return b"".join(map(_ESCAPED.__getitem__, data))
