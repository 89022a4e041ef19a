"""The rows of the table that are in memory: a window of at most WINDOW_ROWS jobs, the cursor, and the marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from grassq.cli.top.job_pages import Job, JobPlace, PlacedJob, PlacedJobs

#: Rows that are kept, however many jobs there are.
WINDOW_ROWS = 200
#: More rows are asked for when the cursor is this close to an edge of the window.
EDGE_ROWS = 40
#: Marked jobs; with more, the rest stays unmarked and the screen says so.
MARKS_MAX = 100_000


class Need(NamedTuple):
    """Rows that are missing: after or before a place."""

    start: JobPlace | None
    down: bool
    resume: tuple[int, str] | None = None


class JobWindow:
    """The window, the cursor in it, and marks by id. Marks and cursor stay with their jobs when rows change."""

    def __init__(self) -> None:
        self.rows: list[PlacedJob] = []
        #: No job comes before the first row, or after the last one.
        self.is_start = self.is_end = False
        self.cursor = 0
        #: The index of the first row on the screen.
        self.top = 0
        self.marks: set[int] = set()
        #: The job at which a range begins; None if none is being marked.
        self.range_from: int | None = None
        #: Where a search goes on that found too few jobs so far, down and up.
        self._resume: dict[bool, tuple[int, str] | None] = {}

    @property
    def job(self) -> Job | None:
        """The job under the cursor."""
        return self.rows[self.cursor].job if self.rows else None

    @property
    def is_held(self) -> bool:
        """Whether the order of the rows must not change: jobs are marked."""
        return bool(self.marks) or self.range_from is not None

    def ids(self) -> list[int]:
        """Return the ids of all rows in memory."""
        return [row.place.id for row in self.rows]

    def clear(self) -> None:
        """Forget rows and marks: another list is shown."""
        marks = self.marks
        self.__init__()  # type: ignore[misc]
        self.marks = marks

    def replace(self, found: PlacedJobs, *, from_start: bool) -> None:
        """Show these rows instead; the cursor stays on its job, at its height on the screen."""
        job, above = self.job, self.cursor - self.top
        self.rows = found.rows[:WINDOW_ROWS]
        self.is_start = from_start
        self.is_end = found.is_end and len(found.rows) <= WINDOW_ROWS
        self._resume = {True: found.resume}
        if job is not None:
            at = next((at for at, row in enumerate(self.rows) if row.place.id == job["id"]), None)
            if at is not None:
                self.cursor = at
                self.top = max(0, at - above)
        self._clamp()

    def extend(self, found: PlacedJobs, *, down: bool) -> None:
        """Add rows at an edge, and drop as many at the other edge as are too many."""
        known = {row.place.id for row in self.rows}
        new = [row for row in found.rows if row.place.id not in known]
        self._resume[down] = found.resume
        if down:
            self.rows += new
            self.is_end = found.is_end
            excess = max(0, min(len(self.rows) - WINDOW_ROWS, self.top))
            del self.rows[:excess]
            self._shift(-excess)
            self.is_start = self.is_start and not excess
            self._resume[False] = None if excess else self._resume.get(False)
        else:
            self.rows[:0] = new
            self._shift(len(new))
            self.is_start = found.is_end
            if len(self.rows) > WINDOW_ROWS:
                del self.rows[max(WINDOW_ROWS, self.cursor + 1) :]
                self.is_end, self._resume[True] = False, None
        self._clamp()

    def update(self, jobs: Iterable[Job]) -> None:
        """Replace the documents of jobs in place; the order stays."""
        by_id = {job["id"]: job for job in jobs}
        self.rows = [PlacedJob(row.place, by_id.get(row.place.id, row.job)) for row in self.rows]

    def move(self, by: int, height: int) -> None:
        """Move the cursor by some rows, and the screen with it."""
        self.cursor += by
        self._clamp()
        self._mark_range()
        self.show_cursor(height)

    def jump(self, *, to_end: bool, height: int) -> bool:
        """Move the cursor to the first or last row; return False if the window does not reach that far."""
        if not (self.is_end if to_end else self.is_start):
            return False
        self.move(len(self.rows) if to_end else -len(self.rows), height)
        return True

    def show_cursor(self, height: int) -> None:
        """Move the screen so that the cursor is on it."""
        height = max(1, height)
        self.top = min(max(self.top, self.cursor - height + 1), self.cursor)
        self.top = max(0, min(self.top, len(self.rows) - height))

    def need(self, height: int) -> Need | None:
        """Return which rows are missing around the screen; None if none are."""
        if not self.is_end and self.top + height + EDGE_ROWS >= len(self.rows):
            resume = self._resume.get(True)
            return Need(self.rows[-1].place if self.rows else None, True, resume) if self.rows or resume else None
        if self.rows and not self.is_start and self.top < EDGE_ROWS:
            return Need(self.rows[0].place, False, self._resume.get(False))
        return None

    def toggle(self) -> None:
        """Mark the job under the cursor, or unmark it."""
        if (job := self.job) is not None:
            self.marks ^= {job["id"]}

    def toggle_range(self) -> None:
        """Begin to mark a range at the cursor, or end it; the marks stay."""
        job = self.job
        self.range_from = None if self.range_from is not None or job is None else job["id"]
        self._mark_range()

    def mark(self, ids: Iterable[int]) -> bool:
        """Mark jobs; return False if some were left out because they are too many."""
        for id_ in ids:
            if len(self.marks) >= MARKS_MAX:
                return False
            self.marks.add(id_)
        return True

    def chosen(self) -> Sequence[int]:
        """Return the jobs that an action is about: the marked ones, else the one under the cursor."""
        if self.marks:
            return sorted(self.marks)
        return [self.job["id"]] if self.job is not None else []

    def _mark_range(self) -> None:
        if self.range_from is None:
            return
        ids = self.ids()
        if self.range_from in ids:
            low, high = sorted((ids.index(self.range_from), self.cursor))
            self.mark(ids[low : high + 1])

    def _shift(self, by: int) -> None:
        self.cursor += by
        self.top = max(0, self.top + by)

    def _clamp(self) -> None:
        self.cursor = min(max(self.cursor, 0), max(0, len(self.rows) - 1))
        self.top = min(self.top, self.cursor)
