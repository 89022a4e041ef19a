"""Queue positions in order, eight bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

#: A part longer than this is split in two, so that adding and removing move few bytes.
PART_MAX = 1024


class SortedOrders:
    """Sorted integers, each at most once."""

    __slots__ = ("_firsts", "_length", "_parts")

    def __init__(self, orders: Iterable[int] = ()) -> None:
        """Take over `orders`, which must be sorted."""
        whole = array("q", orders)
        size = PART_MAX // 2
        self._parts = [whole[at : at + size] for at in range(0, len(whole), size)] or [whole]
        #: The first number of each part except the first part: tells in which part a number lies.
        self._firsts = [part[0] for part in self._parts[1:]]
        self._length = len(whole)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._parts)

    def __contains__(self, order: object) -> bool:
        assert isinstance(order, int)
        part = self._parts[bisect_right(self._firsts, order)]
        at = bisect_left(part, order)
        return at < len(part) and part[at] == order

    @property
    def first(self) -> int:
        """Return the first position; IndexError if there is none."""
        return self._parts[0][0]

    @property
    def last(self) -> int:
        """Return the last position; IndexError if there is none."""
        return self._parts[-1][-1]

    def upto(self, most: int) -> list[int]:
        """Return the first positions, at most `most`."""
        return list(islice(self, most))

    def after(self, order: int) -> int | None:
        """Return the first position after `order`, whether `order` itself is there or not."""
        which = bisect_right(self._firsts, order)
        at = bisect_right(self._parts[which], order)
        if at < len(self._parts[which]):
            return self._parts[which][at]
        return self._parts[which + 1][0] if which + 1 < len(self._parts) else None

    def preceding(self, order: int) -> int | None:
        """Return the last position before `order`, whether `order` itself is there or not."""
        which = bisect_left(self._firsts, order)
        at = bisect_left(self._parts[which], order)
        if at:
            return self._parts[which][at - 1]
        # The first number of a part may have been removed since; no part is empty, unless it is the only one.
        return self._parts[which - 1][-1] if which else None

    def before(self, order: int) -> int:
        """Return how many positions come before `order`, whether `order` itself is there or not."""
        which = bisect_right(self._firsts, order)
        return sum(map(len, self._parts[:which])) + bisect_left(self._parts[which], order)

    def add(self, order: int) -> None:
        """Add one position."""
        which = bisect_right(self._firsts, order)
        part = self._parts[which]
        if not part or order > part[-1]:
            part.append(order)
        else:
            part.insert(bisect_left(part, order), order)
        self._length += 1
        if len(part) > PART_MAX:
            half = len(part) // 2
            self._parts[which : which + 1] = [part[:half], part[half:]]
            self._firsts.insert(which, part[half])

    def extend(self, orders: Sequence[int]) -> None:
        """Add sorted positions; appending many at the end costs next to nothing."""
        part = self._parts[-1]
        if len(orders) > PART_MAX and part and orders[0] <= part[-1]:
            whole = SortedOrders(sorted([*self, *orders]))
            self._parts, self._firsts, self._length = whole._parts, whole._firsts, whole._length
            return
        if len(orders) < 2 or (part and orders[0] <= part[-1]):
            for order in orders:
                self.add(order)
            return
        more = SortedOrders(orders)
        if not part:
            self._parts.pop()
            self._firsts = self._firsts[:-1]
        if self._parts:
            self._firsts.append(more.first)
        self._parts += more._parts
        self._firsts += more._firsts
        self._length += len(orders)

    def remove(self, order: int) -> None:
        """Remove one position; ValueError if it is not there."""
        which = bisect_right(self._firsts, order)
        part = self._parts[which]
        at = bisect_left(part, order)
        if at >= len(part) or part[at] != order:
            raise ValueError(f"{order} is not queued")
        del part[at]
        self._length -= 1
        if not part and len(self._parts) > 1:
            del self._parts[which], self._firsts[max(0, which - 1)]
