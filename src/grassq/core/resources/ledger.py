"""What is taken of a machine, of an offer's share of it, and what waiting jobs keep of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Capacity, Devices
from grassq.core.resources.slots import SlotSet
from grassq.core.syntax.resource_names import VRAM, VRAM_OF


class Load(Struct):
    """What is taken of one device."""

    used: int = 0
    vram: int = 0
    holders: int = 0
    #: Holders that have all of the device: no other job may use even its memory.
    wholes: int = 0


class Ledger(Struct):
    """A capacity and what is taken of it, which is nothing at first. Only `take` and `give` change it."""

    supply: Capacity
    pools: dict[str, int] = {}
    loads: dict[str, dict[str, Load]] = {}
    #: The slots of an offer that has slots.
    slot_set: SlotSet | None = None
    #: The devices that are given to no new job, by resource.
    drained: Mapping[str, frozenset[str]] = {}

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

    def occupy(self, used: Allocation) -> None:
        """Count what programs outside of Grass use as taken; a device of which they use only memory stays empty."""
        memory = used.get(VRAM)
        self._count({name: amount for name, amount in used.items() if name != VRAM}, 1)
        for device, amount in memory.items() if isinstance(memory, dict) else ():
            self.loads.setdefault(VRAM_OF, {}).setdefault(device, Load()).vram += amount

    def copy(self) -> Ledger:
        """Return a copy that a plan may change."""
        loads = {
            name: {device: Load(x.used, x.vram, x.holders, x.wholes) for device, x in group.items()}
            for name, group in self.loads.items()
        }
        slot_set = None if self.slot_set is None else self.slot_set.copy()
        return Ledger(self.supply, dict(self.pools), loads, slot_set, self.drained)

    def emptied(self) -> Ledger:
        """Return the same ledger with nothing taken."""
        slot_set = None if self.slot_set is None else self.slot_set.emptied()
        return Ledger(self.supply, slot_set=slot_set, drained=self.drained)

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
        known = supply.devices if isinstance(supply, Devices) else ()
        return next((each.worth for each in known if each.id == device), ONE)


class ReservedAmounts(Struct):
    """What waiting jobs keep on one worker."""

    #: Kept of devices and of pools, against every queue.
    devices: dict[str, dict[str, int]] = {}
    pools: dict[str, int] = {}
    #: Kept of the memory of devices, against every queue.
    vram: dict[str, int] = {}
    #: Kept of what the limits of a queue leave, against jobs of the same queue.
    device_limits: dict[str, dict[str, int]] = {}
    pool_limits: dict[str, int] = {}

    def add(self, other: ReservedAmounts, *, same_queue: bool) -> None:
        """Add what another job keeps, a job of the same queue or not."""
        for name, amounts in other.devices.items():
            _sum(self.devices.setdefault(name, {}), amounts)
            if same_queue:
                _sum(self.device_limits.setdefault(name, {}), amounts)
        _sum(self.vram, other.vram)
        _sum(self.pools, other.pools)
        if same_queue:
            _sum(self.pool_limits, other.pools)


def _sum(amounts: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount
