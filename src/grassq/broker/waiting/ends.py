"""What follows from the ends of a batch: for the jobs behind them, and for their sweeps."""

from __future__ import annotations

from grassq.broker.batch import Batch
from grassq.broker.sweeps import limits
from grassq.broker.waiting import dependents


def settle(batch: Batch) -> bool:
    """Decide about the jobs behind every end, and stop sweeps with too many failures; tell whether there is more.

    A job that is cancelled with its sweep may have jobs behind it, and a job that fails by its dependency counts for
    its sweep.
    """
    counted: set[int] = set()
    dependents.settle(batch)
    more = limits.settle(batch, counted)
    while batch.ended:
        dependents.settle(batch)
        more |= limits.settle(batch, counted)
    return more
