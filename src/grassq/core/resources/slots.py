"""Slots: a queue may list named slots instead of amounts; each job takes one slot and the devices behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from grassq.core.names import shown
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import DeviceIds, Devices, Limits, Supply
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF
from grassq.core.syntax.slots import DEVICES_MAX, SLOT_CHARS_MAX, device_order, ids_of, slot_names
from grassq.errors import BadInput

#: Stack: the last listed goes first, then the last freed. Rotate: the first listed, then the one free longest.
SlotOrder = Literal["stack", "rotate"]

_INDEX = re.compile(r"[0-9]{1,9}")


class Slot(Struct, frozen=True):
    """One slot of a queue: its name, which jobs see as CUDA_VISIBLE_DEVICES, and its devices."""

    name: Annotated[str, Meta(max_length=SLOT_CHARS_MAX)]
    ids: Annotated[tuple[str, ...], Meta(max_length=DEVICES_MAX)] = ()


def parse_slots(words: Sequence[str], per_device: int = 1) -> tuple[Slot, ...]:
    """Read slots as typed, each with its devices."""
    return tuple(Slot(name, ids_of(name)) for name in slot_names(words, per_device))


def typed_slots(words: str | None, order: str | None, limit: str | None) -> tuple[tuple[Slot, ...], SlotOrder]:
    """Read what follows `--slots` and `--order`, None where they are not given; `limit` is a limit given as well."""
    if words is None:
        if order is not None:
            raise BadInput("--order says in which order jobs get slots; it goes with --slots")
        return (), "stack"
    if limit is not None:
        raise BadInput(f"a queue has either slots or limits; give --slots or {limit}, not both")
    if order not in (None, "stack", "rotate"):
        raise BadInput(f"--order needs 'stack' or 'rotate', not {shown(order)}")
    return parse_slots(words.split()), "rotate" if order == "rotate" else "stack"


def parts(slots: Sequence[Slot]) -> dict[str, int]:
    """Return how much of each device one slot takes: 1/r of a device that is listed r times."""
    times = Counter(id_ for slot in slots for id_ in slot.ids)
    return {id_: ONE // count for id_, count in times.items()}


def limits_of(slots: Sequence[Slot]) -> Limits:
    """Return the limits of a queue with these slots: the slots' devices."""
    ids = {id_ for slot in slots for id_ in slot.ids}
    return {SLOTS_OF: DeviceIds(tuple(sorted(ids, key=device_order)))} if ids else {}


class SlotSet(Struct):
    """The slots of one offer: which are free, and in which order. Only `take` and `give` change it."""

    slots: tuple[Slot, ...]
    order: SlotOrder
    #: What each slot takes of its devices.
    takes: tuple[dict[str, int], ...]
    #: The free slots; the slot that has been free for longest comes first.
    free: dict[int, None]
    #: How many attempts hold each taken slot: one, except where a queue was changed under running jobs.
    holders: dict[int, int]

    def in_order(self) -> Iterator[int]:
        """Iterate over the free slots; the next one to be given comes first."""
        return iter(self.free) if self.order == "rotate" else reversed(self.free)

    def take(self, allocation: Allocation) -> None:
        """Count the slot of an allocation as taken."""
        for index in held_slots(self.slots, allocation):
            self.free.pop(index, None)
            self.holders[index] = self.holders.get(index, 0) + 1

    def give(self, allocation: Allocation) -> None:
        """Count the slot of an allocation as free again."""
        for index in held_slots(self.slots, allocation):
            left = self.holders.pop(index, 0) - 1
            if left > 0:
                self.holders[index] = left
            else:
                self.free[index] = None

    def copy(self) -> SlotSet:
        """Return a copy that a plan may change."""
        return SlotSet(self.slots, self.order, self.takes, dict(self.free), dict(self.holders))

    def emptied(self) -> SlotSet:
        """Return the same slots, all of them free."""
        return SlotSet(self.slots, self.order, self.takes, dict.fromkeys(range(len(self.slots))), {})

    def allocation(self, index: int) -> Allocation:
        """Return what an attempt in a slot holds."""
        held: Allocation = {SLOT: {str(index): ONE}}
        if self.takes[index]:
            held[SLOTS_OF] = dict(self.takes[index])
        return held


def slot_set_of(
    slots: tuple[Slot, ...], order: SlotOrder, devices: Supply | None, before: SlotSet | None = None
) -> SlotSet:
    """Return these slots, all free; slots that were there before keep their order."""
    whole = {device.id: device.worth for device in devices.devices} if isinstance(devices, Devices) else {}
    share = parts(slots)
    takes = tuple({id_: max(1, whole.get(id_, ONE) * share[id_] // ONE) for id_ in slot.ids} for slot in slots)
    known = before.free if before is not None and before.slots == slots else {}
    return SlotSet(slots, order, takes, {**known, **dict.fromkeys(range(len(slots)))}, {})


def held_slots(slots: Sequence[Slot], allocation: Allocation) -> list[int]:
    """Return the indexes of the slots an allocation holds of these: one index, or none.

    A slot that was taken when the queue had other slots is none of these: it has other devices, or is beyond the end.
    """
    held = allocation.get(SLOTS_OF)
    ids = set(held) if isinstance(held, dict) else set()
    return [index for index in slots_in(allocation) if index < len(slots) and ids == set(slots[index].ids)]


def slots_in(allocation: Allocation) -> list[int]:
    """Return the indexes of the slots an allocation holds: one index, or none."""
    held = allocation.get(SLOT)
    if not isinstance(held, dict):
        return []
    # The allocation may come from a worker, so its text is checked.
    return [int(index) for index in held if _INDEX.fullmatch(index)]
