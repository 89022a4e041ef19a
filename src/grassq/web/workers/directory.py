"""The workers that a broker can ask: its own, and those connected from other machines."""

from __future__ import annotations

from typing import Protocol

from grassq.core.messages import Forget, LeftFolder
from grassq.core.model import Offer
from grassq.core.names import shown
from grassq.core.resources.device_changes import DeviceChange
from grassq.errors import Refused
from grassq.run import log_files, rundir
from grassq.web.logs.cache import LogCache
from grassq.web.logs.index import LogIndexes
from grassq.web.logs.tail import LogReader, Source
from grassq.web.workers.connection import OutOfTouch
from grassq.web.workers.registry import WorkerRegistry


class QueueAdmin(Protocol):
    """Makes and deletes the queues of one worker, and changes its devices."""

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue; return `created`, `unchanged` or `replaced`, and notes."""

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        """Add, remove, drain or undrain devices; return notes."""


class LocalWorkerApi(QueueAdmin, Protocol):
    """This machine's own worker."""

    @property
    def name(self) -> str:
        """The worker's name."""

    @property
    def queues(self) -> tuple[Offer, ...]:
        """The queues that the worker offers."""

    @property
    def held(self) -> int:
        """The number of attempts that have not ended."""

    @property
    def logs(self) -> LogReader:
        """The logs of the worker's attempts."""

    async def remove(self, ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
        """Delete the folders of ended jobs, except the checkpoints of the jobs in `spare`; return what is left.

        With `keep_logs`, put the folders aside.
        """

    async def size(self, ids: list[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk."""

    def describe(self) -> dict[str, object]:
        """Return the state of the worker for `doctor`."""

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first and bounded."""

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        """Return how to submit these jobs again; without jobs, the attempts that a restored broker has no record of."""


class WorkerDirectory:
    """Finds the worker to ask; raises OutOfTouch when that worker is not connected."""

    def __init__(
        self,
        links: WorkerRegistry,
        local: LocalWorkerApi | None = None,
        cache: LogCache | None = None,
        indexes: LogIndexes | None = None,
        home: str | None = None,
    ) -> None:
        """`home` has the logs of this machine's own worker."""
        self._home = home
        self._links = links
        #: The indexes of logs; without a folder for them there are none.
        self.indexes = indexes
        self._local = local
        self._cache = cache

    def queue_admin(self, worker: str | None = None) -> QueueAdmin:
        """Return the worker whose queues or devices are changed: the named one, or this machine's own."""
        if self._local is not None and worker in (None, self._local.name):
            return self._local
        if worker is None:
            raise Refused("this broker runs no jobs itself; name a worker: --worker NAME")
        if (link := self._links.get(worker)) is None:
            raise OutOfTouch(f"worker {shown(worker)} is out of touch; `grass show` names the workers")
        return link

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Return where a log is read: on this machine, on its worker, or from the copy in the cache."""
        if self._local is not None and worker == self._local.name:
            path = None if self._home is None else rundir.log_path(rundir.attempt_dir(self._home, job, attempt), stream)
            return Source(self._local.logs, path=path)
        if (link := self._links.get(worker)) is not None:
            return Source(link, is_far=True)
        copy = None if self._cache is None else self._cache.copy(job, attempt, stream)
        if copy is not None:
            return Source(copy, cut_at=copy.cut_at)
        raise OutOfTouch(
            f"worker {worker} is out of touch and no copy of this log is here; it can be read when the worker is back"
        )

    @property
    def kept_in(self) -> str | None:
        """The folder on this machine in which the folders of removed jobs are kept; None if no job runs here."""
        return None if self._local is None or self._home is None else log_files.kept_dir(self._home)

    async def remove(self, ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
        """Delete the files of some ended jobs: here and on connected workers now, on others when they connect.

        Return the folders that are still on this machine; a worker elsewhere tries again by itself. With `keep_logs`,
        the folders are put aside; copies of logs are deleted in any case.
        """
        if self._cache is not None:
            self._cache.remove(ids)
        if self.indexes is not None:
            await self.indexes.remove(ids)
        for link in self._links.all():
            if link.keeps_logs or not keep_logs:
                link.send(Forget(tuple(ids), tuple(spare), keep_logs))
        return [] if self._local is None else await self._local.remove(ids, spare, keep_logs=keep_logs)

    async def size(self, ids: list[int]) -> int:
        """Return the bytes that the folders of jobs take of this machine's disk."""
        return 0 if self._local is None else await self._local.size(ids)

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder on this machine, newest first and bounded."""
        return [] if self._local is None else self._local.folders()

    def strays(self, jobs: list[int]) -> list[dict[str, object]]:
        """Return how to submit these jobs again, which have a folder on this machine and no stored job."""
        return [] if self._local is None else self._local.strays(jobs)

    def describe(self) -> dict[str, object]:
        """Return the state of workers and log cache for `doctor`."""
        own = {} if self._local is None else self._local.describe()
        cache = None if self._cache is None else self._cache.describe()
        return {**own, "links": [link.name for link in self._links.all()], "log_cache": cache}
