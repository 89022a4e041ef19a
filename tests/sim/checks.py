"""The promises of DESIGN section 4, checked against the model of the world after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.packing.machines import Overfilled
from tests.sim.promises import time_limits
from tests.sim.promises.backfill import Backfill
from tests.sim.promises.board import check_board, check_queued
from tests.sim.promises.group_caps import NO_CAPS, Caps, stored_caps
from tests.sim.promises.held import Usage, held_by, most_of, usage
from tests.sim.promises.line import robbed
from tests.sim.promises.placed import check_placed
from tests.sim.promises.promise import Broken, demand
from tests.sim.promises.start_times import StartTimes
from tests.sim.things import Command, RunDir
from tests.sim.touchy import TouchyStore
from tests.sim.world import Machine

from grassq.broker.batch import Clock
from grassq.broker.decider import Decider
from grassq.core.model import FINAL, HOLDING, AttemptId, Job, Outcome, State
from grassq.core.planner.board import NEAR_MAX
from grassq.core.resources.capacity import Capacity
from grassq.core.syntax.selectors import AllJobs, ByIds
from grassq.store.base import Loaded
from grassq.store.sqlite import SqliteStore


@dataclass(frozen=True)
class Books:
    """What was promised up to a moment."""

    acknowledged: dict[str, list[int]]
    final: dict[int, Job]
    removed: set[int]


class Auditor:
    """Remembers what was promised, and compares it with store, board and world."""

    def __init__(
        self, store: TouchyStore, machines: dict[str, Machine], capacity: dict[str, Capacity], clock: Clock
    ) -> None:
        self._store = store
        self._machines = machines
        self._capacity = capacity
        self._clock = clock
        self._seen_commits = -1
        self._final: dict[int, Job] = {}
        self._spawned: dict[AttemptId, Command] = {}
        #: Jobs as stored, of those that are not finished.
        self.alive: dict[int, Job] = {}
        self.acknowledged: dict[str, list[int]] = {}
        self.cancel_asked: set[int] = set()
        #: How often users asked for another run of a job.
        self.requeue_asked: Counter[int] = Counter()
        self.removed: set[int] = set()
        #: Workers that were removed: nobody answers for what they still do, nor for what they held.
        self.gone: set[str] = set()
        self._joined: set[str] = set()
        self._given_up: set[AttemptId] = set()
        #: What stores knew that were replaced by a backup: their attempts and jobs, and keys answered after it.
        self._forgotten: set[AttemptId] = set()
        self._lost_rows: dict[int, Job] = {}
        self._loose_keys: set[str] = set()
        #: The jobs placed since the board was looked at last.
        self._placed: set[int] = set()
        #: Something was stored since then.
        self._news = False
        self._start_times = StartTimes(clock.wall)
        self._backfill = Backfill()
        #: The limits of groups as they are stored.
        self._caps = NO_CAPS

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
            if job_id in self.removed:
                continue
            state = self._row(job_id).state
            demand(state in FINAL, f"the end of job {job_id} was announced, and it is {state}")

    # A store that is replaced by its backup.

    def books(self) -> Books:
        """What is promised by now."""
        return Books(dict(self.acknowledged), dict(self._final), set(self.removed))

    def lose_memory(self) -> None:
        """The store is about to be replaced: what it knows may still be at work somewhere."""
        for job in SqliteStore.jobs(self._store, AllJobs(), 1_000_000):
            self._lost_rows[job.id] = job
            self._forgotten |= {(job.id, attempt.number) for attempt in SqliteStore.attempts(self._store, job.id)}
        for machine in self._machines.values():
            self._forgotten |= machine.dirs.keys()

    def restored(self, books: Books, keys: Iterable[str]) -> None:
        """The store is as it was: what was promised since then is off, and nothing more."""
        self.acknowledged = dict(books.acknowledged)
        self._final = dict(books.final)
        self.removed = set(books.removed)
        self._loose_keys |= set(keys) - books.acknowledged.keys()
        loaded = SqliteStore.load(self._store, NEAR_MAX)
        self.alive = {job.id: job for job in loaded.jobs}
        self.gone = self._joined - {info.name for info in loaded.workers}
        self._start_times.restored(loaded.jobs, (job for job, _ in self._forgotten))
        self._seen_commits = -1

    def spawned(self, command: Command) -> None:
        """A command starts: it is a recorded attempt, the only one, and the first of its number."""
        job, number = command.id
        demand(command.id not in self._spawned, f"job {job} attempt {number} was started twice")
        self._spawned[command.id] = command
        where = command.start.placement
        boot = self._machines[where.worker].boot
        demand(where.boot == boot, f"job {job} attempt {number} was meant for {where.boot}, and runs in {boot}")
        self._check_room(where.worker)
        spec = command.start.spec
        others = {known.start.spec.command for id_, known in self._spawned.items() if id_[0] == job}
        demand(len(others) == 1, f"job {job} was started as {others}: two jobs have one id")
        if command.id in self._given_up | self._forgotten or command.start.placement.worker in self.gone:
            return
        recorded = [attempt.number for attempt in SqliteStore.attempts(self._store, job)]
        demand(number in recorded, f"job {job} attempt {number} runs and is not recorded")
        if spec.on_lost == "fail":
            starts = sum(1 for attempt in self._spawned if attempt[0] == job)
            asked = spec.tries + self.requeue_asked[job]
            if any(job == forgotten for forgotten, _ in self._forgotten):
                # Each attempt that ran since a backup holds the job until a user lets it run again.
                asked += sum(attempt[0] == job and attempt in self._forgotten for attempt in self._spawned)
            demand(starts <= asked, f"job {job} was started {starts} times, {asked} were asked")

    def resumed(self, command: Command) -> None:
        """A suspended command goes on: what it holds is its own again."""
        self._check_room(command.start.placement.worker)

    def _check_room(self, worker: str) -> None:
        """What really runs on a machine fits there."""
        used: Usage = Counter()
        for command in self._machines[worker].commands():
            # What a restored store has no record of may hold what a job goes on with that it knows of.
            is_loose = command.was_stopped and command.id in self._forgotten
            if command.id not in self._given_up and not command.stopped and not is_loose:
                used.update(held_by(command.start.placement, command.start.spec.queue))
        self._check_capacity(used)

    def check(self, decider: Decider | None, decided: bool) -> None:
        """Everything that must hold now; the board is looked at when something was decided."""
        self.look_at_store()
        if decider is not None and not decider.stale and decided:
            check_board(decider.board, self.alive)
            if self._news:
                check_queued(decider.board)
            self._check_plan(decider)
        self._placed.clear()
        self._news = False
        self._check_world()

    def look_at_store(self) -> None:
        """See what was committed since the last look."""
        if self._store.commits != self._seen_commits:
            self._seen_commits, self._news = self._store.commits, True
            self._check_store()

    def _check_store(self) -> None:
        loaded = SqliteStore.load(self._store, NEAR_MAX)
        self._note_removed_workers(loaded)
        ended = self.alive.keys() - {job.id for job in loaded.jobs}
        before, self.alive = self.alive, {job.id: job for job in loaded.jobs}
        for job_id in sorted(ended):
            # One that ended and was removed at once is not there any more.
            if job_id not in self.removed or SqliteStore.jobs(self._store, ByIds(((job_id, job_id),)), 1):
                self._check_final(self._row(job_id))
        for job_id in self.alive.keys() & self._final.keys():
            if job_id in self.removed and any(job_id == job for job, _ in self._forgotten):
                # After a backup one that was removed may come back, from a worker that still has its folder.
                del self._final[job_id]
                continue
            raise Broken(f"job {job_id} had ended and is {self.alive[job_id].state} again")
        self._check_capacity(usage(loaded.jobs, self._is_over))
        self._start_times.look(loaded.jobs)
        caps, self._caps = self._caps, stored_caps(self._store, loaded)
        for job in loaded.jobs:
            if job.attempt_id not in self._forgotten:
                self._check_start(job, before.get(job.id), loaded, caps)

    def _check_start(self, job: Job, before: Job | None, loaded: Loaded, caps: Caps) -> None:
        """A job that holds what it asked for since the last look may hold it."""
        if job.state not in HOLDING:
            return
        if before is None or before.attempt != job.attempt:
            check_placed(job, loaded)
            self._check_conditions(job)
            self._caps.check_started(job)
            self._placed.add(job.id)
            self._backfill.note(job.attempt_id, self._clock.mono())
        elif before.is_freed and not job.is_freed:
            self._caps.check_returned(job, caps)

    def _check_conditions(self, job: Job) -> None:
        """A job is placed only after the jobs before it have ended as asked, and that is stored."""
        for each in job.spec.dependencies:
            rows = [row for id_ in each.ids for row in SqliteStore.jobs(self._store, ByIds(((id_, id_),)), 1)]
            gone = len(rows) < each.count  # removed since, so it had ended
            succeeded = [row.state is State.SUCCEEDED for row in rows]
            holds = {
                "ok": all(succeeded),
                "any": all(row.state in FINAL for row in rows),
                "fail": gone or any(row.state in FINAL and row.state is not State.SUCCEEDED for row in rows),
            }
            demand(holds[each.condition], f"{job} was placed, and {each} does not hold")

    def _check_capacity(self, used: Usage) -> None:
        for (worker, name, device), amount in used.items():
            most = most_of(self._capacity[worker], name, device)
            demand(amount <= most, f"{worker} has {most} of {name} {device}, and {amount} is given out")

    def _is_over(self, job: Job) -> bool:
        """Whether an attempt has ended, though a restored store believes that it runs until its worker says so."""
        if job.attempt_id not in self._forgotten or job.placement is None:
            return False
        if job.suspension is not None and job.suspension.frees:
            return True  # it counts until its worker has confirmed once more that it is stopped
        folder = self._folder(job)
        if folder is None:
            # Not begun: should there be no room for it beside what is found to run, it is taken back before it is.
            return job.state is State.PLACED
        return self._rebooted(job) or (folder.claimed and not folder.lives)

    def _note_removed_workers(self, loaded: Loaded) -> None:
        names = {info.name for info in loaded.workers}
        self._joined |= names
        for worker in self._joined - names - self.gone:
            self._given_up |= self._machines[worker].dirs.keys()
            held = (job for job in self.alive.values() if job.placement is not None)
            self._given_up |= {job.attempt_id for job in held if job.placement and job.placement.worker == worker}
        self.gone = self._joined - names

    def _check_plan(self, decider: Decider) -> None:
        """Demand that no placed job passed a job with a better right, and that no job waits for what is free."""
        board, now = decider.board, self._clock.mono()
        waiting = [job for job in self.alive.values() if job.state is State.QUEUED]
        placed = {job_id for job_id in self._placed if job_id in board.holding}
        try:
            held_back = self._caps.held_back(waiting)
            found = robbed(board, waiting, placed, held_back)
            # What a head kept that has just started goes to nobody before the next plan.
            has_room = self._backfill.heads.isdisjoint(placed) and not board.unreconciled and not board.awaits(now)
            on_time = self._backfill.look(decider, placed, now, held_back)
            if has_room and self._news and not decider._replan:
                self._caps.check_others(board, waiting)
        except Overfilled:
            # A restored store knows less than its workers.
            demand(bool(self._forgotten), "a worker is overfull, and no backup was restored")
            return
        # A head whose start is known by time limits keeps other room than it lacks.
        if found is not None and found[0].id not in on_time:
            raise Broken(f"jobs {found[1]} were placed and took what {found[0]} lacks")

    def _check_world(self) -> None:
        live: set[int] = set()
        for machine in self._machines.values():
            for command in machine.commands():
                if machine.name in self.gone or command.id in self._given_up:
                    continue
                time_limits.check_running(command, machine.dirs[command.id], self._clock.mono())
                job_id, number = command.id
                demand(job_id not in live, f"job {job_id} runs twice")
                live.add(job_id)
                job = self.alive.get(job_id)
                owned = job is not None and job.state in HOLDING and job.attempt == number
                # What a replaced store gave runs on, and its end is recorded nowhere else than in its run dir.
                if not owned and command.id not in self._forgotten:
                    raise Broken(f"job {job_id} attempt {number} runs on {machine.name}, and the store says {job}")

    def _check_final(self, job: Job) -> None:
        demand(job.state in FINAL, f"job {job.id} left the queue as {job.state}")
        known = self._final.setdefault(job.id, job)
        demand(known == job, f"job {job.id} ended as {known} and again as {job}")
        if job.state is State.CANCELLED:
            demand(job.id in self.cancel_asked, f"job {job.id} is cancelled, and nobody asked")
        if job.attempt_id in self._given_up:
            return
        folder = self._folder(job)
        command = folder.command if folder is not None else None
        if command is not None and command.alive:
            raise Broken(f"job {job.id} is {job.state}, and its command runs")
        time_limits.check_given_up(job)
        match job.outcome:
            case Outcome.EXITED | Outcome.SIGNALLED | Outcome.TIMED_OUT:
                status = (command.code, command.signal) if command else None
                demand((job.exit_code, job.signal) == status, f"{job} really ended with {status}")
                succeeded = job.outcome is Outcome.EXITED and job.exit_code == 0
                demand(succeeded == (job.state is State.SUCCEEDED), f"{job} has a state that its code denies")
            case Outcome.DEPENDENCY_FAILED:
                # It may have begun by the word of a store that was replaced, in which its jobs had ended otherwise.
                begun = job.attempt > 0 and job.attempt_id not in self._forgotten
                demand(not begun and bool(job.spec.dependencies), f"{job} failed by a dependency, and has begun")
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
        found = SqliteStore.jobs(self._store, ByIds(((job_id, job_id),)), 1)
        demand(bool(found), f"job {job_id} is gone from the store")
        return found[0]

    def check_all(self) -> None:
        """The slow checks, for the end: nothing acknowledged is missing, nothing final has changed, one key one set."""
        rows = {job.id: job for job in SqliteStore.jobs(self._store, AllJobs(), 1_000_000)}
        for key, ids in self.acknowledged.items():
            demand(set(ids) <= rows.keys() | self.removed, f"{key}: of {ids} some are gone")
        for job_id, job in self._final.items():
            demand(job_id in self.removed or rows[job_id] == job, f"job {job_id} changed after its end")
        self._check_ran(rows)
        by_key: dict[bytes, set[int]] = {}
        for job in rows.values():
            if job.rerun_of is None:
                by_key.setdefault(job.spec.command[0], set()).add(job.id)
        for word, found in by_key.items():
            answered = self.acknowledged.get(word.decode())
            # A key that a restored store has forgotten makes new jobs, beside those that workers brought back.
            firm = answered is not None and word.decode() not in self._loose_keys
            demand(not firm or found <= set(answered or ()), f"{word!r} made {found}, answered {answered}")

    def _check_ran(self, rows: dict[int, Job]) -> None:
        """Whatever was started by the word of this store is known in the end, as the job it was."""
        for (job_id, number), command in self._spawned.items():
            if (job_id, number) in self._given_up or job_id in self.removed:
                continue
            if command.start.placement.worker in self.gone:
                continue
            row = rows.get(job_id)
            if (job_id, number) in self._forgotten:
                # It ran by the word of a store that was replaced.
                continue
            known = row is not None and row.attempt >= number and row.spec.command == command.start.spec.command
            demand(known, f"job {job_id} attempt {number} ran, and the store says {row}")
            assert row is not None
            attempts = SqliteStore.attempts(self._store, job_id)
            time_limits.check_tries(row.spec, attempts)
            for attempt in attempts:
                if attempt.number == number:
                    time_limits.check_end(attempt.outcome, command)
