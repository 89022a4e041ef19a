"""What the end of a job means for the jobs that wait for it, and what a new job waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.core.model import FINAL, ForJobs, Job, State
from grassq.core.outcome import in_words
from grassq.core.states import DependencyFailed, Ready
from grassq.core.syntax.selectors import ByIds
from grassq.core.syntax.selectors import parse as parse_selector
from grassq.core.waiting.conditions import OPTION_OF, Condition, Dependency
from grassq.core.waiting.dependencies import Verdict, decided, unmet_of
from grassq.errors import BadInput, NotFound, Refused

#: The edges of one submission: how many jobs wait, times how many jobs each waits for.
EDGES_MAX = 1_000_000
#: The unmet edges of all jobs: the broker has them in memory.
UNMET_MAX = 2_000_000
#: What is read to find the jobs that a request names: different selectors that are no ids, and rows of jobs.
SELECTORS_MAX = 100
LOOKED_AT_MAX = 1_000_000
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
#: By what jobs name: what they wait for.
AllConditions = Mapping[tuple[After, tuple[Dependency, ...]], Conditions]


class NamedJobs:
    """The jobs that the selectors of one request name: each selector is read once, and all together are bounded."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._ids: dict[str, list[int]] = {}
        self._looked_at = 0

    def check(self, texts: Iterable[str]) -> None:
        """Raise Refused if a request has more than SELECTORS_MAX different selectors that are no ids."""
        count = sum(not isinstance(parse_selector(text), ByIds) for text in set(texts))
        if count > SELECTORS_MAX:
            raise Refused(
                f"these jobs start after {count:,} different selectors; {SELECTORS_MAX} is the most in one request: "
                "name the jobs by their ids"
            )

    def of(self, condition: Condition, texts: Sequence[str], most: int) -> set[int]:
        """Return the ids of the jobs that selectors name; each id that was typed must exist.

        Raise Refused as soon as there are more than `most`.
        """
        found: set[int] = set()
        for text in texts:
            try:
                found.update(self._named(text, most))
            except (BadInput, NotFound, Refused) as error:
                raise type(error)(f"{OPTION_OF[condition]}: {error}") from None
            if len(found) > most:
                raise Refused(_too_many(f"more than {EDGES_MAX:,} dependencies"))
        return found

    def _named(self, text: str, most: int) -> list[int]:
        if text in self._ids:
            return self._ids[text]
        selector = parse_selector(text)
        ids, cost = selection.live_ids(self._batch, selector, most, LOOKED_AT_MAX - self._looked_at)
        self._looked_at += cost
        if self._looked_at > LOOKED_AT_MAX:
            raise Refused(f"more than {LOOKED_AT_MAX:,} jobs would be looked at; name the jobs by their ids")
        if isinstance(selector, ByIds) and len(ids) <= most:
            known = {*ids}
            for first, last in selector.ranges:
                if first == last and first not in known:
                    raise NotFound(f"there is no job {first}; `grass show all` lists every job")
        self._ids[text] = ids
        return ids


def conditions_of(batch: Batch, after: After, named: NamedJobs | None = None, most: int = EDGES_MAX) -> Conditions:
    """Find the jobs that selectors name now; raise NotFound for a job that does not exist, Refused above `most`."""
    if named is None:
        named = NamedJobs(batch)
        named.check(text for _, texts in after for text in texts)
    wanted = [Dependency.on(condition, named.of(condition, texts, most)) for condition, texts in after if texts]
    return settled(batch, wanted) if wanted else NO_CONDITIONS


