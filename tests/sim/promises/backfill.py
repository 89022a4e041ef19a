"""The promise about backfill: a head starts no later for those who pass it, as far as time limits say when it starts.

Judged is each plan, from what it found; heads that start later because of faults are no matter of a planner.
"""

from __future__ import annotations

from bench.packing.machines import Machine
from tests.sim.promises.line import could_run, machine_of, on_open
from tests.sim.promises.promise import demand

from grassq.broker.decider import Decider
from grassq.core.model import AttemptId, Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Head, Kept, is_ripe
from grassq.core.planner.workers import WorkerState
from grassq.core.resources.amounts import Request
from grassq.core.suspension.room import returning
from grassq.core.syntax.resource_names import VRAM

#: The resources that are given together.
GROUPS = (("gpu", VRAM), ("cpu",))


class Backfill:
    """The heads as the last plan left them, and when attempts were placed."""

    def __init__(self) -> None:
        #: When the broker began: it does not know when attempts end that were placed before.
        self._began = 0.0
        self._board: Board | None = None
        self._heads: dict[str, Head] = {}
        self._kept: dict[int, Kept] = {}
        self._placed_at: dict[AttemptId, float] = {}

    def note(self, attempt: AttemptId, now: float) -> None:
        """An attempt was placed."""
        self._placed_at[attempt] = now

    @property
    def heads(self) -> set[int]:
        """The heads that the last plan left."""
        return {head.job for head in self._heads.values()}

    def look(self, decider: Decider, placed: set[int], now: float, held_back: set[int]) -> set[int]:
        """Judge the jobs that were placed just now after ripe heads; return the heads that they did not delay."""
        board = decider.board
        self._began = decider._began
        judged = set()
        # Of a head that was moved or edited since then the patience begins anew.
        same = {(head.job, head.since) for head in board.heads.values()} if board is self._board else set()
        for head in self._heads.values() if not returning(board) else ():
            if (head.job, head.since) not in same:
                continue
            job, worker = board.jobs.get(head.job), self._where(board, head.job)
            if job is None or worker is None or job.state is not State.QUEUED or job.id in held_back:
                continue
            if is_ripe(head, board.patience, now) and _is_plain(board, worker, job):
                here = [each for job_id in placed if _is_at(board, worker, each := board.holding[job_id])]
                self._judge(board, worker, job, here, placed, now)
                judged.add(job.id)
        self._board, self._heads, self._kept = board, dict(board.heads), dict(board.kept)
        return judged

    def _where(self, board: Board, job_id: int) -> WorkerState | None:
        """Where a head waits, if that is the same as before the plan."""
        before, after = self._kept.get(job_id), board.kept.get(job_id)
        if before is None or after is None or before.worker != after.worker:
            return None
        return board.workers.get(after.worker)

    def _judge(
        self, board: Board, worker: WorkerState, head: Job, placed: list[Job], ids: set[int], now: float
    ) -> None:
        """Demand that a head with no known start lacks no more than before, and that a job in its room ends in time.

        The planner says which room it keeps for a head with a known start, and which jobs use that room.
        """
        if not placed or any(job.order < head.order for job in placed):
            return
        without = self._start_of(board, worker, head, ids, now)
        if without is None:
            request = head.spec.request
            before, after = machine_of(board, worker, ids).lack(request), machine_of(board, worker).lack(request)
            demand((after or 0) <= (before or 0), f"{placed} took what {head} lacks, whose start nobody knows")
            return
        for job in placed:
            if job.attempt_id in board.times.backfilled:
                limit_s = job.placement.time_limit_s if job.placement is not None else None
                demand(limit_s is not None, f"{job} passed {head}, and has no limit")
                over = now + (limit_s or 0.0) + job.spec.grace_s
                demand(over <= without, f"{job} passed {head}, which could start at {without}, until {over}")

    def _start_of(self, board: Board, worker: WorkerState, head: Job, without: set[int], now: float) -> float | None:
        """When a head fits at the earliest, if those who are there use up their limits; None if that is not known."""
        machine = machine_of(board, worker, without)
        short = {group for group in GROUPS if machine.pick(_part(head.spec.request, group)) is None}
        if not short:
            return None  # it waits for what is kept for another head
        there = [job for job in board.held_by(worker.info.name) if job.id not in without]
        ends = [(at, job) for at, job in self._ends(board, worker, now) if job.id not in without]
        known = {job.id for _, job in ends}
        for job in there:
            assert job.placement is not None
            holds = any(set(group) & job.placement.allocation.keys() for group in short)
            if board.predecessor(job) is not None or (holds and job.id not in known):
                return None
        return _first_fit(machine, worker, head, ends)

    def _ends(self, board: Board, worker: WorkerState, now: float) -> list[tuple[float, Job]]:
        """When jobs end at the earliest that have a limit and use it up, the first one first."""
        ends: list[tuple[float, Job]] = []
        for job in board.held_by(worker.info.name):
            limit_s = None if job.placement is None else job.placement.time_limit_s
            at = self._placed_at.get(job.attempt_id)
            if at is None or at < self._began:
                # After a restore an attempt may have the number of one that was forgotten: the broker knows better.
                at = board.times.placed.get(job.attempt_id)
            if limit_s is None or at is None or job.suspension is not None:
                continue
            ends.append((now if job.cancel_requested else at + limit_s, job))
        return sorted(ends, key=lambda each: (each[0], each[1].id))


def _part(request: Request, group: tuple[str, ...]) -> Request:
    return tuple((name, amount) for name, amount in request if name in group)


def _is_at(board: Board, worker: WorkerState, job: Job) -> bool:
    return job.placement is not None and job.placement.worker == worker.info.name and board.counts(job)


def _first_fit(machine: Machine, worker: WorkerState, head: Job, ends: list[tuple[float, Job]]) -> float | None:
    """When a job fits on a machine whose jobs end one after the other."""
    for at, job in ends:
        assert job.placement is not None
        machine.give(on_open(worker, job.placement.allocation))
        if machine.pick(head.spec.request) is not None:
            return at
    return None


def _is_plain(board: Board, worker: WorkerState, head: Job) -> bool:
    """Whether a head could start on a worker, in a queue without limits of its own."""
    queue = head.spec.queue
    if board.is_paused(queue) or queue not in worker.offers or not could_run(worker, head):
        return False
    offer = worker.offers[queue]
    return not offer.supply and offer.slot_set is None
