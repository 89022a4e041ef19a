"""Kept room: which waiting jobs keep room in a plan, and from which jobs.

A plan looks at jobs in order, so it reaches one priority after another, the highest first. When it reaches a priority,
every job of a higher priority that is still waiting keeps room, and so does every ripe head of this priority. Jobs keep
room in their order, each beside the room of the jobs before it: a job that could not run beside them keeps nothing, as
it would not start now even on empty workers. Only jobs that could start keep room: their queue is not paused, and a
worker that takes jobs could run them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from grassq.core.model import Job, State, priority_in
from grassq.core.planner.board import Board
from grassq.core.planner.overlay import EmptyOverlay, Overlay
from grassq.core.planner.request_classes import RequestClass
from grassq.core.planner.reservations import (
    NOBODY,
    Reservation,
    WaitingJob,
    able_workers,
    barring,
    first_of,
    is_ripe,
    joined,
    reserve,
)
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.fit import Shortage, fit, most
from grassq.core.resources.ledger import ReservedAmounts

#: How many waiting jobs keep room because of their priority. If more could, the workers that could run them start no
#: job of lower priority.
KEPT_MAX = 64


class KeptRoom:
    """The reservations of one plan. They grow as the plan reaches lower priorities."""

    def __init__(self, board: Board, overlay: Overlay, now: float) -> None:
        """Keep nothing at first; `overlay` is what the jobs that the plan starts leave free."""
        self.reservations: list[Reservation] = []
        #: Workers that start no job from this position on.
        self.closed: dict[str, int] = {}
        self._board = board
        self._overlay = overlay
        #: The first position of the priority reached last.
        self._reached = -NOBODY
        #: The workers without their jobs, and with the jobs that keep room: those could all run at once.
        self._beside = EmptyOverlay()
        self._ripe = sorted(
            (
                job
                for queue, head in board.heads.items()
                if is_ripe(head, board.patience, now)
                and (job := board.jobs.get(head.job)) is not None
                and job.state is State.QUEUED
                and not board.is_paused(queue)
            ),
            key=lambda job: job.order,
        )

    @property
    def ripe_heads(self) -> list[Job]:
        """The heads that keep room from equals too, first in line first."""
        return self._ripe

    def reach(self, order: int) -> set[str]:
        """Keep all room that the job at this position must leave alone; return the workers where more is kept."""
        target, known, closed = first_of(priority_in(order)), len(self.reservations), {*self.closed}
        while self._reached < target:
            levels = [first_of(priority_in(job.order)) for job in self._ripe]
            self._reached = min([target, *(level for level in levels if level > self._reached)])
            self._keep_for_higher_priorities()
            for job in self._ripe:
                if first_of(priority_in(job.order)) == self._reached:
                    waiting = waiting_job(job)
                    self._add(waiting, able_workers(waiting, self._board), is_ripe=True)
        return {each.worker for each in self.reservations[known:]} | (self.closed.keys() - closed)

    def blocking(self, order: int, queue: str, worker: str) -> list[Reservation]:
        """Return the reservations that the job at a position must leave alone on a worker."""
        return barring(order, queue, worker, self.reservations)

    def is_closed(self, worker: str, order: int) -> bool:
        """Tell whether a worker starts no job at this position."""
        return order >= self.closed.get(worker, NOBODY)

    def steps(self, worker: str, queue: str) -> list[tuple[int, ReservedAmounts | None]]:
        """Return (end position, what is kept from earlier jobs of a queue) for jobs that are no ripe heads.

        What is kept only grows along the queue, so a job that fits at a later step also fits at an earlier one.
        """
        here = [(r.blocks_from(queue), r) for r in self.reservations if r.worker == worker]
        end_of_all = self.closed.get(worker, NOBODY)
        ends = [*sorted({begin for begin, _ in here if begin < end_of_all}), end_of_all]
        kept = [[r for begin, r in here if begin < end] for end in ends]
        return [(end, joined(each, queue) if each else None) for end, each in zip(ends, kept, strict=True)]

    def _add(self, job: WaitingJob, workers: Iterable[WorkerState], *, is_ripe: bool) -> bool:
        """Keep room for a job on one of these workers; return False if there is none."""
        found = reserve(job, workers, self._overlay, self.reservations, is_ripe=is_ripe)
        if found is None:
            return False
        worker, reservation = found
        self.reservations.append(reservation)
        allocation = fit(job.request, self._beside.free_view(worker, job.queue))
        if not isinstance(allocation, Shortage):
            self._beside.take(worker, job.queue, allocation)
        return True

    def _keep_for_higher_priorities(self) -> None:
        """Keep room for jobs before the position that was reached, in their order."""
        first = self._board.first_order()
        if first is None or first >= self._reached:
            return
        line = _Left(self._board, self._beside, self._reached, {each.order for each in self.reservations})
        while (waiting := line.next()) is not None:
            if sum(not each.is_ripe for each in self.reservations) >= KEPT_MAX:
                for worker in line.workers() | {each.info.name for each in line.able(waiting)}:
                    self.closed.setdefault(worker, self._reached)
                return
            self._add(waiting, line.able(waiting), is_ripe=False)


class _Left:
    """The jobs before a position that could run beside those that keep room already, in order."""

    def __init__(self, board: Board, beside: EmptyOverlay, end: int, served: set[int]) -> None:
        self._board = board
        self._beside = beside
        self._end = end
        #: Positions of jobs that keep room already, and keys of which no further job can run beside those.
        self._served = served
        self._classes = [
            request_class
            for request_class in board.request_classes()
            if request_class.count and not board.is_paused(request_class.queue)
        ]
        self._full: set[tuple[int, int]] = set()
        #: The first job of each class, by position; checked again when its turn comes.
        self._shown: list[tuple[int, int, int]] = []
        for number in range(len(self._classes)):
            self._show(number)
        heapify(self._shown)

    def next(self) -> WaitingJob | None:
        """Return the next job, which counts as served from now on."""
        while self._shown:
            order, number, key = heappop(self._shown)
            request_class = self._classes[number]
            job = WaitingJob(order, request_class.queue, request_class.request(key), request_class.constraints)
            is_able = next(self.able(job), None) is not None
            if is_able:
                self._served.add(order)
            else:
                self._full.add((number, key))
            self._show(number)
            if is_able:
                return job
        return None

    def able(self, job: WaitingJob) -> Iterator[WorkerState]:
        """Yield the workers that could run a job beside those that keep room."""
        for worker in able_workers(job, self._board):
            if not isinstance(fit(job.request, self._beside.free_view(worker, job.queue)), Shortage):
                yield worker

    def workers(self) -> set[str]:
        """Return the workers that could run some further job of these."""
        return {
            worker.info.name
            for number, request_class in enumerate(self._classes)
            for worker in self._board.takers(request_class.queue, request_class.constraints)
            if self._first(number, worker) is not None
        }

    def _show(self, number: int) -> None:
        request_class = self._classes[number]
        workers = self._board.takers(request_class.queue, request_class.constraints)
        found = [first for worker in workers if (first := self._first(number, worker)) is not None]
        if found:
            order, key = min(found)
            heappush(self._shown, (order, number, key))

    def _first(self, number: int, worker: WorkerState) -> tuple[int, int] | None:
        """Return the position and key of the first job of a class that could run on a worker beside the others."""
        request_class = self._classes[number]
        free_view = self._beside.free_view(worker, request_class.queue)
        later: list[tuple[int, int]] = []
        for order, key in request_class.index.fitting([most(name, free_view) for name in request_class.names]):
            if order >= self._end or (later and order > min(later)[0]):
                break
            if (number, key) in self._full:
                continue
            if order not in self._served:
                later.append((order, key))
                break
            after = self._unserved(request_class, key, order)
            if after is not None and after < self._end:
                later.append((after, key))
        return min(later, default=None)

    def _unserved(self, request_class: RequestClass, key: int, order: int) -> int | None:
        after: int | None = order
        while after in self._served:
            assert after is not None
            after = request_class.after(key, after)
        return after


def waiting_job(job: Job) -> WaitingJob:
    """Return what the planner looks at of a queued job."""
    return WaitingJob(job.order, job.spec.queue, job.spec.request, job.spec.constraints)
