"""Kinds of requests: queued jobs of one queue and terms that name the same resources, asked for the first that fits.

Jobs of one shape differ in nothing the planner looks at, so a kind knows of each shape only its amounts and the line of
its jobs; the index holds one point per shape, at the order of its first job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grassq.core.model import Constraints
from grassq.core.planner.firstfit.index import Index
from grassq.core.planner.sorted_orders import SortedOrders
from grassq.core.resources.amounts import Request

Amounts = tuple[int, ...]
#: What the planner groups by: jobs of one shape fit or do not fit together.
Shape = tuple[str, Request, Constraints]
#: Empty shapes that are remembered, because they mostly come back; more of them than of others are forgotten.
EMPTY_MIN = 64


class RequestClass:
    """All queued jobs of a queue that ask under the same terms for the same resources."""

    def __init__(self, queue: str, constraints: Constraints, names: tuple[str, ...]) -> None:
        self.queue = queue
        self.constraints = constraints
        self.names = names
        self.index = Index(len(names))
        self.count = 0
        self._keys: dict[Amounts, int] = {}
        #: Of each key its amounts, and its line: a lone job is its own line, as most are where shapes are many.
        self._amounts: dict[int, Amounts] = {}
        self._lines: dict[int, int | SortedOrders] = {}
        self._next_key = 0

    def request(self, key: int) -> Request:
        """What the jobs behind a key ask for."""
        return tuple(zip(self.names, self._amounts[key], strict=True))

    def shapes(self) -> Iterator[tuple[Shape, SortedOrders]]:
        """Every shape that has jobs, with its line."""
        for key, line in self._lines.items():
            yield (
                (self.queue, self.request(key), self.constraints),
                SortedOrders((line,)) if isinstance(line, int) else line,
            )

    def line(self, amounts: Amounts) -> SortedOrders:
        """The jobs of a shape in line; changing it changes nothing here."""
        line = self._lines.get(self._keys.get(amounts, -1))
        return SortedOrders(() if line is None else (line,)) if line is None or isinstance(line, int) else line

    def add(self, amounts: Amounts, order: int) -> None:
        """A job came."""
        self.count += 1
        key = self._keys.get(amounts)
        if key is None:
            key = self._new(amounts)
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = order
        elif isinstance(line, int):
            self._lines[key] = SortedOrders(sorted((line, order)))
        else:
            first = line.first
            line.add(order)
            if order > first:
                return
        if line is None or not isinstance(line, int) or order < line:
            self.index.put(key, amounts, order)

    def extend(self, amounts: Amounts, orders: Sequence[int]) -> None:
        """Many jobs of one shape came; sorted."""
        self.count += len(orders)
        before = self._put_in_line(amounts, orders)
        key = self._keys[amounts]
        if before is None or orders[0] < before:
            self.index.put(key, amounts, orders[0])

    def load(self, amounts: Amounts, orders: Sequence[int]) -> None:
        """The same, for a shape that had none; `index_all` comes after all of them."""
        self.count += len(orders)
        self._put_in_line(amounts, orders)

    def _put_in_line(self, amounts: Amounts, orders: Sequence[int]) -> int | None:
        """Who was first in line before."""
        key = self._keys.get(amounts)
        if key is None:
            key = self._new(amounts)
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = orders[0] if len(orders) == 1 else SortedOrders(orders)
            return None
        first = _first(line)
        if isinstance(line, int):
            line = self._lines[key] = SortedOrders((line,))
        line.extend(orders)
        return first

    def index_all(self) -> None:
        """After `extend`s: build the index at once."""
        points = ((key, self._amounts[key], _first(line)) for key, line in self._lines.items())
        self.index.load(points)

    def remove(self, amounts: Amounts, order: int) -> None:
        """A job left; KeyError or ValueError when it was not there."""
        key = self._keys[amounts]
        line = self._lines[key]
        self.count -= 1
        if isinstance(line, int):
            if line != order:
                raise ValueError(f"{order} is not in line")
            del self._lines[key]
            self.index.remove(key)
            self._forget_empty()
            return
        is_first = line.first == order
        line.remove(order)
        if is_first:
            self.index.put(key, amounts, line.first)
        if len(line) == 1:
            self._lines[key] = line.first

    def pass_first(self, key: int, order: int) -> int | None:
        """Let the index go on to the job after `order`, as if it had left; who that is."""
        line = self._lines[key]
        after = None if isinstance(line, int) else line.after(order)
        if after is None:
            self.index.remove(key)
        else:
            self.index.put(key, self._amounts[key], after)
        return after

    def restore(self, key: int) -> None:
        """Undo `pass_first`."""
        self.index.put(key, self._amounts[key], _first(self._lines[key]))

    def key_of(self, amounts: Amounts) -> int:
        """The key behind which the jobs of a shape are; KeyError when there never were any."""
        return self._keys[amounts]

    def first(self, key: int) -> int:
        """Who goes first of those behind a key."""
        return _first(self._lines[key])

    def _new(self, amounts: Amounts) -> int:
        key = self._next_key
        self._next_key += 1
        self._keys[amounts] = key
        self._amounts[key] = amounts
        return key

    def _forget_empty(self) -> None:
        empty = len(self._amounts) - len(self._lines)
        if empty <= max(EMPTY_MIN, len(self._lines)):
            return
        for key in self._amounts.keys() - self._lines.keys():
            del self._keys[self._amounts.pop(key)]


def _first(line: int | SortedOrders) -> int:
    return line if isinstance(line, int) else line.first


def amounts_of(request: Request) -> tuple[tuple[str, ...], Amounts]:
    """A request as the names it asks for and how much of each."""
    return tuple([name for name, _ in request]), tuple([amount for _, amount in request])
