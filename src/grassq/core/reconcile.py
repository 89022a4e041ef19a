"""What should be, against what is found: one table for restart, lost message, reconnect and adoption."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from grassq.core.board import Board
from grassq.core.messages import Check, Stop
from grassq.core.model import AttemptId, Job, Outcome, State
from grassq.core.states import Exited, Lost, Refused

RESEND_S = 5.0


class Found(Struct, frozen=True):
    """What a run dir and the process table say of one attempt."""

    exit: Exited | None = None
    #: The claim says: given up before it started.
    void: bool = False
    claimed: bool = False
    shim_alive: bool = False
    command_alive: bool = False
    pid: int | None = None


class Sent(Struct, frozen=True):
    """What a worker was last told of an attempt, and when."""

    at: float
    #: The grace of a stop; None if it was told to start.
    stop_grace_s: float | None


class Verdict(Enum):
    """What to do with an attempt that has not ended."""

    ORDER = "nobody claimed it: order it, under the same number"
    WATCH = "its shim lives: wait for the exit record"
    ORPHANED = "its shim is gone, its command lives: keep the devices"


def judge(attempt: int, found: Found, *, may_start: bool, same_boot: bool) -> Verdict | Exited | Lost | Refused:
    """Conclude from what is found how an attempt stands, or how it ended."""
    if found.exit is not None:
        return found.exit
    if not same_boot:
        return Lost(attempt, Outcome.LOST, "the machine restarted while it ran")
    if found.void:
        return Refused(attempt, "given up before it started")
    if found.shim_alive:
        return Verdict.WATCH
    if found.command_alive:
        return Verdict.ORPHANED
    if not found.claimed and may_start:
        return Verdict.ORDER
    return Lost(attempt, Outcome.UNKNOWN, "it is gone and left no exit record")


def due(board: Board, worker: str, sent: Mapping[AttemptId, Sent], now: float) -> list[Job]:
    """Jobs a worker was not told of lately: placed ones to start, and cancelled ones to stop."""
    return [
        job
        for job in board.held_by(worker)
        if (job.state is State.PLACED or job.cancel_requested) and _is_news(job, sent.get(job.attempt_id), now)
    ]


def told(job: Job, now: float) -> Sent:
    """What is noted once a job's worker has been told what it should do now."""
    return Sent(now, _stop_grace_s(job) if job.cancel_requested else None)


def _is_news(job: Job, last: Sent | None, now: float) -> bool:
    # A stop must not wait until the start before it, or a stop with a longer grace, would be repeated anyway.
    return last is None or last.stop_grace_s != told(job, now).stop_grace_s or now - last.at >= RESEND_S


def stop_of(job: Job) -> Stop:
    """The order that ends a job's newest attempt."""
    return Stop(job.id, job.attempt, _stop_grace_s(job), _boot(job))


def _stop_grace_s(job: Job) -> float:
    return job.spec.grace_s if job.stop_grace_s is None else job.stop_grace_s


def checks(board: Board, worker: str) -> list[Check]:
    """What a worker that just connected should hold and may not know of."""
    return [Check(job.id, job.attempt, _boot(job)) for job in board.held_by(worker) if job.state is State.RUNNING]


def _boot(job: Job) -> str:
    assert job.placement is not None
    return job.placement.boot