def all_conditions(batch: Batch, counts: Mapping[tuple[After, tuple[Dependency, ...]], int]) -> AllConditions:
    """Find what the jobs of a submission wait for; `counts` has how many of them wait for the same.

    Jobs name others by selectors, or by dependencies that are known. Raise Refused for too many edges.
    """
    found: dict[tuple[After, tuple[Dependency, ...]], Conditions] = {}
    named, left = NamedJobs(batch), EDGES_MAX
    named.check(text for after, _ in counts for _, texts in after for text in texts)
    for (after, dependencies), count in counts.items():
        if after:
            made = conditions_of(batch, after, named, left // count)
        else:
            check_edges([(count, Conditions(dependencies))])
            made = settled(batch, dependencies)
        found[after, dependencies] = made
        left -= count * sum(each.count for each in made.dependencies)
        # Before the next is found: that work would be for nothing.
        check_count(EDGES_MAX - left)
    return found


def settled(batch: Batch, wanted: Sequence[Dependency]) -> Conditions:
    """Return what is still unmet of some dependencies; a job that was removed since counts no longer."""
    on = [(id_, each.condition) for each in wanted for id_ in each.ids]
    known = _states(batch, on)
    # The jobs of a rerun may start after others of it, which get the next ids.
    on = [each for each in on if each[0] in known or each[0] >= batch.next_id]
    ended = {id_: state == State.SUCCEEDED for id_, state in known.items() if state in FINAL}
    verdict, against = decided(on, ended)
    if verdict is Verdict.NEVER and against is not None:
        return Conditions(tuple(wanted), (), _why(batch.fetch([against])[against]))
    return Conditions(tuple(wanted), () if verdict is Verdict.READY else tuple(unmet_of(on, ended)))


def _states(batch: Batch, on: Iterable[tuple[int, Condition]]) -> dict[int, str]:
    """Return the state of each job that exists, as it is in this batch."""
    ids = {id_ for id_, _ in on}
    found = batch.store.states(sorted(ids))
    changes = batch.changes
    found |= {id_: after.state for id_, (_, after) in changes.updated.items() if id_ in ids}
    found |= {id_: job.state for id_, job in changes.inserted.items() if id_ in ids}
    for id_ in changes.removed:
        found.pop(id_, None)
    return found


def add_edges(batch: Batch, job: Job, conditions: Conditions) -> None:
    """Let a new job wait for others; a job that can never start fails at once."""
    unmet = set(conditions.unmet)
    for each in conditions.dependencies:
        condition = each.condition
        batch.changes.edges += [(id_, job.id, condition, int((id_, condition) not in unmet)) for id_ in each.ids]
    if unmet:
        batch.board.dependencies.add(job.id, job.spec.queue, conditions.unmet, job.token)
    if conditions.never is not None:
        # The board knows a waiting job by what it waits for.
        batch.board.dependencies.add(job.id, job.spec.queue, (), job.token)
        batch.move(job, DependencyFailed(conditions.never))


def check_edges(wanted: Iterable[tuple[int, Conditions]]) -> None:
    """Raise Refused if a submission would have too many edges; `wanted` has numbers of jobs and their conditions."""
    check_count(sum(count * sum(each.count for each in conditions.dependencies) for count, conditions in wanted))


def check_count(edges: int) -> None:
    """Raise Refused if this many edges are too many for a submission."""
    if edges > EDGES_MAX:
        raise Refused(_too_many(f"{edges:,} dependencies; {EDGES_MAX:,} is the most"))


def check_unmet(batch: Batch, more: int) -> None:
    """Raise Refused if all jobs together would wait for too many ends; `more` are new."""
    unmet = batch.board.dependencies.edges
    if more and unmet + more > UNMET_MAX:
        raise Refused(
            f"all waiting jobs together would wait for {unmet + more:,} ends of other jobs; {UNMET_MAX:,} is the most: "
            "wait until some have ended, or let one job wait for all the others, and these jobs for this job"
        )


def _too_many(how_many: str) -> str:
    return f"these jobs would have {how_many}: let one job wait for all the others, and these jobs for this job"


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
                if verdict is Verdict.FAILURE:
                    batch.changes.failure_met.append(child)
                else:
                    decided[child] = (verdict, job)
        for child, job in batch.fetch(decided).items():
            verdict, cause = decided[child]
            if job.state in FINAL:
                continue
            if verdict is Verdict.READY:
                batch.changes.freed.append(child)
                batch.move(job, Ready(ForJobs()))
            else:
                # It has ended then, and comes here once more.
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
        runs = [(each.condition, {newest[p] for p in each.ids if p in newest}) for each in dependencies]
        found[id_] = tuple([Dependency.on(condition, ids) for condition, ids in runs if ids])
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
