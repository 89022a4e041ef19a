"""GET /v1/sweeps: the sweeps, newest first; GET /v1/sweeps/NAME: the parameters and results of one, as a table."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import partial

import msgspec
from aiohttp import web

from grassq.broker.documents.texts import timestamp
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Position, position_text
from grassq.broker.summary.sweeps import JOBS_MIN, sweep_document
from grassq.broker.windows import sweep_jobs
from grassq.broker.windows.job_order import NameGroup
from grassq.broker.windows.sweep_jobs import SWEEP_JOBS_MAX
from grassq.core.model import HOLDING, ID_MAX, State
from grassq.core.names import shown
from grassq.core.query.query import Query
from grassq.core.sweeps.table import SweepJob, table_of
from grassq.errors import NotFound
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.requests import number
from grassq.web.responses import document
from grassq.web.tables.documents import (
    SweepColumnDocument,
    SweepListDocument,
    SweepRowDocument,
    SweepSummaryDocument,
    SweepTableDocument,
)
from grassq.web.tables.windows import JobWindows, View

#: The sweeps of one answer, and how many there are if the request does not say it.
LIMIT_MAX, LIMIT = 200, 50
#: The sweeps whose jobs are kept in memory; a sweep that was not asked for longest is forgotten.
SWEEPS_KEPT = 4


class _Sweep:
    """The jobs of one sweep, as of a position in the changes."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.position: Position | None = None
        self.jobs: dict[int, SweepJob] = {}
        #: Whether there are older jobs, which are not read.
        self.is_cut = False
        #: The answer as of the position, while no job of the sweep runs; None if it must be made.
        self.answer: bytes | None = None


class Sweeps:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, windows: JobWindows) -> None:
        self._engine = engine
        self._windows = windows
        self._kept: OrderedDict[str, _Sweep] = OrderedDict()

    def routes(self) -> list[Route]:
        """Return the routes."""
        several = Description(
            "jobs",
            "The sweeps: names that several jobs share, the newest first",
            SweepListDocument,
            query=(
                Parameter("cursor", "Where the page begins: `next` of the page before", int),
                Parameter("limit", f"The most sweeps of a page, at most {LIMIT_MAX}", int, LIMIT),
            ),
        )
        one = Description("jobs", "The parameters and results of the jobs of one name, as a table", SweepTableDocument)
        return [
            Route("GET", "/v1/sweeps", self.several, "read", about=several),
            Route("GET", "/v1/sweeps/{name}", self.one, "read", about=one),
        ]

    async def several(self, request: web.Request) -> web.Response:
        """Answer with some sweeps, and where the next ones begin."""
        below = number(request, "cursor", ID_MAX + 1, ID_MAX + 1)
        limit = max(1, number(request, "limit", LIMIT, LIMIT_MAX))
        groups, is_exact = await self._windows.look(Query(), "name", _groups, looks_at_all=True)
        left = [group for group in groups if group.newest < below]
        created = await self._engine.read(partial(sweep_jobs.created_of, ids=[each.oldest for each in left[:limit]]))
        found = SweepListDocument(
            sweeps=[_summary(group, created.get(group.oldest)) for group in left[:limit]],
            next=left[limit - 1].newest if len(left) > limit else None,
            is_exact=is_exact,
        )
        return document(found)

    async def one(self, request: web.Request) -> web.Response:
        """Answer with one sweep as columns and rows, the newest jobs first."""
        name = request.match_info["name"]
        sweep = self._kept.setdefault(name, _Sweep())
        self._kept.move_to_end(name)
        while len(self._kept) > SWEEPS_KEPT:
            self._kept.popitem(last=False)
        async with sweep.lock:
            await self._bring_up_to_date(name, sweep)
            if not sweep.jobs:
                self._kept.pop(name, None)
                raise NotFound(f"there is no job with the name {shown(name)}")
            answer = sweep.answer or await self._answer(name, sweep)
        return web.Response(body=answer, content_type="application/json")

    async def _answer(self, name: str, sweep: _Sweep) -> bytes:
        """Return a sweep as JSON; made in a thread, as there may be many rows."""
        jobs, position = [sweep.jobs[id_] for id_ in sorted(sweep.jobs, reverse=True)], sweep.position
        assert position is not None
        counts, now = await self._engine.read(lambda batch: (batch.store.named(name), batch.now))
        made = await asyncio.to_thread(_encoded, name, jobs, counts, position, now)
        if not any(job.state in HOLDING for job in jobs):
            sweep.answer = made
        return made

    async def _bring_up_to_date(self, name: str, sweep: _Sweep) -> None:
        """Read what has changed of a sweep, or all of it."""
        position = self._engine.subscriptions.position
        changes = None if sweep.position is None else self._engine.subscriptions.since(sweep.position)
        if changes is None:
            sweep.answer = None
            await self._read(name, sweep)
        else:
            of_name = [change for change in changes if change.name == name or change.job in sweep.jobs]
            ids = {id_ for change in of_name for id_ in _first_ids(change.job, change.last)}
            if ids:
                sweep.answer = None
                await self._read_changed(name, sweep, sorted(ids))
        sweep.position = position

    async def _read(self, name: str, sweep: _Sweep) -> None:
        jobs: dict[int, SweepJob] = {}
        below = ID_MAX + 1
        while len(jobs) < SWEEP_JOBS_MAX:
            some = await self._engine.read(partial(sweep_jobs.newest_jobs, name=name, below=below))
            jobs |= {job.id: job for job in some}
            if len(some) < sweep_jobs.STEP_JOBS:
                break
            below = some[-1].id
        sweep.is_cut = len(jobs) >= SWEEP_JOBS_MAX
        sweep.jobs = dict([*jobs.items()][:SWEEP_JOBS_MAX])

    async def _read_changed(self, name: str, sweep: _Sweep, ids: list[int]) -> None:
        for id_ in ids:
            sweep.jobs.pop(id_, None)
        for at in range(0, len(ids), sweep_jobs.STEP_JOBS):
            some = ids[at : at + sweep_jobs.STEP_JOBS]
            found = await self._engine.read(partial(sweep_jobs.changed_jobs, name=name, ids=some))
            sweep.jobs |= {job.id: job for job in found}
        for id_ in sorted(sweep.jobs)[: max(0, len(sweep.jobs) - SWEEP_JOBS_MAX)]:
            del sweep.jobs[id_]
            sweep.is_cut = True
        if sweep.is_cut and len(sweep.jobs) < SWEEP_JOBS_MAX:
            # Older jobs take the places of those that were removed.
            await self._read(name, sweep)


