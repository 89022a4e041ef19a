"""The state machine of a job: one table of (state, event). No other module writes `state`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from grassq.core import result
from grassq.core.model import (
    FINAL,
    HOLDING,
    AttemptNumber,
    ClockTime,
    ForJobs,
    ForQueue,
    ForTime,
    Job,
    KernelNumber,
    Outcome,
    Placement,
    ResultText,
    Spec,
    State,
    Wait,
    Words,
)
from grassq.core.suspension.events import SUSPENSION_RULES, SuspensionAction, SuspensionReport
from grassq.core.waiting import retries
from grassq.core.waiting.conditions import in_words
from grassq.errors import InvalidMove

LOST_ATTEMPTS_MAX = 3


class Place(Struct, frozen=True):
    """Devices were reserved for the next attempt."""

    placement: Placement


class Started(Struct, frozen=True, tag="started"):
    """The worker confirmed that the command runs."""

    attempt: AttemptNumber
    pid: KernelNumber


class Exited(Struct, frozen=True, tag="exited"):
    """The command ended and its wait status is known."""

    attempt: AttemptNumber
    outcome: Outcome
    code: KernelNumber | None = None
    signal: KernelNumber | None = None
    error: Words | None = None
    started: ClockTime | None = None
    ended: ClockTime | None = None
    #: What the command wrote to its result file, as compact JSON.
    result: ResultText | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a result that no shim writes: every listing shows the value."""
        if self.result is not None and result.read(self.result.encode()) != self.result:
            raise ValueError("the result is not compact JSON")


class Lost(Struct, frozen=True, tag="lost"):
    """The attempt is gone, and it is not known how it ended."""

    attempt: AttemptNumber
    outcome: Outcome
    why: Words
    #: Its shim ended it because the broker did not answer: the machine is well, so the loss says nothing of the job.
    lease_ended: bool = False


class RefusedByWorker(Struct, frozen=True, tag="refused"):
    """The worker will not run this attempt; `final` if no other worker would either."""

    attempt: AttemptNumber
    why: Words
    final: bool = False


#: How `Stuck.why` begins for an attempt that starts by itself as soon as its files are there.
SENDING = "sending its files"


class Stuck(Struct, frozen=True, tag="stuck"):
    """The attempt does not move: its command is alive after SIGKILL, or it cannot start yet. Its devices stay taken."""

    attempt: AttemptNumber
    why: Words


class Cancel(Struct, frozen=True):
    """The user cancels the job, or its sweep is stopped."""

    grace_s: float | None = None
    #: Why, if it was not the user.
    why: str = ""


class Requeue(Struct, frozen=True):
    """The user ends the attempt of the job, which is then queued again; no try is used up."""


class Hold(Struct, frozen=True):
    """The user holds the job, or the job may not start for another reason."""

    why: str = "held"


class Release(Struct, frozen=True):
    """The user releases the job."""


class Ready(Struct, frozen=True):
    """One of the things the job waits for has come."""

    wait: Wait


class Unready(Struct, frozen=True):
    """The job must wait for its queue: the queue does not exist, or no worker could run the job."""

    reason: str


class DependencyFailed(Struct, frozen=True):
    """A job that this one was to start after did not end as asked."""

    why: str


class Edit(Struct, frozen=True):
    """The user changes what was asked for: the spec, the name and the priority."""

    spec: Spec
    name: str | None
    priority: int
    #: What changed, and the name of the caller, for the story.
    what: str = ""
    #: What the job waits for from now on, besides its queue; None if that stays as it is.
    waits: tuple[Wait, ...] | None = None


#: What a worker reports of an attempt that goes on, and of one that has ended.
Progress = Started | Stuck | SuspensionReport
Report = Progress | Exited | Lost | RefusedByWorker
UserAction = Cancel | Requeue | Hold | Release | Edit | SuspensionAction
Event = Report | Place | UserAction | Ready | Unready | DependencyFailed

#: Returns the job after an event of its row in RULES, at this time.
Rule = Callable[[Job, Any, float], Job]


def advance(job: Job, event: Event, at: float) -> Job:
    """Return the job after an event; a report must be about the newest attempt (see `is_current`)."""
    rule = RULES.get((job.state, type(event)))
    if rule is None:
        raise InvalidMove(f"job {job.id} is {job.state} in attempt {job.attempt}: no rule for {type(event).__name__}")
    return rule(job, event, at)


def is_current(job: Job, report: Report, worker: str) -> bool:
    """Return whether a worker reports about the attempt by which the job holds devices of that worker.

    Any other report comes too late and must not change the job.
    """
    where = job.placement
    return job.state in HOLDING and where is not None and where.worker == worker and report.attempt == job.attempt


