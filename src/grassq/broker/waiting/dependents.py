"""What the end of a job means for the jobs that wait for it, and what a new job waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.core.model import FINAL, ForJobs, Job, State
from grassq.core.outcome import in_words
from grassq.core.states import DependencyFailed, Ready
from grassq.core.syntax.numbers import id_ranges
from grassq.core.syntax.selectors import ByIds
from grassq.core.syntax.selectors import parse as parse_selector
from grassq.core.waiting.conditions import OPTION_OF, Condition, Dependency
from grassq.core.waiting.dependencies import Verdict, decided
from grassq.errors import BadInput, NotFound, Refused

#: The edges of one submission: how many jobs wait, times how many jobs each waits for.
EDGES_MAX = 1_000_000
#: The most jobs that an action finds behind others.
DEPENDENTS_MAX = 10_000


class Conditions(Struct, frozen=True):
    """What the jobs of a submission wait for, found out once for all of them."""

    dependencies: tuple[Dependency, ...] = ()
    #: The jobs that have not ended, and the condition each is in.
    unmet: tuple[tuple[int, Condition], ...] = ()
    #: Why the jobs can never start; None if they can.
    never: str | None = None


NO_CONDITIONS = Conditions()
#: The selectors of each condition, as they were typed.
After = tuple[tuple[Condition, tuple[str, ...]], ...]


def conditions_of(batch: Batch, after: After) -> Conditions:
    """Find the jobs that selectors name now; raise NotFound for a job that does not exist."""
    wanted = [
        Dependency(condition, tuple(id_ranges(_named(batch, condition, texts)))) for condition, texts in after if texts
    ]
    return settled(batch, wanted) if wanted else NO_CONDITIONS


def settled(batch: Batch, wanted: Sequence[Dependency]) -> Conditions:
    """Return what is still unmet of some dependencies."""
    on = [(id_, each.condition) for each in wanted for id_ in each.ids]
    ended = {job.id: job for job in batch.fetch({id_ for id_, _ in on}).values() if job.state in FINAL}
    verdict, against = decided(on, {id_: job.state is State.SUCCEEDED for id_, job in ended.items()})
    if verdict is Verdict.NEVER and against is not None:
        return Conditions(tuple(wanted), (), _why(ended[against]))
    unmet = () if verdict is Verdict.READY else tuple([each for each in on if each[0] not in ended])
    return Conditions(tuple(wanted), unmet)


def _named(batch: Batch, condition: Condition, texts: Sequence[str]) -> list[int]:
    """Return the ids of the jobs that selectors name; each id that was typed must exist."""
    option = OPTION_OF[condition]
    selectors = [parse_selector(text) for text in texts]
    try:
        jobs = selection.select(batch, selectors, EDGES_MAX, live=True)
    except (BadInput, NotFound) as error:
        raise type(error)(f"{option}: {error}") from None
    found = {job.id for job in jobs}
    typed = [first for each in selectors if isinstance(each, ByIds) for first, last in each.ranges if first == last]
    for id_ in typed:
        if id_ not in found:
            raise NotFound(f"{option}: there is no job {id_}; `grass show all` lists every job")
    return sorted(found)


def add_edges(batch: Batch, job: Job, conditions: Conditions) -> None:
    """Let a new job wait for others; a job that can never start fails at once."""
    unmet = set(conditions.unmet)
    for each in conditions.dependencies:
        condition = each.condition
        batch.changes.edges += [(id_, job.id, condition, int((id_, condition) not in unmet)) for id_ in each.ids]
    if unmet:
        batch.board.dependencies.add(job.id, job.spec.queue, conditions.unmet)
    if conditions.never is not None:
        # The board knows a waiting job by what it waits for.
        batch.board.dependencies.add(job.id, job.spec.queue, ())
        batch.move(job, DependencyFailed(conditions.never))


def check_edges(wanted: Iterable[tuple[int, Conditions]]) -> None:
    """Raise Refused if a submission would have too many edges; `wanted` has numbers of jobs and their conditions."""
    edges = sum(count * sum(each.count for each in conditions.dependencies) for count, conditions in wanted)
    if edges > EDGES_MAX:
        raise Refused(
            f"these jobs would have {edges:,} dependencies; {EDGES_MAX:,} is the most: let one job wait for all the "
            "others, and these jobs for this job"
        )


def settle(batch: Batch) -> None:
    """Queue the jobs whose conditions hold now, and fail those whose conditions can no longer come true.

    The failures go down the chain in the same batch, each with a reason that names the job before it.
    """
    while batch.ended:
        ended, batch.ended = batch.ended, []
        decided: dict[int, tuple[Verdict, Job]] = {}
        for job in ended:
            batch.changes.met.append(job.id)
            batch.changes.freed.append(job.id)
            for child, verdict in batch.board.dependencies.end(job.id, succeeded=job.state is State.SUCCEEDED):
                decided[child] = (verdict, job)
        for child, job in batch.fetch(decided).items():
            verdict, cause = decided[child]
            if job.state in FINAL:
                continue
            batch.changes.freed.append(child)
            if verdict is Verdict.READY:
                batch.move(job, Ready(ForJobs()))
            else:
                batch.move(job, DependencyFailed(_why(cause)))


def _why(job: Job) -> str:
    """Return why a job that waited for another one can never start."""
    if job.state is State.SUCCEEDED:
        return f"job {job.id} succeeded"
    how = "" if job.state is State.CANCELLED else in_words(job.outcome, job.exit_code, job.signal)
    return f"job {job.id} {'was cancelled' if job.state is State.CANCELLED else 'failed'}" + (
        f" ({how})" if how else ""
    )


def behind(batch: Batch, ids: Iterable[int]) -> list[int]:
    """Return the jobs that start after these, directly or by others, in order; at most DEPENDENTS_MAX."""
    found: set[int] = set()
    new = set(ids)
    first = set(new)
    while new:
        inserted = {child for parent, child, *_ in batch.changes.edges if parent in new}
        new = {*batch.store.dependents(sorted(new)), *inserted} - found - first
        found |= new
        if len(found) > DEPENDENTS_MAX:
            raise Refused(f"more than {DEPENDENTS_MAX:,} jobs start after these; name fewer jobs")
    return sorted(found)


def of_reruns(batch: Batch, jobs: Sequence[Job]) -> dict[int, tuple[Dependency, ...]]:
    """Return what the next runs of some jobs start after: the newest run of each job that they were to start after.

    The next runs get the next ids, in this order. A job that was removed since counts no longer.
    """
    wanted = {job.id: job.spec.dependencies for job in jobs if job.spec.dependencies}
    if not wanted:
        return {}
    known = _newest_runs(batch, {id_ for each in wanted.values() for one in each for id_ in one.ids})
    firsts = {job.rerun_of or job.id: id_ for id_, job in enumerate(jobs, batch.next_id)}
    newest = {id_: firsts.get(first, run) for id_, (first, run) in known.items()}
    found = {}
    for id_, dependencies in wanted.items():
        runs = [(each.condition, sorted({newest[p] for p in each.ids if p in newest})) for each in dependencies]
        found[id_] = tuple([Dependency(condition, tuple(id_ranges(ids))) for condition, ids in runs if ids])
    return found


def _newest_runs(batch: Batch, ids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the first and the newest run of each job that is stored."""
    known = {id_: job.rerun_of or id_ for id_, job in batch.fetch(ids).items()}
    newest = {first: first for first in known.values()}
    runs = [*batch.store.reruns(sorted(newest)), *batch.changes.inserted.values()]
    for run in runs:
        if run.rerun_of in newest:
            newest[run.rerun_of] = max(newest[run.rerun_of], run.id)
    return {id_: (first, max(newest[first], id_)) for id_, first in known.items()}
