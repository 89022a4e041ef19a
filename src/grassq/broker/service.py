"""Every action a user can take. Each one checks first and changes afterwards, inside one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core import placement
from grassq.core.board import EVERYTHING
from grassq.core.model import FINAL, HOLDING, NEUTRAL_PRIORITY, Job, Spec, State
from grassq.core.names import shown
from grassq.core.selectors import All, Ids, Last, Name, Queue, Selector, Word, parse
from grassq.core.selectors import State as InState
from grassq.core.states import Cancel, Hold, Ready, Release, Unready
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Submission

SELECTED_MAX = 1_000_000


class Draft(Struct, frozen=True):
    """A job as asked for, before it has an id."""

    spec: Spec
    #: The submitter's environment, encoded; `spec.env_digest` is its digest.
    environment: bytes
    name: str | None = None
    priority: int = NEUTRAL_PRIORITY
    hold: bool = False
    rerun_of: int | None = None


class Done(Struct, frozen=True):
    """What an action did: the jobs it concerned, as they are now, and what else to say."""

    jobs: list[Job]
    notes: list[str] = []


def submit(batch: Batch, drafts: Sequence[Draft], key: str, digest: bytes) -> list[int]:
    """Store new jobs, all or none; the same key again gives the same ids."""
    known = batch.submission(key)
    if known is not None:
        if known.digest != digest:
            raise Refused("this key was used for another submission; make a new key for each")
        return ids_of(known)
    for draft in drafts:
        never = placement.never_fits(batch.board, draft.spec.queue, draft.spec.request)
        if never is not None:
            raise Refused(f"this can never run: {never}")
    first = batch.next_id
    for draft in drafts:
        batch.changes.environments[draft.spec.env_digest] = draft.environment
        batch.insert(_new_job(batch, draft))
    batch.changes.submissions[key] = Submission(key, digest, first, len(drafts), batch.now)
    return list(range(first, first + len(drafts)))


def ids_of(submission: Submission) -> list[int]:
    """The ids a submission was given."""
    return list(range(submission.first_id, submission.first_id + submission.count))


def _new_job(batch: Batch, draft: Draft) -> Job:
    job = Job(
        id=batch.next_id,
        spec=draft.spec,
        name=draft.name,
        priority=draft.priority,
        state=State.QUEUED,
        created=batch.now,
        rerun_of=draft.rerun_of,
    )
    if draft.hold:
        return replace(job, state=State.HELD, reason=f"held; `grass release {job.id}` lets it go on")
    why = why_unready(batch, job)
    return job if why is None else replace(job, state=State.WAITING, reason=why)


def why_unready(batch: Batch, job: Job) -> str | None:
    """Why a job may not be placed at all now, or None."""
    queue = job.spec.queue
    if next(batch.board.offering(queue), None) is None:
        return f"no queue {queue!r} yet; `grass create-queue {queue}` makes it"
    never = placement.never_fits(batch.board, queue, job.spec.request)
    return None if never is None else f"too large for its queue: {never}"


def settle(batch: Batch) -> None:
    """Queues or machines changed: let jobs whose queue came go on, and park those whose queue went."""
    for job in list(batch.board.jobs.values()):
        if job.state is State.QUEUED or (job.state is State.WAITING and job.ready_at is None):
            why = why_unready(batch, job)
            if why is None and job.state is State.WAITING:
                batch.move(job, Ready())
            elif why is not None and why != job.reason:
                batch.move(job, Unready(why))


def park(batch: Batch) -> None:
    """Jobs came back into line in this batch: those whose queue is gone by now wait for it."""
    for before, job in list(batch.changes.updated.values()):
        if job.state is State.QUEUED and before.state is not State.QUEUED:
            why = why_unready(batch, job)
            if why is not None:
                batch.move(job, Unready(why))


def select(batch: Batch, selectors: Iterable[Selector]) -> list[Job]:
    """The jobs that selectors name, by id; naming nothing that exists is an error."""
    found: dict[int, Job] = {}
    for selector in selectors:
        resolved = resolve(batch, selector)
        jobs = batch.store.jobs(resolved, SELECTED_MAX)
        if not jobs and not _may_be_empty(batch, resolved):
            raise NotFound(f"no job matches {describe(selector)}; `grass show all` lists every job")
        found |= {job.id: batch.current(job) for job in jobs}
    return [found[id_] for id_ in sorted(found)]


def resolve(batch: Batch, selector: Selector) -> Selector:
    """A bare word is a queue if there is one of that name, else the name of a job."""
    if not isinstance(selector, Word):
        return selector
    if selector.text in batch.board.queue_names() or batch.store.jobs(Queue(selector.text), 1):
        return Queue(selector.text)
    return Name(selector.text)


def _may_be_empty(batch: Batch, selector: Selector) -> bool:
    return isinstance(selector, All) or (isinstance(selector, Queue) and selector.name in batch.board.queue_names())


def describe(selector: Selector) -> str:
    """A selector in the user's words."""
    match selector:
        case Ids(ranges):
            return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges[:4])
        case Word(text) | Name(text) | Queue(text):
            return shown(text)
        case InState(name):
            return name
        case Last(back):
            return f"@~{back}" if back else "@"
        case _:
            return "all"


