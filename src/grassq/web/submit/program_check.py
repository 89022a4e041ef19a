"""Looking for a job's program and directory before it is stored, without making the event loop wait for a disk."""

# Paths of jobs are bytes, which pathlib does not take.
# ruff: noqa: PTH112

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from grassq.core.names import shown
from grassq.errors import BadInput
from grassq.run import which

#: How long what was found counts without another look; who submits a thousand jobs has one program and one directory.
SEEN_S = 1.0
#: What is remembered at most; then all of it is forgotten.
SEEN_MAX = 1024
#: The end of a path is what tells it from others.
PATH_SHOWN = 4096

Key = tuple[bytes, bytes | None, bytes]


class NotCached(Exception):
    """It was not looked at lately: look, but on another thread, for a disk or a network may keep us waiting."""


class ProgramCheck(Protocol):
    """Finds programs and directories."""

    def is_program(self, word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bool:
        """Whether a word names a program to a job with this environment and directory."""

    def check_directory(self, cwd: bytes) -> None:
        """Refuse a directory that no job can run in."""


class CachedCheck:
    """What was found a moment ago, and nothing else."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[Key, float] = {}

    def is_program(self, word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bool:
        """Whether it is known to be a program; Unseen if nothing is known."""
        return self._recall((word, env.get(b"PATH"), cwd))

    def check_directory(self, cwd: bytes) -> None:
        """Nothing, if the directory is known to be there; else Unseen."""
        self._recall((b"", None, cwd))

    def _recall(self, key: Key) -> bool:
        if self._seen.get(key, 0.0) < self._now():
            raise NotCached
        return True

    def keep(self, key: Key) -> None:
        """This was found just now. What is missing is not kept: it may be made in the next moment."""
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen[key] = self._now() + SEEN_S


class DiskCheck:
    """Looks at the disk, and remembers what it found."""

    def __init__(self, memory: CachedCheck | None = None) -> None:
        self._memory = memory or CachedCheck()

    def is_program(self, word: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> bool:
        """Whether a word names a program, on the job's PATH or in its directory."""
        found = which.find(word, env, cwd) is not None
        if found:
            self._memory.keep((word, env.get(b"PATH"), cwd))
        return found

    def check_directory(self, cwd: bytes) -> None:
        """Refuse a directory that is not there or cannot be entered."""
        if not os.path.isdir(cwd):
            raise BadInput(f"there is no directory {shown(cwd, PATH_SHOWN)} to run in; --cwd chooses another")
        if not os.access(cwd, os.X_OK):
            raise BadInput(f"the directory {shown(cwd, PATH_SHOWN)} cannot be entered; --cwd chooses another")
        self._memory.keep((b"", None, cwd))
