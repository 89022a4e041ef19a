"""The promise about priorities, judged by a count of its own after a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bench.packing.machines import Machine

from grassq.core.model import Job
from grassq.core.planner.board import Board
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.capacity import Capacity, Devices
from grassq.core.suspension.room import returning
from grassq.core.syntax.resource_names import VRAM


def robbed(board: Board, waiting: Iterable[Job], placed: set[int], held_back: set[int]) -> tuple[Job, list[int]] | None:
    """Whether jobs that were just placed took what the first in line lacks, though their priority is lower.

    Returns the first in line and the jobs of lower priority. Nothing is said of a queue with limits, nor of a job that
    keeps nothing because a ripe head of equal priority goes before it. A job that was just prefetched may have gone
    before too: a plan prefetches last, so the prefetched job kept room while the others started. While a suspended job
    waits to go on, its devices are free and nobody may have them: nothing is said then, either. A job that its groups
    do not let start keeps nothing; and of those that the planner lets pass a head for a while, `backfill.py` judges.
    """
    if returning(board):
        return None
    line = sorted(waiting, key=lambda job: job.order)
    just_placed = [board.holding[job_id] for job_id in placed]
    just_placed = [job for job in just_placed if job.attempt_id not in board.times.backfilled]
    prefetched = [job for job in just_placed if board.predecessor(job) is not None]
    for job in line:
        able = [worker for worker in board.offering(job.spec.queue) if could_run(worker, job)]
        if not able or board.is_paused(job.spec.queue) or job.id in held_back:
            continue
        offers = [worker.offers[job.spec.queue] for worker in able]
        equals = [other for other in line if other.priority == job.priority and other.id in board.kept]
        # Beside an equal that keeps room in a queue with limits, the job may wait for other devices than it lacks.
        offers += [w.offers[other.spec.queue] for other in equals for w in board.offering(other.spec.queue)]
        if any(offer.supply or offer.slot_set is not None for offer in offers):
            return None
        if (equals and job not in equals) or any(other.priority >= job.priority for other in prefetched):
            return None
        lesser = [other.id for other in just_placed if other.priority < job.priority and other not in prefetched]
        if not lesser:
            return None
        before, after = (min(_lack(board, worker, job, gone) for worker in able) for gone in ({*lesser}, set[int]()))
        return (job, sorted(lesser)) if after > before else None
    return None


def could_run(worker: WorkerState, job: Job) -> bool:
    """Whether a worker could run a job if it had nothing else to do."""
    queue = job.spec.queue
    if not worker.takes or worker.refuses(queue, job.spec.constraints) is not None:
        return False
    if worker.offers[queue].slot_set is not None:
        return True
    return Machine(worker.info.name, _open(worker)).pick(job.spec.request) is not None


def _open(worker: WorkerState) -> Capacity:
    """What a worker has, without the devices that are drained."""
    drained = worker.drained_devices
    return {
        name: Devices(tuple(device for device in supply.devices if device.id not in drained.get(name, ())))
        if isinstance(supply, Devices)
        else supply
        for name, supply in worker.machine.supply.items()
    }


def on_open(worker: WorkerState, allocation: Allocation) -> Allocation:
    """What an allocation holds of devices that are neither drained nor removed."""
    supply = _open(worker)["gpu"]
    ids = {device.id for device in supply.devices} if isinstance(supply, Devices) else set()
    parts = {
        name: {id_: part for id_, part in held.items() if id_ in ids}
        if isinstance(held, dict) and name in ("gpu", VRAM)
        else held
        for name, held in allocation.items()
    }
    return {name: held for name, held in parts.items() if held != {}}


def machine_of(board: Board, worker: WorkerState, without: Collection[int] = ()) -> Machine:
    """A worker with all that is held there, except by some jobs."""
    machine = Machine(worker.info.name, _open(worker))
    for held in board.held_by(worker.info.name):
        assert held.placement is not None
        if held.id not in without and board.counts(held):
            machine.take(on_open(worker, held.placement.allocation))
    return machine


def _lack(board: Board, worker: WorkerState, job: Job, without: set[int]) -> int:
    lack = machine_of(board, worker, without).lack(job.spec.request)
    assert lack is not None
    return lack
