"""The steps that read rows of a table from the store; each holds the engine for a bounded number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.broker.job_change import JobChange
from grassq.core.model import ID_MAX, State
from grassq.core.query.query import Columns, JobFacts, Query, columns_up_to, is_pattern
from grassq.core.syntax.selectors import LastJob
from grassq.store.reading.facts import FactSource

#: How many rows one step looks at; fewer where the command of every job is read, and where a query has many words.
STEP_ROWS, STEP_SPECS, STEP_LEAST = 2000, 250, 50
#: A query of this many words takes twice the time of a query without any.
WORDS_DOUBLE = 4
#: The most jobs that a table looks at, the newest first.
LOOKED_AT_MAX = 1_000_000
#: With more changed jobs than this, the table is read again from the beginning.
CHANGED_MAX = 20_000


ALL = Query()


class RowSource(Struct, frozen=True):
    """Jobs to look at: those of an index, between two ids."""

    index: FactSource = ("", "")
    low: int = 1
    high: int = ID_MAX


class RowStep(Struct, frozen=True):
    """The jobs that a step found, and what is left to look at."""

    found: list[JobFacts]
    looked_at: int
    left: tuple[RowSource, ...]
    now: float


def resolve(batch: Batch, query: Query) -> Query:
    """Return a query with ids instead of `@` and `@~1`."""
    if not query.back:
        return query
    last = [job.id for back in query.back for job in batch.store.jobs(LastJob(back), 1)]
    return replace(query, back=(), ids=(*query.ids, *((id_, id_) for id_ in last)) or ((0, 0),))


def sources_of(query: Query) -> tuple[RowSource, ...]:
    """Return the jobs to look at for a query: by an index where there is one; at any time no job is in two sources."""
    if query.ids:
        return tuple(RowSource(low=low, high=high) for low, high in _merged(query.ids))
    if query.sweeps:
        return tuple(RowSource(("sweep", sweep)) for sweep in sorted(query.sweeps))
    if query.names and not any(map(is_pattern, query.names)):
        return tuple(RowSource(("name", name)) for name in sorted(query.names))
    if query.states and State.SUCCEEDED.value not in query.states:
        return tuple(RowSource(("state", state)) for state in sorted(query.states))
    if query.projects and not any(map(is_pattern, query.projects)):
        return tuple(RowSource(("project", project)) for project in sorted(query.projects))
    if query.queues and not any(map(is_pattern, query.queues)):
        return tuple(RowSource(("queue", queue)) for queue in sorted(query.queues))
    return (RowSource(),)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, min(high, ID_MAX)))
    return merged[::-1]


def read_step(batch: Batch, query: Query, columns: Columns, left: tuple[RowSource, ...], at: float | None) -> RowStep:
    """Look at the next jobs of some sources; `at` is the time of the query, None for now."""
    now = batch.now if at is None else at
    limit = step_rows(query, columns)
    found: list[JobFacts] = []
    looked_at = 0
    while left and looked_at < limit:
        source, count = left[0], limit - looked_at
        jobs = batch.store.facts(source.index, source.high + 1, count, columns)
        is_over = len(jobs) < count or jobs[-1].id <= source.low
        if jobs and jobs[-1].id < source.low:
            jobs = [job for job in jobs if job.id >= source.low]
        looked_at += len(jobs) + 1
        found += jobs if query == ALL else [job for job in jobs if query.matches(job, now)]
        left = left[1:] if is_over else (replace(source, high=jobs[-1].id - 1), *left[1:])
    return RowStep(found, looked_at, left, batch.now)


def unseen(found: Iterable[JobFacts], seen: set[int]) -> list[JobFacts]:
    """Return the jobs that no step before has found, and note that they are seen."""
    new = [job for job in found if job.id not in seen]
    seen.update(job.id for job in new)
    return new


def step_rows(query: Query, columns: Columns) -> int:
    """Return how many rows of a table one step may look at."""
    texts = (query.queues, query.names, query.workers, query.projects, query.tags, query.texts)
    words = sum(map(len, texts)) + len(query.ids) + len(query.sweeps) + len(query.bounds)
    return max(STEP_LEAST, (STEP_SPECS if columns.spec else STEP_ROWS) // (1 + words // WORDS_DOUBLE))


def read_changed(
    batch: Batch, query: Query, columns: Columns, ids: Sequence[int], at: float | None
) -> tuple[list[JobFacts], float]:
    """Return those of some changed jobs that match, as stored now, and the time; the caller bounds the ids."""
    now = batch.now if at is None else at
    return [job for job in batch.store.facts_of(ids, columns) if query.matches(job, now)], batch.now


def changed_ids(changes: Iterable[JobChange]) -> set[int] | None:
    """Return the jobs that changed; None if they are too many to patch a table."""
    ids: set[int] = set()
    for change in changes:
        if change.last - change.job + len(ids) > CHANGED_MAX:
            return None
        ids.update(range(change.job, change.last + 1))
    return ids


def columns_of(query: Query, sort: str) -> Columns:
    """Return the columns that a table needs."""
    columns = query.columns
    if sort == "worker":
        return replace(columns, worker=True)
    return replace(columns, first=max(columns.first, columns_up_to(sort, "queue")))
