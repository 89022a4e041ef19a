"""Every action a user can take. Each one checks first and changes afterwards, inside one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import tokens
from grassq.broker.batch import Batch
from grassq.broker.eligibility import Eligibility, reevaluate
from grassq.broker.selection import NOTES_MAX, SELECTED_MAX, by_id_alone, eligible, present, resolve, select
from grassq.broker.worker_tickets import worker_record_of
from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.model import FINAL, HOLDING, Job, Outcome, Spec, State
from grassq.core.names import shown
from grassq.core.planner.board import EVERYTHING
from grassq.core.planner.request_classes import shape_of
from grassq.core.states import Cancel, Hold, Lost, Release, Unready, advance
from grassq.core.syntax.selectors import Selector, parse
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Submission


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


def submit(batch: Batch, drafts: Sequence[Draft], key: str, digest: bytes, as_sweep: bool = False) -> list[int]:
    """Store new jobs, all or none; the same key again gives the same ids. Those of a sweep share a name."""
    known = recall(batch, key, digest)
    if known is not None:
        return ids_of(known)
    unready = Eligibility(batch)
    for shape in {(draft.spec.queue, draft.spec.request, draft.spec.constraints) for draft in drafts}:
        never = unready.never(shape)
        if never is not None:
            raise Refused(f"this can never run: {never}")
    first = batch.next_id
    name = sweep_name(first) if as_sweep else None
    batch.changes.environments.update({draft.spec.env_digest: draft.environment for draft in drafts})
    batch.insert([_new_job(batch, draft, id_, unready, name) for id_, draft in enumerate(drafts, first)])
    batch.changes.submissions[key] = Submission(key, digest, first, len(drafts), batch.now)
    return list(range(first, first + len(drafts)))


def sweep_name(first: int) -> str:
    """What the jobs of a sweep are called that was given no name: ids are never used again, so neither is this."""
    return f"sweep-{first}"


def recall(batch: Batch, key: str, digest: bytes) -> Submission | None:
    """What a key did before; one key is one request."""
    known = batch.submission(key)
    if known is not None and known.digest != digest:
        raise Refused("this key was used for another request; make a new key for each")
    return known


def once(batch: Batch, key: str, digest: bytes, action: Callable[[], Done]) -> Done:
    """Do an action unless its key says it was done: then tell how its jobs are now."""
    known = recall(batch, key, digest)
    if known is not None:
        return Done(present(batch, known.ids))
    done = action()
    ids = tuple(job.id for job in done.jobs)
    batch.changes.submissions[key] = Submission(key, digest, 0, 0, batch.now, ids)
    return done


def ids_of(submission: Submission) -> list[int]:
    """The ids a submission was given."""
    return list(range(submission.first_id, submission.first_id + submission.count))


def _new_job(batch: Batch, draft: Draft, id_: int, unready: Eligibility, name: str | None) -> Job:
    job = Job(
        id=id_,
        spec=draft.spec,
        name=draft.name or name,
        priority=draft.priority,
        state=State.QUEUED,
        created=batch.now,
        rerun_of=draft.rerun_of,
    )
    if draft.hold:
        return advance(job, Hold(), batch.now)
    why = unready.why(shape_of(job))
    return job if why is None else advance(job, Unready(why), batch.now)


def kill(batch: Batch, selectors: Sequence[Selector], grace_s: float | None, unstarted: bool = False) -> Done:
    """End jobs: those that wait are cancelled at once, those that run are told to stop, or with `unstarted` left."""
    if unstarted:
        waiting = [job for job in select(batch, selectors) if _waits(batch, job)]
        return Done([batch.move(job, Cancel(grace_s)) for job in waiting])
    named = {job.id for job in select(batch, by_id_alone(selectors))}
    jobs, notes = [], []
    for job in select(batch, selectors):
        if job.state not in FINAL:
            jobs.append(batch.move(job, Cancel(grace_s)))
        elif job.id in named:
            notes.append(f"job {job.id} has ended already ({job.state})")
            jobs.append(job)
    return Done(jobs, notes[:NOTES_MAX])


def _waits(batch: Batch, job: Job) -> bool:
    """Whether a job has yet to begin: it is in line, or placed behind another that still has the devices."""
    return job.state not in FINAL | HOLDING or (job.state is State.PLACED and batch.board.predecessor(job) is not None)


def hold(batch: Batch, selectors: Sequence[Selector]) -> Done:
    """Park jobs that have not started."""
    jobs, notes = eligible(batch, selectors, _why_not_held)
    return Done([job if job.state is State.HELD else batch.move(job, Hold()) for job in jobs], notes)


def _why_not_held(job: Job) -> str | None:
    if job.state in HOLDING:
        return f"job {job.id} runs already; `grass kill {job.id}` ends it, `grass pause` stops new starts"
    if job.state in FINAL:
        return f"job {job.id} has ended ({job.state}); only a waiting job can be held"
    return None


def release(batch: Batch, selectors: Sequence[Selector]) -> Done:
    """Let held jobs go on."""
    unready = Eligibility(batch)
    jobs, notes = [], []
    unrecorded = {job for state in batch.board.worker_states.values() for job, _ in state.unrecorded}
    for job in select(batch, selectors):
        if job.state is not State.HELD or job.id in unrecorded:
            runs = "stays held: an attempt of it that the store has no record of may still run; `grass kill` ends it"
            notes.append(f"job {job.id} {runs if job.id in unrecorded else f'is not held ({job.state})'}")
            jobs.append(job)
            continue
        released = batch.move(job, Release())
        why = unready.why(shape_of(job))
        jobs.append(released if why is None else batch.move(released, Unready(why)))
    return Done(jobs, notes[:NOTES_MAX])


def set_priority(batch: Batch, selectors: Sequence[Selector], priority: int) -> Done:
    """Change the place in line; larger is sooner."""
    jobs, notes = eligible(batch, selectors, _why_no_priority)
    changed = [replace(job, priority=priority) for job in jobs]
    for before, after in zip(jobs, changed, strict=True):
        if before.state in HOLDING:
            notes.append(f"job {before.id} runs already; the priority counts only if it is started again")
        if after != before:
            batch.set(before, after)
            batch.note(after, "priority", str(priority))
    return Done(changed, notes[:NOTES_MAX])


def _why_no_priority(job: Job) -> str | None:
    if job.state in FINAL:
        return f"job {job.id} has ended ({job.state}); its priority means nothing now"
    return None


def rerun(batch: Batch, selectors: Sequence[Selector], key: str, digest: bytes, failed: bool = False) -> list[int]:
    """Submit finished jobs again, or of them only what failed, as new jobs; the old records stay."""
    known = recall(batch, key, digest)
    if known is not None:
        return ids_of(known)
    jobs = _still_failed(batch, selectors) if failed else eligible(batch, selectors, _why_no_rerun)[0]
    return submit(batch, [_again(batch, job) for job in jobs], key, digest)


def _why_no_rerun(job: Job) -> str | None:
    if job.state not in FINAL:
        return f"job {job.id} has not ended ({job.state}); only a finished job can be run again"
    return None


def _still_failed(batch: Batch, selectors: Sequence[Selector]) -> list[Job]:
    """What failed, of several runs of one job the last, unless a later one succeeded or has yet to end."""
    if selectors:
        chosen = select(batch, selectors)
    else:
        chosen = [batch.current(job) for job in batch.store.jobs(parse("failed"), SELECTED_MAX)]
    last = {job.rerun_of or job.id: job for job in chosen if job.state is State.FAILED}
    # Also what was submitted earlier in this batch, so that who asks twice at once is not given twice as much.
    runs = [batch.current(job) for job in batch.store.reruns(list(last))]
    runs += [job for job in batch.changes.inserted.values() if job.rerun_of in last]
    for run in runs:
        if run.state not in (State.FAILED, State.CANCELLED):
            failed = last.get(run.rerun_of or run.id)
            if failed is not None and failed.id < run.id:
                del last[run.rerun_of or run.id]
    return sorted(last.values(), key=lambda job: job.id)


def _again(batch: Batch, job: Job) -> Draft:
    environment = batch.store.environment(job.spec.env_digest) or b"\x90"
    first = job.rerun_of or job.id
    return Draft(job.spec, environment, job.name, job.priority, rerun_of=first)


def clean(batch: Batch, selectors: Sequence[Selector], older_s: float | None) -> Done:
    """Remove finished jobs from the store; what still lives is never touched."""
    jobs = [job for job in select(batch, selectors) if job.state in FINAL]
    if older_s is not None:
        jobs = [job for job in jobs if job.finished is not None and job.finished <= batch.now - older_s]
    batch.remove(jobs)
    return Done(jobs)


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


def drain(batch: Batch, worker: str, undo: bool = False) -> Done:
    """Start nothing more on a worker, what runs there finishes; or let it take jobs again."""
    worker_state = batch.board.worker_states.get(worker)
    if worker_state is None:
        raise _no_worker(worker)
    if worker_state.drained == undo:
        worker_state.drained = not undo
        batch.changes.worker_records[worker] = replace(worker_record_of(batch, worker), drained=not undo)
    running = len(batch.board.held_by(worker))
    if undo or not running:
        return Done([])
    return Done([], [f"{running} {'job' if running == 1 else 'jobs'} started there already, and will finish"])


def remove_worker(batch: Batch, worker: str, lost: bool = False) -> Done:
    """Forget a worker and end its tokens; `lost` gives up what it held, when its machine will not come back."""
    worker_state = batch.board.worker_states.get(worker)
    held = batch.board.held_by(worker)
    if worker_state is not None and worker_state.online and worker in batch.board.roles.trusted:
        raise Refused(f"worker {worker} is part of this daemon; `grass daemon --no-worker` runs without it")
    if held and (worker_state is None or worker_state.online or not lost):
        raise Refused(_why_not_removed(worker, held, lost))
    if not tokens.end_worker(batch, worker) and worker_state is None:
        raise _no_worker(worker)
    gone = []
    for job in held:
        outcome = Outcome.UNKNOWN if job.state is State.RUNNING else Outcome.LOST
        gone.append(batch.move(job, Lost(job.attempt, outcome, f"worker {worker} was removed")))
    if worker_state is not None:
        batch.board.remove_worker(worker)
    batch.changes.workers.pop(worker, None)
    batch.changes.worker_records.pop(worker, None)
    batch.changes.removed_workers.append(worker)
    if worker in batch.board.unreconciled:
        batch.board.unreconciled = batch.board.unreconciled - {worker}
        batch.changes.unreconciled = set(batch.board.unreconciled)
    reevaluate(batch)
    return Done(gone)


def _why_not_removed(worker: str, held: list[Job], lost: bool) -> str:
    some = ", ".join(str(job.id) for job in held[:5]) + (", ..." if len(held) > 5 else "")
    what = f"worker {worker} holds {'job' if len(held) == 1 else 'jobs'} {some}"
    if lost:
        return f"{what} and is in touch, so they are not lost; `grass kill` ends them"
    return f"{what}; `grass drain {worker}` lets them finish, `--lost` gives them up if the machine is gone for good"


def _no_worker(worker: str) -> NotFound:
    return NotFound(f"there is no worker {shown(worker)}; `grass show` lists them")


def accept_restored(batch: Batch) -> Done:
    """Start jobs again after a backup was restored, without the workers and attempts that are waited for."""
    missing = sorted(batch.board.unreconciled)
    busy = {name: state for name, state in batch.board.worker_states.items() if state.unrecorded}
    if not missing and not busy:
        return Done([], ["nothing waits for a worker to speak"])
    batch.board.unreconciled = set()
    batch.board.awaited = set()
    # A change, so that the batch ends with a plan.
    batch.changes.unreconciled = set()
    notes = []
    if missing:
        notes.append(f"what {', '.join(missing)} ran since the backup may be started a second time")
    for name, state in sorted(busy.items()):
        jobs = ", ".join(str(job) for job, _ in sorted(state.unrecorded))
        notes.append(f"the devices of {name} that job {jobs} may still use are given to others too")
        state.unrecorded = set()
    return Done([], notes)


def unknown(batch: Batch, ids: Sequence[int]) -> list[int]:
    """Those of the ids that no stored job has."""
    known = {job.id for job in present(batch, ids)}
    return [id_ for id_ in ids if id_ not in known]
