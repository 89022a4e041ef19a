"""The routes of a daemon that is only a worker: its queues, `doctor`, and `stop`.

Clients send every other request to the broker themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from grassq import __version__
from grassq.core.model import Offer
from grassq.core.names import DEFAULT_QUEUE, check_name, shown
from grassq.core.planner.workers import WorkerRoles
from grassq.core.resources.device_changes import Verb
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.errors import NotFound, Refused
from grassq.web import requests
from grassq.web.access.auth import BODY, Route, owner_app
from grassq.web.access.principal import OWNER
from grassq.web.responses import document
from grassq.web.routes.config import Config, config_route
from grassq.web.routes.devices import VERBS, DevicesBody
from grassq.web.routes.queues import NameBody
from grassq.web.submit import validate
from grassq.web.workers.directory import LocalWorkerApi


class OwnWorkerRoutes:
    """The handlers."""

    def __init__(
        self,
        worker: LocalWorkerApi,
        link: Callable[[], dict[str, object]],
        stop: Callable[[], None],
        about: dict[str, object],
        config: Config,
    ) -> None:
        """Serve the worker; `link` returns a description of the connection to the broker, `config` are the settings."""
        self._config = config
        self._worker = worker
        self._link = link
        self._stop = stop
        self._about = about

    def app(self) -> web.Application:
        """Return the application, for the owner of the socket only."""
        return owner_app(
            [
                Route("POST", "/v1/create-queue", self.create_queue, "local"),
                Route("POST", "/v1/delete-queue", self.delete_queue, "local"),
                *(Route("POST", f"/v1/devices/{verb}", partial(self.devices, verb), "local") for verb in VERBS),
                Route("GET", "/v1/info", self.info, "local"),
                config_route(self._config),
                Route("POST", "/v1/stop", self.stop, "local"),
                Route("*", "/{path:.*}", self.refuse, "local"),
            ]
        )

    async def refuse(self, request: web.Request) -> web.Response:
        """Refuse a request that only a broker can answer."""
        raise Refused("this machine is only a worker and keeps no queue; ask its broker: --broker HOST:PORT")

    async def create_queue(self, request: web.Request) -> web.Response:
        """Make or replace a queue of this machine."""
        body = requests.decode(request[BODY], requests.QueueBody)
        resources = {name for offer in self._worker.queues for name in offer.limits}
        typed = enqueue_syntax.split_create_queue([requests.word_bytes(word) for word in body.words], resources)
        if typed.worker is not None or body.temporary:
            await self.refuse(request)
        offer = await asyncio.to_thread(validate.read_offer, typed, body.submitter(OWNER), WorkerRoles())
        status, notes = await self._worker.offer(offer)
        shown_as = {"json": typed.json, "quiet": typed.quiet}
        return document({"name": offer.queue, "status": status, "notes": notes, "print": shown_as})

    async def delete_queue(self, request: web.Request) -> web.Response:
        """Delete a queue of this machine; running jobs finish."""
        body = requests.decode(request[BODY], NameBody)
        if body.worker is not None:
            await self.refuse(request)
        known = {offer.queue: offer for offer in self._worker.queues}
        if check_name(body.name, "queue name") not in known:
            raise NotFound(f"this machine offers no queue {shown(body.name)}")
        if known[body.name] == Offer(DEFAULT_QUEUE):
            raise Refused("the queue 'default' always exists, and it has no limits to remove")
        await self._worker.withdraw(body.name)
        return document({"name": body.name, "notes": []})

    async def devices(self, verb: Verb, request: web.Request) -> web.Response:
        """Change devices of this machine; only the broker can end jobs."""
        body = requests.decode(request[BODY], DevicesBody)
        if body.worker not in (None, self._worker.name):
            await self.refuse(request)
        if body.kill:
            raise Refused("only the broker ends jobs: remove the device without --kill, or ask with --broker HOST:PORT")
        asked = body.change(verb)
        notes = await self._worker.change_devices(asked)
        return document({"worker": self._worker.name, "resource": asked.resource, "killed": [], "notes": notes})

    async def info(self, request: web.Request) -> web.Response:
        """Answer with what `doctor` shows of the daemon."""
        jobs = {"running": self._worker.held}
        about = {"version": __version__, **self._about, **self._worker.describe(), "broker": self._link()}
        strays = await asyncio.to_thread(self._worker.strays)
        return document({**about, "jobs": jobs, "strays": strays, "read_only": None})

    async def stop(self, request: web.Request) -> web.Response:
        """Stop the daemon; jobs run on."""
        self._stop()
        return document({"running": self._worker.held})
