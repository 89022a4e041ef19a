"""Whether a selector names a job, by what is known of the job."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.model import Job
from grassq.core.names import Tags
from grassq.core.syntax.selectors import (
    AllJobs,
    AllOf,
    AnyOf,
    ByIds,
    ByName,
    ByProject,
    ByQueue,
    ByState,
    BySweep,
    ByTag,
    ByToken,
    ByWord,
    LastJob,
    Selector,
    Since,
)


class JobTraits(Struct, frozen=True, gc=False):
    """What a selector can ask of a job, or of jobs that have all of it but their ids in common."""

    #: The first id and the last; of jobs that differ in nothing else, one that is named is enough.
    first: int
    last: int
    state: str
    queue: str
    name: str | None
    project: str | None
    tags: Tags
    #: The token that answers for the job, while it has not ended.
    token: str | None
    #: When it ended, or else when it was submitted.
    at: float
    sweep: int | None = None


def traits_of(job: Job) -> JobTraits:
    """Return what a selector can ask of a job."""
    spec, token = job.spec, job.token if job.finished is None else None
    at = job.created if job.finished is None else job.finished
    ids, state = (job.id, job.id), job.state.value
    return JobTraits(*ids, state, spec.queue, job.name, spec.project, spec.tags, token, at, spec.sweep)


def selects(selector: Selector, job: JobTraits) -> bool:
    """Tell whether a selector names a job; the broker must have replaced words, `@` and times by what they mean."""
    match selector:
        case AllOf(parts):
            return all(selects(part, job) for part in parts)
        case AnyOf(parts):
            return any(selects(part, job) for part in parts)
        case ByIds(ranges):
            return any(first <= job.last and job.first <= last for first, last in ranges)
        case ByState(names):
            return job.state in names
        case ByQueue(name, first):
            return job.queue == name and job.last >= first
        case ByName(name):
            return job.name == name
        case ByProject(project, name, id_):
            is_job = id_ is None or job.first <= id_ <= job.last
            return job.project == project and name in (None, job.name) and is_job
        case ByTag(key, value):
            return any(each == key and value in (None, found) for each, found in job.tags)
        case ByToken(id_):
            return job.token == id_
        case Since(_, at):
            return at is not None and job.at >= at
        case AllJobs():
            return True
        case BySweep(id_):
            return job.sweep == id_
        case LastJob() | ByWord():
            return False
