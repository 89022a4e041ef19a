"""Which job starts where: a function of the board and the time, and the answer to why one does not.

Jobs go in order of priority, then submission; smaller ones may pass a blocked one. The first blocked job of each queue
is its head. When the head's patience is over (so many have passed it, or so long it has waited), everything it asks for
is kept free for it on the worker where least is missing, so no job waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from msgspec import Struct

from grassq.core.board import Board, Head, Patience, Shape, Station
from grassq.core.model import ANYWHERE, Job, Placement, State, Terms
from grassq.core.resources import (
    ONE,
    VRAM,
    VRAM_OF,
    Allocation,
    Pool,
    Request,
    amount_text,
)
from grassq.core.room import Bars, Room, Shortage, Spot, fit, fits_ever

PLACEMENTS_MAX = 1000
#: What a blocker calls the resource when the worker itself stands in the way.
WORKER = "worker"


class Plan(Struct, frozen=True):
    """What to start, and which jobs head their queues afterwards."""

    placements: list[tuple[int, Placement]]
    heads: dict[str, Head]
    #: PLACEMENTS_MAX was reached: plan again after this one is committed.
    more: bool


class Reservation(Struct, frozen=True):
    """What a head keeps on one worker."""

    order: tuple[int, int]
    queue: str
    worker: str
    bars: Bars


class _Scratch:
    """The board's rooms, copied when first written, so that planning changes nothing."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.rooms: dict[str, tuple[Room, dict[str, Room]]] = {}

    def spot(self, station: Station, queue: str) -> Spot:
        machine, offers = self.rooms.get(station.info.name) or (station.machine, station.offers)
        return Spot(machine, offers[queue])

    def take(self, station: Station, queue: str, allocation: Allocation) -> None:
        name = station.info.name
        if name not in self.rooms:
            self.rooms[name] = (station.machine.copy(), {q: room.copy() for q, room in station.offers.items()})
        machine, offers = self.rooms[name]
        machine.take(allocation)
        offers[queue].take(allocation)


def plan(board: Board, now: float) -> Plan:
    """Decide what starts now; nothing while a worker may have run what a restored broker has forgotten."""
    if board.doubts or board.awaits(now):
        return Plan([], board.heads, more=False)
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
            # A job that only a worker out of touch could run heads nothing: those behind it can be helped.
            if job.spec.queue not in blocked and any(_able(board, job)):
                blocked[job.spec.queue] = job
            continue
        station, allocation = found
        scratch.take(station, job.spec.queue, allocation)
        placements.append((job_id, _placement(board, station, job, allocation)))
        if index + 1 < len(board.shapes[shape]):
            heappush(line, (board.shapes[shape][index + 1], index + 1, shape))
    heads = _heads(board, blocked, placements, now)
    if line:
        started = {job_id for job_id, _ in placements}
        heads = {queue: head for queue, head in board.heads.items() if head.job not in started} | heads
    return Plan(placements, heads, more=bool(line))


def _open(board: Board, shape: Shape) -> bool:
    return not board.is_paused(shape[0])


def _first_place(job: Job, scratch: _Scratch, kept: list[Reservation]) -> tuple[Station, Allocation] | None:
    for station in scratch.board.offering(job.spec.queue):
        if not station.takes or station.refuses(job.spec.queue, job.spec.terms) is not None:
            continue
        spot = scratch.spot(station, job.spec.queue)
        spot.bars = _bars_against(job, station.info.name, kept)
        found = fit(job.spec.request, spot)
        if not isinstance(found, Shortage):
            return station, found
    return None


def _barring(job: Job, worker: str, kept: list[Reservation]) -> list[Reservation]:
    """Who keeps something from this job: every earlier head, and every head of at least its priority unless it is one.

    A later head of its own queue keeps nothing from it: it came back and goes first.
    """
    is_head = any(reservation.order == job.order for reservation in kept)
    return [
        other
        for other in kept
        if other.worker == worker
        and (
            other.order < job.order
            or (not is_head and other.queue != job.spec.queue and other.order[0] <= -job.priority)
        )
    ]


