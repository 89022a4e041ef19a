"""Questions about jobs that have ended: their runs, the ends that are to be told, and the folders that are left."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from grassq.store import rows, sql
from grassq.store.base import PastRun, RunPosition
from grassq.store.database import Database


class FinishedJobs(Database):
    """The part of a store that only reads, and only of jobs that have ended."""

    def runs_after(self, after: RunPosition, limit: int) -> list[PastRun]:
        """Return attempts of ended jobs, by the end of the job, from a position on; a job without one has one row."""
        finished, job, number = after
        return self._read(rows.past_run_from, sql.SELECT_RUNS_AFTER, finished, finished, job, job, number, limit)

    def runs_of(self, ids: Sequence[int]) -> list[PastRun]:
        """Return all attempts of these jobs as far as they have ended, by id."""
        with self._foreign_errors():
            return [rows.past_run_from(row) for row in self._of_ids(sql.SELECT_RUNS_OF, sorted(set(ids)))]

    def untold(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return ends of jobs that are to be told, by number from `after` on; a later end has a larger number."""
        return self._read(lambda row: (row[0], bytes(row[1])), sql.SELECT_UNTOLD, after, limit)

    def removals(self, after: int, limit: int) -> list[int]:
        """Return removed jobs whose folders may still be there, by id from `after` on, at most `limit`."""
        return self._read(itemgetter(0), sql.SELECT_REMOVALS, after, limit)

    def removals_without_rerun(self, limit: int) -> list[int]:
        """Return removed jobs whose folders may still be there, and whose checkpoints no stored job uses."""
        return self._read(itemgetter(0), sql.SELECT_FREE_REMOVALS, limit)
