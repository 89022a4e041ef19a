"""Why a queued job does not start, answered by the same `fit` that the planner uses."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.model import ANYWHERE, Constraints, Job, id_in
from grassq.core.planner.board import Board
from grassq.core.planner.reservations import barring, joined, reservations
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Request, amount_text
from grassq.core.resources.capacity import Devices
from grassq.core.resources.fit import FreeView, Shortage, fit, fits_ever
from grassq.core.syntax.resource_names import SLOT, VRAM, VRAM_OF

#: The resource of a blocker when the worker itself cannot take the job.
WORKER = "worker"


class Blocker(Struct, frozen=True):
    """Why a job does not start on one worker."""

    worker: str
    resource: str
    needed: int
    free: int
    why: str
    holders: tuple[int, ...] = ()


def explain(board: Board, job: Job, now: float) -> list[Blocker]:
    """Return why a queued job has not started, per worker; an empty list if the next plan starts it."""
    kept = reservations(board, now)
    blockers: list[Blocker] = []
    asked, only = _asked(board, job.spec.queue, job.spec.constraints), job.spec.constraints.worker
    if not asked and only is not None:
        return [Blocker(only, WORKER, 0, 0, f"worker {only} has no queue {job.spec.queue!r}")]
    for worker in asked:
        name = worker.info.name
        closed = worker.refuses(job.spec.queue, job.spec.constraints) or _closed(worker)
        if closed is not None:
            blockers.append(Blocker(name, WORKER, 0, 0, closed))
            continue
        free_view = worker.free_view(job.spec.queue)
        alone = fit(job.spec.request, free_view)
        free_view.reserved = joined(barring(job, name, kept), job.spec.queue)
        found = fit(job.spec.request, free_view)
        if not isinstance(found, Shortage):
            return []
        if not isinstance(alone, Shortage):
            heads = ", ".join(f"job {id_in(head.order)}" for head in barring(job, name, kept))
            why = f"{found.resource} is free but kept for {heads}, which has waited longer"
            blockers.append(Blocker(name, found.resource, found.needed, found.free, why))
            continue
        blockers.append(_blocker(board, worker, job.spec.queue, found))
    return blockers


def _asked(board: Board, queue: str, constraints: Constraints) -> list[WorkerState]:
    """Return the workers that offer a queue, or only the worker the job asks for."""
    return [worker for worker in board.offering(queue) if constraints.worker in (None, worker.info.name)]


def _closed(worker: WorkerState) -> str | None:
    name = worker.info.name
    if not worker.online:
        return f"worker {name} is out of touch"
    if worker.drained:
        return f"worker {name} is drained; `grass drain --undo {name}` lets it take jobs again"
    if worker.unrecorded:
        job, attempt = min(worker.unrecorded)
        return (
            f"worker {name} may run attempt {attempt} of job {job}, which the store has no record of since it was lost "
            "or restored from a backup; `grass resume --restored` goes on without waiting for its end"
        )
    return None


def _group(resource: str) -> str:
    """Return the devices a resource belongs to: memory belongs to its devices, everything else to itself."""
    return VRAM_OF if resource == VRAM else resource


def _blocker(board: Board, worker: WorkerState, queue: str, found: Shortage) -> Blocker:
    name, group = worker.info.name, _group(found.resource)
    if group != SLOT and worker.info.may_appear(group) and group not in worker.machine.supply:
        return Blocker(name, found.resource, found.needed, found.free, "devices are still being looked for")
    holders = board.holders(name, found.resource) or board.holders(name, group)
    if not holders and group == VRAM_OF:
        holders = board.holders(name, VRAM)
    ids = tuple(sorted(job.id for job in holders if _is_in_the_way(job, worker, queue, found)))
    return Blocker(name, found.resource, found.needed, found.free, found.why, ids)


def _is_in_the_way(holder: Job, worker: WorkerState, queue: str, found: Shortage) -> bool:
    """Tell whether a job holds some of what is short for a queue: its slots, devices or limit, or the machine's."""
    group, view = _group(found.resource), worker.free_view(queue)
    supply = view.supply(group)
    if isinstance(supply, Devices):
        allowed = {device.id for device in supply.devices}
        held = holder.placement.allocation if holder.placement else {}
        parts = [held.get(name) for name in (group, VRAM) if _group(name) == group]
        return any(isinstance(part, dict) and not allowed.isdisjoint(part) for part in parts)
    # Where the machine has enough left, the queue has used up its own slots or limit.
    has_enough = FreeView(view.machine, view.machine).pool_free(group) >= found.needed
    return holder.spec.queue == queue or not (has_enough or group == SLOT)


def never_fits(board: Board, queue: str, request: Request, constraints: Constraints = ANYWHERE) -> str | None:
    """Return why no known worker can ever run this, or None."""
    if constraints.worker is not None and constraints.worker not in board.workers:
        return f"there is no worker {constraints.worker!r}; `grass show` lists them"
    reasons = []
    asked = _asked(board, queue, constraints)
    if not asked and any(board.offering(queue)):
        return f"worker {constraints.worker!r} has no queue {queue!r}"
    for worker in asked:
        if (refusal := worker.refuses(queue, constraints)) is not None:
            reasons.append(refusal)
            continue
        offer = worker.offers[queue].supply
        may_appear = worker.info.may_appear
        # Until detection ends the machine may have more, but a queue's own limit holds already.
        machine = {name: supply for name, supply in offer.items() if may_appear(name)} | worker.machine.supply
        found = fits_ever(request, machine, offer, worker.offers[queue].slot_set)
        if found is None or (may_appear(_group(found.resource)) and found.resource not in machine):
            return None
        where = f"queue {queue!r} on {worker.info.name}"
        if worker.offers[queue].slot_set is not None:
            reasons.append(f"{where} has no slot whose devices are all there")
            continue
        most = f"has {amount_text(found.free)}" if found.free else "has none"
        reasons.append(f"{amount_text(found.needed)} {found.resource} asked, {where} {most}")
    if reasons and constraints.labels:
        reasons += _labelled_elsewhere(board, queue, constraints)
    # Many workers often share one reason.
    return "; ".join(dict.fromkeys(reasons)) or None


def _labelled_elsewhere(board: Board, queue: str, constraints: Constraints) -> list[str]:
    """Return the workers that have all the labels, but not the queue."""
    have = [worker for worker in board.workers.values() if set(constraints.labels) <= set(worker.info.labels)]
    return [
        f"worker {worker.info.name} has the label but no queue {queue!r}"
        for worker in have
        if worker.offer(queue) is None
    ]
