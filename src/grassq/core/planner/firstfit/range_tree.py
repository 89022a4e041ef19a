"""Points with a size and an order, asked for the soonest that is small enough: a range tree in flat arrays.

A point has k amounts and an order. The question is always the same: of the points whose every amount is at most what
is free, which has the least order? In one dimension that is easy: sort the points by their amount, and the points that
fit are a prefix. Keep the least order of every 16 neighbours, of every 256, and so on (`Sheet.least`), and the least of
any prefix is found in log n looks.

In two dimensions sort by the first amount: those that fit are a prefix again, and a prefix is cut into few runs whose
lengths are powers of two, one for each bit of its length. For each such run there is a copy of its points sorted by the
second amount, where the question has one dimension less. What is left of the prefix after the last whole run is less
than a leaf, and is looked at point by point. More dimensions do the same once more each.

What keeps that small (a textbook's tree would need n log^(k-1) n cells of some forty bytes):

- A prefix uses only runs with an even number (those are the bits that are set), so half of all runs are never built.
- A point is known by its place: its position by the last amount. A cell is a place, four bytes, and a run in the order
  of the last amount is a run in increasing numbers.
- All runs of one length lie in one array, a sheet: the run's number tells where. There is no object for a run.
- Runs shorter than a leaf are not built. A leaf is 32 points, and more where the cells would not fit into `CELLS_MAX`.

Points do not come or go, only orders change: a point that is taken away stays as a ghost of the order GONE. How trees
come to be is in `growing`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from heapq import heappush

#: The order of a point that was taken away: after all others.
GONE = 2**63 - 1
#: How many neighbours share one least order.
FAN_BITS = 4
FAN = 1 << FAN_BITS
LEAF_BITS_MIN = 5
#: Cells a point may have besides the first sheet's. At 4.6 bytes a cell, and 80 for four amounts and what else a point
#: itself takes, that is less than 350 bytes.
CELLS_MAX = 52

#: What a search has still to look at, least order first: (least, tree, sheet, level, start, stop, places).
#: Level RUN is a run to be opened; any other is a slice of that level of `least` (0: of the cells).
#: The sheet LOOSE is none: what is left are the places.
Entry = tuple[int, int, int, int, int, int, list[int]]
RUN = -1
LOOSE = -1


class Level:
    """All runs of one length that stand in the order of one dimension, end to end."""

    __slots__ = ("bits", "cells", "children", "depth", "least", "number")

    def __init__(self, number: int, depth: int, bits: int, cells: array[int]) -> None:
        self.number = number
        self.depth = depth
        #: A run has 2**bits cells; the first sheet is one run of any length.
        self.bits = bits
        self.cells = cells
        #: The least order of each 16 cells, of each 256, ...
        self.least: list[array[int]] = []
        #: The same points in the order of the next dimension, by the length of the runs.
        self.children: list[Level] = []

    def least_of_run(self, start: int) -> int:
        """The least order in the run that starts there."""
        level = self.bits // FAN_BITS
        shift = level * FAN_BITS
        return min(self.least[level - 1][start >> shift : (start + (1 << self.bits)) >> shift])

    def renew(self, at: int, before: int, order: int, orders: array[int]) -> None:
        """The order of the cell has changed."""
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
        """The least order in a slice of the cells (level 0) or of the minima of a level."""
        if level:
            return min(self.least[level - 1][start:stop])
        return min(map(orders.__getitem__, self.cells[start:stop]))


class Tree:
    """Many points that stay where they are; orders change."""

    __slots__ = ("_last", "by_key", "columns", "keys", "leaf", "live", "orders", "ranks", "sheets", "touched")

    def __init__(self, columns: list[array[int]], keys: array[int], orders: array[int]) -> None:
        # All by place.
        self.columns = columns
        self.keys = keys
        self.orders = orders
        #: Places in the order of their keys.
        self.by_key = array("I")
        #: By dimension, the last excepted: the position of a place in the order of that amount.
        self.ranks: list[array[int]] = []
        self.sheets: list[Level] = []
        self.live = len(keys)
        #: While it is being joined into another tree: the keys that have changed since.
        self.touched: set[int] | None = None
        self._last = len(columns) - 1
        #: A leaf has 2**leaf points.
        self.leaf = leaf_bits(len(keys), len(columns))

    @property
    def least(self) -> int:
        """The least order of all."""
        return self.sheets[0].least[-1][0]

    def find(self, key: int) -> int:
        """The place of a key, or -1."""
        at = bisect_left(self.by_key, key, key=self.keys.__getitem__)
        if at < len(self.by_key) and self.keys[place := self.by_key[at]] == key:
            return place
        return -1

    def has(self, place: int, amounts: Sequence[int]) -> bool:
        """Whether the point there has these amounts."""
        return all(column[place] == amount for column, amount in zip(self.columns, amounts, strict=True))

    def set(self, place: int, order: int) -> None:
        """Change the order of a point; GONE takes it away."""
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
        """How many places fit by the last amount."""
        return bisect_right(self.columns[-1], free[-1])

    def open(self, heap: list[Entry], entry: Entry, free: Sequence[int], edge: int) -> int:
        """Replace a run by the parts of it that fit; how many cells were looked at."""
        _, me, number, _, start, stop, _ = entry
        sheet = self.sheets[number]
        seen = (stop - start).bit_length()
        if sheet.depth == self._last:
            return seen + self._prefix(heap, me, sheet, start, bisect_left(sheet.cells, edge, start, stop))
        column = self.columns[sheet.depth]
        fits = bisect_right(sheet.cells, free[sheet.depth], start, stop, key=column.__getitem__) - start
        whole = fits >> self.leaf << self.leaf
        if whole == 1 << sheet.bits:  # the run as a whole has no copy of its own: its last leaf is taken as loose
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
        """Look at the places of a leaf one by one."""
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
        """The place with the least order of an entry that is no run, and how many cells were looked at."""
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
        """Put back what an entry holds besides the place that was just given out."""
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
    """How many cells a point has in the sheets below one whose runs can be halved so often, depth dimensions to go."""
    return sum(0.5 + 0.5 * cells_each(level, depth - 1) for level in range(levels)) if depth else 0.0


def leaf_bits(count: int, dims: int) -> int:
    """The smallest leaf with which so many points have no more cells than they may."""
    bits = LEAF_BITS_MIN
    while cells_each(max(count.bit_length() - bits, 0), dims - 1) > CELLS_MAX:
        bits += 1
    return bits
