"""File descriptors. Loaded by every call of the command line, so it needs `os` and `sys` only."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Open /dev/null as each of the descriptors 0-2 that is closed: else a socket or a file would get that number."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
