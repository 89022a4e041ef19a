"""Removes the folders of jobs that were removed from the store: at once, else again until they are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from grassq.broker.actions.bulk import STEP_JOBS
from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.core.messages import LeftFolder
from grassq.errors import GrassError, StoreUnavailable
from grassq.web.workers.directory import WorkerDirectory

log = logging.getLogger(__name__)

RETRY_S = 5.0
#: Jobs whose checkpoints are removed after one clean, because it has removed their last rerun.
FREED_MAX = 1000


class FolderRemoval:
    """Removes folders and notes in the store which of them are gone; so the next daemon continues."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory
        #: Jobs whose folders may still be there, and whether their logs are kept; no more than jobs were removed.
        self._pending: dict[int, bool] = {}
        self._arrived = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    @property
    def kept_in(self) -> str | None:
        """The folder on this machine in which the folders of removed jobs are kept; None if no job runs here."""
        return self._directory.kept_in

    def start(self) -> None:
        """Continue where an earlier daemon stopped, and try again from now on."""
        self._working = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; the next daemon continues."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])

    async def size(self, ids: list[int]) -> int:
        """Return the bytes that the folders of jobs take of this machine's disk."""
        return await self._directory.size(ids)

    async def make_room(self, ids: list[int]) -> None:
        """Remove the folders of jobs that are to be removed from the store, as far as possible."""
        await self._directory.remove(ids, await self._engine.read(partial(_rerun_among, ids)))

    async def remove(self, ids: list[int], *, keep_logs: bool = False) -> list[LeftFolder]:
        """Remove the folders of removed jobs, and the checkpoints that only they used; return what is still there.

        With `keep_logs`, put the folders of these jobs aside.
        """
        left = await self._remove(dict.fromkeys(ids, keep_logs))
        freed = await self._engine.read(lambda batch: batch.store.removals_without_rerun(FREED_MAX))
        return left + await self._remove({id_: kept for id_, kept in freed.items() if id_ not in self._pending})

    async def _remove(self, jobs: Mapping[int, bool]) -> list[LeftFolder]:
        left: list[LeftFolder] = []
        self._pending.update(jobs)
        for keep_logs in (False, True):
            ids = [id_ for id_, kept in jobs.items() if kept == keep_logs]
            for at in range(0, len(ids), STEP_JOBS):
                some = ids[at : at + STEP_JOBS]
                try:
                    still = await self._step(some, keep_logs)
                except StoreUnavailable as error:
                    still = [LeftFolder(id_, 0, str(error)) for id_ in some]
                for id_ in set(some) - {each.job for each in still}:
                    self._pending.pop(id_, None)
                left += still
        if left:
            self._arrived.set()
        return left

    async def _step(self, ids: list[int], keep_logs: bool) -> list[LeftFolder]:
        spare = await self._engine.read(partial(_rerun_among, ids))
        left = await self._directory.remove(ids, spare, keep_logs=keep_logs)
        # A spared checkpoint is removed after the last rerun of its job.
        gone = set(ids) - spare - {each.job for each in left}
        if gone:
            try:
                await self._engine.change(lambda batch: batch.changes.cleared.extend(sorted(gone)))
            except StoreUnavailable as error:
                log.warning("removal_not_stored error=%s; the next daemon finds the folders gone", error)
        return left

    async def _work(self) -> None:
        step = self._find
        while True:
            try:
                await step()
            except GrassError as error:
                log.warning("removal_put_off error=%s", error)
            except Exception:
                # The top of the loop: a bug in one try must not end the next ones. The log has the cause.
                log.exception("removal_failed")
            step = self._try_again
            if not self._pending:
                self._arrived.clear()
                await self._arrived.wait()
            await asyncio.sleep(RETRY_S)

    async def _try_again(self) -> None:
        await self._remove(dict(sorted(self._pending.items())))

    async def _find(self) -> None:
        """Remove what an earlier daemon has left."""
        after = 0
        while some := await self._engine.read(partial(_removals, after)):
            await self._remove(some)
            after = max(some)


def _removals(after: int, batch: Batch) -> dict[int, bool]:
    return batch.store.removals(after, STEP_JOBS)


def _rerun_among(ids: list[int], batch: Batch) -> set[int]:
    """Return the jobs that a kept job is a rerun of."""
    return {job.rerun_of for job in batch.store.reruns(ids) if job.rerun_of is not None}
