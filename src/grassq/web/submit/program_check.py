"""Looks for a job's program and directory before it is stored, without making the event loop wait for a disk."""

# Paths of jobs are bytes, which pathlib does not take.
# ruff: noqa: PTH112

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from grassq.core.names import shown
from grassq.errors import BadInput
from grassq.run import which

#: How long a found program or directory counts without another look: a thousand jobs have one program and one
#: directory.
SEEN_S = 1.0
#: Entries of the cache at most; then all of them are dropped.
SEEN_MAX = 1024
#: The end of a path is what tells it from others.
PATH_SHOWN = 4096

#: A program, the PATH and the directory; without a program, the directory alone.
Key = tuple[bytes, bytes | None, bytes]


class ProgramCheck:
    """Finds programs and directories; what it found counts for SEEN_S seconds without another look at the disk."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, cache: dict[Key, float] | None = None) -> None:
        """With a cache to share, answer from the cache alone: take the unknown to be there, and keep the question."""
        self._now = now
        self._seen: dict[Key, float] = {} if cache is None else cache
        self._may_look = cache is None
        self.unknown: list[tuple[Key, Callable[[], bool]]] = []

    def cached(self) -> ProgramCheck:
        """Return a check that shares the cache and never looks at a disk."""
        return ProgramCheck(self._now, cache=self._seen)

    def confirm(self, cached: ProgramCheck) -> bool:
        """Look for what a cached check did not know; say whether all of it is there."""
        return all([self._has(key, look) for key, look in cached.unknown])

    def is_program(self, word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bool:
        """Say whether a word names a program to a job with this environment and directory."""
        return self._has((word, env.get(b"PATH"), cwd), lambda: which.find(word, env, cwd) is not None)

    def check_directory(self, cwd: bytes) -> None:
        """Refuse a directory that is not there or cannot be entered."""
        if self._has((b"", None, cwd), lambda: os.path.isdir(cwd) and os.access(cwd, os.X_OK)):
            return
        if os.path.isdir(cwd):
            raise BadInput(f"the directory {shown(cwd, PATH_SHOWN)} cannot be entered; --cwd chooses another")
        raise BadInput(f"there is no directory {shown(cwd, PATH_SHOWN)} to run in; --cwd chooses another")

    def _has(self, key: Key, look: Callable[[], bool]) -> bool:
        if self._seen.get(key, 0.0) >= self._now():
            return True
        if not self._may_look:
            self.unknown.append((key, look))
            return True
        found = look()
        if found:  # what is missing is not kept: it may be made in the next moment
            if len(self._seen) >= SEEN_MAX:
                self._seen.clear()
            self._seen[key] = self._now() + SEEN_S
        return found
