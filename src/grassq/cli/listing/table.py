"""The table of selected jobs: fitted to a terminal, or plain and bounded in a pipe."""

from __future__ import annotations

import os

from grassq.cli import job_text, render
from grassq.cli.listing import columns
from grassq.cli.listing.columns import COLUMNS, DEFAULT, LEFT_OUT, TableContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Job = Mapping[str, Any]

#: On a narrower terminal, state and result share one column.
WIDE_COLUMNS = 120
#: The widths to which columns shrink before others are left out.
LEAST = {
    "command": 24,
    "name": 10,
    "state": 14,
    "cause": 24,
    "last_line": 20,
    "reason": 20,
    "error": 20,
    "cwd": 16,
    "holds": 12,
}
#: The most characters of a cell in a pipe, and of a cell with a long text; `-l` prints all of them.
CELL_MAX, TEXT_MAX = 80, 160


def with_slots(queues: Sequence[Mapping[str, Any]]) -> set[Any]:
    """Return the names of queues that have slots on every worker."""
    return {queue.get("name") for queue in queues} - {queue.get("name") for queue in queues if not queue.get("slots")}


class JobsTable:
    """The table of jobs, made of one or more groups of rows; the first rows decide the columns and their widths.

    Empty columns are left out if the answer is whole; a stream may still fill them.
    """

    def __init__(
        self,
        answer: Mapping[str, Any],
        *,
        is_whole: bool,
        names: Sequence[str] | None = None,
        is_long: bool = False,
        width: int | None = None,
    ) -> None:
        """Prepare a table; `names` are the columns of -o; a `width` fits the table to it, as on a terminal."""
        self.context = TableContext(job_text.now(), with_slots(answer.get("queues", [])))
        self._is_whole = is_whole
        self._names = names
        self._is_long = is_long
        self._width = None if is_long else width
        self._is_narrow = self._width is not None and self._width < WIDE_COLUMNS and names is None
        self._several_workers = len(answer.get("workers", [])) > 1
        self._coloured = os.isatty(1) and render.has_colours()
        self._shown: list[str] | None = None
        self._sizes: list[int] = []

    def lines(self, jobs: Sequence[Job], firsts: Sequence[str] | None = None) -> list[str]:
        """Return jobs as lines, the first time with the headers; `firsts` are other cells for the first column."""
        cells = self._cells(jobs)
        if firsts is not None:
            cells[next(iter(cells))] = list(firsts)
        if self._width is not None:
            return self._fitted(jobs, cells)
        return self._plain(cells)

    def _cells(self, jobs: Sequence[Job]) -> dict[str, list[str]]:
        """Return the cells of each column that is shown."""
        names = list(self._names or DEFAULT)
        cells = {name: [COLUMNS[name](job, self.context) for job in jobs] for name in names}
        if self._names is not None:
            return cells
        if self._width is None and not self._is_long:
            # Scripts read this table: it has the columns that it always had.
            del cells["cause"], cells["last_line"]
        else:
            self._keep_telling_lines(jobs, cells)
        if self._is_narrow:
            _merge(cells, jobs)
        if self._shown is None:
            needless = self._needless(cells)
            self._shown = [name for name in cells if name not in needless]
        return {name: cells[name] for name in self._shown}

    def _keep_telling_lines(self, jobs: Sequence[Job], cells: dict[str, list[str]]) -> None:
        """Empty the last lines of jobs that ended well: they say nothing about a problem."""
        for index, job in enumerate(jobs):
            if job.get("state") in ("succeeded", "cancelled"):
                cells["last_line"][index] = ""

    def _needless(self, cells: Mapping[str, Sequence[str]]) -> set[str]:
        """Return the columns that can be left out, because they say nothing."""
        if not self._is_whole:
            return set() if self._several_workers else {"worker"}
        found = {name for name in ("name", "cause", "last_line") if name in cells and not any(cells[name])}
        if self._is_narrow:
            found |= {name for name in ("pid", "holds", "took") if name in cells and not any(cells[name])}
            if set(cells["queue"]) <= {"", "default"}:
                found.add("queue")
        if len(set(filter(None, cells["worker"]))) < 2:
            found.add("worker")
        return found

    def _fitted(self, jobs: Sequence[Job], cells: Mapping[str, Sequence[str]]) -> list[str]:
        """Return lines that fit the width."""
        # Not needed in a pipe.
        from grassq.cli.listing.differences import shortened
        from grassq.cli.listing.grid import Grid, GridColumn

        ranks = {name: rank for rank, name in enumerate(LEFT_OUT, start=1)} if self._names is None else {}
        made = [
            GridColumn(
                name.upper(),
                values,
                rank=ranks.get(name, 0),
                least=LEAST.get(name, 0),
                shortened=(lambda size: shortened(jobs, size)) if name == "command" else None,
            )
            for name, values in cells.items()
        ]
        is_first = not self._sizes
        grid = Grid(made, self._width or 1, sizes=self._sizes or None)
        # Later rows of a stream have the columns and the widths of the first.
        self._sizes = grid.sizes
        if self._names is None:
            self._shown = [column.header.lower() for column in grid.columns]
        head = [render.BOLD + grid.head() + render.PLAIN if self._coloured else grid.head()] if is_first else []
        return head + grid.rows(self._coloured)

    def _plain(self, cells: Mapping[str, Sequence[str]]) -> list[str]:
        """Return lines for a pipe: aligned by the first rows, with long cells cut."""
        rows = [[_bounded(name, cell, self._is_long) for cell in values] for name, values in cells.items()]
        headers = [name.upper() for name in cells]
        lines = []
        if not self._sizes:
            self._sizes = [max(map(len, (header, *column))) for header, column in zip(headers, rows, strict=True)]
            lines.append(_aligned(headers, self._sizes))
        return lines + [_aligned(row, self._sizes) for row in zip(*rows, strict=True)]


def _bounded(name: str, cell: str, is_long: bool) -> str:
    if is_long:
        return render.clean(cell)
    most = TEXT_MAX if name in LEAST else CELL_MAX
    cell = render.clean(cell[: most + 1])
    return cell if len(cell) <= most else cell[: most - 3] + "..."


def _aligned(cells: Sequence[str], sizes: Sequence[int]) -> str:
    gap = " " * render.GAP
    return gap.join(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True)).rstrip()


def _merge(cells: dict[str, list[str]], jobs: Sequence[Job]) -> None:
    """Put state and result into one column, and leave out times of day, and pids of jobs that do not run."""
    results = cells.pop("result")
    del cells["created"], cells["started"]
    cells["state"] = [
        f"{state} {result}" if result not in ("", "ok", state) else state
        for state, result in zip(cells["state"], results, strict=True)
    ]
    cells["pid"] = [pid if job.get("state") == "running" else "" for pid, job in zip(cells["pid"], jobs, strict=True)]


def sort(jobs: Sequence[Job], column: str, context: TableContext) -> list[Job]:
    """Return jobs in the order of a column; `-` in front of its name reverses the order, without those that lack it."""
    name = columns.known(column.removeprefix("-"), "--sort")
    key = columns.sort_key(name, context)
    having = sorted((job for job in jobs if not key(job)[0]), key=key, reverse=column.startswith("-"))
    return having + [job for job in jobs if key(job)[0]]
