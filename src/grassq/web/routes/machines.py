"""The routes about machines over ssh: for the owner on this machine only, because they use the owner's keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec.structs import replace

from grassq.core.names import shown
from grassq.core.printable import printable
from grassq.errors import BadInput, GrassError, Refused
from grassq.machines.book import FOLDER, MachineEntry, MachineRow
from grassq.machines.ssh.target import parse_target
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import Description, Parameter
from grassq.web.answers.machines import (
    MachineAboutDocument,
    MachineAddedDocument,
    MachineDefinitionDocument,
    MachineFreeDocument,
    MachineRemovedDocument,
    MachineRetriedDocument,
    MachinesDocument,
    MachineTestDocument,
)
from grassq.web.listen.abort import cut
from grassq.web.responses import BLANK_S, SlowAnswer, document, error_document
from grassq.web.workers.machine_admin import CheckStep, MachineAdmin

#: Steps of one test; a test with more ends there.
STEPS_MAX = 100

T = TypeVar("T")


class AddBody(requests.Body, kw_only=True):
    """A machine to add: `target` as typed, and what the other options say."""

    name: str
    target: str
    port: int | None = None
    #: The key file, an absolute path.
    identity: str | None = None
    labels: tuple[str, ...] = ()
    capacity: str | None = None
    dir: str = FOLDER
    #: The socket of the caller's ssh agent.
    agent: str | None = None
    no_python: bool = False
    accept_key: bool = False

    def entry(self) -> MachineEntry:
        """Return the entry; raise BadInput for a target that is none."""
        target = parse_target(self.target)
        if self.port is not None:
            if target.port not in (None, self.port):
                raise BadInput(f"{shown(self.target)} has port {target.port}, and --port is {self.port}; give one")
            target = replace(target, port=self.port)
        return MachineEntry(
            self.name,
            replace(target, key=self.identity),
            self.labels,
            self.capacity,
            self.dir,
            self.agent,
            not self.no_python,
        )

    @staticmethod
    def of(entry: MachineEntry) -> MachineDefinitionDocument:
        """Return the fields that make this entry again, without a key."""
        target = entry.target
        host = f"[{target.host}]" if ":" in target.host else target.host
        return {
            "name": entry.name,
            "target": host if target.user is None else f"{target.user}@{host}",
            "port": target.port,
            "identity": target.key,
            "labels": entry.labels,
            "capacity": entry.capacity,
            "dir": entry.dir,
            "agent": entry.agent,
            "no_python": not entry.python,
        }


class MachineBody(requests.Body, kw_only=True):
    """A machine that is there."""

    name: str
    agent: str | None = None
    force: bool = False


class Machines:
    """The handlers."""

    def __init__(self, admin: MachineAdmin | None) -> None:
        """Ask `admin`; with None, this daemon keeps no machines."""
        self._asked = admin

    def routes(self) -> list[Route]:
        """Return the routes; no token may use them, but the own page lists the machines."""

        def about(summary: str, answer: object, body: object = None) -> Description:
            return Description("machines", summary, answer, body=body)

        test = Description(
            "machines",
            "Test a machine step by step",
            MachineTestDocument,
            "json lines",
            (Parameter("agent", "The socket of the caller's ssh agent"),),
        )
        show = about("Every machine over ssh", MachinesDocument)
        one = about("One machine, its definition, and the command line that logs in there", MachineAboutDocument)
        free = about("What a machine has free now", MachineFreeDocument)
        add = about("Add a machine, or change it", MachineAddedDocument, AddBody)
        remove = about("Remove a machine, and what is left there of Grass", MachineRemovedDocument, MachineBody)
        retry = about("Connect a machine now", MachineRetriedDocument, MachineBody)
        return [
            Route("GET", "/v1/machines", self.show, "home", about=show),
            Route("GET", "/v1/machines/{name}/about", self.about, "local", about=one),
            Route("GET", "/v1/machines/{name}/test", self.test, "local", waits=True, about=test),
            Route("GET", "/v1/machines/{name}/free", self.free, "local", about=free),
            Route("POST", "/v1/machines/add", self.add, "local", about=add),
            Route("POST", "/v1/machines/remove", self.remove, "local", about=remove),
            Route("POST", "/v1/machines/retry", self.retry, "local", about=retry),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with every machine."""
        return document(MachinesDocument(machines=[_printable(row) for row in self._admin.list()]))

    async def about(self, request: web.Request) -> web.Response:
        """Answer with one machine, its definition, and the command line that logs in there."""
        name = request.match_info["name"]
        definition = AddBody.of(self._admin.entry(name))
        (row,) = [_printable(each) for each in self._admin.list() if each.name == name]
        argv = list(self._admin.login(name))
        return document(MachineAboutDocument(machine=row, definition=definition, argv=argv))

    async def free(self, request: web.Request) -> web.StreamResponse:
        """Answer with what a machine has free now: cores, memory, GPUs."""
        return await _slowly(request, self._admin.free(request.match_info["name"]))

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Add a machine, or change it; nothing is kept if the login fails."""
        body = requests.decode(request[BODY], AddBody)
        request[ENTRY].about = printable(f"{body.name} {body.target}", 200)
        adding = self._admin.add(body.entry(), new_key=body.accept_key)

        async def told() -> MachineAddedDocument:
            added = await adding
            found = [printable(line) for line in added.found]
            return {"name": body.name, "status": added.status, "found": found, "ask": list(added.ask)}

        return await _slowly(request, told())

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove a machine, and what is left there of Grass."""
        body = requests.decode(request[BODY], MachineBody)
        request[ENTRY].about = printable(body.name + (" force" if body.force else ""), 200)
        removing = self._admin.remove(body.name, force=body.force)

        async def told() -> MachineRemovedDocument:
            return {"name": body.name, "left": [printable(line) for line in await removing]}

        return await _slowly(request, told())

    async def retry(self, request: web.Request) -> web.Response:
        """Connect a machine now."""
        body = requests.decode(request[BODY], MachineBody)
        request[ENTRY].about = printable(body.name, 200)
        await self._admin.retry(body.name, body.agent)
        return document(MachineRetriedDocument(name=body.name))

    async def test(self, request: web.Request) -> web.StreamResponse:
        """Stream the steps of a test, a JSON document on each line; the last one has `ended`, or an error."""
        name = request.match_info["name"]
        self._admin.entry(name)  # raises NotFound before the answer begins
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.force_close()
        await response.prepare(request)
        try:
            await _write_steps(response, self._admin.test(name, request.query.get("agent")))
        except ConnectionError:
            cut(request.transport)  # the reader has gone
        return response

    @property
    def _admin(self) -> MachineAdmin:
        if self._asked is None:
            raise Refused("this daemon keeps no machines")
        return self._asked


