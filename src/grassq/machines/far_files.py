"""One command for files on the far side: it is opened, asked, fed and heard, and every wait has an end.

A deadline means "no progress for this long": a large file may take hours, a silent machine may not.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Protocol

from grassq.core.printable import printable
from grassq.errors import GrassError
from grassq.machines.transport import LinkLost, Stream, Transport

#: Called with the bytes that are done and the bytes of all.
Progress = Callable[[int, int], None]
#: How long a machine may take or give nothing.
STALL_S = 60.0
#: How long the far side may work without a word: hashing and copying what has arrived.
WORK_S = 1800.0
#: What a login shell may print before our own output.
NOISE_BYTES_MAX = 1 << 20
#: How often, about once a second, the far side may say that another transfer of the same files is under way.
WAITS_MAX = 3600
#: The longest line of an answer.
LINE_BYTES_MAX = 8192
#: A file of this size has a stream of its own, which goes on where it was cut. Smaller ones are sent again.
LARGE_BYTES = 32 << 20

_PLAIN = re.compile(rb"[^A-Za-z0-9._/+=@,:~-]")


class TransferFailed(GrassError):
    """Files cannot be sent or fetched, and trying the same again would not help; the message says what to do."""


class FarCommands(Protocol):
    """Makes the command lines of the far script; `machines.far_end.FarEnd` is one."""

    def command(self, verb: str, *args: str) -> str:
        """Return the line that starts a verb of the script there."""


def quoted(path: bytes) -> bytes:
    r"""Return a path as a line for `printf %b` of the far side: every odd byte is written as \0ooo."""
    return _PLAIN.sub(lambda found: b"\\0%03o" % found[0][0], path) + b"\n"


class Conversation:
    """The streams of one command; closed by `with`. `failed` begins the message when the far side cannot go on."""

    def __init__(self, transport: Transport, far: FarCommands, failed: str, verb: str, *args: str) -> None:
        self._failed = failed
        marker = secrets.token_hex(8)
        self._stream: Stream = transport.open(far.command(verb, marker, *args))
        self._marker = marker.encode("ascii")
        self._is_begun = False

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def say(self, data: bytes) -> None:
        """Send bytes; LinkLost if they are not taken, TransferFailed if the far side has said why not."""
        try:
            self._stream.write(data, STALL_S)
        except LinkLost:
            self._explain()
            raise

    def end(self) -> None:
        """Say that nothing more comes."""
        self._stream.end_input()

    def _explain(self) -> None:
        """Raise what the far side said before it stopped to listen, if it did."""
        try:
            answer = self.hear(within_s=STALL_S)
        except LinkLost:
            return
        raise EarlyAnswer(answer)

    def hear(self, within_s: float = STALL_S) -> list[str]:
        """Return the words of the next line; TransferFailed if the far side says that it cannot go on."""
        self._begin()
        for _ in range(WAITS_MAX):
            line = self._stream.read_line(LINE_BYTES_MAX, within_s)
            if line != b"wait":
                break
        text = line.decode("utf-8", "backslashreplace")
        if text.startswith("error "):
            raise TransferFailed(f"{self._failed}: {printable(text.removeprefix('error '))}")
        return text.split(" ")

    def read(self, size: int) -> bytes:
        """Return this count of bytes of the answer."""
        self._begin()
        return self._stream.read_exactly(size, STALL_S)

    def read_some(self, most: int) -> bytes:
        """Return what has come; b"" at the end."""
        self._begin()
        return self._stream.read_some(most, STALL_S)

    @property
    def words(self) -> str:
        """What the command wrote to stderr, for a message."""
        return printable(self._stream.words)

    def _begin(self) -> None:
        if not self._is_begun:
            self._stream.skip_to(self._marker, NOISE_BYTES_MAX, STALL_S)
            self._is_begun = True


class EarlyAnswer(LinkLost):
    """The far side answered before everything was sent to it: it needs no more."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(0, "the machine has stopped to listen")
        self.words = words


def unexpected(words: list[str]) -> LinkLost:
    """Return the error of an answer that is not understood: the connection is made again."""
    return LinkLost(0, f"the machine gave an answer that is not understood: {printable(' '.join(words))!r}")
