"""A job's log over connections that may break: continued from the offset read, never taken for complete too early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep

from grassq.errors import Unreachable
from grassq.net.http import Broken, Connection, Response, is_number
from grassq.net.retry import TRIES, TRIES_WITHIN_S

#: Inserted where a log shrank, between the bytes before and the bytes of the new log.
SHRANK = b"\n[grass: the log shrank at %d bytes]\n"

#: Opens a log: the offset, the attempt, and the number of last lines.
Ask = Callable[[int, int | None, int | None], tuple[Response, Iterator[bytes], Connection]]


class LogStream:
    """A job's log as it comes: its attempt, the offset read, and its bytes."""

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
        #: The log is shorter than the requested offset, and comes from its start.
        self._shrank_at = _number(response, "grass-shrank", -1)

    def _read(self) -> Iterator[bytes]:
        try:
            if self._shrank_at >= 0:
                yield SHRANK % self._shrank_at
            for part in self._parts:
                self.offset += len(part)
                yield part
        finally:
            self._connection.close()


def _number(response: Response, header: str, default: int) -> int:
    text = response.headers.get(header, "")
    return int(text) if is_number(text) else default
