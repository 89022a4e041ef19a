"""How jobs are read from the tables: by selector, by page, in an order, by id."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from grassq.core.model import ID_MAX, Job, State
from grassq.core.syntax import selectors
from grassq.core.syntax.selectors import Selector
from grassq.store import rows, sql
from grassq.store.base import TIME_MAX, JobScan, Row
from grassq.store.reading.facts import FactReader

#: The most names that `names` reads: in some orders of PostgreSQL, other names stand among those with a prefix.
NAMES_READ_MAX = 500
#: How many ids one page of succeeded jobs looks at: no index lists them by id, and most rows may be other jobs.
IDS_LOOKED_AT = 4000


class JobReader(FactReader):
    """Reads jobs; each method says what a question costs."""

    def jobs(self, selector: Selector, limit: int) -> list[Job]:
        """Return the jobs a selector names, by id, at most `limit`."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._selected(selector, 0, selectors.MAX_NUMBER, limit)]

    def page(self, selector: Selector, after: int, upto: int, limit: int) -> tuple[list[Job], int]:
        """Return the next jobs that a selector names, by id, at most `limit`, and the id up to which it has looked.

        Only jobs with an id above `after` and at most `upto` count. Work and memory of a page are bounded, so a page
        may be empty before the last one. The last page has looked up to `upto`.
        """
        low, high = after + 1, upto
        if isinstance(selector, selectors.ByIds):
            ranges, high = sql.next_ranges(selector.ranges, low, upto, limit)
            selector = selectors.ByIds(ranges)
        elif isinstance(selector, selectors.ByState) and State.SUCCEEDED.value in selector.names:
            high = min(upto, after + IDS_LOOKED_AT)
        with self._foreign_errors():
            found = [rows.job_from(row) for row in self._selected(selector, low, high, limit)]
        return found, found[-1].id if len(found) >= limit else high

    def _selected(self, selector: Selector, low: int, high: int, limit: int) -> list[Row]:
        """Return the rows a selector names, from the id `low` to `high`."""
        match selector:
            case selectors.ByIds(ranges):
                single = [first for first, last in ranges if first == last]
                found = {row[0]: row for row in self._of_ids(sql.SELECT_SOME, sorted(set(single)), limit)}
                for first, last in ranges:
                    if first != last:
                        found |= {row[0]: row for row in self._all(sql.SELECT_RANGE, first, last, limit)}
                return [found[id_] for id_ in sorted(found)][:limit]
            case selectors.LastJob(back):
                return [row for row in self._all(sql.SELECT_LAST, back) if low <= row[0] <= high]
            case selectors.AllJobs():
                return self._all(sql.SELECT_RANGE, low, high, limit)
            case selectors.ByState(names):
                of_states = [row for name in names for row in self._in_state(name, low, high, limit)]
                return sorted(of_states, key=lambda row: row[0])[:limit] if len(names) > 1 else of_states
            case selectors.ByQueue(name, first):
                return self._all(sql.SELECT_QUEUE, name, max(first, low), high, limit)
            case selectors.ByToken(id_):
                return self._all(sql.SELECT_TOKEN, id_, low, high, limit)
            case selectors.ByProject(project, None):
                return self._all(sql.SELECT_PROJECT, project, low, high, limit)
            case selectors.ByProject(project, name, id_):
                low, high = (low, high) if id_ is None else (max(low, id_), min(high, id_))
                return self._all(sql.SELECT_PROJECT_NAME, project, name, low, high, limit)
            case selectors.ByName(name) | selectors.ByWord(name):
                return self._all(sql.SELECT_NAME, name, low, high, limit)

    def _in_state(self, name: str, low: int, high: int, limit: int) -> list[Row]:
        if name == State.SUCCEEDED.value:
            return self._all(sql.SELECT_SUCCEEDED, low, high, limit)
        return self._all(sql.SELECT_STATE, name, low, high, limit)

    def scan(self, wanted: JobScan, limit: int) -> list[Job]:
        """Return the next jobs of a scan, at most `limit`; reads no more rows than it returns."""
        given = {"state": wanted.state and wanted.state.value, "queue": wanted.queue, "name": wanted.name}
        given["project"] = wanted.project
        [(condition, value)] = [item for item in given.items() if item[1] is not None] or [("", None)]
        at, id_ = wanted.after or ((TIME_MAX, ID_MAX + 1) if wanted.descending else (-TIME_MAX, 0))
        position = (id_,) if wanted.sort == "id" else (at, at, id_)
        statement = sql.scan(wanted.sort, wanted.descending, condition)
        values = (*(() if value is None else (value,)), *position, limit)
        return self._read(rows.job_from, statement, *values)

    def names(self, prefix: str, limit: int, statement: str = sql.SELECT_NAMES) -> list[str]:
        """Return the names of jobs that begin with a prefix, each once, at most `limit`; reads NAMES_READ_MAX names."""
        found = self._read(itemgetter(0), statement, prefix, NAMES_READ_MAX)
        return [name for name in found if name.startswith(prefix)][:limit]

    def projects(self, prefix: str, limit: int) -> list[str]:
        """Return the projects of jobs that begin with a prefix, each once; reads as many as `names`."""
        return self.names(prefix, limit, sql.SELECT_PROJECTS)

    def some(self, ids: Sequence[int]) -> list[Job]:
        """Return the stored jobs of these ids, by id; an id without a job is left out."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._of_ids(sql.SELECT_SOME, sorted(set(ids)))]

    def recent(self, since: float, limit: int) -> list[Job]:
        """Return the last jobs finished after `since`, newest first."""
        return self._read(rows.job_from, sql.SELECT_RECENT, since, limit)
