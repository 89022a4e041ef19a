"""Prefetching: short jobs that follow one another do not wait for the broker in between.

Where the attempts of a shape are short, the next jobs are placed behind running ones. A prefetched attempt takes over
exactly the devices of its predecessor when the predecessor ends; until then it holds no devices. Like every attempt it
is stored as placed before it can start. It is withdrawn if its predecessor runs too long or is suspended, or if its
queue is paused. A drained or removed device, a group above its limit and a stopped sweep withdraw it, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from grassq.core.model import AttemptId, Job
from grassq.core.planner.request_classes import Shape, shape_of
from grassq.core.sweeps.sweep import is_stopped

if TYPE_CHECKING:
    from grassq.core.planner.board import Board

#: Shapes whose short attempts are counted; all are forgotten when there are more.
SHAPES_MAX = 1000


class PrefetchPolicy(Struct, frozen=True):
    """When jobs are placed behind running ones."""

    #: An attempt is short when it ends within this time, and a shape after this many short attempts in a row.
    short_s: float = 0.05
    runs: int = 3
    #: How long an attempt may wait behind another.
    wait_s: float = 0.25


class Prefetch:
    """Which attempts are prefetched, and behind which attempts more may be."""

    def __init__(self, policy: PrefetchPolicy | None = None) -> None:
        self.policy = policy or PrefetchPolicy()
        #: Job ids of prefetched attempts, by predecessor: one each, except after a restore.
        self._behind: dict[AttemptId, set[int]] = {}
        #: Attempts that ran on while another waited behind them: no job is placed behind them again.
        self._slow: set[AttemptId] = set()
        #: How many attempts of a shape in a row were short.
        self._short: dict[Shape, int] = {}

    def add(self, job: Job) -> None:
        """Count a job that has a predecessor."""
        if job.placement is not None and job.placement.after is not None:
            self._behind.setdefault(job.placement.after, set()).add(job.id)

    def remove(self, job: Job) -> None:
        """Forget a job that had a predecessor."""
        if job.placement is not None and job.placement.after is not None:
            behind = self._behind[job.placement.after]
            behind.discard(job.id)
            if not behind:
                del self._behind[job.placement.after]

    def behind(self, attempt: AttemptId) -> Collection[int]:
        """Return the ids of the jobs that take over from an attempt."""
        return self._behind.get(attempt, ())

    def ended(self, attempt: AttemptId) -> None:
        """Forget an attempt that has ended."""
        self._slow.discard(attempt)

    def note_duration(self, job: Job, lasted_s: float) -> None:
        """Count an attempt that has ended after this time."""
        shape = shape_of(job)
        if lasted_s > self.policy.short_s:
            self._short.pop(shape, None)
            return
        if shape not in self._short and len(self._short) >= SHAPES_MAX:
            self._short.clear()
        self._short[shape] = self._short.get(shape, 0) + 1

    def note_slow(self, predecessor: Job) -> None:
        """Count an attempt behind which another waited too long: it is not short, and maybe its shape is not."""
        self._slow.add(predecessor.attempt_id)
        self._short.pop(shape_of(predecessor), None)

    def tails(self, board: Board) -> list[Job]:
        """Return the jobs behind which another may be placed now."""
        if not any(runs >= self.policy.runs for runs in self._short.values()):
            return []
        return [
            job
            for worker in board.workers.values()
            if worker.takes and worker.info.follows
            for job in board.held_by(worker.info.name)
            if self._may_precede(job, board)
        ]

    def _may_precede(self, job: Job, board: Board) -> bool:
        return (
            job.attempt_id not in self._behind
            and board.predecessor(job) is None
            and not job.cancel_requested
            and not job.is_suspended
            and self._short.get(shape_of(job), 0) >= self.policy.runs
            and not board.is_paused(job.spec.queue)
            and job.attempt_id not in self._slow
            and not board.groups.is_exceeded(job.spec.constraints)
        )

    def is_withdrawn(self, job: Job, waited_s: float, board: Board) -> bool:
        """Tell whether a job that has waited behind another for this time must be withdrawn."""
        assert job.placement is not None
        worker = board.workers.get(job.placement.worker)
        if waited_s >= self.policy.wait_s or worker is None or not worker.takes:
            return True
        predecessor = board.predecessor(job)
        waits_on = predecessor is not None and predecessor.is_suspended
        is_above = board.groups.is_exceeded(job.spec.constraints)
        if waits_on or is_above or not worker.keeps(job.placement.allocation):
            return True
        if is_stopped(board.sweeps, job.spec.sweep, job.id):
            return True
        return job.cancel_requested or job.token in board.ended_tokens or board.is_paused(job.spec.queue)
