"""Waiting for several jobs, of one client or of several, as `concurrent.futures` does for futures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION
from contextlib import ExitStack, contextmanager
from itertools import islice
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from grassq.errors import BadInput, GrassError
from grassq.net.cannot_start import LOOK_MAX_S, LOOK_S, NOT_STARTED, CannotStart
from grassq.sdk.notices import warn_cannot_start
from grassq.sdk.watcher import LOOK_AT_ONCE

if TYPE_CHECKING:
    from grassq.sdk.client import Client
    from grassq.sdk.job import Job


class DoneAndNotDone(NamedTuple):
    """What `wait` returns: the jobs that have ended, and the others."""

    done: set[Job]
    not_done: set[Job]


def wait(jobs: Iterable[Job], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> DoneAndNotDone:
    """Wait until jobs have ended, or for `timeout` seconds; return the jobs that have ended, and the others.

    With `return_when` FIRST_COMPLETED one ended job is enough, with FIRST_EXCEPTION one failed job.
    """
    if return_when not in (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION):
        raise BadInput(f"return_when={return_when!r} is not ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION")
    every = _distinct(jobs)
    try:
        for job in as_completed(every, timeout):
            if return_when == FIRST_COMPLETED or (return_when == FIRST_EXCEPTION and job._known_state == "failed"):
                break
    except TimeoutError:
        pass
    done = {job for job in every if job._is_over}
    return DoneAndNotDone(done, every.keys() - done)


def as_completed(jobs: Iterable[Job], timeout: float | None = None) -> Iterator[Job]:
    """Yield each job when it has ended, the first one first; raise TimeoutError after `timeout` seconds.

    A job that cannot start until a person does something is warned of (`CannotStartWarning`).
    """
    deadline = monotonic() + (inf if timeout is None else timeout)
    left = _distinct(jobs)
    total, blocked = len(left), CannotStart(warn_cannot_start)
    yield from _take_ended(left)
    _look(left, blocked)
    yield from _take_ended(left)
    if left and monotonic() >= deadline:
        raise _timed_out(left, total, timeout)
    pause_s = LOOK_S
    heard: SimpleQueue[Job | GrassError] = SimpleQueue()
    with ExitStack() as stack:
        for client, some in by_client(left).items():
            stack.enter_context(_watched(client, some, heard))
        while left:
            try:
                news = heard.get(timeout=max(0.0, min(pause_s, deadline - monotonic())))
            except Empty:
                if monotonic() >= deadline:
                    raise _timed_out(left, total, timeout) from None
                _look(islice((job for job in left if job._known_state in NOT_STARTED), LOOK_AT_ONCE), blocked)
                pause_s = min(2 * pause_s, LOOK_MAX_S)
                continue
            if isinstance(news, GrassError):
                raise news
            del left[news]
            yield news


class _Inbox:
    """Hears of the ends of one client's jobs for one caller."""

    def __init__(self, jobs: Iterable[Job], heard: SimpleQueue[Job | GrassError]) -> None:
        self.jobs = {job.id: job for job in jobs}
        self._heard = heard

    def ended(self, job: int, info: dict[str, Any] | None) -> None:
        """Pass the end on to the caller's thread."""
        self.jobs[job]._learn(info)
        self._heard.put(self.jobs[job])

    def failed(self, error: GrassError, *, for_good: bool) -> None:
        """Pass the error on, for the caller's thread to raise."""
        self._heard.put(error)


@contextmanager
def _watched(client: Client, jobs: list[Job], heard: SimpleQueue[Job | GrassError]) -> Iterator[None]:
    watcher, inbox = client._ends, _Inbox(jobs, heard)
    if watcher.is_own_thread:
        raise RuntimeError("a callback of a job cannot wait for another job: the end would be heard on its own thread")
    watcher.watch(inbox.jobs, inbox)
    try:
        yield
    finally:
        watcher.unwatch(inbox.jobs, inbox)


def _distinct(jobs: Iterable[Job]) -> dict[Job, None]:
    from grassq.sdk.job import Job

    every = dict.fromkeys(jobs)
    for each in every:
        if not isinstance(each, Job):
            raise TypeError(f"{each!r} is not a Job; client.job(id) returns the handle of a job")
    return every


def _take_ended(left: dict[Job, None]) -> Iterator[Job]:
    for job in [job for job in left if job._is_over]:
        del left[job]
        yield job


def _look(jobs: Iterable[Job], blocked: CannotStart) -> None:
    """Learn how jobs are now, and tell of those that cannot start."""
    for client, some in by_client(jobs).items():
        handles = {job.id: job for job in some}
        infos = list(client._ends.fetch(handles))
        for id_, info in infos:
            handles[id_]._learn(info)
        blocked.tell(info for _, info in infos if info is not None)


def by_client(jobs: Iterable[Job]) -> dict[Client, list[Job]]:
    """Return jobs by their clients."""
    found: dict[Client, list[Job]] = {}
    for job in jobs:
        found.setdefault(job._client, []).append(job)
    return found


def _timed_out(left: Collection[Job], total: int, timeout: float | None) -> TimeoutError:
    which = f"job {next(iter(left)).id} has" if len(left) == 1 else f"{len(left)} of {total} jobs have"
    return TimeoutError(f"{which} not ended after {timeout:g} s")
