"""When suspended jobs that gave their devices back go on: never beside too many, never later than they must."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_placement, a_worker, an_offer

from grassq.core.model import Constraints, Job, Outcome, State, Suspension
from grassq.core.planner.board import Board
from grassq.core.planner.explain import explain
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.plan import plan
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.states import Exited, Place, advance
from grassq.core.suspension.events import Regain
from grassq.core.suspension.room import in_the_way, limit_in_the_way, regained, returning

GPUS, CPUS = 2, 4


def running(id_: int, allocation: Allocation, suspension: Suspension | None = None, queue: str = "default") -> Job:
    """A job that runs on the worker `w`, or is suspended there."""
    job = a_job(id_, queue, state=State.RUNNING, placement=a_placement("w", allocation), gpu=1)
    return replace(job, suspension=suspension, pid=7)


def waits(at: float = 1.0) -> Suspension:
    """A job that has given its devices back, and was told to go on."""
    return Suspension(5, T0, frees=True, resuming=True, resume_asked=at, confirmed=True)


FREED = Suspension(5, T0, frees=True, confirmed=True)
KEPT = Suspension(5, T0, confirmed=True)
WHOLE: Allocation = {"gpu": {"0": ONE}}


P = "project:p"


def of_p(job: Job) -> Job:
    """The same job in the project p."""
    return replace(job, spec=replace(job.spec, constraints=Constraints(groups=(P,))))


def used(board: Board) -> Counter[str]:
    """What the jobs that hold their devices hold, counted here."""
    total: Counter[str] = Counter()
    for job in board.held_by("w"):
        if not job.is_freed and job.placement is not None:
            for name, held in job.placement.allocation.items():
                parts = held.items() if isinstance(held, dict) else (("", held),)
                total.update({f"{name}:{device}": amount for device, amount in parts})
    return total


def fits(board: Board) -> bool:
    """Whether no device has more than it is worth, and the pool neither."""
    most = {"cpu:": CPUS * ONE} | {f"gpu:{device}": ONE for device in range(GPUS)}
    return all(amount <= most[name] for name, amount in used(board).items())


def amounts() -> st.SearchStrategy[Allocation]:
    part = st.sampled_from([ONE // 4, ONE // 2, ONE])
    gpu = st.dictionaries(st.sampled_from(["0", "1"]), part, min_size=1, max_size=2)
    return st.one_of(gpu.map(lambda held: {"gpu": held}), part.map(lambda held: {"cpu": 2 * held}))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(amounts(), st.sampled_from(["runs", "kept", "freed", "waits"]), st.floats(0, 9)), max_size=8),
    st.lists(st.sampled_from([ONE // 2, ONE]), max_size=5),
    st.integers(1, 4),
)
def test_what_runs_never_holds_more_than_there_is_and_everybody_goes_on(
    held: list[tuple[Allocation, str, float]], queued: list[int], at_once: int
) -> None:
    board = a_board(a_worker("w", gpu=GPUS, cpu=CPUS))
    board.set_group_limit(P, GroupLimit(jobs=at_once))
    for id_, (allocation, kind, at) in enumerate(held, 1):
        job = running(id_, allocation, {"kept": KEPT, "freed": FREED, "waits": waits(at)}.get(kind))
        board.put(of_p(job) if id_ % 2 else job)
        if not fits(board) or board.groups.use[P].jobs > at_once:
            board.put(advance(board.jobs[id_], Exited(1, Outcome.EXITED, 0), T0))
    for id_, amount in enumerate(queued, 100):
        board.put(a_job(id_, request=(("gpu", amount),)))
    asked = [job.id for job in returning(board)]
    went_on: list[int] = []
    for _ in range(30):
        for job in regained(board):
            assert in_the_way(board, job) == []
            went_on.append(job.id)
            board.put(advance(job, Regain(), T0))
            assert fits(board)
        for id_, where in plan(board, T0).placements:
            board.put(advance(board.jobs[id_], Place(where), T0))
            assert fits(board) and board.groups.use[P].jobs <= at_once
        left = [job for job in returning(board)]
        for job in left:
            assert in_the_way(board, job), "one that nobody is in the way of goes on at once"
        ended = [job for job in board.held_by("w") if not job.is_freed and job.id not in asked][:1]
        for job in ended or [job for job in board.held_by("w") if not job.is_freed][:1]:
            board.put(advance(job, Exited(job.attempt, Outcome.EXITED, 0), T0))
    assert sorted(went_on) == sorted(asked), "nobody starves"


def test_nobody_gets_what_a_job_that_is_to_go_on_needs() -> None:
    other = running(2, WHOLE)
    board = a_board(
        a_worker("w", gpu=1), jobs=[running(1, WHOLE, waits()), other, a_job(3, gpu=1), a_job(4, gpu="0.5")]
    )
    assert regained(board) == [] and [job.id for job in in_the_way(board, board.jobs[1])] == [2]
    board.put(advance(other, Exited(1, Outcome.EXITED, 0), T0))
    assert plan(board, T0).placements == [], "the device is free, and kept"
    assert [job.id for job in regained(board)] == [1]


def test_a_freed_job_that_nobody_resumes_keeps_nothing() -> None:
    board = a_board(a_worker("w", gpu=1), jobs=[running(1, WHOLE, FREED), a_job(3, gpu=1)])
    assert [id_ for id_, _ in plan(board, T0).placements] == [3] and regained(board) == []
    kept = a_board(a_worker("w", gpu=1), jobs=[running(1, WHOLE, KEPT), a_job(3, gpu=1)])
    assert plan(kept, T0).placements == []


def test_jobs_go_on_in_the_order_in_which_they_asked_and_a_later_one_takes_nothing_from_an_earlier_one() -> None:
    half: Allocation = {"gpu": {"0": ONE // 2}}
    jobs = [running(1, half), running(2, WHOLE, waits(1.0)), running(3, half, waits(2.0))]
    board = a_board(a_worker("w", gpu=1), jobs=jobs)
    assert regained(board) == [], "half of the device is free, and the job that asked first needs all of it"
    assert [job.id for job in in_the_way(board, jobs[2])] == [1, 2]
    board.put(advance(jobs[0], Exited(1, Outcome.EXITED, 0), T0))
    assert [job.id for job in regained(board)] == [2]


def test_alone_a_job_goes_on_though_its_queue_has_less_or_its_device_is_gone() -> None:
    gone = running(1, {"gpu": {"7": ONE}, "cpu": 4 * ONE}, waits(), "small")
    board = a_board(a_worker("w", gpu=1, cpu=4, offers=[an_offer("small", cpu=1)]), jobs=[gone])
    assert regained(board) == [gone]


def test_a_device_of_which_another_job_holds_memory_is_not_given_back_whole() -> None:
    memory: Allocation = {"vram": {"0": 1000 * ONE}}
    jobs = [running(1, WHOLE, waits()), running(2, memory), running(3, memory, waits(2.0))]
    board = a_board(a_worker("w", gpu={"0": {"vram": 1500}}), jobs=jobs)
    assert regained(board) == []
    board.put(advance(jobs[1], Exited(1, Outcome.EXITED, 0), T0))
    assert [job.id for job in regained(board)] == [1]


def test_a_freed_job_goes_on_within_the_limits_of_its_groups_and_in_turn() -> None:
    jobs = [of_p(running(1, WHOLE, waits(1.0))), of_p(running(2, {"gpu": {"1": ONE}})), of_p(a_job(3, gpu=1))]
    board = a_board(a_worker("w", gpu=3), jobs=[*jobs, of_p(running(4, {"gpu": {"2": ONE}}, waits(2.0)))])
    board.set_group_limit(P, GroupLimit({"gpu": ONE}))
    assert regained(board) == [], "its device is free, and its group holds all that it may"
    assert limit_in_the_way(board, jobs[0]) == "limit project:p gpu=1: 1 gpu needed, 0 left"
    assert [[other.id for other in in_the_way(board, board.jobs[id_])] for id_ in (1, 4)] == [[2], [2, 1]]
    board.put(a_job(5, gpu=1))
    assert [id_ for id_, _ in plan(board, T0).placements] == [5], "nobody else waits for what a limit keeps idle"
    board.put(advance(jobs[1], Exited(1, Outcome.EXITED, 0), T0))
    assert [id_ for id_, _ in plan(board, T0).placements] == [5], "the room in the group is kept for job 1"
    (blocker,) = explain(board, board.jobs[3], T0)
    assert blocker.holders == (1, 4), "the jobs for which the room is kept are named"
    assert [job.id for job in regained(board)] == [1]
    board.put(advance(board.jobs[1], Regain(), T0))
    assert regained(board) == [] and [job.id for job in in_the_way(board, board.jobs[4])] == [1]
    board.set_group_limit(P, None)
    assert [job.id for job in regained(board)] == [4]


def test_a_freed_job_that_a_limit_would_never_hold_keeps_nothing() -> None:
    large = replace(of_p(running(1, WHOLE, waits())), spec=of_p(a_job(1, gpu=2)).spec)
    board = a_board(a_worker("w", gpu=2), jobs=[large, of_p(a_job(2, gpu=1)), a_job(3, gpu=1)])
    board.set_group_limit(P, GroupLimit({"gpu": ONE}))
    assert regained(board) == [] and limit_in_the_way(board, large) == "limit project:p gpu=1: job asks for 2"
    assert [id_ for id_, _ in plan(board, T0).placements] == [2, 3]
    board.set_group_limit(P, GroupLimit(jobs=0))
    assert regained(board) == [] and limit_in_the_way(board, large) == "limit project:p jobs=0: no job of it starts"
    assert [id_ for id_, _ in plan(board, T0).placements] == [3]
