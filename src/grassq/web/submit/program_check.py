"""Looks for a job's program and directory before the job is stored, without blocking the event loop on a disk."""

# Paths of jobs are bytes, which pathlib does not accept.
# ruff: noqa: PTH112

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from grassq.core.names import shown
from grassq.errors import BadInput
from grassq.run import which

#: Seconds for which a found program or directory is not looked for again: a thousand jobs share one program and one
#: directory.
SEEN_S = 1.0
#: The most entries of the cache; when it is full, all of them are dropped.
SEEN_MAX = 1024
#: Characters of a path in a message: its end tells it from others.
PATH_SHOWN = 4096

#: (program, PATH, directory); without a program, the directory alone.
Key = tuple[bytes, bytes | None, bytes]


class ProgramCheck:
    """Finds programs and directories; a find counts for SEEN_S seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, cache: dict[Key, float] | None = None) -> None:
        """Check the disk; with a `cache`, never check the disk: assume that unknown paths exist, and collect them."""
        self._now = now
        self._seen: dict[Key, float] = {} if cache is None else cache
        self._may_look = cache is None
        self.unknown: list[tuple[Key, Callable[[], bool]]] = []

    def cached(self) -> ProgramCheck:
        """Return a check that shares the cache and never reads a disk."""
        return ProgramCheck(self._now, cache=self._seen)

    def confirm(self, cached: ProgramCheck) -> bool:
        """Look for what a cached check did not know; tell whether all of it exists."""
        return all([self._has(key, look) for key, look in cached.unknown])

    def is_program(self, word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bool:
        """Tell whether a word names a program to a job with this environment and directory."""
        return self._has((word, env.get(b"PATH"), cwd), lambda: which.find(word, env, cwd) is not None)

    def check_directory(self, cwd: bytes) -> None:
        """Raise BadInput if a directory does not exist or cannot be entered."""
        if self._has((b"", None, cwd), lambda: os.path.isdir(cwd) and os.access(cwd, os.X_OK)):
            return
        if os.path.isdir(cwd):
            raise BadInput(f"the directory {shown(cwd, PATH_SHOWN)} cannot be entered; --cwd chooses another")
        raise BadInput(f"there is no directory {shown(cwd, PATH_SHOWN)} to run in; --cwd chooses another")

    def check_sent(self, folder: bytes) -> None:
        """Raise BadInput if a folder to send does not exist or cannot be read."""
        if self._has((b"--send", None, folder), lambda: os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)):
            return
        where = shown(folder, PATH_SHOWN)
        if os.path.isdir(folder):
            raise BadInput(f"the folder {where} of --send cannot be read")
        is_there = os.path.lexists(folder)
        raise BadInput(
            f"--send takes a folder, and {where} is none" if is_there else f"there is no folder {where} to send"
        )

    def _has(self, key: Key, look: Callable[[], bool]) -> bool:
        if self._seen.get(key, 0.0) >= self._now():
            return True
        if not self._may_look:
            self.unknown.append((key, look))
            return True
        found = look()
        if found:  # not cached if missing: it may be made in the next moment
            if len(self._seen) >= SEEN_MAX:
                self._seen.clear()
            self._seen[key] = self._now() + SEEN_S
        return found
