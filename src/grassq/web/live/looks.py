"""Looks at the ends of the logs of jobs that pages show: the last line, how far a job is, and why it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable
from contextvars import Context
from typing import cast

from grassq.broker.views import Document
from grassq.core.model import FINAL
from grassq.web.logs.last_lines import JOBS_MAX, LastLines, LookedAtDocument

#: While a job that a page shows runs, the end of its log is looked at this often.
LOOK_S = 2.0
#: What the ends of logs tell.
TOLD = ("last_line", "progress", "cause")
#: What is kept of a job to look at its log.
_NEEDED = ("id", "attempt", "worker", "split", "state", "exit_code", "signal", "outcome", "error")

#: An attempt: its job and its number.
_Attempt = tuple[object, object]


class Looks:
    """Looks while jobs run that pages show with their last lines; else it does nothing."""

    def __init__(self, last_lines: LastLines, tell: Callable[[Iterable[int]], None]) -> None:
        """`tell` is called with the jobs of which there is something new."""
        self._last_lines = last_lines
        self._tell = tell
        #: By job: what is needed to look.
        self._jobs: dict[int, Document] = {}
        #: The jobs to look at as soon as possible.
        self._fresh: set[int] = set()
        self._known: dict[int, tuple[_Attempt, Document]] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def note(self, job: Document) -> None:
        """Look at the log of a job that a page shows, if it has one."""
        id_, before = int(str(job["id"])), self._jobs.get(int(str(job["id"])))
        if not job["attempt"] or job["worker"] is None:
            return
        needed = {name: job[name] for name in _NEEDED}
        if needed == before:
            return
        self._jobs[id_] = needed
        self._fresh.add(id_)
        self._hurry.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), context=Context())

    def add_to(self, job: Document) -> None:
        """Add to the document of a job what is known of the end of its log."""
        attempt, told = self._known.get(int(str(job["id"])), (None, {}))
        if attempt == (job["id"], job["attempt"]):
            # Only what was looked at in the same state says something: a job that has ended is at no progress.
            job.update({name: told[name] for name in TOLD if name in told and told["state"] == job["state"]})

    def keep(self, shown: Container[int]) -> None:
        """Forget all jobs but these."""
        for id_ in [id_ for id_ in {*self._jobs, *self._known} if id_ not in shown]:
            self._jobs.pop(id_, None)
            self._known.pop(id_, None)
            self._fresh.discard(id_)

    async def close(self) -> None:
        """Look no more."""
        self.keep(())
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while self._jobs:
            self._hurry.clear()
            fresh = [*self._fresh][:JOBS_MAX]
            self._fresh.difference_update(fresh)
            running = [id_ for id_, job in self._jobs.items() if job["state"] not in FINAL and id_ not in fresh]
            await self._look([*fresh, *running][:JOBS_MAX])
            if self._fresh:
                continue
            # The log of a job that has ended does not change any more, and was looked at.
            self._jobs = {id_: job for id_, job in self._jobs.items() if job["state"] not in FINAL}
            hurry = asyncio.ensure_future(self._hurry.wait())
            await asyncio.wait([hurry], timeout=LOOK_S if self._jobs else 0.0)
            hurry.cancel()
        self._task = None

    async def _look(self, ids: list[int]) -> None:
        looked = [dict(self._jobs[id_]) for id_ in ids if id_ in self._jobs]
        await self._last_lines.describe(cast("list[LookedAtDocument]", looked))
        new: list[int] = []
        for job in looked:
            id_, told = int(str(job["id"])), {name: job.get(name) for name in (*TOLD, "state") if name in job}
            known = (job["id"], job["attempt"]), told
            if self._known.get(id_) != known:
                self._known[id_] = known
                new.append(id_)
        if new:
            self._tell(new)
