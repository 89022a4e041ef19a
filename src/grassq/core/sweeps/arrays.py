"""The indexes of an array: `0-99`, `0-99:2`, `1,3,5-9`, each with `%8` behind it for at most 8 at once."""

from __future__ import annotations

import re
from itertools import chain

from msgspec import Struct

from grassq.core.names import shown
from grassq.errors import BadInput

#: The jobs of one array, and its largest index.
TASKS_MAX = 100_000
INDEX_MAX = 999_999_999
#: The parts of a list of indexes.
PARTS_MAX = 10_000

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
#: A range as -p of `grass sweep` has it.
_OTHER_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_AT_ONCE = re.compile(r"[0-9]{1,6}")


class TaskArray(Struct, frozen=True):
    """The indexes of the jobs of an array, ascending, and how many of the jobs may run at once."""

    indexes: tuple[int, ...]
    at_once: int | None = None

    @property
    def span(self) -> tuple[int, int, int]:
        """How many indexes there are, the smallest and the largest."""
        return len(self.indexes), self.indexes[0], self.indexes[-1]


def read_array(text: str) -> TaskArray:
    """Read the indexes of an array; raise BadInput for no index, more than TASKS_MAX, and for what is no list."""
    listed, percent, most = text.partition("%")
    if percent and (not _AT_ONCE.fullmatch(most) or not 1 <= int(most) <= TASKS_MAX):
        raise BadInput(f"--array {shown(text)}: behind % is how many run at once, from 1 to {TASKS_MAX:,}")
    parts = listed.split(",")
    if len(parts) > PARTS_MAX:
        raise BadInput(f"--array lists at most {PARTS_MAX:,} indexes or ranges, not {len(parts):,}")
    ranges = [_part(part, text) for part in parts]
    if sum(map(len, ranges)) > TASKS_MAX:
        raise BadInput(f"--array {shown(text)} has more than {TASKS_MAX:,} jobs, the most of one array")
    indexes = tuple(sorted(set(chain.from_iterable(ranges))))
    return TaskArray(indexes, int(most) if percent else None)


def _part(part: str, text: str) -> range:
    match = _PART.fullmatch(part)
    if match is None and (other := _OTHER_RANGE.fullmatch(part)):
        raise BadInput(f"--array {shown(text)}: write {other[1]}-{other[2]} for {part}")
    if match is None:
        raise BadInput(f"--array {shown(text)}: {shown(part)} is not an index; write 0-99, 0-99:2, 1,3,5-9 or 0-99%8")
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if last < first:
        raise BadInput(f"--array {shown(text)}: the range {shown(part)} is backwards; write {last}-{first}")
    step = 1 if match[3] is None else int(match[3])
    if step < 1:
        raise BadInput(f"--array {shown(text)}: the step of {shown(part)} must be 1 or more")
    return range(first, last + 1, step)
