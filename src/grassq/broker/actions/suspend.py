"""Suspend running jobs and let them go on; which suspended jobs get their devices again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grassq.broker.actions.bulk import Action, Applied
from grassq.broker.batch import Batch
from grassq.broker.documents.texts import clock_text
from grassq.core.model import FINAL, Job, State
from grassq.core.suspension.events import Regain, Reorder, Resume, Suspend
from grassq.core.suspension.room import has_room, in_the_way, limit_in_the_way, regained, returning

#: How many of the jobs that are in the way are named.
IN_THE_WAY_SHOWN = 5
#: What to know before the devices of a suspended job are given to others.
MEMORY_STAYS = "a suspended job keeps what it has allocated in device memory: the next job there may run out of memory"


@dataclass(frozen=True)
class SuspendJobs(Action):
    """Stop the processes of running jobs; with `frees`, their devices are given to other jobs meanwhile."""

    frees: bool = False

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.state in FINAL:
            return f"job {job.id} has ended ({job.state}); only a running job can be suspended" if named else ""
        if job.state is State.PLACED:
            start = f"`grass suspend {job.id}` works when it runs, `grass kill {job.id}` ends it"
            return f"job {job.id} is about to start, and has no processes yet; {start}"
        if job.state is not State.RUNNING:
            return f"job {job.id} is not running ({job.state}); `grass hold {job.id}` keeps it from starting"
        if job.cancel_requested:
            return f"job {job.id} was told to end, and is not suspended"
        worker = None if job.placement is None else batch.board.workers.get(job.placement.worker)
        if worker is None or not worker.info.suspends:
            name = "its worker" if worker is None else f"worker {worker.info.name}"
            return f"job {job.id} runs on, because {name} is of an earlier release, which cannot suspend jobs"
        return None

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        after = [batch.move(job, Suspend(self.frees)) for job in jobs]
        notes = {}
        for before, job in zip(jobs, after, strict=True):
            if before is job and job.suspension is not None:
                devices = "its devices are given back" if job.suspension.frees else "its devices stay taken"
                notes[job.id] = (
                    f"job {job.id} is suspended already, since {clock_text(job.suspension.since, batch.now)}; {devices}"
                )
            elif self.frees:
                notes[job.id] = MEMORY_STAYS
        return Applied(after, notes=_once(notes))


class ResumeJobs(Action):
    """Let suspended jobs go on; one that has given its devices back waits until they have room again."""

    is_strict = False  # a job that is not suspended needs no resume

    def why_not(self, batch: Batch, job: Job, named: bool) -> str | None:
        if job.is_suspended and not job.cancel_requested:
            return None
        if job.state is State.HELD:
            return f"job {job.id} is not suspended, but held; `grass release {job.id}` lets it start" if named else ""
        return f"job {job.id} is not suspended ({job.state})" if named else ""

    def apply(self, batch: Batch, jobs: Sequence[Job]) -> Applied:
        after = [batch.move(job, Resume()) for job in jobs]
        let_return(batch)
        now = [batch.board.holding.get(job.id, job) for job in after]
        waiting = [job for job in now if job.suspension is not None and job.suspension.waits]
        return Applied(now, notes={job.id: f"job {job.id}: {suspension_text(batch, job)}" for job in waiting})


def _once(notes: dict[int, str]) -> dict[int, str]:
    """Return notes without those that were there before, word for word."""
    return {job: note for note, job in {note: job for job, note in reversed(notes.items())}.items()}


def let_return(batch: Batch) -> None:
    """Give suspended jobs that are to go on their devices again, where these have room for them."""
    if batch.board.unreconciled or batch.board.awaits(batch.mono):
        return
    for job in regained(batch.board) if returning(batch.board) else ():
        batch.move(job, Regain())


def given_back(batch: Batch, job: Job) -> Job:
    """Give a suspended job that is about to end its devices again, if they have room: then it may have its grace."""
    if not job.is_freed or job.cancel_requested or not has_room(batch.board, job):
        return job
    return batch.move(batch.move(job, Resume()), Regain())


def order_again(batch: Batch) -> None:
    """Order every suspension again: a store that was restored from a backup may know an earlier one."""
    for job in [job for job in batch.board.holding.values() if job.suspension is not None]:
        if job.state is State.RUNNING:
            batch.move(job, Reorder())


def suspension_text(batch: Batch, job: Job) -> str | None:
    """Return that a job is suspended, since when, and what it waits for; None if it is not."""
    known = job.suspension
    if known is None or known.is_over or job.state in FINAL:
        return None
    since = f"suspended since {clock_text(known.since, batch.now)}"
    if known.waits:
        limit = limit_in_the_way(batch.board, job)
        what = "its devices have room again" if limit is None else f"its groups have room again; {limit}"
        return f"{since}; it goes on when {what}{_held_by(batch, job)}"
    if known.resuming:
        return f"{since}; told to go on"
    if not known.confirmed:
        return f"{since}; its processes are about to be stopped"
    again = f"`grass resume {job.id}` lets it go on"
    if known.is_freed:
        return f"{since}; its devices are given back, its device memory stays taken; {again}"
    return f"{since}; its devices stay taken; {again}"


def _held_by(batch: Batch, job: Job) -> str:
    ids = sorted(each.id for each in in_the_way(batch.board, job))
    if not ids:
        return ""
    more = f" and {len(ids) - IN_THE_WAY_SHOWN} more" if len(ids) > IN_THE_WAY_SHOWN else ""
    names = ", ".join(map(str, ids[:IN_THE_WAY_SHOWN]))
    return f"; held by {'job' if len(ids) == 1 else 'jobs'} {names}{more}"
