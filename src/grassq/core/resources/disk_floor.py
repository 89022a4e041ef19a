"""The floor of a disk: with less free space than this, a worker starts no new job."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.model import DiskShortage
from grassq.core.names import shown
from grassq.core.resources.amounts import size_bytes
from grassq.errors import BadInput

#: The floor when none is set: the smaller of these two, so that neither a large nor a tiny disk lies idle needlessly.
AUTO = "auto"
AUTO_BYTES = 1 << 30
AUTO_PART = 0.01
#: A worker starts jobs again when this much more than the floor is free, so that it does not go to and fro.
ROOM = 1.1
#: A change of the free space is told when it is this part of the floor.
STEP = 0.1


class DiskFloor(Struct, frozen=True):
    """How much of a disk stays free: bytes, and a part of the disk; of both the smaller."""

    bytes: int | None = None
    part: float | None = None

    def of(self, total: int) -> int:
        """Return the floor of a disk of this size, in bytes; 0 for none."""
        found = [] if self.bytes is None else [self.bytes]
        found += [] if self.part is None else [int(self.part * total)]
        return min(found, default=0)


def parse_floor(text: str) -> DiskFloor:
    """Read the setting: `auto`, a size such as 5G, a part such as 2%, or 0 or `none` for no floor."""
    word = text.strip().lower()
    if word == AUTO:
        return DiskFloor(AUTO_BYTES, AUTO_PART)
    if word in ("", "0", "none"):
        return DiskFloor()
    if word.endswith("%"):
        number = word[:-1].strip()
        if number.replace(".", "", 1).isdecimal() and number.isascii() and float(number) < 100:
            return DiskFloor(part=float(number) / 100)
        raise BadInput(f"the setting disk_floor needs a part below 100%, not {shown(text)}")
    return DiskFloor(size_bytes(text, "the setting disk_floor", "5G, or 2%, auto or none"))


def shortage(floor: DiskFloor, path: str, free: int, total: int, before: DiskShortage | None) -> DiskShortage | None:
    """Return that a disk is short of space, as it is told to people; `before` itself if hardly anything has changed."""
    least = floor.of(total)
    if free >= (least if before is None else least * ROOM):
        return None
    if before is not None and before.floor == least and abs(before.free - free) < STEP * least:
        return before
    return DiskShortage(path, free, least)
