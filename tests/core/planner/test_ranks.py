"""Ranks: a free place beside any job, and the ids of moved jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_job

from grassq.core.model import ID_MAX, RANK_MAX, Job, State, id_in, is_moved, order_of, rank_in
from grassq.core.planner.board import Board
from grassq.core.planner.ranks import LineOfOthers, beside, between
from grassq.core.planner.sorted_orders import SortedOrders


def board_of(*ids: int) -> Board:
    board = Board()
    for id_ in ids:
        board.put(a_job(id_, cpu=1))
    return board


def move(board: Board, id_: int, other: int, *, before: bool) -> bool:
    job, target = board.jobs[id_], board.jobs[other]
    line = LineOfOthers(board.positions, [job.order])
    places = beside(line, target.order, 1, board.ranks.moved, before=before)
    if places is None:
        return False
    ids = {board.id_at(order): rank for order, rank in places.shifted.items()}
    for shifted, rank in ids.items():
        board.put(replace(board.jobs[shifted], rank=rank), board.jobs[shifted])
    board.put(replace(job, rank=places.ranks[0]), job)
    return True


@settings(max_examples=150)
@given(
    st.sampled_from([range(1, 8), range(5, 12), (1, 2, 900, 901, 5000), range(ID_MAX - 6, ID_MAX + 1)]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=60),
)
def test_a_line_in_which_jobs_are_moved_is_the_list_in_which_they_are_moved(
    ids: range | tuple[int, ...], moves: list[tuple[int, int, bool]]
) -> None:
    model, board = list(ids), board_of(*ids)
    names = list(ids)
    for one, other, before in moves:
        job, target = names[one % len(names)], names[other % len(names)]
        if job == target:
            continue
        assert move(board, job, target, before=before)
        model.remove(job)
        at = model.index(target)
        model.insert(at if before else at + 1, job)
        assert board.next_ids(99) == model
        assert all(1 <= rank <= RANK_MAX and is_moved(rank) for rank in board.ranks.moved)
        assert {board.id_at(order) for order in board.positions} == {*ids}


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_three_hundred_jobs_find_a_place_beside_one(before: bool, chained: bool) -> None:
    board = board_of(*range(1, 400))
    for id_ in range(50, 350):
        # `--first` puts each job before the one that was moved last, `--before 40` behind it.
        assert move(board, id_, id_ - 1 if chained and id_ > 50 else 40, before=before), id_
    line = board.next_ids(999)
    moved = [*range(50, 350)] if before != chained else [*range(349, 49, -1)]
    at = line.index(40)
    assert (line[at - 300 : at] if before else line[at + 1 : at + 301]) == moved
    assert [id_ for id_ in line if id_ not in moved] == [*range(1, 50), *range(350, 400)]


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 50), st.sets(st.integers(0, 5000)))
def test_free_ranks_lie_between_and_are_free(low: int, size: int, count: int, taken: set[int]) -> None:
    found = between(low, low + size, count, taken)
    free = [rank for rank in range(low + 1, low + size) if is_moved(rank) and rank not in taken]
    if found is None:
        assert len(free) < count or size > 4096, "there was room"
    else:
        assert found == sorted({*found}) and {*found} <= {*free} and len(found) == count


def test_a_place_that_is_full_is_told() -> None:
    board = board_of(1, 2, 3)
    taken = {*range(1, 4 << 11)}
    line = LineOfOthers(board.positions)
    assert beside(line, board.jobs[2].order, 1, taken, before=True) is None


def test_a_moved_job_is_known_by_its_rank_until_it_ends_or_is_put_back() -> None:
    board = board_of(1, 2, 3)
    assert move(board, 3, 1, before=True)
    job = board.jobs[3]
    assert board.next_ids(9) == [3, 1, 2] and board.ranks.moved == {job.rank: 3}
    held = replace(job, state=State.HELD)
    board.put(held, job)
    assert board.ranks.moved == {job.rank: 3} and board.next_ids(9) == [1, 2]
    board.put(replace(held, state=State.QUEUED, rank=None), held)
    assert board.ranks.moved == {} and board.next_ids(9) == [1, 2, 3]


@given(st.integers(1, ID_MAX))
def test_the_rank_of_a_job_that_was_not_moved_is_its_id(id_: int) -> None:
    order = order_of(30, id_)
    assert not is_moved(rank_in(order)) and id_in(order) == id_
    job: Job = a_job(id_)
    assert job.order == order and replace(job, rank=rank_in(order) + 1).order == order + 1


@settings(max_examples=60)
@given(st.integers(0, 3000), st.sets(st.integers(0, 3000), max_size=200), st.integers(0, 600), st.integers(-9, 3009))
def test_the_position_before_another_is_found_also_where_others_were_removed(
    count: int, removed: set[int], begin: int, order: int
) -> None:
    orders, line = {*range(count)}, SortedOrders(range(count))
    for each in (removed | {*range(begin, begin + 700)}) & orders:
        line.remove(each)
        orders.discard(each)
    for at in (order, begin, begin + 1, begin + 700, 512, 513, 1024):
        assert line.preceding(at) == max((each for each in orders if each < at), default=None)
