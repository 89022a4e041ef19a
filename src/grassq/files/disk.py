"""What the disk has, and when."""

from __future__ import annotations

import ctypes
import os


def sync(folder: int) -> None:
    """Have everything on the disk that was written to the file system of a folder, given by its descriptor.

    One call for thousands of files; `os.fsync` for each would take minutes.
    """
    if ctypes.CDLL(None, use_errno=True).syncfs(folder) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
