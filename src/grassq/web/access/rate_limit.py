"""A limit of events in each minute."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """Lets `most` events through in each minute, and counts the others."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._now = now
        self._minute = 0
        self._count = 0

    def take(self) -> int | None:
        """Return how many events were left out before this one; None if this one is left out too."""
        minute, missed = int(self._now() // 60), 0
        if minute != self._minute:
            missed = max(0, self._count - self._most)
            self._minute, self._count = minute, 0
        self._count += 1
        return missed if self._count <= self._most else None
