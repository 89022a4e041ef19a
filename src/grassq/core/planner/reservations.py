"""Reservations: what is kept free for a head-of-line job that has waited long enough.

A head reserves everything it asks for on the worker where least is missing. A reservation blocks later jobs of the same
queue, and jobs of equal or lower priority in other queues; everything else goes on.
"""

from __future__ import annotations

from msgspec import Struct

from grassq.core.model import ORDER_BITS, Job, State, priority_in
from grassq.core.planner.board import Board, Head, ReservationPolicy
from grassq.core.resources.amounts import ONE, Request
from grassq.core.resources.capacity import Devices, Pool
from grassq.core.resources.fit import FreeView, slot_missing
from grassq.core.resources.ledger import ReservedAmounts
from grassq.core.resources.slots import SlotSet
from grassq.core.syntax.resource_names import SLOTS_OF, VRAM, VRAM_OF


class Reservation(Struct, frozen=True):
    """What a head-of-line job reserves on one worker."""

    order: int
    queue: str
    worker: str
    reserved: ReservedAmounts

    def blocks_from(self, queue: str) -> int:
        """Return the first queue position this reservation blocks.

        In the reservation's own queue: every position after its job. In other queues: every job of equal or lower
        priority.
        """
        return self.order + 1 if queue == self.queue else -priority_in(self.order) << ORDER_BITS


def reservations(board: Board, now: float) -> list[Reservation]:
    """Return the reservations of all heads that have waited long enough, first head first."""
    kept: list[Reservation] = []
    ripe = [
        job
        for queue, head in board.heads.items()
        if is_ripe(head, board.patience, now)
        and (job := board.jobs.get(head.job)) is not None
        and job.state is State.QUEUED
        and not board.is_paused(queue)
    ]
    for job in sorted(ripe, key=lambda job: job.order):
        options = []
        names = tuple(name for name, _ in job.spec.request)
        for worker in board.takers(job.spec.queue, job.spec.constraints):
            if not worker.max_fit(job.spec.queue, names).holds(job.spec.request):
                continue
            free_view = worker.free_view(job.spec.queue)
            free_view.reserved = joined(barring(job, worker.info.name, kept), job.spec.queue)
            missing, reserved = _keep(job.spec.request, free_view)
            options.append((missing, worker.info.name, reserved))
        if options:
            _, name, reserved = min(options, key=lambda option: option[:2])
            kept.append(Reservation(job.order, job.spec.queue, name, reserved))
    return kept


def is_ripe(head: Head, patience: ReservationPolicy, now: float) -> bool:
    """Tell whether a head has been passed often enough, or has waited long enough, to reserve."""
    return head.passed >= patience.passes or now - head.since >= patience.wait_s


def _keep(request: Request, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """Return how much is missing, in millionths of the request, and the amounts to reserve.

    Everything the request needs is reserved, not only what is missing: what is free now may be gone when the rest
    becomes free. What is missing is measured on what is reserved, so it only shrinks, and a head never alternates
    between workers for ever.
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
    return missing, ReservedAmounts(devices, pools)


def _keep_slot(slot_set: SlotSet, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """Return the same for a queue with slots: reserve the devices of the slot of which least is missing.

    The slot itself needs no reservation: all jobs of the queue ask for one slot, so the head gets the next free one.
    """
    free = {device.id: device for device in free_view.devices_free(SLOTS_OF)}
    present = free_view.machine.supply.get(SLOTS_OF)
    worth = {device.id: device.worth for device in present.devices} if isinstance(present, Devices) else {}
    options = []
    for index, takes in enumerate(slot_set.takes):
        if all(part <= worth.get(id_, 0) for id_, part in takes.items()):
            lacking = slot_missing(takes, free) * ONE // max(1, sum(takes.values()))
            # A taken slot comes after all free slots: its job may run for long.
            options.append((lacking if index in slot_set.free else lacking + 2 * ONE, index))
    missing, index = min(options)
    return missing, ReservedAmounts({SLOTS_OF: set(slot_set.takes[index])})


def _freest(name: str, amount: int, vram: int, free_view: FreeView) -> tuple[int, set[str]]:
    supply = free_view.machine.supply[name]
    assert not isinstance(supply, Pool)
    memory = {device.id: device.vram for device in supply.devices}
    in_units = free_view.in_units(name)
    count = max(1, -(-amount // ONE)) if in_units else 1
    each = amount if amount and not in_units else ONE
    usable = [d for d in free_view.devices_free(name) if memory[d.id] >= vram and (in_units or d.worth >= amount)]
    ranked = sorted(usable, key=lambda device: (device.empty, device.free, device.vram), reverse=True)[:count]
    # A device of which another job holds a part never counts as whole.
    there = sum(each if device.empty else min(device.free, each - 1) for device in ranked)
    return (count * each - there) * ONE // (count * each), {device.id for device in ranked}


def barring(job: Job, worker: str, kept: list[Reservation]) -> list[Reservation]:
    """Return the reservations that block a job on a worker; a job that is no head is blocked by more of them."""
    is_head = any(reservation.order == job.order for reservation in kept)
    return [
        other
        for other in kept
        if other.worker == worker
        and (other.order < job.order or (not is_head and other.blocks_from(job.spec.queue) <= job.order))
    ]


def joined(reservations: list[Reservation], queue: str) -> ReservedAmounts:
    """Return what several reservations together keep from jobs of a queue."""
    reserved = ReservedAmounts()
    for other in reservations:
        for name, ids in other.reserved.devices.items():
            reserved.devices.setdefault(name, set()).update(ids)
        for name, amount in other.reserved.pools.items():
            reserved.pools[name] = reserved.pools.get(name, 0) + amount
            if other.queue == queue:
                reserved.limits[name] = amount
    return reserved
