"""The routes of tables: a window of the jobs that match a query, and how many match."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

from aiohttp import web
from msgspec.structs import replace

from grassq.broker import views
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.documents.texts import short_command
from grassq.broker.engine import Engine
from grassq.broker.job_list import JobQuery, list_jobs
from grassq.broker.subscriptions import Position, position_text
from grassq.broker.windows.job_order import TABLE_SORTS, TableSort
from grassq.core.model import ID_MAX
from grassq.core.names import shown
from grassq.core.query.parse import parse_query
from grassq.core.query.query import Query
from grassq.errors import BadInput
from grassq.web.access.auth import Route
from grassq.web.access.description import LOOK, Description, Parameter
from grassq.web.access.principal import CALLER, Principal
from grassq.web.forecast.when import When
from grassq.web.logs.last_lines import LastLines
from grassq.web.requests import number
from grassq.web.responses import document, job_documents
from grassq.web.routes.jobs import Jobs
from grassq.web.tables.act import Acts
from grassq.web.tables.documents import CountsDocument, WindowDocument
from grassq.web.tables.job_page import JobPages
from grassq.web.tables.sweeps import Sweeps
from grassq.web.tables.windows import JobWindows, View

#: The most rows of one window, and how many there are if the request does not say it.
WINDOW_MAX, WINDOW_ROWS = 500, 100
#: The most queues whose jobs are counted in an answer; the ones with the most jobs.
QUEUES_MAX = 200
#: `created` is another word for `id`: jobs are numbered as they are submitted.
SORTS: dict[str, TableSort] = {**{sort: sort for sort in TABLE_SORTS}, "created": "id"}
#: Sorts that begin with the largest value if the request does not say an order.
DOWN_FIRST = ("id", "started", "finished", "duration", "priority")
QUERY = Parameter(
    "q",
    "Which jobs: `state:failed queue:q* name:lr* worker:w id:3-7 since:2d gpu>0 priority>30 duration>1h`, and words "
    "that are searched for in names and commands; without it, all jobs",
)
KNOWN = ("q", "sort", "order", "first", "count", "look")


class WindowQuestion(NamedTuple):
    """What was asked for."""

    query: Query
    sort: TableSort
    descending: bool
    first: int
    most: int


class WindowRows(NamedTuple):
    """The jobs of a window, and what is known of the whole table."""

    ids: list[int]
    total: int
    is_exact: bool
    position: Position


class Tables:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, last_lines: LastLines, jobs: Jobs, when: When) -> None:
        self._engine = engine
        self._last_lines = last_lines
        self._windows = JobWindows(engine)
        self._acts = Acts(engine, self._windows, jobs)
        self._sweeps = Sweeps(engine, self._windows)
        self._pages = JobPages(engine, last_lines, when)

    def routes(self) -> list[Route]:
        """Return the routes."""
        window = Description(
            "jobs",
            "Any rows of a table of all jobs that match a query, filtered and sorted here, with an exact count",
            WindowDocument,
            query=(
                QUERY,
                Parameter("sort", "The column to sort by; `created` is `id`", Literal[*SORTS], "id"),
                Parameter("order", "The order; times, ids and numbers begin with the largest", Literal["asc", "desc"]),
                Parameter("first", "The number of the first row, from 0 on", int, 0),
                Parameter("count", f"How many rows, at most {WINDOW_MAX}", int, WINDOW_ROWS),
                LOOK,
            ),
        )
        counts = Description("jobs", "How many jobs match a query, by state and queue", CountsDocument, query=(QUERY,))
        return [
            Route("GET", "/v1/jobs/window", self.window, "read", about=window),
            Route("GET", "/v1/jobs/counts", self.counts, "read", about=counts),
            *self._acts.routes(),
            *self._sweeps.routes(),
            *self._pages.routes(),
        ]

    async def close(self) -> None:
        """End all reading of tables."""
        await self._windows.close()

    async def window(self, request: web.Request) -> web.Response:
        """Answer with some rows of a table, how many rows there are, and the position in the changes.

        The jobs are as they are now; which jobs they are is as of the position `since`. With `look=1`, the first jobs
        have what the ends of their logs tell.
        """
        asked = read_question(request)
        if asked.query == Query() and asked.sort == "id" and asked.first + asked.most <= WINDOW_MAX:
            # Every job in order of id: the first rows are there before the table is.
            jobs, rows = await self._first_rows(asked, request[CALLER])
            self._windows.prepare(asked.query, asked.sort)
            self._windows.prepare_sorts(asked.query)
        else:
            rows = await self._windows.look(asked.query, asked.sort, partial(_rows, asked=asked))
            jobs = await self._engine.read(partial(_documents, ids=rows.ids, caller=request[CALLER]))
        await self._last_lines.describe_if_asked(request, jobs)
        return document(
            {
                "schema": views.SCHEMA,
                "jobs": jobs,
                "first": asked.first,
                "count": rows.total,
                "is_exact": rows.is_exact,
                "since": position_text(rows.position),
            }
        )

    async def counts(self, request: web.Request) -> web.Response:
        """Answer with how many jobs match a query, by state and by queue.

        The states are counted without the states of the query, and the queues without its queues: this many jobs there
        would be with another choice.
        """
        query = read_query(request, ("q",))
        all_queues = await self._windows.look(replace(query, queues=frozenset()), "id", _queue_counts)
        states, is_exact, position = await self._windows.look(replace(query, states=frozenset()), "id", _state_counts)
        if query == Query():
            states = await self._engine.read(lambda batch: batch.store.totals(), short=True)
        chosen = {state: count for state, count in states.items() if not query.states or state in query.states}
        return document(
            {
                "count": sum(chosen.values()),
                "states": states,
                "queues": dict([*all_queues.items()][:QUEUES_MAX]),
                "is_exact": is_exact,
                "since": position_text(position),
            }
        )

    async def _first_rows(self, asked: WindowQuestion, caller: Principal) -> tuple[list[JobDocument], WindowRows]:
        position = self._engine.subscriptions.position
        jobs, total = await self._engine.read(partial(_first_jobs, asked=asked, caller=caller))
        return jobs, WindowRows([], total, True, position)


def read_question(request: web.Request) -> WindowQuestion:
    """Return what a request asks for; raise BadInput for what cannot be asked."""
    query = read_query(request, KNOWN)
    sort = SORTS.get(request.query.get("sort", "id"))
    if sort is None:
        raise BadInput(f"sort is one of {', '.join(SORTS)}, not {shown(request.query['sort'])}")
    order = request.query.get("order", "desc" if sort in DOWN_FIRST else "asc")
    if order not in ("asc", "desc"):
        raise BadInput(f"order is asc or desc, not {shown(order)}")
    first = number(request, "first", 0, ID_MAX)
    return WindowQuestion(query, sort, order == "desc", first, number(request, "count", WINDOW_ROWS, WINDOW_MAX))


def read_query(request: web.Request, known: tuple[str, ...]) -> Query:
    """Return the query of a request that has no other parameters than the known ones."""
    if unknown := set(request.query).difference(known):
        raise BadInput(f"{shown(min(unknown))} is not a parameter; they are {', '.join(known)}")
    return parse_query(request.query.get("q", ""))


def _rows(view: View, asked: WindowQuestion) -> WindowRows:
    ids = view.order.slice(asked.first, asked.most, descending=asked.descending)
    return WindowRows(ids, len(view.order), view.is_exact, view.position)


def _state_counts(view: View) -> tuple[dict[str, int], bool, Position]:
    return view.order.state_counts(), view.is_exact, view.position


def _queue_counts(view: View) -> dict[str, int]:
    return view.order.queue_counts()


def _documents(batch: Batch, ids: list[int], caller: Principal) -> list[JobDocument]:
    found = batch.fetch(ids)
    return _short(job_documents(batch, [found[id_] for id_ in ids if id_ in found], caller))


def _first_jobs(batch: Batch, asked: WindowQuestion, caller: Principal) -> tuple[list[JobDocument], int]:
    page = list_jobs(batch, JobQuery(limit=max(1, asked.first + asked.most), descending=asked.descending))
    jobs = page.jobs[asked.first : asked.first + asked.most]
    return _short(job_documents(batch, jobs, caller)), sum(batch.store.totals().values())


def _short(jobs: list[JobDocument]) -> list[JobDocument]:
    """Cut long commands, as a window has many jobs."""
    for job in jobs:
        job["command"] = short_command(job["command"])
    return jobs
