"""Which job starts where: a pure function of the board and the time.

Jobs start in order of priority, then submission. A waiting job keeps room from jobs of lower priority (kept_room.py);
smaller jobs of equal priority may pass it. The first blocked job of each queue is its head. After
`ReservationPolicy.passes` passes or `wait_s` seconds the head keeps room from them too, so no job waits for ever. Where
all that hold what the head lacks have time limits, a job that ends in time may use what is kept.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.model import Job, Placement
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Head, Kept
from grassq.core.planner.reservations import Reservation
from grassq.core.planner.scan import HeadCandidate, PlannedStart, Scan
from grassq.core.resources.slots import slots_in

PLACEMENTS_MAX = 1000


class Plan(Struct, frozen=True):
    """What to start, and which job is the head of each queue afterwards."""

    placements: list[tuple[int, Placement]]
    heads: dict[str, Head]
    #: The waiting jobs for which room is kept.
    kept: dict[int, Kept]
    #: PLACEMENTS_MAX was reached: plan again after this one is committed.
    more: bool
    #: The jobs of the placements that use what is kept for a head, because they end before the head could start.
    backfilled: frozenset[int] = frozenset()


def plan(board: Board, now: float) -> Plan:
    """Decide what starts now. Nothing starts while a restored broker waits for its workers."""
    if board.unreconciled or board.awaits(now):
        return Plan([], board.heads, board.kept, more=False)
    scan = Scan(board, now)
    try:
        starts = [*scan.starts(PLACEMENTS_MAX)]
        more = scan.has_more()
        if not more:
            scan.keep_all_room()
            starts += scan.prefetched(board.prefetch.tails(board), PLACEMENTS_MAX - len(starts))
        left = scan.left()
    finally:
        scan.done()
    if more:
        # Jobs after the last start have not been looked at yet.
        left = {queue: first for queue, first in left.items() if first.order < starts[-1].order}
    heads = {queue: _head(board, first, starts, now) for queue, first in left.items()}
    started = {board.id_at(start.order) for start in starts}
    kept = {board.id_at(each.order): _kept(board, each, now) for each in scan.room.reservations}
    if more:
        heads = {queue: head for queue, head in board.heads.items() if head.job not in started} | heads
        kept = board.kept | kept
    kept = {job_id: each for job_id, each in kept.items() if job_id not in started}
    backfilled = frozenset(board.id_at(start.order) for start in starts if start.is_backfill)
    placements = [(board.id_at(start.order), _placement(board, start)) for start in starts]
    return Plan(placements, heads, kept, more, backfilled)


def adopt(board: Board, plan: Plan, left_out: Collection[int] = ()) -> None:
    """Note on a board what a plan says, after its placements; jobs of `left_out` were not placed, and are no heads."""
    board.heads = {queue: head for queue, head in plan.heads.items() if head.job not in left_out}
    board.kept = {job_id: kept for job_id, kept in plan.kept.items() if job_id not in left_out}
    placed = (board.holding[job_id] for job_id in plan.backfilled if job_id not in left_out)
    board.times.backfilled.update(job.attempt_id for job in placed)


def leased(job: Job, where: Placement) -> Placement:
    """Return the placement of a job, without a lease unless the job may be started elsewhere."""
    return where if where.lease_s is None or job.spec.on_lost == "requeue" else replace(where, lease_s=None)


def limited(job: Job, where: Placement) -> Placement:
    """Return the placement of a job with the time limit that the job names; without one, the queue's stays."""
    own_s = job.spec.time_limit_s
    return where if own_s is None else replace(where, time_limit_s=own_s)


def _placement(board: Board, start: PlannedStart) -> Placement:
    """Return where a job runs; `leased` and `limited` decide whether it keeps the lease and the queue's time limit."""
    info, offer = start.worker.info, start.worker.offer(start.queue)
    assert offer is not None
    lease_s = None if info.name in board.roles.trusted else board.lease_s
    slot = offer.slots[slots_in(start.allocation)[0]].name if offer.slots else None
    allocation, after = start.allocation, start.after
    return Placement(
        info.name,
        info.boot,
        allocation,
        offer.prefix,
        offer.cwd,
        offer.env,
        lease_s,
        after,
        slot,
        offer.wrap,
        time_limit_s=offer.usual_limit_s,
    )


def _kept(board: Board, reservation: Reservation, now: float) -> Kept:
    known = board.kept.get(board.id_at(reservation.order))
    return known if known is not None and known.worker == reservation.worker else Kept(reservation.worker, now)


def _head(board: Board, first: HeadCandidate, starts: list[PlannedStart], now: float) -> Head:
    """Return the head of a queue; a start on a worker that could never run the head does not pass it."""
    job_id, queue, known = (
        board.id_at(first.order),
        first.request_class.queue,
        board.heads.get(first.request_class.queue),
    )
    request, names = first.request_class.request(first.key), first.request_class.names
    passing = [start.worker for start in starts if start.order > first.order]
    able = {
        worker.info.name
        for worker in {worker.info.name: worker for worker in passing}.values()
        if queue in worker.offers
        and worker.refuses(queue, first.request_class.constraints) is None
        and worker.max_fit(queue, names).holds(request)
    }
    passed = sum(worker.info.name in able for worker in passing)
    if known is not None and known.job == job_id:
        return Head(job_id, known.since, known.passed + passed)
    return Head(job_id, now, passed)
