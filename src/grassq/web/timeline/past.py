"""Attempts of jobs that have ended, kept in memory: they never change, and every page asks for them again and again."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextvars import Context
from functools import partial

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Position
from grassq.broker.summary.timeline import cause_of
from grassq.core.model import State
from grassq.core.timeline.blocks import LanePart, parts_of
from grassq.store.base import TIME_MAX, PastRun, RunPosition

#: Attempts that are kept: the newest ones that were asked for.
KEPT = 20_000
#: Runs that are read in one batch.
PAGE = 400
#: With more ends than these since the last question, all is read anew.
NEWS_MAX = 2_000
#: How long an answer waits for attempts that are being read.
WAIT_S = 0.05


class PastAttempt(Struct, frozen=True, gc=False):
    """One attempt of a job that has ended."""

    job: int
    number: int
    worker: str
    parts: tuple[LanePart, ...]
    begin: float
    end: float
    state: str
    cause: str | None


class PastAttempts:
    """Keeps attempts, and knows from when on all of them are there."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: Position | None = None
        #: The oldest run that was read; None before the first.
        self._oldest: RunPosition | None = None
        self._is_all = False
        self._attempts: dict[tuple[int, int], PastAttempt] = {}
        self._reading: asyncio.Task[None] | None = None
        self._wanted_from = TIME_MAX
        self._lock = asyncio.Lock()

    @property
    def known_from(self) -> float | None:
        """Every attempt of a job that ended after this time is known; None if all are."""
        if self._is_all:
            return None
        return TIME_MAX if self._oldest is None else self._oldest[0]

    async def between(self, begin: float, end: float) -> list[PastAttempt]:
        """Return the attempts that are known and overlap a time."""
        async with self._lock:
            await self._hear_news()
        if (known_from := self.known_from) is not None and known_from > begin and len(self._attempts) < KEPT:
            self._wanted_from = min(self._wanted_from, begin)
            if self._reading is None:
                self._reading = asyncio.create_task(self._read_back(), context=Context())
            await asyncio.wait([self._reading], timeout=WAIT_S)
        return [each for each in self._attempts.values() if each.end >= begin and each.begin <= end]

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _hear_news(self) -> None:
        """Add the runs of jobs that ended since the last question, and drop those of removed jobs."""
        subscriptions = self._engine.subscriptions
        position = subscriptions.position
        changes = () if self._seen is None else subscriptions.since(self._seen)
        ended = None if changes is None else [change.job for change in changes if change.has_ended]
        if ended is None or len(ended) > NEWS_MAX:
            self._forget()
            self._seen = position
            return
        gone = [(change.job, change.last) for change in changes or () if change.event == "removed"]
        if gone:
            self._remove(gone)
        for at in range(0, len(ended), PAGE):
            self._add(await self._engine.read(partial(_runs_of, ids=ended[at : at + PAGE])))
        # Not before all was read: a store that cannot be read now is asked again.
        self._seen = position
        if len(self._attempts) > KEPT + PAGE:
            self._drop_oldest()

    def _add(self, runs: list[PastRun]) -> None:
        for run in runs:
            if (found := _attempt(run)) is not None:
                self._attempts[run.job, run.number] = found

    def _remove(self, gone: list[tuple[int, int]]) -> None:
        """Drop the attempts of removed jobs, given as ranges, which have no job in common."""
        firsts, lasts = zip(*sorted(gone), strict=True)

        def is_gone(job: int) -> bool:
            place = bisect_right(firsts, job) - 1
            return place >= 0 and job <= lasts[place]

        self._attempts = {key: each for key, each in self._attempts.items() if not is_gone(each.job)}

    def _drop_oldest(self) -> None:
        """Keep the newest attempts only."""
        ordered = sorted(self._attempts.items(), key=lambda item: item[1].end)
        gone, kept = ordered[: len(ordered) - KEPT], ordered[len(ordered) - KEPT :]
        self._attempts = dict(kept)
        self._oldest, self._is_all = (gone[-1][1].end, 0, 0), False

    def _forget(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._attempts.clear()
        self._oldest, self._is_all = None, False

    async def _read_back(self) -> None:
        """Read older runs until what was asked for is there."""
        try:
            while not self._is_all and len(self._attempts) < KEPT:
                if self._oldest is not None and self._oldest[0] <= self._wanted_from:
                    return
                before = self._oldest or (TIME_MAX, 0, 0)
                runs = await self._engine.read(partial(_runs_before, before=before))
                self._is_all = len(runs) < PAGE
                self._add(runs)
                if runs:
                    self._oldest = runs[-1].position
        finally:
            self._reading = None


def _attempt(run: PastRun) -> PastAttempt | None:
    """Return a run as it is kept; None if it never started."""
    if run.started is None or run.worker is None:
        return None
    # An attempt that was followed by another has failed.
    state = run.state if run.is_last else State.FAILED
    end = max(run.started, run.ended if run.ended is not None else run.finished)
    cause = cause_of(run.outcome, run.exit_code, run.signal) if state is State.FAILED else None
    return PastAttempt(run.job, run.number, run.worker, parts_of(run.allocation), run.started, end, str(state), cause)


def _runs_before(batch: Batch, before: RunPosition) -> list[PastRun]:
    return batch.store.runs_before(before, PAGE)


def _runs_of(batch: Batch, ids: list[int]) -> list[PastRun]:
    return batch.store.runs_of(ids)
