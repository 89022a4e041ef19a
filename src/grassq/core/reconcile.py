"""Compare what should be with what is found: one table for restart, lost message and reconnect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

from grassq.core.messages import Check, Stop, SuspendOrder, Withdraw
from grassq.core.model import FINAL, AttemptId, Job, Outcome, State
from grassq.core.planner.board import Board
from grassq.core.states import Exited, Lost, RefusedByWorker, Report
from grassq.core.sweeps.sweep import is_stopped

RESEND_S = 5.0


class RunState(Struct, frozen=True):
    """What a run dir and the process table say of an attempt."""

    exit: Exited | Lost | RefusedByWorker | None = None
    #: The claim says that the attempt was given up before it started.
    void: bool = False
    claimed: bool = False
    shim_alive: bool = False
    command_alive: bool = False
    pid: int | None = None
    #: The newest order about a suspension: its number, and whether it says to stop; number 0 if there was none.
    suspension: tuple[int, bool] = (0, False)


class Sent(Struct, frozen=True):
    """The last order to a worker about an attempt, and when it was sent."""

    at: float
    #: When the first order about the attempt was sent.
    since: float
    #: None stands for the start, which is too large to be kept.
    order: Stop | Withdraw | SuspendOrder | None


class Conclusion(Enum):
    """What to do with an attempt that has not ended."""

    ORDER = "nobody claimed it: order it, under the same number"
    WATCH = "its shim lives: wait for the exit record"
    ORPHANED = "its shim is gone, its command lives: keep the devices"


def judge(
    attempt: int, found: RunState, *, may_start: bool, same_boot: bool
) -> Conclusion | Exited | Lost | RefusedByWorker:
    """Return what to do with an attempt, or how it ended."""
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
    """Return the jobs about which an order to a worker is due: to start, to stop, to be suspended or to go on."""
    found = []
    for job in board.held_by(worker):
        if _is_ordered(job):
            last = sent.get(job.attempt_id)
            told = _to_tell(board, job, now if last is None else last.since, now)
            if last is None or last.order != told.order or (now - last.at >= RESEND_S and not _is_settled(job)):
                found.append((job, told))
    return found


def _is_ordered(job: Job) -> bool:
    """Tell whether a worker must be told to do something with a job that it holds."""
    return job.state is State.PLACED or job.cancel_requested or job.is_suspended


def _is_settled(job: Job) -> bool:
    """Tell whether a worker has confirmed the last order about a job: the order is given once in each connection."""
    return job.suspension is not None and job.suspension.confirmed and not job.cancel_requested


def _to_tell(board: Board, job: Job, since: float, now: float) -> Sent:
    if job.state is State.RUNNING and job.suspension is not None and not job.cancel_requested:
        return Sent(now, since, suspend_order_of(job))
    if is_prefetched := board.predecessor(job) is not None:
        is_withdrawn = board.prefetch.is_withdrawn(job, now - since, board)
    else:
        # The token may have ended since the job was placed, or its sweep was stopped, and the worker has not confirmed
        # the start.
        is_unwanted = job.token in board.ended_tokens or is_stopped(board.sweeps, job.spec.sweep, job.id)
        is_withdrawn = is_unwanted and not job.cancel_requested
    if is_withdrawn or is_prefetched:
        return Sent(now, since, Withdraw(job.id, job.attempt, _boot(job)) if is_withdrawn else None)
    # A changed stop is due at once; it does not wait for the time of a repetition.
    return Sent(now, since, stop_of(job) if job.cancel_requested else None)


def due_in_s(board: Board, worker: str, sent: Mapping[AttemptId, Sent], now: float) -> Iterator[float]:
    """Yield the seconds until each order to a worker must be repeated, or changed to a withdrawal."""
    for job in board.held_by(worker):
        last = sent.get(job.attempt_id)
        if _is_ordered(job) and (last is None or not _is_settled(job)):
            yield (last.at if last else now) + RESEND_S - now
            if last is not None and last.order is None and board.predecessor(job) is not None:
                yield last.since + board.prefetch.policy.wait_s - now


def stop_of(job: Job) -> Stop:
    """Return the order to end a job's newest attempt."""
    return Stop(job.id, job.attempt, job.grace_s, _boot(job))


def suspend_order_of(job: Job) -> SuspendOrder:
    """Return the order to stop the processes of a job's newest attempt, or to let them run again."""
    assert job.suspension is not None
    return SuspendOrder(job.id, job.attempt, job.suspension.number, job.suspension.wants_stop, _boot(job))


def checks(board: Board, worker: str) -> list[Check]:
    """Return a check for each attempt that a worker which just connected should run.

    Sent once per connection: frames are numbered and a gap ends the connection, so no frame is lost within one. A
    worker that was asked once repeats an end until it is acknowledged.
    """
    running = [job for job in board.held_by(worker) if job.state is State.RUNNING]
    return [Check(job.id, job.attempt, _boot(job), suspended=job.is_suspended) for job in running]


def _boot(job: Job) -> str:
    assert job.placement is not None
    return job.placement.boot


class Unknown(Struct, frozen=True):
    """What a worker holds and the store does not know."""

    #: Attempts that the store has no record of: it was restored from a backup.
    unrecorded: list[AttemptId]
    #: Jobs that were removed from the store.
    removed: list[int]
    #: Unrecorded attempts of jobs that have ended: these attempts must stop.
    unwanted: list[AttemptId] = []


def unknown(held: Iterable[AttemptId], known: Mapping[int, Job], highest_id: int, restored_to: int) -> Unknown:
    """Compare what a worker holds with what is stored.

    An unknown id above `highest_id`, or up to `restored_to`, may be one that the store gave before it was restored from
    a backup; any other unknown id is that of a removed job. Only the newest attempt of each job matters.
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
    """Return when an attempt's lease is over, on the broker's monotonic clock; None while its worker renews it.

    By then its shim has ended it: the worker counts from its own ping, the broker from when it was heard, and the
    worker waits for less.
    """
    where = job.placement
    worker = board.workers.get(where.worker) if where is not None else None
    if where is None or where.lease_s is None or worker is None:
        return None
    if where.boot in worker.earlier_boots:
        return worker.earlier_boots[where.boot] + where.lease_s
    return None if worker.online else worker.heard + where.lease_s


def given_up(board: Board, now: float) -> list[tuple[Job, Lost]]:
    """Return the attempts whose leases are over."""
    found = []
    for name, worker in board.workers.items():
        why = f"its worker was silent for {worker.silent_s(now):.0f} s; its lease is over"
        if worker.online:
            why = "its machine restarted; its lease is over"
        for job in board.held_by(name) if worker.earlier_boots or not worker.online else []:
            until = leased_until(board, job)
            if until is not None and now >= until:
                found.append((job, Lost(job.attempt, Outcome.LOST, why)))
    return found


def may_outlive(board: Board, job: Job, event: Report) -> bool:
    """Tell whether an attempt may still run although its worker, in another boot, says that it is gone.

    A copy of a worker's home on another machine says so too. The lease decides: `given_up` ends the attempt.
    """
    where = job.placement
    if where is None or where.lease_s is None or not isinstance(event, Lost | RefusedByWorker):
        return False
    return where.boot in board.workers[where.worker].earlier_boots
