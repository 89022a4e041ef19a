"""The actions: what each does to a job, and which jobs it can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from grassq.broker.actions.bulk import Action, Applied
from grassq.broker.actions.suspend import given_back
from grassq.broker.batch import Batch
from grassq.broker.recovery import is_skipped
from grassq.broker.service import Draft, insert, refuse_what_never_fits
from grassq.broker.tokens import OWNER, Bearer
from grassq.broker.waiting import dependents
from grassq.broker.waiting.eligibility import REVOKED, Eligibility
from grassq.core.model import FINAL, HOLDING, Job, Spec, State, scoped_key
from grassq.core.planner.limits.membership import regrouped
from grassq.core.planner.request_classes import shape_of
from grassq.core.states import Cancel, Hold, Release, Requeue, Unready
from grassq.core.syntax.file_words import output_of_rerun


@dataclass(frozen=True)
class KillJobs(Action):
    """End jobs: waiting jobs are cancelled at once, running jobs are told to stop."""

    grace_s: float | None = None
    #: Leave started jobs alone.
    unstarted: bool = False
    with_dependents: bool = False

    is_strict = False  # a job that has ended needs no kill
    newest_first = True  # a dependent job is cancelled, and does not fail because the job before it was cancelled

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if self.unstarted:
            return None if _has_yet_to_start(batch, job) else ""
        if job.state not in FINAL:
            return None
        return f"job {job.id} has ended already ({job.state})" if named else ""

    def goes_last(self, job: Job) -> bool:
        """Stop running jobs last, so that their devices start no job that is about to be cancelled."""
        return job.state in HOLDING

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        killed = [batch.move(given_back(batch, job), Cancel(self.grace_s)) for job in jobs]
        return _told_to_end(killed)


class RequeueJobs(Action):
    """End the attempts of jobs, and queue the jobs again: each keeps its id, and starts in its turn."""

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state in FINAL:
            again = f"`grass rerun {job.id}` runs it again as a new job"
            return f"job {job.id} has ended ({job.state}); {again}" if named else ""
        if job.state not in HOLDING:
            return f"job {job.id} has not started ({job.state}), so that there is nothing to put back"
        if job.cancel_requested and not job.spec.put_back:
            return f"job {job.id} was told to end, and is not put back"
        return None

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        return _told_to_end([batch.move(given_back(batch, job), Requeue()) for job in jobs])


def _told_to_end(jobs: list[Job]) -> Applied:
    """Return what was done to jobs: those that hold devices are about to stop."""
    stopping = [job for job in jobs if job.state in HOLDING]
    graces = [job.grace_s for job in stopping]
    notes = {
        job.id: f"job {job.id} gets no grace: it has given its devices back, and others have them"
        for job in stopping
        if job.is_freed
    }
    return Applied(jobs, len(stopping), [min(graces), max(graces)] if graces else [], notes=notes)


def _has_yet_to_start(batch: Batch, job: Job) -> bool:
    """Tell whether a job waits, or is placed behind a predecessor that still has the devices."""
    return job.state not in FINAL | HOLDING or (job.state is State.PLACED and batch.board.predecessor(job) is not None)


class HoldRevoked(Action):
    """Hold the jobs of a token that has ended, as far as they have not started; jobs that are held already count."""

    is_strict = False  # there may be nothing to hold

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        return "" if job.state in FINAL | HOLDING else None

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        return Applied([job if job.state is State.HELD else batch.move(job, Hold(REVOKED)) for job in jobs])


class HoldJobs(Action):
    """Keep jobs that have not started from starting."""

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state in HOLDING:
            return f"job {job.id} runs already; `grass kill {job.id}` ends it, `grass pause` stops new starts"
        if job.state in FINAL:
            return f"job {job.id} has ended ({job.state}); only a waiting job can be held" if named else ""
        return None

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        return Applied([job if job.state is State.HELD else batch.move(job, Hold()) for job in jobs])


@dataclass(frozen=True)
class ReleaseJobs(Action):
    """Let held jobs go on. If the token of a job has ended, the token of the caller answers for the job from now on."""

    token: str | None = None

    is_strict = False  # a job that is not held needs no release

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if any(job.id == id_ for state in batch.board.workers.values() for id_, _ in state.unrecorded):
            runs = "an attempt of it that the store has no record of may still run; `grass kill` ends it"
            return f"job {job.id} stays held: {runs}"
        if batch.board.awaited and job.state is State.HELD and is_skipped(batch, job):
            names = ", ".join(sorted(batch.board.awaited))
            runs = f"an attempt of it that the store has no record of may run on {names}, which has not connected since"
            return f"job {job.id} stays held: {runs} the broker started; `grass remove WORKER --lost` gives a worker up"
        if job.state is State.HELD:
            return self._taken(batch, job)
        return f"job {job.id} is not held ({job.state})" if named else ""

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        unready = Eligibility(batch)
        released = []
        notes: dict[int, str] = {}
        for job in jobs:
            if (why := self._taken(batch, job)) is not None:
                notes[job.id] = why  # another job of this step has the key now
                continue
            if job.token in batch.board.ended_tokens:
                taken_over = replace(job, token=self.token)
                batch.set(job, taken_over)
                job = taken_over
                if job.unique_key is not None:
                    batch.unique[job.unique_key] = job.id
            after = batch.move(job, Release())
            why = None if after.waits_for_jobs else unready.why(shape_of(job))
            released.append(after if why is None else batch.move(after, Unready(why)))
        return Applied(released, notes=notes)

    def _taken(self, batch: Batch, job: Job) -> str | None:
        """Return which unfinished job of the caller's token has the unique key of a job to be taken over, if any."""
        key = job.spec.unique
        if key is None or job.token not in batch.board.ended_tokens:
            return None
        live = batch.live_with(scoped_key(self.token, key))
        return (
            None if live is None else f"job {job.id} stays held: job {live.id} with unique key {key!r} is not finished"
        )


