"""The routes about stored jobs: show, explain, change; `waits.py` has how to wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TypedDict, TypeVar

from aiohttp import web

from grassq.broker import selection, views
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import STEP_JOBS, Action, BulkChange
from grassq.broker.actions.preview import Preview
from grassq.broker.actions.removable import Removable, RemovableDocument
from grassq.broker.actions.suspend import ResumeJobs, SuspendJobs
from grassq.broker.batch import Batch
from grassq.broker.decider import RETRY_STORE_S
from grassq.broker.documents.job import JobDocument
from grassq.broker.documents.overview import OverviewDocument
from grassq.broker.documents.why import WhyDocument, WhyJobDocument
from grassq.broker.engine import Engine
from grassq.broker.selection import IdReading, Reading
from grassq.broker.summary.brief import brief, glance
from grassq.broker.waiting import dependents
from grassq.core.messages import LeftFolder
from grassq.core.model import State
from grassq.core.syntax.selectors import AllJobs, AnyOf, ByQueue, ByState, Selector
from grassq.errors import BadInput, GrassError, StoreFull, StoreUnavailable
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import ONE_SELECTOR, SELECTORS, Description, Parameter
from grassq.web.access.principal import CALLER, Principal
from grassq.web.forecast.when import When
from grassq.web.logs.last_lines import LastLines
from grassq.web.removal import FolderRemoval
from grassq.web.responses import BulkDocument, SlowAnswer, bulk_document, digest, document, job_lines
from grassq.web.retention import Retention
from grassq.web.routes.recent_jobs import WITHIN_S_MAX, recent_jobs, recent_page
from grassq.web.routes.waits import Waits

#: By the value of `look`: the states whose logs are looked at for an overview. Logs of jobs that ended well, or did not
#: start, would not be shown; a table for scripts tells only why jobs failed.
LOOKS = {
    "1": frozenset({State.PLACED.value, State.RUNNING.value, State.FAILED.value}),
    "failed": frozenset({State.FAILED.value}),
}

#: The changes of selected jobs: POST /v1/jobs/VERB.
CHANGES: dict[str, Callable[[requests.SelectBody, Principal], Action]] = {
    "kill": lambda body, caller: actions.KillJobs(body.grace_s, body.unstarted, body.with_dependents),
    "requeue": lambda body, caller: actions.RequeueJobs(),
    "rerun": lambda body, caller: _rerun(body, caller),
    "hold": lambda body, caller: actions.HoldJobs(),
    "release": lambda body, caller: actions.ReleaseJobs(caller.by),
    "suspend": lambda body, caller: SuspendJobs(body.free),
    "resume": lambda body, caller: ResumeJobs(),
    "priority": lambda body, caller: _set_priority(body, caller),
    "clean": lambda body, caller: actions.CleanJobs(body.older_s, body.ended_by, body.keep_logs),
}

#: What is run again without a selector.
ALL_FAILED: list[Selector] = [ByState((State.FAILED.value, State.CANCELLED.value))]
#: What each change does, for the document about the API.
_CHANGES_DO = {
    "kill": "End selected jobs, or cancel those that wait",
    "requeue": "End the attempts of selected jobs that run, and queue the jobs again under their ids",
    "rerun": "Run selected jobs again, each as a new job",
    "hold": "Hold selected jobs that wait, so that they do not start",
    "release": "Release selected jobs that are held",
    "suspend": "Stop the processes of selected jobs that run; device memory stays taken",
    "resume": "Let selected jobs go on that are suspended",
    "priority": "Give selected jobs another priority",
    "clean": "Remove selected jobs that have ended, and their files",
}

T = TypeVar("T", bound=Mapping[str, object])
#: Returns documents of the next jobs of a reading.
Page = Callable[[Reading, Batch], tuple[list[T], Reading]]
#: Adds to the first documents of an answer; the other argument tells whether these are all.
Describe = Callable[[list[T], bool], Awaitable[None]]


class LeftFoldersDocument(TypedDict):
    """Folders of removed jobs that could not be removed yet."""

    jobs: int
    bytes: int
    #: Why the first of them is still there.
    why: str | None


class CleanDocument(BulkDocument):
    """What a clean has removed."""

    left: LeftFoldersDocument
    #: With `keep_logs`: the folder on the daemon's machine that has the folders of the removed jobs now.
    kept: str | None


class SkippedDocument(TypedDict):
    """Jobs that an action would leave as they are."""

    count: int
    states: dict[str, int]


class RerunPreviewDocument(TypedDict):
    """What a rerun would submit again."""

    dry_run: bool
    count: int
    ids: list[int]
    states: dict[str, int]
    skipped: SkippedDocument
    notes: list[str]


class Jobs:
    """The handlers of the routes."""

    def __init__(
        self, engine: Engine, removal: FolderRemoval, retention: Retention, last_lines: LastLines, when: When
    ) -> None:
        self._engine = engine
        self._waits = Waits(engine)
        self._retention = retention
        self._when = when
        self._removal = removal
        self._last_lines = last_lines

    def routes(self) -> list[Route]:
        """Return the routes."""
        show = Description(
            "jobs",
            "Jobs, queues and workers: an overview, or the selected jobs",
            OverviewDocument,
            query=(
                SELECTORS,
                Parameter("look", "1: tell what the ends of the logs say; failed: of failed jobs only"),
                Parameter("brief", "Only the few jobs of a screen; without a selector", bool),
                Parameter("within_s", "Only jobs that have not ended, or ended in the last seconds", int),
            ),
        )
        why = Description("jobs", "Why jobs wait, or run where they do", WhyDocument, query=(ONE_SELECTOR,))
        return [
            Route("GET", "/v1/show", self.show, "read", about=show),
            Route("GET", "/v1/why", self.why, "read", about=why),
            self._waits.route(),
            *(self._change_route(verb) for verb in CHANGES),
        ]

    def _change_route(self, verb: str) -> Route:
        answers = {"clean": CleanDocument | RemovableDocument, "rerun": BulkDocument | RerunPreviewDocument}
        answer = answers.get(verb, BulkDocument)
        about = Description("jobs", _CHANGES_DO[verb], answer, body=requests.SelectBody)
        return Route("POST", f"/v1/jobs/{verb}", partial(self.change, verb), "submit", about=about)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with jobs, queues and workers. Of many selected jobs, each is shown as when its page was read.

        With `look=1`, the first jobs have what the ends of their logs tell, and their sweeps are counted. Without a
        selector, `look=failed` looks at failed jobs only, and `brief=1` asks for the few jobs of a screen. With
        `within_s`, the jobs are those that have not ended, or ended in the last `within_s` seconds.
        """
        chosen = requests.selectors(request)
        within_s = requests.number(request, "within_s", 0, WITHIN_S_MAX) if "within_s" in request.query else None

        async def look(jobs: list[JobDocument], are_all: bool) -> None:
            await self._last_lines.describe_if_asked(request, jobs)

        if within_s is not None and not chosen:
            return await self._recent(request, within_s)
        if within_s is not None:
            page: Page[JobDocument] = partial(recent_page, within_s=within_s)
            return await self._pages(request, chosen, views.overview, page, look)
        if not chosen:
            looked, is_brief = request.query.get("look"), request.query.get("brief") == "1"
            shown = await self._engine.read(brief if is_brief else glance if looked in LOOKS else views.glance)
            states = LOOKS.get(looked or "", ())
            await self._last_lines.describe([job for job in shown["jobs"] if job["state"] in states])
            return document(shown)
        return await self._pages(request, chosen, views.overview, views.show_page, look)

    async def why(self, request: web.Request) -> web.StreamResponse:
        """Answer with the reasons why jobs wait or run where they do; of a few jobs, also when they start and end."""
        chosen = requests.check_some(requests.selectors(request))

        async def tell_when(jobs: list[WhyJobDocument], are_all: bool) -> None:
            if are_all:
                await self._when.describe(jobs)

        return await self._pages(request, chosen, lambda batch: {}, views.why_page, tell_when)

    async def _pages(
        self,
        request: web.Request,
        chosen: list[Selector],
        head: Callable[[Batch], Mapping[str, object]],
        page: Page[T],
        describe: Describe[T],
    ) -> web.StreamResponse:
        """Answer with a document about selected jobs: at once if they are few, else page by page."""

        def first(batch: Batch) -> tuple[Mapping[str, object], list[T], Reading]:
            return head(batch), *page(selection.begin(batch, chosen), batch)

        about, jobs, reading = await self._engine.read(first)
        while not jobs and not reading.is_over:
            jobs, reading = await self._engine.read(partial(page, reading))
        await describe(jobs, reading.is_over)
        if reading.is_over:
            return document({**about, "jobs": jobs})
        rest = self._rest(reading, page)
        return job_lines(request, about, jobs, rest)

    async def _recent(self, request: web.Request, within_s: int) -> web.StreamResponse:
        """Answer with the jobs that have not ended, or ended lately: at once if they are few, else page by page."""
        about = await self._engine.read(views.overview)
        pages, jobs = recent_jobs(self._engine, within_s), list[JobDocument]()
        async for page in pages:
            jobs += page
            if len(jobs) > views.SHOW_PAGE:
                await self._last_lines.describe_if_asked(request, jobs)
                return job_lines(request, about, jobs, pages)
        await self._last_lines.describe_if_asked(request, jobs)
        return document({**about, "jobs": jobs})

    async def _rest(self, reading: Reading, page: Page[T]) -> AsyncIterator[list[T]]:
        while not reading.is_over:
            jobs, reading = await self._engine.read(partial(page, reading))
            yield jobs

    async def change(self, verb: str, request: web.Request) -> web.StreamResponse:
        """Apply an action to selected jobs, once per key; the jobs are those selected when the command runs."""
        raw = request[BODY]
        body = requests.decode(raw, requests.SelectBody)
        chosen = requests.parse_selectors(body.selectors, is_remote=not request[CALLER].is_at_home)
        states = body.rerun_states
        if not states:
            requests.check_some(chosen)
        request[ENTRY].about = " ".join(body.selectors)
        if verb == "clean" and body.dry_run:
            return await self._would_remove(request, chosen, actions.CleanJobs(body.older_s))
        if verb == "rerun" and not states:
            for at in range(0, len(chosen), STEP_JOBS):
                await self._engine.read(partial(_refuse_history, chosen=chosen[at : at + STEP_JOBS]))
        if verb == "rerun" and body.dry_run:
            return await self._would_rerun(request, chosen, CHANGES[verb](body, request[CALLER]))
        change = BulkChange(
            CHANGES[verb](body, request[CALLER]),
            chosen or ALL_FAILED,
            key=body.key,
            # The path too: the same body can kill or clean, and a repeated key must not turn a hold into a removal.
            digest=digest(request.path.encode() + b" " + raw),
            visible_to=request[CALLER].limited_to,
            required=bool(chosen),
        )
        answer = SlowAnswer(request)
        try:
            if verb == "clean":
                cleanable = self._cleanable(request, chosen, actions.CleanJobs(body.older_s, body.ended_by))
                return await answer.end(await self.clean(change, cleanable, answer, keep_logs=body.keep_logs))
            done = await self._engine.change_in_steps(change.start, answer.keep_alive)
        except GrassError as error:
            return await answer.refuse(error)
        return await answer.end(bulk_document(done))

    async def clean(
        self,
        change: BulkChange,
        cleanable: AsyncIterator[list[int]],
        answer: SlowAnswer,
        *,
        keep_logs: bool = False,
    ) -> CleanDocument:
        """Remove jobs, then their folders: after a crash in between the next daemon removes the folders.

        With `keep_logs`, the folders are put aside instead.
        """
        try:
            done = await self._engine.change_in_steps(change.start, answer.keep_alive)
        except StoreFull:
            if keep_logs:
                raise
            # Without the folders there is room to store that the jobs are removed.
            async for ids in cleanable:
                await self._removal.make_room(ids)
                await answer.keep_alive()
            await asyncio.sleep(RETRY_STORE_S)
            try:
                done = await self._engine.change_in_steps(change.start, answer.keep_alive)
            except StoreUnavailable as error:
                raise StoreUnavailable(f"{error}; the files of the jobs are removed, the jobs are not") from error
        left = _left(await self._removal.remove(done.ids, keep_logs=keep_logs))
        return {**bulk_document(done), "left": left, "kept": self._removal.kept_in if keep_logs and done.ids else None}

    async def _would_rerun(self, request: web.Request, chosen: list[Selector], rerun: Action) -> web.StreamResponse:
        """Answer with the jobs that a rerun would submit again now."""
        answer, seen, visible_to = SlowAnswer(request), Preview(rerun), request[CALLER].limited_to
        required = bool(chosen)
        try:
            begin = partial(selection.begin, selectors=chosen or ALL_FAILED, visible_to=visible_to, required=required)
            reading: Reading | IdReading = await self._engine.read(begin)
            while not reading.is_over:
                reading = await self._engine.read(partial(seen.read, reading=reading))
                await answer.keep_alive()
            if rerun.with_dependents:
                behind = partial(dependents.behind, ids=[*seen.ids.values()])
                reading = IdReading(await self._engine.read(behind), visible_to=visible_to)
                while not reading.is_over:
                    reading = await self._engine.read(partial(seen.read, reading=reading))
                    await answer.keep_alive()
        except GrassError as error:
            return await answer.refuse(error)
        return await answer.end({**seen.document(), "ids": sorted(seen.ids.values()), "dry_run": True})

    async def _would_remove(self, request: web.Request, chosen: list[Selector], clean: Action) -> web.StreamResponse:
        """Answer with what a clean would remove now, and with the time up to which this is complete."""
        answer = SlowAnswer(request)
        seen = Removable()
        try:
            async for ids in self._cleanable(request, chosen, clean, seen):
                seen.bytes += await self._removal.size(ids)
                await answer.keep_alive()
            would = seen.document()
            if request[CALLER].limited_to is None:
                would["keep"] = await self._retention.would_remove(answer.keep_alive)
        except GrassError as error:
            return await answer.refuse(error)
        return await answer.end(would)

    async def _cleanable(
        self, request: web.Request, chosen: list[Selector], clean: Action, seen: Removable | None = None
    ) -> AsyncIterator[list[int]]:
        """Yield the ids of the jobs that a clean would remove now, some at a time."""
        seen = seen or Removable()
        reading = await self._engine.read(lambda batch: selection.begin(batch, chosen, request[CALLER].limited_to))
        while not reading.is_over:
            ids, reading = await self._engine.read(partial(seen.read, clean, reading))
            yield ids


