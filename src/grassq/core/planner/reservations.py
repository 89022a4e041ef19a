"""Reservations: what is kept free on one worker for a job that waits.

A waiting job keeps everything it asks for on the worker where it lacks least. At first it keeps that from jobs of lower
priority alone. The head of a queue that was passed too often, or has waited too long, keeps it from equals too: from
later jobs of its queue, and from jobs of equal priority in other queues. `kept_room.py` says which jobs keep room.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from grassq.core.model import ORDER_BITS, Constraints, priority_in
from grassq.core.planner.board import Board
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import ONE, Allocation, Request
from grassq.core.resources.capacity import Devices, Pool
from grassq.core.resources.fit import ANYTHING, FreeDevice, FreeView, Shortage, fit, slot_missing
from grassq.core.resources.ledger import Ledger, Load, ReservedAmounts
from grassq.core.resources.slots import SlotSet
from grassq.core.syntax.resource_names import SLOTS_OF, VRAM, VRAM_OF

#: Beyond every queue position.
NOBODY = 1 << 63


class WaitingJob(Struct, frozen=True):
    """What the planner knows of every queued job: its position, and its shape."""

    order: int
    queue: str
    request: Request
    constraints: Constraints

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that the job asks for."""
        return tuple(name for name, _ in self.request)


class Reservation(Struct, frozen=True):
    """What a waiting job keeps on one worker."""

    order: int
    queue: str
    worker: str
    reserved: ReservedAmounts
    #: The job is a head that was passed too often or has waited too long.
    is_ripe: bool
    #: The limits of the job's queue stop the job: nothing is kept from other queues.
    is_own_queue_only: bool = False

    def blocks_from(self, queue: str) -> int:
        """Return the first position of a queue from which on jobs must leave alone what is kept."""
        if queue != self.queue and self.is_own_queue_only:
            return NOBODY
        if not self.is_ripe:
            return first_of(priority_in(self.order) - 1)
        return self.order + 1 if queue == self.queue else first_of(priority_in(self.order))


def first_of(priority: int) -> int:
    """Return the position before all jobs of this priority, and after all jobs of a higher one."""
    return -priority << ORDER_BITS


def able_workers(job: WaitingJob, board: Board) -> Iterator[WorkerState]:
    """Yield the workers that take jobs now and could run a job if nothing else ran there."""
    for worker in board.takers(job.queue, job.constraints):
        if worker.max_fit(job.queue, job.names).holds(job.request):
            yield worker


def is_limited(request: Request, offer: Ledger, machine: Ledger) -> bool:
    """Tell whether the limits of its queue stop a request, so that no other queue can be in its way."""
    if offer.slot_set is not None:
        # A slot that becomes free brings its devices along.
        return not offer.slot_set.free
    own_loads = {
        name: {id_: Load(load.used, load.vram, load.holders) for id_, load in loads.items()}
        for name, loads in offer.loads.items()
    }
    own_use = Ledger(machine.supply, offer.pools, own_loads, drained=machine.drained)
    return _fits(request, FreeView(own_use, offer.emptied())) and not _fits(request, FreeView(own_use, offer))


def _fits(request: Request, free_view: FreeView) -> bool:
    return not isinstance(fit(request, free_view), Shortage)


