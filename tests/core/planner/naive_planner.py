"""A slow, plain plan: every job of the line is asked in turn. What the index answers must be the same."""

from __future__ import annotations

from grassq.core.model import Job, State
from grassq.core.planner.board import Board, Head
from grassq.core.planner.plan import PLACEMENTS_MAX
from grassq.core.planner.reservations import reservations
from grassq.core.planner.scan import Overlay, first_worker_that_fits
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.capacity import Devices
from grassq.core.resources.fit import fits_ever

Started = tuple[int, str, Allocation]


def plain_plan(board: Board, now: float) -> tuple[list[Started], dict[str, Head]]:
    """Who starts where with what, and the heads afterwards, of a board that is known whole."""
    if board.unreconciled or board.awaits(now):
        return [], board.heads
    scratch, kept = Overlay(), reservations(board, now)
    started: list[Started] = []
    blocked: dict[str, Job] = {}
    full: set[object] = set()
    for job in sorted((job for job in board.jobs.values() if job.state is State.QUEUED), key=lambda job: job.order):
        shape = (job.spec.queue, job.spec.request, job.spec.constraints)
        if board.is_paused(job.spec.queue) or shape in full:
            continue
        found = first_worker_that_fits(job, board, scratch, kept)
        if found is not None:
            for ledger in scratch.own(found[0], job.spec.queue):
                ledger.take(found[1])
            started.append((job.id, found[0].info.name, found[1]))
            continue
        full.add(shape)
        if job.spec.queue not in blocked and any(_is_able(worker, job) for worker in board.workers.values()):
            blocked[job.spec.queue] = job
    assert len(started) < PLACEMENTS_MAX
    return started, {queue: _head(board, job, started, now) for queue, job in blocked.items()}


def _is_able(worker: WorkerState, job: Job) -> bool:
    queue = job.spec.queue
    return (
        worker.takes
        and queue in worker.offers
        and worker.refuses(queue, job.spec.constraints) is None
        and _fits_alone(worker, job)
    )


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
