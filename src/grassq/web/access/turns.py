"""Turns: how many things each caller may do at once."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class CallerTurns:
    """Lets every caller do some things at once; what is more waits, in the order in which it came."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        #: Only of callers that do something, or wait to.
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, caller: str) -> asyncio.Semaphore:
        """Return the turns of one caller; use them with `async with`."""
        return self._own.setdefault(caller, asyncio.Semaphore(self._at_once))