def kill(batch: Batch, selectors: Sequence[Selector], grace_s: float | None) -> Done:
    """End jobs: those that wait are cancelled at once, those that run are told to stop."""
    jobs, notes = [], []
    for job in select(batch, selectors):
        if job.state in FINAL:
            notes.append(f"job {job.id} has ended already ({job.state})")
            jobs.append(job)
        else:
            jobs.append(batch.move(job, Cancel(grace_s)))
    return Done(jobs, notes)


def hold(batch: Batch, selectors: Sequence[Selector]) -> Done:
    """Park jobs that have not started."""
    jobs = select(batch, selectors)
    for job in jobs:
        if job.state in HOLDING:
            raise Refused(f"job {job.id} runs already; `grass kill {job.id}` ends it, `grass pause` stops new starts")
        if job.state in FINAL:
            raise Refused(f"job {job.id} has ended ({job.state}); only a waiting job can be held")
    return Done([job if job.state is State.HELD else batch.move(job, Hold()) for job in jobs])


def release(batch: Batch, selectors: Sequence[Selector]) -> Done:
    """Let parked jobs go on."""
    jobs, notes = [], []
    for job in select(batch, selectors):
        if job.state is not State.HELD:
            notes.append(f"job {job.id} is not held ({job.state})")
            jobs.append(job)
            continue
        released = batch.move(job, Release())
        why = why_unready(batch, released)
        jobs.append(released if why is None else batch.move(released, Unready(why)))
    return Done(jobs, notes)


def set_priority(batch: Batch, selectors: Sequence[Selector], priority: int) -> Done:
    """Change the place in line; larger is sooner."""
    jobs, notes = [], []
    for job in select(batch, selectors):
        if job.state in FINAL:
            raise Refused(f"job {job.id} has ended ({job.state}); its priority means nothing now")
        if job.state in HOLDING:
            notes.append(f"job {job.id} runs already; the priority counts only if it is started again")
        after = replace(job, priority=priority)
        if after != job:
            batch.set(job, after)
            batch.tell(job.id, "priority", str(priority))
        jobs.append(after)
    return Done(jobs, notes)


def rerun(batch: Batch, selectors: Sequence[Selector], key: str, digest: bytes) -> Done:
    """Submit finished jobs again, as new jobs; the old records stay."""
    jobs = select(batch, selectors)
    for job in jobs:
        if job.state not in FINAL:
            raise Refused(f"job {job.id} has not ended ({job.state}); only a finished job can be run again")
    drafts = [_again(batch, job) for job in jobs]
    ids = submit(batch, drafts, key, digest)
    return Done([batch.board.jobs.get(id_) or batch.store.jobs(Ids(((id_, id_),)), 1)[0] for id_ in ids])


def _again(batch: Batch, job: Job) -> Draft:
    environment = batch.store.environment(job.spec.env_digest) or b"\x90"
    first = job.rerun_of or job.id
    return Draft(job.spec, environment, job.name, job.priority, rerun_of=first)


def cleanable(batch: Batch, selectors: Sequence[Selector], older_s: float | None) -> tuple[Done, set[int]]:
    """The finished jobs a clean would remove, and those of them whose checkpoints later jobs still use."""
    jobs = [job for job in select(batch, selectors) if job.state in FINAL]
    if older_s is not None:
        jobs = [job for job in jobs if job.finished is not None and job.finished <= batch.now - older_s]
    going = {job.id for job in jobs}
    return Done(jobs), {id_ for id_ in going if batch.store.reruns_of(id_) - going}


def forget(batch: Batch, jobs: Sequence[Job]) -> None:
    """Remove finished jobs from the store; their folders are gone already."""
    going = {job.id for job in jobs}.difference(batch.changes.removed)
    batch.changes.removed += [id_ for id_ in sorted(going) if batch.store.jobs(Ids(((id_, id_),)), 1)]


def pause(batch: Batch, queue: str | None) -> Done:
    """No new starts, of one queue or of everything."""
    return _set_paused(batch, queue, lambda paused, name: paused | {name})


def resume(batch: Batch, queue: str | None) -> Done:
    """New starts again; without a queue, of everything."""
    return _set_paused(batch, queue, lambda paused, name: paused - {name} if name else set())


def _set_paused(batch: Batch, queue: str | None, change: Callable[[set[str], str], set[str]]) -> Done:
    if queue is not None and queue not in batch.board.queue_names() | batch.board.paused:
        if batch.store.jobs(resolve(batch, parse(queue)), 1):
            raise BadInput(
                f"{shown(queue)} is a job, not a queue; `grass hold {queue}` keeps a job from starting and "
                "`grass release` lets it go on; `grass pause` alone pauses everything"
            )
        raise NotFound(f"there is no queue {shown(queue)}; `grass show` lists them")
    paused = change(batch.board.paused, queue or EVERYTHING)
    notes = []
    if queue is not None and queue not in paused and EVERYTHING in paused:
        notes.append("everything is paused; `grass resume` lets all queues go on")
    if paused != batch.board.paused:
        batch.board.paused = paused
        batch.changes.paused = paused
    running = sum(queue in (None, job.spec.queue) for job in batch.board.holding.values())
    if (queue or EVERYTHING) in paused and running:
        notes.append(f"{running} {'job' if running == 1 else 'jobs'} started already, and will finish")
    return Done([], notes)


def unknown(batch: Batch, ids: Sequence[int]) -> list[int]:
    """Those of the ids that no stored job has."""
    return [id_ for id_ in ids if not batch.store.jobs(Ids(((id_, id_),)), 1)]