def _bars_against(job: Job, worker: str, kept: list[Reservation]) -> Bars:
    bars = Bars({}, {}, {})
    for other in _barring(job, worker, kept):
        _join(bars, other, same_queue=other.queue == job.spec.queue)
    return bars


def _join(bars: Bars, other: Reservation, *, same_queue: bool) -> None:
    for name, ids in other.bars.devices.items():
        bars.devices.setdefault(name, set()).update(ids)
    for name, amount in other.bars.pools.items():
        bars.pools[name] = bars.pools.get(name, 0) + amount
        if same_queue:
            bars.limits[name] = amount


def _placement(board: Board, station: Station, job: Job, allocation: Allocation) -> Placement:
    offer = station.offer(job.spec.queue)
    assert offer is not None
    leased = job.spec.on_lost == "requeue" and station.info.name != board.local
    return Placement(
        station.info.name,
        station.info.boot,
        allocation,
        offer.prefix,
        offer.cwd,
        offer.env,
        board.lease_s if leased else None,
    )


def _heads(
    board: Board, blocked: dict[str, Job], placements: list[tuple[int, Placement]], now: float
) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for queue, job in blocked.items():
        # Who starts on a machine that could never run the head has taken nothing from it.
        workers = {station.info.name for station in _able(board, job)}
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
        for station in _able(board, job):
            spot = station.spot(job.spec.queue)
            spot.bars = _bars_against(job, station.info.name, kept)
            missing, bars = _keep(job.spec.request, spot)
            options.append((missing, station.info.name, bars))
        if options:
            _, worker, bars = min(options, key=lambda option: option[:2])
            kept.append(Reservation(job.order, job.spec.queue, worker, bars))
    return kept


def _able(board: Board, job: Job) -> Iterator[Station]:
    """The workers in touch that could run a job if nobody else were there."""
    for station in board.offering(job.spec.queue):
        if not station.takes or station.refuses(job.spec.queue, job.spec.terms) is not None:
            continue
        if fits_ever(job.spec.request, station.machine.supply, station.offers[job.spec.queue].supply) is None:
            yield station


def is_ripe(head: Head, patience: Patience, now: float) -> bool:
    """Whether a head has been passed, or has waited, long enough."""
    return head.passed >= patience.passes or now - head.since >= patience.wait_s


def _is_waiting(board: Board, job_id: int) -> bool:
    job = board.jobs.get(job_id)
    return job is not None and job.state is State.QUEUED


def _keep(request: Request, spot: Spot) -> tuple[int, Bars]:
    """How much is missing at a spot, in millionths of what is asked, and what to keep there for the request.

    Kept is everything it needs, not only what is missing: what is free today may be gone when the rest comes. And what
    is missing is measured on what is kept: it only shrinks, so no head is tossed from worker to worker for ever.
    """
    missing, devices, pools = 0, dict[str, set[str]](), dict[str, int]()
    asked = dict(request)
    vram = asked.pop(VRAM, 0)
    if vram and VRAM_OF not in asked:
        asked[VRAM_OF] = 0
    for name, amount in asked.items():
        if isinstance(spot.supply(name), Pool):
            pools[name] = min(amount, spot.pool_free(name))
            missing += (amount - pools[name]) * ONE // amount
        else:
            lacking, devices[name] = _freest(name, amount, vram if name == VRAM_OF else 0, spot)
            missing += lacking
    return missing, Bars(devices, pools, {})


