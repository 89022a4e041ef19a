"""The logs of several jobs: every line with the job that it is of, and no line inside another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import Queue
from typing import Any

from grassq.cli import render
from grassq.cli.logs.live_view import LineView
from grassq.core.term.style import RESET
from grassq.errors import GrassError
from grassq.net.cannot_start import CannotStart, all_watched
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import FINAL_STATES

#: Logs that are followed at once; the next begins when one has ended.
FOLLOWED_MAX = 32
#: Pieces of logs that wait to be printed; above this limit nothing more is read.
WAITING_MAX = 64
#: Colours of the prefixes, one job after the other: cyan, green, yellow, magenta, blue.
_COLOURS = ("\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[34m")

Job = dict[str, Any]


def prefixes(jobs: list[Job], *, coloured: bool) -> dict[int, str]:
    """Return what stands before each line of a job: its id, and its name if the jobs have different names."""
    names = {str(job.get("name") or "") for job in jobs}
    found = {}
    width = max(len(str(job["id"])) for job in jobs)
    for at, job in enumerate(jobs):
        name = f" {render.clean(str(job['name']))}" if len(names) > 1 and job.get("name") else ""
        text = f"[{job['id']:>{width}}{name}]"
        colour = _COLOURS[at % len(_COLOURS)] if coloured else ""
        found[int(job["id"])] = f"{colour}{text}{RESET} " if colour else f"{text} "
    return found


class Follower:
    """Follows logs and prints their lines as they end."""

    def __init__(self, client: ApiClient, line: Callable[[str], None], *, coloured: bool) -> None:
        self._client = client
        self._line = line
        self._coloured = coloured
        self._heard: Queue[tuple[int, str, bytes | BaseException | None]] = Queue(maxsize=WAITING_MAX)

    def follow(self, jobs: list[Job], stream: str | None, tail: int | None, blocked: CannotStart) -> list[int]:
        """Print the logs until all jobs have ended; return the ids of those that did not succeed."""
        with all_watched(partial(self._look, jobs), jobs, blocked, self._refuse):
            self._print(jobs, stream, tail)
        return [int(job["id"]) for job in self._final(jobs) if job.get("state") != "succeeded"]

    def _print(self, jobs: list[Job], stream: str | None, tail: int | None) -> None:
        before = prefixes(jobs, coloured=self._coloured)
        waiting = [(job, each) for job in jobs for each in ([stream] if stream else streams_of(job))]
        waiting.reverse()
        views: dict[tuple[int, str], LineView] = {}
        while waiting or views:
            while waiting and len(views) < FOLLOWED_MAX:
                job, each = waiting.pop()
                id_ = int(job["id"])
                views[id_, each] = LineView(self._printer(before[id_]), coloured=self._coloured)
                # Daemon threads: Ctrl-C ends the process while they still read.
                threading.Thread(target=self._listen, args=(id_, each, tail), daemon=True).start()
            id_, each, part = self._heard.get()
            if isinstance(part, BaseException):
                raise part
            views[id_, each].feed(part or b"")
            if part is None:
                del views[id_, each]

    def _look(self, jobs: list[Job]) -> list[Job]:
        found: list[Job] = self._client.jobs(compact(int(job["id"]) for job in jobs), limit=len(jobs))["jobs"]
        return found

    def _refuse(self, error: GrassError) -> None:
        self._heard.put((0, "", error))  # raised again on the main thread

    def _printer(self, prefix: str) -> Callable[[str], None]:
        return lambda text: self._line(prefix + text)

    def _listen(self, id_: int, stream: str, tail: int | None) -> None:
        try:
            for part in self._client.follow(id_, stream=stream, tail=tail):
                if part:
                    self._heard.put((id_, stream, part))
            self._heard.put((id_, stream, None))
        except BaseException as error:  # raised again on the main thread
            self._heard.put((id_, stream, error))

    def _final(self, jobs: list[Job]) -> Iterator[Job]:
        for job in jobs:
            yield job if job.get("state") in FINAL_STATES else self._client.one_job(str(job["id"]))


def streams_of(job: Job) -> list[str]:
    """Return the streams that a job writes."""
    return ["out", "err"] if job.get("split") else ["log"]
