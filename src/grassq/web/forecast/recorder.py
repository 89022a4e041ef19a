"""The recorder: now and then it stores what the forecast says of some jobs, and judges what it said earlier.

One look a minute, and only if something changed since the last. At each look a few jobs that run get a prediction of
their end and a few queued jobs one of their start, at most one of each kind per job. When their time has come, the
difference teaches the forecaster how wide its intervals must be, also after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.forecasts import predictions, reading
from grassq.broker.subscriptions import Position
from grassq.core.forecast.forecast import Forecast, Interval
from grassq.core.model import Job, State
from grassq.errors import GrassError
from grassq.store.base import Prediction
from grassq.web.forecast.forecaster import Forecaster

log = logging.getLogger(__name__)

PERIOD_S = 60.0
#: How long the plays of one look may take.
BUDGET_S = 0.15
#: New predictions of each kind in one look, and how many may wait for their time.
NEW_MAX = 10
WAITING_MAX = 300
#: A start that is nearer is not worth a prediction.
NEAR_S = 1.0


class Recorder:
    """Stores and judges predictions in the background."""

    def __init__(self, engine: Engine, forecaster: Forecaster, period_s: float = PERIOD_S) -> None:
        self._engine = engine
        self._forecaster = forecaster
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None
        #: The predictions whose time has not come, by job and kind; None before the first look.
        self._waiting: dict[tuple[int, str], Prediction] | None = None
        self._seen: Position | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                await self.look()
            except GrassError as error:
                log.info("no_predictions error=%s", error)
            except Exception:
                # The top of the loop: a bug in one look must not end the next ones. The log has the cause.
                log.exception("look_failed")

    async def look(self) -> None:
        """Judge predictions whose time has come, and make new ones."""
        position = self._engine.subscriptions.position
        if position == self._seen:
            return
        if self._waiting is None:
            self._waiting = await self._load()
        waiting = self._waiting
        judged = await self._engine.change(partial(predictions.judge, waiting=[*waiting.values()]))
        self._learn(judged)
        now_waiting = [each for each in await self._engine.read(predictions.stored) if each.actual is None]
        self._waiting = waiting = {(each.job, each.kind): each for each in now_waiting}
        if len(waiting) < WAITING_MAX:
            forecast = await self._forecaster.latest(BUDGET_S)
            made = await self._engine.read(partial(self._new, forecast))
            if made:
                await self._engine.change(partial(predictions.record, made=made))
                waiting |= {(each.job, each.kind): each for each in made}
        self._seen = position

    async def _load(self) -> dict[tuple[int, str], Prediction]:
        stored = await self._engine.read(predictions.stored)
        self._learn([each for each in stored if each.actual is not None])
        return {(each.job, each.kind): each for each in stored if each.actual is None}

    def _learn(self, judged: list[Prediction]) -> None:
        for each in judged:
            if each.actual is not None:
                self._forecaster.stretch.learn(each.kind, [(each.low, each.high, each.actual)])

    def _new(self, forecast: Forecast, batch: Batch) -> list[Prediction]:
        """Return predictions for jobs that have none of their kind, as far as there are estimates."""
        known, now = self._waiting or {}, forecast.scene.wall
        running = [job for job in forecast.scene.holding if job.state is State.RUNNING and (job.id, "end") not in known]
        queued = [job for job in forecast.scene.queued if (job.id, "start") not in known]
        # Queued ones from the whole line, the first ones included.
        some = [*running[:NEW_MAX], *queued[:: max(1, len(queued) // NEW_MAX)][:NEW_MAX]]
        now_so = batch.fetch([job.id for job in some])
        made = []
        # A forecast is a moment old: what has changed since is left out.
        for each in reading.with_places(batch, [job for job in some if job.id in now_so and now_so[job.id] == job]):
            found = forecast.of(each.job, each.place)
            if each.job.state is State.RUNNING and found.ends is not None:
                made.append(_prediction(each.job, "end", found.ends, found.basis, now))
            elif each.job.state is State.QUEUED and found.starts is not None and found.starts.likely - now > NEAR_S:
                made.append(_prediction(each.job, "start", found.starts, found.basis, now))
        return made


def _prediction(job: Job, kind: str, interval: Interval, basis: str, now: float) -> Prediction:
    # In brackets is the sort of like runs: `12 like runs (same name), 2 running jobs`.
    sort = basis.partition("(")[2].partition(")")[0] or basis.partition(",")[0]
    return Prediction(
        job=job.id,
        kind="start" if kind == "start" else "end",
        made=now,
        low=interval.low,
        likely=interval.likely,
        high=interval.high,
        basis=sort,
    )
