"""The route of `history`: runs of ended jobs, counted in steps while the engine works for others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Literal, TypedDict, get_args

from aiohttp import web

from grassq.broker import tokens
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import timestamp
from grassq.broker.engine import Engine
from grassq.broker.selection import Reading, begin, read
from grassq.core.history.tally import NONE, HistoryGroupDocument, HistoryTally, RunFacts
from grassq.core.model import FINAL
from grassq.core.names import shown
from grassq.core.syntax.durations import duration_s
from grassq.core.syntax.selectors import Selector
from grassq.errors import BadInput, GrassError, Refused
from grassq.store.base import PastRun, RunPosition
from grassq.web import requests
from grassq.web.access.auth import Route
from grassq.web.access.description import SELECTORS, Description, Parameter
from grassq.web.access.principal import CALLER
from grassq.web.access.turns import CallerTurns
from grassq.web.responses import SlowAnswer

#: How runs are grouped.
By = Literal["day", "queue", "name", "worker", "user"]
GROUPINGS: tuple[By, ...] = get_args(By)
#: The default of `since`.
SINCE = "30d"
#: How many rows a step reads: as many as a page of jobs has.
STEP_RUNS = 500
#: The most runs of one answer: their waiting times are kept until the end.
RUNS_MAX = 2_000_000
#: A day begins at a quarter of an hour in every time zone; the day of each quarter is remembered.
QUARTER_S = 900
DAYS_CACHED = 4096
#: The caller of requests on the unix socket, for its turns.
_OWNER = "owner"


class HistoryDocument(TypedDict):
    """Runs of ended jobs, counted in groups."""

    #: The version of this format.
    schema: int
    by: By
    since: str
    groups: list[HistoryGroupDocument]
    total: HistoryGroupDocument


class History:
    """The handler. A caller has one history made at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = CallerTurns(1)

    def routes(self) -> list[Route]:
        """Return the route."""
        about = Description(
            "jobs",
            "Runs of ended jobs, counted in groups",
            HistoryDocument,
            query=(
                SELECTORS,
                Parameter("by", "How runs are grouped", By, "day"),
                Parameter("since", "How far back, such as 12h or 30d", default=SINCE),
            ),
        )
        return [Route("GET", "/v1/history", self.show, "read", about=about)]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with the groups and their total."""
        by, since = _read_by(request.query.get("by", "day")), request.query.get("since", SINCE)
        earliest = time.time() - duration_s(since, "since")
        chosen = requests.selectors(request)
        users = await self._engine.read(tokens.names)
        counter = RunCounter(partial(_group, by=by, users=users))
        answer = SlowAnswer(request)
        async with self._turns.of(request[CALLER].token or _OWNER):
            try:
                if chosen:
                    await self._count_selected(counter, chosen, earliest, answer)
                else:
                    await self._count_all(counter, earliest, answer)
            except GrassError as error:
                return await answer.refuse(error)
        return await answer.end(
            HistoryDocument(
                schema=1,
                by=by,
                since=timestamp(earliest),
                groups=counter.tally.rows(by_name=by == "day"),
                total=counter.tally.total.document(None),
            )
        )

    async def _count_all(self, counter: RunCounter, earliest: float, answer: SlowAnswer) -> None:
        after: RunPosition = (earliest, 0, 0)
        while True:
            runs = await self._engine.read(partial(_runs_after, after=after))
            counter.count(runs)
            if len(runs) < STEP_RUNS:
                return
            after = runs[-1].position
            await answer.keep_alive()

    async def _count_selected(
        self, counter: RunCounter, chosen: list[Selector], earliest: float, answer: SlowAnswer
    ) -> None:
        reading = await self._engine.read(lambda batch: begin(batch, chosen))
        while not reading.is_over:
            runs, reading = await self._engine.read(partial(_runs_of, reading=reading, earliest=earliest))
            counter.count(runs)
            await answer.keep_alive()


def _runs_after(batch: Batch, after: RunPosition) -> list[PastRun]:
    return batch.store.runs_after(after, STEP_RUNS)


def _runs_of(batch: Batch, reading: Reading, earliest: float) -> tuple[list[PastRun], Reading]:
    found, reading = read(batch, reading, STEP_RUNS)
    ids = [job.id for job, _ in found if job.state in FINAL and (job.finished or 0.0) >= earliest]
    return (batch.store.runs_of(ids) if ids else []), reading


class RunCounter:
    """Counts runs that come job by job, and of each job by attempt."""

    def __init__(self, group: Callable[[PastRun], str]) -> None:
        self.tally = HistoryTally()
        self._group = group
        #: The last job with an attempt that started.
        self._started_job = 0

    def count(self, runs: Iterable[PastRun]) -> None:
        """Count some runs; raise Refused if there are too many."""
        for run in runs:
            self.tally.add(self._group(run), self._facts(run))
        if self.tally.total.runs > RUNS_MAX:
            raise Refused(f"there are more than {RUNS_MAX:,} runs; ask for a shorter time with --since")

    def _facts(self, run: PastRun) -> RunFacts:
        state = run.state.value if run.is_last else None
        if run.started is None:
            return RunFacts(state, None, None, run.allocation)
        is_first, self._started_job = run.job != self._started_job, run.job
        ended = run.finished if run.ended is None else run.ended
        return RunFacts(state, ended - run.started, run.started - run.created if is_first else None, run.allocation)


def _group(run: PastRun, by: By, users: dict[str, str]) -> str:
    match by:
        case "day":
            return _day(int(run.finished // QUARTER_S) * QUARTER_S)
        case "queue":
            return run.queue
        case "name":
            return run.name or NONE
        case "worker":
            return run.worker or NONE
        case "user":
            return "owner" if run.token is None else users.get(run.token) or run.token


@lru_cache(DAYS_CACHED)
def _day(at: int) -> str:
    """Return the day of the broker's clock."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _read_by(text: str) -> By:
    if text == "project":
        raise BadInput(f"there are no projects yet; group by {', '.join(GROUPINGS)}")
    for known in GROUPINGS:
        if text == known:
            return known
    raise BadInput(f"by={shown(text)} is not a way to group; the ways are {', '.join(GROUPINGS)}")
