"""Who starts next: Grass itself, and the plain policies it is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from bench.packing.machines import GPU, Machine
from bench.packing.traces import Task
from grassq.core.job_options import STOP_GRACE_S
from grassq.core.model import ANYWHERE, Constraints, Job, Offer, Outcome, Spec, State, WorkerInfo
from grassq.core.names import DEFAULT_QUEUE
from grassq.core.planner.board import Board
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.plan import adopt, plan
from grassq.core.resources.amounts import ONE, Allocation, Request
from grassq.core.states import Exited, Place, Started, advance
from grassq.core.syntax.resource_names import VRAM

#: Of a process that does not exist: nothing is started here.
PID = 1


class Start(NamedTuple):
    """A job starts on a machine with these devices."""

    task: Task
    machine: str
    allocation: Allocation


class Policy(Protocol):
    """What the clock asks: it tells of arrivals and ends, and wants to know who starts."""

    def submit(self, task: Task, now: int) -> None:
        """A job has come."""

    def end(self, task: Task, now: int) -> None:
        """A job has ended."""

    def decide(self, now: int, waiting: list[Task], machines: list[Machine]) -> list[Start]:
        """Who starts now, asked again until nobody does; the jobs are in order, the machines are copies to try on."""


class Grass:
    """Grass: the real board and the real planner, told of everything as the broker would."""

    def __init__(self, machines: list[Machine], patience: ReservationPolicy | None = None) -> None:
        self.board = Board(patience=patience)
        for machine in machines:
            info = WorkerInfo(machine.name, "boot", machine.capacity, (Offer(DEFAULT_QUEUE),))
            self.board.set_worker(info, online=True, now=0.0)
        self.tasks: dict[int, Task] = {}
        #: How many jobs used what was kept for the first in line, because they end in time.
        self.backfilled = 0

    @property
    def patience(self) -> ReservationPolicy:
        """When the first in line begins to keep room."""
        return self.board.patience

    def passes(self) -> tuple[int, int] | None:
        """The first in line, and how many have passed it, as the board counts them."""
        head = self.board.heads.get(DEFAULT_QUEUE)
        return None if head is None else (head.job, head.passed)

    def submit(self, task: Task, now: int) -> None:
        """Queue it."""
        self.tasks[task.id] = task
        constraints = ANYWHERE if task.limit is None else Constraints(lasts_s=float(task.limit) + STOP_GRACE_S)
        limit_s = None if task.limit is None else float(task.limit)
        spec = Spec((b"true",), DEFAULT_QUEUE, task.request, b"/", b"", constraints=constraints, time_limit_s=limit_s)
        job = Job(id=task.id, spec=spec, state=State.QUEUED, created=float(now), priority=task.priority)
        self.board.put(job)

    def end(self, task: Task, now: int) -> None:
        """It has ended well."""
        job = self.board.jobs[task.id]
        self.board.put(advance(job, Exited(job.attempt, Outcome.EXITED, code=0), float(now)))
        del self.tasks[task.id]

    def decide(self, now: int, waiting: list[Task], machines: list[Machine]) -> list[Start]:
        """One plan."""
        made = plan(self.board, float(now))
        for job_id, placement in made.placements:
            job = self.board.jobs[job_id]
            placed = advance(job, Place(replace(placement, time_limit_s=job.spec.time_limit_s)), float(now))
            self.board.put(placed, at=float(now))
            self.board.put(advance(placed, Started(placed.attempt, PID), float(now)), at=float(now))
        adopt(self.board, made)
        self.backfilled += len(made.backfilled)
        return [Start(self.tasks[id], placement.worker, placement.allocation) for id, placement in made.placements]


class Plain:
    """A policy that remembers nothing between two decisions."""

    def submit(self, task: Task, now: int) -> None:
        """Nothing to note."""

    def end(self, task: Task, now: int) -> None:
        """Nothing to note."""


class InOrder(Plain):
    """Down the line, on the first machine with room; a job that finds none blocks all, or is passed."""

    def __init__(
        self,
        *,
        strict: bool = False,
        thrifty: bool = False,
        key: Callable[[Task], tuple[int, ...]] | None = None,
    ) -> None:
        self.strict = strict
        self.thrifty = thrifty
        self.key = key

    def decide(self, now: int, waiting: list[Task], machines: list[Machine]) -> list[Start]:
        """Who starts now."""
        starts: list[Start] = []
        # In one decision room only shrinks: what found none finds none later.
        hopeless: set[Request] = set()
        for task in sorted(waiting, key=self.key) if self.key else waiting:
            if task.request in hopeless:
                continue
            start = _first_place(task, machines, thrifty=self.thrifty)
            if start is not None:
                starts.append(start)
            elif self.strict:
                break
            else:
                hopeless.add(task.request)
        return starts


def longest_first(task: Task) -> tuple[int, ...]:
    """The line of somebody who knows run times: within a priority the longest goes first."""
    return (-task.priority, -task.run, task.id)


class BestFit(Plain):
    """Of all waiting jobs that fit, of the highest priority first, the one that leaves the least free."""

    def decide(self, now: int, waiting: list[Task], machines: list[Machine]) -> list[Start]:
        """Who starts now."""
        starts: list[Start] = []
        for priority in sorted({task.priority for task in waiting}, reverse=True):
            lines = _batches(task for task in waiting if task.priority == priority)
            while lines:
                options = [
                    (_left(machine, allocation), lines[request][0].id, at, allocation)
                    for request in lines
                    for at, machine in enumerate(machines)
                    if (allocation := machine.pick(request, thrifty=True)) is not None
                ]
                if not options:
                    break
                _, job_id, at, allocation = min(options, key=lambda option: option[:3])
                line = next(line for line in lines.values() if line[0].id == job_id)
                machines[at].take(allocation)
                starts.append(Start(line.pop(0), machines[at].name, allocation))
                lines = {request: line for request, line in lines.items() if line}
        return starts


class HyperQueueLike(Plain):
    """Batches of equal requests, priority by priority, the largest request first.

    Where a batch of higher priority still waits, a lower one gets only what the higher could never use (a gap). The
    real one solves a linear programme for how many of each batch start; taking the largest first comes near to it.
    """

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = {machine.name: machine.empty() for machine in machines}
        self.weights: dict[Request, float] = {}
        self.gaps: dict[tuple[str, Request, Request], int | None] = {}

    def decide(self, now: int, waiting: list[Task], machines: list[Machine]) -> list[Start]:
        """Who starts now."""
        starts: list[Start] = []
        blocked: list[Request] = []
        for priority in sorted({task.priority for task in waiting}, reverse=True):
            batches = _batches(task for task in waiting if task.priority == priority)
            for request in sorted(batches, key=self._weight, reverse=True):
                starts += self._fill(request, batches[request], blocked, machines)
            blocked += [request for request, line in batches.items() if line]
        return starts

    def _fill(
        self, request: Request, line: list[Task], blocked: list[Request], machines: list[Machine]
    ) -> Iterable[Start]:
        for machine in machines:
            gaps = [gap for other in blocked if (gap := self._gap(machine.name, other, request)) is not None]
            most = min(gaps, default=len(line))
            while line and most > 0 and (allocation := machine.pick(request)) is not None:
                machine.take(allocation)
                most -= 1
                yield Start(line.pop(0), machine.name, allocation)

    def _weight(self, request: Request) -> float:
        """Which share of everything it asks for, summed over resources."""
        if request not in self.weights:
            self.weights[request] = sum(amount / self._total(name) for name, amount in request)
        return self.weights[request]

    def _total(self, name: str) -> int:
        machines = self.machines.values()
        if name == GPU:
            return ONE * sum(len(machine.cards) for machine in machines)
        if name == VRAM:
            return sum(card.memory for machine in machines for card in machine.cards)
        return sum(machine.pools.get(name, 0) for machine in machines)

    def _gap(self, name: str, higher: Request, lower: Request) -> int | None:
        """How many of the lower fit beside as many of the higher as the machine can hold; None: it can hold none."""
        key = (name, higher, lower)
        if key not in self.gaps:
            machine = self.machines[name].empty()
            self.gaps[key] = None if _pour(machine, higher) == 0 else _pour(machine, lower)
        return self.gaps[key]


def _pour(machine: Machine, request: Request) -> int:
    count = 0
    while (allocation := machine.pick(request)) is not None:
        machine.take(allocation)
        count += 1
    return count


def _first_place(task: Task, machines: list[Machine], *, thrifty: bool) -> Start | None:
    for machine in machines:
        allocation = machine.pick(task.request, thrifty=thrifty)
        if allocation is not None:
            machine.take(allocation)
            return Start(task, machine.name, allocation)
    return None


def _batches(tasks: Iterable[Task]) -> dict[Request, list[Task]]:
    lines: dict[Request, list[Task]] = {}
    for task in tasks:
        lines.setdefault(task.request, []).append(task)
    return lines


def _left(machine: Machine, allocation: Allocation) -> float:
    machine.take(allocation)
    share = machine.idle_share()
    machine.give(allocation)
    return share


#: The policies by the names the tables use, Grass first; the last one knows run times, the others do not.
GRASS = "grass"
POLICIES: dict[str, Callable[[list[Machine]], Policy]] = {
    GRASS: Grass,
    # What the limit on time costs: these wait for 64 passes, however long that takes.
    "grass, passes only": lambda machines: Grass(machines, ReservationPolicy(wait_s=math.inf)),
    "strict fifo": lambda machines: InOrder(strict=True),
    "first fit": lambda machines: InOrder(),
    "first fit, least vram": lambda machines: InOrder(thrifty=True),
    "best fit": lambda machines: BestFit(),
    "hyperqueue-like": HyperQueueLike,
    "longest first": lambda machines: InOrder(key=longest_first),
}

#: The policies on traces with time limits: Grass as it is, and as it would be if it did not look at the limits.
LIMITED_POLICIES: dict[str, Callable[[list[Machine]], Policy]] = {
    GRASS: Grass,
    "grass, no backfill": lambda machines: Grass(machines, ReservationPolicy(backfills=False)),
    "first fit": lambda machines: InOrder(),
    "strict fifo": lambda machines: InOrder(strict=True),
}
