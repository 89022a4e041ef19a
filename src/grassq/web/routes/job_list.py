"""GET /v1/jobs: some jobs as documents, filtered, sorted and in pages."""

from __future__ import annotations

import math
from datetime import datetime
from functools import partial
from typing import Literal, TypedDict

from aiohttp import web

from grassq.broker import views
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.engine import Engine
from grassq.broker.job_list import LIMIT, LIMIT_MAX, JobQuery, list_jobs
from grassq.broker.selection import Reading, begin, read
from grassq.broker.subscriptions import position_text
from grassq.core.model import ID_MAX, State
from grassq.core.names import shown
from grassq.core.query.parse import parse_query
from grassq.core.query.query import Query
from grassq.core.syntax.selectors import Selector
from grassq.errors import BadInput
from grassq.store.base import Sort
from grassq.web.access.auth import Route
from grassq.web.access.description import LOOK, SELECTORS, Description, Parameter
from grassq.web.logs.last_lines import LastLines
from grassq.web.requests import number, selectors
from grassq.web.responses import document

SORTS: dict[str, Sort] = {"id": "id", "created": "id", "finished": "finished"}
FILTERS = ("state", "queue", "name", "worker", "text", "q")
TIMES = ("created_since", "created_until", "finished_since", "finished_until")
KNOWN = ("selector", *FILTERS, *TIMES, "sort", "order", "limit", "cursor", "look")
TEXT_MAX = 1000


class JobPageDocument(TypedDict):
    """Some jobs, and where there are more."""

    #: The version of this format.
    schema: int
    jobs: list[JobDocument]
    more: bool
    #: The `cursor` of the next page.
    next: str | None
    #: The position in the changes at which the jobs were read: EPOCH.SEQ.
    since: str


def jobs_route(engine: Engine, last_lines: LastLines) -> Route:
    """Return the route."""
    time = "A time: seconds since the epoch, or 2026-01-31T12:00:00Z; only jobs that were"
    about = Description(
        "jobs",
        "Jobs, filtered, sorted and in pages",
        JobPageDocument,
        query=(
            SELECTORS,
            Parameter("state", "Only jobs in this state; more of them add up", list[State]),
            Parameter("queue", "Only jobs of this queue"),
            Parameter("name", "Only jobs of this name"),
            Parameter("worker", "Only jobs on this worker"),
            Parameter("text", "Only jobs whose command or name has this text, in any case"),
            Parameter("q", "Only jobs that match this query, as in `/v1/jobs/window`, but without `@`"),
            Parameter("created_since", f"{time} submitted since then"),
            Parameter("created_until", f"{time} submitted before"),
            Parameter("finished_since", f"{time} ended since then"),
            Parameter("finished_until", f"{time} ended before"),
            Parameter("sort", "The order", Literal["id", "created", "finished"], "id"),
            Parameter("order", "Whether the first comes first", Literal["asc", "desc"], "desc"),
            Parameter("limit", f"The most jobs of a page, at most {LIMIT_MAX}", int, LIMIT),
            Parameter("cursor", "Where the page begins: `next` of the page before"),
            LOOK,
        ),
    )
    serve = partial(serve_jobs, engine=engine, last_lines=last_lines)
    return Route("GET", "/v1/jobs", serve, "read", about=about)


async def serve_jobs(request: web.Request, engine: Engine, last_lines: LastLines) -> web.Response:
    """Answer with one page of jobs, where the next page begins, and the position in the changes it was read at.

    With `look=1`, the first jobs have what the ends of their logs tell.
    """
    query, chosen = read_query(request), selectors(request)
    if chosen and set(request.query) - {"selector", "limit", "look"}:
        raise BadInput("a selector goes with `limit` and `look` only; state, queue, name and the others do without one")
    cursor: str | None = None
    if chosen:
        jobs, more, seq = await _selected(engine, chosen, query.limit)
    else:
        jobs, after, seq = await engine.read(partial(_page, query=query))
        more = after is not None
        cursor = None if after is None else f"{after[0]!r}:{after[1]}"
    await last_lines.describe_if_asked(request, jobs)
    epoch, _ = engine.subscriptions.position
    page: JobPageDocument = {
        "schema": views.SCHEMA,
        "jobs": jobs,
        "more": more,
        "next": cursor,
        "since": position_text((epoch, seq)),
    }
    return document(page)