def _first_ids(first: int, last: int) -> Iterable[int]:
    """Return the ids of a change; of very many the newest, as no more can be shown."""
    return range(max(first, last - SWEEP_JOBS_MAX + 1), last + 1)


def _groups(view: View) -> tuple[list[NameGroup], bool]:
    return view.order.name_groups(JOBS_MIN), view.is_exact


def _summary(group: NameGroup, created: float | None) -> SweepSummaryDocument:
    counted = sweep_document(group.name, group.states, group.queue)
    return {**counted, "created": timestamp(created), "newest": group.newest}


def _encoded(name: str, jobs: list[SweepJob], counts: dict[str, int], position: Position, now: float) -> bytes:
    return msgspec.json.encode(_document(name, jobs, counts, position, now))


def _document(
    name: str, jobs: list[SweepJob], counts: dict[str, int], position: Position, now: float
) -> SweepTableDocument:
    columns, values = table_of(jobs)
    is_cut = len(jobs) >= SWEEP_JOBS_MAX and sum(counts.values()) > len(jobs)
    if not is_cut:
        # As of the same position as the rows.
        counts = dict(Counter(job.state for job in jobs))
    return {
        "name": name,
        "queue": jobs[0].queue,
        "count": sum(counts.values()),
        "is_cut": is_cut,
        "counts": counts,
        "since": position_text(position),
        "columns": [
            SweepColumnDocument(name=each.name, group=each.group, kind=each.kind, is_log=each.is_log)
            for each in columns
        ],
        "rows": [_row(job, row, now) for job, row in zip(jobs, values, strict=True)],
    }


def _row(job: SweepJob, values: list[float | str | None], now: float) -> SweepRowDocument:
    seconds = None if job.started is None else max(0.0, (job.finished or now) - job.started)
    return {
        "id": job.id,
        "state": State(job.state),
        "values": values,
        "created": timestamp(job.created),
        "started": timestamp(job.started),
        "finished": timestamp(job.finished),
        "seconds": None if seconds is None else round(seconds, 3),
    }
