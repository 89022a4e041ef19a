"""Read from a batch what a forecast needs: quickly, so that the engine is held for a few milliseconds."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from grassq.broker.batch import Batch
from grassq.broker.selection import Reading, read, resolve
from grassq.core.forecast.scene import Scene, first_queued, picture
from grassq.core.model import Job, State
from grassq.core.planner.request_classes import shape_of
from grassq.core.query.selecting import selects, traits_of
from grassq.core.syntax.selectors import ByIds, ByName, ByProject, ByQueue, BySweep, Selector
from grassq.store.base import JobScan

#: Jobs in one page of the history, and of the jobs that were asked about.
HISTORY_PAGE = 250
SELECTED_PAGE = 200
LAST_READ = 20


class Asked(Struct, frozen=True):
    """A job that was asked about, and its place among the queued jobs of its shape, from 0 on."""

    job: Job
    place: int = 0


def scene(batch: Batch) -> Scene:
    """Return a picture of the board, with the first queued jobs whole."""
    jobs = batch.fetch(first_queued(batch.board))
    queued = [job for job in jobs.values() if job.state is State.QUEUED and batch.board.has(job)]
    return picture(batch.board, batch.mono, batch.now, queued)


def ended_page(batch: Batch, before: tuple[float, int] | None) -> list[Job]:
    """Return jobs that have ended, newest first: those that ended before a position, or the newest ones."""
    return batch.store.scan(JobScan(sort="finished", descending=True, after=before), HISTORY_PAGE)


def named_page(batch: Batch, name: str) -> list[Job]:
    """Return the newest jobs of a name, newest first."""
    return batch.store.scan(JobScan(name=name, descending=True), HISTORY_PAGE)


def asked_page(reading: Reading, batch: Batch) -> tuple[list[Asked], Reading]:
    """Return the next selected jobs, and the reading after them."""
    some, reading = read(batch, reading, SELECTED_PAGE)
    return with_places(batch, [job for job, _ in some]), reading


def last_asked(batch: Batch, selectors: Iterable[Selector]) -> list[Asked]:
    """Return the newest jobs that some selectors name: of a long selection, the last one to end is among them."""
    found: dict[int, Job] = {}
    for selector in selectors:
        meant = resolve(batch, selector)
        match meant:
            case ByName(name):
                scan = JobScan(name=name, descending=True)
            case ByQueue(name):
                scan = JobScan(queue=name, descending=True)
            case BySweep(sweep):
                scan = JobScan(sweep=sweep, descending=True)
            case ByProject(name):
                scan = JobScan(project=name, descending=True)
            case ByIds(ranges):
                scan = JobScan(descending=True, after=(0.0, max(last for _, last in ranges) + 1))
            case _:
                scan = JobScan(descending=True)
        jobs = map(batch.current, batch.store.scan(scan, LAST_READ))
        found |= {job.id: job for job in jobs if selects(meant, traits_of(job))}
    return with_places(batch, found.values())


def with_places(batch: Batch, jobs: Iterable[Job]) -> list[Asked]:
    """Return jobs with their places among the queued jobs of their shapes."""
    return [
        Asked(job, batch.board.line(shape_of(job)).before(job.order) if job.state is State.QUEUED else 0)
        for job in jobs
    ]