def _page(batch: Batch, query: JobQuery) -> tuple[list[JobDocument], tuple[float, int] | None, int]:
    page = list_jobs(batch, query)
    return views.documents(batch, page.jobs), page.more, batch.seq


async def _selected(engine: Engine, chosen: list[Selector], limit: int) -> tuple[list[JobDocument], bool, int]:
    """Return the first selected jobs, whether there are more, and the number of the last change before the first."""
    jobs, reading, seq = await engine.read(lambda batch: (*_some(batch, begin(batch, chosen), limit + 1), batch.seq))
    while not reading.is_over and len(jobs) <= limit:
        more, reading = await engine.read(partial(_some, reading=reading, limit=limit + 1 - len(jobs)))
        jobs += more
    return jobs[:limit], len(jobs) > limit, seq


def _some(batch: Batch, reading: Reading, limit: int) -> tuple[list[JobDocument], Reading]:
    some, reading = read(batch, reading, limit)
    return views.documents(batch, [job for job, _ in some]), reading


def read_query(request: web.Request) -> JobQuery:
    """Return the question in a request; raise BadInput for what cannot be asked."""
    asked = request.query
    if unknown := set(asked).difference(KNOWN):
        raise BadInput(f"{shown(min(unknown))} is not a filter; the filters are {', '.join(KNOWN)}")
    states = asked.getall("state", [])
    if wrong := [state for state in states if state not in set(State)]:
        raise BadInput(f"{shown(wrong[0])} is not a state; the states are {', '.join(State)}")
    sort, order, text = asked.get("sort", "id"), asked.get("order", "desc"), asked.get("text")
    if sort not in SORTS or order not in ("asc", "desc"):
        raise BadInput(f"sort is one of {', '.join(SORTS)}, and order is asc or desc")
    if text is not None and len(text) > TEXT_MAX:
        raise BadInput(f"text is longer than {TEXT_MAX} characters")
    return JobQuery(
        states=frozenset(map(State, states)),
        queue=asked.get("queue"),
        name=asked.get("name"),
        worker=asked.get("worker"),
        text=text,
        more=_more(asked.get("q", "")),
        created=_between(request, "created"),
        finished=_between(request, "finished"),
        sort=SORTS[sort],
        descending=order == "desc",
        limit=max(1, number(request, "limit", LIMIT, LIMIT_MAX)),
        after=_cursor(asked.get("cursor")),
    )


def _more(text: str) -> Query:
    query = parse_query(text)
    if query.back:
        raise BadInput("`@` is a selector, and goes without q")
    return query


def _between(request: web.Request, name: str) -> tuple[float, float] | None:
    since, until = request.query.get(f"{name}_since"), request.query.get(f"{name}_until")
    if since is None and until is None:
        return None
    return (-math.inf if since is None else _seconds(since), math.inf if until is None else _seconds(until))


def _seconds(text: str) -> float:
    """Return a time in seconds since the epoch; it is given so, or as in the jobs' documents."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
    if not math.isfinite(seconds):
        raise BadInput(f"{shown(text)} is not a time; write 2026-01-31T12:00:00Z or seconds since the epoch")
    return seconds


def _cursor(text: str | None) -> tuple[float, int] | None:
    if text is None:
        return None
    value, _, id_ = text.partition(":")
    try:
        after = float(value), int(id_)
    except ValueError:
        after = math.nan, 0
    if not math.isfinite(after[0]) or not 0 <= after[1] <= ID_MAX:
        raise BadInput(f"cursor={text[:40]!r} is not a cursor; an answer has one in `next`")
    return after