@dataclass(frozen=True)
class SetPriority(Action):
    """Change the priority of jobs; a larger priority starts sooner."""

    priority: int

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state in FINAL:
            return f"job {job.id} has ended ({job.state}); its priority no longer matters" if named else ""
        return None

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        # A job that was moved had its place among jobs of the old priority.
        changed = [
            job if job.priority == self.priority else replace(job, priority=self.priority, rank=None) for job in jobs
        ]
        notes = {}
        for before, after in zip(jobs, changed, strict=True):
            if before.state in HOLDING:
                notes[before.id] = f"job {before.id} runs already; the priority counts only if it is started again"
            if after != before:
                batch.set(before, after)
                batch.note(after, "priority", str(self.priority))
        return Applied(changed, notes=notes)


@dataclass(frozen=True)
class RerunJobs(Action):
    """Submit finished jobs again as new jobs; the old records stay. The caller's token answers for the new jobs."""

    bearer: Bearer = OWNER
    with_dependents: bool = False

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state not in FINAL:
            return f"job {job.id} has not ended ({job.state}); only a finished job can be run again"
        return self._taken(batch, job)

    def order(self, job: Job) -> int:
        """Return the first run of a job: it is newer than those of all jobs that the job was submitted to start after.

        A job is run again only when these are run again already, or in the same step.
        """
        return job.rerun_of or job.id

    def check(self, batch: Batch, jobs: Sequence[Job]) -> dict[int, str]:
        refuse_what_never_fits(Eligibility(batch), map(shape_of, jobs))
        return {}

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        jobs, taken = self._without_taken_keys(batch, jobs)
        environments = {digest: batch.store.environment(digest) for digest in {job.spec.env_digest for job in jobs}}
        after = dependents.of_reruns(batch, jobs)
        drafts = [
            Draft(
                _spec_of_rerun(job.spec),
                environments[job.spec.env_digest] or b"\x90",
                job.name,
                job.priority if self.bearer.limits is None else min(job.priority, self.bearer.limits.priority),
                rerun_of=job.rerun_of or job.id,
                dependencies=after.get(job.id, ()),
            )
            for job in jobs
        ]
        return Applied(insert(batch, drafts, Eligibility(batch), bearer=self.bearer), notes=taken)

    def _without_taken_keys(self, batch: Batch, jobs: Sequence[Job]) -> tuple[list[Job], dict[int, str]]:
        """Return the jobs whose unique key no unfinished job has, one for each key, and why others are left out."""
        notes: dict[int, str] = {}
        keys: set[str] = set()
        for job in jobs:
            if (key := job.spec.unique) is not None:
                if key in keys:
                    notes[job.id] = f"job {job.id} is left out: another job with unique key {key!r} is run again"
                elif (why := self._taken(batch, job)) is not None:
                    notes[job.id] = why
                keys.add(key)
        return [job for job in jobs if job.id not in notes], notes

    def _taken(self, batch: Batch, job: Job) -> str | None:
        """Return which unfinished job has the unique key of a job that is to run again; None if none has it."""
        key = job.spec.unique
        live = None if key is None else batch.live_with(scoped_key(self.bearer.token, key))
        return None if live is None else f"job {live.id} with unique key {key!r} is not finished; nothing was queued"


