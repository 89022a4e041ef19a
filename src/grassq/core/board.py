"""The board: every job that is not finished, every worker, and who holds what.

It mirrors the store's rows for what is still alive, so planning reads no disk. `put` is the only way a job changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from msgspec import Struct

from grassq.core.model import FINAL, HOLDING, Job, Offer, State, WorkerInfo
from grassq.core.resources import DETECTED, VRAM, VRAM_OF, Capacity, Limits, Request, bind, supply_of, union
from grassq.core.room import Room, Spot, empty_room
from grassq.errors import Refused

#: Everything in the pause set: no queue starts anything.
EVERYTHING = ""

#: What the planner groups by: jobs of one shape fit or do not fit together.
Shape = tuple[str, Request]


class Patience(Struct, frozen=True):
    """How many jobs may pass a head, and how long it waits, before room is kept for it."""

    passes: int = 64
    wait_s: float = 600.0


class Head(Struct, frozen=True):
    """The first job of a queue that found no room: since when, and how many have passed it."""

    job: int
    since: float
    passed: int = 0


class Station(Struct):
    """A worker on the board: what it said, its machine's room and the room of each of its offers."""

    info: WorkerInfo
    online: bool
    since: float
    machine: Room
    offers: dict[str, Room]

    def offer(self, queue: str) -> Offer | None:
        """This worker's offer of a queue."""
        return next((offer for offer in self.info.offers if offer.queue == queue), None)

    def spot(self, queue: str) -> Spot:
        """The room a job of that queue sees here."""
        return Spot(self.machine, self.offers[queue])


class Board:
    """What is alive: jobs, workers, pauses and heads."""

    def __init__(self, paused: Iterable[str] = (), patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self.jobs: dict[int, Job] = {}
        #: Those of `jobs` that hold devices.
        self.holding: dict[int, Job] = {}
        #: Those of `jobs` that wait for a time.
        self.retrying: dict[int, Job] = {}
        self.shapes: dict[Shape, list[tuple[int, int]]] = {}
        self.stations: dict[str, Station] = {}
        self.paused: set[str] = set(paused)
        self.heads: dict[str, Head] = {}

    def put(self, job: Job) -> None:
        """Set a job to its new self; a finished one leaves the board."""
        old = self.jobs.pop(job.id, None)
        if old is not None:
            self._forget(old)
        if job.state in FINAL:
            return
        self.jobs[job.id] = job
        if job.state is State.QUEUED:
            insort(self.shapes.setdefault(shape_of(job), []), job.order)
        elif job.state in HOLDING:
            self.holding[job.id] = job
            self._count(job, taking=True)
        elif job.ready_at is not None:
            self.retrying[job.id] = job

    def _forget(self, job: Job) -> None:
        self.retrying.pop(job.id, None)
        if job.state is State.QUEUED:
            line = self.shapes[shape_of(job)]
            del line[bisect_left(line, job.order)]
            if not line:
                del self.shapes[shape_of(job)]
        elif job.state in HOLDING:
            del self.holding[job.id]
            self._count(job, taking=False)

    def _count(self, job: Job, *, taking: bool) -> None:
        assert job.placement is not None
        station = self.stations.get(job.placement.worker)
        if station is None:
            return
        for room in (station.machine, station.offers.get(job.spec.queue)):
            if room is not None:
                (room.take if taking else room.give)(job.placement.allocation)

    def set_worker(self, info: WorkerInfo, *, online: bool, now: float) -> None:
        """A worker connected, or said something new of itself: its rooms are counted afresh."""
        capacity = machine_capacity(info)
        offers = {offer.queue: empty_room(_bound(offer.limits, capacity)) for offer in info.offers}
        known = self.stations.get(info.name)
        since = known.since if known and known.online == online else now
        self.stations[info.name] = Station(info, online, since, empty_room(capacity), offers)
        for job in self.held_by(info.name):
            self._count(job, taking=True)

    def held_by(self, worker: str) -> list[Job]:
        """The jobs that hold devices of a worker."""
        return [job for job in self.holding.values() if job.placement and job.placement.worker == worker]

    def offering(self, queue: str) -> Iterator[Station]:
        """The workers that offer a queue, by name."""
        for name in sorted(self.stations):
            if self.stations[name].offer(queue) is not None:
                yield self.stations[name]

    def queue_names(self) -> set[str]:
        """Every queue that exists."""
        return {offer.queue for station in self.stations.values() for offer in station.info.offers}

    def resource_names(self) -> set[str]:
        """Every resource some machine has."""
        names = {name for station in self.stations.values() for name in station.machine.supply}
        return names | {VRAM} if VRAM_OF in names else names

    def is_paused(self, queue: str) -> bool:
        """Whether a queue, or everything, is paused."""
        return EVERYTHING in self.paused or queue in self.paused

    def holders(self, worker: str, resource: str) -> list[Job]:
        """The jobs that hold some of a resource on a worker."""
        return [
            job for job in self.held_by(worker) if job.placement is not None and resource in job.placement.allocation
        ]

    def next_jobs(self, most: int) -> list[Job]:
        """The next queued jobs in line, at most so many."""
        line = sorted(entry for shape in self.shapes.values() for entry in shape[:most])
        return [self.jobs[job_id] for _, job_id in line[:most]]


def shape_of(job: Job) -> Shape:
    """The shape a job is grouped under."""
    return (job.spec.queue, job.spec.request)


def machine_capacity(info: WorkerInfo) -> Capacity:
    """What a machine has: what it found or was given, and what its offers declare on top."""
    capacity = dict(info.given)
    for offer in info.offers:
        for name, limit in offer.limits.items():
            if name in info.given or (info.detecting and name in DETECTED):
                continue
            declared = supply_of(limit)
            capacity[name] = union(capacity[name], declared) if name in capacity else declared
    return capacity


def _bound(limits: Limits, capacity: Capacity) -> Capacity:
    bound: Capacity = {}
    for name, limit in limits.items():
        try:
            bound[name] = bind(name, limit, capacity[name]) if name in capacity else supply_of(limit)
        except Refused:
            # Checked when the queue was made; a device has gone since. Those that are still there stay usable.
            bound[name] = supply_of(limit)
    return bound
