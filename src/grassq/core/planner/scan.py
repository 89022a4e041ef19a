"""One scan of the queued jobs: which start where, in order, and which job is left at the front of each queue.

A candidate is one request class at one worker, with the first job of the class that fits there; the class's index
answers that. The first of all candidates starts, and only the candidates it changed are looked up again. So a scan
costs as much as the jobs it starts, not as the jobs that wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.model import AttemptId, Job
from grassq.core.planner.board import Board
from grassq.core.planner.kept_room import KeptRoom, Steps
from grassq.core.planner.limits.groups import names_in
from grassq.core.planner.limits.known_starts import lasts_s
from grassq.core.planner.overlay import Overlay
from grassq.core.planner.request_classes import RequestClass, amounts_of
from grassq.core.planner.reservations import NOBODY, joined
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.fit import Shortage, fit, most
from grassq.core.suspension.room import keeping


class PlannedStart(Struct, frozen=True):
    """A job that starts: its queue position, worker and allocation, and where its shape is found."""

    order: int
    worker: WorkerState
    queue: str
    allocation: Allocation
    request_class: RequestClass
    key: int
    #: The job uses what is kept for a head that could not start before the job has ended.
    is_backfill: bool = False
    #: The attempt whose devices a prefetched attempt takes over.
    after: AttemptId | None = None


class HeadCandidate(Struct, frozen=True):
    """The first job of a queue that some worker could run and that does not start."""

    order: int
    request_class: RequestClass
    key: int


class _Candidate(Struct, eq=False):
    """One request class at one worker, and the first job of the class that fits there."""

    worker: WorkerState
    request_class: RequestClass
    order: int = NOBODY
    key: int = -1
    allocation: Allocation = {}
    is_backfill: bool = False
    #: The seconds after which its jobs have ended for certain, and whether a group of its jobs has a limit.
    lasts_s: float | None = None
    is_limited: bool = False


class Scan:
    """A scan of a board's queued jobs; `done` puts the board's indexes back as they were."""

    def __init__(self, board: Board, now: float) -> None:
        self._board = board
        self.overlay = Overlay()
        for job in keeping(board):
            # No other job gets what a suspended job needs to go on.
            if job.placement is not None and (worker := board.workers.get(job.placement.worker)) is not None:
                self.overlay.take(worker, job.spec.queue, job.placement.allocation)
        self.room = KeptRoom(board, self.overlay, now)
        #: By worker, queue, and the time after which a job has ended for certain.
        self._steps: dict[tuple[str, str, float | None], Steps] = {}
        #: A prefetched job does not use what is kept for a head: the time of its start is not known.
        self._may_backfill = True
        #: Shapes of which jobs start: request class and key, and the next queue position of the shape.
        self._passed: dict[tuple[int, int], tuple[RequestClass, int | None]] = {}
        #: The ripe heads; the last one comes first.
        self._heads = self.room.ripe_heads[::-1]
        self._candidates = [
            _Candidate(worker, request_class, lasts_s=lasts, is_limited=is_limited)
            for request_class in board.request_classes()
            if request_class.count and not board.is_paused(request_class.queue)
            for lasts in (lasts_s(request_class.constraints),)
            for is_limited in (bool(self.room.groups.limited(request_class.constraints)),)
            for worker in board.takers(request_class.queue, request_class.constraints)
        ]
        #: Candidates by queue position; an entry whose position is outdated is skipped.
        self._shown: list[tuple[int, str, int]] = []

    def starts(self, at_most: int) -> Iterator[PlannedStart]:
        """Iterate over the jobs that start, in order; each takes its amounts before the next is looked for."""
        for number in range(len(self._candidates)):
            self._look(number)
        return islice(iter(self._next, None), at_most)

    def prefetched(self, tails: list[Job], at_most: int) -> Iterator[PlannedStart]:
        """Iterate over the jobs that would start if these jobs ended, each on the devices of one of them."""
        changed: set[str] = set()
        self._may_backfill, uses = False, self.room.groups.uses()
        for tail in tails:
            assert tail.placement is not None
            changed.add(tail.placement.worker)
            worker = self._board.workers[tail.placement.worker]
            self.overlay.give(worker, tail.spec.queue, tail.placement.allocation)
            self.room.groups.give(tail)
        for number, candidate in enumerate(self._candidates):
            if candidate.worker.info.name in changed:
                self._look(number)
        waiting = list(tails)
        for _ in range(min(at_most, len(tails))):
            start = self._next()
            predecessor = None if start is None else next((t for t in waiting if self._takes_over(start, t)), None)
            if start is None or predecessor is None:
                break
            waiting.remove(predecessor)
            yield replace(start, after=predecessor.attempt_id)
        # A prefetched job counts in its groups when it takes over.
        self.room.groups.restore(uses)

    def keep_all_room(self) -> None:
        """Keep room for every waiting job that may, though no job of a lower priority could start."""
        if self._board.positions:
            self._note_kept(self.room.reach(self._board.positions.last))

    def has_more(self) -> bool:
        """Tell whether more jobs may be able to start."""
        return bool(self._heads) or self._front() is not None

    def left(self) -> dict[str, HeadCandidate]:
        """Return the first job left of each queue, if some connected worker could run it when empty."""
        left: dict[str, HeadCandidate] = {}
        for candidate in self._candidates:
            queue = candidate.request_class.queue
            max_fit = candidate.worker.max_fit(queue, candidate.request_class.names)
            for order, key in self.room.groups.fitting(candidate.request_class, max_fit.most):
                if queue in left and left[queue].order <= order:
                    break
                if max_fit.holds(candidate.request_class.request(key)):
                    left[queue] = HeadCandidate(order, candidate.request_class, key)
                    break
        return left

    def done(self) -> None:
        """Put the indexes back as they were."""
        for (_, key), (request_class, _) in self._passed.items():
            request_class.restore(key)

    def _next(self) -> PlannedStart | None:
        while True:
            front, head = self._front(), self._heads[-1] if self._heads else None
            orders = [each.order for each in (front, head) if each is not None]
            if not orders:
                return None
            if more_kept := self.room.reach(min(orders)):
                self._note_kept(more_kept)
            elif head is not None and head.order == min(orders):
                start = self._start_head(self._heads.pop())
                if start is not None:
                    return start
            elif front is not None:
                heappop(self._shown)
                return self._take(front)

    def _front(self) -> _Candidate | None:
        """Return the candidate with the first queue position; of equals the first worker's."""
        while self._shown:
            order, _, number = self._shown[0]
            if self._candidates[number].order == order:
                return self._candidates[number]
            heappop(self._shown)
        return None

    def _start_head(self, job: Job) -> PlannedStart | None:
        """Start a head with a reservation: only reservations of earlier heads block it."""
        request_class = self._board.request_class_of(job)
        key = request_class.key_of(amounts_of(job.spec.request)[1])
        passed = self._passed.get((id(request_class), key))
        if (request_class.first(key) if passed is None else passed[1]) != job.order:
            return None  # another job of its shape came back, goes first and does not fit
        if not self.room.groups.allows(job.spec.constraints, job.order, job.spec.request):
            return None
        found = first_worker_that_fits(job, self._board, self.overlay, self.room)
        if found is None:
            return None
        return self._take(_Candidate(found[0], request_class, job.order, key, found[1]))

    def _take(self, found: _Candidate) -> PlannedStart:
        worker, request_class, order, key = found.worker, found.request_class, found.order, found.key
        queue, groups = request_class.queue, self.room.groups
        start = PlannedStart(order, worker, queue, found.allocation, request_class, key, found.is_backfill)
        self.room.note_start(order, worker, queue, start.allocation, is_backfill=start.is_backfill)
        self._passed[id(request_class), key] = (request_class, request_class.pass_first(key, order))
        limited = groups.limited(request_class.constraints)
        if limited:
            groups.take(limited, order, request_class.request(key))
        for number, candidate in enumerate(self._candidates):
            if (
                candidate.worker is worker
                or (candidate.order == order and candidate.request_class is request_class)
                or (limited and not {*limited}.isdisjoint(names_in(candidate.request_class.constraints)))
            ):
                self._look(number)
        return start

    def _note_kept(self, workers: Collection[str]) -> None:
        """Look up the candidates at these workers, where more is kept; a candidate without a job gets none by that."""
        self._steps = {at: steps for at, steps in self._steps.items() if at[0] not in workers}
        for number, candidate in enumerate(self._candidates):
            if candidate.worker.info.name in workers and candidate.order != NOBODY:
                self._look(number)

    def _look(self, number: int) -> None:
        candidate = self._candidates[number]
        candidate.order = NOBODY
        self._look_within(candidate, None)
        if candidate.lasts_s is not None and self._may_backfill:
            # Only a job that finds no other room uses what is kept.
            self._look_within(candidate, candidate.lasts_s)
        if candidate.order != NOBODY:
            heappush(self._shown, (candidate.order, candidate.worker.info.name, number))

    def _look_within(self, candidate: _Candidate, lasts: float | None) -> None:
        """Find the first job of a candidate before the one that was found already."""
        request_class, worker = candidate.request_class, candidate.worker
        end = self.room.closed_from(worker, request_class.queue, request_class.names)
        end = min(end, candidate.order)
        for upto, reserved in self._steps_at(worker, request_class.queue, lasts):
            free_view = self.overlay.free_view(worker, request_class.queue)
            free_view.reserved = reserved
            at_most = [most(name, free_view) for name in request_class.names]
            groups = self.room.groups
            fits = (
                groups.fitting(request_class, at_most) if candidate.is_limited else request_class.index.fitting(at_most)
            )
            for order, key in fits:
                if order >= upto or order >= end:
                    break
                found = fit(request_class.request(key), free_view)
                if not isinstance(found, Shortage):
                    candidate.order, candidate.key = order, key
                    candidate.allocation, candidate.is_backfill = found, lasts is not None
                    return

    def _steps_at(self, worker: WorkerState, queue: str, lasts: float | None) -> Steps:
        at = (worker.info.name, queue, lasts)
        if at not in self._steps:
            self._steps[at] = self.room.steps(*at)
        return self._steps[at]

    def _takes_over(self, start: PlannedStart, tail: Job) -> bool:
        """Tell whether a job that starts gets the devices of another, and holds as much of the limits of its groups."""
        where = tail.placement
        assert where is not None
        mine = (start.worker.info.name, start.queue, start.allocation)
        if mine != (where.worker, tail.spec.queue, where.allocation):
            return False
        limited = self.room.groups.limited(start.request_class.constraints)
        if limited != self.room.groups.limited(tail.spec.constraints):
            return False
        return not limited or start.request_class.request(start.key) == tail.spec.request


def first_worker_that_fits(
    job: Job, board: Board, overlay: Overlay, room: KeptRoom
) -> tuple[WorkerState, Allocation] | None:
    """Return the first worker where a job fits now, and its allocation."""
    for worker in board.takers(job.spec.queue, job.spec.constraints):
        names = [name for name, _ in job.spec.request]
        if job.order >= room.closed_from(worker, job.spec.queue, names):
            continue
        free_view = overlay.free_view(worker, job.spec.queue)
        free_view.reserved = joined(room.blocking(job.order, job.spec.queue, worker.info.name), job.spec.queue)
        found = fit(job.spec.request, free_view)
        if not isinstance(found, Shortage):
            return worker, found
    return None
