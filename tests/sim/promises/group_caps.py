"""The promise about limits of groups: no start brings a group above its limit, and nobody else waits because of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tests.sim.promises.line import could_run, machine_of
from tests.sim.promises.promise import Broken, demand

from grassq.core.model import HOLDING, Job
from grassq.core.planner.board import Board
from grassq.core.planner.limits.groups import GroupLimit, names_in
from grassq.core.suspension.room import returning
from grassq.store.base import Loaded
from grassq.store.sqlite import SqliteStore

#: What jobs are counted as, beside the resources that they ask for.
JOBS = ""


class Caps:
    """The limits that are stored at a moment, and what the jobs of each group hold, counted here once more."""

    def __init__(self, limits: Mapping[str, GroupLimit], jobs: Iterable[Job] = ()) -> None:
        self._most = {
            (name, what): most
            for name, limit in limits.items()
            for what, most in (*limit.amounts.items(), (JOBS, limit.jobs))
            if most is not None
        }
        self._groups = {name for name, _ in self._most}
        self._held: Counter[tuple[str, str]] = Counter()
        holding = [job for job in jobs if job.state in HOLDING and not job.is_freed]
        attempts = {job.attempt_id for job in holding}
        for job in holding:
            # Who waits behind another counts when that has ended.
            if job.placement is None or job.placement.after not in attempts:
                self._held.update(self._asked(job))

    def check_started(self, job: Job) -> None:
        """A job that was placed does not bring its groups above their limits."""
        for key in self._asked(job):
            within = key not in self._most or self._held[key] <= self._most[key]
            demand(within, f"{key} has a limit of {self._most.get(key)}: {job} was placed, and {self._held[key]} held")

    def check_returned(self, job: Job, before: Caps) -> None:
        """Demand that a suspended job that gets its devices again does not bring its groups above their limits.

        If the limits have changed at the same time, nothing is demanded: the job may have got its devices before.
        """
        for key in self._asked(job) if before._most == self._most else ():
            within = key not in self._most or self._held[key] <= self._most[key]
            demand(within, f"{key} has a limit of {self._most.get(key)}: {job} goes on, and {self._held[key]} is held")

    def is_limited(self, job: Job) -> bool:
        """Whether a group of a job has a limit."""
        return not self._groups.isdisjoint(names_in(job.spec.constraints))

    def is_capped(self, job: Job) -> bool:
        """Whether a waiting job would bring a group above its limit."""
        asked = self._asked(job) if self._most else Counter[tuple[str, str]]()
        return any(self._held[key] + asked[key] > self._most[key] for key in asked if key in self._most)

    def held_back(self, waiting: Iterable[Job]) -> set[int]:
        """The waiting jobs that their groups do not let start, or that leave a limit to a job before them."""
        found: set[int] = set()
        seen: set[str] = set()
        for job in sorted(waiting, key=lambda job: job.order) if self._most else ():
            names = self._groups.intersection(names_in(job.spec.constraints))
            if names & seen or self.is_capped(job):
                found.add(job.id)
            seen |= names
        return found

    def check_others(self, board: Board, waiting: Iterable[Job]) -> None:
        """After a plan, the first in line outside of limited groups does not wait for what is free.

        Nothing is said where a queue has limits or slots, or a suspended job waits to go on, whose devices are kept.
        """
        if not self._most or returning(board):
            return
        line = sorted(waiting, key=lambda job: job.order)
        if not any(map(self.is_capped, line)):
            return
        for job in line:
            able = [worker for worker in board.offering(job.spec.queue) if could_run(worker, job)]
            offers = [worker.offers[job.spec.queue] for worker in able]
            if not able or board.is_paused(job.spec.queue) or self.is_capped(job):
                continue
            if self.is_limited(job) or any(offer.supply or offer.slot_set is not None for offer in offers):
                return
            for worker in able:
                if machine_of(board, worker).pick(job.spec.request) is not None:
                    raise Broken(f"{job} waits behind groups at their limit, and {worker.info.name} has room for it")
            return

    def _asked(self, job: Job) -> Counter[tuple[str, str]]:
        asked = (*job.spec.request, (JOBS, 1))
        names = [name for name in names_in(job.spec.constraints) if name in self._groups]
        return Counter({(name, what): amount for name in names for what, amount in asked})


NO_CAPS = Caps({})


def stored_caps(store: SqliteStore, loaded: Loaded) -> Caps:
    """The limits of people and those of sweeps, as they are stored."""
    limits = dict(loaded.group_limits)
    if any(job.spec.sweep is not None for job in loaded.jobs):
        limits |= {sweep.group: GroupLimit(jobs=sweep.at_once) for sweep in SqliteStore.open_sweeps(store)}
    return Caps(limits, loaded.jobs) if limits else NO_CAPS
