"""The jobs of a sweep, read from the store in steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from grassq.broker.batch import Batch
from grassq.broker.documents.texts import word_text
from grassq.core.model import Job
from grassq.core.sweeps.parameters import LINE_CHARS_MAX, WORD_CHARS_MAX, WORDS_MAX
from grassq.core.sweeps.table import SweepJob, numbers_of
from grassq.store.base import JobScan

#: The most jobs of one sweep that are read, the newest; and how many one step reads.
SWEEP_JOBS_MAX, STEP_JOBS = 10_000, 250
#: The most bytes of a character.
UTF8_MAX = 4


def newest_jobs(batch: Batch, name: str, below: int) -> list[SweepJob]:
    """Return the next jobs of a name with ids below `below`, the newest first, at most STEP_JOBS."""
    stored = batch.store.scan(JobScan(name=name, descending=True, after=(0.0, below)), STEP_JOBS)
    return [sweep_job(job) for job in stored]


def changed_jobs(batch: Batch, name: str, ids: Iterable[int]) -> list[SweepJob]:
    """Return those of some jobs that still exist and have this name."""
    return [sweep_job(job) for job in batch.store.some([*ids]) if job.name == name]


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
    )


def created_of(batch: Batch, ids: Iterable[int]) -> dict[int, float]:
    """Return when some jobs were submitted."""
    return {job.id: job.created for job in batch.store.some([*ids])}
