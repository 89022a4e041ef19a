"""The API: the table of every route, with its handler and what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from grassq import __version__
from grassq.broker import service
from grassq.broker.engine import Engine
from grassq.broker.recovery import lost_history_warning
from grassq.core.resources.amounts import Request
from grassq.notify.notifier import Notifier
from grassq.web.access.auth import Guard, Route
from grassq.web.access.description import Description
from grassq.web.access.principal import CALLER
from grassq.web.answers.daemon import InfoDocument, StopDocument
from grassq.web.events.json_lines import events_route
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.forecast.eta import Eta
from grassq.web.forecast.forecaster import Forecaster
from grassq.web.forecast.recorder import Recorder
from grassq.web.forecast.what_if import WhatIf
from grassq.web.forecast.when import When
from grassq.web.live.serve import Live
from grassq.web.logs.last_lines import LastLines
from grassq.web.logs.lines import LogLines
from grassq.web.logs.search import LogSearch
from grassq.web.logs.serve import log_route
from grassq.web.openapi.serve import ApiDocument
from grassq.web.page.extra_doors import ExtraDoors
from grassq.web.page.files import PageFiles
from grassq.web.page.headers import add_headers
from grassq.web.page.sessions import Sessions
from grassq.web.removal import FolderRemoval
from grassq.web.responses import Handler, document, errors_in_words, version_header
from grassq.web.retention import KEEP_ALL, KeepRules, Retention
from grassq.web.routes.complete import completion_route
from grassq.web.routes.config import Config, config_route
from grassq.web.routes.devices import DeviceRoutes
from grassq.web.routes.history import History
from grassq.web.routes.job_list import jobs_route
from grassq.web.routes.jobs import Jobs
from grassq.web.routes.limits import LimitRoutes
from grassq.web.routes.machines import Machines
from grassq.web.routes.notices import Notices
from grassq.web.routes.queues import Queues
from grassq.web.routes.tokens import Tokens
from grassq.web.submit.edit import Edits
from grassq.web.submit.handler import Submissions
from grassq.web.submit.many.batches import Batches
from grassq.web.submit.storing import FileCheck
from grassq.web.tables.routes import Tables
from grassq.web.timeline.serve import Timeline
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.machine_admin import MachineAdmin

#: Connections of sessions that have expired are looked for this often.
EXPIRED_S = 60.0


class Api:
    """Every route, and what the handlers share."""

    _expiring: asyncio.Task[None] | None = None

    def __init__(
        self,
        engine: Engine,
        directory: WorkerDirectory,
        default: Request,
        stop: Callable[[], None],
        about: dict[str, object],
        *,
        guard: Guard,
        link: Handler,
        check_files: FileCheck,
        machines: MachineAdmin | None = None,
        notifier: Notifier | None = None,
        token_notify: str = "",
        project: str = "",
        keep: KeepRules = KEEP_ALL,
        config: Config | None = None,
        page: PageFiles | None = None,
    ) -> None:
        """Build the handlers; `link` serves workers that dial in, `check_files` checks the files of jobs.

        `machines` keeps the machines over ssh, `notifier` sends notices, `token_notify` names the hosts that jobs of
        tokens may send notices to; `project` is the project of jobs that name none; `keep` says which ended jobs are
        removed by themselves; `config` are the settings, and `page` the files of the page.
        """
        self._engine = engine
        self._directory = directory
        self._stop = stop
        self._about = about
        self._machine_admin = machines
        self._document = ApiDocument(self.routes)
        self._link = link
        self.guard = guard
        self.tokens = Tokens(engine, self.guard)
        self.page = page or PageFiles()
        self.sessions = Sessions(engine, self.guard, self.page)
        self._removal = FolderRemoval(engine, directory)
        self._retention = Retention(engine, self._removal, keep, guard.audit)
        self._last_lines = LastLines(directory)
        forecaster = Forecaster(engine, self._last_lines)
        when = When(engine, forecaster)
        self._jobs = Jobs(engine, self._removal, self._retention, self._last_lines, when)
        self._submissions = Submissions(engine, default, check_files, token_notify, project)
        self._eta = Eta(engine, forecaster)
        self._recorder = Recorder(engine, forecaster)
        self._what_if = WhatIf(engine, forecaster, self._submissions)
        self._batches = Batches(self._submissions)
        self._edits = Edits(engine, self._submissions)
        self._temporary = TemporaryQueues(engine, directory)
        self._queues = Queues(engine, directory, self.guard, self._temporary, machines)
        self._devices = DeviceRoutes(engine, directory)
        self._machines = Machines(machines)
        self._log_lines = LogLines(engine, directory)
        self._timeline = Timeline(engine, forecaster)
        self.live = Live(engine, directory, self._last_lines, self.guard)
        self._log_search = LogSearch(engine, directory)
        self._notices = Notices(notifier)
        self._config = config or {}
        self._history = History(engine)
        self._tables = Tables(engine, self._last_lines, self._jobs, when)

    def app(self) -> web.Application:
        """Return the application: routes, and the access check that also answers errors."""
        app = web.Application(middlewares=[errors_in_words, self.guard.check])
        app.on_response_prepare.append(add_headers)
        app.on_response_prepare.append(version_header)
        app.on_response_prepare.append(self._add_headers)
        app.on_startup.append(self._begin)
        app.on_shutdown.append(self._end)
        self.guard.protect(app, self.routes())
        return app

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Tell with every answer what the caller may do; and the owner that jobs are lost, until that is accepted."""
        if (lost := self._engine.status.lost_jobs) and CALLER in request and request[CALLER].is_local:
            response.headers["Grass-Warning"] = lost_history_warning(lost)
        if CALLER in request:
            # A screen such as `grass top` leaves out what the caller may not do.
            response.headers["Grass-Scope"] = request[CALLER].scope

    async def _cut_expired(self) -> None:
        """End the streams of sessions that have expired; every other request asks whether its session is valid."""
        while True:
            await asyncio.sleep(EXPIRED_S)
            self.guard.cut_expired()

    async def _begin(self, app: web.Application) -> None:
        await self.tokens.load()
        self._expiring = asyncio.create_task(self._cut_expired())
        self._temporary.start()
        self._removal.start()
        self._recorder.start()
        self._retention.start()

    async def _end(self, app: web.Application) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        await self.live.close()
        await self._timeline.close()
        await self._recorder.close()
        await self._tables.close()
        await self._temporary.close()
        await self._retention.close()
        await self._removal.close()
        await self._log_lines.close()
        self._engine.subscriptions.close()

    def routes(self) -> list[Route]:
        """Return the table of routes; nothing else is served."""
        engine = self._engine
        info = Description("daemon", "What `grass doctor` shows of the daemon", InfoDocument)
        stop = Description("daemon", "Stop the daemon; jobs run on", StopDocument)
        worker = Description("daemon", "The connection of a worker: messages in a format of its own", None, "websocket")
        return [
            *self.page.routes(),
            *self.sessions.routes(),
            *ExtraDoors(self.sessions).routes(),
            *self._jobs.routes(),
            jobs_route(engine, self._last_lines),
            *self._history.routes(),
            *self._tables.routes(),
            *self._submissions.routes(),
            *self._batches.routes(),
            *self._edits.routes(),
            log_route(engine, self._directory),
            *self._log_lines.routes(),
            *self._log_search.routes(),
            events_route(engine),
            *self.live.routes(),
            *self._eta.routes(),
            *self._timeline.routes(),
            *self._what_if.routes(),
            *self._queues.routes(),
            *LimitRoutes(engine).routes(),
            *self._devices.routes(),
            *self._machines.routes(),
            *self.tokens.routes(),
            *self._notices.routes(),
            completion_route(engine, self._machine_admin),
            config_route(self._config),
            *self._document.routes(),
            Route("GET", "/v1/info", self.info, "admin", about=info),
            Route("POST", "/v1/stop", self.stop, "local", about=stop),
            Route("GET", "/v1/worker", self._link, "worker", waits=True, about=worker),
        ]

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
                "lost_jobs": self._engine.status.lost_jobs,
                "page": self.sessions.describe(),
            }
        )

    async def stop(self, request: web.Request) -> web.Response:
        """Stop the daemon; jobs run on."""
        running = await self._engine.read(lambda batch: len(batch.board.holding))
        self._stop()
        return document(StopDocument(running=running))