def _spec_of_rerun(spec: Spec) -> Spec:
    """Return the spec of another run: its output goes to a file of its own; a job of an earlier release gets groups."""
    if spec.dependencies:
        spec = replace(spec, dependencies=())
    spec = regrouped(spec, spec)
    return spec if spec.output is None else replace(spec, output=output_of_rerun(spec.output))


class RerunLast(RerunJobs):
    """Submit the last run of each job again, except if a later run succeeded or has not ended."""

    def group(self, job: Job) -> int:
        """Return the job's first run, so that only the last of several runs is run again."""
        return job.rerun_of or job.id

    def check(self, batch: Batch, jobs: Sequence[Job]) -> dict[int, str]:
        """Leave out what can never run: it must not keep the other jobs of the selection from running again."""
        eligibility = Eligibility(batch)
        reasons = {job.id: eligibility.never(shape_of(job)) for job in jobs}
        return {id_: f"job {id_} is left out, because it can never run: {why}" for id_, why in reasons.items() if why}

    def effective(self, batch: Batch, jobs: Sequence[Job]) -> list[Job]:
        """Leave out jobs of which a later run succeeded or has not ended."""
        return _without_later_run(batch, jobs)

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        return super().apply(batch, self.effective(batch, jobs))


@dataclass(frozen=True)
class RerunFailed(RerunLast):
    """Submit failed jobs again, or cancelled ones too, except those of which a later run did not fail."""

    states: frozenset[State] = frozenset({State.FAILED})

    is_strict = False  # there may be nothing to do

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        return None if job.state in self.states else ""

    def note_of(self, left_out: Mapping[State, int]) -> str | None:
        count = left_out.get(State.CANCELLED, 0)
        jobs = "1 cancelled job is" if count == 1 else f"{count} cancelled jobs are"
        return f"{jobs} left out; --cancelled runs them again too" if count else None


def _without_later_run(batch: Batch, jobs: Sequence[Job]) -> list[Job]:
    """Leave out jobs of which a later run succeeded or has not ended."""
    failed = {job.rerun_of or job.id: job for job in jobs}
    runs = [batch.current(job) for job in batch.store.reruns(list(failed))]
    # Also runs that were submitted earlier in this batch: two requests at once must not submit twice.
    runs += [job for job in batch.changes.inserted.values() if job.rerun_of in failed]
    for run in runs:
        first = run.rerun_of or run.id
        if run.state not in (State.FAILED, State.CANCELLED) and first in failed and failed[first].id < run.id:
            del failed[first]
    return list(failed.values())


@dataclass(frozen=True)
class CleanJobs(Action):
    """Remove finished jobs from the store; jobs that have not ended are never removed."""

    older_s: float | None = None
    #: Only jobs that had ended by this time.
    ended_by: float | None = None
    #: Leave the folders of the jobs, with their logs, on the machines that ran them.
    keep_logs: bool = False

    is_strict = False  # there may be nothing to remove

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state not in FINAL or job.finished is None:
            return ""
        old_enough = self.older_s is None or job.finished <= batch.now - self.older_s
        if self.keep_logs and (where := _cannot_keep(batch, job)) is not None:
            return f"job {job.id} stays: worker {where} cannot keep the logs of a removed job"
        return None if old_enough and (self.ended_by is None or job.finished <= self.ended_by) else ""

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        batch.remove(jobs, keep_logs=self.keep_logs)
        return Applied(list(jobs))


def _cannot_keep(batch: Batch, job: Job) -> str | None:
    """Return the worker of a job's last attempt if the worker would remove the logs, else None."""
    name = None if job.placement is None else job.placement.worker
    worker = None if name is None else batch.board.workers.get(name)
    return name if worker is not None and not worker.info.keeps_logs else None
