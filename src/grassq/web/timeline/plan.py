"""What comes next, by the forecast: made at most now and then, and shared by all questions."""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from functools import partial

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.forecasts import reading
from grassq.broker.forecasts.reading import Asked
from grassq.broker.subscriptions import Position
from grassq.broker.summary.timeline import Placed, blocks_on, job_infos
from grassq.broker.views import Document
from grassq.core.forecast.forecast import Forecast, Interval
from grassq.core.model import Job, State
from grassq.core.timeline.blocks import LaneBlock
from grassq.errors import GrassError
from grassq.web.forecast.forecaster import Forecaster

log = logging.getLogger(__name__)

#: How many running and queued jobs a plan has.
RUNNING_MAX, PLANNED_MAX = 200, 200
#: How long the plays for a plan may take.
BUDGET_S = 0.1
#: After a change a plan is made anew, but not before this time, nor before this multiple of what it cost.
FRESH_S, FRESH_COSTS = 2.0, 20.0
#: Without a change it is made anew after this time; an older one is not shown.
AGED_S, KEPT_S = 30.0, 120.0
#: How long an answer waits for the first plan.
WAIT_S = 0.03

#: Low end, middle and high end, in seconds since the epoch.
Times = tuple[float, float, float]


class TimelinePlan(Struct, frozen=True):
    """What is planned: blocks that begin later, and when jobs start and end."""

    position: Position | None
    made: float
    cost_s: float
    blocks: Placed
    starts: dict[int, Times]
    ends: dict[int, Times]
    jobs: dict[int, Document]


class Planner:
    """Makes plans while there are questions."""

    def __init__(self, engine: Engine, forecaster: Forecaster) -> None:
        self._engine = engine
        self._forecaster = forecaster
        self._plan: TimelinePlan | None = None
        self._making: asyncio.Task[None] | None = None

    async def latest(self) -> TimelinePlan | None:
        """Return the last plan that is not too old; None if there is none yet."""
        now = time.monotonic()
        if self._making is None and self._is_stale(now):
            self._making = asyncio.create_task(self._make(), context=Context())
        if self._making is not None and self._plan is None:
            await asyncio.wait([self._making], timeout=WAIT_S)
        plan = self._plan
        return plan if plan is not None and now - plan.made < KEPT_S else None

    def is_current(self, plan: TimelinePlan | None) -> bool:
        """Tell whether a plan knows all changes so far."""
        return plan is not None and plan.position == self._engine.subscriptions.position

    async def close(self) -> None:
        """Make no more plans."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    def _is_stale(self, now: float) -> bool:
        plan = self._plan
        if plan is None:
            return True
        age_s = now - plan.made
        changed = plan.position != self._engine.subscriptions.position
        return age_s > AGED_S or (changed and age_s > max(FRESH_S, FRESH_COSTS * plan.cost_s))

    async def _make(self) -> None:
        began = time.monotonic()
        try:
            forecast = await self._forecaster.latest(BUDGET_S)
            # It may have been made for another question, a moment ago.
            position = self._forecaster.position
            asked, jobs = await self._engine.read(partial(_asked, forecast=forecast))
            blocks, starts, ends = await self._forecaster.in_turn(partial(_planned, forecast, asked))
            over = time.monotonic()
            self._plan = TimelinePlan(position, over, over - began, blocks, starts, ends, jobs)
        except GrassError as error:
            log.info("no_plan error=%s", error)
        finally:
            self._making = None


def _asked(batch: Batch, forecast: Forecast) -> tuple[list[Asked], dict[int, Document]]:
    """Return the first running and queued jobs of a forecast, and what is told of them."""
    running = [job for job in forecast.scene.holding if job.state is State.RUNNING][:RUNNING_MAX]
    queued = sorted((job for job in forecast.scene.queued if job.state is State.QUEUED), key=lambda job: job.order)
    some: list[Job] = [*running, *queued[:PLANNED_MAX]]
    return reading.with_places(batch, some), job_infos(batch, queued[:PLANNED_MAX])


def _planned(forecast: Forecast, asked: list[Asked]) -> tuple[Placed, dict[int, Times], dict[int, Times]]:
    """Return the blocks of queued jobs, and when jobs start and end; called in a thread."""
    blocks: Placed = []
    starts: dict[int, Times] = {}
    ends: dict[int, Times] = {}
    for each in asked:
        job, found = each.job, forecast.of(each.job, each.place)
        if found.ends is not None:
            ends[job.id] = _times(found.ends)
        if job.state is not State.QUEUED or found.starts is None or found.where is None:
            continue
        starts[job.id] = _times(found.starts)
        end = None if found.ends is None else found.ends.likely
        block = LaneBlock(job.id, job.attempt + 1, "planned", str(job.state), found.starts.likely, end, 0.0)
        blocks += blocks_on(found.where.worker, found.where.allocation, block)
    return blocks, starts, ends


def _times(interval: Interval) -> Times:
    return interval.low, interval.likely, interval.high
