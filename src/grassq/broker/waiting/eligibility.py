"""Which jobs must wait for their queue, as queues and machines come and go."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.core.model import ForQueue, Job, State
from grassq.core.planner.explain import never_fits
from grassq.core.planner.limits.groups import names_in, never_within
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.planner.sorted_orders import SortedOrders
from grassq.core.states import Hold, Ready, Unready

#: How many jobs become queued or waiting in one batch when queues or machines change; the next batches do the rest.
REEVALUATED_MAX = 200
#: Why a job is held whose token has ended.
REVOKED = "the token it was submitted with was revoked"


class Eligibility:
    """The reasons why jobs must wait for their queue, found once per shape: all jobs of a shape share the answer."""

    def __init__(self, batch: Batch) -> None:
        self._board = batch.board
        self._never: dict[Shape, str | None] = {}
        self._why: dict[Shape, str | None] = {}

    def never(self, shape: Shape) -> str | None:
        """Return why no known worker could ever run a job of this shape; None if some could."""
        shape = _groupless(shape)
        if shape not in self._never:
            self._never[shape] = never_fits(self._board, *shape)
        return self._never[shape]

    def above_limit(self, shape: Shape) -> str | None:
        """Return which limit of a group is below what a job of this shape asks for; None if none is."""
        above = never_within(self._board, names_in(shape[2]), shape[1])
        return None if above is None else f"{above} (`grass limit` lists the limits)"

    def why(self, shape: Shape) -> str | None:
        """Return why a job of this shape must wait for its queue; None if it can be queued."""
        shape = _groupless(shape)
        if shape not in self._why:
            self._why[shape] = self._look(shape)
        return self._why[shape]

    def _look(self, shape: Shape) -> str | None:
        if next(self._board.offering(shape[0]), None) is None:
            if shape[0] in self._board.templates:
                labels = "".join(f" with label {label}" for label in self._board.templates[shape[0]].labels[:1])
                return f"no worker offers queue {shape[0]!r} yet; it starts when a worker{labels} joins"
            return f"no queue {shape[0]!r} yet; `grass create-queue {shape[0]}` makes it"
        never = self.never(shape)
        return None if never is None else f"no worker can run it: {never}"


def _groupless(shape: Shape) -> Shape:
    """Return a shape without its groups: they do not matter to queues and machines, and there may be one per job."""
    queue, request, constraints = shape
    return shape if constraints.groups is UNSET else (queue, request, replace(constraints, groups=UNSET))


def reevaluate(batch: Batch) -> None:
    """Queue the jobs that can run after queues or machines changed, and let those that cannot run wait."""
    unready, board = Eligibility(batch), batch.board
    board.reevaluating = {shape: why for shape, _ in board.shapes() if (why := unready.why(shape)) is not None}
    for job in [*board.timed.values()]:
        if not job.waits_for_queue and not job.waits_for_jobs and (why := unready.why(shape_of(job))) is not None:
            batch.move(job, Unready(why))
    for shape in board.blocked:
        why = unready.why(shape)
        if why is None:
            board.reevaluating[shape] = None
        else:
            board.reasons[shape] = why
    reevaluate_more(batch)


def reevaluate_more(batch: Batch) -> None:
    """Move up to REEVALUATED_MAX of the jobs that `reevaluate` found."""
    board, left = batch.board, REEVALUATED_MAX
    for shape, why in [*board.reevaluating.items()]:
        line = board.line(shape) if why is not None else board.blocked.get(shape, SortedOrders())
        orders = line.upto(left)
        if len(orders) == len(line):
            del board.reevaluating[shape]
        state = State.WAITING if why is None else State.QUEUED
        for job in batch.fetch_in_state(map(board.id_at, orders), state).values():
            batch.move(job, Ready(ForQueue()) if why is None else Unready(why))
        left -= len(orders)
        if left <= 0:
            return


def hold_revoked(batch: Batch, job: Job) -> bool:
    """Hold a job if the token that answers for it has ended; tell whether it has."""
    if job.token is None or job.token not in batch.board.ended_tokens:
        return False
    batch.move(job, Hold(REVOKED))
    return True


def block_unready(batch: Batch) -> None:
    """Block the jobs that became queued or waiting in this batch and whose queue is gone, or whose token has ended."""
    unready = Eligibility(batch)
    for before, job in list(batch.changes.updated.values()):
        if job.state in (State.QUEUED, State.WAITING) and hold_revoked(batch, job):
            continue
        is_new = job.state in (State.QUEUED, State.WAITING) and before.state is not job.state
        if is_new and not job.waits_for_queue and not job.waits_for_jobs:
            why = unready.why(shape_of(job))
            if why is not None:
                batch.move(job, Unready(why))
