"""The first request that fits: the least order among the points that are at most what is free.

Few points are a list in their order, searched from the front: that is the everyday case. When the list is full, its
points become a small `Tree` (see range_tree.py, which answers in log^k n looks). Trees of about equal size are joined
into one, as two equal digits carry in an addition, so there are at most about log2 n trees. A join goes on a little
with every change while the old trees still answer: no single change waits for a large tree. Loading many points at once
builds one tree.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, merge
from operator import le

from grassq.core.planner.firstfit.build import BULK, CHUNK, Steps, finish, gather, grow, joined, work_each
from grassq.core.planner.firstfit.range_tree import GONE, RUN, Entry, Tree

#: The list holds at most this many points.
FEW = 32
#: Trees with at most this many points are joined at once, which takes a few milliseconds.
AT_ONCE = 512
#: With every change each join handles the cells of this many points: a join ends long before the next one of its size.
PACE = 4
#: The list compares this many amounts by name.
PLAIN = 4

#: A point of the list: order, key, four amounts (0 where there are fewer), and all amounts.
_Row = tuple[int, int, int, int, int, int, tuple[int, ...]]
_ZEROS = (0,) * PLAIN


class _Join:
    """Trees that are being joined into one."""

    __slots__ = ("credit", "pace", "sources", "steps")

    def __init__(self, sources: list[Tree], dims: int) -> None:
        touched: set[int] = set()
        for tree in sources:
            tree.touched = touched
        self.sources = sources
        self.steps: Steps[Tree] = joined(sources, dims, touched)
        #: Cells to handle with each change, and cells that are not handled yet.
        self.pace = PACE * work_each(sum(tree.live for tree in sources), dims)
        self.credit = 0


class Index:
    """The requests of one class; answers which request with the least order fits into what is free."""

    def __init__(self, dims: int) -> None:
        """Start without points. Points of dimension 0 ask for nothing and always fit."""
        #: Cells that searches have looked at.
        self.visited = 0
        self._dims = dims
        self._few: list[_Row] = []
        self._known: dict[int, _Row] = {}
        self._trees: list[Tree] = []
        self._joins: list[_Join] = []

    def __len__(self) -> int:
        return len(self._few) + sum(tree.live for tree in self._trees)

    def put(self, key: int, amounts: tuple[int, ...], order: int) -> None:
        """Add a point, or change the order of a known point. Orders are distinct and less than 2**63 - 1."""
        if order >= GONE or len(amounts) != self._dims:
            raise ValueError(f"order {order} and amounts {amounts} are no point of {self._dims} dimensions")
        if key in self._known:
            self._forget(key)
        elif self._trees and self._put_in_tree(key, amounts or (0,), order):
            return
        if len(self._few) == FEW:
            self._flush()
        a, b, c, d = amounts if len(amounts) == PLAIN else (*amounts, *_ZEROS)[:PLAIN]
        row = (order, key, a, b, c, d, amounts)
        insort(self._few, row)
        self._known[key] = row
        if self._joins:
            self._beat()

    def remove(self, key: int) -> None:
        """Remove a point; KeyError if there is none with this key."""
        if key in self._known:
            self._forget(key)
            return
        for tree in self._trees:
            place = tree.find(key)
            if place >= 0 and tree.orders[place] != GONE:
                self._change(tree, place, GONE)
                return
        raise KeyError(key)

    def load(self, points: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
        """Add many points at once, as (key, amounts, order). Each key is new and comes once."""
        dims = max(self._dims, 1)
        columns, keys, orders = [array("q") for _ in range(dims)], array("q"), array("q")
        for key, amounts, order in points:
            keys.append(key)
            orders.append(order)
            for column, amount in zip(columns, amounts or (0,), strict=True):
                column.append(amount)
        if GONE in orders:
            raise ValueError(f"{GONE} is not an order")
        if len(keys) > FEW:
            self._trees.append(finish(grow(columns, keys, orders, BULK)))
            self._carry()
            return
        for at, key in enumerate(keys):
            self.put(key, tuple(column[at] for column in columns[: self._dims]), orders[at])

    def fitting(self, free: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Iterate over all that fit as (order, key), in increasing order, until the index changes."""
        if not self._trees:
            return self._fitting_few(free)
        trees = self._fitting_trees(free)
        return merge(self._fitting_few(free), trees) if self._few else trees

    def _fitting_few(self, free: Sequence[int]) -> Iterator[tuple[int, int]]:
        a, b, c, d = free if len(free) == PLAIN else (*free, *_ZEROS)[:PLAIN]
        more = self._dims > PLAIN
        counted = 0
        for seen, (order, key, w, x, y, z, amounts) in enumerate(self._few, 1):
            if w <= a and x <= b and y <= c and z <= d and (not more or all(map(le, amounts, free))):
                self.visited += seen - counted
                counted = seen
                yield order, key
        self.visited += len(self._few) - counted

    def _fitting_trees(self, free: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Iterate over the points of the trees that fit, least order first."""
        free = free or (0,)
        trees = self._trees
        edges = [0] * len(trees)
        heap: list[Entry] = []
        for me, tree in enumerate(trees):
            if (least := tree.least) < GONE:
                edges[me] = tree.edge(free)
                heap.append((least, me, 0, RUN, 0, len(tree.keys), []))
        heapify(heap)
        while heap:
            entry = heappop(heap)
            if entry[0] >= GONE:
                return
            tree = trees[entry[1]]
            if entry[3] == RUN:
                self.visited += tree.open(heap, entry, free, edges[entry[1]])
                continue
            place, seen = tree.locate(entry)
            self.visited += seen
            yield entry[0], tree.keys[place]
            self.visited += tree.rest(heap, entry, place)

    def _forget(self, key: int) -> None:
        row = self._known.pop(key)
        del self._few[bisect_left(self._few, row)]

    def _put_in_tree(self, key: int, amounts: tuple[int, ...], order: int) -> bool:
        """Change the order of a point of a tree, or restore a removed point; tell whether there was one."""
        ghost: tuple[Tree, int] | None = None
        for tree in self._trees:
            place = tree.find(key)
            if place < 0:
                continue
            same = tree.has(place, amounts)
            if tree.orders[place] != GONE:
                self._change(tree, place, order if same else GONE)
                return same
            # A removed point may be missing in the new tree if the join has already passed it.
            if same and tree.touched is None:
                ghost = tree, place
        if ghost is not None:
            self._change(*ghost, order)
        return ghost is not None

    def _change(self, tree: Tree, place: int, order: int) -> None:
        tree.set(place, order)
        if tree.touched is None and 2 * tree.live < len(tree.keys) - FEW:
            self._join([tree])
        if self._joins:
            self._beat()

    def _flush(self) -> None:
        """Make a tree of the list, together with trees that are no larger."""
        dims = max(self._dims, 1)
        taken: list[Tree] = []
        total = len(self._few)
        for tree in sorted(self._idle(), key=lambda tree: tree.live):
            if tree.live > total or total + tree.live > AT_ONCE:
                break
            taken.append(tree)
            total += tree.live
        columns, keys, orders = finish(gather(taken, dims))
        for order, key, *_, amounts in self._few:
            keys.append(key)
            orders.append(order)
            for column, amount in zip(columns, amounts or (0,), strict=True):
                column.append(amount)
        self._replace(taken, finish(grow(columns, keys, orders, BULK)))
        self._few.clear()
        self._known.clear()
        self._carry()

    def _idle(self) -> list[Tree]:
        return [tree for tree in self._trees if tree.touched is None]

    def _carry(self) -> None:
        """Join trees of about the same size."""
        small: Tree | None = None
        for tree in sorted(self._idle(), key=lambda tree: tree.live):
            if small is not None and tree.live < 2 * small.live:
                self._join([small, tree])
                small = None
            else:
                small = tree

    def _join(self, trees: list[Tree]) -> None:
        join = _Join(trees, max(self._dims, 1))
        self._joins.append(join)
        if sum(tree.live for tree in trees) <= AT_ONCE:
            self._go_on(join, GONE)

    def _beat(self) -> None:
        """Let every join go on by one step, after a change."""
        for join in list(self._joins):
            join.credit += join.pace
            if join.credit >= CHUNK:
                self._go_on(join, join.credit)
                join.credit = 0

    def _go_on(self, join: _Join, cells: int) -> None:
        while cells > 0:
            try:
                cells -= next(join.steps)
            except StopIteration as end:
                self._joins.remove(join)
                self._replace(join.sources, end.value)
                self._carry()
                return

    def _replace(self, old: list[Tree], new: Tree) -> None:
        self._trees = [tree for tree in self._trees if tree not in old]
        if new.live:
            self._trees.append(new)
