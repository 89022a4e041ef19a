"""Follows the log of one job in a thread, by its tail: what comes too fast is skipped, never queued."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from grassq.cli.top.feeds.asker import RETRY_MAX_S, RETRY_S, Background, Daemon
from grassq.core.term.line import Line
from grassq.core.term.screen import Screen
from grassq.errors import BadInput, GrassError, NotFound, Refused
from grassq.net.http import Connection, Response, is_number

#: Lines that are asked for at first, and lines that are kept.
FIRST_LINES = 1000
KEPT_LINES = 5000
#: The screen is told at most this often.
TELL_S = 0.1
#: Bytes of one telling; a log that is faster is skipped to its end.
BURST_BYTES = 256 << 10
#: While a log is too fast: how many lines and bytes of its end are shown, and how long nothing is read after that.
SKIPPED_LINES = 200
LOUD_BYTES = 32 << 10
SKIP_S = 0.25
#: A log that is silent for this long is asked for again.
QUIET_S = 60.0
#: The last line may be longer than any burst: this many bytes of it are passed over, then the rest is not shown.
LONG_LINE_BYTES = 64 << 20


class LogNews(NamedTuple):
    """What was read of a log since the last telling."""

    job: int
    #: Forget the lines shown before.
    is_new: bool
    #: Lines that do not change any more, and lines that still may.
    lines: Sequence[Line]
    open_lines: Sequence[Line]
    #: Bytes between the lines shown before and these.
    skipped: int = 0
    #: The log has ended.
    is_end: bool = False
    #: Why the log cannot be read.
    why: str = ""


class LogFollower(Background):
    """The thread of one job; another job has another thread."""

    def __init__(
        self,
        daemon: Daemon,
        job: int,
        stream: str,
        tell: Callable[[LogNews], None],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__("top-log", failed)
        self._daemon = daemon
        self._job = job
        self._stream = stream
        self._tell = tell
        self._screen = Screen()
        self._offset = 0
        #: Where the last lines began when they were last asked for.
        self._began = -1
        self._attempt: int | None = None
        self._is_new = True
        self._skipped = 0
        #: The log was too fast when it was last read.
        self._is_loud = False
        self._connection: Connection | None = None
        self._stopped = threading.Event()

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if (connection := self._connection) is not None:
            connection.interrupt()

    def work(self) -> None:
        """Read the log until it ends; wait for a daemon that is away."""
        pause_s, lines = RETRY_S, FIRST_LINES
        is_placed = False
        while not self._stopped.is_set():
            try:
                before = self._began
                is_loud = self._read(None if is_placed else lines)
                is_placed, pause_s = True, RETRY_S
                if is_loud is None:
                    return
                self._is_loud = bool(is_loud)
                if is_loud:
                    # Fewer lines if even these were too many bytes, also of a log that does not grow any more.
                    is_long = is_loud == "at once" or before == self._began
                    lines = max(1, lines // 10) if is_long else min(lines, SKIPPED_LINES)
                    is_placed = False
                    self._stopped.wait(SKIP_S)
            except (NotFound, Refused, BadInput) as error:
                self._tell(LogNews(self._job, True, [], [], is_end=True, why=str(error)))
                return
            except GrassError:
                self._stopped.wait(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)

    def _read(self, tail: int | None) -> str | None:
        """Read one connection: from the offset on, or the last lines. Return None at the end of the log.

        A log that is too fast returns `later`, or `at once` if the last lines alone were too much.
        """
        asked: list[tuple[str, object]] = [("stream", self._stream), ("follow", 1), ("attempt", self._attempt)]
        asked.append(("offset", self._offset) if tail is None else ("tail", tail))
        response, parts, connection = self._daemon.stream(f"/v1/jobs/{self._job}/log", asked, QUIET_S)
        self._connection = connection
        try:
            self._begin(response, is_tail=tail is not None)
            return self._take(parts, is_tail=tail is not None, is_last_line=tail == 1)
        finally:
            self._connection = None
            connection.close()

    def _begin(self, response: Response, *, is_tail: bool) -> None:
        offset = _number(response, "grass-offset")
        if _number(response, "grass-attempt"):
            self._attempt = _number(response, "grass-attempt")
        if is_tail:
            self._began = offset
        if is_tail or offset != self._offset:
            self._skipped += max(0, offset - self._offset) if not self._is_new or self._offset else 0
            self._screen, self._offset, self._is_new = Screen(offset=offset), offset, True

    def _take(self, parts: Iterator[bytes], *, is_tail: bool, is_last_line: bool) -> str | None:
        lines: list[Line] = []
        burst, told_at, is_first = 0, monotonic(), is_tail
        limit = LOUD_BYTES if self._is_loud else BURST_BYTES
        for received in parts:
            if self._stopped.is_set():
                return None
            part = self._end_of(received) if self._is_loud and not burst else received
            burst += len(part)
            if burst > limit and not (is_last_line and burst < LONG_LINE_BYTES):
                self._flush(lines)
                return "at once" if is_first and not self._is_loud else "later"
            self._offset += len(part)
            lines += self._screen.feed(part)
            if monotonic() - told_at >= TELL_S:
                self._is_loud, limit = False, BURST_BYTES
                self._flush(lines)
                lines, burst, told_at, is_first = [], 0, monotonic(), False
            elif len(part) < 1024:
                self._flush(lines)
                lines = []
        self._flush(lines, is_end=True)
        return None

    def _end_of(self, part: bytes) -> bytes:
        """Return the last lines of a part, and count what is passed over."""
        if len(part) <= LOUD_BYTES:
            return part
        kept = part[-LOUD_BYTES:].partition(b"\n")[2] or part[-LOUD_BYTES:]
        passed = len(part) - len(kept)
        self._offset += passed
        self._skipped += passed
        self._screen, self._is_new = Screen(offset=self._offset), True
        return kept

    def _flush(self, lines: Sequence[Line], *, is_end: bool = False) -> None:
        if not self._stopped.is_set():
            news = LogNews(self._job, self._is_new, lines[-KEPT_LINES:], self._screen.lines(), self._skipped, is_end)
            self._is_new, self._skipped = False, 0
            self._tell(news)


def _number(response: Response, header: str) -> int:
    text = response.headers.get(header, "")
    return int(text) if is_number(text) else 0