def _freest(name: str, amount: int, vram: int, spot: Spot) -> tuple[int, set[str]]:
    supply = spot.machine.supply[name]
    assert not isinstance(supply, Pool)
    memory = {device.id: device.vram for device in supply.devices}
    in_units = spot.in_units(name)
    count = max(1, -(-amount // ONE)) if in_units else 1
    each = amount if amount and not in_units else ONE
    usable = [d for d in spot.devices_free(name) if memory[d.id] >= vram and (in_units or d.worth >= amount)]
    ranked = sorted(usable, key=lambda device: (device.empty, device.free, device.vram), reverse=True)[:count]
    # One that somebody holds anything of is never all there.
    there = sum(each if device.empty else min(device.free, each - 1) for device in ranked)
    return (count * each - there) * ONE // (count * each), {device.id for device in ranked}


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
    asked, worker = _asked(board, job.spec.queue, job.spec.terms), job.spec.terms.worker
    if not asked and worker is not None:
        return [Blocker(worker, WORKER, 0, 0, f"worker {worker} has no queue {job.spec.queue!r}")]
    for station in asked:
        name = station.info.name
        closed = station.refuses(job.spec.queue, job.spec.terms) or _closed(station)
        if closed is not None:
            blockers.append(Blocker(name, WORKER, 0, 0, closed))
            continue
        spot = station.spot(job.spec.queue)
        alone = fit(job.spec.request, spot)
        spot.bars = _bars_against(job, name, kept)
        found = fit(job.spec.request, spot)
        if not isinstance(found, Shortage):
            return []
        if not isinstance(alone, Shortage):
            heads = ", ".join(f"job {head.order[1]}" for head in _barring(job, name, kept))
            why = f"{found.resource} is free but kept for {heads}, which has waited longer"
            blockers.append(Blocker(name, found.resource, found.needed, found.free, why))
            continue
        blockers.append(_blocker(board, name, found))
    return blockers


def _asked(board: Board, queue: str, terms: Terms) -> list[Station]:
    """The workers that offer a queue, or only the one a job asks for."""
    return [station for station in board.offering(queue) if terms.worker in (None, station.info.name)]


def _closed(station: Station) -> str | None:
    name = station.info.name
    if not station.online:
        return f"worker {name} is out of touch"
    if station.drained:
        return f"worker {name} is drained; `grass drain --undo {name}` lets it take jobs again"
    return None


def _blocker(board: Board, worker: str, found: Shortage) -> Blocker:
    group = VRAM_OF if found.resource == VRAM else found.resource
    if board.stations[worker].info.detecting and group not in board.stations[worker].machine.supply:
        return Blocker(worker, found.resource, found.needed, found.free, "devices are still being looked for")
    holders = board.holders(worker, found.resource) or board.holders(worker, group)
    return Blocker(
        worker, found.resource, found.needed, found.free, found.why, tuple(sorted(job.id for job in holders))
    )


def never_fits(board: Board, queue: str, request: Request, terms: Terms = ANYWHERE) -> str | None:
    """Why no known worker could ever run this, or None."""
    if terms.worker is not None and terms.worker not in board.stations:
        return f"there is no worker {terms.worker!r}; `grass show` lists them"
    reasons = []
    asked = _asked(board, queue, terms)
    if not asked and any(board.offering(queue)):
        return f"worker {terms.worker!r} has no queue {queue!r}"
    for station in asked:
        if (refusal := station.refuses(queue, terms)) is not None:
            reasons.append(refusal)
            continue
        offer = station.offers[queue].supply
        # Until the drivers have answered nobody knows what the machine has, but a queue's own limit holds anyway.
        machine = {**offer, **station.machine.supply} if station.info.detecting else station.machine.supply
        found = fits_ever(request, machine, offer)
        if found is None or (station.info.detecting and found.resource not in machine):
            return None
        most = f"has {amount_text(found.free)}" if found.free else "has none"
        where = f"queue {queue!r} on {station.info.name}"
        reasons.append(f"{amount_text(found.needed)} {found.resource} asked, {where} {most}")
    # Many workers often have one reason.
    return "; ".join(dict.fromkeys(reasons)) or None
