"""The files of a suspension in the run dir: `suspend`, the worker's order, and `suspended`, the shim's answer.

Both are {"v", "number", "stop"}: the number of the order, and whether the processes are to be stopped or to run. An
order with a lower number than an earlier one is outdated. Written aside and renamed, like every file of a run dir.
"""

from __future__ import annotations

import os

from grassq import atomic_files

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    # The number of an order, and whether it says to stop.
    SuspendWord = tuple[int, bool]

ORDER, DONE = "suspend", "suspended"
LIMIT = 4096
NUMBER_MAX = 1 << 53
_FORMAT = 1  # that of `rundir`, which imports this module


class SuspensionNotes:
    """What a run dir says of a suspension."""

    def __init__(self, order: SuspendWord | None = None, done: SuspendWord | None = None) -> None:
        self.able = False  # the shim that has claimed the attempt can suspend it
        self.order = order  # the newest order of the worker
        self.done = done  # what the shim has done

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuspensionNotes) and vars(self) == vars(other)


def read_notes(path: str) -> SuspensionNotes:
    """Return what a run dir says; OSError if it cannot be read now."""
    return SuspensionNotes(read(path, ORDER), read(path, DONE))


def read(path: str, name: str) -> SuspendWord | None:
    """Return one of the two files; None if it is not there, or is damaged."""
    if not os.access(f"{path}/{name}", os.F_OK):
        return None  # nearly always, and quicker than a read that fails
    return parse(atomic_files.read(f"{path}/{name}", LIMIT) or b"")


def write(path: str, name: str, number: int, stop: bool) -> None:
    """Write one of the two files."""
    atomic_files.write_aside(path, name, line(number, stop), sync=False)


def line(number: int, stop: bool) -> bytes:
    """Return the contents of one of the two files."""
    return atomic_files.line({"v": _FORMAT, "number": number, "stop": stop})


def parse(data: bytes) -> SuspendWord | None:
    """Return what the contents of one of the two files say; None if they are damaged."""
    found = atomic_files.parse(data) or {}
    number, stop = found.get("number"), found.get("stop")
    if type(number) is not int or type(stop) is not bool or not 0 < number <= NUMBER_MAX:
        return None
    return (number, stop) if found.get("v") == _FORMAT else None
