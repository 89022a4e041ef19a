"""Fits rows to a width: leaves out the least useful columns, then shrinks the flexible ones; no line is wrapped."""

from __future__ import annotations

from grassq.cli import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Of a longer cell only this much is read: no terminal is as wide.
CHARS_READ = 4000


class GridColumn:
    """One column: its header, its cells, and what may be done to it where there is no room."""

    def __init__(
        self,
        header: str,
        cells: Sequence[str],
        *,
        rank: int = 0,
        least: int = 0,
        shortened: Callable[[int], list[str]] | None = None,
        style: str = "",
        label: str = "",
    ) -> None:
        """Take the cells, and what may be done to them.

        A column with a `rank` may be left out, the smallest rank first; a column with `least` may shrink to that width.
        `shortened` returns other cells for a width, for a column whose cells can say the same with less. The `label` is
        for a column without a header.
        """
        self.header = header
        self.label = label or header
        self.cells = [render.clean(cell[:CHARS_READ]) for cell in cells]
        self.rank = rank
        self.least = least
        self.shortened = shortened
        self.style = style
        #: The columns of a terminal that the widest cell takes.
        self.width = _width(header, self.cells)

    def shorten(self, size: int) -> int:
        """Put shorter cells in, if there are any for this width; return the width that they need, `size` at most."""
        if self.shortened is not None and self.width > size:
            self.cells = [render.clean(cell[:CHARS_READ]) for cell in self.shortened(size)]
            self.width = _width(self.header, self.cells)
        return min(size, self.width)


class Grid:
    """Columns that fit a width; `rows` draws them."""

    def __init__(
        self, columns: Sequence[GridColumn], width: int, *, indent: int = 0, sizes: Sequence[int] | None = None
    ) -> None:
        """Choose columns and sizes; or take `sizes` of an earlier grid, for more rows of the same table."""
        self._indent = indent
        self.columns = list(columns)
        self.sizes = list(sizes or ())
        if sizes is None:
            self._fit(max(1, width - indent))
        else:
            for column, size in zip(self.columns, sizes, strict=True):
                column.shorten(size)

    def _fit(self, width: int) -> None:
        while self._least() > width and any(column.rank for column in self.columns):
            least = min((column for column in self.columns if column.rank), key=lambda column: column.rank)
            self.columns.remove(least)
        sizes = [min(column.width, width) for column in self.columns]
        for may_shrink in (True, False):
            pairs = zip(self.columns, sizes, strict=True)
            floor = [min(column.least or size, size) if may_shrink else 1 for column, size in pairs]
            while sum(sizes) + render.GAP * (len(sizes) - 1) > width:
                at = max(range(len(sizes)), key=lambda index: sizes[index] - floor[index])
                if sizes[at] <= floor[at]:
                    break
                sizes[at] -= 1
        self.sizes = [column.shorten(size) for column, size in zip(self.columns, sizes, strict=True)]

    def _least(self) -> int:
        """Return the width below which another column has to be left out."""
        sizes = [min(column.least or column.width, column.width) for column in self.columns]
        return sum(sizes) + render.GAP * (len(sizes) - 1)

    def has(self, label: str) -> bool:
        """Tell whether a column is still there."""
        return any(column.label == label for column in self.columns)

    def head(self) -> str:
        """Return the line of headers."""
        return self._row([column.header for column in self.columns], coloured=False)

    def rows(self, coloured: bool) -> list[str]:
        """Return the rows, in colour or plain."""
        return [self._row(row, coloured) for row in zip(*[column.cells for column in self.columns], strict=True)]

    def _row(self, cells: Sequence[str], coloured: bool) -> str:
        drawn = []
        for cell, size, column in zip(cells, self.sizes, self.columns, strict=True):
            shown, used = render.cut(cell, size)
            style = (column.style or render.style_of(column.label, cell)) if coloured else ""
            drawn.append((f"{style}{shown}{render.PLAIN}" if style and shown else shown) + " " * (size - used))
        return " " * self._indent + (" " * render.GAP).join(drawn).rstrip()


def _width(header: str, cells: Sequence[str]) -> int:
    return max(map(render.columns, (header, *cells)))
