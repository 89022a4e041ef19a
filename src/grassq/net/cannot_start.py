"""Jobs that cannot start, or whose end cannot be stored, told while a command or a program waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from grassq.errors import GrassError, Refused

#: At most this many jobs are named at once; the others are counted.
NAMED_MAX = 5
#: The first and the longest time between two looks at a job that has not started, in seconds.
LOOK_S, LOOK_MAX_S = 0.5, 30.0
NOT_STARTED = ("held", "waiting", "queued", "placed")
UNFINISHED = (*NOT_STARTED, "running")

Jobs = Sequence[Mapping[str, Any]]


class CannotStart:
    """Tells of each job that cannot start once, and again when the reason changes; with `strict` it is an error.

    A job that runs on a daemon that can store nothing is told of likewise, and never an error.
    """

    def __init__(self, tell: Callable[[list[str]], None] | None, *, strict: bool = False) -> None:
        """Call `tell` with sentences about jobs; None tells nothing."""
        self.is_strict = strict
        self._tell = tell
        self._told: dict[int, str] = {}

    def tell(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Tell of the jobs that cannot start and were not told of yet; raise Refused if that is an error."""
        jobs = list(jobs)
        news = self._news(jobs, "cannot_start")
        lines = [f"job {id_} cannot start: {why}" for id_, why in [*news.items()][:NAMED_MAX]]
        if len(news) > len(lines):
            lines.append(f"{len(news) - len(lines)} more cannot start; `grass why ID` says why")
        if news and self.is_strict:
            raise Refused(f"{lines[0]} (the job is not removed)" if len(news) == 1 else "; ".join(lines))
        unstored = self._news(jobs, "cannot_end")
        lines += [f"the end of job {id_} is not stored yet: {why}" for id_, why in [*unstored.items()][:1]]
        if len(unstored) > 1:
            lines[-1] += f" ({len(unstored) - 1} more jobs wait for the same)"
        if lines and self._tell is not None:
            self._tell(lines)

    def _news(self, jobs: Iterable[Mapping[str, Any]], key: str) -> dict[int, str]:
        """Return the reasons that were not printed yet, by job."""
        found = {job["id"]: str(job[key]) for job in jobs if job.get(key)}
        news = {id_: why for id_, why in found.items() if self._told.get(id_) != why}
        self._told |= news
        return news


@contextmanager
def watched(look: Callable[[], Mapping[str, Any]], job: Mapping[str, Any], blocked: CannotStart) -> Iterator[None]:
    """Look at an unfinished job, ever less often, and tell what keeps it from starting or ending."""
    with all_watched(lambda: [look()], [job], blocked):
        yield


@contextmanager
def all_watched(
    look: Callable[[], Jobs], jobs: Jobs, blocked: CannotStart, refuse: Callable[[Refused], None] | None = None
) -> Iterator[None]:
    """Look at unfinished jobs likewise; `refuse` is called on another thread with an error that a later look finds."""
    blocked.tell(jobs)
    if not any(job.get("state") in UNFINISHED for job in jobs):
        yield
        return
    is_over = threading.Event()

    def watch() -> None:
        try:
            _watch(look, blocked, is_over, UNFINISHED)
        except Refused as error:
            if refuse is not None:
                refuse(error)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def until_started(look: Callable[[], Mapping[str, Any]], job: Mapping[str, Any], blocked: CannotStart) -> None:
    """Look at a job until it has started or ended; raise Refused if it cannot start and that is an error."""
    blocked.tell([job])
    if job.get("state") in NOT_STARTED:
        _watch(lambda: [look()], blocked, threading.Event(), NOT_STARTED)


def _watch(look: Callable[[], Jobs], blocked: CannotStart, is_over: threading.Event, states: Collection[str]) -> None:
    pause_s = LOOK_S
    while not is_over.wait(pause_s):
        try:
            jobs = look()
        except GrassError:
            return  # the command that waits asks the daemon too, and tells what is wrong
        if is_over.is_set():
            return
        blocked.tell(jobs)
        if not any(job.get("state") in states for job in jobs):
            return
        pause_s = min(2 * pause_s, LOOK_MAX_S)
