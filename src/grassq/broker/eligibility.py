"""Which jobs may be placed at all, as queues and machines come and go."""

from __future__ import annotations

from grassq.broker.batch import Batch
from grassq.core.model import ForQueue, State, id_in
from grassq.core.planner.explain import never_fits
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.planner.sorted_orders import SortedOrders
from grassq.core.states import Ready, Unready

#: How many jobs are let go on or parked in one batch when queues or machines change; the others follow at once.
SETTLED_MAX = 2000


class Eligibility:
    """Why jobs may not be placed at all now; asked once per shape, since all jobs of a shape share the answer."""

    def __init__(self, batch: Batch) -> None:
        self._board = batch.board
        self._never: dict[Shape, str | None] = {}
        self._why: dict[Shape, str | None] = {}

    def never(self, shape: Shape) -> str | None:
        """Why no known worker could ever run this, or None."""
        if shape not in self._never:
            self._never[shape] = never_fits(self._board, *shape)
        return self._never[shape]

    def why(self, shape: Shape) -> str | None:
        """Why a job of this shape may not be placed now, or None."""
        if shape not in self._why:
            self._why[shape] = self._look(shape)
        return self._why[shape]

    def _look(self, shape: Shape) -> str | None:
        if next(self._board.offering(shape[0]), None) is None:
            return f"no queue {shape[0]!r} yet; `grass create-queue {shape[0]}` makes it"
        never = self.never(shape)
        return None if never is None else f"no worker can run it: {never}"


def settle(batch: Batch) -> None:
    """Queues or machines changed: let jobs that can run now go on, and park those that cannot any more."""
    unready, board = Eligibility(batch), batch.board
    board.unsettled = {shape: why for shape, _ in board.shapes() if (why := unready.why(shape)) is not None}
    # The delay of a retry is seconds, so few jobs wait for a time at once.
    for job in [*board.timed.values()]:
        if not job.waits_for_queue and (why := unready.why(shape_of(job))) is not None:
            batch.move(job, Unready(why))
    for shape in board.blocked:
        why = unready.why(shape)
        if why is None:
            board.unsettled[shape] = None
        else:
            board.reasons[shape] = why
    settle_more(batch)


def settle_more(batch: Batch) -> None:
    """Go on with what `settle` found, some jobs at a time."""
    board, left = batch.board, SETTLED_MAX
    for shape, why in [*board.unsettled.items()]:
        line = board.line(shape) if why is not None else board.blocked.get(shape, SortedOrders())
        orders = line.upto(left)
        if len(orders) == len(line):
            del board.unsettled[shape]
        state = State.WAITING if why is None else State.QUEUED
        for job in batch.in_line(map(id_in, orders), state).values():
            batch.move(job, Ready(ForQueue()) if why is None else Unready(why))
        left -= len(orders)
        if left <= 0:
            return


def block_unready(batch: Batch) -> None:
    """Let the jobs that became queued or waiting in this batch wait for their queue if it is gone."""
    unready = Eligibility(batch)
    for before, job in list(batch.changes.updated.values()):
        if job.state in (State.QUEUED, State.WAITING) and before.state is not job.state and not job.waits_for_queue:
            why = unready.why(shape_of(job))
            if why is not None:
                batch.move(job, Unready(why))
