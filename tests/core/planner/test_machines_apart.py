"""A machine that has no files of the submitter takes only jobs that are meant for it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_worker, an_offer

from grassq.core.model import Constraints, Job
from grassq.core.planner.board import Board
from grassq.core.planner.explain import explain, never_fits
from grassq.core.planner.plan import plan

HERE = a_worker("here", cpu=1)
FAR = replace(a_worker("far", offers=[an_offer(), an_offer("render")], cpu=8), labels=("big",), apart=True)


def a_job_with(constraints: Constraints, queue: str = "default", cpu: int = 1) -> Job:
    job = a_job(1, queue, cpu=cpu)
    return replace(job, spec=replace(job.spec, constraints=constraints))


def placed(board: Board) -> list[str]:
    return [where.worker for _, where in plan(board, T0).placements]


def test_a_job_that_relies_on_its_directory_stays_here() -> None:
    board = a_board(HERE, FAR, jobs=[a_job(1, cpu=1), a_job(2, cpu=1)])
    assert placed(board) == ["here"]
    board = a_board(FAR, jobs=[a_job(2, cpu=1)])
    assert placed(board) == [] and "has no files of this computer" in str(explain(board, board.jobs[2], T0))
    why = never_fits(board, "default", a_job(3, cpu=4).spec.request)
    assert why is not None and "--send" in why and "--worker far" in why


@pytest.mark.parametrize(
    "constraints", [Constraints(worker="far"), Constraints(labels=("big",)), Constraints(files=True)]
)
def test_a_job_that_brings_files_or_names_the_machine_goes_there(constraints: Constraints) -> None:
    takes_files = replace(FAR, takes_files=True)
    board = a_board(takes_files, jobs=[a_job_with(constraints, cpu=4)])
    assert placed(board) == ["far"]


def test_a_queue_that_was_made_for_the_machine_goes_there() -> None:
    board = a_board(HERE, FAR, jobs=[a_job_with(Constraints(), "render")])
    assert placed(board) == ["far"]
