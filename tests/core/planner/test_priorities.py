"""A job of lower priority never takes what a waiting job of higher priority lacks and could have."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_worker, allocations_of, apply, finish

from grassq.core.model import Constraints, Job, State, WorkerInfo
from grassq.core.planner.board import Board, ReservationPolicy
from grassq.core.planner.plan import plan

#: No job becomes a head that reserves: what is kept is kept for its priority alone.
NEVER = ReservationPolicy(10**9, 10.0**9)
URGENT = 90


def a_busy_board(*infos: WorkerInfo, running: list[Job], waiting: list[Job]) -> Board:
    """A board on which some jobs run and the others came later."""
    board = a_board(*infos, jobs=running, patience=NEVER)
    apply(board, plan(board, T0))
    assert all(job.state is not State.QUEUED for job in board.jobs.values())
    for job in waiting:
        board.put(job)
    return board


def started(board: Board) -> list[int]:
    """The jobs that the next plan starts."""
    return [*allocations_of(plan(board, T0))]


def asking(job: Job, **constraints: object) -> Job:
    """The same job under constraints."""
    return replace(job, spec=replace(job.spec, constraints=Constraints(**constraints)))  # type: ignore[arg-type]


def test_an_urgent_job_starts_when_the_jobs_on_one_device_have_ended_however_many_lesser_ones_wait() -> None:
    board = a_busy_board(a_worker(gpu=4, cpu=8), running=[a_job(i, gpu=0.5) for i in range(1, 9)], waiting=[])
    board.put(a_job(500, gpu=1, priority=URGENT))
    numbers = count(1000)
    for oldest in range(1, 9):
        board.put(a_job(next(numbers), gpu=0.5))
        finish(board, oldest)
        made = plan(board, T0)
        apply(board, made)
        if 500 in allocations_of(made):
            assert oldest == 2, "jobs 1 and 2 share a device"
            return
    pytest.fail("lesser jobs took every half that became free")
