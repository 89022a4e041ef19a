"""Questions about jobs that have ended: their runs, the ends that are to be told, and the folders that are left."""

from __future__ import annotations

from collections.abc import Sequence

from grassq.store import rows, sql
from grassq.store.base import PastRun, RunPosition
from grassq.store.database import Database


class FinishedJobs(Database):
    """The part of a store that only reads, and only of jobs that have ended."""

    def runs_after(self, after: RunPosition, limit: int) -> list[PastRun]:
        """Return attempts of ended jobs, by the end of the job, from a position on; a job without one has one row."""
        finished, job, number = after
        return self._read(rows.past_run_from, sql.SELECT_RUNS_AFTER, finished, finished, job, job, number, limit)

    def runs_before(self, before: RunPosition, limit: int) -> list[PastRun]:
        """Return the same runs in the other order, from a position on."""
        finished, job, number = before
        return self._read(rows.past_run_from, sql.SELECT_RUNS_BEFORE, finished, finished, job, job, number, limit)

    def runs_of(self, ids: Sequence[int]) -> list[PastRun]:
        """Return all attempts of these jobs as far as they have ended, by id."""
        with self._foreign_errors():
            return [rows.past_run_from(row) for row in self._of_ids(sql.SELECT_RUNS_OF, sorted(set(ids)))]

    def untold(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return ends of jobs that are to be told, by number from `after` on; a later end has a larger number."""
        return self._read(lambda row: (row[0], bytes(row[1])), sql.SELECT_UNTOLD, after, limit)

    def removals(self, after: int, limit: int) -> dict[int, bool]:
        """Return removed jobs whose folders may still be there, by id from `after` on, at most `limit`.

        Each with whether its logs are kept.
        """
        return dict(self._read(lambda row: (row[0], bool(row[1])), sql.SELECT_REMOVALS, after, limit))

    def removals_without_rerun(self, limit: int) -> dict[int, bool]:
        """Return the same, of removed jobs whose checkpoints no stored job uses."""
        return dict(self._read(lambda row: (row[0], bool(row[1])), sql.SELECT_FREE_REMOVALS, limit))

    def with_kept_logs(self, ids: Sequence[int]) -> set[int]:
        """Return which of these removed jobs left their logs."""
        with self._foreign_errors():
            return {row[0] for row in self._of_ids(sql.SELECT_KEPT_IDS, ids)}
