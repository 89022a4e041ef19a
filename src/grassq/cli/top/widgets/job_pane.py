"""JobPane: the rows of a window of jobs. The other jobs, a hundred thousand or more, stay in the daemon."""

from __future__ import annotations

from collections.abc import Callable

from grassq.cli.top.frame import Line
from grassq.cli.top.job_rows import Look, Widths, table_lines
from grassq.cli.top.job_window import JobWindow
from grassq.cli.top.widgets.lines import LinesView


class JobPane(LinesView):
    """The table of jobs: a line of titles, then the rows around the cursor."""

    def __init__(
        self,
        window: JobWindow,
        look: Callable[[], Look],
        nothing: Callable[[], str],
        columns: tuple[str, ...],
        *,
        id: str,
    ) -> None:
        """Draw a window of jobs; `nothing` says why there is no row."""
        super().__init__(self._table, id=id)
        self.window = window
        self.widths = Widths(columns)
        self._look = look
        self._nothing = nothing

    @property
    def rows_shown(self) -> int:
        """The rows that fit the screen."""
        return max(1, self.size.height - 1)

    def _table(self, width: int, height: int) -> list[Line]:
        return table_lines(self.window, self.widths, self._look(), width, height, self._nothing())
