"""Kept room: which waiting jobs keep room in a plan, and from which jobs.

A plan looks at jobs in order, so it reaches one priority after another, the highest first. When it reaches a priority,
every job of a higher priority that is still waiting keeps room, and so does every ripe head of this priority. Jobs keep
room in their order, each beside the room of the jobs before it: a job that could not run beside them keeps nothing, as
it would not start now even on empty workers. Only jobs that could start keep room: their queue is not paused, and a
worker that takes jobs could run them.

Jobs of its own priority that start change where a ripe head lacks least. So a ripe head that still waits chooses again
when the plan leaves its priority. What it kept first stays kept until the plan ends: what is kept only grows.
"""

from __future__ import annotations

from collections.abc import Iterable

from grassq.core.model import Job, State, priority_in
from grassq.core.planner.board import Board
from grassq.core.planner.heads import is_ripe
from grassq.core.planner.left_jobs import LeftJobs, devices_of
from grassq.core.planner.limits.group_room import GroupRoom
from grassq.core.planner.limits.known_starts import KnownStart, known_start
from grassq.core.planner.overlay import EmptyOverlay, Overlay
from grassq.core.planner.reservations import (
    NOBODY,
    Reservation,
    WaitingJob,
    able_workers,
    barring,
    first_of,
    is_limited,
    joined,
    keep,
    reserved_of,
)
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.fit import FreeView, Shortage, fit
from grassq.core.resources.ledger import ReservedAmounts

#: How many waiting jobs keep room because of their priority. If more could, every resource that they ask for is kept
#: from lower priorities as a whole, on the workers that could run them.
KEPT_MAX = 64


#: (end position, what is kept from earlier jobs of a queue), in order.
Steps = list[tuple[int, ReservedAmounts | None]]


