"""GET /v1/sweeps: the sweeps, newest first; GET /v1/sweeps/sweep:ID: the parameters and results of one, as a table.

Jobs that are part of no sweep and share a name are listed like a sweep; GET /v1/sweeps/NAME is their table.
"""

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
from grassq.broker.windows.sweep_jobs import SWEEP_JOBS_MAX, Which
from grassq.core.model import HOLDING, ID_MAX, State
from grassq.core.names import shown
from grassq.core.query.query import Query
from grassq.core.sweeps.sweep import Sweep
from grassq.core.sweeps.table import SweepJob, table_of
from grassq.core.syntax.selectors import BySweep, parse
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
#: The names that are looked at in one step.
GROUPS_STEP = 200

#: A sweep with its place in the list.
_Placed = tuple[int, SweepSummaryDocument]


class _Sweep:
    """The jobs of one sweep, as of a position in the changes."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.position: Position | None = None
        self.jobs: dict[int, SweepJob] = {}
        #: Whether there are older jobs, which are not read.
        self.is_cut = False
        #: The sweep as the answer has it.
        self.described: Sweep | None = None
        #: The answer as of the position, while no job of the sweep runs; None if it must be made.
        self.answer: bytes | None = None


class Sweeps:
    """The handlers of the routes."""

    def __init__(self, engine: Engine, windows: JobWindows) -> None:
        self._engine = engine
        self._windows = windows
        self._kept: OrderedDict[Which, _Sweep] = OrderedDict()

    def routes(self) -> list[Route]:
        """Return the routes."""
        several = Description(
            "jobs",
            "The sweeps, and the names that several other jobs share, the newest first",
            SweepListDocument,
            query=(
                Parameter("cursor", "Where the page begins: `next` of the page before", int),
                Parameter("limit", f"The most sweeps of a page, at most {LIMIT_MAX}", int, LIMIT),
            ),
        )
        one = Description(
            "jobs",
            "The parameters and results of the jobs of one sweep, `sweep:ID`, or of one name, as a table",
            SweepTableDocument,
        )
        return [
            Route("GET", "/v1/sweeps", self.several, "read", about=several),
            Route("GET", "/v1/sweeps/{name}", self.one, "read", about=one),
        ]

    async def several(self, request: web.Request) -> web.Response:
        """Answer with some sweeps, and where the next ones begin."""
        below = number(request, "cursor", ID_MAX + 1, ID_MAX + 1)
        limit = max(1, number(request, "limit", LIMIT, LIMIT_MAX))
        sweeps = await self._engine.read(lambda batch: batch.store.sweeps_below(below, limit + 1))
        groups, is_exact = await self._windows.look(Query(), "name", _groups, looks_at_all=True)
        # Groups behind the last sweep of a full page are for a later page.
        least = sweeps[limit].id if len(sweeps) > limit else 0
        left = [group for group in groups if least < group.newest < below]
        found = [*await self._listed(sweeps), *await self._named(left, limit + 1)]
        # Each with its place in the list: a sweep has its id, a name its newest job.
        found.sort(key=lambda each: each[0], reverse=True)
        return document(
            SweepListDocument(
                sweeps=[each for _, each in found[:limit]],
                next=found[limit - 1][0] if len(found) > limit else None,
                is_exact=is_exact,
            )
        )

    async def _listed(self, sweeps: Iterable[Sweep]) -> list[_Placed]:
        found: list[_Placed] = []
        for sweep in sweeps:
            # One at a time: the first question about a sweep counts its jobs.
            listed = await self._engine.read(partial(sweep_jobs.listed_sweep, sweep=sweep))
            if listed is not None:
                counted = sweep_document(sweep.name, listed.counts, listed.queue, sweep)
                created = timestamp(sweep.created)
                found.append((sweep.id, {**counted, "created": created, "newest": listed.newest}))
        return found

    async def _named(self, groups: list[NameGroup], most: int) -> list[_Placed]:
        """Return the first names that are not those of sweeps alone."""
        found: list[_Placed] = []
        for at in range(0, len(groups), GROUPS_STEP):
            some = groups[at : at + GROUPS_STEP]
            pairs = [(group.oldest, group.newest) for group in some]
            created = await self._engine.read(partial(sweep_jobs.beginnings, groups=pairs))
            for group in some:
                if group.oldest in created:
                    found.append((group.newest, _summary(group, created[group.oldest])))
            if len(found) >= most:
                break
        return found

    async def one(self, request: web.Request) -> web.Response:
        """Answer with one sweep as columns and rows, the newest jobs first."""
        name = request.match_info["name"]
        which = _which(name)
        sweep = self._kept.setdefault(which, _Sweep())
        self._kept.move_to_end(which)
        while len(self._kept) > SWEEPS_KEPT:
            self._kept.popitem(last=False)
        async with sweep.lock:
            await self._bring_up_to_date(which, sweep)
            if not sweep.jobs:
                self._kept.pop(which, None)
                what = (
                    f"there is no {name}" if isinstance(which, int) else f"there is no job with the name {shown(name)}"
                )
                raise NotFound(what)
            answer = await self._answer(which, sweep)
        return web.Response(body=answer, content_type="application/json")

    async def _answer(self, which: Which, sweep: _Sweep) -> bytes:
        """Return a sweep as JSON; made in a thread, as there may be many rows."""
        jobs, position = [sweep.jobs[id_] for id_ in sorted(sweep.jobs, reverse=True)], sweep.position
        assert position is not None
        counts, described, now = await self._engine.read(lambda batch: (*sweep_jobs.counts_of(batch, which), batch.now))
        if sweep.answer is not None and sweep.described == described:
            return sweep.answer
        name = str(which) if described is None else described.name
        made = await asyncio.to_thread(_encoded, name, jobs, counts, position, now, described)
        if not any(job.state in HOLDING for job in jobs):
            sweep.answer, sweep.described = made, described
        return made

    async def _bring_up_to_date(self, which: Which, sweep: _Sweep) -> None:
        """Read what has changed of a sweep, or all of it."""
        position = self._engine.subscriptions.position
        changes = None if sweep.position is None else self._engine.subscriptions.since(sweep.position)
        if changes is None:
            sweep.answer = None
            await self._read(which, sweep)
        else:
            its = [change for change in changes if which in (change.sweep, change.name) or change.job in sweep.jobs]
            ids = {id_ for change in its for id_ in _first_ids(change.job, change.last)}
            if ids:
                sweep.answer = None
                await self._read_changed(which, sweep, sorted(ids))
        sweep.position = position

    async def _read(self, which: Which, sweep: _Sweep) -> None:
        jobs: dict[int, SweepJob] = {}
        below = ID_MAX + 1
        while len(jobs) < SWEEP_JOBS_MAX:
            some = await self._engine.read(partial(sweep_jobs.newest_jobs, which=which, below=below))
            jobs |= {job.id: job for job in some}
            if len(some) < sweep_jobs.STEP_JOBS:
                break
            below = some[-1].id
        sweep.is_cut = len(jobs) >= SWEEP_JOBS_MAX
        sweep.jobs = dict([*jobs.items()][:SWEEP_JOBS_MAX])

    async def _read_changed(self, which: Which, sweep: _Sweep, ids: list[int]) -> None:
        for id_ in ids:
            sweep.jobs.pop(id_, None)
        for at in range(0, len(ids), sweep_jobs.STEP_JOBS):
            some = ids[at : at + sweep_jobs.STEP_JOBS]
            found = await self._engine.read(partial(sweep_jobs.changed_jobs, which=which, ids=some))
            sweep.jobs |= {job.id: job for job in found}
        for id_ in sorted(sweep.jobs)[: max(0, len(sweep.jobs) - SWEEP_JOBS_MAX)]:
            del sweep.jobs[id_]
            sweep.is_cut = True
        if sweep.is_cut and len(sweep.jobs) < SWEEP_JOBS_MAX:
            # Older jobs take the places of those that were removed.
            await self._read(which, sweep)


def _which(name: str) -> Which:
    """Return which jobs the address of a table is about; a name has no colon."""
    meant = parse(name) if name.startswith("sweep:") else None
    return meant.id if isinstance(meant, BySweep) else name


def _first_ids(first: int, last: int) -> Iterable[int]:
    """Return the ids of a change; of very many the newest, as no more can be shown."""
    return range(max(first, last - SWEEP_JOBS_MAX + 1), last + 1)


def _groups(view: View) -> tuple[list[NameGroup], bool]:
    return view.order.name_groups(JOBS_MIN), view.is_exact


def _summary(group: NameGroup, created: float | None) -> SweepSummaryDocument:
    counted = sweep_document(group.name, group.states, group.queue)
    return {**counted, "created": timestamp(created), "newest": group.newest}


def _encoded(
    name: str, jobs: list[SweepJob], counts: dict[str, int], position: Position, now: float, sweep: Sweep | None
) -> bytes:
    return msgspec.json.encode(_document(name, jobs, counts, position, now, sweep))


def _document(
    name: str, jobs: list[SweepJob], counts: dict[str, int], position: Position, now: float, sweep: Sweep | None
) -> SweepTableDocument:
    columns, values = table_of(jobs)
    is_cut = len(jobs) >= SWEEP_JOBS_MAX and sum(counts.values()) > len(jobs)
    if not is_cut:
        # As of the same position as the rows.
        counts = dict(Counter(job.state for job in jobs))
    return {
        "name": name,
        "id": None if sweep is None else sweep.id,
        "kind": None if sweep is None else sweep.kind,
        "definition": "" if sweep is None else sweep.definition,
        "at_once": None if sweep is None else sweep.at_once,
        "max_fails": None if sweep is None else sweep.max_fails,
        "stopped": None if sweep is None else sweep.stopped,
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
    seconds = None if job.started is None else max(0.0, (job.finished or now) - job.started - job.suspended_s)
    return {
        "id": job.id,
        "state": State(job.state),
        "values": values,
        "created": timestamp(job.created),
        "started": timestamp(job.started),
        "finished": timestamp(job.finished),
        "seconds": None if seconds is None else round(seconds, 3),
    }
