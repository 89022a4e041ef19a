"""The workers that a broker can ask: its own, and those connected from other machines."""

from __future__ import annotations

from typing import Protocol

from grassq.core.messages import Forget
from grassq.core.model import Offer
from grassq.core.names import shown
from grassq.core.protocol import DropOffer, MakeOffer, ReadLog, TailLog
from grassq.errors import Refused
from grassq.web.logs.cache import LogCache
from grassq.web.logs.tail import LogReader, Source
from grassq.web.workers.connection import OutOfTouch, WorkerConnection
from grassq.web.workers.registry import WorkerRegistry

#: Jobs in one order to forget.
FORGET_MAX = 10_000


class QueueAdmin(Protocol):
    """Makes and deletes the queues of one worker."""

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue; return `created`, `unchanged` or `replaced`, and notes."""

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""


class WorkersApi(Protocol):
    """Every worker: this machine's own, if it has one, and those on other machines."""

    def queue_admin(self, worker: str | None = None) -> QueueAdmin:
        """Return the worker whose queues are changed, or this machine's own; raise Refused when it cannot be asked."""

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Return where the log of an attempt on this worker is read."""

    async def remove(self, ids: list[int], spare: set[int]) -> None:
        """Delete the files of ended jobs, except the checkpoints of the jobs in `spare`."""

    def describe(self) -> dict[str, object]:
        """Return the state of workers and log cache for `doctor`."""

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder on this machine, newest first and bounded."""

    def strays(self, jobs: list[int]) -> list[dict[str, str]]:
        """Return how to submit these jobs again, which have a folder on this machine and no stored job."""


class LocalWorkerApi(QueueAdmin, Protocol):
    """This machine's own worker."""

    @property
    def name(self) -> str:
        """The worker's name."""

    @property
    def logs(self) -> LogReader:
        """The logs of the worker's attempts."""

    async def remove(self, ids: list[int], spare: set[int]) -> None:
        """Delete the folders of ended jobs, except the checkpoints of the jobs in `spare`."""

    def describe(self) -> dict[str, object]:
        """Return the state of the worker for `doctor`."""

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first and bounded."""

    def strays(self, jobs: list[int]) -> list[dict[str, str]]:
        """Return how to submit these jobs again, which have a folder here and no stored job."""


class RemoteWorkerApi:
    """A worker on another machine: its queues and its logs, through its connection."""

    def __init__(self, link: WorkerConnection) -> None:
        self._link = link

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue there."""
        answer = await self._link.ask(MakeOffer(offer))
        status, *notes = answer.words or ("created",)
        return status, notes

    async def withdraw(self, queue: str) -> None:
        """Delete a queue there."""
        await self._link.ask(DropOffer(queue))

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream and its size; at its end wait up to `wait_s` seconds for a change."""
        question = ReadLog(job, attempt, stream, offset, wait_s)
        answer = await (self._link.poll(question) if wait_s else self._link.ask(question))
        return answer.data, answer.amount

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin."""
        return (await self._link.ask(TailLog(job, attempt, stream, lines))).amount


class WorkerDirectory:
    """Finds the worker to ask; raises OutOfTouch when that worker is not connected."""

    def __init__(
        self, links: WorkerRegistry, local: LocalWorkerApi | None = None, cache: LogCache | None = None
    ) -> None:
        self._links = links
        self._local = local
        self._cache = cache

    def queue_admin(self, worker: str | None = None) -> QueueAdmin:
        """Return the worker whose queues are changed: the named one, or this machine's own."""
        if self._local is not None and worker in (None, self._local.name):
            return self._local
        if worker is None:
            raise Refused("this broker runs no jobs itself; name a worker: --worker NAME")
        return self._remote(worker)

    def remote(self, worker: str) -> RemoteWorkerApi | None:
        """Return a worker on another machine; None if it is not connected."""
        link = self._links.get(worker)
        return None if link is None else RemoteWorkerApi(link)

    def _remote(self, worker: str) -> RemoteWorkerApi:
        found = self.remote(worker)
        if found is None:
            raise OutOfTouch(f"worker {shown(worker)} is out of touch; `grass show` names the workers")
        return found

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Return where a log is read: on this machine, on its worker, or from the copy in the cache."""
        if self._local is not None and worker == self._local.name:
            return Source(self._local.logs)
        if (found := self.remote(worker)) is not None:
            return Source(found)
        copy = None if self._cache is None else self._cache.copy(job, attempt, stream)
        if copy is not None:
            return Source(copy, cut_at=copy.cut_at)
        raise OutOfTouch(
            f"worker {worker} is out of touch and no copy of this log is here; it can be read when the worker is back"
        )

    async def remove(self, ids: list[int], spare: set[int]) -> None:
        """Delete the files of ended jobs: here and on connected workers now, on others when they connect."""
        if self._cache is not None:
            await self._cache.remove(ids)
        if self._local is not None:
            await self._local.remove(ids, spare)
        for name in self._links.names():
            link = self._links.get(name)
            for at in range(0, len(ids) if link is not None else 0, FORGET_MAX):
                some = tuple(ids[at : at + FORGET_MAX])
                assert link is not None
                link.send(Forget(some, tuple(spare.intersection(some))))

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder on this machine, newest first and bounded."""
        return [] if self._local is None else self._local.folders()

    def strays(self, jobs: list[int]) -> list[dict[str, str]]:
        """Return how to submit these jobs again, which have a folder on this machine and no stored job."""
        return [] if self._local is None else self._local.strays(jobs)

    def describe(self) -> dict[str, object]:
        """Return the state of workers and log cache for `doctor`."""
        own = {} if self._local is None else self._local.describe()
        cache = None if self._cache is None else self._cache.describe()
        return {**own, "links": self._links.names(), "log_cache": cache}