class KeptRoom:
    """The reservations of one plan. They grow as the plan reaches lower priorities."""

    def __init__(self, board: Board, overlay: Overlay, now: float) -> None:
        """Keep nothing at first; `overlay` is what the jobs that the plan starts leave free."""
        self.reservations: list[Reservation] = []
        self.groups = GroupRoom(board)
        self._board = board
        self._now = now
        #: What is free now, and what would be without backfilled jobs.
        self._overlay = overlay
        self._unhindered = _without_backfilled(board, overlay)
        #: By position and worker: when a ripe head starts there.
        self._starts: dict[tuple[int, str], KnownStart] = {}
        #: By worker and resource: no job from this position on gets any of it.
        self._closed: dict[tuple[str, str], int] = {}
        #: The first position of the priority reached last.
        self._reached = -NOBODY
        #: The workers without their jobs, and with the jobs that keep room: those could all run at once.
        self._beside = EmptyOverlay()
        #: Whether jobs have started since the plan reached a priority.
        self._has_starts = False
        #: By position: what each job that is still waiting keeps, and what it takes in the overlay above.
        self._chosen: dict[int, Reservation] = {}
        self._taken: dict[int, tuple[WorkerState, str, Allocation]] = {}
        #: What is free at a worker for a queue beside what is kept, and what a request lacks there.
        self._views: dict[tuple[str, str, bool], FreeView] = {}
        self._lacks: dict[tuple[str, str, bool, object], tuple[int, ReservedAmounts]] = {}
        #: The heads that keep room from equals too, first in line first.
        self.ripe_heads = sorted(
            (
                job
                for queue, head in board.heads.items()
                if is_ripe(head, board.patience, now)
                and (job := board.jobs.get(head.job)) is not None
                and job.state is State.QUEUED
                and not board.is_paused(queue)
                and self.groups.allows(job.spec.constraints, job.order, job.spec.request)
            ),
            key=lambda job: job.order,
        )

    def reach(self, order: int) -> set[str]:
        """Keep all room that the job at this position must leave alone; return the workers where more is kept."""
        target, known, closed = first_of(priority_in(order)), len(self.reservations), {*self._closed}
        while self._reached < target:
            levels = [first_of(priority_in(job.order)) for job in self.ripe_heads]
            passed, self._reached = self._reached, min([target, *(level for level in levels if level > self._reached)])
            self._views.clear()
            self._lacks.clear()
            self._keep_again(passed)
            self._keep_for_higher_priorities()
            self._keep_for_heads(self._ripe_heads_at(self._reached))
        return {each.worker for each in self.reservations[known:]} | {name for name, _ in self._closed.keys() - closed}

    def note_start(
        self, order: int, worker: WorkerState, queue: str, allocation: Allocation, *, is_backfill: bool
    ) -> None:
        """Note that a job starts; what a ripe head kept still goes to no equal in this plan, as if it were waiting."""
        if is_backfill and self._unhindered is self._overlay:
            self._unhindered = self._overlay.copy()
        elif not is_backfill and self._unhindered is not self._overlay:
            self._unhindered.take(worker, queue, allocation)
        self._overlay.take(worker, queue, allocation)
        self._has_starts = True
        self._let_go(order)

    def blocking(self, order: int, queue: str, worker: str, lasts_s: float | None = None) -> list[Reservation]:
        """Return the reservations that the job at a position must leave alone on a worker.

        `lasts_s` is after how many seconds the job has ended for certain; None if that is not known.
        """
        barred = barring(order, queue, worker, self.reservations)
        return barred if lasts_s is None else [each for each in barred if not self._may_pass(each, lasts_s)]

    def known_start(self, reservation: Reservation) -> KnownStart | None:
        """Return when a ripe head starts by the time limits of the jobs in its way; None if that is not known.

        Of another job nothing is known: equals may still pass it.
        """
        return self._starts.get((reservation.order, reservation.worker))

    def _may_pass(self, reservation: Reservation, lasts_s: float) -> bool:
        """Tell whether a job that starts now has ended before the job that keeps this room could start."""
        start = self.known_start(reservation)
        return start is not None and self._now + lasts_s <= start.earliest

    def closed_from(self, worker: WorkerState, queue: str, names: Iterable[str]) -> int:
        """Return the position from which on jobs that name these resources are not started on a worker."""
        if not self._closed:
            return NOBODY
        taken = devices_of(worker, queue, names)
        return min((self._closed.get((worker.info.name, name), NOBODY) for name in taken), default=NOBODY)

    def steps(self, worker: str, queue: str, lasts_s: float | None = None) -> Steps:
        """Return (end position, what is kept from earlier jobs of a queue) for jobs that are no ripe heads.

        What is kept only grows along the queue, so a job that fits at a later step also fits at an earlier one. With
        `lasts_s` the answer is for jobs that end in time, and empty if they may use no more than others.
        """
        there = [r for r in self.reservations if r.worker == worker]
        left = there if lasts_s is None else [r for r in there if not self._may_pass(r, lasts_s)]
        if lasts_s is not None and len(left) == len(there):
            return []
        here = [(r.blocks_from(queue), r) for r in left]
        ends = [*sorted({begin for begin, _ in here if begin < NOBODY}), NOBODY]
        kept = [[r for begin, r in here if begin < end] for end in ends]
        return [(end, joined(each, queue) if each else None) for end, each in zip(ends, kept, strict=True)]

    def _let_go(self, order: int) -> None:
        """Let other jobs choose their room as if the job at a position kept none."""
        self._chosen.pop(order, None)
        if order in self._taken:
            self._beside.give(*self._taken.pop(order))

    def _ripe_heads_at(self, first: int) -> list[Job]:
        """Return the ripe heads of the priority that begins at a position."""
        return [job for job in self.ripe_heads if first_of(priority_in(job.order)) == first]

    def _keep_again(self, first: int) -> None:
        """Let the ripe heads of a priority that still wait choose again, if jobs have started since they chose."""
        if self._has_starts:
            self._has_starts = False
            waiting = [job for job in self._ripe_heads_at(first) if job.order in self._chosen]
            for job in waiting:
                self._let_go(job.order)
            self._keep_for_heads(waiting)

    def _keep_for_heads(self, heads: Iterable[Job]) -> None:
        for job in heads:
            waiting = waiting_job(job)
            self._keep_for(waiting, able_workers(waiting, self._board), is_ripe=True)

    def _keep_for_higher_priorities(self) -> None:
        """Keep room for jobs before the position that was reached, in their order."""
        positions = self._board.positions
        if not positions or positions.first >= self._reached:
            return
        left = LeftJobs(
            self._board, self.groups, self._beside, self._reached, {each.order for each in self.reservations}
        )
        room_for = KEPT_MAX - sum(not each.is_ripe for each in self.reservations)
        while (found := left.next()) is not None:
            if not room_for:
                for at in left.further(*found):
                    self._closed.setdefault(at, self._reached)
                return
            room_for -= 1
            left.changed(self._keep_for(*found, is_ripe=False))

    def _keep_for(self, job: WaitingJob, workers: Iterable[WorkerState], *, is_ripe: bool) -> str | None:
        """Keep room for a job on that of these workers where it lacks least; return the worker's name."""
        # Jobs that use the room of a ripe head do not make it choose another worker: there it would wait anew.
        free = self._unhindered if is_ripe else self._overlay
        options = [(self._lack(job, worker, free)[0], worker.info.name, worker) for worker in workers]
        if not options:
            return None
        _, name, worker = min(options, key=lambda option: option[:2])
        reserved = self._lack(job, worker, self._overlay)[1]
        start = self._start_of(job, worker) if is_ripe and self._board.patience.backfills else None
        if start is not None and len(options) > 1:
            # Where its start is known, it waits where it starts first.
            starts = [(self._start_of(job, worker), worker) for _, _, worker in options]
            start, worker = min(((s, w) for s, w in starts if s is not None), key=lambda each: each[0].latest)
            name, reserved = worker.info.name, ReservedAmounts()
        if start is not None:
            self._starts[job.order, name] = start
            reserved = reserved_of(start.allocation, worker.free_view(job.queue))
        limited = is_limited(job.request, free.free_view(worker, job.queue).offer, worker.machine)
        chosen = self._chosen[job.order] = Reservation(job.order, job.queue, name, reserved, is_ripe, limited)
        if chosen not in self.reservations:
            self.reservations.append(chosen)
        allocation = fit(job.request, self._beside.free_view(worker, job.queue))
        if not isinstance(allocation, Shortage):
            self._beside.take(worker, job.queue, allocation)
            self._taken[job.order] = worker, job.queue, allocation
        self._views = {at: view for at, view in self._views.items() if at[0] != name}
        self._lacks = {at: lack for at, lack in self._lacks.items() if at[0] != name}
        return name

    def _start_of(self, job: WaitingJob, worker: WorkerState) -> KnownStart | None:
        """Return when a job starts on a worker beside what is kept there, by the time limits of others."""
        view = self._overlay.free_view(worker, job.queue)
        others = [each for each in self._chosen.values() if each.worker == worker.info.name]
        view.reserved = joined(others, job.queue)
        return known_start(self._board, worker, job.queue, job.request, view, self._now)

    def _lack(self, job: WaitingJob, worker: WorkerState, free: Overlay) -> tuple[int, ReservedAmounts]:
        """Return how much a job lacks on a worker beside what is kept there, and what it would keep."""
        at = (worker.info.name, job.queue, free is self._overlay)
        if (*at, job.request) not in self._lacks:
            if at not in self._views:
                view = self._views[at] = free.free_view(worker, job.queue)
                view.reserved = joined([each for each in self._chosen.values() if each.worker == at[0]], job.queue)
            self._lacks[*at, job.request] = keep(job.request, self._views[at])
        return self._lacks[*at, job.request]


def waiting_job(job: Job) -> WaitingJob:
    """Return what the planner looks at of a queued job."""
    return WaitingJob(job.order, job.spec.queue, job.spec.request, job.spec.constraints)


def _without_backfilled(board: Board, overlay: Overlay) -> Overlay:
    """Return what would be free without the jobs that use what is kept for heads."""
    backfilled = [board.holding[id_] for id_, attempt in board.times.backfilled if board.holds((id_, attempt))]
    if not backfilled:
        return overlay
    found = overlay.copy()
    for job in backfilled:
        assert job.placement is not None
        worker = board.workers.get(job.placement.worker)
        if worker is not None and board.counts(job):
            found.give(worker, job.spec.queue, job.placement.allocation)
    return found
