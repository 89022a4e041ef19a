"""Which job starts where: a function of the board and the time, and the answer to why one does not.

Jobs go in order of priority, then submission; smaller ones may pass a blocked one. The first blocked job of each queue
is its head. When the head's patience is over (so many have passed it, or so long it has waited), everything it asks for
is kept free for it on the worker where least is missing, so no job waits for ever.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from msgspec import Struct

from grassq.core.board import Board, Head, Patience, Shape, Station
from grassq.core.model import Job, Placement, State
from grassq.core.resources import (
    ONE,
    VRAM,
    VRAM_OF,
    Allocation,
    Pool,
    Request,
    amount_text,
)
from grassq.core.room import Bars, Place, Room, Shortage, fit, fits_ever

PLACEMENTS_MAX = 1000


class Plan(Struct, frozen=True):
    """What to start, and which jobs head their queues afterwards."""

    placements: list[tuple[int, Placement]]
    heads: dict[str, Head]
    #: PLACEMENTS_MAX was reached: plan again after this one is committed.
    more: bool = False


class Reservation(Struct, frozen=True):
    """What a head keeps on one worker."""

    order: tuple[int, int]
    worker: str
    bars: Bars


class _Scratch:
    """The board's rooms, copied when first written, so that planning changes nothing."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.rooms: dict[str, tuple[Room, dict[str, Room]]] = {}

    def place(self, station: Station, queue: str) -> Place:
        machine, offers = self.rooms.get(station.info.name) or (station.machine, station.offers)
        return Place(machine, offers[queue])

    def take(self, station: Station, queue: str, allocation: Allocation) -> None:
        name = station.info.name
        if name not in self.rooms:
            self.rooms[name] = (station.machine.copy(), {q: room.copy() for q, room in station.offers.items()})
        machine, offers = self.rooms[name]
        machine.take(allocation)
        offers[queue].take(allocation)


def plan(board: Board, now: float) -> Plan:
    """Decide what starts now."""
    scratch = _Scratch(board)
    kept = reservations(board, now)
    line = [(entries[0], 0, shape) for shape, entries in board.shapes.items() if _open(board, shape)]
    heapify(line)
    placements: list[tuple[int, Placement]] = []
    blocked: dict[str, Job] = {}
    while line and len(placements) < PLACEMENTS_MAX:
        (_, job_id), index, shape = heappop(line)
        job = board.jobs[job_id]
        found = _first_place(job, scratch, kept)
        if found is None:
            blocked.setdefault(job.spec.queue, job)
            continue
        station, allocation = found
        scratch.take(station, job.spec.queue, allocation)
        placements.append((job_id, _placement(station, job, allocation)))
        if index + 1 < len(board.shapes[shape]):
            heappush(line, (board.shapes[shape][index + 1], index + 1, shape))
    return Plan(placements, _heads(board, blocked, placements, now), more=bool(line))


def _open(board: Board, shape: Shape) -> bool:
    return not board.is_paused(shape[0])


def _first_place(job: Job, scratch: _Scratch, kept: list[Reservation]) -> tuple[Station, Allocation] | None:
    for station in scratch.board.offering(job.spec.queue):
        if not station.online:
            continue
        place = scratch.place(station, job.spec.queue)
        place.bars = _bars_against(job, station.info.name, kept)
        found = fit(job.spec.request, place)
        if not isinstance(found, Shortage):
            return station, found
    return None


def _bars_against(job: Job, worker: str, kept: list[Reservation]) -> Bars | None:
    """What others keep from this job: every earlier head, and every head of at least its priority unless it is one."""
    own = next((r for r in kept if r.order == job.order), None)
    mine: list[Bars] = []
    for reservation in kept:
        if reservation.worker != worker or reservation is own:
            continue
        earlier = reservation.order < job.order
        if earlier or (own is None and reservation.order[0] <= -job.priority):
            mine.append(reservation.bars)
    return _joined(mine) if mine else None


def _joined(many: list[Bars]) -> Bars:
    devices: dict[str, set[str]] = {}
    pools: dict[str, int] = {}
    for bars in many:
        for name, ids in bars.devices.items():
            devices.setdefault(name, set()).update(ids)
        for name, amount in bars.pools.items():
            pools[name] = pools.get(name, 0) + amount
    return Bars(devices, pools)


def _placement(station: Station, job: Job, allocation: Allocation) -> Placement:
    offer = station.offer(job.spec.queue)
    assert offer is not None
    return Placement(station.info.name, station.info.boot, allocation, offer.prefix, offer.cwd, offer.env)


def _heads(
    board: Board, blocked: dict[str, Job], placements: list[tuple[int, Placement]], now: float
) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for queue, job in blocked.items():
        workers = {station.info.name for station in board.offering(queue)}
        passed = sum(
            placement.worker in workers and board.jobs[job_id].order > job.order for job_id, placement in placements
        )
        known = board.heads.get(queue)
        if known is not None and known.job == job.id:
            heads[queue] = Head(job.id, known.since, known.passed + passed)
        else:
            heads[queue] = Head(job.id, now, passed)
    return heads


