"""How jobs are read from the tables: by selector, by page, in an order, by id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeVar

from grassq.core.model import ID_MAX, Job, State
from grassq.core.query.selecting import selects, traits_of
from grassq.core.syntax import selectors
from grassq.core.syntax.selectors import AllOf, AnyOf, Part, Selector
from grassq.store import rows, sql
from grassq.store.base import TIME_MAX, BriefJob, JobScan, Row
from grassq.store.reading.facts import FactReader

#: The most names that `names` reads: in some orders of PostgreSQL, other names stand among those with a prefix.
NAMES_READ_MAX = 500
#: How many ids one page of succeeded jobs looks at, and one page by time: no index lists them by id, and most rows may
#: be other jobs.
IDS_LOOKED_AT = 4000
#: How many jobs of a part are counted to find the part that selects the fewest.
COUNTED_MAX = 1000
#: Turns a question for whole jobs into one for a part of them.
Form = Callable[[str], str]
AnyJob = TypeVar("AnyJob", Job, BriefJob)


class JobReader(FactReader):
    """Reads jobs; each method says what a question costs."""

    def jobs(self, selector: Selector, limit: int) -> list[Job]:
        """Return the jobs a selector names, by id, at most `limit`."""
        if isinstance(selector, AllOf | AnyOf):
            return self._jobs_of_parts(selector, limit)
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._selected(selector, 0, selectors.MAX_NUMBER, limit)]

    def _jobs_of_parts(self, selector: AllOf | AnyOf, limit: int) -> list[Job]:
        found: list[Job] = []
        after, upto = 0, max((id_ for id_ in self._read(itemgetter(0), sql.SELECT_HIGHEST) if id_), default=0)
        while after < upto and len(found) < limit:
            some, after = self.page(selector, after, upto, limit - len(found))
            found += some
        return found

    def page(self, selector: Selector, after: int, upto: int, limit: int) -> tuple[list[Job], int]:
        """Return the next jobs that a selector names, by id, at most `limit`, and the id up to which it has looked.

        Only jobs with an id above `after` and at most `upto` count. Work and memory of a page are bounded, so a page
        may be empty before the last one. The last page has looked up to `upto`.
        """
        match selector:
            case AllOf():
                first, *others = selector.parts
                # The broker has put the part that selects the fewest jobs first: `fewest_first`.
                some, after = self.page(first, after, upto, limit)
                rest = AllOf(tuple(others))
                return [job for job in some if selects(rest, traits_of(job))], after
            case AnyOf(parts):
                return _merged(self.page, parts, after, upto, limit)
            case _:
                found, after = self._page(selector, after, upto, limit)
                with self._foreign_errors():
                    return [rows.job_from(row) for row in found], after

    def brief_page(self, selector: Selector, after: int, upto: int, limit: int) -> tuple[list[BriefJob], int]:
        """Return what `page` returns, in brief; of parts that must all hold the jobs are read whole."""
        match selector:
            case AllOf():
                jobs, after = self.page(selector, after, upto, limit)
                return [BriefJob(job.id, job.state, job.created, job.spec.queue) for job in jobs], after
            case AnyOf(parts):
                return _merged(self.brief_page, parts, after, upto, limit)
            case _:
                found, after = self._page(selector, after, upto, limit, sql.brief)
                return [BriefJob(*row) for row in found], after

    def states(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the stored states of jobs; an id without a job is left out."""
        with self._foreign_errors():
            return {row[0]: row[1] for row in self._of_ids(sql.brief(sql.SELECT_SOME), ids)}

    def _page(self, selector: Part, after: int, upto: int, limit: int, form: Form = str) -> tuple[list[Row], int]:
        low, high = after + 1, upto
        if isinstance(selector, selectors.ByIds):
            ranges, high = sql.next_ranges(selector.ranges, low, upto, limit)
            selector = selectors.ByIds(ranges)
        elif _is_unlisted(selector):
            high = min(upto, after + IDS_LOOKED_AT)
        with self._foreign_errors():
            found = self._selected(selector, low, high, limit, form)
        return found, found[-1][0] if len(found) >= limit else high

    def fewest_first(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return parts by how many jobs each selects, counted up to COUNTED_MAX; what no index lists comes last."""
        with self._foreign_errors():
            return tuple(sorted(parts, key=lambda part: (_is_unlisted(part), self._count(part))))

    def _count(self, part: Part) -> int:
        match part:
            case selectors.ByIds(ranges):
                return sum(last - first + 1 for first, last in ranges)
            case selectors.ByState(names):
                return sum(self._all(sql.COUNT_STATE, name, COUNTED_MAX)[0][0] for name in names)
            case selectors.ByQueue(name):
                counted = self._all(sql.COUNT_QUEUE, name, COUNTED_MAX)
            case selectors.ByName(name):
                counted = self._all(sql.COUNT_NAME, name, COUNTED_MAX)
            case selectors.ByProject(project, None):
                counted = self._all(sql.COUNT_PROJECT, project, COUNTED_MAX)
            case selectors.ByProject(project, name):
                counted = self._all(sql.COUNT_PROJECT_NAME, project, name, COUNTED_MAX)
            case selectors.ByTag(key, None):
                counted = self._all(sql.COUNT_TAG_KEY, key, COUNTED_MAX)
            case selectors.ByTag(key, value):
                counted = self._all(sql.COUNT_TAG, key, value, COUNTED_MAX)
            case selectors.BySweep(id_):
                counted = self._all(sql.COUNT_SWEEP, id_, COUNTED_MAX)
            case selectors.ByToken(id_):
                counted = self._all(sql.COUNT_TOKEN, id_, COUNTED_MAX)
            case _:
                return ID_MAX
        return int(counted[0][0])

    def _selected(self, selector: Part, low: int, high: int, limit: int, form: Form = str) -> list[Row]:
        """Return the rows a selector names, from the id `low` to `high`; `form` says what is asked of each job."""
        match selector:
            case selectors.ByIds(ranges):
                single = [first for first, last in ranges if first == last]
                found = {row[0]: row for row in self._of_ids(form(sql.SELECT_SOME), sorted(set(single)), limit)}
                for first, last in ranges:
                    if first != last:
                        found |= {row[0]: row for row in self._all(form(sql.SELECT_RANGE), first, last, limit)}
                return [found[id_] for id_ in sorted(found)][:limit]
            case selectors.LastJob(back):
                return [row for row in self._all(form(sql.SELECT_LAST), back) if low <= row[0] <= high]
            case selectors.AllJobs():
                return self._all(form(sql.SELECT_RANGE), low, high, limit)
            case selectors.ByState(names):
                of_states = [row for name in names for row in self._in_state(name, low, high, limit, form)]
                return sorted(of_states, key=lambda row: row[0])[:limit] if len(names) > 1 else of_states
            case selectors.ByQueue(name, first):
                return self._all(form(sql.SELECT_QUEUE), name, max(first, low), high, limit)
            case selectors.ByToken(id_):
                return self._all(form(sql.SELECT_TOKEN), id_, low, high, limit)
            case selectors.BySweep(id_):
                return self._all(form(sql.SELECT_SWEEP), id_, low, high, limit)
            case selectors.ByProject(project, None):
                return self._all(form(sql.SELECT_PROJECT), project, low, high, limit)
            case selectors.ByProject(project, name, id_):
                low, high = (low, high) if id_ is None else (max(low, id_), min(high, id_))
                return self._all(form(sql.SELECT_PROJECT_NAME), project, name, low, high, limit)
            case selectors.ByTag(key, None):
                return self._all(form(sql.SELECT_TAG_KEY), key, low, high, limit)
            case selectors.ByTag(key, value):
                return self._all(form(sql.SELECT_TAG), key, value, low, high, limit)
            case selectors.Since(_, at):
                return self._all(form(sql.SELECT_SINCE), low, high, TIME_MAX if at is None else at, limit)
            case selectors.ByName(name) | selectors.ByWord(name):
                return self._all(form(sql.SELECT_NAME), name, low, high, limit)

    def _in_state(self, name: str, low: int, high: int, limit: int, form: Form) -> list[Row]:
        if name == State.SUCCEEDED.value:
            return self._all(form(sql.SELECT_SUCCEEDED), low, high, limit)
        return self._all(form(sql.SELECT_STATE), name, low, high, limit)

    def scan(self, wanted: JobScan, limit: int) -> list[Job]:
        """Return the next jobs of a scan, at most `limit`; reads no more rows than it returns."""
        given: dict[str, object] = {"state": wanted.state and wanted.state.value, "queue": wanted.queue}
        given |= {"name": wanted.name, "project": wanted.project, "sweep": wanted.sweep}
        [(condition, value)] = [item for item in given.items() if item[1] is not None] or [("", None)]
        at, id_ = wanted.after or ((TIME_MAX, ID_MAX + 1) if wanted.descending else (-TIME_MAX, 0))
        position = (id_,) if wanted.sort == "id" else (at, at, id_)
        statement = sql.scan(wanted.sort, wanted.descending, condition)
        values = (*(() if value is None else (value,)), *position, limit)
        return self._read(rows.job_from, statement, *values)

    def last_tagged(self, key: str, value: str | None) -> Job | None:
        """Return the newest job that has a tag; without a value, any value of the key."""
        values = (key,) if value is None else (key, value)
        found = self._read(itemgetter(0), sql.LAST_TAG_KEY if value is None else sql.LAST_TAGGED, *values)
        return next(iter(self.some(found)), None)

    def unique_job(self, key: str) -> int | None:
        """Return the unfinished job that has a unique key, as `Job.unique_key` has it."""
        return next(iter(self._read(itemgetter(0), sql.SELECT_UNIQUE, key)), None)

    def names(self, prefix: str, limit: int, statement: str = sql.SELECT_NAMES) -> list[str]:
        """Return the names of jobs that begin with a prefix, each once, at most `limit`; reads NAMES_READ_MAX names."""
        found = self._read(itemgetter(0), statement, prefix, NAMES_READ_MAX)
        return [name for name in found if name.startswith(prefix)][:limit]

    def projects(self, prefix: str, limit: int) -> list[str]:
        """Return the projects of jobs that begin with a prefix, each once; reads as many as `names`."""
        return self.names(prefix, limit, sql.SELECT_PROJECTS)

    def tag_words(self, prefix: str, limit: int) -> list[str]:
        """Return the tags of jobs that begin with a prefix, each once, at most `limit`; reads NAMES_READ_MAX of them.

        Before a key is whole these are keys, `team=`, and then tags, `team=a`.
        """
        key, equals, value = prefix.partition("=")
        if equals:
            values = self._read(itemgetter(0), sql.SELECT_TAG_VALUES, key, value, key, NAMES_READ_MAX)
            return [f"{key}={each}" for each in values if each.startswith(value)][:limit]
        return [f"{each}=" for each in self.names(prefix, limit, sql.SELECT_TAG_KEYS)]

    def some(self, ids: Sequence[int]) -> list[Job]:
        """Return the stored jobs of these ids, by id; an id without a job is left out."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._of_ids(sql.SELECT_SOME, sorted(set(ids)))]

    def recent(self, since: float, limit: int) -> list[Job]:
        """Return the last jobs finished after `since`, newest first."""
        return self._read(rows.job_from, sql.SELECT_RECENT, since, limit)


def _merged(
    page: Callable[[Selector, int, int, int], tuple[list[AnyJob], int]],
    parts: Sequence[Selector],
    after: int,
    upto: int,
    limit: int,
) -> tuple[list[AnyJob], int]:
    """Return a page of the jobs that any of these parts names, as far as every part was read."""
    found: dict[int, AnyJob] = {}
    for part in parts:
        some, upto = page(part, after, upto, limit)
        found |= {job.id: job for job in some}
    jobs = [found[id_] for id_ in sorted(found) if id_ <= upto]
    return (jobs, upto) if len(jobs) <= limit else (jobs[:limit], jobs[limit - 1].id)


def _is_unlisted(part: Part) -> bool:
    """Tell whether no index lists the jobs of a part by id, so that a page looks at a range of ids."""
    if isinstance(part, selectors.Since):
        return True
    return isinstance(part, selectors.ByState) and State.SUCCEEDED.value in part.names
