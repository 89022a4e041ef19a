"""When a waiting job starts, if all that holds what it lacks has a time limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from grassq.core.model import Constraints, Job, State
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation, Request
from grassq.core.resources.fit import FreeView, Shortage, fit
from grassq.core.syntax.resource_names import VRAM, VRAM_OF

if TYPE_CHECKING:
    from grassq.core.planner.board import Board

#: Seconds within which a placed attempt is expected to start. Until then its time limit does not count.
STARTS_WITHIN_S = 5.0


class KnownStart(Struct, frozen=True):
    """When a waiting job can start on a worker, on the broker's monotonic clock."""

    #: Not before this, unless a job that holds what it lacks ends before its time limit.
    earliest: float
    #: By this at the latest, as long as its room is kept: the limits and the graces of the jobs in its way are over.
    latest: float
    #: What the job gets then, which is what to keep for it.
    allocation: Allocation


class _Holder(Struct, frozen=True):
    job: Job
    earliest: float
    latest: float


def lasts_s(constraints: Constraints) -> float | None:
    """Return the seconds after which a queued job has ended for certain once it is placed; None if not known."""
    if constraints.lasts_s is UNSET or constraints.files is not UNSET:
        # How long it takes to send the files of a job is not known.
        return None
    return STARTS_WITHIN_S + constraints.lasts_s


def known_start(
    board: Board, worker: WorkerState, queue: str, request: Request, view: FreeView, now: float
) -> KnownStart | None:
    """Return when a request that does not fit on a worker will; None if that is not known.

    Every job there that holds some of a resource that is short must have a time limit, and this broker must have placed
    it. `view` is what is free beside the jobs that a plan starts, and beside what other waiting jobs keep. Neither
    makes the earliest start earlier. The room where the job starts first is kept, so the latest start never moves back.
    """
    bare = worker.free_view(queue)
    if bare.offer.slot_set is not None:
        return None
    short = _short(request, bare)
    if not short or any(_group(name) in short for name in worker.info.used_by_others):
        return None
    holders: list[_Holder] = []
    for job in board.held_by(worker.info.name):
        if board.predecessor(job) is not None:
            return None  # it takes over the devices of another job, at a time that is not known
        if job.placement is not None and any(_group(name) in short for name in job.placement.allocation):
            holder = _holder(board, job, now)
            if holder is None:
                return None
            holders.append(holder)
    earliest = _fits_at(request, bare, queue, sorted(((each.earliest, each.job) for each in holders), key=_by_time))
    latest = _fits_at(request, view, queue, sorted(((each.latest, each.job) for each in holders), key=_by_time))
    return None if earliest is None or latest is None else KnownStart(earliest[0], *latest)


def _by_time(end: tuple[float, Job]) -> tuple[float, int]:
    return end[0], end[1].id


def _group(name: str) -> str:
    """Return the resource whose devices a name is about: memory belongs to its devices."""
    return VRAM_OF if name == VRAM else name


def _short(request: Request, view: FreeView) -> set[str]:
    """Return the resources of which too little is free."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, amount in request:
        groups.setdefault(_group(name), []).append((name, amount))
    return {group for group, asked in groups.items() if isinstance(fit(tuple(asked), view), Shortage)}


def _holder(board: Board, job: Job, now: float) -> _Holder | None:
    """Return when a job ends at the earliest, if it uses up its limit, and at the latest; None if that is not known."""
    limit_s = None if job.placement is None else job.placement.time_limit_s
    placed = board.times.placed.get(job.attempt_id)
    if limit_s is None or placed is None or job.suspension is not None:
        # The time in which a job was suspended does not count for its limit.
        return None
    if job.state is State.RUNNING and job.reason is not None:
        return None  # its supervisor is gone, and its limit with it
    # The limit counts from the start, which its worker saw: after it was placed, and before the report came.
    earliest = now if job.cancel_requested else placed + limit_s
    started = board.times.started.get(job.attempt_id, now + STARTS_WITHIN_S)
    return _Holder(job, earliest, started + limit_s + job.spec.grace_s)


def _fits_at(
    request: Request, view: FreeView, queue: str, ends: Iterable[tuple[float, Job]]
) -> tuple[float, Allocation] | None:
    """Return when a request fits if jobs end in this order, and what it gets; None if it never fits."""
    after = FreeView(view.machine.copy(), view.offer.copy(), view.reserved)
    for at, job in ends:
        assert job.placement is not None
        after.machine.give(job.placement.allocation)
        if job.spec.queue == queue:
            after.offer.give(job.placement.allocation)
        found = fit(request, after)
        if not isinstance(found, Shortage):
            return at, found
    return None
