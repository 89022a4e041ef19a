"""Points with a size and an order, asked for the first that is small enough: a range tree in flat arrays.

A point has k amounts and an order. The question is always the same: of the points whose every amount is at most what
is free, which has the least order? In one dimension that is easy: sort the points by their amount, and the points that
fit are a prefix. Keep the least order of every 16 neighbours, of every 256, and so on (`Level.least`), and the least of
any prefix is found in log n looks.

In two dimensions sort by the first amount: the points that fit are a prefix again, and a prefix is cut into few runs
whose lengths are powers of two, one for each bit of its length. For each such run there is a copy of its points sorted
by the second amount, where the question has one dimension less. What is left of the prefix after the last whole run is
less than a leaf, and is looked at point by point. Each further dimension repeats this once more.

Four facts keep the tree small (a textbook's tree needs n log^(k-1) n cells of some forty bytes):

- A prefix uses only runs with an even number (the bits that are set), so half of all runs are never built.
- A point is known by its position in the order of the last amount. A cell holds this position in four bytes, and a run
  in the order of the last amount is a run of increasing numbers.
- All runs of one length lie in one array, a `Level`: the run's number tells where. There is no object for a run.
- Runs shorter than a leaf are not built. A leaf is 32 points, and more where the cells would not fit into `CELLS_MAX`.

Points are never added or removed, only their orders change: a removed point stays with the order GONE. build.py builds
the trees.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from heapq import heappush

#: The order of a removed point: after all others.
GONE = 2**63 - 1
#: How many neighbours share one least order.
FAN_BITS = 4
FAN = 1 << FAN_BITS
LEAF_BITS_MIN = 5
#: Cells a point may have besides those of the first level. With 4.6 bytes a cell, and 80 bytes for four amounts and
#: the rest of a point, a point takes less than 350 bytes.
CELLS_MAX = 52

#: What a search has still to look at, least order first: (least, tree, level, depth, start, stop, positions).
#: Depth RUN is a run to be opened; any other depth is a slice of that depth of `least` (0: of the cells).
#: An entry without a level (LOOSE) lists single positions.
Entry = tuple[int, int, int, int, int, int, list[int]]
RUN = -1
LOOSE = -1


class Level:
    """All runs of one length in the order of one dimension, end to end."""

    __slots__ = ("bits", "cells", "children", "depth", "least", "number")

    def __init__(self, number: int, depth: int, bits: int, cells: array[int]) -> None:
        self.number = number
        self.depth = depth
        #: A run has 2**bits cells; the first level is one run of any length.
        self.bits = bits
        self.cells = cells
        #: The least order of each 16 cells, of each 256, and so on.
        self.least: list[array[int]] = []
        #: The same points in the order of the next dimension, by the length of the runs.
        self.children: list[Level] = []

    def least_of_run(self, start: int) -> int:
        """Return the least order in the run that starts there."""
        level = self.bits // FAN_BITS
        shift = level * FAN_BITS
        return min(self.least[level - 1][start >> shift : (start + (1 << self.bits)) >> shift])

    def renew(self, at: int, before: int, order: int, orders: array[int]) -> None:
        """Note that the order of a cell has changed."""
        for level, least in enumerate(self.least):
            at >>= FAN_BITS
            known = least[at]
            if order < known:
                least[at] = order
            elif before == known:
                least[at] = self.least_of(level, at << FAN_BITS, (at + 1) << FAN_BITS, orders)
            else:
                return

    def least_of(self, level: int, start: int, stop: int, orders: array[int]) -> int:
        """Return the least order in a slice of the cells (depth 0) or of the minima of a depth."""
        if level:
            return min(self.least[level - 1][start:stop])
        return min(map(orders.__getitem__, self.cells[start:stop]))


class Tree:
    """Many points that stay where they are; only their orders change."""

    __slots__ = ("_last", "by_key", "columns", "keys", "leaf", "live", "orders", "ranks", "sheets", "touched")

    def __init__(self, columns: list[array[int]], keys: array[int], orders: array[int]) -> None:
        # All by position.
        self.columns = columns
        self.keys = keys
        self.orders = orders
        #: Positions in the order of their keys.
        self.by_key = array("I")
        #: By dimension, except the last: the rank of a position in the order of that amount.
        self.ranks: list[array[int]] = []
        self.sheets: list[Level] = []
        self.live = len(keys)
        #: The keys changed since this tree began to be joined into another one.
        self.touched: set[int] | None = None
        self._last = len(columns) - 1
        #: A leaf has 2**leaf points.
        self.leaf = leaf_bits(len(keys), len(columns))

    @property
    def least(self) -> int:
        """Return the least order of all."""
        return self.sheets[0].least[-1][0]

    def find(self, key: int) -> int:
        """Return the position of a key, or -1."""
        at = bisect_left(self.by_key, key, key=self.keys.__getitem__)
        if at < len(self.by_key) and self.keys[place := self.by_key[at]] == key:
            return place
        return -1

    def has(self, place: int, amounts: Sequence[int]) -> bool:
        """Tell whether the point there has these amounts."""
        return all(column[place] == amount for column, amount in zip(self.columns, amounts, strict=True))

    def set(self, place: int, order: int) -> None:
        """Change the order of a point; GONE removes it."""
        before = self.orders[place]
        self.orders[place] = order
        self.live += (before == GONE) - (order == GONE)
        self._renew(self.sheets[0], 0, len(self.orders), place, before)
        if self.touched is not None:
            self.touched.add(self.keys[place])

    def _renew(self, sheet: Level, start: int, stop: int, place: int, before: int) -> None:
        if sheet.depth == self._last:
            at = bisect_left(sheet.cells, place, start, stop)
        else:
            rank = self.ranks[sheet.depth]
            at = bisect_left(sheet.cells, rank[place], start, stop, key=rank.__getitem__)
        sheet.renew(at, before, self.orders[place], self.orders)
        for child in sheet.children:
            run = (at - start) >> child.bits
            if not run & 1 and (run + 1) << child.bits <= stop - start:
                begin = (start >> 1) + (run >> 1 << child.bits)
                self._renew(child, begin, begin + (1 << child.bits), place, before)

    def edge(self, free: Sequence[int]) -> int:
        """Return how many positions fit by the last amount."""
        return bisect_right(self.columns[-1], free[-1])

    def open(self, heap: list[Entry], entry: Entry, free: Sequence[int], edge: int) -> int:
        """Replace a run by its parts that fit; return how many cells were looked at."""
        _, me, number, _, start, stop, _ = entry
        sheet = self.sheets[number]
        seen = (stop - start).bit_length()
        if sheet.depth == self._last:
            return seen + self._prefix(heap, me, sheet, start, bisect_left(sheet.cells, edge, start, stop))
        column = self.columns[sheet.depth]
        fits = bisect_right(sheet.cells, free[sheet.depth], start, stop, key=column.__getitem__) - start
        whole = fits >> self.leaf << self.leaf
        if whole == 1 << sheet.bits:
            # The run as a whole has no copy of its own, so its last leaf is searched point by point.
            whole -= 1 << self.leaf
        at = 0
        for child in reversed(sheet.children):
            if whole >> child.bits & 1:
                begin = (start >> 1) + (at >> 1)
                seen += 1 << child.bits % FAN_BITS
                if (least := child.least_of_run(begin)) != GONE:
                    heappush(heap, (least, me, child.number, RUN, begin, begin + (1 << child.bits), []))
                at += 1 << child.bits
        loose = sheet.cells[start + whole : start + fits]
        return seen + self._loose(heap, me, sheet.depth, loose, free, edge)

    def _prefix(self, heap: list[Entry], me: int, sheet: Level, start: int, stop: int) -> int:
        """Cut a prefix of a run into slices of the cells and of the minima above them."""
        seen = level = 0
        while start < stop:
            cut = stop >> FAN_BITS << FAN_BITS if stop - start > FAN else start
            if cut < stop:
                seen += stop - cut
                if (least := sheet.least_of(level, cut, stop, self.orders)) != GONE:
                    heappush(heap, (least, me, sheet.number, level, cut, stop, []))
            if cut == start:
                break
            start, stop, level = start >> FAN_BITS, cut >> FAN_BITS, level + 1
        return seen

    def _loose(self, heap: list[Entry], me: int, depth: int, places: array[int], free: Sequence[int], edge: int) -> int:
        """Look at the positions of a leaf one by one."""
        found = list(places)
        seen = len(found)
        found = [place for place in found if place < edge]
        for column, most in zip(self.columns[depth + 1 : -1], free[depth + 1 : -1], strict=True):
            seen += len(found)
            found = [place for place in found if column[place] <= most]
        self._push_loose(heap, me, found)
        return seen

    def _push_loose(self, heap: list[Entry], me: int, found: list[int]) -> None:
        if found and (least := min(map(self.orders.__getitem__, found))) != GONE:
            heappush(heap, (least, me, LOOSE, 0, 0, 0, found))

    def locate(self, entry: Entry) -> tuple[int, int]:
        """Return the position with the least order of an entry that is no run, and how many cells were looked at."""
        order, _, number, level, start, stop, places = entry
        if number != LOOSE:
            sheet = self.sheets[number]
            for minima in reversed(sheet.least[:level]):
                start = minima.index(order, start, stop) << FAN_BITS
                stop = start + FAN
            places = list(sheet.cells[start:stop])
        place = places[list(map(self.orders.__getitem__, places)).index(order)]
        return place, level * FAN + len(places)

    def rest(self, heap: list[Entry], entry: Entry, place: int) -> int:
        """Put back what an entry holds besides the position that was just returned."""
        order, me, number, level, start, stop, places = entry
        if number == LOOSE:
            self._push_loose(heap, me, [each for each in places if each != place])
            return len(places)
        sheet = self.sheets[number]
        seen = 0
        while True:
            values = sheet.least[level - 1] if level else None
            at = values.index(order, start, stop) if values is not None else sheet.cells.index(place, start, stop)
            for low, high in ((start, at), (at + 1, stop)):
                if low < high and (least := sheet.least_of(level, low, high, self.orders)) != GONE:
                    heappush(heap, (least, me, number, level, low, high, []))
            seen += stop - start
            if not level:
                return seen
            level, start, stop = level - 1, at << FAN_BITS, min((at + 1) << FAN_BITS, len(sheet.cells))


@cache
def cells_each(levels: int, depth: int) -> float:
    """Return how many cells a point has in the levels below a level whose runs can be halved this often."""
    return sum(0.5 + 0.5 * cells_each(level, depth - 1) for level in range(levels)) if depth else 0.0


def leaf_bits(count: int, dims: int) -> int:
    """Return the smallest leaf with which the points stay within `CELLS_MAX` cells."""
    bits = LEAF_BITS_MIN
    while cells_each(max(count.bit_length() - bits, 0), dims - 1) > CELLS_MAX:
        bits += 1
    return bits
