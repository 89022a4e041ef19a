"""The daemon's log: one record is one line, whatever words it holds, and repeated records are counted.

Workers and callers choose some of the words, and can cause many records. So control characters are written as escapes,
and of one kind of record (the same logger, level and format) only KIND_LINES_MAX are written in a span of time.
"""

from __future__ import annotations

import logging
import logging.handlers
import time
from collections.abc import Callable
from pathlib import Path

from grassq.core.printable import printable

LOG_BYTES_MAX = 5 << 20
#: Characters of a message; the rest is cut.
LINE_CHARS_MAX = 1000
#: Lines of one kind in a span; further ones are counted.
KIND_LINES_MAX = 50
#: Seconds of the first span; each span with too many lines is followed by one twice as long, up to the longest.
SPAN_S, SPAN_MAX_S = 60.0, 3600.0
#: Kinds that are told apart; further ones count as one kind.
KINDS_MAX = 500

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
#: Begins every line below a message, so that no word in a traceback looks like a record.
_BELOW = "  | "

#: Logger, level and format.
_Kind = tuple[str, int, str]


def open_log(path: Path | None, *, clock: Callable[[], float] = time.monotonic) -> logging.Handler:
    """Return the handler of all records; it writes to a file of bounded size, or to stderr."""
    target: logging.Handler = logging.StreamHandler()
    if path is not None:
        target = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=1)
    target.setFormatter(LineFormatter(_FORMAT))
    return RepeatLimit(target, clock)


class LineFormatter(logging.Formatter):
    """Writes a message as one line, with control characters as escapes, and a traceback as indented lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        record.message = printable(record.message, LINE_CHARS_MAX)
        return super().formatMessage(record)

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        """Return the lines of a traceback."""
        return "\n".join(_BELOW + printable(line) for line in super().formatException(ei).split("\n"))


class _Span:
    """The lines of one kind since a time."""

    def __init__(self, until: float, length_s: float) -> None:
        self.until = until
        self.length_s = length_s
        self.written = self.left_out = 0


class RepeatLimit(logging.Handler):
    """Passes records on to another handler, of each kind a limited number; tells how many it left out."""

    def __init__(self, target: logging.Handler, clock: Callable[[], float]) -> None:
        super().__init__()
        self._target = target
        self._clock = clock
        self._spans: dict[_Kind, _Span] = {}
        self._next_end = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on, or count it."""
        now = self._clock()
        if now >= self._next_end:
            self._end_spans(now)
        kind = (record.name, record.levelno, str(record.msg))
        if kind not in self._spans and len(self._spans) >= KINDS_MAX:
            kind = ("", record.levelno, "lines of other kinds")
        span = self._spans.setdefault(kind, _Span(now + SPAN_S, SPAN_S))
        self._next_end = min(self._next_end, span.until)
        if span.written < KIND_LINES_MAX:
            span.written += 1
            self._target.handle(record)
        else:
            span.left_out += 1

    def flush(self) -> None:
        """Write everything that was passed on."""
        self._target.flush()

    def close(self) -> None:
        """Tell what was left out, and close the other handler."""
        for kind, span in self._spans.items():
            self._tell(kind, span)
        self._spans.clear()
        self._target.close()
        super().close()

    def _end_spans(self, now: float) -> None:
        for kind, span in [*self._spans.items()]:
            if now < span.until:
                continue
            self._tell(kind, span)
            # The next span begins where this one ended; a kind that has been quiet since then begins anew.
            length_s = min(2 * span.length_s, SPAN_MAX_S)
            if span.left_out and now < span.until + length_s:
                self._spans[kind] = _Span(span.until + length_s, length_s)
            else:
                del self._spans[kind]
        self._next_end = min((span.until for span in self._spans.values()), default=now + SPAN_MAX_S)

    def _tell(self, kind: _Kind, span: _Span) -> None:
        if span.left_out:
            name, level, form = kind
            words = f"{span.left_out} more lines like this one within {span.length_s:g} s: {form}"
            self._target.handle(logging.LogRecord(name, level, "", 0, words, None, None))
