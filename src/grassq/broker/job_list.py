"""Lists of jobs: filtered, sorted and in pages. A page reads a bounded number of rows, however many jobs there are."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core.model import Job, State
from grassq.core.query.query import Query, facts_of
from grassq.store.base import TIME_MAX, JobScan, Sort

#: The default and the largest number of jobs in a page.
LIMIT = 100
LIMIT_MAX = 500
#: The most rows a page reads; the page ends there, also with fewer jobs than its limit.
SCANNED_MAX = 500
CHUNK = 250


class JobQuery(Struct, frozen=True):
    """Which jobs are wanted, in which order, and after which job."""

    states: frozenset[State] = frozenset()
    queue: str | None = None
    name: str | None = None
    worker: str | None = None
    #: A part of the command or of the name, in any case.
    text: str | None = None
    #: What else the jobs must match.
    more: Query = Query()
    #: Seconds since the epoch; the end is not included.
    created: tuple[float, float] | None = None
    finished: tuple[float, float] | None = None
    sort: Sort = "id"
    descending: bool = True
    limit: int = LIMIT
    #: The sort value and the id of the last job before the page.
    after: tuple[float, int] | None = None


class JobPage(Struct, frozen=True):
    """Some jobs, and the position after which there may be more."""

    jobs: list[Job]
    more: tuple[float, int] | None


def list_jobs(batch: Batch, query: JobQuery) -> JobPage:
    """Return the next page of jobs, as they are now."""
    found: list[Job] = []
    wanted = _wanted(query)
    after, scanned = query.after, 0
    while scanned < SCANNED_MAX:
        chunk = min(max(CHUNK, query.limit + 1), SCANNED_MAX - scanned)
        stored = _stored(batch, query, after, chunk)
        scanned += len(stored)
        for job in stored:
            if len(found) == query.limit:
                return JobPage(found, after)
            if _is_past(job, query):
                return JobPage(found, None)
            after = position_of(job, query.sort)
            now = batch.current(job)
            if job.id not in batch.changes.removed and _matches(now, query, wanted, batch.now):
                found.append(now)
        if len(stored) < chunk:
            return JobPage(found, None)
    return JobPage(found, after)


def position_of(job: Job, sort: Sort) -> tuple[float, int]:
    """Return the position of a job in an order."""
    return (job.finished or 0.0 if sort == "finished" else 0.0), job.id


def _stored(batch: Batch, query: JobQuery, after: tuple[float, int] | None, count: int) -> list[Job]:
    """Return the next jobs under one condition that has an index; `_matches` checks all conditions."""
    scan = JobScan(sort=query.sort, descending=query.descending, after=after or _begin(query))
    if query.sort == "finished":
        return batch.store.scan(scan, count)
    if query.name is not None:
        return batch.store.scan(replace(scan, name=query.name), count)
    if query.states and State.SUCCEEDED not in query.states:
        found = [job for state in query.states for job in batch.store.scan(replace(scan, state=state), count)]
        return sorted(found, key=lambda job: job.id, reverse=query.descending)[:count]
    return batch.store.scan(replace(scan, queue=query.queue), count)


def _begin(query: JobQuery) -> tuple[float, int] | None:
    """Return the position before the first page when jobs are sorted by end: the first time that is asked for."""
    if query.sort == "id" or query.finished is None:
        return None
    since, until = query.finished
    return (min(until, TIME_MAX), 0) if query.descending else (max(since, -TIME_MAX), 0)


def _is_past(job: Job, query: JobQuery) -> bool:
    """Tell whether this job and all that follow it ended outside of the times asked for."""
    if query.sort == "id" or query.finished is None or job.finished is None:
        return False
    since, until = query.finished
    return job.finished < since if query.descending else job.finished >= until


def _matches(job: Job, query: JobQuery, wanted: Query, now: float) -> bool:
    facts = facts_of(job)
    return (
        wanted.matches(facts, now)
        and query.more.matches(facts, now)
        and (query.created is None or query.created[0] <= job.created < query.created[1])
        and (
            query.finished is None
            or (job.finished is not None and query.finished[0] <= job.finished < query.finished[1])
        )
    )


def _wanted(query: JobQuery) -> Query:
    """Return the filters of a list as a query."""
    return Query(
        states=frozenset(state.value for state in query.states),
        queues=_one(query.queue),
        names=_one(query.name),
        workers=_one(query.worker),
        texts=() if query.text is None else (query.text.casefold(),),
    )


def _one(text: str | None) -> frozenset[str]:
    return frozenset() if text is None else frozenset({text})
