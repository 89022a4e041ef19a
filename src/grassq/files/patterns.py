"""What is fetched: globs over the files below a folder, relative to it.

`out.txt`, `models/*.pt` and `**/*.log` name files; the name of a folder, with or without a slash at its end, means
everything in it. `.` means everything.
"""

from __future__ import annotations

import re

from grassq.errors import BadInput
from grassq.files import globs
from grassq.files.names import PATH_BYTES_MAX, shown

#: How many patterns one job may have.
PATTERNS_MAX = 200

_SPECIAL = re.compile(rb"[*?\[\\]")


class Patterns:
    """Says which paths are wanted, and below which folders they lie."""

    def __init__(self, patterns: tuple[bytes, ...]) -> None:
        if len(patterns) > PATTERNS_MAX:
            raise BadInput(f"more than {PATTERNS_MAX} patterns of files to fetch: use `*` or `**`, or name a folder")
        cleaned = [_clean(pattern) for pattern in patterns]
        self._regexes = [globs.regex(each) for each in cleaned]
        #: The paths that a search may begin at: everything wanted is one of them or lies below one; b"." is the root.
        self.starts = tuple(sorted(_outermost({_start(each) for each in cleaned})))

    def match(self, path: bytes) -> bool:
        """Tell whether a path is wanted: the path itself, or a folder that it lies in, matches a pattern."""
        while path:
            if any(regex.fullmatch(path) for regex in self._regexes):
                return True
            path = path.rpartition(b"/")[0]
        return False


def _clean(pattern: bytes) -> bytes:
    """Return a pattern without what means nothing: `./a//b/` is `a/b`."""
    if pattern.startswith(b"/"):
        raise BadInput(f"the pattern {shown(pattern)} is absolute: write it relative to the job's folder")
    parts = [part for part in pattern.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise BadInput(f"the pattern {shown(pattern)} leaves the job's folder: write it without '..'")
    if b"\0" in pattern or len(pattern) > PATH_BYTES_MAX or not pattern:
        raise BadInput(f"the pattern {shown(pattern)} is empty, too long, or has a null byte")
    return b"/".join(parts) or b"**"


def _start(pattern: bytes) -> bytes:
    """Return the part of a pattern before its first glob."""
    plain = []
    for part in pattern.split(b"/"):
        if _SPECIAL.search(part):
            break
        plain.append(part)
    return b"/".join(plain) or b"."


def _outermost(starts: set[bytes]) -> set[bytes]:
    if b"." in starts:
        return {b"."}
    return {each for each in starts if not any(each.startswith(other + b"/") for other in starts)}
