"""Removes ended jobs beyond the settings `keep`, `keep_jobs` and `keep_disk`, oldest first, in the background."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.actions.bulk import STEP_JOBS, BulkChange
from grassq.broker.actions.jobs import CleanJobs
from grassq.broker.actions.removable import KeepDocument, KeepSettingDocument
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.job_list import JobPage, JobQuery, list_jobs, position_of
from grassq.core.model import FINAL, Job
from grassq.core.syntax.selectors import ByIds
from grassq.errors import Gone, GrassError
from grassq.web.access.audit import Audit, AuditEntry
from grassq.web.removal import FolderRemoval

log = logging.getLogger(__name__)

#: Seconds until the first look after the start, and between two looks; a look that takes long is followed by a pause
#: that is PAUSE_TIMES as long.
FIRST_S, LOOK_S, PAUSE_TIMES = 10.0, 60.0, 20.0
#: The pause between two steps of a removal: users have a turn.
STEP_PAUSE_S = 0.05
#: A job that ended less than this long ago stays: a client that waited for the job may still ask for its result.
FRESH_S = 60.0
#: Jobs whose size is remembered; the size of others is measured at every look.
SIZES_MAX = 100_000
#: The route whose work is done here, as the audit names it.
PATH = "/v1/jobs/clean"

#: The end of a job and its id: the order in which jobs are removed.
Position = tuple[float, int]


class KeepRules(Struct, frozen=True):
    """What is kept of ended jobs; 0 and "" keep everything."""

    age_s: float = 0.0
    jobs: int = 0
    disk_bytes: int = 0
    #: The settings as they were written, by name.
    words: dict[str, str] = {}

    @property
    def is_off(self) -> bool:
        """Whether everything is kept."""
        return not (self.age_s or self.jobs or self.disk_bytes)


KEEP_ALL = KeepRules()


class Expired(Struct, frozen=True):
    """Some jobs that a setting removes, oldest first; each with the name of the setting."""

    why: dict[int, str]


class Retention:
    """Looks every minute for jobs beyond the settings, and removes them as `clean` does. Used from the event loop."""

    def __init__(
        self,
        engine: Engine,
        removal: FolderRemoval,
        rules: KeepRules,
        audit: Audit | None = None,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._engine = engine
        self._removal = removal
        self._audit = audit
        self._look_s = look_s
        self.rules = rules
        #: The sizes of the folders of ended jobs: nothing writes there any more.
        self._sizes: dict[int, int] = {}
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, unless everything is kept."""
        if not self.rules.is_off:
            self._working = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; the next daemon goes on."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        pause_s = min(FIRST_S, self._look_s)
        while True:
            await asyncio.sleep(pause_s)
            began = time.monotonic()
            try:
                await self.remove()
            except Gone:
                return
            except (GrassError, OSError) as error:
                log.warning("retention_put_off error=%s", error)
            except Exception:
                # The top of the loop: a bug in one look must not end the next ones. The log has the cause.
                log.exception("retention_failed")
            pause_s = max(self._look_s, PAUSE_TIMES * (time.monotonic() - began))

    async def remove(self) -> int:
        """Remove the jobs that are beyond the settings now; return how many."""
        removed: Counter[str] = Counter()
        try:
            async for expired in self.expired():
                ids = list(expired.why)
                ranges = tuple((id_, id_) for id_ in ids)
                # The same steps as of a clean: after a crash in between, the next daemon removes the folders.
                key, clean = secrets.token_hex(16), CleanJobs(older_s=FRESH_S)
                change = BulkChange(clean, [ByIds(ranges)], key=key, digest=b"retention", required=False)
                done = await self._engine.change_in_steps(change.start, _at_once)
                await self._removal.remove(done.ids)
                for id_ in done.ids:
                    self._sizes.pop(id_, None)
                    removed[expired.why[id_]] += 1
                await asyncio.sleep(STEP_PAUSE_S)
        finally:
            for setting, count in removed.items():
                self._record(count, f"{setting} = {self.rules.words.get(setting, '')}")
        return removed.total()

    def _record(self, count: int, setting: str) -> None:
        """Write to the log and the audit which setting has removed how many jobs."""
        log.info("retention removed=%d setting=%r", count, setting)
        if self._audit is not None:
            about, result = f"the setting {setting}", f"removed {count} jobs"
            self._audit.write(
                AuditEntry(
                    at=time.time(),
                    who="broker",
                    name="",
                    peer="local",
                    method="POST",
                    path=PATH,
                    about=about,
                    result=result,
                )
            )

    async def expired(self) -> AsyncIterator[Expired]:
        """Yield the jobs that are beyond the settings now, oldest first, some at a time."""
        if self.rules.is_off:
            return
        now, ended = await self._engine.read(_ended)
        too_many = max(0, ended - self.rules.jobs) if self.rules.jobs else 0
        last = await self._last_beyond_disk() if self.rules.disk_bytes else (0.0, 0)
        before = JobQuery(sort="finished", descending=False, limit=STEP_JOBS, finished=(0.0, now - FRESH_S))
        index = 0
        after: Position | None = None
        while True:
            page = await self._page(before, after)
            reasons = [self._why(job, now, index + at < too_many, last) for at, job in enumerate(page.jobs)]
            found = {job.id: why for job, why in zip(page.jobs, reasons, strict=True) if why is not None}
            for id_ in self._engine.subscriptions.watched(found):
                del found[id_]
            if found:
                yield Expired(found)
            if page.more is None or None in reasons:
                return  # the jobs that follow are younger than one that stays
            index, after = index + len(page.jobs), page.more

    def _why(self, job: Job, now: float, is_too_many: bool, last: Position) -> str | None:
        """Return the setting that removes a job; None if it stays."""
        if self.rules.age_s and job.finished is not None and job.finished <= now - self.rules.age_s:
            return "keep"
        if is_too_many:
            return "keep_jobs"
        return "keep_disk" if position_of(job, "finished") <= last else None

    async def _last_beyond_disk(self) -> Position:
        """Return the youngest job that is beyond the disk space for ended jobs, counted from the youngest on."""
        total = 0
        after: Position | None = None
        while True:
            page = await self._page(JobQuery(sort="finished", limit=STEP_JOBS), after)
            for job in page.jobs:
                total += await self._size(job.id)
                if total > self.rules.disk_bytes:
                    return position_of(job, "finished")
            if page.more is None:
                return 0.0, 0
            after = page.more

    async def _size(self, job: int) -> int:
        known = self._sizes.get(job)
        if known is not None:
            return known
        size = await self._removal.size([job])
        self._sizes[job] = size
        if len(self._sizes) > SIZES_MAX:
            del self._sizes[next(iter(self._sizes))]
        return size

    async def _page(self, query: JobQuery, after: Position | None) -> JobPage:
        return await self._engine.read(partial(_listed, query=replace(query, after=after)))

    async def would_remove(self, keep_alive: Callable[[], Awaitable[None]]) -> KeepDocument:
        """Return as a document what the settings would remove now, and which setting how much."""
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        async for expired in self.expired():
            for id_, setting in expired.why.items():
                counts[setting] += 1
                sizes[setting] += await self._size(id_)
                await keep_alive()
        by: dict[str, KeepSettingDocument] = {
            name: {"set": words, "count": counts[name], "bytes": sizes[name]}
            for name, words in self.rules.words.items()
        }
        return {"count": counts.total(), "bytes": sizes.total(), "by": by}


async def _at_once() -> None:
    """Do the next step of a removal without a pause."""


def _ended(batch: Batch) -> tuple[float, int]:
    totals = batch.store.totals()
    return batch.now, sum(totals.get(state.value, 0) for state in FINAL)


def _listed(batch: Batch, query: JobQuery) -> JobPage:
    return list_jobs(batch, query)
