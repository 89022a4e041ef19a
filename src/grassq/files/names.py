"""Names of files from outside: which ones may be used, and how they are shown to people."""

from __future__ import annotations

from grassq.core import names
from grassq.errors import BadInput

#: The longest path below the folder of a tree, in bytes: the folder's own path needs room too (the kernel allows 4096).
PATH_BYTES_MAX = 2048
#: The longest part of a path; most file systems allow no longer one.
NAME_BYTES_MAX = 255
#: The longest target of a link, as in the kernel.
TARGET_BYTES_MAX = 4095
#: How deep folders may lie in each other.
DEPTH_MAX = 128


def shown(path: bytes) -> str:
    """Quote a path for a message: on one line, and without control characters."""
    return names.shown(path, PATH_BYTES_MAX)


def check_path(path: bytes) -> None:
    """Refuse a path that could lie outside of the folder it is for, or that no file system takes."""
    problem = _problem(path)
    if problem:
        raise BadInput(f"the name {shown(path)} {problem}: rename it")


def _problem(path: bytes) -> str | None:
    """Say what is wrong with a path, or return None."""
    if len(path) > PATH_BYTES_MAX:
        return f"is longer than {PATH_BYTES_MAX:,} bytes"
    if b"\0" in path:
        return "has a null byte"
    parts = path.split(b"/")
    if len(parts) > DEPTH_MAX:
        return f"lies deeper than {DEPTH_MAX} folders"
    for part in parts:
        if part in (b"", b".", b".."):
            return "is absolute, or has an empty part, '.' or '..'"
        if len(part) > NAME_BYTES_MAX:
            return f"has a part of more than {NAME_BYTES_MAX} bytes"
    return None