def keep(request: Request, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """Return how much is missing, in millionths of the request, and the amounts to reserve.

    Everything the request needs is reserved, not only what is missing: what is free now may be gone when the rest
    becomes free. What is missing is measured on what is reserved, so it only shrinks, and a head never alternates
    between workers for ever.
    """
    if free_view.offer.slot_set is not None:
        return _keep_slot(free_view.offer.slot_set, free_view)
    missing, reserved = 0, ReservedAmounts()
    asked = dict(request)
    vram = asked.pop(VRAM, 0)
    if vram and VRAM_OF not in asked:
        asked[VRAM_OF] = 0
    for name, amount in asked.items():
        if isinstance(free_view.supply(name), Pool):
            reserved.pools[name] = amount
            missing += (amount - min(amount, free_view.pool_free(name))) * ONE // amount
        else:
            missing += _keep_devices(name, amount, vram if name == VRAM_OF else 0, free_view, reserved)
    return missing, reserved


def reserved_of(allocation: Allocation, free_view: FreeView) -> ReservedAmounts:
    """Return the amounts to reserve for a job that will get exactly this."""
    reserved = ReservedAmounts()
    for name, held in allocation.items():
        if not isinstance(held, dict):
            reserved.pools[name] = held
        elif name == VRAM:
            for id_, memory in held.items():
                reserved.devices.setdefault(VRAM_OF, {}).setdefault(id_, 0)
                reserved.vram[id_] = max(memory, reserved.vram.get(id_, 0))
        else:
            reserved.devices.setdefault(name, {}).update(held)
            wholes = {device.id for device in free_view.devices_free(name) if held.get(device.id) == device.whole}
            # A job that has a whole device has all of its memory.
            reserved.vram.update(dict.fromkeys(wholes, ANYTHING) if name == VRAM_OF else {})
    return reserved


def _keep_slot(slot_set: SlotSet, free_view: FreeView) -> tuple[int, ReservedAmounts]:
    """Return the same for a queue with slots: reserve the devices of the slot of which least is missing.

    The slot itself needs no reservation: all jobs of the queue ask for one slot, so the head gets the next free one.
    """
    free = {device.id: device for device in free_view.devices_free(SLOTS_OF)}
    present = free_view.machine.supply.get(SLOTS_OF)
    drained = free_view.machine.drained.get(SLOTS_OF, ())
    there = present.devices if isinstance(present, Devices) else ()
    worth = {device.id: device.worth for device in there if device.id not in drained}
    options = []
    for index, takes in enumerate(slot_set.takes):
        if all(part <= worth.get(id_, 0) for id_, part in takes.items()):
            lacking = slot_missing(takes, free) * ONE // max(1, sum(takes.values()))
            # A taken slot comes after all free slots: its job may run for long.
            options.append((lacking if index in slot_set.free else lacking + 2 * ONE, index))
    if not options:
        return 3 * ONE, ReservedAmounts()
    missing, index = min(options)
    wholes = [id_ for id_, part in slot_set.takes[index].items() if part == worth[id_]]
    return missing, ReservedAmounts({SLOTS_OF: dict(slot_set.takes[index])}, vram=dict.fromkeys(wholes, ANYTHING))


def _keep_devices(name: str, amount: int, vram: int, free_view: FreeView, reserved: ReservedAmounts) -> int:
    """Add the devices to reserve, those of which least is missing; return how much is missing."""
    idle = FreeView(free_view.machine.emptied(), free_view.offer.emptied(), free_view.reserved)
    at_most = {device.id: device for device in idle.devices_free(name)}
    rest = [device for device in free_view.devices_free(name) if at_most[device.id].vram >= vram]
    needs = _needs(amount) if free_view.in_units(name) else [amount]
    kept, missing = reserved.devices.setdefault(name, {}), 0
    for need in needs:
        usable = [device for device in rest if at_most[device.id].most >= need]
        if not usable:
            missing += ONE
            continue
        device = min(usable, key=lambda device: _rank(device, need, vram))
        rest.remove(device)
        missing += _lack(device, need, vram)
        kept[device.id] = need
        # A job that has a whole device has all of its memory.
        memory = ANYTHING if need == device.whole else vram
        if memory:
            reserved.vram[device.id] = memory
    return missing // len(needs)


def _needs(amount: int) -> list[int]:
    """Return what a request needs of each device where all devices are worth 1: whole devices, and a part of one."""
    wholes, part = divmod(amount, ONE)
    return [*[ONE] * wholes, *([part] if part or not wholes else [])]


def _rank(device: FreeDevice, need: int, vram: int) -> tuple[int, int, int]:
    """Return a key that is least for the device to reserve: where least is missing, then the fullest that will do."""
    lack = _lack(device, need, vram)
    return lack, 0 if lack else device.free, device.vram


def _lack(device: FreeDevice, need: int, vram: int) -> int:
    """Return which part of what is needed of a device is missing, and the same of its memory, in millionths."""
    missing = (need - min(need, device.most)) * ONE // need if need else 0
    return missing + ((vram - min(vram, 0 if device.closed else device.vram)) * ONE // vram if vram else 0)


def barring(order: int, queue: str, worker: str, kept: list[Reservation]) -> list[Reservation]:
    """Return the reservations that block the job at a position on a worker; a ripe head is blocked by earlier ones."""
    is_ripe = any(reservation.is_ripe and reservation.order == order for reservation in kept)
    return [
        other
        for other in kept
        if other.worker == worker and other.blocks_from(queue) <= order and (other.order < order or not is_ripe)
    ]


def joined(reservations: list[Reservation], queue: str) -> ReservedAmounts:
    """Return what several reservations together keep from jobs of a queue."""
    reserved = ReservedAmounts()
    for other in reservations:
        if other.blocks_from(queue) < NOBODY:
            reserved.add(other.reserved, same_queue=other.queue == queue)
    return reserved
