"""GET /v1/wait: jobs that a client waits for."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator
from functools import partial
from typing import TypedDict

from aiohttp import web

from grassq.broker import selection, views
from grassq.broker.batch import Batch
from grassq.broker.documents.job import JobDocument
from grassq.broker.engine import Engine
from grassq.broker.selection import Reading
from grassq.broker.subscriptions import Filter, Position
from grassq.core.model import FINAL
from grassq.core.names import shown
from grassq.core.syntax.selectors import Selector
from grassq.errors import BadInput
from grassq.web import requests
from grassq.web.access.auth import Route
from grassq.web.access.description import ONE_SELECTOR, Description, Parameter
from grassq.web.responses import document, job_lines

WAIT_MAX_S = 30.0


class WaitDocument(TypedDict):
    """Jobs that were waited for."""

    #: Whether they have ended, or any one of them; false if the time was over before.
    done: bool
    jobs: list[JobDocument]


class Waits:
    """The handler of the route."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def route(self) -> Route:
        """Return the route."""
        about = Description(
            "jobs",
            "Wait until jobs have ended",
            WaitDocument,
            query=(
                ONE_SELECTOR,
                Parameter(
                    "timeout_s", f"Answer after this many seconds at the latest, at most {WAIT_MAX_S:g}", float, 0
                ),
                Parameter("any", "Wait for any one of the jobs", bool),
            ),
        )
        return Route("GET", "/v1/wait", self.wait, "read", waits=True, about=about)

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
            return document(WaitDocument(done=over.is_so, jobs=jobs))
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

    async def _documents(self, ids: array[int], over: _Over) -> AsyncIterator[list[JobDocument]]:
        """Yield the jobs that still exist, as they are now, page by page; note which have ended."""
        for at in range(0, len(ids), views.SHOW_PAGE):
            some = ids[at : at + views.SHOW_PAGE]
            jobs, ended = await self._engine.read(partial(_documents_of, ids=some))
            over.note(len(jobs), ended)
            yield jobs


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


def _documents_of(batch: Batch, ids: array[int]) -> tuple[list[JobDocument], int]:
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
