"""The jobs of a sweep, read from the store in steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.broker.documents.texts import word_text
from grassq.core.model import Job
from grassq.core.sweeps.parameters import LINE_CHARS_MAX, WORD_CHARS_MAX, WORDS_MAX
from grassq.core.sweeps.sweep import Sweep
from grassq.core.sweeps.table import SweepJob, numbers_of
from grassq.store.base import JobScan

#: The most jobs of one sweep that are read, the newest; and how many one step reads.
SWEEP_JOBS_MAX, STEP_JOBS = 10_000, 250
#: The most bytes of a character.
UTF8_MAX = 4


#: Which jobs: those of a sweep by its id, or those of a name.
Which = int | str


def newest_jobs(batch: Batch, which: Which, below: int) -> list[SweepJob]:
    """Return the next jobs of a sweep or a name with ids below `below`, the newest first, at most STEP_JOBS."""
    scan = JobScan(sweep=which) if isinstance(which, int) else JobScan(name=which)
    stored = batch.store.scan(replace(scan, descending=True, after=(0.0, below)), STEP_JOBS)
    return [sweep_job(job) for job in stored]


def changed_jobs(batch: Batch, which: Which, ids: Iterable[int]) -> list[SweepJob]:
    """Return those of some jobs that still exist and are of this sweep, or have this name."""
    return [sweep_job(job) for job in batch.store.some([*ids]) if which in (job.spec.sweep, job.name)]


def counts_of(batch: Batch, which: Which) -> tuple[dict[str, int], Sweep | None]:
    """Return how many jobs of a sweep or a name are in each state, and the sweep."""
    if isinstance(which, int):
        return dict(batch.store.of_sweep(which)), batch.store.sweeps([which]).get(which)
    return batch.store.named(which), None


class ListedSweep(Struct, frozen=True):
    """A sweep with how many of its jobs are in each state, its newest job and the queue of that."""

    sweep: Sweep
    counts: Mapping[str, int]
    newest: int
    queue: str


def listed_sweep(batch: Batch, sweep: Sweep) -> ListedSweep | None:
    """Return a sweep as a list shows it; None if it has no job any more."""
    newest = batch.store.last_of_sweep(sweep.id)
    jobs = batch.store.some([newest])
    if not jobs:
        return None
    return ListedSweep(sweep, batch.store.of_sweep(sweep.id), newest, jobs[0].spec.queue)


def sweep_job(job: Job) -> SweepJob:
    """Return what a sweep shows of a job."""
    is_line = job.spec.shell is not None
    most = LINE_CHARS_MAX if is_line else WORD_CHARS_MAX
    # A line is split when the table is made, which is not done in the engine.
    words = [word_text(word[: most * UTF8_MAX])[:most] for word in job.spec.command[:WORDS_MAX]]
    return SweepJob(
        job.id,
        job.state.value,
        job.spec.queue,
        job.created,
        job.started,
        job.finished,
        () if job.spec.parameters else tuple(words),
        job.spec.parameters,
        # The names are shared by all jobs of a sweep, which mostly have the same ones.
        {sys.intern(name): number for name, number in numbers_of(job.result).items()},
        is_line,
        job.suspended_s,
    )


def beginnings(batch: Batch, groups: Iterable[tuple[int, int]]) -> dict[int, float]:
    """Return when the first job of each group was submitted, by its id; groups are first and last jobs.

    A group whose first and last job are parts of sweeps is left out: the sweeps stand for it.
    """
    pairs = [*groups]
    jobs = {job.id: job for job in batch.store.some(sorted({id_ for pair in pairs for id_ in pair}))}
    found = {}
    for pair in pairs:
        ends = [job for id_ in pair if (job := jobs.get(id_)) is not None]
        if ends and any(job.spec.sweep is None for job in ends):
            found[pair[0]] = ends[0].created
    return found
