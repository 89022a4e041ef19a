"""Which jobs may be placed at all, as queues and machines come and go."""

from __future__ import annotations

from grassq.broker.batch import Batch
from grassq.core import placement
from grassq.core.board import Shape
from grassq.core.model import Spec, State
from grassq.core.states import Ready, Unready


class Unreadiness:
    """Why jobs may not be placed at all now; asked once per shape, since all jobs of a shape share the answer."""

    def __init__(self, batch: Batch) -> None:
        self._board = batch.board
        self._never: dict[Shape, str | None] = {}

    def never(self, spec: Spec) -> str | None:
        """Why no known worker could ever run this, or None."""
        shape = (spec.queue, spec.request, spec.terms)
        if shape not in self._never:
            self._never[shape] = placement.never_fits(self._board, *shape)
        return self._never[shape]

    def why(self, spec: Spec) -> str | None:
        """Why a job of this spec may not be placed now, or None."""
        if next(self._board.offering(spec.queue), None) is None:
            return f"no queue {spec.queue!r} yet; `grass create-queue {spec.queue}` makes it"
        never = self.never(spec)
        return None if never is None else f"no worker can run it: {never}"


def settle(batch: Batch) -> None:
    """Queues or machines changed: let jobs that can run now go on, and park those that cannot any more."""
    unready = Unreadiness(batch)
    for job in list(batch.board.jobs.values()):
        if job.state is State.QUEUED or (job.state is State.WAITING and job.ready_at is None):
            why = unready.why(job.spec)
            if why is None and job.state is State.WAITING:
                batch.move(job, Ready())
            elif why is not None and why != job.reason:
                batch.move(job, Unready(why))


def park(batch: Batch) -> None:
    """Jobs came back into line in this batch: those whose queue is gone by now wait for it."""
    unready = Unreadiness(batch)
    for before, job in list(batch.changes.updated.values()):
        if job.state is State.QUEUED and before.state is not State.QUEUED:
            why = unready.why(job.spec)
            if why is not None:
                batch.move(job, Unready(why))
