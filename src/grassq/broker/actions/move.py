"""Move jobs that have not started to another place among jobs of equal priority: all of a request, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.actions.bulk import LISTED_MAX, BulkResult
from grassq.broker.actions.edit import Editor, recalled, why_not_now
from grassq.broker.batch import Batch
from grassq.core.model import Job
from grassq.core.planner.ranks import LineOfOthers, beside
from grassq.core.planner.reservations import first_of
from grassq.errors import BadInput, Refused
from grassq.store.base import Submission

#: How many jobs one request moves. Between two neighbours there are 2,047 places.
MOVED_AT_ONCE = 500
#: How many unfinished jobs may have been moved: the board keeps the place of each.
MOVED_MAX = 100_000
#: How many jobs a move with a submit token may pass; all of them must be jobs of this token.
PASSED_MAX = 1000

Where = Literal["first", "last", "before", "after"]


class Destination(Struct, frozen=True):
    """Where jobs are moved to."""

    where: Where
    #: The job before or after which the others go; None for first and last.
    target: int | None = None

    def __str__(self) -> str:
        """Return the place in words."""
        return self.where if self.target is None else f"{self.where} job {self.target}"


def move(batch: Batch, ids: Sequence[int], place: Destination, mover: Editor, key: str, digest: bytes) -> BulkResult:
    """Move jobs, all or none, in the order in which they were; the same key again changes nothing.

    Raise Refused if a job has started meanwhile, if the jobs differ in priority, or if there is no place left.
    """
    known = recalled(batch, key, digest)
    if known is not None:
        return known.done
    if mover.limited_to in batch.board.ended_tokens:
        raise Refused("your token was revoked")
    jobs = _checked(batch, ids, place)
    line = LineOfOthers(batch.board.positions, [job.order for job in jobs])
    order = _order(batch, jobs[0].priority, place, line)
    done: list[Job] = []
    if order is not None and not _is_there(jobs, place, order, line):
        before, moved = place.where in ("first", "before"), batch.board.ranks.moved
        places = beside(line, order, len(jobs), moved, before=before)
        if places is None or len(moved) + len(jobs) > MOVED_MAX:
            elsewhere = "--last" if before else "--first"
            raise Refused(f"too many jobs were moved to this place; use `grass priority`, or move them {elsewhere}")
        pairs = [(job, replace(job, rank=rank)) for job, rank in zip(jobs, places.ranks, strict=True)]
        if mover.limited_to is not None:
            _refuse_passing(batch, line, pairs, mover.limited_to)
        _shift(batch, places.shifted)
        done = [_put(batch, old, new, f"{place}, by {mover.name}") for old, new in pairs]
    notes = []
    if place.where == "first" and (higher := batch.board.positions.before(first_of(jobs[0].priority))):
        some = "1 job of higher priority comes" if higher == 1 else f"{higher} jobs of higher priority come"
        notes.append(f"{some} first; `grass priority` changes that")
    batch.changes.submissions[key] = Submission(key, digest, 0, 0, batch.now, tuple(job.id for job in done))
    return BulkResult([job.id for job in done], notes=notes, jobs=list(done) if len(done) <= LISTED_MAX else [])


def _checked(batch: Batch, ids: Sequence[int], place: Destination) -> list[Job]:
    """Return the jobs to move, in order; raise BadInput or Refused if they cannot be moved together."""
    found = batch.fetch(ids)
    for id_ in ids:
        if (why := why_not_now(found.get(id_))) is not None:
            raise Refused(f"job {id_} {why} meanwhile; nothing was changed")
    jobs = sorted(found.values(), key=lambda job: job.order)
    priorities = sorted({job.priority for job in jobs})
    if len(priorities) > 1:
        some = ", ".join(map(str, priorities[:5]))
        raise Refused(f"these jobs differ in priority ({some}), which decides first; `grass priority` makes them equal")
    if place.target is None:
        return jobs
    if place.target in found:
        raise BadInput(f"job {place.target} cannot be moved {place.where} itself")
    target = batch.fetch([place.target]).get(place.target)
    if target is None or why_not_now(target) is not None:
        raise Refused(f"job {place.target} does not wait any more; --first puts jobs before all that do")
    if target.priority != priorities[0]:
        raise Refused(
            f"job {jobs[0].id} has priority {priorities[0]} and job {target.id} has {target.priority}, which decides "
            f"first; `grass priority {jobs[0].id} {target.priority}` makes them equal"
        )
    return jobs


def _is_there(jobs: Sequence[Job], place: Destination, order: int, line: LineOfOthers) -> bool:
    """Tell whether the jobs are directly before or after a position already."""
    if place.where in ("first", "before"):
        before = line.preceding(order)
        return (before is None or before < jobs[0].order) and jobs[-1].order < order
    after = line.after(order)
    return order < jobs[0].order and (after is None or jobs[-1].order < after)


def _order(batch: Batch, priority: int, place: Destination, line: LineOfOthers) -> int | None:
    """Return the position beside which the jobs go; None if no other job of their priority is queued."""
    if place.target is not None:
        return batch.fetch([place.target])[place.target].order
    begin, end = first_of(priority), first_of(priority - 1)
    found = line.after(begin) if place.where == "first" else line.preceding(end)
    return found if found is not None and begin < found < end else None


def _refuse_passing(batch: Batch, line: LineOfOthers, pairs: Sequence[tuple[Job, Job]], token: str) -> None:
    """Refuse to move the jobs of a token before queued jobs of others: a priority is what decides between callers."""
    begin, end = min(after.order for _, after in pairs), max(before.order for before, _ in pairs)
    passed: list[int] = []
    order = line.after(begin)
    while order is not None and order < end:
        if len(passed) >= PASSED_MAX:
            raise Refused(f"this passes more than {PASSED_MAX:,} jobs; with your token move jobs in smaller steps")
        passed.append(batch.board.id_at(order))
        order = line.after(order)
    for job in batch.fetch(passed).values():
        if job.spec.by != token:
            raise Refused(
                f"this passes job {job.id}, which was submitted with another token; your token passes its own"
            )


def _shift(batch: Batch, shifted: dict[int, int]) -> None:
    """Give other ranks to jobs that were moved before; their places stay what they are."""
    ids = {batch.board.id_at(order): rank for order, rank in shifted.items()}
    for id_, job in batch.fetch(ids).items():
        batch.set(job, replace(job, rank=ids[id_]))


def _put(batch: Batch, before: Job, after: Job, where: str) -> Job:
    batch.set(before, after)
    batch.board.forget_head(after.id)
    batch.note(after, "moved", where)
    return after
