"""The recovery table of the design, line by line, and what a worker is told."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace
from tests.builders import BOOT, T0, a_board, a_job, a_placement, a_worker

from grassq.core.messages import Ack, Check, Start, Stop
from grassq.core.model import AttemptId, Job, Outcome, State
from grassq.core.planner.board import Board
from grassq.core.reconcile import (
    RESEND_S,
    Conclusion,
    RunState,
    Sent,
    Unknown,
    checks,
    due,
    due_in_s,
    given_up,
    judge,
    leased_until,
    stop_of,
    unknown,
)
from grassq.core.states import Exited, Lost, RefusedByWorker

ENDED = Exited(3, Outcome.EXITED, 0)
#: Everything that can be found of an attempt, sense or not.
ALL_FOUND = [
    RunState(exit=exit_, void=void, claimed=claimed, shim_alive=shim, command_alive=command)
    for exit_ in (None, ENDED)
    for void, claimed, shim, command in product([False, True], repeat=4)
]
MAY_START = [False, True]
CIRCUMSTANCES = [*product(MAY_START, [False, True])]


@pytest.mark.parametrize("found", [found for found in ALL_FOUND if found.exit is not None])
@pytest.mark.parametrize(("may_start", "same_boot"), CIRCUMSTANCES)
def test_a_valid_exit_record_says_how_it_ended_whatever_else_is_found(
    found: RunState, may_start: bool, same_boot: bool
) -> None:
    assert judge(3, found, may_start=may_start, same_boot=same_boot) is ENDED


@pytest.mark.parametrize("found", [found for found in ALL_FOUND if found.exit is None])
@pytest.mark.parametrize("may_start", MAY_START)
def test_placed_under_another_boot_it_is_lost_claimed_or_not(found: RunState, may_start: bool) -> None:
    verdict = judge(3, found, may_start=may_start, same_boot=False)
    assert isinstance(verdict, Lost)
    assert (verdict.attempt, verdict.outcome) == (3, Outcome.LOST)
    assert "restarted" in verdict.why


def test_placed_and_not_claimed_it_is_ordered_again_under_the_same_number() -> None:
    assert judge(3, RunState(), may_start=True, same_boot=True) is Conclusion.ORDER


@pytest.mark.parametrize("may_start", MAY_START)
def test_a_void_claim_is_a_refusal(may_start: bool) -> None:
    verdict = judge(3, RunState(claimed=True, void=True), may_start=may_start, same_boot=True)
    assert isinstance(verdict, RefusedByWorker)
    assert verdict.attempt == 3 and not verdict.final


@pytest.mark.parametrize("may_start", MAY_START)
@pytest.mark.parametrize("command_alive", [False, True])
def test_while_its_shim_lives_it_is_watched(may_start: bool, command_alive: bool) -> None:
    found = RunState(claimed=True, shim_alive=True, command_alive=command_alive, pid=5)
    assert judge(3, found, may_start=may_start, same_boot=True) is Conclusion.WATCH


@pytest.mark.parametrize("may_start", MAY_START)
def test_when_only_its_command_lives_the_devices_are_kept(may_start: bool) -> None:
    found = RunState(claimed=True, command_alive=True, pid=5)
    assert judge(3, found, may_start=may_start, same_boot=True) is Conclusion.ORPHANED


@pytest.mark.parametrize(
    ("claimed", "may_start"),
    [(False, False), (True, True), (True, False)],
    ids=["running, no run dir", "claimed, nobody alive", "running, nobody alive"],
)
def test_what_is_gone_without_a_record_is_unknown_and_never_ordered_again(claimed: bool, may_start: bool) -> None:
    verdict = judge(3, RunState(claimed=claimed), may_start=may_start, same_boot=True)
    assert isinstance(verdict, Lost)
    assert (verdict.attempt, verdict.outcome) == (3, Outcome.UNKNOWN)


@pytest.mark.parametrize(("may_start", "same_boot"), CIRCUMSTANCES)
def test_only_an_unclaimed_attempt_of_this_boot_that_may_start_is_ever_ordered(
    may_start: bool, same_boot: bool
) -> None:
    for found in ALL_FOUND:
        if judge(3, found, may_start=may_start, same_boot=same_boot) is Conclusion.ORDER:
            assert found == RunState() and may_start and same_boot


def placed(job_id: int, worker: str = "w", *, state: State = State.PLACED) -> Job:
    return a_job(job_id, state=state, placement=a_placement(worker))


def cancelled(job: Job, grace_s: float | None = None) -> Job:
    return replace(job, cancel_requested=True, stop_grace_s=grace_s)


def due_ids(board: Board, worker: str, sent: dict[AttemptId, Sent], now: float) -> list[int]:
    return [job.id for job, _ in due(board, worker, sent, now)]


def tell(board: Board, worker: str, sent: dict[AttemptId, Sent], now: float) -> None:
    """Say what is due, as the broker does."""
    sent |= {job.attempt_id: told for job, told in due(board, worker, sent, now)}


def test_a_worker_is_told_of_its_own_placed_and_cancelled_jobs() -> None:
    jobs = [
        placed(1),
        placed(2, state=State.RUNNING),
        cancelled(placed(3, state=State.RUNNING)),
        cancelled(placed(4)),
        placed(5, "other"),
        a_job(6),
        a_job(7, state=State.HELD),
    ]
    board = a_board(a_worker(), a_worker("other"), jobs=jobs)
    assert due_ids(board, "w", {}, T0) == [1, 3, 4]
    assert due_ids(board, "other", {}, T0) == [5]
    assert due(board, "nobody", {}, T0) == []


def test_what_was_told_lately_is_not_told_again_until_it_is_time() -> None:
    job = placed(1)
    board = a_board(a_worker(), jobs=[job])
    sent: dict[AttemptId, Sent] = {}
    tell(board, "w", sent, T0)
    assert due(board, "w", sent, T0 + RESEND_S - 0.1) == []
    assert [*due_in_s(board, "w", sent, T0 + 1)] == [RESEND_S - 1]
    assert due_ids(board, "w", sent, T0 + RESEND_S) == [1]
    board.put(again := replace(job, attempt=2))
    assert [each for each, _ in due(board, "w", sent, T0)] == [again], "another attempt is news"


def test_a_stop_and_a_stop_with_another_grace_are_news_at_once() -> None:
    job = placed(1)
    board = a_board(a_worker(), jobs=[job])
    sent: dict[AttemptId, Sent] = {}
    tell(board, "w", sent, T0)
    board.put(cancelled(job))
    assert due_ids(board, "w", sent, T0) == [1]
    tell(board, "w", sent, T0)
    assert due(board, "w", sent, T0) == []
    board.put(cancelled(job, 0.0))
    assert due_ids(board, "w", sent, T0) == [1]


def test_what_was_told_is_noted_with_the_grace_of_a_stop() -> None:
    job = placed(1)
    stops = [(cancelled(job), Stop(1, 1, job.spec.grace_s, BOOT)), (cancelled(job, 2.5), Stop(1, 1, 2.5, BOOT))]
    for each, order in [(job, None), *stops]:
        board = a_board(a_worker(), jobs=[each])
        assert [told for _, told in due(board, "w", {}, T0)] == [Sent(T0, T0, order)]


def test_a_stop_carries_the_grace_of_the_cancel_or_else_of_the_job() -> None:
    job = replace(placed(7, state=State.RUNNING), attempt=2)
    assert stop_of(job) == Stop(7, 2, job.spec.grace_s, BOOT)
    assert stop_of(cancelled(job, 2.5)) == Stop(7, 2, 2.5, BOOT)
    assert stop_of(cancelled(job, 0.0)) == Stop(7, 2, 0.0, BOOT), "a grace of 0 is a grace"


def test_a_worker_that_connects_is_asked_about_what_runs_there() -> None:
    jobs = [placed(1), placed(2, state=State.RUNNING), placed(3, "other", state=State.RUNNING), a_job(4)]
    board = a_board(a_worker(), jobs=jobs)
    assert checks(board, "w") == [Check(2, 1, BOOT)]


def test_every_order_names_its_attempt() -> None:
    job = placed(7)
    assert job.placement is not None
    orders = [Start(7, 1, job.spec, job.placement, ()), Check(7, 1, BOOT), stop_of(job), Ack(7, 1)]
    assert {order.id for order in orders} == {job.attempt_id}


# What a worker holds, and the store does not know.

KNOWN = {
    1: a_job(1, state=State.QUEUED, attempt=0),
    2: a_job(2, state=State.RUNNING, attempt=2),
    3: replace(a_job(3, state=State.SUCCEEDED, attempt=1), finished=T0),
}


@pytest.mark.parametrize(
    ("held", "unrecorded", "removed"),
    [
        ([], [], []),
        ([(1, 1)], [(1, 1)], []),
        ([(1, 1), (1, 3), (1, 2)], [(1, 3)], []),
        ([(2, 1), (2, 2)], [], []),
        ([(2, 3), (2, 2)], [(2, 3)], []),
        ([(3, 1), (3, 2)], [], []),
        ([(5, 1), (4, 2), (4, 1)], [], [4, 5]),
        ([(9, 1), (5, 1)], [(9, 1)], [5]),
    ],
)
def test_what_the_store_gave_and_removed_is_told_from_what_it_has_no_record_of(
    held: list[tuple[int, int]], unrecorded: list[tuple[int, int]], removed: list[int]
) -> None:
    found = unknown(held, KNOWN, 5, 0)
    assert (found.unrecorded, found.removed) == (unrecorded, removed)


def test_an_unrecorded_attempt_of_a_job_that_has_ended_is_not_wanted() -> None:
    assert unknown([(3, 1), (3, 2), (2, 1)], KNOWN, 5, 5) == Unknown([], [], [(3, 2)])


def test_of_ids_that_a_replaced_store_may_have_given_nothing_is_removed() -> None:
    assert unknown([(4, 1), (5, 1), (9, 1), (2, 1)], KNOWN, 5, 4) == Unknown([(4, 1), (9, 1)], [5])


# Leases.


def leased(lease_s: float | None) -> Job:
    placement = replace(a_placement("w"), lease_s=lease_s)
    return a_job(1, state=State.RUNNING, placement=placement, on_lost="requeue")


def test_a_lease_runs_only_while_its_worker_is_silent() -> None:
    board = a_board(a_worker(cpu=1), jobs=[leased(60.0)])
    assert leased_until(board, board.jobs[1]) is None and given_up(board, 1e9) == []
    board.lose_touch("w", 100.0, T0)
    assert leased_until(board, board.jobs[1]) == 160.0
    assert given_up(board, 159.9) == []
    ((job, lost),) = given_up(board, 160.0)
    assert job.id == 1 and lost == Lost(1, Outcome.LOST, "its worker was silent for 60 s; its lease is over")


def test_what_has_no_lease_is_never_given_up() -> None:
    board = a_board(a_worker(cpu=1), jobs=[leased(None)])
    board.lose_touch("w", 0.0, T0)
    assert given_up(board, 1e9) == []
