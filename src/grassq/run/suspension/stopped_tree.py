"""The shim's side of a suspension: stop every process of the attempt, or let all of them go on."""

from __future__ import annotations

import contextlib
import time

from grassq.run import processes
from grassq.run.suspension import notes

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Seconds until a tree is looked at again that forks on, or that the kernel holds up: at first, and at most.
PAUSE_MIN_S, PAUSE_MAX_S = 0.01, 1.0


class StoppedTree:
    """The suspension of the attempt that a shim runs. A kill comes first: `press` is not called after it."""

    __slots__ = ("_done", "_ids", "_number", "_path", "_pause_s", "_since", "_stop", "_total_s")

    def __init__(self, path: str, ids: dict[str, Any]) -> None:
        """`ids` name the attempt in reports."""
        self._path = path
        self._ids = ids
        self._number = 0
        self._stop = False
        self._done = True
        self._pause_s = PAUSE_MIN_S
        self._since: float | None = None
        self._total_s = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether the attempt is stopped now."""
        return self._since is not None

    def seconds(self) -> float:
        """Return for how many seconds the attempt has been stopped so far, on the monotonic clock."""
        return self._total_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def look(self) -> None:
        """Take over the order in the run dir, also one that was done before; OSError if it cannot be read now."""
        found = notes.read(self._path, notes.ORDER)
        if found is not None and found[0] >= self._number:
            self._number, self._stop = found
            self._done, self._pause_s = False, PAUSE_MIN_S

    def press(
        self, root: int, is_kept: Callable[[int], bool], report: Callable[[dict[str, Any]], None]
    ) -> float | None:
        """Do what is ordered with everything below `root`; return seconds until the next try, None if it is done."""
        if self._done:
            return None
        try:
            if self._stop:
                self._done = processes.stop_descendants(root, is_kept)
            else:
                processes.continue_descendants(root, is_kept)
                self._done = True
        except OSError:
            self._done = False  # no descriptor or no memory for a look at the process table
        if not self._done:
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_MAX_S)
            return pause_s
        self._count()
        # On a full disk the report has to do; the order is given again until it was heard.
        with contextlib.suppress(OSError):
            notes.write(self._path, notes.DONE, self._number, self._stop)
        report({"event": "suspended", **self._ids, "number": self._number, "stop": self._stop})
        return None

    def _count(self) -> None:
        now = time.monotonic()
        if self._stop:
            self._since = now if self._since is None else self._since
        elif self._since is not None:
            self._total_s += now - self._since
            self._since = None
