"""The promises of DESIGN section 4, checked against the model of the world after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.sim.touchy import TouchyStore
from tests.sim.world import Command, Machine, RunDir

from grassq.broker.decide import Decider
from grassq.core.board import Board
from grassq.core.model import FINAL, HOLDING, AttemptId, Job, Outcome, State
from grassq.core.placement import never_fits
from grassq.core.resources import VRAM, Capacity, Pool
from grassq.core.selectors import All, Ids
from grassq.store.sqlite import SqliteStore


class Broken(AssertionError):
    """A promise does not hold."""


def demand(holds: bool, promise: str) -> None:
    """A promise must hold, also under `python -O`."""
    if not holds:
        raise Broken(promise)


Usage = Counter[tuple[str, str, str]]


def usage(jobs: Iterable[Job]) -> Usage:
    """What jobs hold: (worker, resource, device) to amount."""
    held: Usage = Counter()
    for job in jobs:
        if job.state in HOLDING:
            demand(job.placement is not None, f"job {job.id} is {job.state} and nobody knows where")
            assert job.placement is not None
            for name, amount in job.placement.allocation.items():
                for device, part in amount.items() if isinstance(amount, dict) else (("", amount),):
                    held[job.placement.worker, name, device] += part
    return held


class Auditor:
    """Remembers what was promised, and compares it with store, board and world."""

    def __init__(self, store: TouchyStore, machines: dict[str, Machine], capacity: dict[str, Capacity]) -> None:
        self._store = store
        self._machines = machines
        self._capacity = capacity
        self._seen_commits = -1
        self._final: dict[int, Job] = {}
        self._spawned: dict[AttemptId, Command] = {}
        #: Jobs as stored, of those that are not finished.
        self.alive: dict[int, Job] = {}
        self.acknowledged: dict[str, list[int]] = {}
        self.cancel_asked: set[int] = set()
        self.removed: set[int] = set()

    def acknowledge(self, key: str, ids: list[int]) -> None:
        """A submitter was told its ids."""
        known = self.acknowledged.setdefault(key, ids)
        demand(known == ids, f"key {key} was answered {known} and then {ids}")

    def told(self, jobs: Iterable[Job]) -> None:
        """A user was shown these jobs: one that has ended stays as shown."""
        for job in jobs:
            if job.state in FINAL and job.id not in self.removed:
                row = self._row(job.id)
                demand(row.state is job.state, f"job {job.id} was said to be {job.state}, and is {row.state}")

    def announced(self, finished: list[int]) -> None:
        """Those who wait were told that these jobs have ended."""
        demand(len(finished) == len(set(finished)), f"an end was announced twice: {finished}")
        for job_id in finished:
            state = self._row(job_id).state
            demand(state in FINAL, f"the end of job {job_id} was announced, and it is {state}")

    def spawned(self, command: Command) -> None:
        """A command starts: it is a recorded attempt, the only one, and the first of its number."""
        job, number = command.id
        demand(command.id not in self._spawned, f"job {job} attempt {number} was started twice")
        self._spawned[command.id] = command
        recorded = [attempt.number for attempt in SqliteStore.attempts(self._store, job)]
        demand(number in recorded, f"job {job} attempt {number} runs and is not recorded")
        row = self._row(job)
        if row.spec.on_lost == "fail":
            starts = sum(1 for attempt in self._spawned if attempt[0] == job)
            demand(starts <= row.spec.tries, f"job {job} was started {starts} times, {row.spec.tries} were asked")

    def check(self, decider: Decider | None) -> None:
        """Everything that must hold now."""
        news = self._store.commits != self._seen_commits
        if news:
            self._seen_commits = self._store.commits
            self._check_store()
        if decider is not None and not decider.stale:
            self._check_board(decider.board)
            if news:
                self._check_queued(decider.board)
        self._check_world()

    def _check_store(self) -> None:
        loaded = SqliteStore.load(self._store)
        gone = self.alive.keys() - {job.id for job in loaded.jobs}
        self.alive = {job.id: job for job in loaded.jobs}
        for job_id in sorted(gone):
            self._check_final(self._row(job_id))
        for job_id in self.alive.keys() & self._final.keys():
            raise Broken(f"job {job_id} had ended and is {self.alive[job_id].state} again")
        for (worker, name, device), amount in usage(loaded.jobs).items():
            most = _most(self._capacity[worker], name, device)
            demand(amount <= most, f"{worker} has {most} of {name} {device}, and {amount} is given out")

    def _check_board(self, board: Board) -> None:
        demand(board.jobs == self.alive, f"board and store differ: {_difference(board.jobs, self.alive)}")
        held = usage(board.jobs.values())
        counted: Usage = Counter()
        for worker, station in board.stations.items():
            for name, amount in station.machine.pools.items():
                counted[worker, name, ""] = amount
            for name, loads in station.machine.loads.items():
                for device, load in loads.items():
                    counted[worker, name, device] = load.used
                    counted[worker, VRAM, device] = load.vram
        demand(+held == +counted, f"jobs hold {+held}, the board counts {+counted}")

    def _check_queued(self, board: Board) -> None:
        """Queued means that it may be placed: its queue is there, and could hold it."""
        for queue, request, terms in board.shapes:
            why = "no queue" if next(board.offering(queue), None) is None else never_fits(board, queue, request, terms)
            demand(why is None, f"jobs of {queue} that ask {request} are queued, and yet: {why}")

    def _check_world(self) -> None:
        live: set[int] = set()
        for machine in self._machines.values():
            for command in machine.commands():
                job_id, number = command.id
                demand(job_id not in live, f"job {job_id} runs twice")
                live.add(job_id)
                job = self.alive.get(job_id)
                owned = job is not None and job.state in HOLDING and job.attempt == number
                demand(owned, f"job {job_id} attempt {number} runs on {machine.name}, and the store says {job}")

    def _check_final(self, job: Job) -> None:
        demand(job.state in FINAL, f"job {job.id} left the queue as {job.state}")
        known = self._final.setdefault(job.id, job)
        demand(known == job, f"job {job.id} ended as {known} and again as {job}")
        if job.state is State.CANCELLED:
            demand(job.id in self.cancel_asked, f"job {job.id} is cancelled, and nobody asked")
        folder = self._folder(job)
        command = folder.command if folder is not None else None
        if command is not None and command.alive:
            raise Broken(f"job {job.id} is {job.state}, and its command runs")
        match job.outcome:
            case Outcome.EXITED | Outcome.SIGNALLED:
                status = (command.code, command.signal) if command else None
                demand((job.exit_code, job.signal) == status, f"{job} really ended with {status}")
                succeeded = job.outcome is Outcome.EXITED and job.exit_code == 0
                demand(succeeded == (job.state is State.SUCCEEDED), f"{job} has a state that its code denies")
            case Outcome.SPAWN_FAILED:
                demand(command is None, f"{job} is said never to have started, and did")
            case Outcome.LOST:
                leased = job.placement is not None and job.placement.lease_s is not None
                demand(leased or self._rebooted(job), f"{job}: its machine never restarted")
            case Outcome.UNKNOWN:
                kept = folder is not None and folder.record is not None
                demand(not kept, f"{job}: its exit record was there")

    def _rebooted(self, job: Job) -> bool:
        return job.placement is not None and self._machines[job.placement.worker].boot != job.placement.boot

    def _folder(self, job: Job) -> RunDir | None:
        if job.placement is None:
            return None
        return self._machines[job.placement.worker].dirs.get(job.attempt_id)

    def _row(self, job_id: int) -> Job:
        found = SqliteStore.jobs(self._store, Ids(((job_id, job_id),)), 1)
        demand(bool(found), f"job {job_id} is gone from the store")
        return found[0]

    def check_all(self) -> None:
        """The slow checks, for the end: nothing acknowledged is missing, nothing final has changed, one key one set."""
        rows = {job.id: job for job in SqliteStore.jobs(self._store, All(), 1_000_000)}
        for key, ids in self.acknowledged.items():
            demand(set(ids) <= rows.keys() | self.removed, f"{key}: of {ids} some are gone")
        for job_id, job in self._final.items():
            demand(job_id in self.removed or rows[job_id] == job, f"job {job_id} changed after its end")
        by_key: dict[bytes, set[int]] = {}
        for job in rows.values():
            if job.rerun_of is None:
                by_key.setdefault(job.spec.command[0], set()).add(job.id)
        for word, found in by_key.items():
            answered = self.acknowledged.get(word.decode())
            demand(answered is None or found <= set(answered), f"{word!r} made {found}, answered {answered}")


def _most(capacity: Capacity, name: str, device: str) -> int:
    if name == VRAM:
        gpu = capacity["gpu"]
        assert not isinstance(gpu, Pool)
        return next(known.vram for known in gpu.devices if known.id == device)
    supply = capacity[name]
    if isinstance(supply, Pool):
        return supply.amount
    return next(known.worth for known in supply.devices if known.id == device)


def _difference(board: dict[int, Job], store: dict[int, Job]) -> list[tuple[Job | None, Job | None]]:
    ids = sorted(board.keys() | store.keys())
    return [(board.get(i), store.get(i)) for i in ids if board.get(i) != store.get(i)][:3]
