"""A trace on a virtual clock: nothing sleeps, time jumps from event to event, and a referee looks at every start."""

from __future__ import annotations

import math
import statistics
from bisect import insort
from heapq import heappop, heappush
from typing import NamedTuple

from bench.packing.machines import Machine, gpus_held
from bench.packing.policies import Grass, Policy, Start
from bench.packing.traces import Task
from grassq.core.resources.amounts import ONE

#: A job shorter than this counts as so long: else a short wait before a very short job looks terrible.
SLOWDOWN_FLOOR_S = 10


class Unfair(Exception):
    """The first in line was passed, or robbed, beyond the bound."""


class Figures(NamedTuple):
    """What came of one trace under one policy, in seconds."""

    makespan: int
    #: Of the device-seconds there were until the last end, the share that was held.
    utilisation: float
    mean_wait: float
    max_wait: int
    slowdown: float
    #: The most later jobs of equal or lower priority that started while one job was first in line, without a break.
    passed: int
    #: The same over all the times one job was first in line.
    passed_in_all: int
    #: The same until room was kept for it, and the longest it waited from then on by the longest run time of the trace;
    #: only Grass keeps room.
    passed_before: int
    kept: float


class Line:
    """Who is first in line, how many have passed it, and whether Grass keeps to its bound.

    The bound: no job of lower priority takes from what the first in line waits for. Once 64 jobs have passed it, or ten
    minutes are over (both are settings), no later job does, unless the first in line starts no later for it by the time
    limits. So what it lacks, or the time until it starts, only shrinks. Others may start on what it does not need.
    """

    def __init__(self, policy: Policy, machines: list[Machine]) -> None:
        self.grass = policy if isinstance(policy, Grass) else None
        self.machines = machines
        self.head: Task | None = None
        self.since = 0
        self.count = 0
        self.kept_since: int | None = None
        #: Who was first in line before the last decision, and what it lacked.
        self.first: tuple[Task, int] | None = None
        #: When it could start by the time limits of the jobs that run.
        self.first_starts = math.inf
        #: The jobs that run, and since when.
        self.running: dict[int, tuple[int, Start]] = {}
        self.able: set[str] = set()
        self.totals: dict[int, int] = {}
        self.passed = self.passed_before = self.kept_s = self.largest_round = 0

    def before(self, now: int, waiting: list[Task]) -> None:
        """A decision is about to be made."""
        if self.grass is None:
            return
        self.first = (waiting[0], self._lack(waiting[0])) if waiting else None
        self.first_starts = self._starts_at(waiting[0]) if waiting else math.inf
        patience = self.grass.patience
        if self.head is not None and (self.count >= patience.passes or now - self.since >= patience.wait_s):
            self.kept_since = now if self.kept_since is None else self.kept_since

    def after(self, now: int, starts: list[Start], waiting: list[Task]) -> None:
        """A decision was made; these still wait, first in line first."""
        self.largest_round = max(self.largest_round, len(starts))
        head = waiting[0] if waiting else None
        was_kept = self.kept_since is not None and head is not None and head == self.head
        if self.kept_since is not None:
            self.kept_s = max(self.kept_s, now - self.kept_since)
        if head is None or head != self.head:
            self._new_head(head, now)
        if head is None:
            return
        passing = sum(start.task.order > head.order and start.machine in self.able for start in starts)
        self.count += passing
        self.totals[head.id] = self.totals.get(head.id, 0) + passing
        self.passed = max(self.passed, self.count)
        if not was_kept:
            self.passed_before = max(self.passed_before, self.count)
        if self.grass is not None:
            self._check(self.grass, head, starts, was_kept=was_kept)

    def _new_head(self, head: Task | None, now: int) -> None:
        self.head, self.since, self.count, self.kept_since = head, now, 0, None
        empty = ((machine.name, machine.empty()) for machine in self.machines)
        self.able = set() if head is None else {name for name, each in empty if each.pick(head.request) is not None}

    def _check(self, grass: Grass, head: Task, starts: list[Start], *, was_kept: bool) -> None:
        if not starts and any(machine.pick(head.request) is not None for machine in self.machines):
            raise Unfair(f"job {head.id} is first in line and fits, and yet it waits")
        if grass.passes() != (head.id, self.count):
            raise Unfair(f"{self.count} have passed job {head.id}, the board says {grass.passes()}")
        if self.passed_before > grass.patience.passes - 1 + self.largest_round:
            raise Unfair(f"{self.passed_before} have passed job {head.id} before room was kept for it")
        if self.first is None or self.first[0] != head or self._lack(head) <= self.first[1]:
            return
        # Where the limits say when the first in line starts, others may use what it lacks until then.
        if was_kept and self._starts_at(head) <= self.first_starts < math.inf:
            return
        if starts and all(start.task.priority < head.priority for start in starts):
            raise Unfair(f"jobs of lower priority have taken what job {head.id} lacks")
        if was_kept and not any(start.task.order < head.order for start in starts):
            raise Unfair(f"later jobs have taken from what is kept for job {head.id}")

    def _starts_at(self, head: Task) -> float:
        """When a job fits on a machine where every job in its way has a limit, if they all use it up."""
        found, asked = [math.inf], {name for name, _ in head.request}
        for machine in self.machines:
            here = [(since, start) for since, start in self.running.values() if start.machine == machine.name]
            if any(start.task.limit is None and asked & {name for name, _ in start.task.request} for _, start in here):
                continue
            ends = [(since + start.task.limit, start.task.id, start) for since, start in here if start.task.limit]
            after = machine.copy() if ends else machine
            for end, _, start in sorted(ends, key=lambda each: each[:2]):
                after.give(start.allocation)
                if after.pick(head.request) is not None:
                    found.append(end)
                    break
        return min(found)

    def _lack(self, head: Task) -> int:
        """What a job lacks where it lacks least; jobs that passed it because they end in time do not count."""
        passed = [] if self.grass is None else self.grass.board.times.backfilled
        machines = {machine.name: machine.copy() if passed else machine for machine in self.machines}
        for _, start in [self.running[job_id] for job_id, _ in passed]:
            machines[start.machine].give(start.allocation)
        return min(lack for machine in machines.values() if (lack := machine.lack(head.request)) is not None)


