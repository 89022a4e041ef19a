"""The tasks of a job array: `0-15:4%4`, and ids such as `12_3` and `12_[1-3]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from grassq.core.names import shown
from grassq.errors import BadInput

#: The most tasks of one array, and the largest index, which is Slurm's.
TASKS_MAX = 10_000
INDEX_MAX = 4_000_000

_PART = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})(?::(?P<step>\d{1,9}))?)?")
_ID = re.compile(r"(?P<job>\d{1,15})(?:_(?:(?P<index>\d{1,9})|\[(?P<list>[^\]]*)\]|(?P<every>\*)))?(?:\.\w+)?")


class Array(NamedTuple):
    """The tasks of an array."""

    #: In increasing order.
    indices: tuple[int, ...]
    #: The most tasks that run at a time; None for any number.
    at_once: int | None
    step: int


class SlurmId(NamedTuple):
    """An id as Slurm writes it."""

    job: int
    #: The tasks of an array; None for the job, or the whole array.
    tasks: tuple[int, ...] | None


def read_array(text: str) -> Array:
    """Return the tasks of --array."""
    typed, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and int(limit) > 0):
        raise BadInput(f"invalid --array {shown(text)}: %N lets N tasks run at a time, at least one")
    indices = read_indices(typed, f"--array {shown(text)}")
    match = _PART.fullmatch(typed)
    step = int(match["step"]) if match is not None and match["step"] else 1
    return Array(indices, int(limit) if percent else None, step)


def read_indices(text: str, what: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 1,3,5-9:2, in increasing order."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadInput(f"invalid {what}: {shown(part)} is not an index; write 0-15, 0-15:4, 1,3,7 or 0-99%8")
        first, last, step = int(match["first"]), int(match["last"] or match["first"]), int(match["step"] or 1)
        if last < first or step < 1:
            raise BadInput(f"invalid {what}: {shown(part)} is an empty range")
        if last > INDEX_MAX:
            raise BadInput(f"invalid {what}: an index is at most {INDEX_MAX:,}")
        if (last - first) // step + 1 > TASKS_MAX - len(found):
            raise BadInput(f"invalid {what}: an array has at most {TASKS_MAX:,} tasks; submit it in parts")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def read_id(text: str) -> SlurmId:
    """Return the job and the tasks of an id; the step of `12.batch` is left out."""
    match = _ID.fullmatch(text)
    if match is None:
        raise BadInput(f"Invalid job id {shown(text)}")
    if match["list"] is not None:
        return SlurmId(int(match["job"]), read_indices(match["list"].partition("%")[0], f"job id {shown(text)}"))
    return SlurmId(int(match["job"]), None if match["index"] is None else (int(match["index"]),))


def index_ranges(indices: list[int]) -> str:
    """Return indices as Slurm lists them: 1,3-5."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)