def reservations(board: Board, now: float) -> list[Reservation]:
    """What the heads that have waited long enough keep free for themselves, first head first."""
    kept: list[Reservation] = []
    ripe = [
        board.jobs[head.job]
        for queue, head in board.heads.items()
        if is_ripe(head, board.patience, now) and _is_waiting(board, head.job) and not board.is_paused(queue)
    ]
    for job in sorted(ripe, key=lambda job: job.order):
        options = []
        for station in board.offering(job.spec.queue):
            place = station.place(job.spec.queue)
            place.bars = _bars_against(job, station.info.name, kept)
            if station.online and fits_ever(job.spec.request, station.machine.supply, place.offer.supply) is None:
                options.append((_missing(job.spec.request, place), station.info.name, place))
        if options:
            _, worker, place = min(options, key=lambda option: option[:2])
            kept.append(Reservation(job.order, worker, _keep(job.spec.request, place)))
    return kept


def is_ripe(head: Head, patience: Patience, now: float) -> bool:
    """Whether a head has been passed, or has waited, long enough."""
    return head.passed >= patience.passes or now - head.since >= patience.wait_s


def _is_waiting(board: Board, job_id: int) -> bool:
    job = board.jobs.get(job_id)
    return job is not None and job.state is State.QUEUED


def _missing(request: Request, place: Place) -> int:
    """How much is missing at a place, in millionths of what is asked."""
    missing = 0
    for name, amount in request:
        found = fit(((name, amount),), place)
        if isinstance(found, Shortage):
            missing += (found.needed - min(found.free, found.needed)) * ONE // found.needed
    return missing


def _keep(request: Request, place: Place) -> Bars:
    """Everything the request needs, not only what is missing: what is free today may be gone when the rest comes."""
    devices: dict[str, set[str]] = {}
    pools: dict[str, int] = {}
    asked = dict(request)
    vram = asked.pop(VRAM, 0)
    if vram and VRAM_OF not in asked:
        asked[VRAM_OF] = 0
    for name, amount in asked.items():
        if isinstance(place.supply(name), Pool):
            pools[name] = min(amount, place.pool_free(name))
        else:
            devices[name] = _freest(name, amount, vram if name == VRAM_OF else 0, place)
    return Bars(devices, pools)


def _freest(name: str, amount: int, vram: int, place: Place) -> set[str]:
    supply = place.machine.supply[name]
    assert not isinstance(supply, Pool)
    memory = {device.id: device.vram for device in supply.devices}
    usable = [device for device in place.devices_free(name) if memory[device.id] >= vram]
    unit = all(device.worth == ONE for device in usable)
    count = max(1, -(-amount // ONE)) if unit else 1
    enough = [device for device in usable if unit or device.worth >= amount]
    ranked = sorted(enough, key=lambda device: (device.empty, device.free, device.vram), reverse=True)
    return {device.id for device in ranked[:count]}


class Blocker(Struct, frozen=True):
    """One worker's reason why a job does not start there."""

    worker: str
    resource: str
    needed: int
    free: int
    why: str
    holders: tuple[int, ...] = ()


def explain(board: Board, job: Job, now: float) -> list[Blocker]:
    """Why a queued job has not started, by the planner's own pass; empty when the next plan starts it."""
    kept = reservations(board, now)
    blockers: list[Blocker] = []
    for station in board.offering(job.spec.queue):
        name = station.info.name
        if not station.online:
            blockers.append(Blocker(name, "worker", 0, 0, f"worker {name} is out of touch"))
            continue
        place = station.place(job.spec.queue)
        alone = fit(job.spec.request, place)
        place.bars = _bars_against(job, name, kept)
        found = fit(job.spec.request, place)
        if not isinstance(found, Shortage):
            return []
        if not isinstance(alone, Shortage):
            heads = ", ".join(f"job {r.order[1]}" for r in kept if r.worker == name and r.order != job.order)
            why = f"{found.resource} is free but kept for {heads}, which has waited longer"
            blockers.append(Blocker(name, found.resource, found.needed, found.free, why))
            continue
        blockers.append(_blocker(board, name, found))
    return blockers


def _blocker(board: Board, worker: str, found: Shortage) -> Blocker:
    group = VRAM_OF if found.resource == VRAM else found.resource
    holders = board.holders(worker, found.resource) or board.holders(worker, group)
    return Blocker(
        worker, found.resource, found.needed, found.free, found.why, tuple(sorted(job.id for job in holders))
    )


def never_fits(board: Board, queue: str, request: Request) -> str | None:
    """Why no known worker could ever run this, or None."""
    reasons = []
    for station in board.offering(queue):
        found = fits_ever(request, station.machine.supply, station.offers[queue].supply)
        if found is None or (station.info.detecting and found.resource not in station.info.given):
            return None
        most = f"has {amount_text(found.free)}" if found.free else "has none"
        where = f"queue {queue!r} on {station.info.name}"
        reasons.append(f"{amount_text(found.needed)} {found.resource} asked, {where} {most}")
    return "; ".join(reasons) or None
