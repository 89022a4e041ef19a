"""What an edited job waits for: other jobs, and a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.waiting import dependents
from grassq.broker.waiting.dependents import NO_CONDITIONS, After, Conditions
from grassq.core.model import ForJobs, ForTime, Job, Wait
from grassq.core.waiting.conditions import OPTION_OF, Dependency
from grassq.errors import Refused


class NewWaits(Struct, frozen=True):
    """What an edit changes of what jobs wait for."""

    #: The conditions that are given, with no selector for one that is removed; the others stay.
    after: After = ()
    #: Whether the start time is changed: to a time of day, to a delay, or to none.
    is_timed: bool = False
    at: float | None = None
    in_s: float | None = None


class EditedWaits(Struct, frozen=True):
    """What one job waits for after an edit."""

    dependencies: tuple[Dependency, ...]
    waits: tuple[Wait, ...]
    #: The jobs that it waits for, found out anew; None if these stay as they are.
    conditions: Conditions | None = None

    @property
    def edges(self) -> int:
        """How many ends of other jobs the job waits for by the edit."""
        return 0 if self.conditions is None else len(self.conditions.unmet)


def waits_of(batch: Batch, jobs: Sequence[Job], wanted: NewWaits) -> dict[int, EditedWaits]:
    """Return what each job waits for after an edit; raise Refused for a job that would never start."""
    if not wanted.after and not wanted.is_timed:
        return {}
    for job in jobs:
        if job.tried:
            raise Refused(f"job {job.id} was started before; what it waits for cannot be changed")
    given = {condition for condition, _ in wanted.after}
    new = dependents.conditions_of(batch, wanted.after).dependencies
    dependents.check_edges([(len(jobs), Conditions(new))])
    found: dict[int, EditedWaits] = {}
    #: Found out once for all jobs that wait for the same.
    known: dict[tuple[Dependency, ...], Conditions] = {}
    for job in jobs:
        conditions = None
        if wanted.after:
            kept = [each for each in job.spec.dependencies if each.condition not in given]
            asked = tuple(sorted([*kept, *new], key=_place))
            if asked not in known:
                known[asked] = dependents.settled(batch, asked) if asked else NO_CONDITIONS
            conditions = known[asked]
            if conditions.never is not None:
                raise Refused(f"job {job.id} would never start: {conditions.never}; nothing was changed")
        found[job.id] = _waits(batch, job, wanted, conditions)
    dependents.check_unmet(batch, sum(each.edges for each in found.values()))
    _refuse_cycle(batch, {job.id for job in jobs}, {id_ for each in known.values() for id_, _ in each.unmet})
    return found


def _place(dependency: Dependency) -> int:
    return [*OPTION_OF].index(dependency.condition)


def _waits(batch: Batch, job: Job, wanted: NewWaits, conditions: Conditions | None) -> EditedWaits:
    waits: list[Wait] = []
    if job.waits_for_jobs if conditions is None else conditions.unmet:
        waits.append(ForJobs())
    time = job.for_time
    if wanted.is_timed:
        delay = None if not wanted.in_s else ForTime(batch.now + wanted.in_s, wanted.in_s)
        time = ForTime(wanted.at) if wanted.at is not None and wanted.at > batch.now else delay
    waits += [] if time is None else [time]
    return EditedWaits(
        job.spec.dependencies if conditions is None else conditions.dependencies, tuple(waits), conditions
    )


def _refuse_cycle(batch: Batch, jobs: Collection[int], parents: Collection[int]) -> None:
    """Raise Refused if a job would start after itself, directly or by others."""
    if own := sorted({*jobs} & {*parents}):
        raise Refused(f"job {own[0]} cannot start after itself; nothing was changed")
    if parents and (behind := sorted({*dependents.behind(batch, jobs)} & {*parents})):
        raise Refused(f"job {behind[0]} itself starts after one of these jobs; nothing was changed")


def relink(batch: Batch, before: Sequence[Job], found: dict[int, EditedWaits]) -> None:
    """Forget which other jobs the ends of jobs waited for, on the board and in the store; `link` has the new ones."""
    changed = [job for job in before if job.id in found and found[job.id].conditions is not None]
    ids = {job.id for job in changed}
    parents = {id_ for job in changed for each in job.spec.dependencies for id_ in each.ids}
    batch.board.dependencies.forget(ids, parents)
    batch.changes.unlinked += sorted(ids)
    batch.changes.edges[:] = [edge for edge in batch.changes.edges if edge[1] not in ids]


def link(batch: Batch, job: Job, waits: EditedWaits) -> None:
    """Let a changed job wait for the jobs of its conditions."""
    if waits.conditions is not None:
        batch.board.dependencies.drop(job.id)
        dependents.add_edges(batch, job, waits.conditions)
