"""What would let a waiting job start now: every hint is what the planner does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, an_offer, apply

from grassq.core.forecast.hints import HINTS_MAX, find_hints
from grassq.core.forecast.scene import Scene, first_queued, picture
from grassq.core.model import Constraints, Job, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.plan import plan


def scene_of(board: Board) -> Scene:
    return picture(board, T0, 1e9, [board.jobs[id_] for id_ in first_queued(board)])


def a_full_board(*infos: WorkerInfo, running: list[Job], waiting: list[Job]) -> Board:
    board = a_board(*infos, jobs=running)
    apply(board, plan(board, T0))
    for job in waiting:
        board.put(job)
    apply(board, plan(board, T0))
    return board


def hints(board: Board, id: int) -> list[str]:
    return find_hints(scene_of(board), board.jobs[id])


def test_a_smaller_amount_that_fits_is_told_and_it_is_the_largest() -> None:
    board = a_full_board(a_worker(gpu=1), running=[a_job(1, gpu=0.5)], waiting=[a_job(2, gpu=1)])
    assert hints(board, 2) == ["with gpu 0.5 it would start now"]
    board = a_full_board(a_worker(gpu=4), running=[a_job(1, gpu=1)], waiting=[a_job(2, gpu=4)])
    assert hints(board, 2) == ["with gpu 3 it would start now"]


def test_another_queue_with_the_same_command_is_told() -> None:
    offers = [an_offer("small", cpu=1), an_offer("large"), replace(an_offer("own"), prefix=(b"other",))]
    running, waiting = [a_job(1, "small", cpu=1)], [a_job(2, "small", cpu=1)]
    board = a_full_board(a_worker(cpu=4, offers=offers), running=running, waiting=waiting)
    assert hints(board, 2) == ["in queue 'large' it would start now"]
    board.paused["large"] = "owner"
    assert hints(board, 2) == []


def test_a_priority_above_the_jobs_that_keep_room_is_told_to_the_owner_only() -> None:
    waiting = [a_job(2, gpu=2, priority=40), a_job(3, gpu=1, priority=30)]
    board = a_full_board(a_worker(gpu=2), running=[a_job(1, gpu=1)], waiting=waiting)
    assert hints(board, 3) == ["with priority 41 it would start now"]
    assert find_hints(scene_of(board), replace(board.jobs[3], token="t")) == []


def test_another_worker_is_told_to_a_job_that_names_one() -> None:
    named = a_job(3, gpu=1)
    named = replace(named, spec=replace(named.spec, constraints=Constraints(worker="v")))
    board = a_full_board(a_worker("v", gpu=1), a_worker("w", gpu=1), running=[a_job(1, gpu=1)], waiting=[named])
    assert hints(board, 3) == ["without --worker 'v' it would start now"]


def test_nothing_helps_where_nothing_is_free_and_a_job_about_to_start_needs_no_help() -> None:
    board = a_full_board(a_worker(gpu=1), running=[a_job(1, gpu=1)], waiting=[a_job(2, gpu=1)])
    assert hints(board, 2) == []
    board = a_board(a_worker(gpu=1), jobs=[a_job(2, gpu=1)])
    assert hints(board, 2) == []


REQUESTS = [a_request(gpu=n / 4) for n in (1, 2, 4, 6, 8)] + [a_request(gpu=1, cpu=3), a_request(cpu=2)]
JOBS = st.lists(st.tuples(st.sampled_from(REQUESTS), st.sampled_from((30, 40))), min_size=3, max_size=10)


@settings(deadline=None, max_examples=40)
@given(JOBS)
def test_asking_leaves_the_board_as_it_was(asked: list[tuple[object, int]]) -> None:
    jobs = [a_job(i, request=request, priority=p) for i, (request, p) in enumerate(asked, 1)]  # type: ignore[arg-type]
    board = a_full_board(a_worker(gpu=2, cpu=4), running=jobs[:3], waiting=jobs[3:])
    scene = scene_of(board)
    for job in scene.queued:
        found = find_hints(scene, job)
        assert len(found) <= HINTS_MAX and found == find_hints(scene, job)
    assert plan(scene.board(), T0) == plan(board, T0)
