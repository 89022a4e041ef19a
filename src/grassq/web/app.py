"""The API: the table of every route, with its handler and what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from grassq import __version__
from grassq.broker import service
from grassq.broker.engine import Engine
from grassq.broker.views import lost_history_warning
from grassq.core.resources.amounts import Request
from grassq.notify.notifier import Notifier
from grassq.web.access.auth import Guard, Route
from grassq.web.access.bodies import REMOTE_BODY_MAX
from grassq.web.access.principal import CALLER
from grassq.web.events.json_lines import serve_events
from grassq.web.events.temporary_queues import TemporaryQueues
from grassq.web.forecast.eta import Eta
from grassq.web.forecast.forecaster import Forecaster
from grassq.web.forecast.recorder import Recorder
from grassq.web.forecast.what_if import WhatIf
from grassq.web.forecast.when import When
from grassq.web.logs.last_lines import LastLines
from grassq.web.logs.lines import LogLines
from grassq.web.logs.search import LogSearch
from grassq.web.logs.serve import serve_log
from grassq.web.removal import FolderRemoval
from grassq.web.responses import Handler, document, errors_in_words, version_header
from grassq.web.retention import KEEP_ALL, KeepRules, Retention
from grassq.web.routes.complete import serve_completion
from grassq.web.routes.config import Config, config_route
from grassq.web.routes.history import History
from grassq.web.routes.job_list import serve_jobs
from grassq.web.routes.jobs import CHANGES, Jobs
from grassq.web.routes.machines import Machines
from grassq.web.routes.notices import Notices
from grassq.web.routes.queues import Queues
from grassq.web.routes.tokens import Tokens
from grassq.web.submit.edit import Edits
from grassq.web.submit.handler import FileCheck, Submissions
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.machine_admin import MachineAdmin


class Api:
    """Every route, and what the handlers share."""

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
        keep: KeepRules = KEEP_ALL,
        config: Config | None = None,
    ) -> None:
        """Build the handlers; `link` serves workers that dial in, `check_files` checks the files of jobs.

        `machines` keeps the machines over ssh, `notifier` sends notices, `token_notify` names the hosts that jobs of
        tokens may send notices to; `keep` says which ended jobs are removed by themselves; `config` are the settings.
        """
        self._engine = engine
        self._directory = directory
        self._stop = stop
        self._about = about
        self._complete = partial(serve_completion, engine=engine, machines=machines)
        self._link = link
        self.guard = guard
        self.tokens = Tokens(engine, self.guard)
        self._removal = FolderRemoval(engine, directory)
        self._retention = Retention(engine, self._removal, keep, guard.audit)
        self._last_lines = LastLines(directory)
        forecaster = Forecaster(engine, self._last_lines)
        self._jobs = Jobs(engine, self._removal, self._retention, self._last_lines, When(engine, forecaster))
        self._submissions = Submissions(engine, default, check_files, token_notify)
        self._eta = Eta(engine, forecaster)
        self._recorder = Recorder(engine, forecaster)
        self._what_if = WhatIf(engine, forecaster, self._submissions)
        self._edits = Edits(engine, self._submissions)
        self._temporary = TemporaryQueues(engine, directory)
        self._queues = Queues(engine, directory, self.guard, self._temporary, machines)
        self._machines = Machines(machines)
        self._log_lines = LogLines(engine, directory)
        self._log_search = LogSearch(engine, directory)
        self._notices = Notices(notifier)
        self._config = config or {}
        self._history = History(engine)

    def app(self) -> web.Application:
        """Return the application: routes, and the access check that also answers errors."""
        app = web.Application(middlewares=[errors_in_words, self.guard.check])
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

    async def _begin(self, app: web.Application) -> None:
        await self.tokens.load()
        self._temporary.start()
        self._removal.start()
        self._recorder.start()
        self._retention.start()

    async def _end(self, app: web.Application) -> None:
        await self._recorder.close()
        await self._temporary.close()
        await self._retention.close()
        await self._removal.close()
        await self._log_lines.close()
        self._engine.subscriptions.close()

    def routes(self) -> list[Route]:
        """Return the table of routes; nothing else is served."""
        submissions, jobs, queues, tokens = self._submissions, self._jobs, self._queues, self.tokens
        engine, directory = self._engine, self._directory
        log = partial(serve_log, engine=engine, sources=directory)
        return [
            Route("GET", "/v1/complete", self._complete, "read"),
            Route("POST", "/v1/redeem", tokens.redeem, "open"),
            Route("POST", "/v1/logout", tokens.logout, "read"),
            Route("GET", "/v1/show", jobs.show, "read"),
            Route("GET", "/v1/jobs", partial(serve_jobs, engine=engine, last_lines=self._last_lines), "read"),
            Route("GET", "/v1/why", jobs.why, "read"),
            *self._eta.routes(),
            *self._what_if.routes(),
            Route("GET", "/v1/wait", jobs.wait, "read", waits=True),
            Route("GET", "/v1/events", partial(serve_events, engine=engine), "read", waits=True),
            Route("GET", r"/v1/jobs/{id:\d{1,15}}/log", log, "read", waits=True),
            Route("GET", r"/v1/jobs/{id:\d{1,15}}/log/lines", self._log_lines.serve, "read", waits=True),
            Route("GET", r"/v1/jobs/{id:\d{1,15}}/log/search", self._log_search.serve, "read", waits=True),
            Route("GET", "/v1/queues/{queue}/subscribe", queues.subscribe, "submit", waits=True),
            Route("POST", "/v1/enqueue", submissions.enqueue, "submit", REMOTE_BODY_MAX),
            Route("POST", "/v1/submit", submissions.submit, "submit", REMOTE_BODY_MAX),
            Route("POST", "/v1/submit-many", submissions.submit_many, "submit", REMOTE_BODY_MAX),
            *(Route("POST", f"/v1/jobs/{verb}", partial(jobs.change, verb), "submit") for verb in CHANGES),
            *self._edits.routes(),
            Route("POST", "/v1/create-queue", queues.create_queue, "admin"),
            Route("POST", "/v1/delete-queue", queues.delete_queue, "admin"),
            Route("POST", "/v1/pause", queues.pause, "admin"),
            Route("POST", "/v1/resume", queues.resume, "admin"),
            Route("POST", "/v1/drain", queues.drain, "admin"),
            Route("POST", "/v1/remove-worker", queues.remove_worker, "admin"),
            Route("GET", "/v1/tokens", tokens.list, "admin"),
            Route("POST", "/v1/tokens/create", tokens.create, "admin"),
            Route("POST", "/v1/tokens/revoke", tokens.revoke, "admin"),
            Route("GET", "/v1/audit", tokens.audit, "admin"),
            Route("GET", "/v1/info", self.info, "admin"),
            *self._machines.routes(),
            *self._notices.routes(),
            config_route(self._config),
            *self._history.routes(),
            Route("POST", "/v1/stop", self.stop, "local"),
            Route("GET", "/v1/worker", self._link, "worker", waits=True),
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
            }
        )

    async def stop(self, request: web.Request) -> web.Response:
        """Stop the daemon; jobs run on."""
        running = await self._engine.read(lambda batch: len(batch.board.holding))
        self._stop()
        return document({"running": running})
