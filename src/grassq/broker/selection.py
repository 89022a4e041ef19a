"""Which jobs an action means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from grassq.broker.batch import Batch
from grassq.core.model import Job
from grassq.core.names import shown
from grassq.core.syntax.numbers import id_ranges
from grassq.core.syntax.selectors import AllJobs, ByIds, ByName, ByQueue, ByWord, LastJob, Selector
from grassq.core.syntax.selectors import ByState as InState
from grassq.errors import NotFound, Refused

SELECTED_MAX = 1_000_000
NOTES_MAX = 20


def select(batch: Batch, selectors: Iterable[Selector]) -> list[Job]:
    """The jobs that selectors name, by id; naming nothing that exists is an error."""
    found: dict[int, Job] = {}
    for selector in selectors:
        resolved = resolve(batch, selector)
        jobs = batch.store.jobs(resolved, SELECTED_MAX)
        if not jobs and not _may_be_empty(batch, resolved):
            raise NotFound(f"no job matches {describe(selector)}; `grass show all` lists every job")
        found |= {job.id: batch.current(job) for job in jobs if job.id not in batch.changes.removed}
    return [found[id_] for id_ in sorted(found)]


def eligible(
    batch: Batch, selectors: Sequence[Selector], why_not: Callable[[Job], str | None]
) -> tuple[list[Job], list[str]]:
    """The jobs an action can be done to; one named by its id that it cannot be is refused, of a set skipped."""
    named = {job.id for job in select(batch, by_id_alone(selectors))}
    jobs, notes = [], []
    for job in select(batch, selectors):
        why = why_not(job)
        if why is None:
            jobs.append(job)
        elif job.id in named:
            raise Refused(why)
        else:
            notes.append(why)
    if notes and not jobs:
        raise Refused(notes[0])
    return jobs, notes[:NOTES_MAX]


def by_id_alone(selectors: Iterable[Selector]) -> list[Selector]:
    """Those of the selectors that name single jobs, and not all of a kind."""
    return [selector for selector in selectors if isinstance(selector, ByIds | LastJob)]


def present(batch: Batch, ids: Iterable[int]) -> list[Job]:
    """Those of some jobs that are still kept, as they are now."""
    return [batch.current(job) for selector in by_ids(ids) for job in batch.store.jobs(selector, SELECTED_MAX)]


def by_ids(ids: Iterable[int]) -> list[Selector]:
    """A selector for exactly these jobs."""
    ranges = id_ranges(sorted(ids))
    return [ByIds(tuple(ranges))] if ranges else []


def resolve(batch: Batch, selector: Selector) -> Selector:
    """A bare word is a queue if there is one of that name, else the name of a job."""
    if not isinstance(selector, ByWord):
        return selector
    if selector.text in batch.board.queue_names() or batch.store.jobs(ByQueue(selector.text), 1):
        return ByQueue(selector.text)
    return ByName(selector.text)


def _may_be_empty(batch: Batch, selector: Selector) -> bool:
    return isinstance(selector, AllJobs) or (
        isinstance(selector, ByQueue) and selector.name in batch.board.queue_names()
    )


def describe(selector: Selector) -> str:
    """A selector in the user's words."""
    match selector:
        case ByIds(ranges):
            return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges[:4])
        case ByWord(text) | ByName(text) | ByQueue(text):
            return shown(text)
        case InState(name):
            return name
        case LastJob(back):
            return f"@~{back}" if back else "@"
        case _:
            return "all"