def _placed(job: Job, event: Place, at: float) -> Job:
    return replace(
        job,
        state=State.PLACED,
        attempt=job.attempt + 1,
        placement=event.placement,
        reason=None,
        pid=None,
        started=None,
        outcome=None,
        exit_code=None,
        signal=None,
        error=None,
        suspension=None,
        suspended_s=0.0,
    )


def _running(job: Job, event: Started, at: float) -> Job:
    if job.state is State.RUNNING and job.pid == event.pid:
        return job
    return replace(job, state=State.RUNNING, pid=event.pid, started=job.started or at, reason=None)


def _exited(job: Job, event: Exited, at: float) -> Job:
    started, finished = _span(event, job, at)
    ended = replace(
        job,
        outcome=event.outcome,
        exit_code=event.code,
        signal=event.signal,
        error=event.error,
        result=event.result,
        started=started,
        tried=job.tried + 1,
        pid=None,
        reason=None,
        suspension=None,
        suspended_s=job.stopped_s(finished),
    )
    if job.spec.put_back:
        return _put_back(replace(ended, tried=job.tried), f"attempt {job.attempt} was ended, to run the job again")
    if job.cancel_requested:
        return _cancelled(ended, event, finished)
    if event.outcome is Outcome.EXITED and event.code == 0:
        return replace(ended, state=State.SUCCEEDED, finished=finished)
    if retries.is_tried_again(ended):
        delay_s = retries.delay_s(ended)
        waits = (ForTime(at + delay_s, delay_s),)
        return replace(ended, state=State.WAITING, placement=None, reason=waiting_reason(ended, waits), waits=waits)
    return replace(ended, state=State.FAILED, finished=finished)


def _span(event: Exited, job: Job, at: float) -> tuple[float | None, float]:
    """Return when an attempt started and ended; of a worker whose clock is ahead, only the time between is believed."""
    started, ended = event.started or job.started, event.ended or at
    ahead_s = max(0.0, ended - at)
    return None if started is None else max(0.0, min(started, ended) - ahead_s), ended - ahead_s


def waiting_reason(job: Job, waits: tuple[Wait, ...]) -> str | None:
    """Return why a job waits, except for its queue: the first of what it waits for, in words."""
    for wait in waits:
        match wait:
            case ForJobs():
                return f"waits to start {in_words(job.spec.dependencies)}"
            case ForTime(_, delay_s) if job.tried and delay_s is not None:
                return f"try {job.tried} of {job.spec.tries} failed; the next starts in {delay_s:.3g} s"
            case ForTime():
                return "waits for its start time"
    return None


def _put_back(job: Job, reason: str) -> Job:
    return replace(_uncancelled(job), state=State.QUEUED, placement=None, reason=reason)


def _uncancelled(job: Job) -> Job:
    spec = replace(job.spec, put_back=False)
    return replace(job, spec=spec, cancel_requested=False, stop_grace_s=None) if job.spec.put_back else job


def _lost(job: Job, event: Lost, at: float) -> Job:
    # A job that was to be put back is lost as any other job: its command may still run on a machine out of reach.
    job = _uncancelled(job)
    lost = job.lost + (not event.lease_ended)
    gone = replace(job, outcome=event.outcome, error=event.why, pid=None, lost=lost, reason=None, suspension=None)
    gone = replace(gone, suspended_s=job.stopped_s(at))
    if job.cancel_requested:
        return _cancelled(gone, event, at)
    if job.spec.on_lost != "requeue":
        return replace(gone, state=State.FAILED, finished=at)
    if gone.lost >= LOST_ATTEMPTS_MAX:
        reason = f"lost {gone.lost} times ({event.why}); `grass release {job.id}` tries again"
        return replace(gone, state=State.HELD, placement=None, reason=reason)
    return replace(gone, state=State.QUEUED, placement=None, reason=event.why)


def _refused(job: Job, event: RefusedByWorker, at: float) -> Job:
    job = _uncancelled(job)
    back = replace(job, placement=None, pid=None, reason=event.why)
    if job.cancel_requested:
        return _cancelled(back, event, at)
    if event.final:
        failed = replace(back, state=State.FAILED, finished=at)
        return replace(failed, outcome=Outcome.SPAWN_FAILED, error=event.why, reason=None)
    return replace(back, state=State.QUEUED)


def _stuck(job: Job, event: Stuck, at: float) -> Job:
    return replace(job, reason=event.why)


def _cancel_flagged(job: Job, event: Cancel, at: float) -> Job:
    # Others may have the devices of a job that has given them back: its processes never run again.
    grace_s = 0.0 if job.is_freed else event.grace_s
    return replace(_uncancelled(job), cancel_requested=True, stop_grace_s=grace_s)


