"""The API: the table of every route, with its handler and what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from grassq import __version__
from grassq.broker import service
from grassq.broker.engine import Engine
from grassq.core.resources.amounts import Request
from grassq.web.access.auth import Guard, Need, Route
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.responses import Handler, document, version_header
from grassq.web.routes.jobs import Jobs
from grassq.web.routes.queues import Queues
from grassq.web.routes.tokens import Tokens
from grassq.web.submit.handler import Submissions
from grassq.web.workers.directory import WorkersApi


class Api:
    """Every route, and what the handlers share."""

    def __init__(
        self,
        engine: Engine,
        directory: WorkersApi,
        default: Request,
        stop: Callable[[], None],
        about: dict[str, object],
        *,
        guard: Guard | None = None,
        link: Handler | None = None,
    ) -> None:
        """Build the handlers; `link` serves workers that dial in, and without it no worker can."""
        self._engine = engine
        self._directory = directory
        self._stop = stop
        self._about = about
        self._link = link
        self.guard = guard or Guard()
        self.tokens = Tokens(engine, self.guard)
        self._jobs = Jobs(engine, directory)
        self._submissions = Submissions(engine, default)
        self._temporary = TemporaryQueues(engine, directory)
        self._queues = Queues(engine, directory, self.guard, self._temporary)

    def app(self) -> web.Application:
        """Return the application: routes, and the access check that also answers errors."""
        app = web.Application(middlewares=[self.guard.check])
        app.on_response_prepare.append(version_header)
        app.on_startup.append(self._begin)
        app.on_shutdown.append(self._end)
        self.guard.protect(app, self.routes())
        return app

    async def _begin(self, app: web.Application) -> None:
        await self.tokens.load()
        self._temporary.start()

    async def _end(self, app: web.Application) -> None:
        await self._temporary.close()
        self._engine.subscriptions.close()

    def routes(self) -> list[Route]:
        """Return the table of routes; nothing else is served."""
        submissions, jobs, queues, tokens = self._submissions, self._jobs, self._queues, self.tokens
        table: list[tuple[str, str, Handler, Need]] = [
            ("POST", "/v1/redeem", tokens.redeem, "open"),
            ("GET", "/v1/show", jobs.show, "read"),
            ("GET", "/v1/jobs", jobs.page, "read"),
            ("GET", "/v1/why", jobs.why, "read"),
            ("GET", "/v1/wait", jobs.wait, "read"),
            ("GET", "/v1/events", jobs.events, "read"),
            ("GET", r"/v1/jobs/{id:\d{1,15}}/log", jobs.log, "read"),
            ("GET", "/v1/queues/{queue}/subscribe", queues.subscribe, "submit"),
            ("POST", "/v1/enqueue", submissions.enqueue, "submit"),
            ("POST", "/v1/submit", submissions.submit, "submit"),
            ("POST", "/v1/submit-many", submissions.submit_many, "submit"),
            ("POST", "/v1/jobs/kill", jobs.kill, "submit"),
            ("POST", "/v1/jobs/rerun", jobs.rerun, "submit"),
            ("POST", "/v1/jobs/hold", jobs.hold, "submit"),
            ("POST", "/v1/jobs/release", jobs.release, "submit"),
            ("POST", "/v1/jobs/priority", jobs.priority, "submit"),
            ("POST", "/v1/jobs/clean", jobs.clean, "submit"),
            ("POST", "/v1/create-queue", queues.create_queue, "admin"),
            ("POST", "/v1/delete-queue", queues.delete_queue, "admin"),
            ("POST", "/v1/pause", queues.pause, "admin"),
            ("POST", "/v1/resume", queues.resume, "admin"),
            ("POST", "/v1/drain", queues.drain, "admin"),
            ("POST", "/v1/remove-worker", queues.remove_worker, "admin"),
            ("GET", "/v1/tokens", tokens.list, "admin"),
            ("POST", "/v1/tokens/create", tokens.create, "admin"),
            ("POST", "/v1/tokens/revoke", tokens.revoke, "admin"),
            ("GET", "/v1/audit", tokens.audit, "admin"),
            ("GET", "/v1/info", self.info, "admin"),
            ("POST", "/v1/stop", self.stop, "local"),
        ]
        if self._link is not None:
            table.append(("GET", "/v1/worker", self._link, "worker"))
        return [Route(*row) for row in table]

    async def info(self, request: web.Request) -> web.Response:
        """Answer with what `doctor` shows of the daemon."""
        totals = await self._engine.read(lambda batch: batch.store.totals())
        folders = await asyncio.to_thread(self._directory.folders)
        unknown = await self._engine.read(partial(service.unknown, ids=folders))
        return document(
            {
                "version": __version__,
                **self._about,
                **self._directory.describe(),
                "jobs": totals,
                "strays": await asyncio.to_thread(self._directory.strays, unknown),
                "read_only": self._engine.status.read_only,
            }
        )

    async def stop(self, request: web.Request) -> web.Response:
        """Stop the daemon; jobs run on."""
        running = await self._engine.read(lambda batch: len(batch.board.holding))
        self._stop()
        return document({"running": running})
