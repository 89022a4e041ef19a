"""Slots: the places of a queue that lists places instead of amounts, and the order in which they are handed out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from grassq.core.names import shown
from grassq.core.resources.capacity import ONE, Allocation, DeviceIds, Devices, Limits, Supply
from grassq.core.resources.device_ids import DEVICES_MAX, device_order
from grassq.core.syntax.slots import SLOT, SLOT_CHARS_MAX, SLOTS_OF, ids_of, slot_names
from grassq.errors import BadInput

#: Stack: the last listed goes first, then the last freed. Rotate: the first listed, then the one free longest.
SlotOrder = Literal["stack", "rotate"]

_INDEX = re.compile(r"[0-9]{1,9}")


class Slot(Struct, frozen=True):
    """One place in a queue: its name, which jobs see as CUDA_VISIBLE_DEVICES, and the devices behind it."""

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
    slots = parse_slots(words.split())
    match order:
        case None | "stack":
            return slots, "stack"
        case "rotate":
            return slots, "rotate"
        case _:
            raise BadInput(f"--order needs 'stack' or 'rotate', not {shown(order)}")


def parts(slots: Sequence[Slot]) -> dict[str, int]:
    """How much of each device one of these slots takes: of one that is listed r times, a part in r."""
    times = Counter(id_ for slot in slots for id_ in slot.ids)
    return {id_: ONE // count for id_, count in times.items()}


def limits_of(slots: Sequence[Slot]) -> Limits:
    """What a queue with these slots is limited to: their devices, so that they are declared and looked for as any."""
    ids = {id_ for slot in slots for id_ in slot.ids}
    return {SLOTS_OF: DeviceIds(tuple(sorted(ids, key=device_order)))} if ids else {}


class SlotSet(Struct):
    """The slots of one offer: who is free, and since when. The only writers are `take` and `give`."""

    slots: tuple[Slot, ...]
    order: SlotOrder
    #: What each slot takes of its devices.
    takes: tuple[dict[str, int], ...]
    #: The free ones, those that have been free for longest first.
    free: dict[int, None]
    #: How many hold each of the others: one, but for what a restored store is told of.
    holders: dict[int, int]

    def in_order(self) -> Iterator[int]:
        """The free slots, the next to be given first."""
        return iter(self.free) if self.order == "rotate" else reversed(self.free)

    def take(self, allocation: Allocation) -> None:
        """Count the slot of an allocation as taken."""
        for index in slots_in(allocation):
            self.free.pop(index, None)
            self.holders[index] = self.holders.get(index, 0) + 1

    def give(self, allocation: Allocation) -> None:
        """Count the slot of an allocation as free again."""
        for index in slots_in(allocation):
            left = self.holders.pop(index, 0) - 1
            if left > 0:
                self.holders[index] = left
            elif index < len(self.slots):
                # One beyond the end was taken when there were more.
                self.free[index] = None

    def copy(self) -> SlotSet:
        """A scratch copy to plan on."""
        return SlotSet(self.slots, self.order, self.takes, dict(self.free), dict(self.holders))

    def emptied(self) -> SlotSet:
        """The same slots as if nobody had ever taken one."""
        return SlotSet(self.slots, self.order, self.takes, dict.fromkeys(range(len(self.slots))), {})

    def allocation(self, index: int) -> Allocation:
        """What an attempt in a slot holds."""
        held: Allocation = {SLOT: {str(index): ONE}}
        if self.takes[index]:
            held[SLOTS_OF] = dict(self.takes[index])
        return held


def slot_set_of(
    slots: tuple[Slot, ...], order: SlotOrder, devices: Supply | None, before: SlotSet | None = None
) -> SlotSet:
    """A rack whose slots are all free, in the order in which they were free before if they are the same."""
    whole = {device.id: device.worth for device in devices.devices} if isinstance(devices, Devices) else {}
    share = parts(slots)
    takes = tuple({id_: max(1, whole.get(id_, ONE) * share[id_] // ONE) for id_ in slot.ids} for slot in slots)
    known = before.free if before is not None and before.slots == slots else {}
    return SlotSet(slots, order, takes, {**known, **dict.fromkeys(range(len(slots)))}, {})


def slots_in(allocation: Allocation) -> list[int]:
    """The places in the list of the slots that an allocation holds: one, or none."""
    held = allocation.get(SLOT)
    if not isinstance(held, dict):
        return []
    # A worker may tell of what a restored store has forgotten: what it says is read with care.
    return [int(index) for index in held if _INDEX.fullmatch(index)]
