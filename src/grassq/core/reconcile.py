"""What should be, against what is found: one table for restart, lost message and reconnect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

from grassq.core.messages import Check, Stop, Withdraw
from grassq.core.model import FINAL, AttemptId, Job, Outcome, State
from grassq.core.planner.board import Board
from grassq.core.states import Exited, Lost, RefusedByWorker

RESEND_S = 5.0


class RunState(Struct, frozen=True):
    """What a run dir and the process table say of one attempt."""

    exit: Exited | Lost | RefusedByWorker | None = None
    #: The claim says: given up before it started.
    void: bool = False
    claimed: bool = False
    shim_alive: bool = False
    command_alive: bool = False
    pid: int | None = None


class Sent(Struct, frozen=True):
    """What a worker was last told of an attempt, and when."""

    at: float
    #: When it was first told anything of it.
    since: float
    #: The grace of a stop; None if it was told to start, or to give it up.
    stop_grace_s: float | None
    #: It was told to give it up: it waits behind another for too long.
    back: bool = False


class Conclusion(Enum):
    """What to do with an attempt that has not ended."""

    ORDER = "nobody claimed it: order it, under the same number"
    WATCH = "its shim lives: wait for the exit record"
    ORPHANED = "its shim is gone, its command lives: keep the devices"


def judge(
    attempt: int, found: RunState, *, may_start: bool, same_boot: bool
) -> Conclusion | Exited | Lost | RefusedByWorker:
    """Conclude from what is found how an attempt stands, or how it ended."""
    if found.exit is not None:
        return found.exit
    if not same_boot:
        return Lost(attempt, Outcome.LOST, "the machine restarted while it ran")
    if found.void:
        return RefusedByWorker(attempt, "given up before it started")
    if found.shim_alive:
        return Conclusion.WATCH
    if found.command_alive:
        return Conclusion.ORPHANED
    if not found.claimed and may_start:
        return Conclusion.ORDER
    return Lost(attempt, Outcome.UNKNOWN, "it is gone and left no exit record")


def due(board: Board, worker: str, sent: Mapping[AttemptId, Sent], now: float) -> list[tuple[Job, Sent]]:
    """Jobs a worker was not told of lately: placed ones to start, cancelled ones to stop; and what to note of it."""
    found = []
    for job in board.held_by(worker):
        if job.state is State.PLACED or job.cancel_requested:
            last = sent.get(job.attempt_id)
            told = _to_tell(board, job, now if last is None else last.since, now)
            is_news = last is None or (last.stop_grace_s, last.back) != (told.stop_grace_s, told.back)
            if is_news or (last is not None and now - last.at >= RESEND_S):
                found.append((job, told))
    return found


def _to_tell(board: Board, job: Job, since: float, now: float) -> Sent:
    if board.predecessor(job) is not None:
        return Sent(now, since, None, board.prefetch.is_withdrawn(job, now - since, board))
    # A stop must not wait until the start before it, or a stop with a longer grace, would be repeated anyway.
    return Sent(now, since, _stop_grace_s(job) if job.cancel_requested else None)


def due_in_s(board: Board, worker: str, sent: Mapping[AttemptId, Sent], now: float) -> Iterator[float]:
    """In how many seconds a worker is to be told something again, for each job of which it may be."""
    for job in board.held_by(worker):
        if job.state is State.PLACED or job.cancel_requested:
            last = sent.get(job.attempt_id)
            yield (last.at if last else now) + RESEND_S - now
            if last is not None and not last.back and board.predecessor(job) is not None:
                yield last.since + board.prefetch.policy.wait_s - now


def withdrawal_of(job: Job) -> Withdraw:
    """The order that takes a job back that has not started."""
    return Withdraw(job.id, job.attempt, _boot(job))


def stop_of(job: Job) -> Stop:
    """The order that ends a job's newest attempt."""
    return Stop(job.id, job.attempt, _stop_grace_s(job), _boot(job))


def _stop_grace_s(job: Job) -> float:
    return job.spec.grace_s if job.stop_grace_s is None else job.stop_grace_s


def checks(board: Board, worker: str) -> list[Check]:
    """What a worker that just connected should hold and may not know of.

    Said once per connection: frames are numbered and a gap ends the connection, so within one nothing is lost; and an
    agent that once looked repeats an end until it is acknowledged.
    """
    return [Check(job.id, job.attempt, _boot(job)) for job in board.held_by(worker) if job.state is State.RUNNING]


def _boot(job: Job) -> str:
    assert job.placement is not None
    return job.placement.boot


class Unknown(Struct, frozen=True):
    """What a worker holds that the store does not know of."""

    #: Attempts that the store has no record of: it was restored from a backup.
    unrecorded: list[AttemptId]
    #: Jobs that were removed since.
    removed: list[int]
    #: Unrecorded attempts of jobs that have ended: nobody wants these attempts any more.
    unwanted: list[AttemptId] = []


def unknown(held: Iterable[AttemptId], known: Mapping[int, Job], highest_id: int, restored_to: int) -> Unknown:
    """Compare what a worker holds with what is stored.

    An unknown id above `highest_id`, or up to `restored_to`, may be one that the store gave before it was restored from
    a backup; another unknown id is of a removed job. Of a job's attempts only the newest matters: the others were over
    when it began.
    """
    newest: dict[int, int] = {}
    for job, attempt in held:
        newest[job] = max(attempt, newest.get(job, 0))
    unrecorded: list[AttemptId] = []
    removed: list[int] = []
    unwanted: list[AttemptId] = []
    for job, attempt in sorted(newest.items()):
        if job in known:
            if attempt > known[job].attempt:
                (unwanted if known[job].state in FINAL else unrecorded).append((job, attempt))
        elif job > highest_id or job <= restored_to:
            unrecorded.append((job, attempt))
        else:
            removed.append(job)
    return Unknown(unrecorded, removed, unwanted)


def leased_until(board: Board, job: Job) -> float | None:
    """When the lease of an attempt on a worker out of touch is over, on the broker's monotonic clock.

    By then its shim has ended it: the worker counts from a ping it sent, the broker from when it was heard, and the
    worker waits for less.
    """
    where = job.placement
    worker_state = board.worker_states.get(where.worker) if where is not None else None
    if where is None or where.lease_s is None or worker_state is None or worker_state.online:
        return None
    return worker_state.heard + where.lease_s


def given_up(board: Board, now: float) -> list[tuple[Job, Lost]]:
    """Attempts on workers out of touch whose leases are over."""
    found = []
    for name, worker_state in board.worker_states.items():
        why = f"its worker was out of touch for {worker_state.silent_s(now):.0f} s; its lease is over"
        for job in [] if worker_state.online else board.held_by(name):
            until = leased_until(board, job)
            if until is not None and now >= until:
                found.append((job, Lost(job.attempt, Outcome.LOST, why)))
    return found
