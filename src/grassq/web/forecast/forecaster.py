"""The forecaster: one forecast of the whole queue at a time, made in a thread, that answers many questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from grassq.broker.engine import Engine
from grassq.broker.forecasts import reading
from grassq.broker.subscriptions import Position
from grassq.core.forecast.forecast import Forecast, forecast
from grassq.core.forecast.history import RunHistory, elapsed_of
from grassq.core.forecast.run_times import RunTimes, times_by_progress
from grassq.core.forecast.scene import Scene
from grassq.core.forecast.stretch import Stretch
from grassq.core.model import Job, State
from grassq.errors import Refused
from grassq.run.rundir import streams_of
from grassq.web.logs.last_lines import LastLines, LogPlace

#: How long the plays of one forecast may take, and when even the first play is broken off.
BUDGET_S = 0.4
LATE_S = 1.5
#: A forecast of an unchanged board is used again for this time; after a change, for this multiple of its own cost.
KEPT_S = 2.0
KEPT_COSTS = 4.0
#: How many ended jobs are read at the first forecast, and at each later one.
HISTORY_FIRST = 4000
HISTORY_LATER = 1000
#: How many names of jobs without a like run are looked up in the store for each forecast.
NAMES_MAX = 8
#: How many names are remembered as looked up, the newest ones; others are looked up again.
NAMES_KEPT = 5000
#: Of how many running jobs the progress is read.
PROGRESS_MAX = 64
#: Questions that wait for their turn in the thread; one more is refused.
WAITING_MAX = 64

_T = TypeVar("_T")


class _Kept(Struct, frozen=True):
    """A forecast, what the board was like, when it was made and what it cost."""

    forecast: Forecast
    position: Position
    made: float
    cost_s: float


class Forecaster:
    """Makes forecasts from the engine's board."""

    def __init__(self, engine: Engine, last_lines: LastLines) -> None:
        """Make forecasts of an engine's board; `last_lines` tells how far running jobs are."""
        self._engine = engine
        self._last_lines = last_lines
        self.history = RunHistory()
        self.stretch = Stretch()
        self._lock = asyncio.Lock()
        self._kept: _Kept | None = None
        #: The end and the id of the newest job that the history knows.
        self._newest: tuple[float, int] | None = None
        #: The names that were looked up, in the order in which they were; the values say nothing.
        self._names: dict[str, None] = {}
        self._waiting = 0

    async def latest(self, budget_s: float = BUDGET_S) -> Forecast:
        """Return a forecast of the board as it is now, or as it was a moment ago."""
        async with self._lock:
            kept, now = self._kept, time.monotonic()
            if kept is not None:
                is_same = kept.position == self._engine.subscriptions.position
                if now - kept.made < (KEPT_S if is_same else KEPT_COSTS * kept.cost_s):
                    return kept.forecast
            position = self._engine.subscriptions.position
            scene = await self._scene()
            known = await self._progress(scene)
            began = time.monotonic()
            made = await _in_thread(partial(self.play, scene, known, budget_s))
            over = time.monotonic()
            self._kept = _Kept(made, position, over, over - began)
            return made

    @property
    def position(self) -> Position | None:
        """What the board was like in the latest forecast; None before the first."""
        return None if self._kept is None else self._kept.position

    async def in_turn(self, work: Callable[[], _T]) -> _T:
        """Do work that plays, or asks a forecast about many jobs, in a thread; only one such work is done at a time."""
        if self._waiting >= WAITING_MAX:
            raise Refused(f"{WAITING_MAX} questions about the future of the queue wait already; ask again in a moment")
        self._waiting += 1
        try:
            async with self._lock:
                return await _in_thread(work)
        finally:
            self._waiting -= 1

    async def learn(self) -> None:
        """Bring the history up to date."""
        async with self._lock:
            await self._scene()

    async def _scene(self) -> Scene:
        await self._learn()
        scene = await self._engine.read(reading.scene)
        await self._learn_names(scene)
        return scene

    def play(self, scene: Scene, known: Mapping[int, RunTimes] | None = None, budget_s: float = BUDGET_S) -> Forecast:
        """Play a scene as often as the budget allows; called in a thread. `known` is what jobs say of themselves."""
        began = time.monotonic()
        return forecast(
            scene,
            self.history,
            lambda plays: time.monotonic() - began > budget_s,
            known=known,
            stretch=self.stretch,
            is_late=lambda: time.monotonic() - began > LATE_S,
        )

    async def _progress(self, scene: Scene) -> dict[int, RunTimes]:
        """Return the run times of running jobs that write how far they are."""
        running = {job.id: job for job in scene.holding if job.state is State.RUNNING}
        ends = await self._last_lines.read(
            LogPlace(job.id, job.attempt, stream, job.placement.worker)
            for job in [*running.values()][:PROGRESS_MAX]
            if job.placement is not None
            for stream in streams_of(job.spec.split)
        )
        found: dict[int, RunTimes] = {}
        for place, end in ends.items():
            if (said := end.progress) is not None:
                elapsed_s = elapsed_of(running[place.job], scene.wall)
                times = times_by_progress(elapsed_s, said.fraction, said.left_s)
                if times is not None:
                    found[place.job] = times
        return found

    async def _learn(self) -> None:
        """Read the jobs that ended since the last time, newest first and within a bound."""
        found: list[Job] = []
        before: tuple[float, int] | None = None
        most = HISTORY_FIRST if self._newest is None else HISTORY_LATER
        while len(found) < most:
            page = await self._engine.read(partial(reading.ended_page, before=before))
            new = [job for job in page if self._newest is None or _ended(job) > self._newest]
            found += new
            if not page or len(new) < reading.HISTORY_PAGE:
                break
            before = _ended(page[-1])
        for job in reversed(found):
            self.history.add(job)
        if found:
            self._newest = _ended(found[0])

    async def _learn_names(self, scene: Scene) -> None:
        """Read earlier jobs of names that the history does not know: many others may have ended since."""
        names = {job.name for job in (*scene.holding, *scene.queued) if job.name is not None} - self._names.keys()
        for name in sorted(names)[:NAMES_MAX]:
            self._names[name] = None
            if not self.history.knows(("sweep", name)):
                for job in reversed(await self._engine.read(partial(reading.named_page, name=name))):
                    self.history.add(job)
        while len(self._names) > NAMES_KEPT:
            del self._names[next(iter(self._names))]


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Do work in a thread; when cancelled, wait for the thread too, so that no other work begins beside it."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def _ended(job: Job) -> tuple[float, int]:
    return job.finished or 0.0, job.id
