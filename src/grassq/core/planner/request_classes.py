"""Request classes: the queued jobs of one queue and one set of constraints that ask for the same resources.

Jobs of one shape do not differ in anything the planner looks at. So a request class keeps for each shape only its
amounts and the queue positions of its jobs; the index has one point per shape, at the position of its first job.

A group without a limit does not matter to the planner: shapes that differ only in such groups are in one class, and
have one key if they ask for the same. Their positions are also kept apart, so that a limit which is set later finds
its jobs (ADR 046).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from grassq.core.model import Constraints, Job
from grassq.core.planner.firstfit.index import Index
from grassq.core.planner.limits.groups import names_in
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
        #: The same positions by the jobs' own constraints, of keys where these are not always the constraints above.
        self._parts: dict[int, dict[Constraints, int | SortedOrders]] = {}
        #: The groups in the constraints of the parts, and in how many parts each is.
        self.groups: Counter[str] = Counter()
        self._next_key = 0

    def request(self, key: int) -> Request:
        """Return what the jobs of a key ask for."""
        return tuple(zip(self.names, self._amounts[key], strict=True))

    def shapes(self) -> Iterator[tuple[Shape, SortedOrders]]:
        """Iterate over every shape that has jobs, with the jobs' queue positions."""
        for key, line in self._lines.items():
            request = self.request(key)
            for constraints, part in self._parts.get(key, {self.constraints: line}).items():
                yield (self.queue, request, constraints), _whole(part)

    def line(self, amounts: Amounts, constraints: Constraints) -> SortedOrders:
        """Return the queue positions of a shape; changing the answer changes nothing here."""
        key = self._keys.get(amounts, -1)
        if key in self._parts:
            line = self._parts[key].get(constraints)
        else:
            line = self._lines.get(key) if constraints == self.constraints else None
        return SortedOrders() if line is None else _whole(line)

    def lines(self) -> Iterator[SortedOrders]:
        """Iterate over the queue positions of all jobs, those of each key in order."""
        return map(_whole, self._lines.values())

    def extend(
        self, amounts: Amounts, orders: Sequence[int], constraints: Constraints, *, is_indexed: bool = True
    ) -> None:
        """Add jobs of one shape; `orders` is sorted. If they are not indexed, call `index_all` after all of them."""
        self.count += len(orders)
        key = self._keys.get(amounts)
        if key is None:
            key = self._keys[amounts] = self._next_key
            self._next_key += 1
            self._amounts[key] = amounts
        line = self._lines.get(key)
        if key in self._parts or constraints != self.constraints:
            parts = self._parts.setdefault(key, {})
            if line is not None and not parts:
                self._add_part(key, self.constraints, [*_whole(line)])
            self._add_part(key, constraints, orders)
        before = None if line is None else _first(line)
        self._lines[key] = _extended(line, orders)
        if is_indexed and (before is None or orders[0] < before):
            self.index.put(key, amounts, orders[0])

    def take_out(self, group: str) -> list[tuple[Amounts, Constraints, SortedOrders]]:
        """Remove the jobs of a group that is in parts of this class; return them by shape."""
        taken = []
        for key, parts in [*self._parts.items()]:
            found = {constraints: _whole(parts[constraints]) for constraints in parts if group in names_in(constraints)}
            gone = {order for line in found.values() for order in line}
            if not gone:
                continue
            amounts = self._amounts[key]
            taken += [(amounts, constraints, line) for constraints, line in found.items()]
            for constraints in found:
                self._drop_part(key, constraints)
            self.count -= len(gone)
            left = [order for order in _whole(self._lines[key]) if order not in gone]
            if left:
                self._lines[key] = left[0] if len(left) == 1 else SortedOrders(left)
                self.index.put(key, amounts, left[0])
            else:
                del self._lines[key]
                self.index.remove(key)
        self._forget_empty()
        return taken

    def _add_part(self, key: int, constraints: Constraints, orders: Sequence[int]) -> None:
        parts = self._parts[key]
        if constraints not in parts:
            self.groups.update(names_in(constraints))
        parts[constraints] = _extended(parts.get(constraints), orders)

    def _drop_part(self, key: int, constraints: Constraints) -> None:
        del self._parts[key][constraints]
        if not self._parts[key]:
            del self._parts[key]
        for name in names_in(constraints):
            self.groups[name] -= 1
            if not self.groups[name]:
                del self.groups[name]

    def index_all(self) -> None:
        """Build the index of all jobs at once."""
        self.index.load((key, self._amounts[key], _first(line)) for key, line in self._lines.items())

    def remove(self, amounts: Amounts, order: int, constraints: Constraints) -> None:
        """Remove one job; KeyError or ValueError if it is not there."""
        key = self._keys[amounts]
        line = _reduced(self._lines[key], order)
        if key in self._parts:
            part = _reduced(self._parts[key][constraints], order)
            if part is None:
                self._drop_part(key, constraints)
            else:
                self._parts[key][constraints] = part
        self.count -= 1
        if line is None:
            del self._lines[key]
            self.index.remove(key)
            self._forget_empty()
            return
        if _first(line) > order:
            self.index.put(key, amounts, _first(line))
        self._lines[key] = line

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


def _extended(line: int | SortedOrders | None, orders: Sequence[int]) -> int | SortedOrders:
    """Return a line with more positions, which are sorted."""
    if line is None:
        return orders[0] if len(orders) == 1 else SortedOrders(orders)
    line = _whole(line)
    line.extend(orders)
    return line


def _reduced(line: int | SortedOrders, order: int) -> int | SortedOrders | None:
    """Return a line without one position; ValueError if it is not there."""
    if isinstance(line, int):
        if line != order:
            raise ValueError(f"{order} is not queued")
        return None
    line.remove(order)
    return line.first if len(line) == 1 else line


def amounts_of(request: Request) -> tuple[tuple[str, ...], Amounts]:
    """Return the names a request asks for, and the amounts in the same order."""
    return tuple([name for name, _ in request]), tuple([amount for _, amount in request])


def shape_of(job: Job) -> Shape:
    """Return the shape a job is grouped under."""
    return (job.spec.queue, job.spec.request, job.spec.constraints)
