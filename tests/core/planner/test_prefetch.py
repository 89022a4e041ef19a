"""Short jobs are placed behind one another, hold nothing until it is their turn, and are taken back when it is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import BOOT, T0, a_job, a_placement, a_request, a_worker, an_offer, apply, finish

from grassq.core.messages import Withdraw
from grassq.core.model import AttemptId, Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.plan import plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.reconcile import Sent, due, due_in_s
from grassq.core.resources.amounts import ONE
from grassq.core.states import Cancel, RefusedByWorker, Started, advance

ASKED = [a_request(gpu=1), a_request(gpu=0.5), a_request(cpu=1), a_request(gpu=0.5, cpu=1)]
PACE = PrefetchPolicy(short_s=0.05, runs=2, wait_s=0.25)


def a_decider(jobs: int = 6, *, short: bool = True, follows: bool = True, gpu: int = 2) -> Board:
    """A worker and jobs that each want one of its gpus; such jobs were over in no time lately."""
    board = Board(prefetch_policy=PACE)
    board.set_worker(replace(a_worker("w", gpu=gpu), follows=follows), online=True, now=T0)
    for job_id in range(1, jobs + 1):
        board.put(a_job(job_id, gpu=1))
    for _ in range(PACE.runs if short else 0):
        board.prefetch.note_duration(board.jobs[1], 0.01)
    return board


def behind(board: Board) -> dict[int, int]:
    """Who waits behind whom."""
    return {
        job.id: predecessor.id for job in board.holding.values() if (predecessor := board.predecessor(job)) is not None
    }


def go_on(board: Board) -> list[int]:
    """Plan once; who was placed."""
    made = plan(board, T0)
    apply(board, made)
    return [job_id for job_id, _ in made.placements]


def test_the_next_ones_are_placed_behind_short_ones_on_their_very_devices() -> None:
    board = a_decider()
    assert go_on(board) == [1, 2] and behind(board) == {}, "first those that find room"
    assert go_on(board) == [3, 4] and behind(board) == {3: 1, 4: 2}
    for job_id, predecessor in behind(board).items():
        mine, its = board.holding[job_id].placement, board.holding[predecessor].placement
        assert mine is not None and its is not None and mine.allocation == its.allocation
    assert go_on(board) == [], "one at a time"
    finish(board, 1)
    assert go_on(board) == [5] and behind(board) == {4: 2, 5: 3}


@pytest.mark.parametrize(
    "board",
    [a_decider(short=False), a_decider(follows=False)],
    ids=["not short", "a worker of an older release"],
)
def test_nobody_is_placed_behind_another_without_a_reason(board: Board) -> None:
    assert go_on(board) == [1, 2] and go_on(board) == []


def test_a_shape_is_short_after_some_runs_and_no_more_after_a_long_one() -> None:
    board = a_decider(short=False)
    for _ in range(PACE.runs - 1):
        board.prefetch.note_duration(board.jobs[1], 0.0)
    go_on(board)
    assert go_on(board) == []
    board.prefetch.note_duration(board.jobs[1], PACE.short_s)
    assert go_on(board) == [3, 4]
    board.prefetch.note_duration(board.jobs[1], PACE.short_s + 0.001)
    assert go_on(board) == []


def test_who_waits_behind_another_holds_nothing_until_that_ends() -> None:
    board = a_decider(jobs=3, gpu=1)
    go_on(board), go_on(board)
    load = board.workers["w"].machine.loads["gpu"]["0"]
    assert behind(board) == {2: 1} and (load.used, load.holders) == (ONE, 1)
    finish(board, 1)
    assert behind(board) == {} and (load.used, load.holders) == (ONE, 1)
    assert board.holding[2].state is State.PLACED
    finish(board, 2)
    assert (load.used, load.holders) == (0, 0)


def test_who_would_not_go_next_anyway_is_not_placed_ahead() -> None:
    board = Board(prefetch_policy=PACE)
    board.set_worker(replace(a_worker("w", gpu=1, cpu=4), follows=True), online=True, now=T0)
    for job in (a_job(1, gpu=1), a_job(2, gpu=1, cpu=4), a_job(3, gpu=1)):
        board.put(job)
    for _ in range(PACE.runs):
        board.prefetch.note_duration(board.jobs[1], 0.0)
    assert go_on(board) == [1]
    assert go_on(board) == [], "job 2 goes next, and asks for more than job 1 leaves"


def test_a_queue_that_is_paused_gets_nobody_placed_ahead_and_those_that_are_go_back() -> None:
    board = a_decider(jobs=4)
    go_on(board)
    board.paused["default"] = "owner"
    assert go_on(board) == []
    board.paused.clear()
    go_on(board)
    board.paused["default"] = "owner"
    assert told_back(board, {}, T0) == [3, 4]


def told_back(board: Board, sent: dict[AttemptId, Sent], now: float) -> list[int]:
    """Tell what is due; who was to be taken back, in this order."""
    orders = due(board, "w", sent, now)
    sent |= {job.attempt_id: told for job, told in orders}
    return [job.id for job, told in orders if isinstance(told.order, Withdraw)]


def test_who_waits_too_long_is_taken_back() -> None:
    board = a_decider(jobs=2, gpu=1)
    sent: dict[AttemptId, Sent] = {}
    go_on(board), go_on(board)
    assert told_back(board, sent, 10.0) == []
    assert min(due_in_s(board, "w", sent, 10.1)) == pytest.approx(0.15)
    assert told_back(board, sent, 10.25) == [2]
    assert told_back(board, sent, 10.3) == [], "told once, and again only if nothing comes of it"
    assert sent[2, 1].order == Withdraw(2, 1, BOOT)


def test_who_ran_on_while_another_waited_is_never_followed_again() -> None:
    board = a_decider(jobs=3, gpu=1)
    go_on(board), go_on(board)
    board.prefetch.note_slow(board.holding[1])
    board.put(advance(board.holding[2], RefusedByWorker(1, "taken back"), T0))
    for _ in range(PACE.runs):
        board.prefetch.note_duration(board.jobs[1], 0.0)
    assert go_on(board) == []
    finish(board, 1)
    assert go_on(board) == [2] and go_on(board) == [3] and behind(board) == {3: 2}


def test_one_that_is_killed_while_it_waits_is_taken_back_at_once() -> None:
    board = a_decider(jobs=2, gpu=1)
    sent: dict[AttemptId, Sent] = {}
    go_on(board), go_on(board)
    assert told_back(board, sent, 10.0) == []
    board.put(advance(board.holding[2], Cancel(), T0))
    assert behind(board) == {2: 1} and told_back(board, sent, 10.0) == [2]
    board.put(cancelled := advance(board.holding[2], RefusedByWorker(1, "taken back"), T0))
    assert cancelled.state is State.CANCELLED and behind(board) == {}


@settings(deadline=None)
@given(st.permutations([(1, 5), (2, None), (3, 1), (4, 9), (5, None)]))
def test_in_whatever_order_jobs_come_on_a_board_devices_are_counted_once(line: list[tuple[int, int | None]]) -> None:
    def job(job_id: int, after: int | None) -> Job:
        where = replace(a_placement("w", {"gpu": {"0": ONE}}), after=None if after is None else (after, 1))
        return replace(a_job(job_id, state=State.PLACED, gpu=1, placement=where), attempt=1)

    board = Board()
    board.set_worker(a_worker("w", gpu=2), online=True, now=T0)
    for each in line:
        board.put(job(*each))
    assert behind(board) == {1: 5, 3: 1}
    # Jobs 2, 4 and 5 wait for nobody.
    assert board.workers["w"].machine.loads["gpu"]["0"].used == 3 * ONE
    for job_id in (5, 1, 3):
        finish(board, job_id)
    assert board.workers["w"].machine.loads["gpu"]["0"].used == 2 * ONE


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_however_jobs_come_and_go_devices_are_held_by_those_whose_turn_it_is(data: st.DataObject) -> None:
    board = Board(prefetch_policy=PACE)
    info = a_worker("w", offers=[an_offer(), an_offer("q", cpu=2)], gpu=2, cpu=3)
    board.set_worker(replace(info, follows=True), online=True, now=T0)
    next_id = 1
    for _ in range(data.draw(st.integers(5, 40))):
        match data.draw(st.sampled_from(["submit", "submit", "plan", "plan", "end", "start", "back", "cancel"])):
            case "submit":
                asks = data.draw(st.sampled_from(ASKED))
                board.put(a_job(next_id, data.draw(st.sampled_from(["default", "q"])), request=asks))
                for _ in range(2):
                    board.prefetch.note_duration(board.jobs[next_id], data.draw(st.sampled_from([0.0, 0.0, 0.0, 1.0])))
                next_id += 1
            case "plan":
                apply(board, plan(board, T0))
            case what:
                act(board, what, data)
        check(board)


def act(board: Board, what: str, data: st.DataObject) -> None:
    """Something happens to a job that may meet it: only whose turn it is can start and end."""
    own = [job for job in board.holding.values() if board.predecessor(job) is None]
    behind = board.prefetch.behind
    last = [job for job in board.holding.values() if board.predecessor(job) and not behind(job.attempt_id)]
    if what == "back" and last:
        job = data.draw(st.sampled_from(last))
        board.put(advance(job, RefusedByWorker(job.attempt, "back"), T0))
    elif what == "cancel" and board.holding:
        board.put(advance(data.draw(st.sampled_from([*board.holding.values()])), Cancel(), T0))
    elif what in ("start", "end") and own:
        job = data.draw(st.sampled_from(own))
        if what == "end":
            finish(board, job.id)
        elif job.state is State.PLACED:
            board.put(advance(job, Started(job.attempt, 7), T0))


def check(board: Board) -> None:
    """What the board counts is what those hold whose turn it is; and nobody waits behind one that is gone."""
    waiting = behind(board)
    held = [job.placement for job in board.holding.values() if job.id not in waiting]
    for name, whole in (("cpu", 3 * ONE), ("gpu", 2 * ONE)):
        sums = [
            sum(amount.values()) if isinstance(amount, dict) else amount
            for placement in held
            if placement is not None and (amount := placement.allocation.get(name)) is not None
        ]
        machine = board.workers["w"].machine
        counted = machine.pools.get(name, 0) + sum(load.used for load in machine.loads.get(name, {}).values())
        assert counted == sum(sums) <= whole
