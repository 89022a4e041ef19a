"""Reads terminal output piece by piece: lines that can no longer change, and a window of lines that still can.

The reader is a terminal of 100 rows and 10,000 columns that does not wrap. A line that leaves the top of the window is
final. Differences to a real terminal, each so that a log keeps what it says: a newline also returns to the first
column; clearing the whole screen makes its lines final instead of erasing them, and goes to the start of the window;
erased columns have no colour; a newline ends a title or another string that was never ended; inserting and deleting of
lines or characters, scroll regions and the alternate screen are ignored.
"""

from __future__ import annotations

from grassq.core.term.line import Line, Span
from grassq.core.term.linear import is_linear, style_after
from grassq.core.term.row import COLUMNS_MAX, Row, is_simple
from grassq.core.term.sequences import (
    CONTROL,
    ESCAPE,
    OPEN,
    SPECIAL,
    STRING_BEGIN,
    STRING_END,
    STRING_MAX,
    unfinished,
)
from grassq.core.term.style import apply

#: Lines that can still change.
WINDOW = 100
#: A window that was written within this many bytes, from top to bottom, is read again rather than saved.
READ_AGAIN_MAX = 1 << 20


class Screen:
    """The reader of one log. The bytes may be cut anywhere between two calls."""

    def __init__(self, *, offset: int = 0, number: int = 1) -> None:
        """Begin at a byte, with a line of this number."""
        #: The bytes before this offset were taken.
        self.offset = offset
        #: The number of the first line that may still change.
        self.first = number
        self.rows: list[Row] = []
        self.row = self.column = self.style = 0
        #: Row, column and style as saved by ESC 7.
        self.saved = (0, 0, 0)
        #: The cursor was moved back, so that what comes next may write over something.
        self.has_moved = False
        #: Where the next line begins, and the style there; -1 when a line has begun there.
        self.fresh = (offset, 0)
        #: Up to this byte something was written in another order than from top to bottom.
        self.bent = offset - 1
        #: An unfinished character or sequence.
        self.pending = b""
        #: Bytes of a string that were skipped, plus one; 0 outside of a string.
        self.skipped = 0
        self._final: list[Line] = []
        self._keeps = True

    def feed(self, data: bytes) -> list[Line]:
        """Take bytes; return the lines that became final."""
        self._final = []
        self._take(data)
        final, self._final = self._final, []
        return final

    def skim(self, data: bytes) -> int:
        """Take bytes like `feed`, but only count: return how many lines became final. Many times faster."""
        before = self.first
        self._keeps = False
        try:
            self._take(data)
        finally:
            self._keeps = True
        return self.first - before

    @property
    def is_between(self) -> bool:
        """Whether no character and no sequence is unfinished."""
        return not self.pending and not self.skipped

    @property
    def is_below(self) -> bool:
        """Whether the cursor is at the beginning of a new line below all others."""
        return self.row == len(self.rows) and self.column == 0 and self.fresh[0] >= 0

    def skip(self, data: bytes) -> None:
        """Take whole linear lines below all others, as if the window had no room for lines."""
        self.offset += len(data)
        self.style = style_after(self.style, data)
        self.first += len(self.rows) + data.count(b"\n")
        self.rows, self.row, self.column, self.has_moved = [], 0, 0, False
        self.fresh = (self.offset, self.style)

    def lines(self) -> list[Line]:
        """Return the lines that may still change."""
        size = len(self.rows)
        while size and self.rows[size - 1].is_blank:
            size -= 1
        return [row.line(self.first + at) for at, row in enumerate(self.rows[:size])]

    def finish(self) -> list[Line]:
        """End the log; return its last lines."""
        held, self.pending = self.pending, b""
        if held and not self.skipped and held[:1] != b"\x1b":
            self._text(held, self.offset - len(held))
        last = self.lines()
        self.rows, self.row, self.column = [], 0, 0
        self.first += len(last)
        self.fresh = (self.offset, self.style)
        return last

    def checkpoint(self) -> tuple[int, bytes]:
        """Return a byte, not after the offset, and a state: a screen restored from it and fed from there is equal."""
        from grassq.core.term import state

        top = self.rows[0] if self.rows else None
        if top is not None and top.begin > self.bent and self.offset - top.begin <= READ_AGAIN_MAX:
            begun = Screen(offset=top.begin, number=self.first)
            begun.style, begun.saved = top.begin_style, self.saved
            begun.fresh = (top.begin, top.begin_style)
            return top.begin, state.encode(begun)
        return self.offset, state.encode(self)

    def state(self) -> bytes:
        """Return everything that decides what comes next."""
        from grassq.core.term import state

        return state.encode(self)

    @staticmethod
    def restore(saved: bytes) -> Screen:
        """Return the screen of a state; raise ValueError if the state is damaged."""
        from grassq.core.term import state

        return state.decode(saved)

    def _take(self, data: bytes) -> None:
        base = self.offset - len(self.pending)
        self.offset += len(data)
        if self.pending:
            data, self.pending = self.pending + data, b""
        at = 0
        if not self.skipped and not self._keeps:
            at = self._skip_lines(data, base)
        while at < len(data):
            if self.skipped:
                at = self._skip_string(data, at)
                continue
            found = SPECIAL.search(data, at)
            stop = found.start() if found else len(data)
            if stop == at:
                at = self._special(data, at, base)
                continue
            if found is None:
                stop -= unfinished(data[-4:])
                self.pending = data[stop:]
            self._text(data[at:stop], base + at)
            at = stop
            if found is None:
                return

    def _skip_lines(self, data: bytes, base: int) -> int:
        """Count the lines that begin and become final within this data; return where the others begin."""
        newlines = data.count(b"\n")
        if newlines <= 2 * WINDOW:
            return 0
        end = at = data.rfind(b"\n") + 1
        for _ in range(WINDOW):
            at = data.rfind(b"\n", 0, at - 1) + 1
        # Whole lines: no sequence is cut.
        if not is_linear(data[:end]):
            return 0
        self.style = style_after(self.style, data[:at])
        self.first += self.row + newlines - WINDOW
        self.rows, self.row, self.column, self.has_moved = [], 0, 0, False
        self.fresh = (base + at, self.style)
        return at

    def _text(self, data: bytes, begin: int) -> None:
        """Take text with newlines and tabs, but no other control character."""
        if b"\n" not in data:
            if data:
                self._write(data.decode("utf-8", "replace"), begin, begin + len(data))
            return
        pieces = data.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            end = begin + len(piece) + 1
            if piece:
                text = piece.decode("utf-8", "replace") if piece[-1] != 13 else piece[:-1].decode("utf-8", "replace")
                if self.row >= len(self.rows) and self.column == 0 and self._whole_line(text, end):
                    begin = end
                    continue
                if text:
                    self._write(text, begin, end - 1)
            self._newline(end)
            begin = end
        if last:
            self._write(last.decode("utf-8", "replace"), begin, begin + len(last))

    def _whole_line(self, text: str, end: int) -> bool:
        """Add a line below the last one at once, if its text is simple; return whether it was added."""
        begin, style = self.fresh
        if begin < 0 or self.row != len(self.rows) or not is_simple(text):
            return False
        row = Row(begin, style)
        if text:
            row.text, row.styles = text, self.style
        row.end, row.is_ended = end, True
        self.rows.append(row)
        self.has_moved = False
        self._go_below(end)
        return True

    def _write(self, text: str, begin: int, end: int) -> None:
        """Write text with tabs, but no other control character, at the cursor."""
        row = self._here(begin)
        if self.has_moved:
            self.has_moved = False
            if self.column == 0:
                row.cut = 0
            if self.column < len(row.text) and row.text.strip():
                row.updates += 1
        row.end = end
        if "\t" not in text:
            self.column = row.write(self.column, text, self.style)
            return
        for at, part in enumerate(text.split("\t")):
            if at:
                self.column = row.tab(self.column, self.style)
            self.column = row.write(self.column, part, self.style) if part else self.column

    def _here(self, begin: int) -> Row:
        """Return the row of the cursor; make it, and those above it, if it is not there yet."""
        while len(self.rows) <= self.row:
            fresh, style = self.fresh
            if fresh < 0:
                # No newline led here: the line cannot be had again by reading from its begin.
                self.bent = max(self.bent, begin)
            self.rows.append(Row(fresh, style) if fresh >= 0 else Row(begin, self.style))
            self.fresh = (-1, 0)
        return self.rows[self.row]

    def _newline(self, end: int) -> None:
        row = self._here(end - 1)
        row.is_ended = True
        if self.row == len(self.rows) - 1:
            row.end = end
            self.has_moved = False
            self._go_below(end)
            return
        self.row += 1
        self.column = 0
        self.has_moved = True
        self.bent = end

    def _go_below(self, end: int) -> None:
        """Go from the last row to a new one; the first one leaves the window if the window is full."""
        self.column = 0
        self.fresh = (end, self.style)
        if len(self.rows) < WINDOW:
            self.row += 1
            return
        gone = self.rows.pop(0)
        if self._keeps:
            self._final.append(_simple_line(gone, self.first))
        self.first += 1

    def _special(self, data: bytes, at: int, base: int) -> int:
        """Take the control character or sequence at a place; return where the next begins."""
        byte = data[at]
        if byte == 13:
            self._move(self.row, 0, base + at + 1)
        elif byte == 8:
            self._move(self.row, self.column - 1, base + at + 1)
        elif byte in (11, 12):
            self._newline(base + at + 1)
        elif byte in (0x1B, 0xC2):
            return self._sequence(data, at, base)
        return at + 1

    def _sequence(self, data: bytes, at: int, base: int) -> int:
        if OPEN.match(data, at):
            self.pending = data[at:]
            return len(data)
        if found := STRING_BEGIN.match(data, at):
            self.skipped = 1
            return found.end()
        if found := CONTROL.match(data, at):
            parameters, between, final = found.groups()
            if final == b"m" and not between:
                if parameters[:1] not in (b"<", b"=", b">", b"?"):
                    self.style = apply(self.style, parameters)
            elif final and not between:
                self._control(final, parameters, base + found.end())
            return found.end()
        if found := ESCAPE.match(data, at):
            self._escape(found.group(), base + found.end())
            return found.end()
        # No sequence that is known: only its first byte, or the two bytes of a control character, are left out.
        return at + (2 if data[at] == 0xC2 else 1)

    def _skip_string(self, data: bytes, at: int) -> int:
        """Skip a string up to its end; return where the next begins."""
        found = STRING_END.search(data, at)
        stop = found.start() if found else len(data)
        room = STRING_MAX - self.skipped + 1
        if stop - at > room:
            self.skipped = 0
            return at + room
        if found is None or (stop == len(data) - 1 and data[stop] in (0x1B, 0xC2)):
            # An escape at the end of the data is half of the string's end, perhaps.
            self.skipped += stop - at
            self.pending = data[stop:]
            return len(data)
        self.skipped = 0
        return found.end()

    def _control(self, final: bytes, parameters: bytes, end: int) -> None:
        """Do what the sequence CSI parameters final says."""
        if not parameters.replace(b";", b"").isdigit() and parameters.strip(b";"):
            return
        numbers = [min(int(part[:6]), COLUMNS_MAX) if part else 0 for part in parameters.split(b";")]
        count = numbers[0] or 1
        row, column = self.row, self.column
        match final:
            case b"A":
                self._move(row - count, column, end)
            case b"B" | b"e":
                self._move(row + count, column, end)
            case b"C" | b"a":
                self._move(row, column + count, end)
            case b"D":
                self._move(row, column - count, end)
            case b"E":
                self._move(row + count, 0, end)
            case b"F":
                self._move(row - count, 0, end)
            case b"G" | b"`":
                self._move(row, count - 1, end)
            case b"d":
                self._move(count - 1, column, end)
            case b"H" | b"f":
                self._move(count - 1, (numbers[1] or 1) - 1 if len(numbers) > 1 else 0, end)
            case b"K":
                self._erase_line(numbers[0], end)
            case b"J":
                self._erase_display(numbers[0], end)
            case b"X":
                self._erase(row, column, column + count, end)
            case b"s" | b"u":
                self._escape(b"\x1b7" if final == b"s" else b"\x1b8", end)

    def _escape(self, sequence: bytes, end: int) -> None:
        match sequence:
            case b"\x1b7":
                self.saved = self.row, self.column, self.style
                self.bent = end
            case b"\x1b8":
                self.style = self.saved[2]
                self._move(*self.saved[:2], end)
                self.bent = end
            case b"\x1bD" | b"\x1bE":
                column = self.column if sequence == b"\x1bD" else 0
                self._newline(end)
                self._move(self.row, column, end)
                self.bent = end  # the line that begins at `end` does not begin in its first column
            case b"\x1bM":
                self._move(self.row - 1, self.column, end)
            case b"\x1bc":
                self.style, self.saved = 0, (0, 0, 0)
                self._clear(end)

    def _move(self, row: int, column: int, end: int) -> None:
        row = max(0, min(row, WINDOW - 1))
        if row != self.row:
            self.bent = end
        self.row, self.column = row, max(0, min(column, COLUMNS_MAX))
        self.has_moved = True

    def _erase_line(self, which: int, end: int) -> None:
        first = self.column if which == 0 else 0
        last = self.column + 1 if which == 1 else COLUMNS_MAX
        if which in (0, 1, 2):
            self._erase(self.row, first, last, end)

    def _erase_display(self, which: int, end: int) -> None:
        if which in (2, 3):
            self._clear(end)
        elif which in (0, 1):
            self._erase_line(which, end)
            others = range(self.row + 1, len(self.rows)) if which == 0 else range(min(self.row, len(self.rows)))
            for row in others:
                self._erase(row, 0, COLUMNS_MAX, end)
                # Empty rows at the end of the log are none of its lines.
                self.rows[row].is_ended &= which == 1
            self.bent = end

    def _erase(self, row: int, first: int, last: int, end: int) -> None:
        if row < len(self.rows):
            before = self.rows[row].updates
            self.rows[row].erase(first, last)
            if self.rows[row].updates > before:
                self.has_moved = False
                self.rows[row].end = end

    def _clear(self, end: int) -> None:
        """Make all lines final, and go to the beginning of an empty window."""
        gone = self.lines()
        if self._keeps:
            self._final += gone
        self.first += len(gone)
        self.rows, self.row, self.column, self.has_moved = [], 0, 0, False
        self.fresh, self.bent = (end, self.style), end - 1


def fold(data: bytes) -> list[Line]:
    """Return the lines of terminal output that is all there."""
    screen = Screen()
    return screen.feed(data) + screen.finish()


def _simple_line(row: Row, number: int) -> Line:
    if row.updates or row.marks or not isinstance(row.styles, int) or "\x00" in row.text:
        return row.line(number)
    spans = (Span(row.styles, row.text),) if row.text else ()
    return Line(number, row.begin, row.end, spans, 0, row.cut)
