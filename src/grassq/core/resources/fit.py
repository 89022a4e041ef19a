"""Whether a request fits into what is free, and which devices the request gets.

Fractions go to the fullest device that still fits, so that whole devices stay free. Whole devices go to those with the
least memory first, so that the large ones stay free for a job that needs their memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from grassq.core.resources.amounts import ONE, Allocation, Amounts, Request, amount_text
from grassq.core.resources.capacity import Capacity, Device, Devices, Pool, Supply
from grassq.core.resources.ledger import Ledger, Load, ReservedAmounts
from grassq.core.resources.slots import SlotSet
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF, VRAM, VRAM_OF

#: More than any request asks for: where a slot is free, every request of its queue fits.
ANYTHING = 1 << 62


class Shortage(Struct, frozen=True):
    """The resource that is short: how much is needed, how much is free, and both in words."""

    resource: str
    needed: int
    free: int
    why: str


class FreeDevice(Struct, frozen=True):
    """What is left of one device."""

    id: str
    #: What the device is worth, and how much of it the queue may use.
    whole: int
    worth: int
    free: int
    vram: int
    #: No job holds or keeps any part of the device.
    empty: bool
    #: One job holds all of the device, or the device is drained.
    closed: bool
    #: The most one job can get: a device of which another job holds a part is never given whole.
    most: int


class FreeView(Struct):
    """What is free for a job of one offer on one machine: the smaller of what both leave."""

    machine: Ledger
    offer: Ledger
    reserved: ReservedAmounts | None = None

    def supply(self, name: str) -> Supply | None:
        """Return the offer's limit of a resource, else the machine's supply; None where there is neither."""
        return self.offer.supply.get(name) or self.machine.supply.get(name)

    def pool_free(self, name: str) -> int:
        """Return what is free of a pool, without reserved amounts."""
        machine, limit = self.machine.supply.get(name), self.offer.supply.get(name)
        if not isinstance(machine, Pool):
            return 0
        reserved = self.reserved or ReservedAmounts()
        free = machine.amount - self.machine.pools.get(name, 0) - reserved.pools.get(name, 0)
        if isinstance(limit, Pool):
            free = min(free, limit.amount - self.offer.pools.get(name, 0) - reserved.pool_limits.get(name, 0))
        return max(0, free)

    def in_units(self, name: str) -> bool:
        """Tell whether every device is worth 1, so that a request may span several devices."""
        machine, allowed = self.machine.supply.get(name), self.supply(name)
        if not isinstance(machine, Devices) or not isinstance(allowed, Devices):
            return False
        present = {device.id: device.worth for device in machine.devices}
        return all(limit.worth == ONE == present[limit.id] for limit in allowed.devices if limit.id in present)

    def devices_free(self, name: str) -> list[FreeDevice]:
        """Return what is free of each device, in id order, without reserved amounts."""
        machine, allowed = self.machine.supply.get(name), self.supply(name)
        if not isinstance(machine, Devices) or not isinstance(allowed, Devices):
            return []
        present = {device.id: device for device in machine.devices}
        return [self._device_free(name, present[limit.id], limit) for limit in allowed.devices if limit.id in present]

    def _device_free(self, name: str, device: Device, limit: Device) -> FreeDevice:
        if device.id in self.machine.drained.get(name, ()):
            return FreeDevice(device.id, device.worth, min(device.worth, limit.worth), 0, 0, False, True, 0)
        load = self.machine.loads.get(name, {}).get(device.id) or Load()
        mine = self.offer.loads.get(name, {}).get(device.id) or Load()
        kept = kept_vram = kept_limit = 0
        if self.reserved is not None:
            kept = self.reserved.devices.get(name, {}).get(device.id, 0)
            kept_limit = self.reserved.device_limits.get(name, {}).get(device.id, 0)
            kept_vram = self.reserved.vram.get(device.id, 0) if name == VRAM_OF else 0
        closed, empty = load.wholes > 0, load.holders == 0 and kept == 0 and kept_vram == 0
        free = 0 if closed else max(0, min(device.worth - load.used - kept, limit.worth - mine.used - kept_limit))
        return FreeDevice(
            device.id,
            device.worth,
            min(device.worth, limit.worth),
            free,
            max(0, device.vram - load.vram - kept_vram),
            empty,
            closed,
            free if empty else min(free, device.worth - 1),
        )


def fit(request: Request, free_view: FreeView) -> Allocation | Shortage:
    """Return the devices and amounts a request gets, or the first resource that is short."""
    if free_view.offer.slot_set is not None:
        return _fit_slot(free_view.offer.slot_set, free_view)
    asked = dict(request)
    vram = asked.pop(VRAM, 0)
    allocation: Allocation = {}
    for name, amount in asked.items():
        found = _fit_one(name, amount, vram if name == VRAM_OF else 0, free_view)
        if isinstance(found, Shortage):
            return found
        allocation[name] = found
    if vram:
        holding = allocation.get(VRAM_OF)
        memory = dict.fromkeys(holding, vram) if isinstance(holding, dict) else _fit_vram(vram, free_view)
        if isinstance(memory, Shortage):
            return memory
        allocation[VRAM] = memory
    return allocation


def _fit_slot(slot_set: SlotSet, free_view: FreeView) -> Allocation | Shortage:
    """Return the next slot whose devices are free. The request's amounts play no role."""
    if not slot_set.free:
        count = len(slot_set.slots)
        return Shortage(SLOT, ONE, 0, f"all {count} slots are taken" if count > 1 else "its only slot is taken")
    devices = {device.id: device for device in free_view.devices_free(SLOTS_OF)}
    for index in slot_set.in_order():
        if slot_missing(slot_set.takes[index], devices) == 0:
            return slot_set.allocation(index)
    takes = slot_set.takes[next(slot_set.in_order())]
    there = sum(min(part, devices[id_].free) for id_, part in takes.items() if id_ in devices)
    return Shortage(SLOTS_OF, sum(takes.values()), there, "the devices of its free slots are in use")


