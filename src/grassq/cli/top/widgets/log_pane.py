"""LogPane: the end of a log as a terminal would show it, with its colours; it follows, or stays where the user is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from grassq.cli.render import clean
from grassq.cli.top.feeds.log_tail import KEPT_LINES, LogNews
from grassq.cli.top.frame import Line, Piece
from grassq.cli.top.widgets.lines import LinesView
from grassq.core.printable import size_text
from grassq.core.term import style as styles
from grassq.core.term.line import Line as LogLine
from grassq.core.term.line import Span

#: Cells that the pane moves to the left or right.
SIDE_CELLS = 20
#: Lines that are read before those that were read first; the pager shows all of them.
OLDER_LINES = 500
OLDER_MAX = 20_000
#: Characters of a line that are looked at; the pager shows all of them.
LINE_CHARS = 10_000


class LogPane(LinesView):
    """The lines of one log, the part that is shown, and the text that is searched for."""

    def __init__(self, *, id: str) -> None:
        super().__init__(self._lines, id=id)
        self.is_following = True
        self.is_ended = False
        self.why = ""
        self.searched = ""
        self._final: list[LogLine] = []
        self._open: Sequence[LogLine] = []
        #: Older lines that were added at the top.
        self._older = 0
        #: The line at the bottom, and the cell at the left.
        self._bottom = 0
        self._left = 0

    def clear(self) -> None:
        """Show another log."""
        self._final, self._open, self._bottom, self._left, self._older = [], [], 0, 0, 0
        self.is_following, self.is_ended, self.why = True, False, ""
        self.sync()

    def add(self, news: LogNews) -> None:
        """Show what was read."""
        if news.is_new:
            self._final, self._bottom, self._older = [], 0, 0
        if news.skipped > 0:
            self._final.append(_note(f"[skipped {size_text(news.skipped)}]"))
        self._final += news.lines
        self._open = news.open_lines
        if (excess := len(self._final) - KEPT_LINES - self._older) > 0:
            del self._final[:excess]
            self._bottom = max(0, self._bottom - excess)
        self.is_ended, self.why = news.is_end, news.why or self.why
        self.sync()

    @property
    def older_byte(self) -> int | None:
        """The byte before which lines are missing that the user wants to see; None if there are none."""
        height = max(1, self.size.height)
        if self.is_following or self._bottom > height or self._older >= OLDER_MAX or not self.count:
            return None
        first = self._line(0)
        return first.begin if first.number and first.begin > 0 else None

    def add_older(self, lines: Sequence[LogLine]) -> None:
        """Add lines at the top; what is shown stays."""
        first = self._line(0).begin if self.count else 0
        older = [line for line in lines if line.end <= first]
        self._final[:0] = older
        self._older += len(older)
        self._bottom += len(older)
        self.sync()

    @property
    def count(self) -> int:
        """The lines in memory."""
        return len(self._final) + len(self._open)

    def move(self, by: int) -> None:
        """Move by some lines; at the end the log is followed again."""
        height = max(1, self.size.height)
        bottom = self.count if self.is_following else self._bottom
        self._bottom = max(min(height, self.count), min(bottom + by, self.count))
        self.is_following = self._bottom >= self.count
        self.sync()

    def move_side(self, by: int) -> None:
        """Move to the left or right."""
        self._left = max(0, min(self._left + by * SIDE_CELLS, LINE_CHARS))
        self.sync()

    def follow(self) -> None:
        """Follow the log, or stay at this line."""
        self._bottom = self.count
        self.is_following = not self.is_following
        self.sync()

    def search(self, text: str, *, forward: bool, is_first: bool = False) -> bool:
        """Go to the next or previous line with a text; return whether there is one."""
        self.searched = text
        height = max(1, self.size.height)
        at = (self.count if self.is_following else self._bottom) - (0 if is_first else 1)
        places = range(at + 1, self.count) if forward else range(min(at, self.count) - 1, -1, -1)
        wanted = text.casefold()
        found = next((place for place in places if wanted in self._line(place).text.casefold()), None)
        if found is not None:
            self._bottom = max(found + 1, min(height, self.count))
            self.is_following = False
        self.sync()
        return found is not None

    def shown_text(self) -> str:
        """Return the lines on the screen as text."""
        return "\n".join(clean(self._line(at).text.expandtabs(8)) for at in self._shown(self.size.height))

    def _line(self, at: int) -> LogLine:
        return self._final[at] if at < len(self._final) else self._open[at - len(self._final)]

    def _shown(self, height: int) -> range:
        bottom = self.count if self.is_following else min(self._bottom, self.count)
        return range(max(0, bottom - height), bottom)

    def _lines(self, width: int, height: int) -> list[Line]:
        if not self.count:
            return [[(f" {clean(self.why)}" if self.why else " (nothing was written yet)", "dim")]]
        return [log_line(self._line(at).spans, width, self._left, self.searched) for at in self._shown(height)]


def told_line(told: Mapping[str, Any]) -> LogLine:
    """Return a line of GET /v1/jobs/ID/log/lines."""
    spans = tuple(Span(styles.parse_words(str(style)), str(text)) for style, text in told.get("spans") or [])
    return LogLine(int(told.get("n") or 0), int(told.get("begin") or 0), int(told.get("end") or 0), spans)


def log_line(spans: Sequence[Span], width: int, left: int = 0, searched: str = "") -> Line:
    """Return a line of a log as pieces, from a column on; what was searched for is marked."""
    pieces: list[Piece] = []
    column = 0
    for style, raw in spans:
        text = raw[:LINE_CHARS]
        if "\t" in text:
            text = (" " * (column % 8) + text).expandtabs(8)[column % 8 :]
        text = clean(text)
        begin, column = column, column + len(text)
        if column <= left:
            continue
        pieces.append((text[max(0, left - begin) :], rich_words(style)))
        if column > left + width:
            break
    return _marked(pieces, searched) if searched else pieces


def _marked(pieces: Sequence[Piece], searched: str) -> Line:
    """Return pieces with every place of a text in reverse, where the text is within one piece."""
    found: Line = []
    for text, style in pieces:
        at, lower, wanted = 0, text.casefold(), searched.casefold()
        while wanted and len(lower) == len(text) and (hit := lower.find(wanted, at)) >= 0:
            found += [(text[at:hit], style), (text[hit : hit + len(wanted)], f"{style} reverse".strip())]
            at = hit + len(wanted)
        found.append((text[at:], style))
    return found


@lru_cache(maxsize=1024)
def rich_words(style: int) -> str:
    """Return the style of a log as rich's words."""
    names = {styles.BOLD: "bold", styles.DIM: "dim", styles.ITALIC: "italic", styles.UNDERLINE: "underline"}
    names |= {styles.REVERSE: "reverse", styles.STRIKE: "strike"}
    words = [name for bit, name in names.items() if style & bit]
    for colour, before in ((styles.foreground(style), ""), (styles.background(style), "on ")):
        if colour & styles.TRUE_COLOUR:
            words.append(f"{before}#{colour & 0xFFFFFF:06x}")
        elif colour:
            words.append(f"{before}color({colour - 1})")
    return " ".join(words)


def _note(text: str) -> LogLine:
    return LogLine(0, 0, 0, (Span(styles.DIM, text),))
