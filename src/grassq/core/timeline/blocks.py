"""Blocks of a timeline: a job, a lane, and from when to when."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.syntax.resource_names import CPU, SLOT, VRAM
from grassq.core.syntax.slots import device_order

#: Different allocations whose parts are remembered.
ALLOCATIONS_KEPT = 4096

BlockKind = Literal["past", "running", "planned"]


class LaneKey(Struct, frozen=True):
    """A device of a worker; without an id, what the worker has beside its devices."""

    worker: str
    resource: str
    id: str | None = None

    @property
    def order(self) -> tuple[str, bool, str, tuple[object, ...]]:
        """What lanes are sorted by: devices before the rest of a worker."""
        return self.worker, self.id is None, self.resource, () if self.id is None else tuple([device_order(self.id)])


class LaneBlock(Struct, frozen=True, gc=False):
    """One attempt on one lane."""

    job: int
    attempt: int
    kind: BlockKind
    state: str
    begin: float
    #: None while the attempt runs.
    end: float | None
    #: What the attempt holds of the lane.
    amount: float
    cause: str | None = None

    @property
    def is_failed(self) -> bool:
        """Whether the attempt failed."""
        return self.state == "failed"


class MergedBlock(Struct, frozen=True, gc=False):
    """Several attempts that are next to each other and too narrow to be drawn."""

    begin: float
    end: float
    count: int
    failed: int
    #: The part of the lane that was in use, on average.
    amount: float
    #: The smallest and the largest part held by a single attempt.
    least: float
    most: float


#: A resource, a device of it or None, and how much.
LanePart = tuple[str, str | None, float]


def parts_of(allocation: Allocation) -> tuple[LanePart, ...]:
    """Return the lanes an allocation is drawn on: one for each device, or one for a job without devices."""
    flat = tuple(
        (name, tuple(held.items()) if isinstance(held, dict) else held) for name, held in sorted(allocation.items())
    )
    return _parts(flat)


@lru_cache(ALLOCATIONS_KEPT)
def _parts(flat: tuple[tuple[str, tuple[tuple[str, int], ...] | int], ...]) -> tuple[LanePart, ...]:
    devices: list[LanePart] = [
        (name, id_, amount / ONE)
        for name, held in flat
        if not isinstance(held, int) and name not in (SLOT, VRAM)
        for id_, amount in held
    ]
    # A slot counts through the devices behind it, and memory is drawn with its device. Without a device, by the cpus.
    cpus = next((held / ONE for name, held in flat if name == CPU and isinstance(held, int)), 1.0)
    return tuple(devices) or ((CPU, None, cpus),)
