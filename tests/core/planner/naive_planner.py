"""A slow, plain plan: every job of the line is asked in turn. What the index answers must be the same."""

from __future__ import annotations

from grassq.core.model import Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Head, is_ripe
from grassq.core.planner.kept_room import KEPT_MAX
from grassq.core.planner.overlay import EmptyOverlay, Overlay
from grassq.core.planner.plan import PLACEMENTS_MAX
from grassq.core.planner.reservations import Reservation, is_limited, joined, keep
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.capacity import Devices
from grassq.core.resources.fit import Shortage, fit, fits_ever

Started = tuple[int, str, Allocation]


class PlainPlan:
    """One plan, job by job."""

    def __init__(self, board: Board, now: float) -> None:
        self.board = board
        self.overlay, self.beside = Overlay(), EmptyOverlay()
        self.kept: list[Reservation] = []
        #: What each waiting job keeps, by its id: a ripe head may have chosen more than once.
        self.chosen: dict[int, Reservation] = {}
        self.started: list[Started] = []
        self.beside_of: dict[int, tuple[WorkerState, str, Allocation]] = {}
        self.left: list[Job] = []
        self.ripe = {head.job for head in board.heads.values() if is_ripe(head, board.patience, now)}

    def play(self) -> None:
        """Ask every job, priority by priority."""
        queued = [job for job in self.board.jobs.values() if job.state is State.QUEUED]
        line = sorted((job for job in queued if not self.board.is_paused(job.spec.queue)), key=lambda job: job.order)
        for priority in sorted({job.priority for job in line}, reverse=True):
            for job in self.left:
                self.keep_beside(job)
            equals = [job for job in line if job.priority == priority]
            self.keep_for_heads(equals)
            full: set[object] = set()
            for job in equals:
                shape = (job.spec.queue, job.spec.request, job.spec.constraints)
                if shape in full or not self.start(job):
                    full.add(shape)
                    self.left.append(job)
            again = [job for job in equals if job.id in self.chosen]
            for job in again:
                self.let_go(job)
            self.keep_for_heads(again)

    def start(self, job: Job) -> bool:
        """Start a job on the first worker where it fits beside what is kept from it."""
        for name in sorted(self.board.workers):
            worker = self.board.workers[name]
            if not _may_run(worker, job):
                continue
            view = self.overlay.free_view(worker, job.spec.queue)
            barring = [each for each in self.kept if each.worker == name and self.bars(each, job)]
            view.reserved = joined(barring, job.spec.queue)
            found = fit(job.spec.request, view)
            if not isinstance(found, Shortage):
                self.overlay.take(worker, job.spec.queue, found)
                self.started.append((job.id, name, found))
                self.let_go(job)
                return True
        return False

    def let_go(self, job: Job) -> None:
        """Let others choose as if a job kept nothing."""
        self.chosen.pop(job.id, None)
        if job.id in self.beside_of:
            self.beside.give(*self.beside_of.pop(job.id))

    def keep_for_heads(self, equals: list[Job]) -> None:
        """Keep room for those of these jobs that are ripe heads."""
        for job in equals:
            if job.id in self.ripe:
                self.keep(job, [worker for worker in self.board.workers.values() if _is_able(worker, job)])

    def bars(self, kept: Reservation, job: Job) -> bool:
        """Whether a job must leave alone what is kept: by the rules as ADR 003 and 017 state them."""
        keeper = next(other for other in self.board.jobs.values() if other.order == kept.order)
        same_queue = keeper.spec.queue == job.spec.queue
        if kept.is_own_queue_only and not same_queue:
            return False
        if keeper.priority > job.priority:
            return True
        if keeper.id not in self.ripe or keeper.priority < job.priority or keeper.id == job.id:
            return False
        return keeper.order < job.order or (not same_queue and job.id not in self.ripe)

    def keep_beside(self, job: Job) -> None:
        """Keep room for a job that could run beside all that keep room already."""
        if any(each.order == job.order for each in self.kept):
            return
        assert len(self.kept) < KEPT_MAX
        workers = [worker for worker in self.board.workers.values() if _is_able(worker, job)]
        self.keep(
            job,
            [
                worker
                for worker in workers
                if not isinstance(
                    fit(job.spec.request, self.beside.free_view(worker, job.spec.queue)),
                    Shortage,
                )
            ],
        )

    def keep(self, job: Job, workers: list[WorkerState]) -> None:
        """Keep room for a job on that of these workers where it lacks least."""
        options = []
        for worker in workers:
            view = self.overlay.free_view(worker, job.spec.queue)
            here = [each for each in self.chosen.values() if each.worker == worker.info.name]
            view.reserved = joined(here, job.spec.queue)
            options.append((*keep(job.spec.request, view), worker, view))
        if not options:
            return
        _, reserved, worker, view = min(options, key=lambda option: (option[0], option[2].info.name))
        is_own_queue_only, name = is_limited(job.spec.request, view.offer, worker.machine), worker.info.name
        is_ripe = job.id in self.ripe
        self.chosen[job.id] = Reservation(job.order, job.spec.queue, name, reserved, is_ripe, is_own_queue_only)
        if self.chosen[job.id] not in self.kept:
            self.kept.append(self.chosen[job.id])
        allocation = fit(job.spec.request, self.beside.free_view(worker, job.spec.queue))
        if not isinstance(allocation, Shortage):
            self.beside.take(worker, job.spec.queue, allocation)
            self.beside_of[job.id] = worker, job.spec.queue, allocation


def plain_plan(board: Board, now: float) -> tuple[list[Started], dict[str, Head]]:
    """Who starts where with what, and the heads afterwards, of a board that is known whole."""
    if board.unreconciled or board.awaits(now):
        return [], board.heads
    plain = PlainPlan(board, now)
    plain.play()
    assert len(plain.started) < PLACEMENTS_MAX
    heads: dict[str, Job] = {}
    for job in plain.left:
        if any(_is_able(worker, job) for worker in board.workers.values()):
            heads.setdefault(job.spec.queue, job)
    return plain.started, {queue: _head(board, job, plain.started, now) for queue, job in heads.items()}


def _may_run(worker: WorkerState, job: Job) -> bool:
    queue = job.spec.queue
    return worker.takes and queue in worker.offers and worker.refuses(queue, job.spec.constraints) is None


def _is_able(worker: WorkerState, job: Job) -> bool:
    return _may_run(worker, job) and _fits_alone(worker, job)


def _fits_alone(worker: WorkerState, job: Job) -> bool:
    offer, there = worker.offer(job.spec.queue), worker.machine.supply
    assert offer is not None
    if not offer.slots:
        return fits_ever(job.spec.request, there, worker.offers[offer.queue].supply) is None
    # Whatever is asked for: one slot is enough whose devices are there.
    gpus = there.get("gpu", Devices(()))
    ids = {device.id for device in gpus.devices} if isinstance(gpus, Devices) else set()
    return any(ids.issuperset(slot.ids) for slot in offer.slots)


def _head(board: Board, job: Job, started: list[Started], now: float) -> Head:
    passed = sum(
        _is_able(board.workers[worker], job) and board.jobs[other].order > job.order for other, worker, _ in started
    )
    known = board.heads.get(job.spec.queue)
    if known is not None and known.job == job.id:
        return Head(job.id, known.since, known.passed + passed)
    return Head(job.id, now, passed)
