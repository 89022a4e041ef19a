"""Jobs that cannot start, told while a command or a program waits for them or follows them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from grassq.errors import GrassError, Refused

#: At most this many jobs are named at once; the others are counted.
NAMED_MAX = 5
#: The first and the longest time between two looks at a job that has not started, in seconds.
LOOK_S, LOOK_MAX_S = 0.5, 30.0
NOT_STARTED = ("held", "waiting", "queued", "placed")


class CannotStart:
    """Tells of each job that cannot start once, and again when the reason changes; with `strict` it is an error."""

    def __init__(self, tell: Callable[[list[str]], None] | None, *, strict: bool = False) -> None:
        """Call `tell` with sentences about jobs; None tells nothing."""
        self.is_strict = strict
        self._tell = tell
        self._told: dict[int, str] = {}

    def tell(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Tell of the jobs that cannot start and were not told of yet; raise Refused if that is an error."""
        news = {}
        for job in jobs:
            why = job.get("cannot_start")
            if why and self._told.get(job["id"]) != why:
                news[job["id"]] = str(why)
        self._told |= news
        lines = [f"job {id_} cannot start: {why}" for id_, why in [*news.items()][:NAMED_MAX]]
        if len(news) > len(lines):
            lines.append(f"{len(news) - len(lines)} more cannot start; `grass why ID` says why")
        if news and self.is_strict:
            raise Refused(f"{lines[0]} (the job is not removed)" if len(news) == 1 else "; ".join(lines))
        if lines and self._tell is not None:
            self._tell(lines)


@contextmanager
def watched(look: Callable[[], Mapping[str, Any]], job: Mapping[str, Any], blocked: CannotStart) -> Iterator[None]:
    """Look at a job that has not started, ever less often, and tell when it cannot start, until the block ends."""
    blocked.tell([job])
    if job.get("state") not in NOT_STARTED:
        yield
        return
    is_over = threading.Event()
    threading.Thread(target=_watch, args=(look, blocked, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def until_started(look: Callable[[], Mapping[str, Any]], job: Mapping[str, Any], blocked: CannotStart) -> None:
    """Look at a job until it has started or ended; raise Refused if it cannot start and that is an error."""
    blocked.tell([job])
    if job.get("state") in NOT_STARTED:
        _watch(look, blocked, threading.Event())


def _watch(look: Callable[[], Mapping[str, Any]], blocked: CannotStart, is_over: threading.Event) -> None:
    pause_s = LOOK_S
    while not is_over.wait(pause_s):
        try:
            job = look()
        except GrassError:
            return  # the command that waits asks the daemon too, and tells what is wrong
        if is_over.is_set():
            return
        blocked.tell([job])
        if job.get("state") not in NOT_STARTED:
            return
        pause_s = min(2 * pause_s, LOOK_MAX_S)
