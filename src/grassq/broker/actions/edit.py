"""Edit jobs that have not started: all of a request in one commit, or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import tokens
from grassq.broker.actions.bulk import LISTED_MAX, NOTES_MAX, BulkResult
from grassq.broker.batch import Batch
from grassq.broker.selection import present
from grassq.broker.service import recall, refuse_what_never_fits
from grassq.broker.tokens import Bearer
from grassq.broker.waiting.edited import EditedWaits, NewWaits, link, relink, waits_of
from grassq.broker.waiting.eligibility import Eligibility
from grassq.core.editing.values import difference
from grassq.core.model import FINAL, HOLDING, ForQueue, Job, Spec, State
from grassq.core.names import shown
from grassq.core.planner.board import Board
from grassq.core.planner.request_classes import shape_of
from grassq.core.states import Edit, Ready, Unready
from grassq.errors import Refused
from grassq.store.base import SUBMITTED, Story, Submission
from grassq.store.rows import spec_columns, stored_bytes

#: How many jobs one request edits: all of them are stored in one commit, for which every other request waits.
EDITED_MAX = 1000


class EditedJob(Struct, frozen=True):
    """One job after an edit, and the job from which the edit was made."""

    before: Job
    spec: Spec
    name: str | None
    priority: int
    #: The job was named by its id: if it has started meanwhile, the whole edit is refused.
    named: bool = True
    #: What changes of what the job waits for; the same for all jobs of a request.
    waits: NewWaits = NewWaits()


class EditResult(Struct, frozen=True):
    """What an edit did."""

    done: BulkResult
    #: By job: what changed. Empty for many jobs, and if the request was repeated.
    what: dict[int, str] = {}


class Editor(Struct, frozen=True):
    """The caller of an edit."""

    name: str
    bearer: Bearer
    #: The only token whose jobs the caller may change; None for all jobs.
    limited_to: str | None = None


def version_of(job: Job) -> str:
    """Return a word that differs after every edit of a job, and after every change of its name and priority."""
    content = msgspec.msgpack.encode((spec_columns(job.spec), job.name, job.priority))
    return hashlib.sha256(content).hexdigest()[:16]


def why_not(job: Job) -> str | None:
    """Return why a job cannot be edited or moved; None if it can."""
    if job.state in FINAL:
        return f"job {job.id} has ended ({job.state}); only a job that has not started can be changed so"
    if job.state in HOLDING:
        return f"job {job.id} has started ({job.state}); only a job that has not started can be changed so"
    return None


def edit(batch: Batch, edits: Sequence[EditedJob], editor: Editor, key: str, digest: bytes) -> EditResult | None:
    """Change jobs, all or none; the same key again changes nothing and returns the jobs as they are now.

    Return None if a job was edited since the edit was made. Raise Refused if a job named by its id has started, or if
    no worker could ever run a job after the edit.
    """
    known = recalled(batch, key, digest)
    if known is not None:
        return known
    if editor.limited_to in batch.board.ended_tokens:
        raise Refused("your token was revoked")
    current = batch.fetch([each.before.id for each in edits])
    notes = [*_started(edits, current)]
    edits = [each for each in edits if why_not_now(current.get(each.before.id)) is None]
    if any(_asked(current[each.before.id]) != _asked(each.before) for each in edits):
        return None
    edits = [replace(each, before=current[each.before.id]) for each in edits]
    waits = waits_of(batch, [each.before for each in edits], edits[0].waits) if edits else {}
    pairs = [(each, _after(each, waits)) for each in edits]
    for each, after in pairs:
        _check(batch.board, each.before, after)
    eligibility = Eligibility(batch)
    refuse_what_never_fits(
        eligibility, [shape_of(after) for each, after in pairs if shape_of(each.before) != shape_of(after)]
    )
    _count(batch, editor.bearer, pairs, waits)
    relink(batch, [each.before for each in edits], waits)
    done = [_apply(batch, each.before, after, eligibility, editor.name, waits) for each, after in pairs]
    batch.changes.submissions[key] = Submission(key, digest, 0, 0, batch.now, tuple(job.id for job in done))
    listed = pairs if len(pairs) <= LISTED_MAX else ()
    return EditResult(_result(done, notes), {after.id: difference(each.before, after) for each, after in listed})


def recalled(batch: Batch, key: str, digest: bytes) -> EditResult | None:
    """Return the answer to a request that was done before, with the jobs as they are now; None if it was not."""
    known = recall(batch, key, digest)
    return None if known is None else EditResult(_result(present(batch, known.ids)))


def _asked(job: Job) -> tuple[Spec, str | None, int]:
    """Return all that an edit changes."""
    return job.spec, job.name, job.priority


def why_not_now(job: Job | None) -> str | None:
    """Return why a job that could be edited a moment ago cannot be edited now; None if it can."""
    if job is None:
        return "was removed"
    return None if job.state not in FINAL | HOLDING else "ended" if job.state in FINAL else "started"


def _started(edits: Sequence[EditedJob], current: dict[int, Job]) -> Iterator[str]:
    """Yield notes about jobs that cannot be edited any more; raise Refused for a job that was named by its id."""
    gone = [(each, why) for each in edits if (why := why_not_now(current.get(each.before.id))) is not None]
    for each, why in gone[:NOTES_MAX]:
        if each.named:
            raise Refused(f"job {each.before.id} {why} meanwhile; nothing was changed")
        yield f"job {each.before.id} {why} meanwhile, and stays as it is"


def _after(each: EditedJob, waits: Mapping[int, EditedWaits]) -> Job:
    after = replace(each.before, spec=each.spec, name=each.name, priority=each.priority)
    new = waits.get(after.id)
    if new is None:
        return after
    return replace(after, spec=replace(after.spec, dependencies=new.dependencies), waits=new.waits)


def _check(board: Board, before: Job, after: Job) -> None:
    """Refuse what an earlier attempt or the client of a temporary queue would not understand."""
    if before.attempt and before.spec.split != after.spec.split:
        raise Refused(f"job {before.id} was started before; its logs stay as they are, so split cannot be changed")
    if before.tried >= after.spec.tries and before.spec.tries != after.spec.tries:
        raise Refused(
            f"job {before.id} was tried {before.tried} times; tries must be more, or `grass kill {before.id}` ends it"
        )
    for queue in {before.spec.queue, after.spec.queue} if before.spec.queue != after.spec.queue else ():
        if _is_temporary(board, queue):
            raise Refused(
                f"queue {shown(queue)} belongs to a command that watches it; jobs cannot change to or from it"
            )


def _is_temporary(board: Board, queue: str) -> bool:
    offers = [worker.offer(queue) for worker in board.offering(queue)]
    return any(offer is not None and offer.temporary for offer in offers)


def _count(
    batch: Batch, bearer: Bearer, pairs: Sequence[tuple[EditedJob, Job]], waits: Mapping[int, EditedWaits]
) -> None:
    """Count what the jobs of the caller's token take more; raise Refused if it is beyond the limits of the token."""
    own = [(each.before, after) for each, after in pairs if after.token == bearer.token]
    more = sum(stored_bytes(after.spec) - stored_bytes(before.spec) for before, after in own)
    edges = sum(waits[after.id].edges for _, after in own if after.id in waits)
    if bearer.limits is not None and (more > 0 or edges):
        tokens.take_up(batch, bearer, 0, max(0, more), edges)


def _apply(
    batch: Batch, before: Job, after: Job, eligibility: Eligibility, by: str, waits: Mapping[int, EditedWaits]
) -> Job:
    if before.spec.queue != after.spec.queue:
        batch.changes.story.append(Story(before.id, before.created, SUBMITTED, f"queue {before.spec.queue}"))
    what = f"{difference(before, after)}, by {by}"
    new = waits.get(before.id)
    changes = Edit(after.spec, after.name, after.priority, what, None if new is None else new.waits)
    job = batch.move(before, changes)
    if new is not None:
        link(batch, job, new)
    if job.state is State.HELD or job.waits_for_jobs:
        return job
    why = eligibility.why(shape_of(job))
    if why is not None:
        return batch.move(job, Unready(why))
    return batch.move(job, Ready(ForQueue())) if job.waits_for_queue else job


def _result(jobs: Sequence[Job], notes: Sequence[str] = ()) -> BulkResult:
    return BulkResult([job.id for job in jobs], notes=list(notes), jobs=list(jobs) if len(jobs) <= LISTED_MAX else [])
