"""The machines over ssh of a daemon that is a broker."""

from __future__ import annotations

import asyncio

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.daemon.context import DaemonContext, capacity_of
from grassq.files.blobs import BlobStore
from grassq.machines.book import Book
from grassq.machines.keeper import MachineKeeper
from grassq.machines.machine_thread import MachineContext
from grassq.web.workers.registry import WorkerRegistry

#: The folder in the home that has one folder of each machine.
FOLDER_NAME = "machines"


def has_machines(home: str) -> bool:
    """Tell whether the book of a home has machines; raise Refused in a sentence if it is damaged."""
    return bool(Book(home).all())


def make_keeper(setup: DaemonContext, engine: Engine, links: WorkerRegistry, blobs: BlobStore) -> MachineKeeper:
    """Return the keeper of the machines in the home's book; the caller starts and closes it."""

    async def is_worker(name: str) -> bool:
        return await engine.read(lambda batch: name in batch.board.workers)

    async def unfinished(name: str) -> list[int]:
        return await engine.read(lambda batch: [job.id for job in batch.board.held_by(name)])

    async def forget_worker(name: str, lost: bool) -> None:
        def forget(batch: Batch) -> None:
            service.remove_worker(batch, name, lost)

        await engine.change(forget)

    context = MachineContext(
        f"{setup.home}/{FOLDER_NAME}",
        engine.status.store_id,
        blobs,
        links.serve_here,
        asyncio.get_running_loop(),
        ssh=setup.values.ssh,
        probe_s=setup.values.probe_s,
        log_max=setup.log_max,
        disk_floor=setup.disk_floor,
    )
    return MachineKeeper(
        Book(setup.home),
        context,
        capacity_of=capacity_of,
        is_worker=is_worker,
        unfinished=unfinished,
        forget_worker=forget_worker,
    )
