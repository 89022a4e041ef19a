"""Who waits for which jobs to end: a bounded fan-out of what was committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from grassq.errors import Refused

WATCHED_MAX = 1_000_000


class Watch:
    """Wakes those who wait for jobs, after the commit that ended them. Used from the event loop only."""

    def __init__(self) -> None:
        self._by_job: dict[int, set[Watcher]] = {}
        self._watched = 0

    def subscribe(self, jobs: Iterable[int]) -> Watcher:
        """Start watching jobs; close the watcher when done."""
        watcher = Watcher(self, set(jobs))
        if self._watched + len(watcher.left) > WATCHED_MAX:
            raise Refused(f"{WATCHED_MAX:,} jobs are being waited for already; wait for fewer at a time")
        self._watched += len(watcher.left)
        for job in watcher.left:
            self._by_job.setdefault(job, set()).add(watcher)
        return watcher

    def finished(self, jobs: Iterable[int]) -> None:
        """These jobs have ended, and it is on disk."""
        for job in jobs:
            for watcher in self._by_job.pop(job, ()):
                self._watched -= 1
                watcher.left.discard(job)
                watcher.woken.set()

    def _drop(self, watcher: Watcher, jobs: set[int]) -> None:
        self._watched -= len(jobs)
        for job in jobs:
            others = self._by_job[job]
            others.discard(watcher)
            if not others:
                del self._by_job[job]
        watcher.left -= jobs


class Watcher:
    """One wait: the jobs that have not ended yet."""

    def __init__(self, watch: Watch, jobs: set[int]) -> None:
        self._watch = watch
        self.left = jobs
        self.woken = asyncio.Event()

    async def change(self, timeout_s: float) -> bool:
        """Wait until one more job ends; False if the time is over first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.woken.wait()
        except TimeoutError:
            return False
        self.woken.clear()
        return True

    def keep(self, jobs: set[int]) -> None:
        """Watch only these any more: the others have ended already."""
        self._watch._drop(self, self.left - jobs)

    def close(self) -> None:
        """Stop watching."""
        self.keep(set())
