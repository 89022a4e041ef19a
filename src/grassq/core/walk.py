"""One walk along the line: who starts where, first come first, and who is left at the front of each queue.

A window is one kind of requests at one worker. Each shows the first job that fits there, by a question to the kind's
index; the first of all windows starts, and only the windows that this changed look again. So a walk costs the jobs it
starts and not the jobs that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.board import Board
from grassq.core.kinds import Kind, amounts_of
from grassq.core.model import ORDER_BITS, AttemptId, Job, priority_in
from grassq.core.resources import Allocation
from grassq.core.room import Bars, Room, Shortage, Spot, fit, most
from grassq.core.stations import Station

#: Beyond every place in line.
NOBODY = 1 << 63


class Reservation(Struct, frozen=True):
    """What a head keeps on one worker."""

    order: int
    queue: str
    worker: str
    bars: Bars

    def bars_from(self, queue: str) -> int:
        """The place in line from which jobs of a queue that head nothing are kept away.

        Those behind the head; and of another queue also those before it that have no more priority. A later head of
        their own queue keeps nothing from those that came back and go first.
        """
        return self.order + 1 if queue == self.queue else -priority_in(self.order) << ORDER_BITS


class Start(Struct, frozen=True):
    """A job that starts: its place in line, and where."""

    order: int
    station: Station
    queue: str
    allocation: Allocation
    #: The attempt whose devices it takes over.
    after: AttemptId | None = None


class Left(Struct, frozen=True):
    """The first job of a queue that some worker could run and that does not start."""

    order: int
    kind: Kind
    key: int


class Scratch:
    """The board's rooms, copied when first written, so that planning changes nothing."""

    def __init__(self) -> None:
        self.rooms: dict[str, tuple[Room, dict[str, Room]]] = {}

    def spot(self, station: Station, queue: str) -> Spot:
        """The room a job of that queue sees."""
        machine, offers = self.rooms.get(station.info.name) or (station.machine, station.offers)
        return Spot(machine, offers[queue])

    def take(self, station: Station, queue: str, allocation: Allocation) -> None:
        """Count an allocation as taken."""
        for room in self._own(station, queue):
            room.take(allocation)

    def give(self, station: Station, queue: str, allocation: Allocation) -> None:
        """Count an allocation as free again."""
        for room in self._own(station, queue):
            room.give(allocation)

    def _own(self, station: Station, queue: str) -> tuple[Room, ...]:
        name = station.info.name
        if name not in self.rooms:
            self.rooms[name] = (station.machine.copy(), {q: room.copy() for q, room in station.offers.items()})
        machine, offers = self.rooms[name]
        return (machine, offers[queue]) if queue in offers else (machine,)


class _Window:
    """One kind of requests at one worker, and the first job of it that fits there."""

    __slots__ = ("allocation", "key", "kind", "order", "station")

    def __init__(self, station: Station, kind: Kind) -> None:
        self.station = station
        self.kind = kind
        self.order = NOBODY
        self.key = -1
        self.allocation: Allocation = {}


