"""The routes about stored jobs: show, explain, wait, change."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import web

from grassq.broker import selection, views
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import STEP_JOBS, Action, BulkChange
from grassq.broker.actions.removable import Removable
from grassq.broker.batch import Batch
from grassq.broker.decider import RETRY_STORE_S
from grassq.broker.engine import Engine
from grassq.broker.selection import Reading
from grassq.broker.subscriptions import Filter, Position
from grassq.broker.summary.brief import brief, glance
from grassq.broker.views import Document
from grassq.core.messages import LeftFolder
from grassq.core.model import FINAL, State
from grassq.core.names import shown
from grassq.core.syntax.selectors import AllJobs, ByQueue, ByState, Selector
from grassq.errors import BadInput, GrassError, StoreFull, StoreUnavailable
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY
from grassq.web.access.principal import CALLER, Principal
from grassq.web.forecast.when import When
from grassq.web.logs.last_lines import LastLines
from grassq.web.removal import FolderRemoval
from grassq.web.responses import SlowAnswer, bulk_document, digest, document, job_lines
from grassq.web.retention import Retention
from grassq.web.routes.recent_jobs import WITHIN_S_MAX, recent_jobs, recent_page

WAIT_MAX_S = 30.0
#: Characters of a request that the audit log keeps.
ABOUT_MAX = 200

#: By the value of `look`: the states whose logs are looked at for an overview. Logs of jobs that ended well, or did not
#: start, would not be shown; a table for scripts tells only why jobs failed.
LOOKS = {
    "1": frozenset({State.PLACED.value, State.RUNNING.value, State.FAILED.value}),
    "failed": frozenset({State.FAILED.value}),
}

#: The changes of selected jobs: POST /v1/jobs/VERB.
CHANGES: dict[str, Callable[[requests.SelectBody, Principal], Action]] = {
    "kill": lambda body, caller: actions.KillJobs(body.grace_s, body.unstarted),
    "rerun": lambda body, caller: _rerun(body, caller),
    "hold": lambda body, caller: actions.HoldJobs(),
    "release": lambda body, caller: actions.ReleaseJobs(caller.token),
    "priority": lambda body, caller: _set_priority(body, caller),
    "clean": lambda body, caller: actions.CleanJobs(body.older_s, body.ended_by),
}

#: Returns documents of the next jobs of a reading.
Page = Callable[[Reading, Batch], tuple[list[Document], Reading]]


class Jobs:
    """The handlers of the routes."""

    def __init__(
        self, engine: Engine, removal: FolderRemoval, retention: Retention, last_lines: LastLines, when: When
    ) -> None:
        self._engine = engine
        self._retention = retention
        self._when = when
        self._removal = removal
        self._last_lines = last_lines

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with jobs, queues and workers. Of many selected jobs, each is shown as when its page was read.

        With `look=1`, the first jobs have what the ends of their logs tell, and their sweeps are counted. Without a
        selector, `look=failed` looks at failed jobs only, and `brief=1` asks for the few jobs of a screen. With
        `within_s`, the jobs are those that have not ended, or ended in the last `within_s` seconds.
        """
        chosen = requests.selectors(request)
        within_s = requests.number(request, "within_s", 0, WITHIN_S_MAX) if "within_s" in request.query else None
        if within_s is not None and not chosen:
            return await self._recent(request, within_s)
        if within_s is not None:
            return await self._pages(request, chosen, views.overview, partial(recent_page, within_s=within_s))
        if not chosen:
            look, is_brief = request.query.get("look"), request.query.get("brief") == "1"
            shown = await self._engine.read(brief if is_brief else glance if look in LOOKS else views.glance)
            jobs = shown["jobs"]
            assert isinstance(jobs, list)
            await self._last_lines.describe([job for job in jobs if job["state"] in LOOKS.get(look or "", ())])
            return document(shown)
        return await self._pages(request, chosen, views.overview, views.show_page)

    async def why(self, request: web.Request) -> web.StreamResponse:
        """Answer with the reasons why jobs wait or run where they do; of a few jobs, also when they start and end."""
        chosen = requests.check_some(requests.selectors(request))
        return await self._pages(request, chosen, lambda batch: {}, views.why_page)

    async def _pages(
        self, request: web.Request, chosen: list[Selector], head: Callable[[Batch], Document], page: Page
    ) -> web.StreamResponse:
        """Answer with a document about selected jobs: at once if they are few, else page by page."""

        def first(batch: Batch) -> tuple[Document, list[Document], Reading]:
            return head(batch), *page(selection.begin(batch, chosen), batch)

        about, jobs, reading = await self._engine.read(first)
        while not jobs and not reading.is_over:
            jobs, reading = await self._engine.read(partial(page, reading))
        if page is not views.why_page:
            await self._last_lines.describe_if_asked(request, jobs)
        elif reading.is_over:
            await self._when.describe(jobs)
        if reading.is_over:
            return document({**about, "jobs": jobs})
        return job_lines(request, about, jobs, self._rest(reading, page))

    async def _recent(self, request: web.Request, within_s: int) -> web.StreamResponse:
        """Answer with the jobs that have not ended, or ended lately: at once if they are few, else page by page."""
        about = await self._engine.read(views.overview)
        pages, jobs = recent_jobs(self._engine, within_s), list[Document]()
        async for page in pages:
            jobs += page
            if len(jobs) > views.SHOW_PAGE:
                await self._last_lines.describe_if_asked(request, jobs)
                return job_lines(request, about, jobs, pages)
        await self._last_lines.describe_if_asked(request, jobs)
        return document({**about, "jobs": jobs})

    async def _rest(self, reading: Reading, page: Page) -> AsyncIterator[list[Document]]:
        while not reading.is_over:
            jobs, reading = await self._engine.read(partial(page, reading))
            yield jobs

    async def wait(self, request: web.Request) -> web.StreamResponse:
        """Answer when the jobs have ended, or when the time is over. Of the jobs only the ids are kept meanwhile."""
        chosen = requests.check_some(requests.selectors(request))
        timeout_s = _seconds(request.query.get("timeout_s", "0"))
        any_one = request.query.get("any") == "1"
        # Before the first look, so that an end between the look and the subscription is not missed.
        began_at = self._engine.subscriptions.position
        ids, pending = await self._look(chosen)
        if timeout_s and pending and not (any_one and len(pending) < len(ids)):
            await self._ended(pending, began_at, timeout_s, any_one)
        over = _Over(any_one)
        pages = self._documents(ids, over)
        if len(ids) <= views.SHOW_PAGE:
            jobs = [job async for page in pages for job in page]
            return document({"done": over.is_so, "jobs": jobs})
        return job_lines(request, {}, await anext(pages), pages, lambda: {"done": over.is_so})

    async def _look(self, chosen: list[Selector]) -> tuple[array[int], array[int]]:
        """Return the ids of the selected jobs, and of those that have not ended."""
        ids, pending = array("q"), array("q")
        reading: Reading | None = None
        while reading is None or not reading.is_over:
            found, reading = await self._engine.read(partial(_ids_page, chosen, reading))
            ids.extend(id_ for id_, _ in found)
            pending.extend(id_ for id_, has_ended in found if not has_ended)
        return ids, pending

    async def _ended(self, pending: array[int], since: Position, timeout_s: float, any_one: bool) -> None:
        """Wait until the jobs have ended, or any one; return early if that cannot be known without another look."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        left = set(pending)
        with self._engine.subscriptions.subscribe(Filter(frozenset(left), ended=True), since) as ends:
            while left and not (any_one and len(left) < len(pending)):
                ended = await ends.next(deadline - loop.time())
                if not ended:
                    return  # the time is over, or changes were lost: the answer tells how the jobs are now
                left.difference_update(change.job for change in ended)

    async def _documents(self, ids: array[int], over: _Over) -> AsyncIterator[list[views.Document]]:
        """Yield the jobs that still exist, as they are now, page by page; note which have ended."""
        for at in range(0, len(ids), views.SHOW_PAGE):
            some = ids[at : at + views.SHOW_PAGE]
            jobs, ended = await self._engine.read(partial(_documents_of, ids=some))
            over.note(len(jobs), ended)
            yield jobs

    async def change(self, verb: str, request: web.Request) -> web.StreamResponse:
        """Apply an action to selected jobs, once per key; the jobs are those selected when the command runs."""
        raw = request[BODY]
        body = requests.decode(raw, requests.SelectBody)
        chosen = requests.parse_selectors(body.selectors, is_remote=not request[CALLER].is_local)
        states = body.rerun_states
        if not states:
            requests.check_some(chosen)
        request[ENTRY].about = " ".join(body.selectors)[:ABOUT_MAX]
        if verb == "clean" and body.dry_run:
            return await self._would_remove(request, chosen, actions.CleanJobs(body.older_s))
        if verb == "rerun" and not states:
            for at in range(0, len(chosen), STEP_JOBS):
                await self._engine.read(partial(_refuse_history, chosen=chosen[at : at + STEP_JOBS]))
        change = BulkChange(
            CHANGES[verb](body, request[CALLER]),
            chosen or [ByState((State.FAILED.value, State.CANCELLED.value))],
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
                return await answer.end(await self._clean(change, cleanable, answer))
            done = await self._engine.change_in_steps(change.start, answer.keep_alive)
        except GrassError as error:
            return await answer.refuse(error)
        return await answer.end(bulk_document(done))

    async def _clean(self, change: BulkChange, cleanable: AsyncIterator[list[int]], answer: SlowAnswer) -> Document:
        """Remove jobs, then their folders: after a crash in between the next daemon removes the folders."""
        try:
            done = await self._engine.change_in_steps(change.start, answer.keep_alive)
        except StoreFull:
            # Without the folders there is room to store that the jobs are removed.
            async for ids in cleanable:
                await self._removal.make_room(ids)
                await answer.keep_alive()
            await asyncio.sleep(RETRY_STORE_S)
            try:
                done = await self._engine.change_in_steps(change.start, answer.keep_alive)
            except StoreUnavailable as error:
                raise StoreUnavailable(f"{error}; the files of the jobs are removed, the jobs are not") from error
        return bulk_document(done) | {"left": _left(await self._removal.remove(done.ids))}

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


def _left(folders: list[LeftFolder]) -> Document:
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
        return actions.RerunFailed(caller.bearer, states)
    is_named = all(selection.is_named(each) for each in requests.parse_selectors(body.selectors))
    # A job named by its id is run again whatever became of its later runs.
    return actions.RerunJobs(caller.bearer) if is_named else actions.RerunLast(caller.bearer)


def _refuse_history(batch: Batch, chosen: list[Selector]) -> None:
    """Refuse to run every job again that ever ended, or every one of a queue."""
    for selector in chosen:
        if isinstance(selection.resolve(batch, selector), AllJobs | ByQueue):
            raise BadInput(
                f"{selection.describe(selector)} stands for every job that ever ended there; say which to run again: "
                "--failed, a state such as failed,cancelled, a name or ids"
            )


class _Over:
    """Whether a wait is over, counted while its answer is written: all jobs have ended, or any one."""

    def __init__(self, any_one: bool) -> None:
        self._any_one = any_one
        self._count = self._ended = 0

    def note(self, count: int, ended: int) -> None:
        """Count some jobs, and how many of them have ended."""
        self._count, self._ended = self._count + count, self._ended + ended

    @property
    def is_so(self) -> bool:
        """Whether enough jobs have ended."""
        return not self._count or self._ended >= (1 if self._any_one else self._count)


def _ids_page(chosen: list[Selector], reading: Reading | None, batch: Batch) -> tuple[list[tuple[int, bool]], Reading]:
    """Return the next jobs to wait for by their ids, each with whether it has ended, and the reading after them."""
    reading = selection.begin(batch, chosen, live=True) if reading is None else reading
    some, reading = selection.read(batch, reading, views.SHOW_PAGE)
    return [(job.id, job.state in FINAL) for job, _ in some], reading


def _documents_of(batch: Batch, ids: array[int]) -> tuple[list[views.Document], int]:
    """Return jobs as documents, and how many of them have ended."""
    found = [*batch.fetch(ids).values()]
    found.sort(key=lambda job: job.id)
    return views.documents(batch, found), sum(job.state in FINAL for job in found)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise BadInput(f"{shown(text)} is not a number of seconds")
    return min(max(seconds, 0.0), WAIT_MAX_S)
