"""Few columns of many jobs, for tables that are filtered and sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Literal

from grassq.core.model import ID_MAX
from grassq.core.query.query import PLAIN_COLUMNS, Columns, JobFacts
from grassq.store import rows, sql
from grassq.store.base import Row
from grassq.store.reading.finished import FinishedJobs

#: An index that lists jobs, and what the jobs have in common; ("", "") for all jobs.
FactSource = tuple[Literal["", "state", "queue", "name", "project", "sweep"], str | int]


class FactReader(FinishedJobs):
    """The part of a store that reads facts of jobs."""

    def facts(self, source: FactSource, below: int, limit: int, columns: Columns) -> list[JobFacts]:
        """Return facts of the next jobs with ids below `below`, the largest first; no index has succeeded jobs."""
        condition, value = source
        values = (*([value] if condition else []), min(below, ID_MAX + 1), limit)
        with self._foreign_errors():
            return _made(self._all(_statement(condition, columns), *values), columns)

    def facts_of(self, ids: Sequence[int], columns: Columns) -> list[JobFacts]:
        """Return facts of the jobs of some ids; an id without a job is left out."""
        with self._foreign_errors():
            found = {row[0]: row for row in self._of_ids(_statement("ids", columns), ids)}
            return _made(found.values(), columns)


def _statement(condition: str, columns: Columns) -> str:
    first = columns.first if _is_plain(columns) else PLAIN_COLUMNS
    return sql.facts(condition, first, columns.worker, columns.request, columns.spec)


def _made(found: Iterable[Row], columns: Columns) -> list[JobFacts]:
    # The plain columns are the first fields: making these without a look at each takes a third of the time.
    return [*starmap(JobFacts, found)] if _is_plain(columns) else [*map(rows.facts_from, found)]


def _is_plain(columns: Columns) -> bool:
    return not (columns.worker or columns.request or columns.spec)
