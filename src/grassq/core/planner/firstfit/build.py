"""Build a range tree from points or from other trees, in steps, so that no single change waits for a large tree."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import chain, compress, repeat
from typing import TypeVar

from grassq.core.planner.firstfit.range_tree import FAN, GONE, Level, Tree, cells_each, leaf_bits

#: Cells per step: about a millisecond.
CHUNK = 4096
#: Cells per step where the caller waits for the end anyway: sorting at once is faster than merging sorted parts.
BULK = 1 << 20
#: Changes that are replayed in one step at the end of a join.
REPLAY = 64

Result = TypeVar("Result")
#: Work that can be interrupted: yields how many cells were handled since the last time.
Steps = Generator[int, None, Result]
_Key = Callable[[int], int] | None


def work_each(count: int, dims: int) -> int:
    """Estimate how many cells building handles for each point."""
    levels = max(count.bit_length() - leaf_bits(count, dims), 0)
    sorts = max(count // CHUNK, 1).bit_length() + 1
    return round(3 * cells_each(levels, dims - 1)) + (dims + 1) * (sorts + 2) + 2


def gather(trees: Iterable[Tree], dims: int) -> Steps[tuple[list[array[int]], array[int], array[int]]]:
    """Return the points of some trees as columns, without removed points."""
    columns, keys, orders = [array("q") for _ in range(dims)], array("q"), array("q")
    for tree in trees:
        for at in range(0, len(tree.keys), CHUNK):
            part = slice(at, at + CHUNK)
            alive = list(map(GONE.__ne__, tree.orders[part]))
            keys.extend(compress(tree.keys[part], alive))
            orders.extend(compress(tree.orders[part], alive))
            for column, source in zip(columns, tree.columns, strict=True):
                column.extend(compress(source[part], alive))
            yield (dims + 2) * len(alive)
    return columns, keys, orders


def grow(columns: list[array[int]], keys: array[int], orders: array[int], chunk: int) -> Steps[Tree]:
    """Build a tree of points given as columns, sorting about `chunk` cells at a time."""
    places = yield from _sorted_by(columns[-1], chunk)
    taken = []
    for column in (*columns, keys, orders):
        taken.append((yield from _taken(column, places)))
    tree = Tree(taken[:-2], taken[-2], taken[-1])
    tree.by_key = yield from _sorted_by(tree.keys, chunk)
    first = array("I", range(len(keys)))
    for depth, column in enumerate(tree.columns[:-1]):
        places = yield from _sorted_by(column, chunk)
        tree.ranks.append((yield from _inverse(places)))
        first = first if depth else places
    sheet = Level(0, 0, 64, first)
    tree.sheets.append(sheet)
    sheet.least = yield from _least(sheet, tree.orders, len(keys))
    yield from _spread(tree, sheet, chunk)
    return tree


def joined(trees: Sequence[Tree], dims: int, touched: set[int]) -> Steps[Tree]:
    """Build one tree from trees that are still in use, then replay the changes made to them meanwhile."""
    columns, keys, orders = yield from gather(trees, dims)
    tree = yield from grow(columns, keys, orders, CHUNK)
    while touched:
        for key in [touched.pop() for _ in range(min(len(touched), REPLAY))]:
            known = [(each, place) for each in trees if (place := each.find(key)) >= 0]
            order = min(each.orders[place] for each, place in known)
            if (place := tree.find(key)) >= 0 and tree.orders[place] != order:
                tree.set(place, order)
        yield CHUNK
    return tree


def finish(steps: Steps[Result]) -> Result:
    """Do all of the work now."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def _spread(tree: Tree, sheet: Level, chunk: int) -> Steps[None]:
    """Give a level its children: copies of its runs in the order of the next dimension."""
    depth = sheet.depth + 1
    if depth == len(tree.columns):
        return
    key = tree.ranks[depth].__getitem__ if depth < len(tree.ranks) else None
    bits = tree.leaf
    runs = yield from _sorted_runs(sheet.cells, 1 << bits, key, BULK)
    while bits < sheet.bits and len(runs) >= 1 << bits:
        size = 1 << bits
        even = array("I")
        for at in range(0, len(runs) - size + 1, 2 * size):
            even.extend(runs[at : at + size])
        # A copy is exactly as long as needed, without space to grow.
        child = Level(len(tree.sheets), depth, bits, even[:])
        tree.sheets.append(child)
        sheet.children.append(child)
        child.least = yield from _least(child, tree.orders, size)
        yield from _spread(tree, child, chunk)
        bits += 1
        if bits < sheet.bits:
            runs = yield from _sorted_runs(runs, 2 * size, key, chunk)


