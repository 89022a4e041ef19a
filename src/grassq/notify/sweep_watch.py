"""Tells whether all jobs of a sweep have ended, without looking at all of them after each end."""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import partial

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.core.model import FINAL, Job
from grassq.core.notices.notice import JobEnd, SweepTally
from grassq.store.base import JobScan

#: How many jobs one step reads; the engine works for others between two steps.
STEP_JOBS = 100
#: The sweeps that are remembered; another one is looked at from its last job on.
SWEEPS_MAX = 200

#: What the jobs of one sweep share: `sweep:ID` or their name, and the moment of their submission.
SweepKey = tuple[str, float]


class SweepState(Struct):
    """How far the jobs of a sweep were looked at, from the last to the first."""

    #: A job that has not ended.
    open_job: int | None = None
    #: Jobs from this id on were looked at, and have ended.
    below: int | None = None
    looked_at: int = 0
    is_over: bool = False

    @property
    def has_several(self) -> bool:
        """Whether there is a job besides the one that has ended and was asked for."""
        return self.open_job is not None or self.looked_at > 1


class SweepWatch:
    """Remembers one unfinished job of each sweep: until that job ends, the sweep is not over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sweeps: OrderedDict[SweepKey, SweepState] = OrderedDict()

    async def look(self, end: JobEnd) -> SweepState | None:
        """Return how far the sweep of a job is; None for a job that is no part of a sweep."""
        key = end.sweep
        if key is None:
            return None
        state = self._sweeps.setdefault(key, SweepState())
        self._sweeps.move_to_end(key)
        if len(self._sweeps) > SWEEPS_MAX:
            self._sweeps.popitem(last=False)
        while not await self._engine.read(partial(_step, key=key, state=state)):
            pass
        return state if state.has_several else None

    async def tally(self, end: JobEnd) -> SweepTally:
        """Count how the jobs of a sweep ended that is over."""
        assert end.sweep is not None
        counts: Counter[str] = Counter()
        last, below = end.finished, None
        name = await self._engine.read(partial(_name, end=end))
        while True:
            jobs, below = await self._engine.read(partial(_page, key=end.sweep, below=below))
            counts.update(job.state.value for job in jobs)
            last = max([last, *(job.finished or 0.0 for job in jobs)])
            if below is None:
                return SweepTally(
                    name, counts.total(), counts["succeeded"], counts["failed"], counts["cancelled"], last - end.created
                )


def _name(batch: Batch, end: JobEnd) -> str:
    """Return what a sweep is called."""
    sweep = None if end.sweep_id is None else batch.store.sweeps([end.sweep_id]).get(end.sweep_id)
    return (end.name or "") if sweep is None else sweep.name


def _step(batch: Batch, key: SweepKey, state: SweepState) -> bool:
    """Look at some more jobs; return whether the answer is known."""
    if state.is_over:
        return True
    if state.open_job is not None:
        if batch.alive(state.open_job) is not None:
            return True
        state.below, state.open_job = state.open_job, None
    jobs, below = _page(batch, key, state.below)
    for job in jobs:
        state.looked_at += 1
        if job.state not in FINAL:
            state.open_job = job.id
            return True
        state.below = job.id
    state.is_over, state.below = below is None, below
    return state.is_over


def _page(batch: Batch, key: SweepKey, below: int | None) -> tuple[list[Job], int | None]:
    """Return some jobs of a sweep, from the last to the first, and the id below which there may be more."""
    name, created = key
    after = None if below is None else (0.0, below)
    # No name of a job has a colon.
    _, colon, id_ = name.partition(":")
    scan = JobScan(sweep=int(id_) if colon else None, name=None if colon else name, descending=True, after=after)
    found = batch.store.scan(scan, STEP_JOBS)
    jobs = [batch.current(job) for job in found if job.created == created]
    # Jobs of one submission follow each other, so an older one is behind all of them.
    is_last = len(found) < STEP_JOBS or any(job.created < created for job in found)
    return jobs, None if is_last else found[-1].id
