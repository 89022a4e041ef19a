"""Which job starts where: a function of the board and the time, and the answer to why one does not.

Jobs go in order of priority, then submission; smaller ones may pass a blocked one. The first blocked job of each queue
is its head. When the head's patience is over (so many have passed it, or so long it has waited), everything it asks for
is kept free for it on the worker where least is missing, so no job waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.model import ANYWHERE, Constraints, Job, Offer, Placement, State, id_in
from grassq.core.planner import prefetch
from grassq.core.planner.board import Board, Head, ReservationPolicy
from grassq.core.planner.scan import HeadCandidate, PlannedStart, Reservation, Scan, barring, joined
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import ONE, Allocation, Request, amount_text
from grassq.core.resources.capacity import VRAM, VRAM_OF, Devices, Pool
from grassq.core.resources.fit import FreeView, Shortage, fit, fits_ever, slot_missing
from grassq.core.resources.ledger import ReservedAmounts
from grassq.core.resources.slots import SlotSet, slots_in
from grassq.core.syntax.slots import SLOT, SLOTS_OF

PLACEMENTS_MAX = 1000
#: What a blocker calls the resource when the worker itself stands in the way.
WORKER = "worker"


class Plan(Struct, frozen=True):
    """What to start, and which jobs head their queues afterwards."""

    placements: list[tuple[int, Placement]]
    heads: dict[str, Head]
    #: PLACEMENTS_MAX was reached: plan again after this one is committed.
    more: bool


def plan(board: Board, now: float) -> Plan:
    """Decide what starts now; nothing while a worker may have run what a restored broker has forgotten."""
    if board.unreconciled or board.awaits(now):
        return Plan([], board.heads, more=False)
    walk = Scan(board, reservations(board, now))
    try:
        starts = [*walk.starts(PLACEMENTS_MAX)]
        more = walk.has_more()
        if not more:
            starts += walk.prefetched(prefetch.tails(board), PLACEMENTS_MAX - len(starts))
        left = walk.left()
    finally:
        walk.done()
    if more:
        # Who comes after the last that starts has not been looked at yet.
        left = {queue: first for queue, first in left.items() if first.order < starts[-1].order}
    heads = {queue: _head(board, first, starts, now) for queue, first in left.items()}
    if more:
        started = {id_in(start.order) for start in starts}
        heads = {queue: head for queue, head in board.heads.items() if head.job not in started} | heads
    return Plan([(id_in(start.order), _placement(board, start)) for start in starts], heads, more)


def leased(job: Job, where: Placement) -> Placement:
    """Where an attempt of a job runs: with a lease only if the job may be started elsewhere."""
    return where if where.lease_s is None or job.spec.on_lost == "requeue" else replace(where, lease_s=None)


def _placement(board: Board, start: PlannedStart) -> Placement:
    """Where a job runs; the lease is for those that may be started elsewhere."""
    info, offer = start.worker_state.info, start.worker_state.offer(start.queue)
    assert offer is not None
    lease_s = None if info.name == board.local else board.lease_s
    env = (*offer.env, _visible(offer, start.allocation)) if offer.slots else offer.env
    return Placement(info.name, info.boot, start.allocation, offer.prefix, offer.cwd, env, lease_s, start.after)


def _visible(offer: Offer, allocation: Allocation) -> tuple[bytes, bytes]:
    """The devices of a slot in the words of its name, so that their order stays as it was listed."""
    (index,) = slots_in(allocation)
    return (b"CUDA_VISIBLE_DEVICES", offer.slots[index].name.encode())


def _head(board: Board, first: HeadCandidate, starts: list[PlannedStart], now: float) -> Head:
    """The head of a queue; who starts on a machine that could never run it has taken nothing from it."""
    job_id, queue, known = id_in(first.order), first.request_class.queue, board.heads.get(first.request_class.queue)
    request, names = first.request_class.request(first.key), first.request_class.names
    passing = [start.worker_state for start in starts if start.order > first.order]
    able = {
        worker_state.info.name
        for worker_state in {worker_state.info.name: worker_state for worker_state in passing}.values()
        if queue in worker_state.offers
        and worker_state.refuses(queue, first.request_class.constraints) is None
        and worker_state.max_fits.of(queue, names).holds(request)
    }
    passed = sum(worker_state.info.name in able for worker_state in passing)
    if known is not None and known.job == job_id:
        return Head(job_id, known.since, known.passed + passed)
    return Head(job_id, now, passed)


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
        for worker_state in _able(board, job):
            free_view = worker_state.free_view(job.spec.queue)
            free_view.reserved = joined(barring(job, worker_state.info.name, kept), job.spec.queue)
            missing, reserved = _keep(job.spec.request, free_view)
            options.append((missing, worker_state.info.name, reserved))
        if options:
            _, worker, reserved = min(options, key=lambda option: option[:2])
            kept.append(Reservation(job.order, job.spec.queue, worker, reserved))
    return kept


def _able(board: Board, job: Job) -> Iterator[WorkerState]:
    """The workers in touch that could run a job if nobody else were there."""
    for worker_state in board.offering(job.spec.queue):
        if not worker_state.takes or worker_state.refuses(job.spec.queue, job.spec.constraints) is not None:
            continue
        names = tuple(name for name, _ in job.spec.request)
        if worker_state.max_fits.of(job.spec.queue, names).holds(job.spec.request):
            yield worker_state


def is_ripe(head: Head, patience: ReservationPolicy, now: float) -> bool:
    """Whether a head has been passed, or has waited, long enough."""
    return head.passed >= patience.passes or now - head.since >= patience.wait_s


def _is_waiting(board: Board, job_id: int) -> bool:
    job = board.jobs.get(job_id)
    return job is not None and job.state is State.QUEUED


def _keep(request: Request, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """How much is missing at a spot, in millionths of what is asked, and what to keep there for the request.

    Kept is everything it needs, not only what is missing: what is free today may be gone when the rest comes. And what
    is missing is measured on what is kept: it only shrinks, so no head is tossed from worker to worker for ever.
    """
    if free_view.offer.slot_set is not None:
        return _keep_slot(free_view.offer.slot_set, free_view)
    missing, devices, pools = 0, dict[str, set[str]](), dict[str, int]()
    asked = dict(request)
    vram = asked.pop(VRAM, 0)
    if vram and VRAM_OF not in asked:
        asked[VRAM_OF] = 0
    for name, amount in asked.items():
        if isinstance(free_view.supply(name), Pool):
            pools[name] = min(amount, free_view.pool_free(name))
            missing += (amount - pools[name]) * ONE // amount
        else:
            lacking, devices[name] = _freest(name, amount, vram if name == VRAM_OF else 0, free_view)
            missing += lacking
    return missing, ReservedAmounts(devices, pools, {})


def _keep_slot(slot_set: SlotSet, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """The same for a queue with slots: the devices of the slot of which least is missing are kept.

    Its slots need no keeping: all jobs of the queue want the same there, so the head is the first to get one.
    """
    free = {device.id: device for device in free_view.devices_free(SLOTS_OF)}
    present = free_view.machine.supply.get(SLOTS_OF)
    worth = {device.id: device.worth for device in present.devices} if isinstance(present, Devices) else {}
    options = []
    for index, takes in enumerate(slot_set.takes):
        if all(part <= worth.get(id_, 0) for id_, part in takes.items()):
            lacking = slot_missing(takes, free) * ONE // max(1, sum(takes.values()))
            # One that is held comes after all that are free: who holds it may be long about it.
            options.append((lacking if index in slot_set.free else lacking + 2 * ONE, index))
    missing, index = min(options)
    return missing, ReservedAmounts({SLOTS_OF: set(slot_set.takes[index])}, {}, {})


def _freest(name: str, amount: int, vram: int, free_view: FreeView) -> tuple[int, set[str]]:
    supply = free_view.machine.supply[name]
    assert not isinstance(supply, Pool)
    memory = {device.id: device.vram for device in supply.devices}
    in_units = free_view.in_units(name)
    count = max(1, -(-amount // ONE)) if in_units else 1
    each = amount if amount and not in_units else ONE
    usable = [d for d in free_view.devices_free(name) if memory[d.id] >= vram and (in_units or d.worth >= amount)]
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
    asked, worker = _asked(board, job.spec.queue, job.spec.constraints), job.spec.constraints.worker
    if not asked and worker is not None:
        return [Blocker(worker, WORKER, 0, 0, f"worker {worker} has no queue {job.spec.queue!r}")]
    for worker_state in asked:
        name = worker_state.info.name
        closed = worker_state.refuses(job.spec.queue, job.spec.constraints) or _closed(worker_state)
        if closed is not None:
            blockers.append(Blocker(name, WORKER, 0, 0, closed))
            continue
        free_view = worker_state.free_view(job.spec.queue)
        alone = fit(job.spec.request, free_view)
        free_view.reserved = joined(barring(job, name, kept), job.spec.queue)
        found = fit(job.spec.request, free_view)
        if not isinstance(found, Shortage):
            return []
        if not isinstance(alone, Shortage):
            heads = ", ".join(f"job {id_in(head.order)}" for head in barring(job, name, kept))
            why = f"{found.resource} is free but kept for {heads}, which has waited longer"
            blockers.append(Blocker(name, found.resource, found.needed, found.free, why))
            continue
        blockers.append(_blocker(board, worker_state, job.spec.queue, found))
    return blockers


def _asked(board: Board, queue: str, constraints: Constraints) -> list[WorkerState]:
    """The workers that offer a queue, or only the one a job asks for."""
    return [
        worker_state for worker_state in board.offering(queue) if constraints.worker in (None, worker_state.info.name)
    ]


def _closed(worker_state: WorkerState) -> str | None:
    name = worker_state.info.name
    if not worker_state.online:
        return f"worker {name} is out of touch"
    if worker_state.drained:
        return f"worker {name} is drained; `grass drain --undo {name}` lets it take jobs again"
    return None


def _blocker(board: Board, worker_state: WorkerState, queue: str, found: Shortage) -> Blocker:
    worker = worker_state.info.name
    group = VRAM_OF if found.resource == VRAM else found.resource
    if worker_state.info.detecting and group != SLOT and group not in worker_state.machine.supply:
        return Blocker(worker, found.resource, found.needed, found.free, "devices are still being looked for")
    holders = board.holders(worker, found.resource) or board.holders(worker, group)
    if group == SLOT:
        holders = [job for job in holders if job.spec.queue == queue]
    return Blocker(
        worker, found.resource, found.needed, found.free, found.why, tuple(sorted(job.id for job in holders))
    )


def never_fits(board: Board, queue: str, request: Request, constraints: Constraints = ANYWHERE) -> str | None:
    """Why no known worker could ever run this, or None."""
    if constraints.worker is not None and constraints.worker not in board.worker_states:
        return f"there is no worker {constraints.worker!r}; `grass show` lists them"
    reasons = []
    asked = _asked(board, queue, constraints)
    if not asked and any(board.offering(queue)):
        return f"worker {constraints.worker!r} has no queue {queue!r}"
    for worker_state in asked:
        if (refusal := worker_state.refuses(queue, constraints)) is not None:
            reasons.append(refusal)
            continue
        offer = worker_state.offers[queue].supply
        # Until the drivers have answered nobody knows what the machine has, but a queue's own limit holds anyway.
        machine = (
            {**offer, **worker_state.machine.supply} if worker_state.info.detecting else worker_state.machine.supply
        )
        found = fits_ever(request, machine, offer, worker_state.offers[queue].slot_set)
        if found is None or (worker_state.info.detecting and found.resource not in machine):
            return None
        where = f"queue {queue!r} on {worker_state.info.name}"
        if worker_state.offers[queue].slot_set is not None:
            reasons.append(f"{where} has no slot whose devices are all there")
            continue
        most = f"has {amount_text(found.free)}" if found.free else "has none"
        reasons.append(f"{amount_text(found.needed)} {found.resource} asked, {where} {most}")
    # Many workers often have one reason.
    return "; ".join(dict.fromkeys(reasons)) or None
