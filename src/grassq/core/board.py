"""The board: every job that is not finished, every worker, and who holds what.

It mirrors the store's rows for what is still alive, so planning reads no disk. `put` is the only way a job changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from msgspec import Struct

from grassq.core.model import ANYWHERE, FINAL, HOLDING, Guest, Job, Offer, State, Terms, WorkerInfo
from grassq.core.resources import DETECTED, VRAM, VRAM_OF, Capacity, Limits, Request, bind, supply_of, union
from grassq.core.room import Room, Spot, empty_room
from grassq.errors import Refused

#: Everything in the pause set: no queue starts anything.
EVERYTHING = ""

#: What the planner groups by: jobs of one shape fit or do not fit together.
Shape = tuple[str, Request, Terms]


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
    #: The user wants no new starts there.
    drained: bool = False
    #: When a worker that is out of touch was last heard, on the broker's monotonic clock; of one not heard since the
    #: broker began, when that was.
    heard: float = 0.0

    @property
    def takes(self) -> bool:
        """Whether jobs may be placed here now."""
        return self.online and not self.drained

    def silent_s(self, now: float) -> float:
        """For how long this worker has been out of touch."""
        return 0.0 if self.online else max(0.0, now - self.heard)

    def refuses(self, queue: str, terms: Terms) -> str | None:
        """Why a job of these terms may not run in a queue here, however much is free; None if it may."""
        if terms == ANYWHERE:
            return None
        if terms.worker not in (None, self.info.name):
            return f"it asks for worker {terms.worker}"
        missing = sorted(set(terms.labels) - set(self.info.labels))
        if missing:
            return f"worker {self.info.name} has no label {missing[0]}"
        offer = self.offer(queue)
        if offer is None:
            return f"worker {self.info.name} has no queue {queue!r}"
        return None if terms.guest is None else _turns_away(offer, terms.guest)

    def offer(self, queue: str) -> Offer | None:
        """This worker's offer of a queue."""
        return next((offer for offer in self.info.offers if offer.queue == queue), None)

    def spot(self, queue: str) -> Spot:
        """The room a job of that queue sees here."""
        return Spot(self.machine, self.offers[queue])


class Board:
    """What is alive: jobs, workers, pauses and heads."""

    def __init__(
        self,
        paused: Iterable[str] = (),
        patience: Patience | None = None,
        *,
        lease_s: float | None = None,
        local: str | None = None,
    ) -> None:
        """`lease_s` is given to attempts that may be started elsewhere; `local` is the worker that needs none."""
        self.patience = patience or Patience()
        self.lease_s = lease_s
        self.local = local
        #: Workers that must speak before anything is started: the store was restored from a backup.
        self.doubts: set[str] = set()
        #: Workers not heard since the broker began, and how long it waits for them before it starts anything: one of
        #: them may be the one that knows of a backup.
        self.awaited: set[str] = set()
        self.awaited_until = 0.0
        self.jobs: dict[int, Job] = {}
        #: Those of `jobs` that hold devices, and by whose they are.
        self.holding: dict[int, Job] = {}
        self._held_by: dict[str, dict[int, Job]] = {}
        #: Those of `jobs` that wait for a time.
        self.retrying: dict[int, Job] = {}
        self.shapes: dict[Shape, list[tuple[int, int]]] = {}
        self.stations: dict[str, Station] = {}
        #: Of each queue the workers that offer it, by name.
        self._offering: dict[str, list[Station]] = {}
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
            assert job.placement is not None
            self.holding[job.id] = job
            self._held_by.setdefault(job.placement.worker, {})[job.id] = job
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
            assert job.placement is not None
            del self.holding[job.id], self._held_by[job.placement.worker][job.id]
            self._count(job, taking=False)

    def _count(self, job: Job, *, taking: bool) -> None:
        assert job.placement is not None
        station = self.stations.get(job.placement.worker)
        if station is None:
            return
        for room in (station.machine, station.offers.get(job.spec.queue)):
            if room is not None:
                (room.take if taking else room.give)(job.placement.allocation)

    def set_worker(self, info: WorkerInfo, *, online: bool, now: float, heard: float = 0.0) -> None:
        """A worker connected, or said something new of itself: its rooms are counted afresh.

        Of one that is out of touch `heard` says when it last was; its leases are counted from there.
        """
        capacity = machine_capacity(info)
        offers = {offer.queue: empty_room(_bound(offer.limits, capacity)) for offer in info.offers}
        known = self.stations.get(info.name)
        since = known.since if known and known.online == online else now
        drained = known is not None and known.drained
        self.stations[info.name] = Station(info, online, since, empty_room(capacity), offers, drained, heard)
        self._note_offers()
        for job in self.held_by(info.name):
            self._count(job, taking=True)

    def _note_offers(self) -> None:
        self._offering = {}
        for name in sorted(self.stations):
            for queue in self.stations[name].offers:
                self._offering.setdefault(queue, []).append(self.stations[name])

    def lose_touch(self, worker: str, heard: float, now: float) -> None:
        """A worker is silent: what it holds stays held, and nothing more is placed there."""
        station = self.stations[worker]
        if station.online:
            station.online, station.since = False, now
        # What was heard later counts: a lease must never seem to be over too early.
        station.heard = max(station.heard, heard)

    def remove_worker(self, worker: str) -> None:
        """A worker is gone for good; it must hold nothing."""
        assert not self.held_by(worker), f"{worker} holds jobs"
        del self.stations[worker]
        self._note_offers()
        self.awaited.discard(worker)

    def awaits(self, now: float) -> set[str]:
        """The workers that the broker, which has just begun, waits for before it starts anything."""
        return self.awaited if now < self.awaited_until else set()

    def held_by(self, worker: str) -> list[Job]:
        """The jobs that hold devices of a worker."""
        return [*self._held_by.get(worker, {}).values()]

    def offering(self, queue: str) -> Iterator[Station]:
        """The workers that offer a queue, by name."""
        return iter(self._offering.get(queue, ()))

    def queue_names(self) -> set[str]:
        """Every queue that exists."""
        return {*self._offering}

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
    return (job.spec.queue, job.spec.request, job.spec.terms)


def _turns_away(offer: Offer, guest: Guest) -> str | None:
    """Why a queue takes no job from another machine, or not with what its sender chose."""
    if not offer.prefix:
        if offer.unsecure or guest.bare:
            return None
        return f"queue {offer.queue!r} takes no jobs from other machines: it has no command of its own"
    for chosen, option in ((guest.own_cwd, "--cwd"), (guest.shell, "--shell")):
        if chosen:
            return f"queue {offer.queue!r} takes no {option} from other machines"
    refused = [name for name in guest.env if name not in offer.allow_env]
    if refused:
        name = refused[0].decode("utf-8", "backslashreplace")
        return f"queue {offer.queue!r} takes no variable {name} from other machines (--allow-env {name} would)"
    return None


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
