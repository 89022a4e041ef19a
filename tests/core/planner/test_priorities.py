"""A job of lower priority never takes what a waiting job of higher priority lacks and could have."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from bench.packing.machines import Machine
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, allocations_of, an_offer, apply, finish

from grassq.core.model import ANYWHERE, Constraints, Job, Offer, State, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.heads import Kept, ReservationPolicy
from grassq.core.planner.kept_room import KEPT_MAX
from grassq.core.planner.plan import plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.resources.slots import limits_of, parse_slots

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


# The promise, stated plainly: what the first in line lacks, by a count of its own, never grows through lesser jobs.

REQUESTS = [
    *(a_request(gpu=n / 4) for n in (1, 2, 3, 4, 6, 8)),
    *(a_request(cpu=n) for n in (1, 2, 4)),
    a_request(gpu=0.5, cpu=1),
    a_request(gpu=1, cpu=3),
    a_request(vram=6),
    a_request(gpu=0.5, vram=8),
    a_request(gpu=2, vram=8),
]
QUEUES = (Offer("a"), Offer("b"))
LARGE = [a_request(gpu=1), a_request(gpu=2), a_request(cpu=3), a_request(gpu=1, cpu=3), a_request(gpu=2, vram=8)]
MACHINES = [
    a_worker(gpu={"0": {"vram": 8}, "1": {"vram": 16}}, cpu=4),
    a_worker(gpu={"0": {"vram": 16}, "1": {"vram": 8}, "2": {"vram": 16}}, cpu=3),
    a_worker(gpu=1, cpu=6),
]
workers = st.lists(st.sampled_from(MACHINES), min_size=1, max_size=2).map(
    lambda infos: [replace(info, name=f"w{i}", offers=QUEUES) for i, info in enumerate(infos)]
)


def lack(board: Board, job: Job, without: set[int]) -> int | None:
    """What a job lacks on the worker where it lacks least, if some jobs held nothing; None if it can never run."""
    found = []
    for name, worker in board.workers.items():
        machine = Machine(name, worker.machine.supply)
        for held in board.held_by(name):
            assert held.placement is not None
            if held.id not in without:
                machine.take(held.placement.allocation)
        found.append(machine.lack(job.spec.request))
    return min((each for each in found if each is not None), default=None)


def job_lists(*, start: int) -> st.SearchStrategy[list[Job]]:
    each = st.tuples(st.sampled_from("ab"), st.sampled_from(REQUESTS), st.sampled_from([10, 30, 30, 50, URGENT]))
    return st.lists(each, max_size=12).map(
        lambda drawn: [a_job(start + i, q, request=r, priority=p) for i, (q, r, p) in enumerate(drawn)]
    )


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_the_first_in_line_lacks_never_grows_through_jobs_of_lower_priority(data: st.DataObject) -> None:
    board = a_board(*data.draw(workers), jobs=data.draw(job_lists(start=1)), patience=NEVER)
    for begin in (100, 200, 300):
        made = plan(board, T0)
        apply(board, made)
        placed = {job_id for job_id, _ in made.placements}
        waiting = sorted((j for j in board.jobs.values() if j.state is State.QUEUED), key=lambda job: job.order)
        first = next((job for job in waiting if lack(board, job, {*board.holding}) is not None), None)
        if first is not None:
            lesser = {job_id for job_id in placed if board.holding[job_id].priority < first.priority}
            with_them, without_them = lack(board, first, set()), lack(board, first, lesser)
            assert with_them is not None and with_them == without_them, "lesser jobs took what it lacks"
        for job in [*board.holding.values()]:
            if data.draw(st.booleans()):
                finish(board, job.id)
        for job in data.draw(job_lists(start=begin)):
            board.put(job)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_an_urgent_job_waits_for_few_run_times_under_any_stream_of_lesser_jobs(data: st.DataObject) -> None:
    board = a_board(*data.draw(workers), patience=NEVER)
    ids, ends = count(1), dict[int, int]()
    stream = data.draw(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4))
    random, longest, urgent = Random(data.draw(st.integers(0, 2**32))), data.draw(st.integers(1, 5)), None
    for second in range(200):
        for job_id in [job_id for job_id, end in ends.items() if end <= second]:
            finish(board, job_id)
            del ends[job_id]
        for request in stream:
            while len(board.line(("a", request, ANYWHERE))) < 9:
                board.put(a_job(next(ids), "a", request=request))
        if second == 5:
            large = [r for r in LARGE if lack(board, a_job(request=r), set()) is not None]
            queue, request = data.draw(st.sampled_from("ab")), data.draw(st.sampled_from(large))
            urgent = a_job(next(ids), queue, request=request, priority=URGENT)
            board.put(urgent)
        made = plan(board, T0 + second)
        apply(board, made)
        if urgent is not None and urgent.id in allocations_of(made):
            assert second - 5 <= 4 * longest
            return
        ends |= {job_id: second + random.randint(1, longest) for job_id, _ in made.placements}
    pytest.fail("the urgent job never starts")


# Whom a waiting job keeps room from, and whom not.


def test_lesser_jobs_take_what_the_waiting_job_does_not_ask_for_or_cannot_use() -> None:
    workers = [a_worker("small", gpu=1, cpu=4), a_worker("w", gpu=2, cpu=8)]
    running = [a_job(1, gpu=1), a_job(2, gpu=2)]
    board = a_busy_board(*workers, running=running, waiting=[a_job(3, gpu=2, cpu=2, priority=URGENT)])
    for job_id, amount in ((4, 4), (5, 6), (6, 1)):
        board.put(a_job(job_id, cpu=amount))
    assert started(board) == [4, 5], "all cpu of the small worker, and what two of eight leave of the other"
    finish(board, 1)
    board.put(a_job(7, gpu=1))
    assert 7 in started(board), "the small worker can never run job 3"


def test_of_a_device_only_the_part_is_kept_that_the_waiting_job_asks_for() -> None:
    board = a_busy_board(a_worker(gpu=1, cpu=4), running=[a_job(1, cpu=3)], waiting=[])
    board.put(a_job(2, gpu=0.25, cpu=4, priority=URGENT))
    for job_id, amount in ((3, 1), (4, 0.75), (5, 0.25)):
        board.put(a_job(job_id, gpu=amount))
    assert started(board) == [4]


def test_equals_pass_a_waiting_job_and_higher_priorities_take_what_it_keeps() -> None:
    board = a_busy_board(a_worker(cpu=4), running=[a_job(1, cpu=2)], waiting=[a_job(2, cpu=4, priority=50)])
    board.put(a_job(3, cpu=1, priority=49))
    board.put(a_job(4, cpu=1, priority=50))
    board.put(a_job(5, cpu=1, priority=51))
    assert started(board) == [5, 4]


def test_every_waiting_job_keeps_room_beside_those_before_it() -> None:
    board = a_busy_board(a_worker(gpu=4), running=[a_job(i, gpu=0.75) for i in range(1, 5)], waiting=[])
    for job_id in (5, 6, 7):
        board.put(a_job(job_id, gpu=1, priority=URGENT))
    board.put(a_job(8, gpu=0.25))
    board.put(a_job(9, gpu=0.25))
    assert started(board) == [8], "three devices are kept, a quarter of the fourth is not"
    board.put(a_job(10, gpu=1, priority=50))
    assert started(board) == []


def test_a_job_that_cannot_run_beside_those_before_it_keeps_nothing() -> None:
    board = a_busy_board(a_worker(gpu=4, cpu=8), running=[a_job(1, gpu=1)], waiting=[])
    board.put(a_job(2, gpu=4, cpu=1, priority=URGENT))
    board.put(a_job(3, gpu=4, cpu=7, priority=URGENT))
    board.put(a_job(4, cpu=7))
    assert started(board) == [4], "not even without lesser jobs could jobs 2 and 3 run at once"


def test_a_job_keeps_room_in_the_plan_that_starts_the_ripe_head_before_it() -> None:
    board = a_board(a_worker(gpu=3), jobs=[a_job(1, gpu=2)], patience=ReservationPolicy(0, 0.0))
    apply(board, plan(board, T0))
    for job_id in (2, 3):
        board.put(a_job(job_id, gpu=2, priority=50))
    apply(board, plan(board, T0))
    board.put(a_job(4, gpu=1))
    finish(board, 1)
    assert started(board) == [2], "job 2 was ripe; the third device is kept for job 3"


def test_a_ripe_head_keeps_room_in_the_plan_that_starts_the_ripe_head_before_it() -> None:
    offers = [Offer("a"), Offer("b")]
    board = a_board(a_worker(offers=offers, gpu=2), patience=ReservationPolicy(0, 0.0))
    for job_id in (1, 2):
        board.put(a_job(job_id, gpu=1, queue="a", priority=URGENT))
    apply(board, plan(board, T0))
    board.put(a_job(3, gpu=0.25, queue="a", priority=50))
    board.put(a_job(4, gpu=1, queue="b", priority=50))
    apply(board, plan(board, T0))
    board.put(a_job(5, gpu=0.5, queue="b"))
    finish(board, 1)
    assert started(board) == [3], "the rest of the device of job 3 is kept for job 4"


def test_a_ripe_head_keeps_room_in_the_plan_that_starts_an_earlier_job_of_its_queue_there() -> None:
    board = a_board(a_worker("v", gpu=1), a_worker("w", gpu=1), patience=ReservationPolicy(0, 0.0))
    for job_id in (1, 2):
        board.put(a_job(job_id, gpu=0.5, priority=URGENT))
    board.put(a_job(3, gpu=0.75, priority=URGENT))
    apply(board, plan(board, T0))
    board.put(a_job(5, gpu=1, priority=50))
    apply(board, plan(board, T0))
    finish(board, 1)
    board.put(a_job(4, gpu=0.5, priority=50))
    board.put(a_job(6, gpu=0.25))
    assert started(board) == [4], "job 5 lacks least on w now"


def test_a_job_that_may_not_start_keeps_nothing() -> None:
    offers = [Offer("a"), Offer("b")]
    workers = [a_worker("w", offers=offers, cpu=4), a_worker("away", offers=offers, cpu=8)]
    board = a_busy_board(*workers, running=[asking(a_job(1, "b", cpu=3), worker="w")], waiting=[])
    board.put(a_job(2, "a", cpu=4, priority=URGENT))
    board.put(asking(a_job(3, "b", cpu=1), worker="w"))
    board.set_worker(workers[1], online=False, now=T0)
    assert started(board) == []
    board.paused = {"a": "owner"}
    assert started(board) == [3], "its queue is paused"
    board.paused = {}
    board.put(a_job(4, "a", cpu=8, priority=URGENT))
    finish(board, 2)
    assert started(board) == [3], "only a worker that is out of touch could run it"
    board.set_worker(workers[1], online=True, now=T0)
    board.workers["away"].drained = True
    assert started(board) == [3], "only a drained worker could run it"
    finish(board, 4)
    board.put(asking(a_job(5, "a", cpu=4, priority=URGENT), labels=("big",)))
    assert started(board) == [3], "no worker has its label"


def test_a_job_that_the_limits_of_its_queue_stop_keeps_room_from_its_own_queue_alone() -> None:
    offers = [an_offer("a", cpu=4), an_offer("b")]
    board = a_busy_board(a_worker(offers=offers, gpu=1, cpu=8), running=[a_job(1, "a", cpu=2)], waiting=[])
    board.put(a_job(2, "a", gpu=1, cpu=4, priority=URGENT))
    board.put(a_job(3, "a", cpu=1))
    board.put(a_job(4, "b", gpu=1, cpu=6))
    assert started(board) == [4]
    offers = [an_offer("a", gpu={"0": 0.5}), an_offer("b")]
    board = a_busy_board(a_worker(offers=offers, gpu=1), running=[a_job(1, "a", gpu=0.5)], waiting=[])
    board.put(a_job(2, "a", gpu=0.25, priority=URGENT))
    board.put(a_job(3, "b", gpu=0.5))
    assert started(board) == [3]


def test_a_job_that_waits_for_a_job_of_its_own_queue_keeps_room_from_other_queues_unless_a_limit_stops_it() -> None:
    offers = [an_offer("a", gpu=2), an_offer("b")]
    board = a_busy_board(a_worker(offers=offers, gpu=2), running=[a_job(1, "a", gpu=1)], waiting=[])
    board.put(a_job(2, "a", gpu=1.5, priority=URGENT))
    board.put(a_job(3, "b", gpu=1))
    assert started(board) == []


def test_a_job_that_waits_for_a_slot_keeps_devices_only_while_a_slot_is_free() -> None:
    slots = parse_slots(["0", "1"])
    offers = [Offer("q", limits_of(slots), slots=slots), Offer("b")]
    board = a_busy_board(a_worker(offers=offers, gpu=3), running=[a_job(1, "b", gpu=0.5)], waiting=[])
    board.put(a_job(2, "q", priority=URGENT))
    apply(board, plan(board, T0))
    board.put(a_job(3, "q", priority=URGENT))
    for job_id in (4, 5):
        board.put(a_job(job_id, "b", gpu=0.5))
    made = allocations_of(plan(board, T0))
    assert made == {4: {"gpu": {"2": 500_000}}, 5: {"gpu": {"2": 500_000}}}, "slot 0 is free, its device is kept"
    finish(board, 1)
    apply(board, plan(board, T0))
    board.put(a_job(6, "q", priority=URGENT))
    board.put(a_job(7, "b", gpu=0.5))
    finish(board, 4)
    assert started(board) == [7]


def test_no_short_job_is_placed_behind_another_on_what_a_waiting_job_keeps() -> None:
    board = Board(patience=NEVER, prefetch_policy=PrefetchPolicy(runs=1))
    board.set_worker(replace(a_worker("w", gpu=2), follows=True), online=True, now=T0)
    for job_id, amount in ((1, 0.25), (2, 0.75), (3, 0.5), (4, 0.5)):
        board.put(a_job(job_id, gpu=amount))
    apply(board, plan(board, T0))
    board.prefetch.note_slow(board.jobs[4])
    for job_id in (1, 3):
        board.prefetch.note_duration(board.jobs[job_id], 0.0)
    board.put(a_job(5, gpu=1, priority=URGENT))
    board.put(a_job(6, gpu=0.25))
    made = plan(board, T0)
    assert made.kept == {5: Kept("w", T0)}
    assert made.placements == [], "jobs 1 and 3 are short; the first device is kept, the second will have more free"
    finish(board, 5)
    made = plan(board, T0)
    assert [(job_id, where.after) for job_id, where in made.placements] == [(6, (1, 1))]


def test_beyond_the_bound_a_worker_gives_lower_priorities_nothing_of_what_the_others_ask_for() -> None:
    most = KEPT_MAX + 2
    board = a_busy_board(a_worker(gpu=1, cpu=most, mem=8), running=[a_job(1, mem=8, cpu=1)], waiting=[])
    for job_id in range(10, 10 + KEPT_MAX):
        board.put(a_job(job_id, cpu=1, mem=8 / most, priority=URGENT))
    board.put(a_job(2, cpu=1))
    board.put(a_job(3, gpu=1))
    assert started(board) == [2, 3]
    board.put(a_job(4, cpu=1, mem=8 / most, priority=URGENT))
    board.put(a_job(5, request=()))
    assert started(board) == [3, 5], "no cpu is given, a gpu is"
    board.set_worker(a_worker("v", cpu=1), online=True, now=T0)
    assert plan(board, T0).placements[0][1].worker == "v"


def test_beyond_the_bound_what_no_further_job_could_use_is_given() -> None:
    workers = [a_worker("v", gpu=4, cpu=99), a_worker("w", gpu=4, cpu=99)]
    running = [asking(a_job(1, cpu=99), worker="v"), asking(a_job(2, cpu=98), worker="w")]
    board = a_busy_board(*workers, running=running, waiting=[])
    for job_id in range(10, 11 + KEPT_MAX):
        board.put(asking(a_job(job_id, cpu=1, priority=URGENT), worker="v"))
    board.put(asking(a_job(3, gpu=1, cpu=99, priority=URGENT), worker="v"))
    for job_id, worker in ((4, "v"), (5, "w")):
        board.put(asking(a_job(job_id, gpu=1), worker=worker))
        board.put(asking(a_job(100 * job_id, cpu=1), worker=worker))
    assert started(board) == [4, 5, 500], "job 3 could not run beside the others, and they run on v alone"
