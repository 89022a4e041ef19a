"""Waiting jobs grouped by shape, read from their rows: of each job only its queue position is kept."""

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

#: How many rows are in memory at once while jobs are grouped.
ROWS_AT_ONCE = 2000

#: A queue and a request as stored: comparing bytes costs less than decoding each row.
_Key = tuple[str, bytes]


def gather(state: State, parts: Iterable[list[tuple[Any, ...]]]) -> list[WaitingGroup]:
    """Return the jobs of SELECT_WAITING_GROUPS, one group for each shape."""
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
        # Removed one by one, so that nothing is in memory twice.
        key, orders = alike.popitem()
        groups.append(WaitingGroup(state, rows.shape_from(intern(key[0]), key[1]), _sorted(orders)))
    return groups


def _sorted(orders: array[int]) -> array[int]:
    """Return the positions sorted. Rows come by id, but jobs of several priorities have another order."""
    in_line = len(orders) < 2 or all(map(lt, orders, islice(orders, 1, None)))
    return orders if in_line else array("q", sorted(orders))
