"""Widgets that draw lines: only the cells that differ from what the terminal shows are written again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grassq.cli.top.frame import Line, Piece

#: Returns the lines of a widget of this width and height.
Draw = Callable[[int, int], list[Line]]


class LinesView(ScrollView):
    """A rectangle of lines. `sync` draws them again and asks for a repaint of the cells that differ."""

    DEFAULT_CSS = """
    LinesView { height: 1; width: 100%; background: transparent; scrollbar-size: 0 0; overflow: hidden hidden; }
    """
    can_focus = False

    def __init__(self, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._draw_lines = draw
        self._strips: list[Strip] = []
        self._cells: list[list[Piece]] = []

    def on_resize(self) -> None:
        """Draw everything for the new size."""
        self.forget()
        self.sync()

    def forget(self) -> None:
        """Forget what the terminal shows; the next `sync` draws everything."""
        self._strips, self._cells = [], []

    def sync(self) -> None:
        """Draw the lines, and repaint what differs."""
        width, height = self.size
        if not width or not height:
            return
        drawn = self._draw_lines(width, height)[:height]
        drawn += [[] for _ in range(height - len(drawn))]
        if len(self._cells) != height:
            self._cells = [_joined(line) for line in drawn]
            self._strips = [_strip(line, width) for line in self._cells]
            self.refresh()
            return
        for y, line in enumerate(map(_joined, drawn)):
            if line != self._cells[y]:
                first, last = _difference(self._cells[y], line, width)
                self._cells[y], self._strips[y] = line, _strip(line, width)
                if first < last:
                    self.refresh(Region(first, y, last - first, 1))

    def render_line(self, y: int) -> Strip:
        """Return one line for the compositor."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)


def _joined(line: Line) -> list[Piece]:
    """Return a line without empty pieces."""
    return [piece for piece in line if piece[0]]


def _strip(line: Sequence[Piece], width: int) -> Strip:
    return Strip([Segment(text, style_of(style)) for text, style in line]).adjust_cell_length(width)


def _difference(before: Sequence[Piece], after: Sequence[Piece], width: int) -> tuple[int, int]:
    """Return the first cell that differs, and the cell behind the last one that does."""
    old, new = _each_cell(before, width), _each_cell(after, width)
    if old is None or new is None:
        return 0, width
    first = next((at for at in range(width) if old[at] != new[at]), width)
    last = next((at + 1 for at in range(width - 1, -1, -1) if old[at] != new[at]), 0)
    return first, last


def _each_cell(line: Sequence[Piece], width: int) -> list[tuple[str, str]] | None:
    """Return each cell with its style; None if a character may be wider or narrower than a cell."""
    cells: list[tuple[str, str]] = []
    for text, style in line:
        if not text.isascii() and not _is_narrow(text):
            return None
        cells += [(character, style) for character in text]
    return [*cells[:width], *[(" ", "")] * (width - len(cells))]


def _is_narrow(text: str) -> bool:
    return all(character < "\u0300" or "\u2500" <= character <= "\u25ff" or character in "…·●○▸" for character in text)


@lru_cache(maxsize=1024)
def style_of(words: str) -> Style:
    """Return a style in rich's words as an object."""
    return Style.parse(words) if words else Style.null()
