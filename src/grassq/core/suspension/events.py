"""The events of a suspension, and what each makes of a running job; `core.states` has the table of all events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.model import AttemptNumber, Job, Suspension, SuspensionNumber, Words

#: No worker is believed to have an order of a higher number, so that there are always numbers above.
NUMBER_MAX = 2**52


class Suspended(Struct, frozen=True, tag="suspended"):
    """The worker confirmed that every process of the attempt is stopped, as the order of this number says."""

    attempt: AttemptNumber
    number: SuspensionNumber


class Resumed(Struct, frozen=True, tag="resumed"):
    """The worker confirmed that the processes of the attempt run again, as the order of this number says."""

    attempt: AttemptNumber
    number: SuspensionNumber


class SuspendRefused(Struct, frozen=True, tag="suspend_refused"):
    """The worker cannot suspend this attempt, which runs on."""

    attempt: AttemptNumber
    number: SuspensionNumber
    why: Words


class SuspensionOutdated(Struct, frozen=True, tag="suspension_outdated"):
    """The worker has a later order about the attempt, of this number: the broker's store was restored from a backup."""

    attempt: AttemptNumber
    number: SuspensionNumber


class Suspend(Struct, frozen=True):
    """The user suspends the job; with `frees`, its devices are given back while it is stopped."""

    frees: bool = False


class Resume(Struct, frozen=True):
    """The user lets a suspended job go on."""


class Regain(Struct, frozen=True):
    """The devices of a job that is to go on have room for it again: from now on it holds them."""


class Reorder(Struct, frozen=True):
    """The store was restored from a backup: what it says of a suspension may be outdated, and is ordered again."""


SuspensionReport = Suspended | Resumed | SuspendRefused | SuspensionOutdated
SuspensionAction = Suspend | Resume | Regain | Reorder


def _suspend(job: Job, event: Suspend, at: float) -> Job:
    known = job.suspension
    if known is None or not known.wants_stop:
        stopped_at = None if known is None else known.stopped_at
        wanted = Suspension(_next_number(known, at), at, event.frees, stopped_at=stopped_at)
        return replace(job, suspension=wanted, reason=None)
    if known.resuming:
        # It waited for its devices, which it has given back: it stays stopped.
        return replace(job, suspension=replace(known, resuming=False))
    return replace(job, suspension=replace(known, frees=True)) if event.frees and not known.frees else job


def _resume(job: Job, event: Resume, at: float) -> Job:
    known = job.suspension
    if known is None or known.resuming:
        return job
    if known.frees:
        # Also before the worker has confirmed the stop: others may have the devices if the order is given again.
        return replace(job, suspension=replace(known, resuming=True, resume_asked=at))
    return replace(job, suspension=_to_continue(known, at))


def _regain(job: Job, event: Regain, at: float) -> Job:
    known = job.suspension
    return job if known is None or not known.waits else replace(job, suspension=_to_continue(known, at))


def _to_continue(known: Suspension, at: float) -> Suspension:
    number = _next_number(known, at)
    return replace(known, number=number, frees=False, resuming=True, confirmed=False)


def _reorder(job: Job, event: Reorder, at: float) -> Job:
    known = job.suspension
    if known is None:
        return job
    return replace(job, suspension=replace(known, number=_next_number(known, at), confirmed=False))


def _next_number(known: Suspension | None, at: float) -> int:
    """Return a number above the last one, also if the clock was set back, or the store restored from a backup."""
    return max(1 if known is None else known.number + 1, int(at * 1000))


def _confirmed(job: Job, event: Suspended | Resumed, at: float) -> Job:
    known = job.suspension
    if known is None or known.number != event.number or known.wants_stop != isinstance(event, Suspended):
        return job
    if known.frees and job.cancel_requested:
        return job  # it goes on for its grace, and keeps its devices until it has ended
    if isinstance(event, Suspended):
        stopped_at = at if known.stopped_at is None else known.stopped_at
        return replace(job, suspension=replace(known, confirmed=True, stopped_at=stopped_at))
    return replace(job, suspended_s=job.stopped_s(at), suspension=replace(known, confirmed=True, stopped_at=None))


def _suspend_refused(job: Job, event: SuspendRefused, at: float) -> Job:
    known = job.suspension
    if known is None or known.number != event.number or known.confirmed:
        return job
    runs = replace(known, frees=False, resuming=True, confirmed=True, stopped_at=None)
    return replace(job, suspended_s=job.stopped_s(at), suspension=runs, reason=f"not suspended: {event.why}")


def _outdated(job: Job, event: SuspensionOutdated, at: float) -> Job:
    known = job.suspension
    if known is None or known.confirmed or not known.number < event.number < NUMBER_MAX:
        return job
    return replace(job, suspension=replace(known, number=event.number + 1))


#: The rule of each event, for a job that runs.
SUSPENSION_RULES: dict[type[SuspensionAction | SuspensionReport], Callable[[Job, Any, float], Job]] = {
    Suspend: _suspend,
    Resume: _resume,
    Regain: _regain,
    Reorder: _reorder,
    Suspended: _confirmed,
    Resumed: _confirmed,
    SuspendRefused: _suspend_refused,
    SuspensionOutdated: _outdated,
}
