"""Jobs that only wait, gathered from their rows by shape; of each its place in line, and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import islice
from operator import lt
from sys import intern
from typing import Any

from grassq.core.model import State
from grassq.store import rows
from grassq.store.base import WaitingGroup

#: How many rows are in memory at once while they are gathered.
PARKED_AT_ONCE = 2000

#: A queue and what is asked for there, as stored: to compare that costs less than to understand each.
_Key = tuple[str, bytes]


def gather(state: State, parts: Iterable[list[tuple[Any, ...]]]) -> list[WaitingGroup]:
    """The jobs of SELECT_PARKED, one group for each shape."""
    alike: dict[_Key, array[int]] = {}
    for part in parts:
        for order, queue, asked in part:
            key = (queue, asked)
            orders = alike.get(key)
            if orders is None:
                alike[key] = array("q", (order,))
            else:
                orders.append(order)
    groups = []
    while alike:
        # Taken out one by one, so that there are never two of everything.
        key, orders = alike.popitem()
        groups.append(WaitingGroup(state, rows.shape_from(intern(key[0]), key[1]), _sorted(orders)))
    return groups


def _sorted(orders: array[int]) -> array[int]:
    """Rows come by id; jobs of several priorities are in line otherwise."""
    in_line = len(orders) < 2 or all(map(lt, orders, islice(orders, 1, None)))
    return orders if in_line else array("q", sorted(orders))