class Walk:
    """A walk over a board's line; `done` puts the board's indexes back as they were."""

    def __init__(self, board: Board, kept: list[Reservation]) -> None:
        self._board = board
        self._kept = kept
        self._scratch = Scratch()
        self._steps: dict[tuple[str, str], list[tuple[int, Bars | None]]] = {}
        #: Shapes of which some start: their kinds and keys, and who goes first of them now.
        self._passed: dict[tuple[int, int], tuple[Kind, int | None]] = {}
        self._heads = [board.jobs[head.job] for head in board.heads.values() if _keeps(kept, board.jobs.get(head.job))]
        self._heads.sort(key=lambda job: job.order, reverse=True)
        self._windows = [
            _Window(station, kind)
            for queue in board.queues()
            if not board.is_paused(queue)
            for kind in board.kinds(queue)
            if kind.count
            for station in board.offering(queue)
            if station.takes and station.refuses(queue, kind.terms) is None
        ]
        #: The windows by what they show; one that has looked again since is known by its order.
        self._shown: list[tuple[int, str, int]] = []

    def starts(self, at_most: int) -> Iterator[Start]:
        """The jobs that start, in order; what each takes is taken when the next is asked for."""
        for number in range(len(self._windows)):
            self._look(number)
        for _ in range(at_most):
            start = self._next()
            if start is None:
                return
            yield start

    def followers(self, tails: list[Job], at_most: int) -> Iterator[Start]:
        """Who would start if these jobs ended, each in the very place of one of them; after `starts`."""
        for tail in tails:
            where = self._station_of(tail)
            assert tail.placement is not None
            self._scratch.give(where, tail.spec.queue, tail.placement.allocation)
        if tails:
            self._look_at({self._station_of(tail).info.name for tail in tails})
        waiting = list(tails)
        for _ in range(min(at_most, len(tails))):
            start = self._next()
            leader = None if start is None else next((tail for tail in waiting if _takes_over(start, tail)), None)
            if start is None or leader is None:
                return
            waiting.remove(leader)
            yield replace(start, after=leader.attempt_id)

    def _station_of(self, job: Job) -> Station:
        assert job.placement is not None
        return self._board.stations[job.placement.worker]

    def _look_at(self, workers: set[str]) -> None:
        for number, window in enumerate(self._windows):
            if window.station.info.name in workers:
                self._look(number)

    def has_more(self) -> bool:
        """Whether somebody else may be able to start."""
        return bool(self._heads) or self._front() is not None

    def left(self) -> dict[str, Left]:
        """Of each queue the first that is left, if some worker in touch could run it were it alone."""
        left: dict[str, Left] = {}
        for window in self._windows:
            queue = window.kind.queue
            ceilings = window.station.ceilings.of(queue, window.kind.names)
            for order, key in window.kind.index.fitting(ceilings.most):
                if queue in left and left[queue].order <= order:
                    break
                if ceilings.holds(window.kind.request(key)):
                    left[queue] = Left(order, window.kind, key)
                    break
        return left

    def done(self) -> None:
        """Put the indexes back as they were."""
        for (_, key), (kind, _) in self._passed.items():
            kind.restore(key)

    def _next(self) -> Start | None:
        front = self._front()
        while self._heads and (front is None or self._heads[-1].order <= front.order):
            start = self._start_head(self._heads.pop())
            if start is not None:
                return start
        if front is None:
            return None
        heappop(self._shown)
        return self._take(front.station, front.kind, front.key, front.order, front.allocation)

    def _front(self) -> _Window | None:
        """The window that shows the first of all; of several the one of the first worker."""
        while self._shown:
            order, _, number = self._shown[0]
            if self._windows[number].order == order:
                return self._windows[number]
            heappop(self._shown)
        return None

    def _start_head(self, job: Job) -> Start | None:
        """A head that has waited long enough minds only what is kept for earlier heads."""
        names, amounts = amounts_of(job.spec.request)
        kind = next(k for k in self._board.kinds(job.spec.queue) if (k.terms, k.names) == (job.spec.terms, names))
        key = kind.key_of(amounts)
        passed = self._passed.get((id(kind), key))
        if (kind.first(key) if passed is None else passed[1]) != job.order:
            return None  # another of its shape came back, goes first and found no place
        found = first_place(job, self._board, self._scratch, self._kept)
        return None if found is None else self._take(found[0], kind, key, job.order, found[1])

    def _take(self, station: Station, kind: Kind, key: int, order: int, allocation: Allocation) -> Start:
        self._scratch.take(station, kind.queue, allocation)
        self._passed[id(kind), key] = (kind, kind.pass_first(key, order))
        for number, window in enumerate(self._windows):
            if window.station is station or (window.order == order and window.kind is kind):
                self._look(number)
        return Start(order, station, kind.queue, allocation)

    def _look(self, number: int) -> None:
        window = self._windows[number]
        window.order = NOBODY
        kind, station = window.kind, window.station
        for upto, bars in self._steps_at(station, kind.queue):
            spot = self._scratch.spot(station, kind.queue)
            spot.bars = bars
            for order, key in kind.index.fitting([most(name, spot) for name in kind.names]):
                if order >= upto:
                    break
                found = fit(kind.request(key), spot)
                if not isinstance(found, Shortage):
                    window.order, window.key, window.allocation = order, key, found
                    heappush(self._shown, (order, station.info.name, number))
                    return

    def _steps_at(self, station: Station, queue: str) -> list[tuple[int, Bars | None]]:
        """What heads keep from jobs that head nothing, up to which place in line: ever more towards its end.

        So who fits at a later step fits at the earlier ones too, and the first that fits at a step is not before it.
        """
        name = station.info.name
        if (name, queue) not in self._steps:
            barring = sorted((r for r in self._kept if r.worker == name), key=lambda r: r.bars_from(queue))
            ends = [*(reservation.bars_from(queue) for reservation in barring), NOBODY]
            self._steps[name, queue] = [
                (end, joined(barring[:count], queue) if count else None) for count, end in enumerate(ends)
            ]
        return self._steps[name, queue]


def _takes_over(start: Start, tail: Job) -> bool:
    where = tail.placement
    assert where is not None
    mine = (start.station.info.name, start.queue, start.allocation)
    return mine == (where.worker, tail.spec.queue, where.allocation)


def _keeps(kept: list[Reservation], job: Job | None) -> bool:
    return job is not None and any(reservation.order == job.order for reservation in kept)


def first_place(job: Job, board: Board, scratch: Scratch, kept: list[Reservation]) -> tuple[Station, Allocation] | None:
    """The first worker that has room for a job now."""
    for station in board.offering(job.spec.queue):
        if not station.takes or station.refuses(job.spec.queue, job.spec.terms) is not None:
            continue
        spot = scratch.spot(station, job.spec.queue)
        spot.bars = joined(barring(job, station.info.name, kept), job.spec.queue)
        found = fit(job.spec.request, spot)
        if not isinstance(found, Shortage):
            return station, found
    return None


def barring(job: Job, worker: str, kept: list[Reservation]) -> list[Reservation]:
    """Who keeps something from a job on a worker: every earlier head, and from one that heads nothing also others."""
    is_head = _keeps(kept, job)
    return [
        other
        for other in kept
        if other.worker == worker
        and (other.order < job.order or (not is_head and other.bars_from(job.spec.queue) <= job.order))
    ]


def joined(reservations: list[Reservation], queue: str) -> Bars:
    """What several heads keep from jobs of a queue."""
    bars = Bars({}, {}, {})
    for other in reservations:
        for name, ids in other.bars.devices.items():
            bars.devices.setdefault(name, set()).update(ids)
        for name, amount in other.bars.pools.items():
            bars.pools[name] = bars.pools.get(name, 0) + amount
            if other.queue == queue:
                bars.limits[name] = amount
    return bars
