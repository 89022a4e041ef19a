"""A queue from which every caller is served in turn, however much one of them puts in."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several callers. Each `take` serves the next caller, and of one caller the oldest item first."""

    def __init__(self) -> None:
        #: The items of each caller that has some, in the order in which the callers are served.
        self._items: dict[str, deque[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, caller: str, item: T) -> None:
        """Add an item of a caller. A caller that had none is served after those that are here."""
        self._items.setdefault(caller, deque()).append(item)
        self._count += 1

    def take(self) -> T:
        """Remove and return the next item; raise IndexError if there is none."""
        if not self._items:
            raise IndexError("no item is in the queue")
        caller = next(iter(self._items))
        items = self._items.pop(caller)
        item = items.popleft()
        if items:
            self._items[caller] = items
        self._count -= 1
        return item

    def clear(self) -> None:
        """Remove every item."""
        self._items.clear()
        self._count = 0
