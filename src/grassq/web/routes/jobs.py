"""The routes about stored jobs: show, explain, wait, change."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from functools import partial

import msgspec
from aiohttp import web

from grassq.broker import selection, views
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import Action, BulkChange
from grassq.broker.actions.removable import Removable
from grassq.broker.batch import Batch
from grassq.broker.decider import RETRY_STORE_S
from grassq.broker.engine import Engine
from grassq.broker.selection import Reading
from grassq.broker.subscriptions import Filter
from grassq.broker.views import Document
from grassq.core.messages import LeftFolder
from grassq.core.model import FINAL, Job, State
from grassq.core.names import shown
from grassq.core.syntax.selectors import AllJobs, ByQueue, ByState, Selector
from grassq.errors import BadInput, GrassError, StoreFull, StoreUnavailable
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY
from grassq.web.access.principal import CALLER, Principal
from grassq.web.listen.abort import cut
from grassq.web.removal import FolderRemoval
from grassq.web.responses import SlowAnswer, bulk_document, digest, document

WAIT_MAX_S = 30.0
#: Characters of a request that the audit log keeps.
ABOUT_MAX = 200

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

    def __init__(self, engine: Engine, removal: FolderRemoval) -> None:
        self._engine = engine
        self._removal = removal

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with jobs, queues and workers. Of many selected jobs, each is shown as when its page was read."""
        chosen = requests.selectors(request)
        if not chosen:
            return document(await self._engine.read(views.glance))
        return await self._pages(request, chosen, views.overview, views.show_page)

    async def why(self, request: web.Request) -> web.StreamResponse:
        """Answer with the reasons why jobs wait or run where they do."""
        chosen = _check_some(requests.selectors(request))
        return await self._pages(request, chosen, lambda batch: {}, views.why_page)

    async def _pages(
        self, request: web.Request, chosen: list[Selector], head: Callable[[Batch], Document], page: Page
    ) -> web.StreamResponse:
        """Answer with a document about selected jobs: at once if they are few, else page by page."""

        def first(batch: Batch) -> tuple[Document, list[Document], Reading]:
            return head(batch), *page(selection.begin(batch, chosen), batch)

        about, jobs, reading = await self._engine.read_step(first)
        while not jobs and not reading.is_over:
            jobs, reading = await self._engine.read_step(partial(page, reading))
        if reading.is_over:
            return document({**about, "jobs": jobs})
        head_text = msgspec.json.encode({**about, "jobs": []})[:-2]
        return web.Response(body=self._lines(request, head_text, jobs, reading, page), content_type="application/json")

    async def _lines(
        self, request: web.Request, head_text: bytes, jobs: list[Document], reading: Reading, page: Page
    ) -> AsyncIterator[bytes]:
        """Yield a document with a list of jobs that is too long for memory, each job on a line of its own."""
        yield head_text + b"\n" + b",\n".join(map(msgspec.json.encode, jobs))
        while not reading.is_over:
            try:
                jobs, reading = await self._engine.read_step(partial(page, reading))
            except GrassError:
                # The client sees that the document is not whole.
                cut(request.transport)
                return
            if jobs:
                yield b",\n" + b",\n".join(map(msgspec.json.encode, jobs))
        yield b"\n]}\n"

    async def wait(self, request: web.Request) -> web.Response:
        """Answer when the jobs have ended, or when the time is over."""
        chosen = _check_some(requests.selectors(request))
        timeout_s = _seconds(request.query.get("timeout_s", "0"))
        any_one = request.query.get("any") == "1"
        jobs = await self._engine.read(partial(selection.select, selectors=chosen, live=True))
        if timeout_s and not _over(jobs, any_one):
            jobs = await self._waited(jobs, timeout_s, any_one)
        shown_jobs = await self._engine.read(partial(views.documents, jobs=jobs))
        return document({"done": _over(jobs, any_one), "jobs": shown_jobs})

    async def _waited(self, jobs: list[Job], timeout_s: float, any_one: bool) -> list[Job]:
        """Wait for the next end of a job, or for the ends of all; return the jobs as they are then."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pending = [job.id for job in jobs if job.state not in FINAL]
        with self._engine.subscriptions.subscribe(Filter(frozenset(pending), ended=True)) as ends:
            # A job that has ended between the look and the subscription is not waited for.
            news = await self._engine.read(partial(selection.present, ids=pending))
            left = {job.id for job in news if job.state not in FINAL}
            ends.keep(left)
            while left and not (any_one and len(left) < len(pending)):
                ended = await ends.next(deadline - loop.time())
                if not ended:
                    break  # the time is over, or the client must ask again
                left.difference_update(change.job for change in ended)
        news = await self._engine.read(partial(selection.present, ids=pending))
        return sorted([job for job in jobs if job.state in FINAL] + news, key=lambda job: job.id)

    async def change(self, verb: str, request: web.Request) -> web.StreamResponse:
        """Apply an action to selected jobs, once per key; the jobs are those selected when the command runs."""
        raw = request[BODY]
        body = requests.decode(raw, requests.SelectBody)
        chosen = requests.parse_selectors(body.selectors)
        states = body.rerun_states
        if not states:
            _check_some(chosen)
        request[ENTRY].about = " ".join(body.selectors)[:ABOUT_MAX]
        if verb == "clean" and body.dry_run:
            return await self._would_remove(request, chosen, actions.CleanJobs(body.older_s))
        if verb == "rerun" and not states:
            await self._engine.read(lambda batch: _refuse_history(batch, chosen))
        change = BulkChange(
            CHANGES[verb](body, request[CALLER]),
            chosen or [ByState((State.FAILED.value, State.CANCELLED.value))],
            key=body.key,
            # The path too: the same body can kill or clean, and a repeated key must not turn a hold into a removal.
            digest=digest(request.path.encode() + b" " + raw),
            visible_to=_owner(request),
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
        except GrassError as error:
            return await answer.refuse(error)
        return await answer.end(seen.document())

    async def _cleanable(
        self, request: web.Request, chosen: list[Selector], clean: Action, seen: Removable | None = None
    ) -> AsyncIterator[list[int]]:
        """Yield the ids of the jobs that a clean would remove now, some at a time."""
        seen = seen or Removable()
        reading = await self._engine.read(lambda batch: selection.begin(batch, chosen, _owner(request)))
        while not reading.is_over:
            ids, reading = await self._engine.read_step(partial(seen.read, clean, reading))
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


def _check_some(chosen: list[Selector]) -> list[Selector]:
    if not chosen:
        raise BadInput("say which jobs: an id, 3-7, @, all, a state, a queue or a name")
    return chosen


def _owner(request: web.Request) -> str | None:
    """Return the token whose jobs alone may be changed; None if the caller may change all jobs."""
    caller = request[CALLER]
    return caller.token if caller.scope == "submit" else None


def _over(jobs: list[Job], any_one: bool) -> bool:
    ended = (job.state in FINAL for job in jobs)
    return not jobs or (any(ended) if any_one else all(ended))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise BadInput(f"{shown(text)} is not a number of seconds")
    return min(max(seconds, 0.0), WAIT_MAX_S)
