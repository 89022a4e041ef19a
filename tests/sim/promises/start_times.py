"""The promise about start times: no job is ready before the broker's clock has shown its time once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.sim.promises.promise import demand

from grassq.core.model import ForTime, Job

_WORD = b"at="


def word_of(at: float | None) -> tuple[bytes, ...]:
    """The word of a command by which its job is known to wait for a time, whatever the broker makes of it."""
    return () if at is None else (_WORD + repr(at).encode(),)


def asked_at(job: Job) -> float | None:
    """The time that was asked for with a job; one that is run again waits for nothing."""
    last = job.spec.command[-1]
    return float(last.removeprefix(_WORD)) if job.rerun_of is None and last.startswith(_WORD) else None


class StartTimes:
    """The jobs that have waited long enough."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._ready: set[int] = set()

    def look(self, jobs: Iterable[Job]) -> None:
        """Look at jobs that were just stored: a job that waits no longer has reached its time on the present clock."""
        for job in jobs:
            at = asked_at(job)
            if at is None or job.id in self._ready or _still_waits(job, at):
                continue
            self._ready.add(job.id)
            demand(self._wall() >= at, f"{job} is to start at {at}, waits no longer, and it is {self._wall()}")

    def restored(self, jobs: Iterable[Job], forgotten: Iterable[int]) -> None:
        """Note that the store was set back: a job that waited then waits again, unless its worker has run it since."""
        ready = {job.id for job in jobs if (at := asked_at(job)) is not None and not _still_waits(job, at)}
        self._ready = ready | set(forgotten)


def _still_waits(job: Job, at: float) -> bool:
    return any(isinstance(wait, ForTime) and wait.at == at and wait.delay_s is None for wait in job.waits)
