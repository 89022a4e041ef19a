"""The jobs that a plan has left waiting, in order, as far as they could run beside the jobs that keep room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from msgspec import Struct

from grassq.core.planner.board import Board
from grassq.core.planner.limits.group_room import GroupRoom
from grassq.core.planner.overlay import EmptyOverlay
from grassq.core.planner.request_classes import RequestClass
from grassq.core.planner.reservations import WaitingJob
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.fit import Shortage, fit, most
from grassq.core.syntax.resource_names import SLOTS_OF, VRAM, VRAM_OF


class _Candidate(Struct, eq=False):
    """One request class at one worker: the most that a job could get there, and the jobs that could."""

    worker: WorkerState
    #: How many jobs kept room on the worker when the fields below were made.
    age: int
    at_most: list[int]
    found: Iterator[tuple[int, int]]


class LeftJobs:
    """The jobs before a position, looked up class by class as `scan.py` does."""

    def __init__(self, board: Board, groups: GroupRoom, beside: EmptyOverlay, end: int, served: set[int]) -> None:
        """`beside` has the jobs that keep room already, at the positions `served`; `groups` what is left of limits."""
        self._groups = groups
        self._beside = beside
        self._end = end
        self._served = served
        #: How many jobs keep room on a worker since this began.
        self._ages: dict[str, int] = {}
        self._at_most: dict[tuple[str, str, tuple[str, ...], int], list[int]] = {}
        self._classes: list[tuple[RequestClass, list[_Candidate]]] = []
        #: The shapes that were found: class and key. Their further jobs follow in the list below.
        self._seen: set[tuple[int, int]] = set()
        #: (position, class, key, candidate): the first job of a candidate, or the next job of a shape (no candidate).
        self._shown: list[tuple[int, int, int, int]] = []
        for request_class in board.request_classes():
            if request_class.count and not board.is_paused(request_class.queue):
                takers = board.takers(request_class.queue, request_class.constraints)
                self._classes.append((request_class, [self._candidate(request_class, worker) for worker in takers]))
        for number, (_, candidates) in enumerate(self._classes):
            for which in range(len(candidates)):
                self._show(number, which)
        heapify(self._shown)

    def next(self) -> tuple[WaitingJob, list[WorkerState]] | None:
        """Return the next job and the workers that could run it; call `changed` before the next call."""
        while self._shown:
            order, number, key, which = heappop(self._shown)
            if which >= 0:
                is_new = (number, key) not in self._seen
                self._seen.add((number, key))
                self._show(number, which)
                if not is_new:
                    continue
            found = self._job(order, number, key)
            if found[1]:
                self._show_after(order, number, key)
                if order not in self._served:
                    return found
        return None

    def changed(self, worker: str | None) -> None:
        """Note that a job keeps room on a worker, where less can run beside from now on."""
        if worker is not None:
            self._ages[worker] = self._ages.get(worker, 0) + 1

    def further(self, job: WaitingJob, workers: list[WorkerState]) -> set[tuple[str, str]]:
        """Return where a job and those after it could run: the workers, and the resources they ask for there."""
        found = {(worker.info.name, name) for worker in workers for name in devices_of(worker, job.queue, job.names)}
        shown, self._shown = self._shown, []
        for _, number, key, which in shown:
            if which >= 0 and (number, key) in self._seen:
                self._show(number, which)
        for _, number, key, which in [*shown, *self._shown]:
            request_class, candidates = self._classes[number]
            for candidate in candidates if which < 0 else [candidates[which]]:
                if which < 0 or (number, key) not in self._seen:
                    names = devices_of(candidate.worker, request_class.queue, request_class.names)
                    found |= {(candidate.worker.info.name, name) for name in names}
        return found

    def _candidate(self, request_class: RequestClass, worker: WorkerState) -> _Candidate:
        name, age = worker.info.name, self._ages.get(worker.info.name, 0)
        at = (name, request_class.queue, request_class.names, age)
        if at not in self._at_most:
            free_view = self._beside.free_view(worker, request_class.queue)
            self._at_most[at] = [most(name, free_view) for name in request_class.names]
        return _Candidate(worker, age, self._at_most[at], self._groups.fitting(request_class, self._at_most[at]))

    def _up_to_date(self, number: int, which: int) -> _Candidate:
        request_class, candidates = self._classes[number]
        candidate = candidates[which]
        if candidate.age != self._ages.get(candidate.worker.info.name, 0):
            candidate = candidates[which] = self._candidate(request_class, candidate.worker)
        return candidate

    def _show(self, number: int, which: int) -> None:
        """Show the next shape of a candidate that was not found yet."""
        for order, key in self._up_to_date(number, which).found:
            if order >= self._end:
                return
            if (number, key) not in self._seen:
                heappush(self._shown, (order, number, key, which))
                return

    def _show_after(self, order: int, number: int, key: int) -> None:
        after = self._classes[number][0].after(key, order)
        if after is not None and after < self._end:
            heappush(self._shown, (after, number, key, -1))

    def _job(self, order: int, number: int, key: int) -> tuple[WaitingJob, list[WorkerState]]:
        request_class, candidates = self._classes[number]
        job = WaitingJob(order, request_class.queue, request_class.request(key), request_class.constraints)
        fresh = (self._up_to_date(number, which) for which in range(len(candidates)))
        return job, [candidate.worker for candidate in fresh if self._could_run(job, candidate)]

    def _could_run(self, job: WaitingJob, candidate: _Candidate) -> bool:
        if any(amount > most for (_, amount), most in zip(job.request, candidate.at_most, strict=True)):
            return False
        if not self._groups.allows(job.constraints, job.order, job.request):
            return False
        # Memory must be free on the devices that the job gets.
        view = self._beside.free_view(candidate.worker, job.queue)
        return VRAM not in job.names or not isinstance(fit(job.request, view), Shortage)


def devices_of(worker: WorkerState, queue: str, names: Iterable[str]) -> set[str]:
    """Return the resources that jobs of a queue take on a worker: memory is a part of its devices."""
    if worker.offers[queue].slot_set is not None:
        return {SLOTS_OF}
    return {VRAM_OF if name == VRAM else name for name in names}
