"""The routes about queues and workers: make and delete, pause and resume, drain and remove."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypedDict

from aiohttp import web
from msgspec.structs import replace

from grassq.broker import service, views
from grassq.broker import tokens as worker_tokens
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.engine import Engine
from grassq.broker.service import Done
from grassq.broker.summary.line import line_jobs
from grassq.core.model import Offer, QueueTemplate
from grassq.core.names import DEFAULT_QUEUE, check_name, shown
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Token
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Guard, Route
from grassq.web.access.description import Description, Parameter
from grassq.web.access.principal import CALLER
from grassq.web.answers.queues import (
    DrainDocument,
    PausedNotesDocument,
    PrintDocument,
    QueueDeletedDocument,
    QueueMadeDocument,
    WorkerRemovedDocument,
)
from grassq.web.events.stream import serve_queue_stream
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.responses import Handler, digest, document, job_documents
from grassq.web.submit import validate
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.machine_admin import MachineAdmin

#: All queues together, in the audit; no queue has this name.
ALL_QUEUES = "*"
#: How many jobs of the line one answer has: unless another number is asked for, and at most.
LINE_SHOWN = 50
LINE_MAX = 500


class NameBody(requests.Body, kw_only=True):
    """A queue to delete, on this machine or on a worker."""

    name: str
    worker: str | None = None
    #: The queue was defined at the broker.
    at_broker: bool = False


class PauseBody(requests.Body, kw_only=True):
    """A queue to pause or resume; without one, all queues."""

    queue: str | None = None
    #: Go on after a restored backup without the workers that have not connected yet.
    restored: bool = False


class DrainBody(requests.Body, kw_only=True):
    """A worker that gets no more jobs; with `undo`, a worker that gets jobs again."""

    worker: str
    undo: bool = False


class RemoveBody(requests.Body, kw_only=True):
    """A worker to remove; `lost` gives its jobs up too."""

    worker: str
    lost: bool = False


class LineDocument(TypedDict):
    """The first jobs of the line."""

    #: The queued jobs, the next one first.
    jobs: list[JobDocument]
    #: How many jobs are queued.
    count: int


class Queues:
    """The handlers."""

    def __init__(
        self,
        engine: Engine,
        directory: WorkerDirectory,
        guard: Guard,
        temporary: TemporaryQueues,
        machines: MachineAdmin | None = None,
    ) -> None:
        self._engine = engine
        self._machines = machines
        self._directory = directory
        self._guard = guard
        self._temporary = temporary

    def routes(self) -> list[Route]:
        """Return the routes."""

        def post(verb: str, handler: Handler, summary: str, answer: object, body: object) -> Route:
            about = Description("queues and workers", summary, answer, body=body)
            return Route("POST", f"/v1/{verb}", handler, "admin", about=about)

        subscribe = Description(
            "changes",
            "What happens to the jobs of a queue, and their output: lines of JSON, and bytes where a line says so",
            None,
            "bytes",
            (
                Parameter("from", "The first job", int, 1),
                Parameter("offsets", "Where logs go on: JOB:ATTEMPT:OFFSET, with commas", default=""),
                Parameter("over", "Jobs that the client knows to have ended: FIRST-LAST, with commas", default=""),
            ),
        )
        line = Description(
            "queues and workers",
            "The queued jobs in the order in which they start",
            LineDocument,
            query=(
                Parameter("queue", "Only jobs of this queue"),
                Parameter("count", f"The most jobs of an answer, at most {LINE_MAX}", int, LINE_SHOWN),
            ),
        )
        return [
            Route("GET", "/v1/line", self.line, "read", about=line),
            Route("GET", "/v1/queues/{queue}/subscribe", self.subscribe, "submit", waits=True, about=subscribe),
            post("create-queue", self.create_queue, "Make or replace a queue", QueueMadeDocument, requests.QueueBody),
            post("delete-queue", self.delete_queue, "Delete a queue", QueueDeletedDocument, NameBody),
            post("pause", self.pause, "Start no new jobs, of a queue or of all", PausedNotesDocument, PauseBody),
            post("resume", self.resume, "Start jobs again", PausedNotesDocument, PauseBody),
            post("drain", self.drain, "Give a worker no more jobs, or jobs again", DrainDocument, DrainBody),
            post("remove-worker", self.remove_worker, "Remove a worker", WorkerRemovedDocument, RemoveBody),
        ]

    async def create_queue(self, request: web.Request) -> web.Response:
        """Make or replace a queue, on this machine or on the named worker."""
        body = requests.decode(request[BODY], requests.QueueBody)
        submitter = body.submitter(request[CALLER])
        resources = await self._engine.read(lambda batch: batch.board.resource_names())
        typed = enqueue_syntax.split_create_queue([requests.word_bytes(word) for word in body.words], resources)
        if not typed.at_broker:
            _check_machine(request, typed.worker)
        elif body.temporary:
            raise BadInput("a queue defined at the broker cannot be temporary")
        roles = await self._engine.read(lambda batch: batch.board.roles, short=True)
        offer = replace(await asyncio.to_thread(validate.read_offer, typed, submitter, roles), temporary=body.temporary)
        request[ENTRY].about = _about(offer.queue, typed.worker)
        if typed.at_broker:
            template = QueueTemplate(offer, typed.labels)
            status, notes = await self._engine.change(lambda batch: service.put_template(batch, template))
        else:
            status, notes = await self._directory.queue_admin(typed.worker).offer(offer)
        if offer.temporary:
            self._temporary.made(offer.queue)
        # The engine handles messages in order: after this read it has stored the worker's new offer.
        await self._engine.read(lambda batch: None, short=True)
        shown_as = PrintDocument(json=typed.json, quiet=typed.quiet)
        return document(QueueMadeDocument(name=offer.queue, status=status, notes=notes, print=shown_as))

    async def line(self, request: web.Request) -> web.Response:
        """Answer with the first jobs of the line, of one queue or of all."""
        queue = request.query.get("queue")
        most = requests.number(request, "count", LINE_SHOWN, LINE_MAX)

        def read(batch: Batch) -> LineDocument:
            jobs, count = line_jobs(batch, queue, most)
            return {"jobs": job_documents(batch, jobs, request[CALLER]), "count": count}

        return document(await self._engine.read(read))

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        """Stream what happens to a queue's jobs, and their output."""
        return await serve_queue_stream(request, self._engine, self._directory, self._temporary)

    async def delete_queue(self, request: web.Request) -> web.Response:
        """Delete a queue: running jobs finish, waiting jobs wait until the queue exists again."""
        body = requests.decode(request[BODY], NameBody)
        if not body.at_broker:
            _check_machine(request, body.worker)
        request[ENTRY].about = _about(body.name, body.worker)
        if await self._engine.read(lambda batch: service.recall(batch, body.key, digest(request[BODY]))) is not None:
            return document(QueueDeletedDocument(name=body.name, notes=[]))
        check_name(body.name, "queue name")
        if body.at_broker:
            await self._once(request, body.key, lambda batch: service.delete_template(batch, body.name))
            return await self._deleted(body.name)
        offer = await self._engine.read(lambda batch: _offer(batch, body.name, body.worker))
        if offer is None:
            is_template = await self._engine.read(lambda batch: body.name in batch.board.templates)
            where = f" on {body.worker}" if body.worker else ""
            hint = "; it is defined at the broker: --at-broker" if is_template else ""
            raise NotFound(f"there is no queue {shown(body.name)}{where}{hint}")
        if offer == Offer(DEFAULT_QUEUE):
            raise Refused("the queue 'default' always exists, and it has no limits to remove")
        await self._directory.queue_admin(body.worker).withdraw(body.name)
        await self._once(request, body.key, lambda batch: Done([]))
        if body.name == DEFAULT_QUEUE:
            notes = ["'default' always exists; it has no limits now"]
            return document(QueueDeletedDocument(name=body.name, notes=notes))
        return await self._deleted(body.name)

    async def _deleted(self, queue: str) -> web.Response:
        waiting = await self._engine.read(lambda batch: _left_without(batch, queue))
        if waiting == 1:
            notes = ["1 unfinished job belongs to it; if the job runs it finishes, else it waits"]
        else:
            notes = [f"{waiting} unfinished jobs belong to it; running ones finish, the others wait"] if waiting else []
        return document(QueueDeletedDocument(name=queue, notes=notes))

    async def pause(self, request: web.Request) -> web.Response:
        """Start no new jobs."""
        body = requests.decode(request[BODY], PauseBody)
        if body.restored:
            raise BadInput("--restored goes with `grass resume` only")
        request[ENTRY].about = body.queue or ALL_QUEUES
        pauser = request[CALLER].name
        return await self._set_paused(request, body.key, lambda batch: service.pause(batch, body.queue, pauser))

    async def resume(self, request: web.Request) -> web.Response:
        """Start jobs again."""
        body = requests.decode(request[BODY], PauseBody)
        if body.restored and body.queue is not None:
            raise BadInput("--restored concerns the whole broker, not one queue")
        request[ENTRY].about = body.queue or ALL_QUEUES
        if body.restored:
            return await self._set_paused(request, body.key, service.accept_restored)
        return await self._set_paused(request, body.key, lambda batch: service.resume(batch, body.queue))

    async def _set_paused(self, request: web.Request, key: str, action: Callable[[Batch], Done]) -> web.Response:
        done = await self._once(request, key, action)
        paused = await self._engine.read(lambda batch: views.paused_document(batch.board))
        answer: PausedNotesDocument = {**paused, "notes": done.notes}
        return document(answer)

    async def _once(self, request: web.Request, key: str, action: Callable[[Batch], Done]) -> Done:
        """Apply an action; a repeated request gets the answer of the first."""
        asked = digest(request[BODY])
        return await self._engine.change(lambda batch: service.once(batch, key, asked, lambda: action(batch)))

    async def drain(self, request: web.Request) -> web.Response:
        """Give a worker no more jobs; running jobs finish."""
        body = requests.decode(request[BODY], DrainBody)
        request[ENTRY].about = _about("undo" if body.undo else "", body.worker)
        done = await self._once(request, body.key, lambda batch: service.drain(batch, body.worker, body.undo))
        return document(DrainDocument(worker=body.worker, drained=not body.undo, notes=done.notes))

    async def remove_worker(self, request: web.Request) -> web.Response:
        """Remove a worker and revoke its token in one change."""
        body = requests.decode(request[BODY], RemoveBody)
        request[ENTRY].about = _about("lost" if body.lost else "", body.worker)
        if self._machines is not None and body.worker in {each.name for each in self._machines.list()}:
            raise Refused(f"{body.worker} is a machine over ssh; `grass machine remove {body.worker}` removes it")
        asked = digest(request[BODY])

        def remove(batch: Batch) -> tuple[Done, list[Token]]:
            done = service.once(batch, body.key, asked, lambda: service.remove_worker(batch, body.worker, body.lost))
            # In the same change: a read afterwards may be refused, and the token would stay valid until a restart.
            return done, worker_tokens.of_worker(batch, body.worker)

        done, ended = await self._engine.change(remove)
        for token in ended:
            self._guard.put(token)
        return document(WorkerRemovedDocument(worker=body.worker, notes=done.notes))


def _check_machine(request: web.Request, worker: str | None) -> None:
    if worker is None and not request[CALLER].is_at_home:
        raise BadInput("say on which machine: --worker NAME (`grass show` lists them)")


def _about(what: str, worker: str | None) -> str:
    return " ".join(part for part in (what, f"on {worker}" if worker else "") if part)


def _offer(batch: Batch, queue: str, worker: str | None) -> Offer | None:
    """Return the offer of a queue on one worker; without a name, on this machine's own."""
    name = worker or batch.board.roles.default
    found = (state.own_offer(queue) for state in batch.board.workers.values() if name in (None, state.info.name))
    return next((offer for offer in found if offer is not None), None)


def _left_without(batch: Batch, queue: str) -> int:
    """Return how many jobs wait for a queue that no worker offers any more."""
    return batch.board.unfinished(queue) if next(batch.board.offering(queue), None) is None else 0
