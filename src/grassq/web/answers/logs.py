"""What the routes about logs answer."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.web.responses import ErrorText


class LogLineDocument(TypedDict):
    """A line of a log as people see it."""

    #: Its number, from 1 on; null where the lines before it are not counted yet.
    n: int | None
    #: The first byte of the line in the log.
    begin: int
    #: The byte after it.
    end: int
    #: Pieces of the line, each with its style in words such as `bold red`, and its text.
    spans: list[tuple[str, str]]
    #: How often the line was written anew, as progress bars do.
    updates: NotRequired[int]
    #: How many characters were left out of a long line.
    cut: NotRequired[int]


class FoundLinesDocument(TypedDict):
    """Lines of a log, and how far the log is known."""

    lines: list[LogLineDocument]
    #: All lines; null while they are not counted.
    total: int | None
    #: The bytes of the log.
    size: int
    #: How many bytes of it are indexed.
    indexed: int
    #: Whether that is all of it.
    is_whole: bool
    #: With `since`: when the first line was known to be written, in seconds since the epoch.
    seen: NotRequired[float | None]
    #: The file of the log, if it is on the broker's machine.
    path: NotRequired[str]


class LogLinesDocument(FoundLinesDocument):
    """Lines of the log of one attempt."""

    job: int
    attempt: int
    stream: str
    #: Whether the log does not grow any more.
    is_final: bool


class LogSearchDocument(TypedDict, total=False):
    """A line of a search: a hit (`n`, `text`, `at`), the progress (`total`, `searched`, ...), or the end (`end`)."""

    #: The number of the line.
    n: int
    text: str
    #: Where the match is in the text: from and to.
    at: tuple[int, int]
    #: How many characters of a long line are not in the text.
    left_out: int
    #: Lines that match so far.
    total: int
    #: The byte up to which the log was searched; of a search backwards, down to which.
    searched: int
    #: The byte at which the search began.
    begin: int
    #: Bytes of the log.
    size: int
    end: bool
    #: The search has paused: go on with `after` or `before` this line.
    on: int
    #: Why the search did not come to the end of the log.
    error: ErrorText