class Clock:
    """One trace under one policy."""

    def __init__(self, tasks: list[Task], machines: list[Machine], policy: Policy) -> None:
        self.machines = {machine.name: machine for machine in machines}
        self.policy = policy
        self.line = Line(policy, machines)
        #: Who comes and who ends, the soonest first.
        self.coming = sorted(tasks, key=lambda task: (task.at, task.id), reverse=True)
        self.ends: list[tuple[int, int, Start]] = []
        self.waiting: list[Task] = []
        self.story: list[tuple[int, Start]] = []

    def play(self) -> None:
        """From the first arrival to the last end."""
        while self.coming or self.ends:
            now = min([*(task.at for task in self.coming[-1:]), *(end for end, _, _ in self.ends[:1])])
            while self.ends and self.ends[0][0] == now:
                _, _, start = heappop(self.ends)
                self.machines[start.machine].give(start.allocation)
                del self.line.running[start.task.id]
                self.policy.end(start.task, now)
            while self.coming and self.coming[-1].at == now:
                task = self.coming.pop()
                insort(self.waiting, task, key=lambda task: task.order)
                self.policy.submit(task, now)
            # A worker's report that a job has started makes a broker plan again, until nothing more starts.
            while self._decide(now):
                pass

    def _decide(self, now: int) -> bool:
        self.line.before(now, self.waiting)
        copies = [machine.copy() for machine in self.machines.values()]
        starts = self.policy.decide(now, [*self.waiting], copies)
        for start in starts:
            self.machines[start.machine].take(start.allocation)
            heappush(self.ends, (now + start.task.run, start.task.id, start))
            self.line.running[start.task.id] = now, start
            self.story.append((now, start))
        started = {start.task.id for start in starts}
        self.waiting = [task for task in self.waiting if task.id not in started]
        self.line.after(now, starts, self.waiting)
        return bool(starts)


def run(tasks: list[Task], machines: list[Machine], policy: Policy) -> tuple[Figures, list[tuple[int, Start]]]:
    """Play a trace to its end: the figures, and who started when."""
    clock = Clock(tasks, machines, policy)
    clock.play()
    if len(clock.story) != len(tasks) or clock.waiting:
        raise Unfair(f"{len(tasks)} jobs came and {len(clock.story)} started")
    return _figures(tasks, machines, clock.story, clock.line), clock.story


def _figures(tasks: list[Task], machines: list[Machine], story: list[tuple[int, Start]], line: Line) -> Figures:
    makespan = max(at + start.task.run for at, start in story) - min(task.at for task in tasks)
    held = sum(gpus_held(start.allocation) * start.task.run for _, start in story)
    waits = [at - start.task.at for at, start in story]
    slowdowns = [
        max(1.0, (wait + start.task.run) / max(start.task.run, SLOWDOWN_FLOOR_S))
        for wait, (_, start) in zip(waits, story, strict=True)
    ]
    cards = sum(len(machine.cards) for machine in machines)
    return Figures(
        makespan,
        held / (ONE * cards * makespan),
        statistics.fmean(waits),
        max(waits),
        statistics.fmean(slowdowns),
        line.passed,
        max(line.totals.values(), default=0),
        line.passed_before,
        line.kept_s / max(task.run for task in tasks),
    )
