"""The last lines of one log as it grows, folded as a terminal shows them, and encoded once for all pages.

Used by one thread at a time. Lines that a page will never see are only counted, which is many times faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from grassq.core.term.line import Line
from grassq.core.term.screen import WINDOW, Screen
from grassq.web.live.messages import LINES_MAX
from grassq.web.logs.lines import line_document

#: Of a large piece of a log, only the last of these lines, within these bytes, are folded; the rest is counted.
FED_LINES, FED_BYTES = LINES_MAX + 2 * WINDOW, 128 << 10
#: Bytes of all lines of one frame, encoded; with more, the oldest lines are left out.
FRAME_BYTES_MAX = 512 << 10


class ShownLine(Struct, frozen=True):
    """A line as it is sent, and where it begins in the log."""

    begin: int
    raw: bytes


class FoldedLog:
    """The reader of one log, from any place of it on."""

    def __init__(self, screen: Screen | None = None, *, is_counted: bool = True) -> None:
        """Go on with a screen; lines have numbers only if the screen has counted all lines before its own."""
        self._screen = screen or Screen()
        self.is_counted = is_counted
        self._final: deque[ShownLine] = deque(maxlen=LINES_MAX)
        #: Whether lines were left out at the top when the lines were asked for last.
        self.is_full = False

    @property
    def offset(self) -> int:
        """Everything before this byte was taken."""
        return self._screen.offset

    @offset.setter
    def offset(self, offset: int) -> None:
        self._screen.offset = offset

    @property
    def total(self) -> int | None:
        """How many lines the log has up to the offset; None if its lines are not counted."""
        return self._screen.first - 1 + len(self._screen.lines()) if self.is_counted else None

    def count(self, data: bytes) -> None:
        """Take bytes that no page will see."""
        self._screen.skim(data)
        self._final.clear()

    def take(self, data: bytes) -> None:
        """Take bytes; of many, only the last lines are folded."""
        begin = _last_lines(data)
        if begin:
            self.count(data[:begin])
        self._final.extend(map(self._shown, self._screen.feed(data[begin:])))

    def lines(self) -> list[ShownLine]:
        """Return the last lines, within the bounds of a frame."""
        known = [*self._final, *map(self._shown, self._screen.lines())]
        found = known[-LINES_MAX:]
        size = sum(len(line.raw) for line in found)
        at = 0
        while size > FRAME_BYTES_MAX and at < len(found) - 1:
            size -= len(found[at].raw)
            at += 1
        self.is_full = at > 0 or len(known) >= LINES_MAX
        return found[at:]

    def _shown(self, line: Line) -> ShownLine:
        told = line_document(line)
        if not self.is_counted:
            told["n"] = None
        return ShownLine(line.begin, msgspec.json.encode(told))


def _last_lines(data: bytes) -> int:
    """Return where the lines begin that are folded."""
    begin = max(0, len(data) - FED_BYTES)
    if data.count(b"\n", begin) <= FED_LINES:
        return begin
    at = len(data)
    for _ in range(FED_LINES):
        at = data.rfind(b"\n", 0, at)
    return at + 1


class LinesDifference(Struct, frozen=True):
    """What a page with the lines before has to do: drop all lines from a byte on, and add the others."""

    #: How many of the first lines stay as they are.
    same: int
    #: Every line that begins here or behind is dropped.
    first: int


def difference(before: Sequence[ShownLine], after: Sequence[ShownLine], *, is_full: bool) -> LinesDifference | None:
    """Return how a page that has the lines `before` comes to the lines `after`; None if it needs all of them.

    Lines mostly begin one behind the other, but a program that moves the cursor can make a line that begins before an
    upper one: then more is sent again. All lines are sent when there are fewer than before, as a page that shows only
    the last ones would need lines that it has dropped; and when an upper line has vanished, because nothing is left on
    it. With `is_full`, upper lines are gone only because there is no room for more.
    """
    if not before or not after:
        return None
    skip = next((at for at, line in enumerate(before) if line.begin >= after[0].begin), len(before))
    known = before[skip:]
    if not known or len(known) > len(after) or (skip and not is_full):
        return None
    same = 0
    while same < len(known) and known[same] == after[same]:
        same += 1
    while same and not _is_apart(known, after, same):
        same -= 1
    others = [line.begin for line in (*known[same:], *after[same:])]
    return LinesDifference(same, min(others, default=after[-1].begin + 1))


def _is_apart(known: Sequence[ShownLine], after: Sequence[ShownLine], same: int) -> bool:
    """Tell whether the first lines all begin before all others."""
    highest = max(line.begin for line in after[:same])
    return all(line.begin > highest for line in (*known[same:], *after[same:]))
