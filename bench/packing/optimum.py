"""The shortest schedule there is, by branch and bound: for a few jobs that are all there from the beginning."""

from __future__ import annotations

import math

from bench.packing.machines import GPU, Machine
from bench.packing.traces import Task
from grassq.core.resources.amounts import ONE, Allocation

#: More jobs would take minutes.
JOBS_MAX = 8

Running = tuple[tuple[int, int, int, Allocation], ...]


class Search:
    """A depth-first search over who starts at each end of a job, and on which devices.

    Some shortest schedule starts every job at the beginning or when another ends: anything else can be moved forward.
    So the search stops at these times only; at each it starts any set of jobs that fits, or waits though one would.
    """

    def __init__(self, machines: list[Machine], known: int) -> None:
        """`known` is the makespan of some schedule: only shorter ones are looked for."""
        self.machines = machines
        self.best = known
        self.cards = sum(len(machine.cards) for machine in machines)
        self.looked = 0
        #: What was waiting and running at a time: reached by another way, it leads to nothing new.
        self.seen: set[tuple[object, ...]] = set()

    def go(self, now: int, waiting: tuple[Task, ...], running: Running, first: int) -> None:
        """Try everything from here; of those that start at this time, the next comes after number `first`."""
        self.looked += 1
        if not waiting:
            self.best = min(self.best, max(end for end, *_ in running))
            return
        if self._bound(now, waiting, running) >= self.best:
            return
        for index in range(first, len(waiting)):
            task = waiting[index]
            if index > first and _alike(task, waiting[index - 1]):
                # The one before was not started now: neither is its twin.
                continue
            for at, machine in enumerate(self.machines):
                for allocation in machine.choices(task.request):
                    machine.take(allocation)
                    rest = waiting[:index] + waiting[index + 1 :]
                    self.go(now, rest, (*running, (now + task.run, task.id, at, allocation)), index)
                    machine.give(allocation)
        if running:
            self._wait(waiting, running)

    def _wait(self, waiting: tuple[Task, ...], running: Running) -> None:
        now = min(end for end, *_ in running)
        over = [each for each in running if each[0] == now]
        still = tuple(each for each in running if each[0] > now)
        key = (now, waiting, tuple(sorted((id, at, repr(held)) for _, id, at, held in still)))
        if key in self.seen:
            return
        self.seen.add(key)
        for _, _, at, allocation in over:
            self.machines[at].give(allocation)
        self.go(now, waiting, still, 0)
        for _, _, at, allocation in over:
            self.machines[at].take(allocation)

    def _bound(self, now: int, waiting: tuple[Task, ...], running: Running) -> int:
        """No schedule from here ends sooner."""
        last = max((end for end, *_ in running), default=now)
        longest = now + max(task.run for task in waiting)
        work = sum(dict(task.request).get(GPU, 0) * task.run for task in waiting)
        for end, _, _, allocation in running:
            held = allocation.get(GPU, {})
            assert isinstance(held, dict)
            work += sum(held.values()) * (end - now)
        return max(last, longest, now + math.ceil(work / (ONE * self.cards)))


def _alike(one: Task, other: Task) -> bool:
    return one.run == other.run and one.request == other.request


def optimum(tasks: list[Task], machines: list[Machine], known: int) -> int:
    """The least makespan of these jobs, all there at time 0; `known` is that of some schedule."""
    if len(tasks) > JOBS_MAX or any(task.at for task in tasks):
        raise ValueError(f"at most {JOBS_MAX} jobs, all there from the beginning")
    # The longest first, and twins side by side: good schedules are found early.
    ordered = tuple(sorted(tasks, key=lambda task: (-task.run, task.request)))
    search = Search([machine.empty() for machine in machines], known)
    search.go(0, ordered, (), 0)
    return search.best