def slot_missing(takes: Mapping[str, int], devices: Mapping[str, FreeDevice]) -> int:
    """Return how much of a slot's devices is in use; 0 means that the slot can be given."""
    return sum(part - (min(part, devices[id_].most) if id_ in devices else 0) for id_, part in takes.items())


def _fit_one(name: str, amount: int, vram: int, free_view: FreeView) -> int | dict[str, int] | Shortage:
    supply = free_view.supply(name)
    if supply is None:
        return Shortage(name, amount, 0, f"there is no {name} here")
    if isinstance(supply, Pool):
        free = free_view.pool_free(name)
        return amount if amount <= free else _short(name, amount, free)
    every, in_units = free_view.devices_free(name), free_view.in_units(name)
    devices = [device for device in every if device.vram >= vram]
    chosen = _choose(amount, devices, in_units=in_units)
    if chosen is not None:
        return chosen
    if vram and _choose(amount, every, in_units=in_units) is not None:
        most = max(device.vram for device in every)
        return Shortage(VRAM, vram, most, f"no free {name} has {amount_text(vram)} MiB of memory left")
    free = devices_sum(devices, in_units=in_units)
    # Short of a millionth: jobs hold only memory of a device, and no job that wants the device whole gets it.
    return _short(name, amount, amount - ONE if in_units and amount - free == 1 else free)


def _short(name: str, amount: int, free: int) -> Shortage:
    return Shortage(name, amount, free, f"{amount_text(amount)} {name} needed, {amount_text(free)} free")


def _choose(amount: int, devices: list[FreeDevice], *, in_units: bool) -> dict[str, int] | None:
    if not in_units:
        found = _tightest(amount, devices)
        return None if found is None else {found.id: amount}
    wholes, part = divmod(amount, ONE)
    # Devices with the least memory go first: the large ones stay free for jobs that need the memory.
    empty = sorted((device for device in devices if device.empty), key=lambda device: device.vram)
    if len(empty) < wholes:
        return None
    chosen = {device.id: ONE for device in empty[:wholes]}
    if part:
        rest = _tightest(part, [device for device in devices if device.id not in chosen])
        if rest is None:
            return None
        chosen[rest.id] = part
    return chosen


def _tightest(amount: int, devices: Iterable[FreeDevice]) -> FreeDevice | None:
    # The fullest device that still fits leaves the empty devices whole; among equals the one with the least memory
    # leaves the large ones free. The list is in id order, and min takes the first of equals.
    fitting = [device for device in devices if device.most >= amount]
    return min(fitting, key=lambda device: (device.free, device.empty, device.vram), default=None)


def _fit_vram(vram: int, free_view: FreeView) -> dict[str, int] | Shortage:
    devices = [device for device in free_view.devices_free(VRAM_OF) if not device.closed]
    fitting = [device for device in devices if device.vram >= vram]
    if fitting:
        return {min(fitting, key=lambda device: device.vram).id: vram}
    most = max((device.vram for device in devices), default=0)
    return Shortage(VRAM, vram, most, f"{amount_text(vram)} MiB of vram needed, {amount_text(most)} free on one device")


def devices_sum(devices: list[FreeDevice], *, in_units: bool) -> int:
    """Return the largest amount these devices can serve: F + m, or the largest remainder where worths differ."""
    if not in_units:
        return max((device.most for device in devices), default=0)
    empty = sum(device.empty for device in devices)
    return empty * ONE + max((device.most for device in devices if not device.empty), default=0)


def most(name: str, free_view: FreeView) -> int:
    """Return the largest amount of one resource that a request can get; -1 where there is none of it.

    A request fits if and only if no amount exceeds this. Exception: vram must be free on the same devices the request
    gets, so a request for vram needs `fit`.
    """
    if free_view.offer.slot_set is not None:
        return -1 if isinstance(_fit_slot(free_view.offer.slot_set, free_view), Shortage) else ANYTHING
    if name == VRAM:
        return max((device.vram for device in free_view.devices_free(VRAM_OF) if not device.closed), default=-1)
    supply = free_view.supply(name)
    if supply is None:
        return -1
    if isinstance(supply, Pool):
        return free_view.pool_free(name)
    return devices_sum(free_view.devices_free(name), in_units=free_view.in_units(name))


def fits_ever(request: Request, machine: Capacity, offer: Capacity, slot_set: SlotSet | None = None) -> Shortage | None:
    """Return what is short even on an empty machine; None if the request can run one day."""
    found = fit(request, FreeView(Ledger(machine), Ledger(offer, slot_set=slot_set).emptied()))
    return found if isinstance(found, Shortage) else None


def free_json(free_view: FreeView, names: Mapping[str, Supply]) -> Amounts:
    """Return what is free as a JSON document."""
    return {
        name: free_view.pool_free(name) / ONE
        if isinstance(supply, Pool)
        else {device.id: device.free / ONE for device in free_view.devices_free(name)}
        for name, supply in names.items()
    }


def supply_json(capacity: Capacity) -> Amounts:
    """Return a capacity as a JSON document."""
    return {
        name: supply.amount / ONE
        if isinstance(supply, Pool)
        else {device.id: device.worth / ONE for device in supply.devices}
        for name, supply in capacity.items()
    }