async def _write_steps(response: web.StreamResponse, steps: AsyncIterator[CheckStep]) -> None:
    count = failed = 0
    try:
        async for step in steps:
            line = {"step": printable(step.name, 60), "ok": step.ok, "words": printable(step.words)}
            await response.write(msgspec.json.encode(line) + b"\n")
            failed += step.ok is False
            count += 1
            if count == STEPS_MAX:
                break
        last: Mapping[str, object] = {"ended": True, "failed": failed}
    except GrassError as error:
        last = error_document(error)
    await response.write(msgspec.json.encode(last) + b"\n")
    await response.write_eof()


async def _slowly(request: web.Request, answer: Awaitable[Mapping[str, object]]) -> web.StreamResponse:
    """Answer when ssh has ended: meanwhile blanks keep the client waiting. A client that goes changes nothing."""
    slow = SlowAnswer(request)
    task = asyncio.ensure_future(answer)
    while not task.done():
        await asyncio.wait([task], timeout=BLANK_S)
        await slow.keep_alive()
    try:
        return await slow.end(task.result())
    except GrassError as error:
        return await slow.refuse(error)


def _printable(row: MachineRow) -> MachineRow:
    """Return a row whose words may come from the machine, each on one line and without control characters."""
    texts = {name: getattr(row, name) for name in ("host", "why", "boot", "runs", "offers")}
    words = {name: printable(text, 500) for name, text in texts.items() if text is not None}
    addresses = None if row.addresses is None else tuple(printable(each, 500) for each in row.addresses)
    return replace(row, **words, addresses=addresses)
