"""Small jobs, workers and boards for tests: say what matters, the rest is plain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.model import HOLDING, ForQueue, Job, Offer, Placement, Spec, State, WorkerInfo
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.planner.board import Board
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.kept_room import KeptRoom
from grassq.core.planner.overlay import Overlay
from grassq.core.planner.plan import Plan, adopt
from grassq.core.planner.reservations import Reservation
from grassq.core.resources.amounts import Allocation, Request, parse_request
from grassq.core.resources.capacity import Capacity, parse_limits, supply_of
from grassq.core.states import Place, advance

#: When tests begin, in seconds.
T0 = 1000.0
BOOT = "boot-1"

Amount = int | float | str


class HandClock:
    """Time that passes only when a test says so; the wall clock may be set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.set_by = 0.0

    def wall(self) -> float:
        """Seconds since the epoch."""
        return 1_700_000_000.0 + self.now + self.set_by

    def mono(self) -> float:
        """Seconds that only ever grow."""
        return self.now


def a_request(**amounts: Amount) -> Request:
    """A request in the user's spelling: a_request(gpu=0.5, mem="16G")."""
    return parse_request(amounts)


def a_capacity(**amounts: object) -> Capacity:
    """A capacity in the user's spelling: a_capacity(gpu=2, cpu=8, licence=["a", "b"], gb={"pool": 10})."""
    return {name: supply_of(limit) for name, limit in parse_limits(amounts).items()}


def a_spec(
    queue: str = DEFAULT_QUEUE,
    request: Request = (),
    *,
    command: tuple[bytes, ...] = (b"true",),
    tries: int = 1,
    on_lost: Literal["fail", "requeue"] = "fail",
) -> Spec:
    """What was asked: `true` in a queue, with this request."""
    return Spec(command, queue, request, b"/", b"", tries=tries, on_lost=on_lost)


def a_placement(worker: str = "w", allocation: Allocation | None = None, *, boot: str = BOOT) -> Placement:
    """Where an attempt runs; without an allocation it holds nothing."""
    return Placement(worker, boot, allocation or {})


def a_job(
    id: int = 1,
    queue: str = DEFAULT_QUEUE,
    *,
    state: State = State.QUEUED,
    priority: int = NEUTRAL_PRIORITY,
    placement: Placement | None = None,
    attempt: int | None = None,
    tries: int = 1,
    on_lost: Literal["fail", "requeue"] = "fail",
    request: Request | None = None,
    **amounts: Amount,
) -> Job:
    """A job as it would be in that state; one that holds devices has a placement and a first attempt.

    A waiting one waits for its queue.
    """
    holds = state in HOLDING
    return Job(
        id=id,
        spec=a_spec(queue, a_request(**amounts) if request is None else request, tries=tries, on_lost=on_lost),
        state=state,
        created=T0,
        priority=priority,
        placement=placement or (a_placement() if holds else None),
        attempt=int(holds) if attempt is None else attempt,
        waits=(ForQueue(),) if state is State.WAITING else (),
    )


def an_offer(queue: str = DEFAULT_QUEUE, **limits: object) -> Offer:
    """A queue on a worker: an_offer("q", gpu=[0, 1], cpu=4)."""
    return Offer(queue, parse_limits(limits))


def a_worker(
    name: str = "w", *, offers: Iterable[Offer] | None = None, boot: str = BOOT, **given: object
) -> WorkerInfo:
    """A machine with this capacity; unless told otherwise it offers the default queue without limits."""
    offered = tuple([an_offer()] if offers is None else offers)
    return WorkerInfo(name, boot, a_capacity(**given), offered, keeps_limits=True)


def detecting(info: WorkerInfo, *names: str) -> WorkerInfo:
    """Return a worker that still looks for devices of these resources, gpu unless told otherwise."""
    return replace(info, looked_for=frozenset(names or {"gpu"}))


def a_board(
    *workers: WorkerInfo,
    jobs: Iterable[Job] = (),
    paused: Iterable[str] = (),
    patience: ReservationPolicy | None = None,
) -> Board:
    """A board with these workers online and these jobs."""
    board = Board(dict.fromkeys(paused, "owner"), patience)
    for info in workers:
        board.set_worker(info, online=True, now=T0)
    for job in jobs:
        board.put(job)
    return board


def apply(board: Board, plan: Plan, now: float = T0) -> None:
    """Do to the board what a plan says, as the broker does."""
    for job_id, placement in plan.placements:
        board.put(advance(board.jobs[job_id], Place(placement), now), at=now)
    adopt(board, plan)


def reservations(board: Board, now: float) -> list[Reservation]:
    """All room that is kept if nothing starts now."""
    room = KeptRoom(board, Overlay(), now)
    if board.positions:
        room.reach(board.positions.last)
    return room.reservations


def finish(board: Board, job_id: int, now: float = T0) -> None:
    """End a job well; what it held is free again."""
    board.put(replace(board.jobs[job_id], state=State.SUCCEEDED, finished=now))


def allocations_of(plan: Plan) -> Mapping[int, Allocation]:
    """What each job of a plan gets."""
    return {job_id: placement.allocation for job_id, placement in plan.placements}


def a_running_job(*, tries: int = 1, requeue: bool = False) -> Job:
    """A job whose newest attempt runs."""
    job = a_job(state=State.RUNNING, tries=tries, on_lost="requeue" if requeue else "fail")
    return replace(job, pid=77, started=T0, reason="stuck")
