"""The routes that change the devices of a worker: add, remove, drain and undrain."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

from aiohttp import web

from grassq.broker import service
from grassq.broker.actions.bulk import BulkChange
from grassq.broker.actions.jobs import KillJobs
from grassq.broker.batch import Batch
from grassq.broker.documents.fleet import DeviceDocument
from grassq.broker.engine import Engine
from grassq.broker.selection import by_ids
from grassq.broker.summary.devices import device_documents
from grassq.core.names import shown
from grassq.core.resources.amounts import parse_amount
from grassq.core.resources.device_changes import DeviceChange, Verb, checked_change
from grassq.core.syntax.resource_names import VRAM, VRAM_OF
from grassq.errors import BadInput, NotFound, Refused
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import Description
from grassq.web.responses import digest, document
from grassq.web.workers.directory import WorkerDirectory

#: What each change does, for the document about the API.
VERBS: dict[Verb, str] = {
    "add": "Add devices to a worker, or bring back removed ones; the next job may get them",
    "remove": "Remove devices of a worker: jobs that hold them finish, new ones get none of them",
    "drain": "Give devices of a worker to no new job; they stay listed, and jobs that need them wait",
    "undrain": "Give drained devices of a worker to jobs again",
}


class DevicesBody(requests.Body, kw_only=True):
    """Devices to change."""

    ids: list[str | int]
    #: The worker; null for the broker's own.
    worker: str | None = None
    resource: str = VRAM_OF
    #: With `remove`: end the jobs that hold the devices.
    kill: bool = False
    #: With `add`: the memory of each device, such as 24G.
    vram: str | int | float | None = None

    def change(self, verb: Verb) -> DeviceChange:
        """Return what is asked for; raise BadInput for wrong names and for options of another verb."""
        if self.kill and verb != "remove":
            raise BadInput(f"--kill goes with `grass device remove`, not with {verb}")
        if self.vram is not None and verb != "add":
            raise BadInput(f"--vram goes with `grass device add`, not with {verb}")
        vram = 0 if self.vram is None else parse_amount(VRAM, self.vram)
        return checked_change(verb, self.ids, self.resource, vram)


class ChangedDevicesDocument(TypedDict):
    """The devices of a worker after a change."""

    worker: str
    resource: str
    #: Every device of this resource that the worker has now, and those that are leaving.
    devices: list[DeviceDocument]
    #: The jobs that were asked to end.
    killed: list[int]
    notes: list[str]


class DeviceRoutes:
    """The handlers."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [self._route(verb, summary) for verb, summary in VERBS.items()]

    def _route(self, verb: Verb, summary: str) -> Route:
        about = Description("queues and workers", summary, ChangedDevicesDocument, body=DevicesBody)
        return Route("POST", f"/v1/devices/{verb}", partial(self.change, verb), "admin", about=about)

    async def change(self, verb: Verb, request: web.Request) -> web.Response:
        """Change devices of a worker, once per key."""
        raw = request[BODY]
        body = requests.decode(raw, DevicesBody)
        asked, key = body.change(verb), body.key
        request[ENTRY].about = f"{verb} {asked.resource} {','.join(asked.ids)}"
        worker = await self._engine.read(partial(_worker, named=body.worker))
        request[ENTRY].about += f" on {worker}"
        # The path too: a repeated key must not turn a drain into a removal.
        request_digest = digest(request.path.encode() + b" " + raw)
        notes: list[str] = []
        if await self._engine.read(partial(service.recall, key=key, digest=request_digest)) is None:
            notes = await self._directory.queue_admin(worker).change_devices(asked)
        # The engine handles messages in order: after this read it knows the worker's new description.
        await self._engine.read(lambda batch: None, short=True)
        killed = await self._kill(asked, worker, key, request_digest, is_asked=body.kill)
        found = await self._engine.read(partial(device_documents, worker=worker, resource=asked.resource))
        notes += [_held(each) for each in found if _is_busy(each, asked) and not body.kill]
        shown_as = {"worker": worker, "resource": asked.resource, "devices": found}
        return document({**shown_as, "killed": killed, "notes": notes})

    async def _kill(
        self, asked: DeviceChange, worker: str, key: str, request_digest: bytes, *, is_asked: bool
    ) -> list[int]:
        """Kill the jobs that hold the devices, if asked to; and store that the key was used."""
        holders = await self._engine.read(partial(_holders, asked=asked, worker=worker)) if is_asked else []
        if holders:
            kill = BulkChange(KillJobs(None, False), by_ids(holders), key=key, digest=request_digest, required=False)
            return list((await self._engine.change_in_steps(kill.start, _no_answer_yet)).ids)
        nothing = service.Done([])
        await self._engine.change(lambda batch: service.once(batch, key, request_digest, lambda: nothing))
        return []


async def _no_answer_yet() -> None:
    """Do nothing between two steps: the jobs of some devices are few."""


def _worker(batch: Batch, named: str | None) -> str:
    """Return the worker that is meant; raise NotFound if there is none of this name."""
    name = named or batch.board.roles.default
    if name is None:
        raise Refused("this broker runs no jobs itself; name a worker: --worker NAME")
    if name not in batch.board.workers:
        raise NotFound(f"there is no worker {shown(name)}; `grass show` lists them")
    return name


def _holders(batch: Batch, asked: DeviceChange, worker: str) -> list[int]:
    """Return the jobs that hold some of the devices, or of their memory."""
    names = (asked.resource, VRAM) if asked.resource == VRAM_OF else (asked.resource,)
    held_by = batch.board.held_by(worker)
    parts = [(job.id, job.placement.allocation.get(name)) for job in held_by if job.placement for name in names]
    return sorted({id_ for id_, held in parts if isinstance(held, dict) and not held.keys().isdisjoint(asked.ids)})


def _is_busy(device: DeviceDocument, asked: DeviceChange) -> bool:
    """Tell whether a device that was drained or removed is still held."""
    return asked.verb in ("drain", "remove") and device["id"] in asked.ids and bool(device["holders"])


def _held(device: DeviceDocument) -> str:
    jobs = ", ".join(str(each["job"]) for each in device["holders"])
    name = f"{device['resource']} {device['id']}"
    ends = f"; then {name} is gone" if device["leaving"] else ""
    return f"{name} is held by job {jobs}, which will finish{ends}"
