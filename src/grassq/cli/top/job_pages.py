"""Reads jobs from GET /v1/jobs in the order of the table, from any job on, down or up; keeps nothing.

An order is a chain of segments: what runs, then what waits, then what has ended. Within a segment the position of a job
is its sort value and its id, so the next page begins after a job, wherever this job is among a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from grassq.cli import job_text
from grassq.cli.top.filters import JobFilter
from grassq.net.client import ApiClient
from grassq.net.encoding import FINAL_STATES

#: Jobs in one answer.
PAGE_JOBS = 100
#: Requests of one call of `read`; a page of a search may be empty, as the daemon looks at a bounded number of jobs.
REQUESTS_MAX = 8
#: The sort value of a document is cut to milliseconds; the daemon's is not.
FINISHED_SLACK_S = 0.001
ID_LAST = 10**15

ACTIVE, NEWEST, OLDEST, FINISHED = "active", "newest", "oldest", "finished"
ORDERS = (ACTIVE, NEWEST, OLDEST, FINISHED)
RUNNING = ("running", "placed")
WAITING = ("queued", "waiting", "held")
ENDED = tuple(sorted(FINAL_STATES))

Job = Mapping[str, Any]
#: Answers GET /v1/jobs with these parameters.
Ask = Callable[[Sequence[tuple[str, object]]], Mapping[str, Any]]


class Segment(NamedTuple):
    """The jobs of one query."""

    filters: tuple[tuple[str, str], ...] = ()
    by_end: bool = False
    descending: bool = False
    #: The first and the last id.
    ids: tuple[int, int] = (1, ID_LAST)


class JobPlace(NamedTuple):
    """The position of a job in a chain of segments."""

    segment: int
    value: float
    id: int


class PlacedJob(NamedTuple):
    """A job and its position."""

    place: JobPlace
    job: Job


class PlacedJobs(NamedTuple):
    """Some rows in the order of the table."""

    rows: list[PlacedJob]
    #: There are no more jobs in this direction.
    is_end: bool
    #: Where to continue a search that found too little; None if the rows themselves say where.
    resume: tuple[int, str] | None = None


def segments_of(
    wanted: JobFilter, order: str, *, is_reversed: bool = False, states: Sequence[str] = ()
) -> list[Segment]:
    """Return the segments of a filter in an order; `states` are those of the tab."""
    chosen = tuple(state for state in wanted.states if not states or state in states) or tuple(states)
    if wanted.states and states and not set(wanted.states) & set(states):
        return []
    named = [("queue", wanted.queue), ("name", wanted.name), ("worker", wanted.worker), ("text", wanted.text)]
    named += [("q", " ".join(wanted.more) or None)]
    common = tuple((kind, value) for kind, value in named if value is not None)
    if wanted.ranges:
        ranges = sorted(set(wanted.ranges), reverse=is_reversed)
        filters = common + tuple(("state", state) for state in chosen)
        return [Segment(filters, descending=is_reversed, ids=(max(1, low), high)) for low, high in ranges]
    parts: list[tuple[tuple[str, ...], bool, bool]]
    if order == ACTIVE:
        parts = [(RUNNING, False, False), (WAITING, False, False), (ENDED, True, True)]
    elif order == FINISHED:
        parts = [(ENDED, True, True)]
    else:
        parts = [((), False, order == NEWEST)]
    segments = []
    for group, by_end, descending in parts:
        kept = tuple(state for state in group if not chosen or state in chosen) if group else chosen
        if group and not kept:
            continue
        # Few jobs in these states among many that ended: by id there is an index, by their end there is none.
        by_end = by_end and (order == FINISHED or "succeeded" in kept)
        filters = common + tuple(("state", state) for state in kept)
        segments.append(Segment(filters, by_end, descending != is_reversed))
    return segments[::-1] if is_reversed else segments


def read(
    ask: Ask,
    segments: Sequence[Segment],
    start: JobPlace | None,
    *,
    down: bool,
    count: int,
    inclusive: bool = False,
    known: Container[int] = (),
    resume: tuple[int, str] | None = None,
    look: bool = False,
) -> PlacedJobs:
    """Return up to `count` rows after a place, or from the very first or last job on; never a job in `known`.

    With `look`, jobs come with what the ends of their logs tell.
    """
    rows: list[PlacedJob] = []
    index = resume[0] if resume else start.segment if start is not None else 0 if down else len(segments) - 1
    cursor = resume[1] if resume else None
    requests = 0
    while 0 <= index < len(segments):
        segment = segments[index]
        backwards = segment.descending == down
        if cursor is None:
            cursor = _cursor(segment, start if start and start.segment == index else None, backwards, inclusive)
        for page, after in _pages(ask, segment, cursor, backwards, count, look):
            requests += 1
            rows += [PlacedJob(_place(index, segment, job), job) for job in page if job["id"] not in known]
            if len(rows) >= count:
                return _in_order(rows[:count], down, is_end=False)
            if after is not None and requests >= REQUESTS_MAX:
                return _in_order(rows, down, is_end=False)._replace(resume=(index, after))
        cursor = None
        index += 1 if down else -1
    return _in_order(rows, down, is_end=True)


def _in_order(rows: list[PlacedJob], down: bool, *, is_end: bool) -> PlacedJobs:
    return PlacedJobs(rows if down else rows[::-1], is_end)


def _pages(
    ask: Ask, segment: Segment, cursor: str | None, descending: bool, count: int, look: bool
) -> Iterator[tuple[list[Job], str | None]]:
    """Yield the jobs of a segment from a cursor on, with the cursor after them; None after the last ones."""
    low, high = segment.ids
    while True:
        asked: list[tuple[str, object]] = [*segment.filters]
        asked += [("sort", "finished" if segment.by_end else "id"), ("order", "desc" if descending else "asc")]
        asked += [("limit", min(count, PAGE_JOBS)), ("cursor", cursor), ("look", 1 if look else None)]
        answer = ask(asked)
        jobs = [job for job in answer["jobs"] if low <= job["id"] <= high]
        is_past = len(jobs) < len(answer["jobs"])
        cursor = None if is_past else answer.get("next")
        yield jobs, cursor
        if cursor is None:
            return


def _cursor(segment: Segment, start: JobPlace | None, descending: bool, inclusive: bool) -> str | None:
    """Return the cursor before the first job to read; None for the very first one."""
    if start is None:
        low, high = segment.ids
        at = high + 1 if descending else low - 1
        return f"0.0:{at}" if 0 < at <= ID_LAST else None
    id_, value = start.id, start.value
    if segment.by_end:
        value += FINISHED_SLACK_S if descending else -FINISHED_SLACK_S
    elif inclusive:
        id_ += 1 if descending else -1
    return f"{value!r}:{max(0, id_)}"


def _place(index: int, segment: Segment, job: Job) -> JobPlace:
    return JobPlace(index, (job_text.seconds(job.get("finished")) or 0.0) if segment.by_end else 0.0, job["id"])


def resolve(client: ApiClient, wanted: JobFilter, queues: Container[str]) -> JobFilter:
    """Return a filter that says what its words mean: a queue, else a name, else a part of a command; `@` is an id."""
    if wanted.back is not None:
        last = client.jobs(["@" if not wanted.back else f"@~{wanted.back}"], limit=1)["jobs"]
        ids = tuple((int(job["id"]), int(job["id"])) for job in last)
        wanted = wanted._replace(back=None, ranges=wanted.ranges + ids)
    word = wanted.word
    if word is None:
        return wanted
    wanted = wanted._replace(word=None)
    if word in queues and wanted.queue is None:
        return wanted._replace(queue=word)
    if wanted.name is None and client.jobs(name=word, limit=1)["jobs"]:
        return wanted._replace(name=word)
    return wanted._replace(text=word if wanted.text is None else f"{word} {wanted.text}")
