"""Every device of every worker: what is free of it, and which jobs hold it."""

from __future__ import annotations

from collections.abc import Iterable

from grassq.broker.batch import Batch
from grassq.broker.documents.fleet import DeviceDocument, HolderDocument
from grassq.broker.summary.fleet import leaving_devices, workers_of
from grassq.core.model import Job
from grassq.core.planner.board import Board
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import ONE, Allocation, amount_number
from grassq.core.resources.capacity import Devices
from grassq.core.resources.fit import FreeView
from grassq.core.syntax.resource_names import VRAM, VRAM_OF

#: By resource and device: the jobs that hold a part of it.
_Holders = dict[tuple[str, str], list[HolderDocument]]


def device_documents(batch: Batch, worker: str | None = None, resource: str | None = None) -> list[DeviceDocument]:
    """Return the devices by worker, resource and id: all, or those of one worker, or of one resource."""
    return [
        document
        for state in workers_of(batch)
        if worker in (None, state.info.name)
        for document in _of_worker(batch.board, state)
        if resource in (None, document["resource"])
    ]


def _of_worker(board: Board, worker: WorkerState) -> list[DeviceDocument]:
    held = [job for job in board.held_by(worker.info.name) if job.placement and board.counts(job)]
    holders = _holders(sorted(held, key=lambda job: job.id))
    free_view = FreeView(worker.machine, worker.machine)
    found: list[DeviceDocument] = []
    for name, supply in worker.machine.supply.items():
        if not isinstance(supply, Devices):
            continue
        memory = {device.id: device.vram for device in supply.devices} if name == VRAM_OF else {}
        for device in free_view.devices_free(name):
            vram = memory.get(device.id, 0)
            found.append(
                {
                    "worker": worker.info.name,
                    "resource": name,
                    "id": device.id,
                    "worth": device.whole / ONE,
                    "free": device.free / ONE,
                    "vram": amount_number(vram) if vram else None,
                    "vram_free": amount_number(device.vram) if vram else None,
                    "holders": holders.get((name, device.id), []),
                    "others": _part(worker.info.used_by_others, name, device.id) / ONE,
                    "online": worker.online,
                    "drained": worker.drained or device.id in worker.drained_devices.get(name, ()),
                    "leaving": False,
                }
            )
    return found + _leaving(board, worker, holders)


def _leaving(board: Board, worker: WorkerState, holders: _Holders) -> list[DeviceDocument]:
    """Return the devices that were removed, and that jobs still hold."""
    return [
        {
            "worker": worker.info.name,
            "resource": name,
            "id": id_,
            "worth": 1.0,
            "free": 0.0,
            "vram": None,
            "vram_free": None,
            "holders": holders.get((name, id_), []),
            "others": 0.0,
            "online": worker.online,
            "drained": True,
            "leaving": True,
        }
        for name, ids in leaving_devices(board, worker).items()
        for id_ in ids
    ]


def _holders(holding: Iterable[Job]) -> _Holders:
    """Return the jobs that hold a part of each device, or of its memory; one look at each job, however many devices."""
    found: _Holders = {}
    for job in holding:
        assert job.placement is not None
        parts = {name: held for name, held in job.placement.allocation.items() if isinstance(held, dict)}
        memory = parts.pop(VRAM, {})
        if memory:
            parts[VRAM_OF] = dict.fromkeys(memory, 0) | parts.get(VRAM_OF, {})
        for name, held in parts.items():
            for device, amount in held.items():
                vram = memory.get(device, 0) if name == VRAM_OF else 0
                if amount or vram:
                    told: HolderDocument = {"job": job.id, "amount": amount / ONE, "vram": amount_number(vram)}
                    found.setdefault((name, device), []).append(told)
    return found


def _part(allocation: Allocation, name: str, device: str) -> int:
    held = allocation.get(name)
    return held.get(device, 0) if isinstance(held, dict) else 0
