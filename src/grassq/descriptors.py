"""File descriptors. Every command loads it, so it imports `os` and `sys` only."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Open /dev/null as each closed descriptor among 0-2; otherwise a socket or a file would get the number."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of `data`."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            from select import select

            # Another program has made this descriptor non-blocking.
            select([], [descriptor], [])
