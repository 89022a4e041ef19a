"""A job's log over connections that may break: read on from where it was, and never taken for whole when it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import monotonic, sleep

from grassq.errors import Unreachable
from grassq.net.http import Broken, Connection, Response, is_number
from grassq.net.retry import TRIES, TRIES_WITHIN_S

#: What the daemon writes between the bytes of a log that shrank, and of the log from its new start on.
SHRANK = re.compile(rb"\n\[grass: the log shrank at ([0-9]{1,19}) bytes\]\n")
SHRANK_LIMIT = 64

#: Opens a log at an offset, of an attempt, at its last lines.
Ask = Callable[[int, int | None, int | None], tuple[Response, Iterator[bytes], Connection]]


class LogStream:
    """A job's log as it comes: which attempt wrote it, how far it was read, and its bytes."""

    def __init__(self, ask: Ask, offset: int, attempt: int | None, tail: int | None) -> None:
        self._ask = ask
        self._open(offset, attempt, tail)

    def __iter__(self) -> Iterator[bytes]:
        breaks = 0
        while True:
            opened, before = monotonic(), self.offset
            try:
                yield from self._read()
                return
            except Broken as error:
                is_new = self.offset != before or monotonic() - opened > TRIES_WITHIN_S
                breaks = 1 if is_new else breaks + 1
                if breaks >= TRIES:
                    raise Unreachable(f"{error}; the log is not whole; tried {breaks} times") from error
            sleep(0.2 * (breaks - 1))
            self._open(self.offset, self.attempt, None)

    def _open(self, offset: int, attempt: int | None, tail: int | None) -> None:
        response, self._parts, self._connection = self._ask(offset, attempt, tail)
        # A job that has not started is followed from its first attempt on.
        self.attempt = _number(response, "grass-attempt", attempt or 0) or 1
        self.offset = _number(response, "grass-offset", offset)
        self._recent = b""

    def _read(self) -> Iterator[bytes]:
        try:
            for part in self._parts:
                self._advance(part)
                yield part
        finally:
            self._connection.close()

    def _advance(self, part: bytes) -> None:
        # The daemon's marks are no part of the log; one that does not name the very place it is at is the job's own.
        recent = self._recent + part
        start = self.offset - len(self._recent)
        for mark in SHRANK.finditer(recent):
            if int(mark[1]) == start + mark.start():
                start = -mark.end()
        self.offset = start + len(recent)
        self._recent = recent[-min(SHRANK_LIMIT, self.offset) :] if self.offset else b""


def _number(response: Response, header: str, default: int) -> int:
    text = response.headers.get(header, "")
    return int(text) if is_number(text) else default