def _requeue_flagged(job: Job, event: Requeue, at: float) -> Job:
    if job.cancel_requested:
        return job  # it is told to end already: by a cancel, which stays one, or to be put back
    spec, grace_s = replace(job.spec, put_back=True), 0.0 if job.is_freed else None
    return replace(job, cancel_requested=True, spec=spec, stop_grace_s=grace_s)


def _cancelled(job: Job, event: Event, at: float) -> Job:
    cancelled = replace(job, state=State.CANCELLED, finished=at, waits=())
    cancelled = replace(cancelled, outcome=Outcome.CANCELLED, cancel_requested=True, reason=None)
    return replace(cancelled, error=event.why) if isinstance(event, Cancel) and event.why else cancelled


def _held(job: Job, event: Hold, at: float) -> Job:
    # Whether its queue can run it is looked at again when the job is released, and then no retry waits any longer.
    waits = tuple([wait for wait in job.waits if isinstance(wait, ForJobs) or (wait == job.for_time and not job.tried)])
    reason = f"{event.why}; `grass release {job.id}` lets it go on"
    return replace(job, state=State.HELD, reason=reason, waits=waits)


def _released(job: Job, event: Event, at: float) -> Job:
    # The limit on lost attempts protects machines from a job that is not looked after; a release shows that it is.
    state = State.WAITING if job.waits else State.QUEUED
    return replace(job, state=state, reason=waiting_reason(job, job.waits), lost=0)


def _ready(job: Job, event: Ready, at: float) -> Job:
    left = _without(job, event.wait)
    if not left:
        return replace(job, state=State.QUEUED, reason=None, waits=())
    # The reason of the queue came last.
    return replace(job, reason=job.reason if ForQueue() in left else waiting_reason(job, left), waits=left)


def _ready_while_held(job: Job, event: Ready, at: float) -> Job:
    return replace(job, waits=_without(job, event.wait))


def _without(job: Job, wait: Wait) -> tuple[Wait, ...]:
    return tuple([each for each in job.waits if each != wait])


def _dependency_failed(job: Job, event: DependencyFailed, at: float) -> Job:
    failed = replace(job, state=State.FAILED, finished=at, waits=(), reason=None)
    return replace(failed, outcome=Outcome.DEPENDENCY_FAILED, exit_code=None, signal=None, error=event.why)


def _unready(job: Job, event: Unready, at: float) -> Job:
    waits = job.waits if job.waits_for_queue else (*job.waits, ForQueue())
    return replace(job, state=State.WAITING, reason=event.reason, waits=waits)


def _edited(job: Job, event: Edit, at: float) -> Job:
    edited = replace(job, spec=event.spec, name=event.name, priority=event.priority)
    if job.priority != event.priority:
        edited = replace(edited, rank=None)  # the place was among jobs of the old priority
    if event.waits is not None:
        return _waiting_for(edited, event.waits)
    if job.state is State.HELD or not job.waits or job.waits_for_queue:
        return edited
    return replace(edited, reason=waiting_reason(edited, edited.waits))


def _waiting_for(job: Job, waits: tuple[Wait, ...]) -> Job:
    """Return a job that has not started with what it waits for; whether its queue can run it is looked at next."""
    if job.state is State.HELD:
        return replace(job, waits=waits)
    return replace(job, state=State.WAITING if waits else State.QUEUED, waits=waits, reason=waiting_reason(job, waits))


_REPORTS: dict[type[Event], Rule] = {
    Started: _running,
    Exited: _exited,
    Lost: _lost,
    RefusedByWorker: _refused,
    Stuck: _stuck,
    Cancel: _cancel_flagged,
    Requeue: _requeue_flagged,
}

RULES: dict[tuple[State, type[Event]], Rule] = {
    (State.HELD, Release): _released,
    (State.HELD, Ready): _ready_while_held,
    (State.HELD, DependencyFailed): _dependency_failed,
    (State.HELD, Cancel): _cancelled,
    (State.HELD, Edit): _edited,
    (State.WAITING, Ready): _ready,
    (State.WAITING, DependencyFailed): _dependency_failed,
    (State.WAITING, Unready): _unready,
    (State.WAITING, Hold): _held,
    (State.WAITING, Cancel): _cancelled,
    (State.WAITING, Edit): _edited,
    (State.QUEUED, Place): _placed,
    (State.QUEUED, Unready): _unready,
    (State.QUEUED, Hold): _held,
    (State.QUEUED, Cancel): _cancelled,
    (State.QUEUED, Edit): _edited,
    **{(State.PLACED, event): rule for event, rule in _REPORTS.items()},
    **{(State.RUNNING, event): rule for event, rule in _REPORTS.items() if event is not RefusedByWorker},
    **{(State.RUNNING, event): rule for event, rule in SUSPENSION_RULES.items()},
}

assert not any(state in FINAL for state, _ in RULES), "a final state takes no event"
