"""One line while it can still change: a character per column, and a style per column."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from grassq.core.term.line import Line, Span

#: Columns of a line; characters beyond them are counted, not kept.
COLUMNS_MAX = 10_000
#: How many marks, such as accents, a character may carry; more are ignored.
MARKS_MAX = 16
TAB = 8

#: The columns behind the first one of a wide character or of a tab.
_BEHIND = "\x00"
#: Characters that reorder or hide what follows them, or begin another line; they are shown as escapes.
REORDERING = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
_REORDERING = re.compile(f"[{REORDERING}]")
#: Texts of these characters take one column per character.
_NARROW = re.compile(
    "[ -~\u00a0-\u00ac\u00ae-\u02ff\u03a3-\u0482\u1e00-\u1f15\u2010-\u2027\u2030-\u205e\u2100-\u218b\u2190-\u2319"
    "\u232b-\u23e8\u2460-\u25fc\u27c0-\u2b1a\ufffd]*"
)


class Row:
    """A line that can be written at any column."""

    __slots__ = ("begin", "begin_style", "cut", "end", "is_ended", "marks", "styles", "text", "updates")

    def __init__(self, begin: int, begin_style: int) -> None:
        """Begin an empty line at a byte; `begin_style` is the style there."""
        self.text = ""
        #: One style for all columns, or one per column.
        self.styles: int | list[int] = 0
        #: The marks on the character of a column.
        self.marks: dict[int, str] = {}
        self.begin = self.end = begin
        self.begin_style = begin_style
        self.updates = 0
        self.cut = 0
        #: Whether a newline ended the line.
        self.is_ended = False

    def write(self, column: int, text: str, style: int) -> int:
        """Write text without control characters at a column; return the column behind the text."""
        if not text.isascii() and not _NARROW.fullmatch(text):
            return self._write_wide(column, text, style)
        room = COLUMNS_MAX - column
        if len(text) > room:
            self.cut += len(text) - max(0, room)
            text = text[: max(0, room)]
        self._put(column, text, style)
        return column + len(text)

    def _write_wide(self, column: int, text: str, style: int) -> int:
        """Write text with wide characters, marks or characters that must be shown as escapes."""
        cells: list[str] = []
        marks: dict[int, str] = {}
        for at, character in enumerate(text):
            used = column + len(cells)
            size = _size(character)
            if used >= COLUMNS_MAX or used + size > COLUMNS_MAX:
                self.cut += len(text) - at
                cells += " " * (COLUMNS_MAX - used)
                break
            if size == 0:
                before = cells if cells else self.text[:column]
                head = len(before) - 1
                while head > 0 and before[head] == _BEHIND:
                    head -= 1
                if head >= 0:
                    place = head + (column if cells else 0)
                    held = marks if cells else self.marks
                    held[place] = (held.get(place, "") + character)[:MARKS_MAX]
            elif size > 2:
                cells += _escape(character)
            else:
                cells += character if size == 1 else character + _BEHIND
        self._put(column, "".join(cells), style)
        self.marks.update(marks)
        return column + len(cells)

    def tab(self, column: int, style: int) -> int:
        """Go to the next tab stop; behind the end of the line the tab is kept as a character."""
        stop = min(COLUMNS_MAX, (column // TAB + 1) * TAB)
        if column >= len(self.text) and stop > column:
            self._put(column, "\t" + _BEHIND * (stop - column - 1), style)
        return stop

    def _put(self, column: int, cells: str, style: int) -> None:
        """Replace columns."""
        if not cells:
            return
        size = len(self.text)
        if column < size:
            self._break(column)
            self._break(column + len(cells))
            if self.marks:
                ends = column + len(cells)
                self.marks = {at: mark for at, mark in self.marks.items() if not column <= at < ends}
        if column > size:
            self._extend(" " * (column - size), 0)
            size = column
        if column == size:
            self._extend(cells, style)
            return
        self.text = self.text[:column] + cells + self.text[column + len(cells) :]
        if not (isinstance(self.styles, int) and self.styles == style):
            self._each()[column : column + len(cells)] = [style] * len(cells)

    def _extend(self, cells: str, style: int) -> None:
        if not self.text:
            self.styles = style
        elif isinstance(self.styles, list):
            self.styles += [style] * len(cells)
        elif self.styles != style:
            self.styles = [self.styles] * len(self.text) + [style] * len(cells)
        self.text += cells

    def _each(self) -> list[int]:
        if isinstance(self.styles, int):
            self.styles = [self.styles] * len(self.text)
        return self.styles

    def _break(self, column: int) -> None:
        """Make blanks of a wide character or tab that lies on both sides of the place before `column`."""
        if not 0 < column < len(self.text) or self.text[column] != _BEHIND:
            return
        first = column
        while self.text[first] == _BEHIND:
            first -= 1
        last = column
        while last < len(self.text) and self.text[last] == _BEHIND:
            last += 1
        self.text = self.text[:first] + " " * (last - first) + self.text[last:]
        self.marks.pop(first, None)

    def erase(self, first: int, last: int) -> None:
        """Erase the columns from `first` up to `last`; count an update if something was there."""
        if first >= len(self.text):
            return
        if self.text[first:last].strip():
            self.updates += 1
        if last >= len(self.text):
            self._break(first)
            self.text = self.text[:first]
            if not self.text:
                self.styles = 0
            elif isinstance(self.styles, list):
                del self.styles[first:]
            self.marks = {at: mark for at, mark in self.marks.items() if at < first}
            self.cut = 0
        elif first < last:
            self._put(first, " " * (last - first), 0)

    @property
    def is_blank(self) -> bool:
        """Whether the line shows nothing, and no newline ended it."""
        return not self.is_ended and not self.text.strip()

    def line(self, number: int) -> Line:
        """Return the line as it is now."""
        return Line(number, self.begin, self.end, self._spans(), self.updates, self.cut)

    def _spans(self) -> tuple[Span, ...]:
        text = self.text
        if self.updates and not (isinstance(self.styles, int) and self.styles):
            # Bars wipe themselves out with blanks.
            text = self._without_blanks()
        if not text:
            return ()
        if isinstance(self.styles, int):
            return (Span(self.styles, self._shown(0, len(text))),)
        spans, first = [], 0
        for style, run in groupby(self.styles[: len(text)]):
            last = first + sum(1 for _ in run)
            spans.append(Span(style, self._shown(first, last)))
            first = last
        return tuple(spans)

    def _without_blanks(self) -> str:
        text = self.text.rstrip(" ")
        if isinstance(self.styles, list):
            size = len(self.text)
            while size > len(text) and not self.styles[size - 1]:
                size -= 1
            return self.text[:size]
        return text

    def _shown(self, first: int, last: int) -> str:
        text = self.text[first:last]
        if self.marks:
            parts = [each + self.marks.get(at, "") for at, each in enumerate(text, first)]
            text = "".join(parts)
        return text.replace(_BEHIND, "") if _BEHIND in text else text


def is_simple(text: str) -> bool:
    """Tell whether a whole line of this text is shown as it is."""
    return len(text) <= COLUMNS_MAX and "\t" not in text and _NARROW.fullmatch(text) is not None


def escaped(text: str) -> str:
    """Return a text with the characters as escapes that a line shows as escapes."""
    return text if text.isascii() else _REORDERING.sub(lambda found: _escape(found.group()), text)


@lru_cache(maxsize=8192)
def _size(character: str) -> int:
    """Return the columns of a character: 0 for marks, more than 2 for a character that is shown as an escape."""
    if _REORDERING.match(character):
        return len(_escape(character))
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
