"""Request classes: the queued jobs of one queue and one set of constraints that ask for the same resources.

Jobs of one shape do not differ in anything the planner looks at. So a request class keeps for each shape only its
amounts and the queue positions of its jobs; the index has one point per shape, at the position of its first job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grassq.core.model import Constraints, Job
from grassq.core.planner.firstfit.index import Index
from grassq.core.planner.sorted_orders import SortedOrders
from grassq.core.resources.amounts import Request

Amounts = tuple[int, ...]
#: What the planner groups by: either all jobs of one shape fit, or none does.
Shape = tuple[str, Request, Constraints]
#: Empty shapes that are kept, because most come back. When there are more empty shapes than others, they are dropped.
EMPTY_MIN = 64


class RequestClass:
    """All queued jobs of a queue that ask for the same resources under the same constraints."""

    def __init__(self, queue: str, constraints: Constraints, names: tuple[str, ...]) -> None:
        self.queue = queue
        self.constraints = constraints
        self.names = names
        self.index = Index(len(names))
        self.count = 0
        self._keys: dict[Amounts, int] = {}
        #: The amounts and the queue positions of each key. A single position stands for itself, to save memory.
        self._amounts: dict[int, Amounts] = {}
        self._lines: dict[int, int | SortedOrders] = {}
        self._next_key = 0

    def request(self, key: int) -> Request:
        """Return what the jobs of a key ask for."""
        return tuple(zip(self.names, self._amounts[key], strict=True))

    def shapes(self) -> Iterator[tuple[Shape, SortedOrders]]:
        """Iterate over every shape that has jobs, with the jobs' queue positions."""
        for key, line in self._lines.items():
            yield (self.queue, self.request(key), self.constraints), _whole(line)

    def line(self, amounts: Amounts) -> SortedOrders:
        """Return the queue positions of a shape; changing the answer changes nothing here."""
        line = self._lines.get(self._keys.get(amounts, -1))
        return SortedOrders() if line is None else _whole(line)

    def extend(self, amounts: Amounts, orders: Sequence[int], *, is_indexed: bool = True) -> None:
        """Add jobs of one shape; `orders` is sorted. If they are not indexed, call `index_all` after all of them."""
        self.count += len(orders)
        key = self._keys.get(amounts)
        if key is None:
            key = self._keys[amounts] = self._next_key
            self._next_key += 1
            self._amounts[key] = amounts
        line = self._lines.get(key)
        before = None if line is None else _first(line)
        if line is None:
            self._lines[key] = orders[0] if len(orders) == 1 else SortedOrders(orders)
        else:
            line = self._lines[key] = _whole(line)
            line.extend(orders)
        if is_indexed and (before is None or orders[0] < before):
            self.index.put(key, amounts, orders[0])

    def index_all(self) -> None:
        """Build the index of all jobs at once."""
        self.index.load((key, self._amounts[key], _first(line)) for key, line in self._lines.items())

    def remove(self, amounts: Amounts, order: int) -> None:
        """Remove one job; KeyError or ValueError if it is not there."""
        key = self._keys[amounts]
        line = self._lines[key]
        self.count -= 1
        if isinstance(line, int):
            if line != order:
                raise ValueError(f"{order} is not queued")
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
        """Let the index go on to the job after `order`, as if that job had left; return the next position."""
        after = self.after(key, order)
        if after is None:
            self.index.remove(key)
        else:
            self.index.put(key, self._amounts[key], after)
        return after

    def restore(self, key: int) -> None:
        """Undo `pass_first`."""
        self.index.put(key, self._amounts[key], _first(self._lines[key]))

    def key_of(self, amounts: Amounts) -> int:
        """Return the key of a shape; KeyError if the shape never had jobs."""
        return self._keys[amounts]

    def first(self, key: int) -> int:
        """Return the first queue position of a key."""
        return _first(self._lines[key])

    def after(self, key: int, order: int) -> int | None:
        """Return the next queue position of a key after `order`."""
        line = self._lines[key]
        return None if isinstance(line, int) else line.after(order)

    def _forget_empty(self) -> None:
        empty = len(self._amounts) - len(self._lines)
        if empty <= max(EMPTY_MIN, len(self._lines)):
            return
        for key in self._amounts.keys() - self._lines.keys():
            del self._keys[self._amounts.pop(key)]


def _first(line: int | SortedOrders) -> int:
    return line if isinstance(line, int) else line.first


def _whole(line: int | SortedOrders) -> SortedOrders:
    return SortedOrders((line,)) if isinstance(line, int) else line


def amounts_of(request: Request) -> tuple[tuple[str, ...], Amounts]:
    """Return the names a request asks for, and the amounts in the same order."""
    return tuple([name for name, _ in request]), tuple([amount for _, amount in request])


def shape_of(job: Job) -> Shape:
    """Return the shape a job is grouped under."""
    return (job.spec.queue, job.spec.request, job.spec.constraints)
