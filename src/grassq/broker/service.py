"""Actions that take one batch: submit jobs, pause queues, drain and remove workers. `actions` changes many jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker import tokens
from grassq.broker.batch import Batch
from grassq.broker.selection import present, resolve
from grassq.broker.sweeps import objects as sweeps
from grassq.broker.sweeps.objects import NewSweep
from grassq.broker.tokens import Bearer
from grassq.broker.waiting import dependents
from grassq.broker.waiting.dependents import NO_CONDITIONS, After, AllConditions, Conditions
from grassq.broker.waiting.eligibility import Eligibility, reevaluate
from grassq.broker.worker_records import worker_record_of
from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.model import (
    ID_MAX,
    OFFERS_MAX,
    ForJobs,
    ForTime,
    Job,
    Outcome,
    QueueTemplate,
    Spec,
    State,
    Wait,
    scoped_key,
)
from grassq.core.names import DEFAULT_QUEUE, is_name, shown
from grassq.core.offer_changes import change_note
from grassq.core.planner.board import EVERYTHING
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.states import Hold, Lost, Unready, advance, waiting_reason
from grassq.core.sweeps.sweep import Sweep
from grassq.core.syntax.selectors import parse
from grassq.core.waiting.conditions import Dependency
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Submission
from grassq.store.rows import stored_bytes

#: What new jobs wait for, by what their drafts say.


class Draft(Struct, frozen=True):
    """A job as asked for, before it has an id."""

    spec: Spec
    #: The submitter's environment, encoded; `spec.env_digest` is its digest.
    environment: bytes
    name: str | None = None
    priority: int = NEUTRAL_PRIORITY
    hold: bool = False
    rerun_of: int | None = None
    #: The jobs that this one starts after, as selectors; or as ids, where they are known already.
    after: After = ()
    dependencies: tuple[Dependency, ...] = ()
    #: The start time in seconds since the epoch, or the delay before the start.
    at: float | None = None
    in_s: float | None = None


class Done(Struct, frozen=True):
    """The jobs of an action, as they are now, and notes for the user."""

    jobs: list[Job]
    notes: list[str] = []


def submit(
    batch: Batch,
    drafts: Sequence[Draft],
    key: str,
    digest: bytes,
    sweep: NewSweep | None = None,
    bearer: Bearer = tokens.OWNER,
    *,
    into: Sweep | None = None,
) -> list[int]:
    """Store new jobs, all or none; the same key again returns the same ids.

    They are a new sweep if one is described, or parts of the sweep `into`, which is then as described. Jobs of a sweep
    without a name share one.
    """
    known = recall(batch, key, digest)
    if known is not None:
        return ids_of(known)
    eligibility = Eligibility(batch)
    shapes = ((draft.spec.queue, draft.spec.request, draft.spec.constraints) for draft in drafts)
    refuse_what_never_fits(eligibility, shapes)
    first, name = batch.next_id, None
    if sweep is not None:
        id_ = first if into is None else into.id
        specs = sweeps.in_sweep([draft.spec for draft in drafts], id_, is_grouped=sweep.is_grouped)
        drafts = [replace(draft, spec=spec) for draft, spec in zip(drafts, specs, strict=True)]
    conditions = _accepted(batch, drafts, bearer)
    if sweep is not None:
        by = drafts[0].spec.by
        made = sweeps.begin(batch, sweep, first, by) if into is None else sweeps.renew(batch, into, sweep)
        name = made.name if is_name(made.name) else sweeps.sweep_name(made.id)
    _insert(batch, drafts, eligibility, conditions, name, bearer)
    batch.changes.submissions[key] = Submission(key, digest, first, len(drafts), batch.now)
    return list(range(first, first + len(drafts)))


def submit_unique(
    batch: Batch, draft: Draft, key: str, digest: bytes, sweep: NewSweep | None = None, bearer: Bearer = tokens.OWNER
) -> Submission:
    """Store a new job, or return the unfinished job of the same bearer that has its unique key."""
    found = existing(batch, draft, key, digest, bearer)
    if found is None:
        submit(batch, [draft], key, digest, sweep, bearer)
        found = batch.changes.submissions[key]
    return found


def existing(batch: Batch, draft: Draft, key: str, digest: bytes, bearer: Bearer) -> Submission | None:
    """Return what a request stands for that needs no new job: it was done before, or its unique key is in use."""
    known = recall(batch, key, digest)
    if known is not None or draft.spec.unique is None:
        return known
    live = batch.live_with(scoped_key(bearer.token, draft.spec.unique))
    if live is not None:
        known = batch.changes.submissions[key] = Submission(key, digest, live.id, 1, batch.now, (live.id,))
    return known


def refuse_what_never_fits(eligibility: Eligibility, shapes: Iterable[Shape]) -> None:
    """Raise Refused if no worker could ever run a job of one of these shapes, or the limit of a group forbids it."""
    for shape in set(shapes):
        never = eligibility.never(shape) or eligibility.above_limit(shape)
        if never is not None:
            raise Refused(f"this can never run: {never}")


def insert(batch: Batch, drafts: Sequence[Draft], eligibility: Eligibility, bearer: Bearer = tokens.OWNER) -> list[Job]:
    """Add new jobs and return them; raise as `_accepted` does."""
    return _insert(batch, drafts, eligibility, _accepted(batch, drafts, bearer), None, bearer)


def _accepted(batch: Batch, drafts: Sequence[Draft], bearer: Bearer) -> AllConditions:
    """Find what new jobs wait for, and count them for their token; nothing is refused after this.

    Raise Refused if no ids are left, or if the jobs are beyond the limits of the token that answers for them. Every
    refusal comes before the first change: a call that has changed something and fails costs a reload of the board.
    """
    if batch.board.is_unsure_of_ids and batch.board.unreconciled:
        names = ", ".join(sorted(batch.board.unreconciled))
        raise Refused(
            "this broker was copied or restored from a backup, and cannot know which ids were given since; it takes"
            f" jobs when these workers have connected: {names} (`grass resume --restored` goes on without them)"
        )
    if batch.next_id + len(drafts) - 1 > ID_MAX:
        left = max(0, ID_MAX - batch.next_id + 1)
        raise Refused(f"{left} job ids are left in this store, of {ID_MAX:,}; start a broker with a new store")
    conditions = _conditions(batch, drafts)
    unmet = sum(len(conditions[_after(draft)].unmet) for draft in drafts if _after(draft) in conditions)
    dependents.check_unmet(batch, unmet)
    if bearer.token is not None:
        tokens.take_up(batch, bearer, len(drafts), sum(stored_bytes(draft.spec) for draft in drafts), unmet)
    return conditions


def _insert(
    batch: Batch,
    drafts: Sequence[Draft],
    eligibility: Eligibility,
    conditions: AllConditions,
    name: str | None,
    bearer: Bearer,
) -> list[Job]:
    """Add new jobs that were accepted; `name` is for drafts without a name."""
    batch.changes.environments.update({draft.spec.env_digest: draft.environment for draft in drafts})
    jobs = [
        _new_job(batch, draft, id_, eligibility, name, bearer.token, conditions.get(_after(draft), NO_CONDITIONS))
        for id_, draft in enumerate(drafts, batch.next_id)
    ]
    batch.insert(jobs)
    if conditions:
        _wait_for_jobs(batch, drafts, jobs, conditions)
    sweeps.added(batch, {job.spec.sweep for job in jobs if job.spec.sweep is not None})
    return jobs


def _after(draft: Draft) -> tuple[After, tuple[Dependency, ...]]:
    return draft.after, draft.dependencies


def _conditions(batch: Batch, drafts: Sequence[Draft]) -> AllConditions:
    """Find what the drafts wait for, once for all that wait for the same; raise Refused for too many edges."""
    return dependents.all_conditions(
        batch, Counter(_after(draft) for draft in drafts if draft.after or draft.dependencies)
    )


def _wait_for_jobs(
    batch: Batch,
    drafts: Sequence[Draft],
    jobs: Sequence[Job],
    conditions: AllConditions,
) -> None:
    """Store the edges of new jobs; jobs that can never start fail at once, with the reason."""
    for draft, job in zip(drafts, jobs, strict=True):
        wanted = conditions.get(_after(draft))
        if wanted is not None:
            dependents.add_edges(batch, job, wanted)


def imagined(batch: Batch, draft: Draft, bearer: Bearer = tokens.OWNER, count: int = 1) -> Job:
    """Return the job that a draft would become now, one of `count`, and store nothing; raise as `submit` would."""
    eligibility = Eligibility(batch)
    refuse_what_never_fits(eligibility, [(draft.spec.queue, draft.spec.request, draft.spec.constraints)])
    conditions = _conditions(batch, [draft] * count).get(_after(draft), NO_CONDITIONS)
    return _new_job(batch, draft, batch.next_id, eligibility, None, bearer.token, conditions)


def recall(batch: Batch, key: str, digest: bytes) -> Submission | None:
    """Return what a key did before; raise Refused if it was used for another request."""
    known = batch.submission(key)
    if known is not None and known.digest != digest:
        raise Refused("this key was used for another request; make a new key for each")
    return known


def once(batch: Batch, key: str, digest: bytes, action: Callable[[], Done]) -> Done:
    """Do an action, unless its key was used before: then return its jobs as they are now."""
    known = recall(batch, key, digest)
    if known is not None:
        return Done(present(batch, known.ids))
    done = action()
    ids = tuple(job.id for job in done.jobs)
    batch.changes.submissions[key] = Submission(key, digest, 0, 0, batch.now, ids)
    return done


def ids_of(submission: Submission) -> list[int]:
    """Return the ids a submission was given."""
    return list(range(submission.first_id, submission.first_id + submission.count))


def _new_job(
    batch: Batch,
    draft: Draft,
    id_: int,
    eligibility: Eligibility,
    name: str | None,
    token: str | None,
    conditions: Conditions = NO_CONDITIONS,
) -> Job:
    waits = _waits(batch, draft, conditions)
    spec = draft.spec
    if conditions.dependencies:
        spec = replace(spec, dependencies=conditions.dependencies)
    job = Job(
        id=id_,
        spec=spec,
        name=draft.name or name,
        priority=draft.priority,
        state=State.QUEUED,
        created=batch.now,
        rerun_of=draft.rerun_of,
        token=token,
    )
    if waits:
        job = replace(job, state=State.WAITING, waits=waits, reason=waiting_reason(job, waits))
    if draft.hold:
        return advance(job, Hold(), batch.now)
    if waits:
        return job
    why = eligibility.why(shape_of(job))
    return job if why is None else advance(job, Unready(why), batch.now)


def _waits(batch: Batch, draft: Draft, conditions: Conditions) -> tuple[Wait, ...]:
    """Return what a new job waits for before its queue matters."""
    waits: list[Wait] = []
    if conditions.unmet or conditions.never:
        waits.append(ForJobs())
    if draft.at is not None and draft.at > batch.now:
        waits.append(ForTime(draft.at))
    if draft.in_s:
        waits.append(ForTime(batch.now + draft.in_s, draft.in_s))
    return tuple(waits)


def pause(batch: Batch, queue: str | None, pauser: str = "") -> Done:
    """Start no more jobs, of one queue or of everything; a pause keeps the name of its first pauser."""
    _check_queue(batch, queue)
    name = queue or EVERYTHING
    _set_paused(batch, {name: pauser, **batch.board.paused})
    running = sum(queue in (None, job.spec.queue) for job in batch.board.holding.values())
    notes = [f"{running} {'job' if running == 1 else 'jobs'} started already, and will finish"] if running else []
    return Done([], notes)


def resume(batch: Batch, queue: str | None) -> Done:
    """Start jobs again, of one queue or of everything."""
    _check_queue(batch, queue)
    left = {} if queue is None else {name: by for name, by in batch.board.paused.items() if name != queue}
    _set_paused(batch, left)
    return Done([], ["everything is paused; `grass resume` lets all queues go on"] if EVERYTHING in left else [])


def _check_queue(batch: Batch, queue: str | None) -> None:
    """Refuse to pause or resume a queue that does not exist; None is every queue."""
    if queue is None or queue in batch.board.queue_names() or queue in batch.board.paused:
        return
    if found := batch.store.jobs(resolve(batch, parse(queue)), 1):
        advice = f"`grass hold {queue}` keeps a job from starting and `grass release` lets it go on"
        if found[0].state is State.RUNNING:
            advice = f"`grass suspend {queue}` stops a running job and `grass resume {queue}` lets it go on"
        raise BadInput(f"{shown(queue)} is a job, not a queue; {advice}; `grass pause` alone pauses everything")
    raise NotFound(f"there is no queue {shown(queue)}; `grass show` lists them")


def _set_paused(batch: Batch, paused: dict[str, str]) -> None:
    if paused != batch.board.paused:
        batch.board.paused = batch.changes.paused = paused


def drain(batch: Batch, worker: str, undo: bool = False) -> Done:
    """Start nothing more on a worker, while its running jobs finish; with `undo`, let it take jobs again."""
    state = batch.board.workers.get(worker)
    if state is None:
        raise _no_worker(worker)
    if state.drained == undo:
        state.drained = not undo
        batch.changes.worker_records[worker] = replace(worker_record_of(batch, worker), drained=not undo)
    running = len(batch.board.held_by(worker))
    if undo or not running:
        return Done([])
    return Done([], [f"{running} {'job' if running == 1 else 'jobs'} started there already, and will finish"])


def remove_worker(batch: Batch, worker: str, lost: bool = False) -> Done:
    """Forget a worker and end its tokens; `lost` gives up its jobs, when its machine will not come back."""
    state = batch.board.workers.get(worker)
    held = batch.board.held_by(worker)
    if state is not None and state.online and worker in batch.board.roles.trusted:
        raise Refused(f"worker {worker} is part of this daemon; `grass daemon --no-worker` runs without it")
    if held and (state is None or state.online or not lost):
        raise Refused(_why_not_removed(worker, held, lost))
    if not tokens.end_worker(batch, worker) and state is None:
        raise _no_worker(worker)
    gone = []
    for job in held:
        outcome = Outcome.UNKNOWN if job.state is State.RUNNING else Outcome.LOST
        gone.append(batch.move(job, Lost(job.attempt, outcome, f"worker {worker} was removed")))
    if state is not None:
        batch.board.remove_worker(worker)
    batch.changes.workers.pop(worker, None)
    batch.changes.worker_records.pop(worker, None)
    batch.changes.removed_workers.append(worker)
    batch.set_unreconciled(batch.board.unreconciled - {worker})
    reevaluate(batch)
    return Done(gone, [f"given up: {_named(gone)}"] if gone else [])


def _named(jobs: list[Job]) -> str:
    some = ", ".join(str(job.id) for job in jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
    return f"{'job' if len(jobs) == 1 else 'jobs'} {some}"


def _why_not_removed(worker: str, held: list[Job], lost: bool) -> str:
    what = f"worker {worker} holds {_named(held)}"
    if lost:
        return f"{what} and is online; `grass kill` ends them"
    return f"{what}; `grass drain {worker}` lets them finish, `--lost` gives them up if the machine is gone for good"


def _no_worker(worker: str) -> NotFound:
    return NotFound(f"there is no worker {shown(worker)}; `grass show` lists them")


def accept_restored(batch: Batch) -> Done:
    """Start jobs again after a restored backup, without waiting for the missing workers and attempts."""
    missing = sorted(batch.board.unreconciled)
    busy = {name: state for name, state in batch.board.workers.items() if state.unrecorded}
    if not missing and not busy and not batch.board.lost_jobs:
        return Done([], ["no restore in progress"])
    if batch.board.lost_jobs:
        batch.board.lost_jobs = batch.changes.lost_jobs = 0
    batch.board.unreconciled = set()
    batch.board.awaited = set()
    # The empty set is a change too, so that the batch ends with a plan.
    batch.changes.unreconciled = set()
    notes = []
    if missing:
        notes.append(f"what {', '.join(missing)} ran since the backup may be started a second time")
    for name, state in sorted(busy.items()):
        jobs = ", ".join(str(job) for job, _ in sorted(state.unrecorded))
        notes.append(f"other jobs may get the devices of {name} that job {jobs} may still use")
        state.unrecorded = set()
    return Done([], notes)


def put_template(batch: Batch, template: QueueTemplate) -> tuple[str, list[str]]:
    """Define or replace a queue at the broker; return created, unchanged or replaced, and what changed."""
    queue, templates = template.offer.queue, batch.board.templates
    if queue == DEFAULT_QUEUE:
        raise Refused("every worker has a queue 'default' of its own; choose another name")
    known = templates.get(queue)
    if known == template:
        return "unchanged", []
    if known is None and len(templates) >= OFFERS_MAX:
        raise Refused(f"there are {OFFERS_MAX} queues at this broker already; delete one first")
    _set_template(batch, queue, template)
    if known is None:
        return "created", []
    return "replaced", change_note(known.offer, template.offer, (known.labels, template.labels))


def delete_template(batch: Batch, queue: str) -> Done:
    """Delete a queue that was defined at the broker."""
    if queue not in batch.board.templates:
        raise NotFound(f"there is no queue {shown(queue)} at this broker; `grass show` lists them")
    _set_template(batch, queue, None)
    return Done([])


def _set_template(batch: Batch, queue: str, template: QueueTemplate | None) -> None:
    batch.changes.templates[queue] = template
    batch.board.set_template(queue, template, batch.now)
    reevaluate(batch)


def unknown(batch: Batch, ids: Sequence[int]) -> list[int]:
    """Return the ids that no stored job has."""
    known = {job.id for job in present(batch, ids)}
    return [id_ for id_ in ids if id_ not in known]
