"""How full a machine or an offer is, and whether a request still fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from grassq.core.resources.capacity import (
    ONE,
    VRAM,
    VRAM_OF,
    Allocation,
    Capacity,
    Device,
    Devices,
    Pool,
    Request,
    Supply,
    amount_text,
)
from grassq.core.resources.slots import SlotSet
from grassq.core.syntax.slots import SLOT, SLOTS_OF

#: More than any request asks for: where a slot is free, every request of its queue fits.
ANYTHING = 1 << 62


class Load(Struct):
    """What is taken of one device."""

    used: int = 0
    vram: int = 0
    holders: int = 0
    #: Holders that have all of it: nobody else may even use its memory.
    wholes: int = 0


class Ledger(Struct):
    """A supply and what is taken of it. The only writers are `take` and `give`."""

    supply: Capacity
    pools: dict[str, int]
    loads: dict[str, dict[str, Load]]
    #: The slots of an offer that has any.
    slot_set: SlotSet | None = None

    def take(self, allocation: Allocation) -> None:
        """Count an allocation as taken."""
        self._count(allocation, 1)
        if self.slot_set is not None:
            self.slot_set.take(allocation)

    def give(self, allocation: Allocation) -> None:
        """Count an allocation as free again."""
        self._count(allocation, -1)
        if self.slot_set is not None:
            self.slot_set.give(allocation)

    def copy(self) -> Ledger:
        """A scratch copy to plan on."""
        loads = {
            name: {device: Load(x.used, x.vram, x.holders, x.wholes) for device, x in group.items()}
            for name, group in self.loads.items()
        }
        return Ledger(self.supply, dict(self.pools), loads, None if self.slot_set is None else self.slot_set.copy())

    def emptied(self) -> Ledger:
        """The same room as if nobody had ever used it."""
        return Ledger(self.supply, {}, {}, None if self.slot_set is None else self.slot_set.emptied())

    def _count(self, allocation: Allocation, sign: int) -> None:
        touched: dict[tuple[str, str], Load] = {}
        for name, held in allocation.items():
            if not isinstance(held, dict):
                self.pools[name] = self.pools.get(name, 0) + sign * held
                continue
            group = VRAM_OF if name == VRAM else name
            for device, amount in held.items():
                load = self.loads.setdefault(group, {}).setdefault(device, Load())
                touched[group, device] = load
                if name == VRAM:
                    load.vram += sign * amount
                else:
                    load.used += sign * amount
                    load.wholes += sign * (amount == self._worth(group, device))
        for load in touched.values():
            load.holders += sign

    def _worth(self, group: str, device: str) -> int:
        supply = self.supply.get(group)
        if isinstance(supply, Devices):
            for known in supply.devices:
                if known.id == device:
                    return known.worth
        return ONE


def empty_ledger(supply: Capacity) -> Ledger:
    """A room nobody uses yet."""
    return Ledger(supply, {}, {})


class ReservedAmounts(Struct):
    """What a waiting head keeps from others on one worker."""

    devices: dict[str, set[str]]
    #: Kept of the machine's pools, from every queue.
    pools: dict[str, int]
    #: Kept of the queue's own share as well, because the head is of the same queue.
    limits: dict[str, int]


class Shortage(Struct, frozen=True):
    """The resource that stands in the way: how much is needed and how much is free."""

    resource: str
    needed: int
    free: int
    why: str


class FreeDevice(Struct, frozen=True):
    """What is left of one device."""

    id: str
    #: All of it, and what the queue may use of it.
    whole: int
    worth: int
    free: int
    vram: int
    #: Nobody holds anything of it.
    empty: bool
    #: Somebody holds all of it.
    closed: bool


class FreeView(Struct):
    """One offer on one machine, seen by a job: both have to have room."""

    machine: Ledger
    offer: Ledger
    reserved: ReservedAmounts | None = None

    def supply(self, name: str) -> Supply | None:
        """All there is of a resource here."""
        return self.offer.supply.get(name) or self.machine.supply.get(name)

    def pool_free(self, name: str) -> int:
        """What is left of a pool, less what is kept for a head."""
        machine, limit = self.machine.supply.get(name), self.offer.supply.get(name)
        if not isinstance(machine, Pool):
            return 0
        reserved = self.reserved or ReservedAmounts({}, {}, {})
        free = machine.amount - self.machine.pools.get(name, 0) - reserved.pools.get(name, 0)
        if isinstance(limit, Pool):
            free = min(free, limit.amount - self.offer.pools.get(name, 0) - reserved.limits.get(name, 0))
        return max(0, free)

    def in_units(self, name: str) -> bool:
        """Whether every device here is worth 1, so that a request may span several."""
        machine, allowed = self.machine.supply.get(name), self.supply(name)
        if not isinstance(machine, Devices) or not isinstance(allowed, Devices):
            return False
        present = {device.id: device.worth for device in machine.devices}
        return all(limit.worth == ONE == present[limit.id] for limit in allowed.devices if limit.id in present)

    def devices_free(self, name: str) -> list[FreeDevice]:
        """What is left of each device, in id order, without those kept for a head."""
        machine, allowed = self.machine.supply.get(name), self.supply(name)
        if not isinstance(machine, Devices) or not isinstance(allowed, Devices):
            return []
        present = {device.id: device for device in machine.devices}
        barred = self.reserved.devices.get(name, ()) if self.reserved else ()
        return [
            self._device_free(name, present[limit.id], limit)
            for limit in allowed.devices
            if limit.id in present and limit.id not in barred
        ]

    def _device_free(self, name: str, device: Device, limit: Device) -> FreeDevice:
        load = self.machine.loads.get(name, {}).get(device.id) or Load()
        mine = self.offer.loads.get(name, {}).get(device.id) or Load()
        free = min(device.worth - load.used, limit.worth - mine.used)
        closed = load.wholes > 0
        return FreeDevice(
            device.id,
            device.worth,
            min(device.worth, limit.worth),
            0 if closed else max(0, free),
            max(0, device.vram - load.vram),
            load.holders == 0,
            closed,
        )


def fit(request: Request, free_view: FreeView) -> Allocation | Shortage:
    """The devices and amounts a request would get at a spot, or the first thing that is short."""
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
    """The next slot whose devices are free; what the request asks for is not looked at."""
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
    """How much of its devices is not free for a slot, in all; 0 when it can be given."""
    return sum(part - _there(part, devices.get(id_)) for id_, part in takes.items())


def _there(part: int, device: FreeDevice | None) -> int:
    # One that somebody holds anything of is never given whole.
    if device is None:
        return 0
    return min(part, device.free if device.empty else min(device.free, device.whole - 1))


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
    return _short(name, amount, devices_sum(devices, in_units=in_units))


def _short(name: str, amount: int, free: int) -> Shortage:
    return Shortage(name, amount, free, f"{amount_text(amount)} {name} needed, {amount_text(free)} free")


def _choose(amount: int, devices: list[FreeDevice], *, in_units: bool) -> dict[str, int] | None:
    if not in_units:
        found = _tightest(amount, devices)
        return None if found is None else {found.id: amount}
    wholes, part = divmod(amount, ONE)
    # Those with the least memory go first, so that a large one stays for whoever needs it.
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
    # The fullest device that still fits keeps the empty ones whole, and of several the one of least memory the large
    # ones free; the list is in id order, and min keeps the first.
    fitting = [d for d in devices if d.free >= amount and (d.empty or amount < d.whole)]
    return min(fitting, key=lambda device: (device.free, device.empty, device.vram), default=None)


def _fit_vram(vram: int, free_view: FreeView) -> dict[str, int] | Shortage:
    devices = [device for device in free_view.devices_free(VRAM_OF) if not device.closed]
    fitting = [device for device in devices if device.vram >= vram]
    if fitting:
        return {min(fitting, key=lambda device: device.vram).id: vram}
    most = max((device.vram for device in devices), default=0)
    return Shortage(VRAM, vram, most, f"{amount_text(vram)} MiB of vram needed, {amount_text(most)} free on one device")


def devices_sum(devices: list[FreeDevice], *, in_units: bool) -> int:
    """The largest request these devices can serve: F + m, or the largest remainder where worths differ."""
    if not in_units:
        return max((device.free for device in devices), default=0)
    empty = sum(device.empty for device in devices)
    return empty * ONE + max((device.free for device in devices if not device.empty), default=0)


def most(name: str, free_view: FreeView) -> int:
    """The largest amount of one resource that a request could be given at a spot; -1 where there is none of it.

    A request that asks for more of anything does not fit, and one that does not fits, but for memory of devices: that
    has to be on the very devices the request is given.
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
    devices = free_view.devices_free(name)
    # One that somebody holds anything of is never given whole.
    parts = (device.free if device.empty else min(device.free, device.whole - 1) for device in devices)
    if not free_view.in_units(name):
        return max(parts, default=-1)
    empty = sum(device.empty for device in devices)
    return empty * ONE + max((part for part, device in zip(parts, devices, strict=True) if not device.empty), default=0)


def fits_ever(request: Request, machine: Capacity, offer: Capacity, slot_set: SlotSet | None = None) -> Shortage | None:
    """What stands in the way even when nobody else is there; None when the request can run one day."""
    found = fit(request, FreeView(empty_ledger(machine), Ledger(offer, {}, {}, slot_set).emptied()))
    return found if isinstance(found, Shortage) else None


def free_json(free_view: FreeView, names: Mapping[str, Supply]) -> dict[str, object]:
    """What is free, as data."""
    shown: dict[str, object] = {}
    for name, supply in names.items():
        if isinstance(supply, Pool):
            shown[name] = free_view.pool_free(name) / ONE
        else:
            shown[name] = {device.id: device.free / ONE for device in free_view.devices_free(name)}
    return shown


def supply_json(capacity: Capacity) -> dict[str, object]:
    """A capacity as data."""
    return {
        name: supply.amount / ONE
        if isinstance(supply, Pool)
        else {device.id: device.worth / ONE for device in supply.devices}
        for name, supply in capacity.items()
    }
