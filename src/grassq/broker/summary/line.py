"""The line: the queued jobs in the order in which they are looked at, of one queue or of all."""

from __future__ import annotations

import heapq

from grassq.broker.batch import Batch
from grassq.core.model import Job


def line_jobs(batch: Batch, queue: str | None, most: int) -> tuple[list[Job], int]:
    """Return the first queued jobs, at most `most`, and how many there are."""
    board = batch.board
    if queue is None:
        ids = board.next_ids(most)
    else:
        lines = (line.upto(most) for each in board.request_classes(queue) for line in each.lines())
        ids = [board.id_at(order) for order in heapq.nsmallest(most, (order for line in lines for order in line))]
    found = batch.fetch(ids)
    return [found[id_] for id_ in ids if id_ in found], board.queued(queue)
