"""One batch in progress: what the handlers of its messages may read and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from operator import eq
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from grassq.broker.job_change import JobChange, change_of, ranges_of
from grassq.core import states
from grassq.core.model import FINAL, HOLDING, Job, State
from grassq.core.notices.notice import encode_end, end_of
from grassq.core.outcome import in_words
from grassq.core.planner.board import Board
from grassq.core.states import (
    Cancel,
    DependencyFailed,
    Edit,
    Event,
    Exited,
    Hold,
    Lost,
    Place,
    RefusedByWorker,
    Release,
    Requeue,
    Unready,
)
from grassq.core.suspension.events import Regain, Reorder, Resume, Suspend, SuspendRefused, SuspensionOutdated
from grassq.errors import GuardFailed, InvalidMove
from grassq.store.base import Attempt, Changes, Story, Submission, TokenUsage, WorkerRecord
from grassq.store.relational import Store

#: The number of story lines in an InvalidMove.
LINES_TOLD = 20

#: The story's words for events that are named like orders.
_KINDS: dict[type[Event], str] = {
    Place: "placed",
    Cancel: "cancel requested",
    Requeue: "requeue requested",
    Hold: "held",
    Release: "released",
    Unready: "waiting",
    DependencyFailed: "failed",
    Edit: "edited",
    Suspend: "suspend requested",
    Resume: "resume requested",
    Regain: "devices regained",
    Reorder: "suspension ordered again",
    SuspendRefused: "not suspended",
    SuspensionOutdated: "suspension ordered again",
}


#: Tells whether the end of a job may have to be told.
WantsNotice = Callable[[Job], bool]


def names_targets(job: Job) -> bool:
    """Tell whether a job names targets of notices."""
    return bool(job.spec.notify)


class Clock(Protocol):
    """The clock, passed in so that tests and the simulator control it."""

    def wall(self) -> float:
        """Return seconds since the epoch: for people to read, never for durations."""

    def mono(self) -> float:
        """Return seconds that never decrease: for durations and deadlines."""


class Batch(Struct):
    """The board, the store to read from, and the changes so far."""

    board: Board
    store: Store
    now: float
    mono: float
    next_id: int
    changes: Changes
    #: The number of the last change, here or in an earlier batch.
    seq: int = 0
    #: The broker's own records of workers, as stored.
    worker_records: dict[str, WorkerRecord] = field(default_factory=dict)
    wants_notice: WantsNotice = names_targets
    #: Why nothing can be stored now; None while commits succeed.
    read_only: str | None = None
    #: The changes to publish to subscribers once this batch is on disk, in order.
    changed: list[JobChange] = field(default_factory=list)
    #: Jobs that have ended in this batch, and whose ends matter to others: `dependents.settle` goes on from there.
    ended: list[Job] = field(default_factory=list)
    #: The jobs that have a unique key since this batch, by the key.
    unique: dict[str, int] = field(default_factory=dict)
    #: What tokens use with the new jobs of this batch; tokens that submitted nothing in it are left out.
    used: dict[str, TokenUsage] = field(default_factory=dict)

    def insert(self, jobs: Sequence[Job]) -> None:
        """Add new jobs; their ids must continue at `next_id`."""
        assert all(map(eq, (job.id for job in jobs), count(self.next_id)))
        self.next_id += len(jobs)
        self.changes.inserted.update({job.id: job for job in jobs})
        self.board.put_new(jobs)
        self._note_ranges(jobs, "submitted")
        self.unique.update({job.unique_key: job.id for job in jobs if job.unique_key is not None})

    def live_with(self, key: str) -> Job | None:
        """Return the unfinished job that has a unique key, as `Job.unique_key` has it; None if there is none."""
        found = (self.alive(id_) for id_ in (self.unique.get(key), self.store.unique_job(key)) if id_ is not None)
        return next((job for job in found if job is not None), None)

    def usage(self, token: str) -> TokenUsage:
        """Return what a token uses, new jobs of this batch included; jobs that end in this batch still count."""
        return self.used.get(token) or self.store.tallies.of_token(token)

    def remove(self, jobs: Sequence[Job], *, keep_logs: bool = False) -> None:
        """Remove finished jobs, with their folders or without."""
        self.changes.removed += [job.id for job in jobs]
        if keep_logs:
            self.changes.kept |= {job.id for job in jobs}
        self._note_ranges(jobs, "removed")

    def move(self, job: Job, event: Event) -> Job:
        """Apply an event to a job, on the board and in the changes to be stored."""
        try:
            after = states.advance(job, event, self.now)
        except InvalidMove as error:
            raise InvalidMove(f"{error}; before: {self._last_lines(job.id)}") from None
        if after is job or after == job:
            return job
        self.set(job, after)
        self.note(after, _KINDS.get(type(event)) or type(event).__name__.lower(), _detail(event, after))
        if (attempt := _attempt_of(after, job, self.now)) is not None:
            self.changes.attempts[attempt.job, attempt.number] = attempt
        if after.state in FINAL and self.wants_notice(after):
            self.changes.untold.append(encode_end(end_of(replace(after, placement=after.placement or job.placement))))
        return after

    def set(self, before: Job, after: Job) -> None:
        """Replace a job by a changed copy, on the board and in the changes to be stored."""
        if not self.board.has(before):
            raise GuardFailed(f"job {before.id} is {before.state} in the store, which the board does not know")
        if after.state in FINAL and self.board.dependencies.concerns(after.id):
            self.ended.append(after)
        self.changes.put(before, after)
        self.board.put(after, before, self.mono)

    def set_unreconciled(self, workers: AbstractSet[str]) -> None:
        """Set which workers must reconnect before anything is started, on the board and in the store."""
        if workers != self.board.unreconciled:
            self.board.unreconciled, self.changes.unreconciled = {*workers}, {*workers}

    def job(self, id_: int) -> Job | None:
        """Return the current version of a job; None if there is no such job."""
        return self.fetch([id_]).get(id_)

    def alive(self, id_: int) -> Job | None:
        """Return the current version of a job; None if it has ended or does not exist."""
        job = self.job(id_)
        return None if job is None or job.state in FINAL else job

    def fetch(self, ids: Iterable[int]) -> dict[int, Job]:
        """Return the current version of each job that exists, by id: from the board, or read from the store."""
        known, inserted, updated = self.board.jobs, self.changes.inserted, self.changes.updated
        found: dict[int, Job] = {}
        unknown = []
        for id_ in ids:
            if (job := known.get(id_) or inserted.get(id_)) is not None:
                found[id_] = job
            elif id_ in updated:
                found[id_] = updated[id_][1]
            else:
                unknown.append(id_)
        if unknown:
            found |= {job.id: job for job in self.store.some(unknown)}
        removed = self.changes.removed
        return {id_: job for id_, job in found.items() if id_ not in removed} if removed else found

    def fetch_in_state(self, ids: Iterable[int], state: State) -> dict[int, Job]:
        """Return queued or blocked jobs whole; raise GuardFailed if the store has one of them in another way.

        A broker that was taken over still has a board, and the store has what its successor made of the jobs.
        """
        ids = list(ids)
        found = self.fetch(ids)
        for id_ in ids:
            if id_ not in found or found[id_].state is not state or not self.board.has(found[id_]):
                raise GuardFailed(f"job {id_} is not {state} in the store, or not as the board knows it")
        return found

    def current(self, job: Job) -> Job:
        """Return the current version of a job that was read from the store: this batch may have changed it."""
        return self.changes.updated[job.id][1] if job.id in self.changes.updated else job

    def submission(self, key: str) -> Submission | None:
        """Return what a key was used for, also earlier in this batch."""
        return self.changes.submissions.get(key) or self.store.submission(key)

    def tell(self, job: int, kind: str, detail: str = "") -> None:
        """Add a line to a job's story."""
        self.changes.story.append(Story(job, self.now, kind, detail))

    def _last_lines(self, job: int) -> str:
        """Return the last LINES_TOLD lines of a job's story."""
        lines = [*self.store.story(job), *(line for line in self.changes.story if line.job == job)]
        return ", ".join(f"{line.kind} {line.detail}".rstrip() for line in lines[-LINES_TOLD:])

    def note(self, job: Job, event: str, detail: str = "") -> None:
        """Add a line to a job's story and publish the change to subscribers."""
        self.tell(job.id, event, detail)
        self.seq += 1
        self.changed.append(change_of(job, self.seq, self.now, event, detail))

    def _note_ranges(self, jobs: Sequence[Job], event: str) -> None:
        for first, last in ranges_of(jobs):
            self.seq += 1
            self.changed.append(change_of(first, self.seq, self.now, event, last=last))


def _attempt_of(after: Job, before: Job, now: float) -> Attempt | None:
    """Return the attempt row of a move: the attempt that holds devices now, or held them until this move."""
    placement = after.placement or before.placement
    if placement is None:
        return None
    ended = None if after.state in HOLDING else (after.finished or now)
    return Attempt(
        job=after.id,
        number=after.attempt,
        placement=placement,
        pid=after.pid or before.pid,
        started=after.started,
        ended=ended,
        outcome=after.outcome,
        exit_code=after.exit_code,
        signal=after.signal,
        error=after.error,
    )


def _detail(event: Event, after: Job) -> str:
    match event:
        case Place(placement):
            return f"attempt {after.attempt} on {placement.worker}"
        case Exited(_, outcome, code, signal):
            return f"{in_words(outcome, code, signal)} -> {after.state}"
        case Lost(_, _, why) | RefusedByWorker(_, why):
            return f"{why} -> {after.state}"
        case Unready(reason) | DependencyFailed(reason):
            return reason
        case Cancel(why=why):
            return why
        case Edit(what=what):
            return what
        case Suspend(frees=True):
            return "its devices are given back"
        case SuspendRefused(why=why):
            return why
        case Hold(why) if why != Hold().why:
            return why
        case _:
            return ""