def _sorted_runs(cells: array[int], size: int, key: _Key, chunk: int) -> Steps[array[int]]:
    """Sort each whole run of this size, without the rest; runs larger than a chunk are merged from sorted halves."""
    done = array("I")
    work = 0
    for at in range(0, len(cells) - size + 1, size):
        if size > chunk:
            yield from _merge(cells, at, at + size // 2, at + size, key, done, chunk)
            continue
        done.extend(sorted(cells[at : at + size], key=key))
        work += size
        if work >= CHUNK:
            yield work
            work = 0
    return done


def _merge(
    cells: array[int], start: int, middle: int, stop: int, key: _Key, done: array[int], chunk: int
) -> Steps[None]:
    """Append two neighbouring sorted runs as one; of equal values the left run's come first."""
    at, other = start, middle
    while at < middle and other < stop:
        left, right = cells[at : min(at + chunk, middle)], cells[other : min(other + chunk, stop)]
        high_left, high_right = (key(left[-1]), key(right[-1])) if key else (left[-1], right[-1])
        if high_left <= high_right:
            right = right[: bisect_left(right, high_left, key=key)]
        else:
            left = left[: bisect_right(left, high_right, key=key)]
        done.extend(sorted(left + right, key=key))
        at, other = at + len(left), other + len(right)
        yield len(left) + len(right)
    done.extend(cells[at:middle])
    done.extend(cells[other:stop])


def _sorted_by(column: array[int], chunk: int) -> Steps[array[int]]:
    """Return the positions of a column in the order of its values; equal values keep their order."""
    count, key = len(column), column.__getitem__
    cells = array("I")
    for at in range(0, count, chunk):
        cells.extend(sorted(range(at, min(at + chunk, count)), key=key))
        yield chunk
    while chunk < count:
        done = array("I")
        for at in range(0, count, 2 * chunk):
            middle = min(at + chunk, count)
            yield from _merge(cells, at, middle, min(middle + chunk, count), key, done, min(chunk, CHUNK))
        cells, chunk = done, 2 * chunk
    return cells


def _taken(column: array[int], places: array[int]) -> Steps[array[int]]:
    """Return a column in another order."""
    done = array("q")
    for at in range(0, len(places), CHUNK):
        done.extend(map(column.__getitem__, places[at : at + CHUNK]))
        yield CHUNK // 2
    return done


def _inverse(places: array[int]) -> Steps[array[int]]:
    """Return the inverse of a permutation."""
    done = array("I", bytes(array("I").itemsize * len(places)))
    for at in range(0, len(places), CHUNK):
        for position, place in enumerate(places[at : at + CHUNK], at):
            done[place] = position
        yield CHUNK
    return done


def _least(sheet: Level, orders: array[int], size: int) -> Steps[list[array[int]]]:
    """Return the least orders of a level's cells, by 16, by 256, and so on up to a run of this size."""
    levels: list[array[int]] = []
    while not levels or (len(levels[-1]) > 1 and (sheet.depth == 0 or FAN ** (len(levels) + 1) <= size)):
        lower, upper = levels[-1] if levels else sheet.cells, array("q")
        for at in range(0, len(lower), CHUNK):
            part = lower[at : at + CHUNK]
            values: Iterable[int] = part if levels else map(orders.__getitem__, part)
            padded = chain(values, repeat(GONE, -len(part) % FAN))
            upper.extend(map(min, *[padded] * FAN))
            yield CHUNK
        levels.append(upper)
    return levels