def _left(folders: list[LeftFolder]) -> LeftFoldersDocument:
    """Return the folders that could not be removed yet, as a document: how many, and why the first of them."""
    return {
        "jobs": len(folders),
        "bytes": sum(folder.bytes for folder in folders),
        "why": f"job {folders[0].job}: {folders[0].why}" if folders else None,
    }


def _set_priority(body: requests.SelectBody, caller: Principal) -> Action:
    if caller.limits is not None:
        caller.limits.check_priority(body.priority)
    return actions.SetPriority(body.priority)


def _rerun(body: requests.SelectBody, caller: Principal) -> Action:
    if states := body.rerun_states:
        return actions.RerunFailed(caller.bearer, body.with_dependents, states)
    is_named = all(selection.is_named(each) for each in requests.parse_selectors(body.selectors))
    # A job named by its id is run again whatever became of its later runs.
    kind = actions.RerunJobs if is_named else actions.RerunLast
    return kind(caller.bearer, body.with_dependents)


def _refuse_history(batch: Batch, chosen: list[Selector]) -> None:
    """Refuse to run every job again that ever ended, or every one of a queue."""
    for selector in chosen:
        meant = selection.resolve(batch, selector)
        parts = meant.parts if isinstance(meant, AnyOf) else (meant,)
        if any(isinstance(part, AllJobs | ByQueue) for part in parts):
            raise BadInput(
                f"{selection.describe(selector)} stands for every job that ever ended there; say which to run again: "
                "--failed, a state such as failed,cancelled, a name or ids"
            )
