"""A committed change of a job, small enough that many of them can be kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from grassq.core.model import FINAL, Job, Outcome, Placement, State
from grassq.core.names import Tags
from grassq.core.query.selecting import JobTraits


class JobChange(Struct, frozen=True, gc=False):
    """What happened to a job, and how the job is after it. Holds no command and no environment."""

    #: The number of this change within one run of the broker: consecutive, one number for each range of jobs.
    seq: int
    #: Seconds since the epoch.
    at: float
    #: `submitted`, `placed`, `started`, `exited`, `held`, `priority`, `removed`, ...: the words of a job's story.
    event: str
    detail: str
    #: The first and the last job concerned. They differ only for `submitted` and `removed`.
    job: int
    last: int
    queue: str
    name: str | None
    state: State
    attempt: int
    placement: Placement | None
    reason: str | None
    outcome: Outcome | None
    exit_code: int | None
    signal: int | None
    error: str | None
    split: bool
    project: str | None = None
    tags: Tags = ()
    #: When the job ended, or else when it was submitted.
    since: float = 0.0
    sweep: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended with this change."""
        return self.state in FINAL and self.event != "removed"


def change_of(job: Job, seq: int, at: float, event: str = "", detail: str = "", last: int = 0) -> JobChange:
    """Return the change that made a job what it is now; `last` names the last job of a range."""
    return JobChange(
        seq,
        at,
        event,
        detail,
        job.id,
        last or job.id,
        job.spec.queue,
        job.name,
        job.state,
        job.attempt,
        job.placement,
        job.reason,
        job.outcome,
        job.exit_code,
        job.signal,
        job.error,
        job.spec.split,
        job.spec.project,
        job.spec.tags,
        job.created if job.finished is None else job.finished,
        job.spec.sweep,
    )


def traits_in(change: JobChange) -> JobTraits:
    """Return what a selector can ask of the jobs of a change, except for their token."""
    ids = change.job, change.last
    tags, sweep = change.tags, change.sweep
    return JobTraits(
        *ids, change.state.value, change.queue, change.name, change.project, tags, None, change.since, sweep
    )


def _alike(numbered: tuple[int, Job]) -> tuple[object, ...]:
    """Return what the jobs of one range have in common, given a job and its place in the sequence."""
    place, job = numbered
    spec = job.spec
    return job.id - place, spec.queue, spec.project, spec.sweep, spec.tags, job.name, job.state


def ranges_of(jobs: Sequence[Job]) -> list[tuple[Job, int]]:
    """Return the first job and the last id of each run of equal jobs with consecutive ids."""
    if len(jobs) == 1:
        return [(jobs[0], jobs[0].id)]
    found = []
    for _, group in groupby(enumerate(jobs), _alike):
        run = [job for _, job in group]
        found.append((run[0], run[-1].id))
    return found
