"""Draws a log that grows on a terminal: text and colours as they come, and bars that move, nested ones too.

The lines that may still change are drawn again from the first that changed. A line that has left the screen of the
terminal cannot be drawn again and stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable

from grassq.cli.logs.text import shown
from grassq.cli.render import columns
from grassq.core.term.screen import Screen


class LiveView:
    """What is drawn of one log. `size` returns the columns and rows of the terminal."""

    def __init__(self, write: Callable[[bytes], None], size: Callable[[], tuple[int, int]], *, coloured: bool) -> None:
        self._write = write
        self._size = size
        self._coloured = coloured
        self._screen = Screen()
        #: The lines on the screen that may still change: text, and rows that it takes.
        self._drawn: list[tuple[str, int]] = []
        #: Whether the cursor is at the start of a row below them; else it is at the end of the last one.
        self._is_below = True

    def feed(self, data: bytes) -> None:
        """Draw bytes of the log; no bytes end the log."""
        final = self._screen.feed(data) if data else self._screen.finish()
        lines = final + self._screen.lines()
        width, height = self._size()
        texts = [shown(line, coloured=self._coloured) for line in lines]
        begin = self._first_changed(texts, height)
        gone, kept = self._drawn[begin:], self._drawn[:begin]
        new = [(text, _rows(line.text, width)) for text, line in zip(texts[begin:], lines[begin:], strict=True)]
        out = ""
        if gone:
            up = sum(rows for _, rows in gone) - (0 if self._is_below else 1)
            out = "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"
            self._is_below = True
        if new:
            out += ("" if self._is_below else "\n") + "\n".join(text for text, _ in new)
            self._is_below = False
        if not data and not self._is_below:
            out += "\n"
            self._is_below = True
        self._write(out.encode("utf-8", "backslashreplace"))
        self._drawn = (kept + new)[len(final) :]

    def _first_changed(self, texts: list[str], height: int) -> int:
        """Return which line is drawn first: the first that changed, of those that are still on the screen."""
        same = 0
        while same < min(len(texts), len(self._drawn)) and texts[same] == self._drawn[same][0]:
            same += 1
        first, rows = len(self._drawn), 0
        while first > same and rows + self._drawn[first - 1][1] < height:
            first -= 1
            rows += self._drawn[first][1]
        return first


class FoldedView:
    """Writes a log in lines that can no longer change, for a log that is read to its end at once."""

    def __init__(self, write: Callable[[str], None], *, coloured: bool) -> None:
        self._write = write
        self._coloured = coloured
        self._screen = Screen()

    def feed(self, data: bytes) -> None:
        """Write the lines that are final; no bytes end the log."""
        for line in self._screen.feed(data) if data else self._screen.finish():
            self._write(shown(line, coloured=self._coloured))


class LineView:
    """Writes a log that grows in whole lines, each when it has ended; for logs that share a terminal or a pipe."""

    def __init__(self, write: Callable[[str], None], *, coloured: bool) -> None:
        self._write = write
        self._coloured = coloured
        self._screen = Screen()
        #: The lines up to this number are written.
        self._written = 0

    def feed(self, data: bytes) -> None:
        """Write the lines that have ended; no bytes end the log."""
        if data:
            lines = self._screen.feed(data)
            above = self._screen.rows[: self._screen.row]
            lines += [row.line(self._screen.first + at) for at, row in enumerate(above)]
        else:
            lines = self._screen.finish()
        for line in lines:
            if line.number > self._written:
                self._written = line.number
                self._write(shown(line, coloured=self._coloured))


def _rows(text: str, width: int) -> int:
    return max(1, -(-columns(text.expandtabs()) // width))
