"""Queues and workers as the documents that users see."""

from __future__ import annotations

from collections.abc import Sequence

from grassq.broker.batch import Batch
from grassq.broker.documents.fleet import DiskShortDocument, QueueDocument, SlotDocument, WorkerDocument
from grassq.broker.documents.texts import maybe_text, timestamp, word_text
from grassq.core.model import Offer, QueueTemplate
from grassq.core.planner.board import Board
from grassq.core.planner.explain import short_text
from grassq.core.planner.workers import WorkerState
from grassq.core.printable import printable
from grassq.core.resources.amounts import allocation_json
from grassq.core.resources.capacity import Pool
from grassq.core.resources.fit import FreeView, free_json, supply_json
from grassq.core.resources.slots import held_slots
from grassq.core.syntax.resource_names import SLOT, VRAM, VRAM_OF
from grassq.core.syntax.slots import device_order


def workers_of(batch: Batch) -> list[WorkerState]:
    """Return the workers by name."""
    return [batch.board.workers[name] for name in sorted(batch.board.workers)]


def queue_documents(batch: Batch) -> list[QueueDocument]:
    """Return each queue on each worker, and the queues of the broker that no worker offers."""
    offered = [queue_document(batch, s, offer.queue) for s in workers_of(batch) for offer in s.info.offers]
    return offered + [
        _template_document(batch, template)
        for queue, template in sorted(batch.board.templates.items())
        if next(batch.board.offering(queue), None) is None
    ]


def _template_document(batch: Batch, template: QueueTemplate) -> QueueDocument:
    """Return a queue that no worker offers yet as data."""
    return {
        "name": template.offer.queue,
        "worker": None,
        "at_broker": True,
        "labels": list(template.labels),
        "paused": batch.board.is_paused(template.offer.queue),
        "limits": {},
        "free": {},
        "slots": [],
        "order": template.offer.order if template.offer.slots else None,
        "prefix": _words(template.offer.prefix),
        "cwd": maybe_text(template.offer.cwd),
        "wrap": maybe_text(template.offer.wrap),
        "time_limit_s": template.offer.time_limit_s,
        "max_time_limit_s": template.offer.max_time_limit_s,
        "running": 0,
        "queued": batch.board.unfinished(template.offer.queue),
    }


def _words(words: Sequence[bytes]) -> list[str]:
    return [word_text(word) for word in words]


def queue_document(batch: Batch, worker: WorkerState, queue: str) -> QueueDocument:
    """Return one queue on one worker as a document."""
    offer = worker.offer(queue)
    assert offer is not None
    free_view = worker.free_view(queue)
    found = free_view.offer.supply
    # Sums as they were typed, devices as they were found.
    limits = {name: limit if isinstance(limit, Pool) else found[name] for name, limit in offer.limits.items()}
    return {
        "name": queue,
        "worker": worker.info.name,
        "at_broker": worker.own_offer(queue) is None,
        "paused": batch.board.is_paused(queue),
        "limits": supply_json(limits),
        "free": free_json(free_view, found),
        "slots": _slot_documents(batch.board, worker, offer),
        "order": offer.order if offer.slots else None,
        "prefix": _words(offer.prefix),
        "cwd": maybe_text(offer.cwd),
        "wrap": maybe_text(offer.wrap),
        "time_limit_s": offer.time_limit_s,
        "max_time_limit_s": offer.max_time_limit_s,
        "running": sum(job.spec.queue == queue for job in batch.board.held_by(worker.info.name)),
        "queued": batch.board.queued(queue),
    }


def _slot_documents(board: Board, worker: WorkerState, offer: Offer) -> list[SlotDocument]:
    """Return the slots of a queue as they were listed, with the job that holds each slot now."""
    holders: dict[int, int] = {}
    for job in board.held_by(worker.info.name) if offer.slots else ():
        if job.spec.queue == offer.queue and job.placement is not None and board.counts(job):
            holders.update(dict.fromkeys(held_slots(offer.slots, job.placement.allocation), job.id))
    return [
        {"name": slot.name, "gpu": list(slot.ids), "job": holders.get(index)} for index, slot in enumerate(offer.slots)
    ]


def worker_document(batch: Batch, worker: WorkerState) -> WorkerDocument:
    """Return one worker as a document."""
    capacity = worker.machine.supply
    silent_s = worker.silent_s(batch.mono)
    return {
        "name": worker.info.name,
        "online": worker.online,
        "drained": worker.drained,
        "drained_devices": {name: sorted(ids, key=device_order) for name, ids in worker.drained_devices.items()},
        "leaving_devices": leaving_devices(batch.board, worker),
        "labels": list(worker.info.labels),
        "version": worker.info.version or None,
        "silent_s": None if worker.online else round(silent_s, 3),
        "jobs": len(batch.board.held_by(worker.info.name)),
        "capacity": supply_json(capacity),
        "free": free_json(FreeView(worker.machine, worker.machine), capacity),
        "used_by_others": allocation_json(worker.info.used_by_others),
        # For an offline worker: the time it was last heard.
        "since": timestamp(worker.since if worker.online else batch.now - silent_s),
        "detecting": bool(worker.info.looked_for),
        "disk_short": disk_short(worker),
    }


def leaving_devices(board: Board, worker: WorkerState) -> dict[str, list[str]]:
    """Return the devices of a worker, by resource, that were removed while jobs held them and still hold them."""
    found: dict[str, set[str]] = {}
    for job in board.held_by(worker.info.name):
        for name, held in job.placement.allocation.items() if job.placement is not None else ():
            group = VRAM_OF if name == VRAM else name
            if isinstance(held, dict) and group != SLOT:
                gone = {device for device in held if worker.is_leaving(group, device)}
                found.setdefault(group, set()).update(gone)
    return {name: sorted(ids, key=device_order) for name, ids in found.items() if ids}


def disk_short(worker: WorkerState) -> DiskShortDocument | None:
    """Return that a worker starts no job because its disk is short of space; None if it is not."""
    short = worker.info.disk_short
    if short is None:
        return None
    return {"path": printable(short.path), "free": short.free, "floor": short.floor, "text": short_text(worker)}
