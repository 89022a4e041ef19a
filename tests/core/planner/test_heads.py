"""Heads and what they keep: with equal priorities and jobs that end, every job starts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.builders import (
    T0,
    a_board,
    a_capacity,
    a_job,
    a_placement,
    a_request,
    a_worker,
    allocations_of,
    an_offer,
    apply,
    finish,
    reservations,
)

from grassq.core.model import ANYWHERE, Job, Offer, State, WorkerInfo, order_of
from grassq.core.planner.board import Board
from grassq.core.planner.explain import never_fits
from grassq.core.planner.heads import Head, ReservationPolicy, is_ripe
from grassq.core.planner.plan import plan
from grassq.core.planner.request_classes import Shape
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import parse_limits
from grassq.core.resources.ledger import ReservedAmounts
from grassq.core.resources.slots import Slot, limits_of, parse_slots

AT_ONCE = ReservationPolicy(0, 0.0)

CAPACITIES = [
    a_capacity(gpu=2, cpu=4),
    a_capacity(gpu=3, cpu=2),
    a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 16}}, cpu=4),
    a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 16}, "2": {"vram": 8}}, cpu=4),
    a_capacity(gpu=1, cpu=6, tape={"left": 2, "right": 3}),
]
LIMITS = [
    parse_limits(x)
    for x in ({}, {}, {"cpu": 3}, {"gpu": 1}, {"gpu": 2, "cpu": 2}, {"gpu": [0, 1]}, {"gpu": {"0": 0.5}})
]
SLOTS = [
    *[()] * 4,
    *(parse_slots(words.split()) for words in ("0", "0,1 0", "0,0,1", "0 2")),
    (Slot(""), Slot("0", ("0",))),
]
#: From small to large: a stream of the first ones would starve the last ones if nobody kept room.
REQUESTS = [
    *(a_request(gpu=n / 4) for n in (1, 2, 3)),
    *(a_request(cpu=n) for n in (1, 2)),
    a_request(vram=4),
    a_request(tape=1),
    a_request(gpu=0.5, cpu=1),
    *(a_request(gpu=n / 4) for n in (4, 6, 8, 10, 12)),
    *(a_request(cpu=n) for n in (3, 4, 6)),
    a_request(vram=16),
    a_request(gpu=0.5, vram=8),
    a_request(gpu=1, vram=16),
    a_request(gpu=2, vram=8),
    a_request(gpu=1, cpu=3),
    a_request(gpu=2, cpu=4),
    a_request(tape=2.5),
    a_request(tape=3, cpu=4),
]


class World(Struct):
    """A board on a virtual clock: what was started ends by itself."""

    board: Board
    random: Random
    longest: int
    now: float = T0
    next_id: int = 1
    ends: dict[int, float] = {}

    def submit(self, shape: Shape) -> int:
        self.board.put(a_job(self.next_id, shape[0], request=shape[1]))
        self.next_id += 1
        return self.next_id - 1

    def waiting(self, job_id: int | None = None) -> list[Job]:
        """The queued jobs (before a certain one), first to come first."""
        queued = (job for job in self.board.jobs.values() if job.state is State.QUEUED)
        return sorted((job for job in queued if job_id is None or job.id < job_id), key=lambda job: job.order)

    def is_ripe(self, job_id: int) -> bool:
        """Whether this job is first in line and out of patience."""
        head = self.board.heads.get(self.board.jobs[job_id].spec.queue)
        is_head = head is not None and head.job == job_id and is_ripe(head, self.board.patience, self.now)
        return is_head and not self.waiting(job_id)

    def tick(self) -> None:
        """A second passes: what is over ends, and what fits starts."""
        self.now += 1
        for job_id in [job_id for job_id, end in self.ends.items() if end <= self.now]:
            finish(self.board, job_id, self.now)
            del self.ends[job_id]
        made = plan(self.board, self.now)
        apply(self.board, made, self.now)
        for job_id, _ in made.placements:
            self.ends[job_id] = self.now + self.random.randint(1, self.longest)


@st.composite
def offers(draw: st.DrawFn, queue: str) -> Offer:
    """A queue with limits, or with slots."""
    slots = draw(st.sampled_from(SLOTS))
    return Offer(queue, limits_of(slots) if slots else draw(st.sampled_from(LIMITS)), slots=slots)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[Shape]]:
    """One or two machines with one or two queues, and every shape of job that can run there, small ones first."""
    queues = draw(st.sampled_from([("a",), ("a", "b")]))
    infos = [
        WorkerInfo(
            f"w{i}",
            "boot",
            draw(st.sampled_from(CAPACITIES)),
            tuple(draw(offers(queue)) for queue in queues),
        )
        for i in range(draw(st.integers(1, 2)))
    ]
    patience = ReservationPolicy(draw(st.sampled_from([1, 3, 10**9])), draw(st.sampled_from([0.0, 3.0, 10.0])))
    board = a_board(*infos, patience=patience)
    world = World(board, Random(draw(st.integers(0, 2**32))), longest=draw(st.integers(1, 5)))
    shapes = [(q, request, ANYWHERE) for request in REQUESTS for q in queues if never_fits(board, q, request) is None]
    return world, shapes


def keep_full(world: World, stream: list[Shape], most: int) -> None:
    """Some more jobs of these shapes, so that the machines would always be busy with them."""
    for shape in stream:
        for _ in range(3):
            if len(dict(world.board.shapes()).get(shape, ())) < most and world.random.random() < 0.8:
                world.submit(shape)


@settings(max_examples=150)
@given(worlds(), st.data())
def test_a_large_job_starts_soon_after_its_patience_is_over_however_many_small_ones_come(
    drawn: tuple[World, list[Shape]], data: st.DataObject
) -> None:
    world, shapes = drawn
    stream = data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=4))
    for _ in range(5):
        keep_full(world, stream, 4)
        world.tick()
    large = world.submit(data.draw(st.sampled_from(shapes[len(shapes) // 2 :])))
    seconds = ripe = 0
    # Jobs before it (a few of each shape) have to start first, each after a patience of its own.
    while large not in world.ends and seconds < 400:
        keep_full(world, stream, 4)
        ripe += world.is_ripe(large)
        seconds += 1
        world.tick()
        assert ripe <= 12 * world.longest, "out of patience, and still passed by others"
    assert large in world.ends
    event(f"seconds after its patience, in longest jobs: {-(-ripe // world.longest)}")


@settings(max_examples=100)
@given(worlds(), st.data())
def test_every_job_starts(drawn: tuple[World, list[Shape]], data: st.DataObject) -> None:
    world, shapes = drawn
    for shape in data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=40)):
        world.submit(shape)
        if data.draw(st.booleans()):
            world.tick()
    for _ in range(world.next_id * (world.longest + 1) + 10):
        world.tick()
    assert world.waiting() == [] and not world.board.jobs


def test_a_head_is_not_tossed_between_workers_by_devices_it_cannot_use() -> None:
    """Whenever b's small device is free, b seems to have all that is asked: 1 gpu here, 16 MiB there."""
    a = a_worker("a", offers=[an_offer("h"), an_offer("on_a")], gpu={"0": {"vram": 16}})
    on_b = [an_offer("h"), an_offer("on_b0", gpu=[0]), an_offer("on_b1", gpu=[1])]
    b = a_worker("b", offers=on_b, gpu={"0": {"vram": 8}, "1": {"vram": 16}})
    board = a_board(a, b, jobs=[a_job(1, "on_a", gpu=0.5), a_job(2, "on_b1", gpu=0.5)], patience=AT_ONCE)
    apply(board, plan(board, T0))
    board.put(a_job(3, "h", gpu=1, vram=16))
    ends, lasts = {1: 1, 2: 2}, {"on_a": 3, "on_b0": 2, "on_b1": 3}
    small = {"on_a": a_request(gpu=0.5), "on_b0": a_request(gpu=1), "on_b1": a_request(gpu=0.5)}
    for second in range(12):
        for job_id in [job_id for job_id, end in ends.items() if end <= second]:
            finish(board, job_id)
            del ends[job_id]
        for at, (queue, request) in enumerate(small.items()):
            if (queue, request, ANYWHERE) not in dict(board.shapes()) and (second or queue != "on_b1"):
                board.put(a_job(10 * second + at + 10, queue, request=request))
        made = plan(board, T0 + second)
        apply(board, made)
        if 3 in allocations_of(made):
            return
        ends |= {job_id: second + lasts[board.jobs[job_id].spec.queue] for job_id, _ in made.placements}
    pytest.fail("job 3 never starts")


@pytest.mark.parametrize(
    ("passed", "waited", "ripe"), [(2, 9.0, False), (3, 0.0, True), (0, 10.0, True), (0, 9.9, False)]
)
def test_a_head_loses_its_patience_by_passes_or_by_time(passed: int, waited: float, ripe: bool) -> None:
    assert is_ripe(Head(1, T0, passed), ReservationPolicy(3, 10.0), T0 + waited) is ripe


def a_ripe_board(*infos: WorkerInfo, jobs: list[Job], more: list[Job]) -> Board:
    """A board on which the first jobs were planned, and whose heads keep room from now on."""
    board = a_board(*infos, jobs=jobs, patience=AT_ONCE)
    apply(board, plan(board, T0))
    for job in more:
        board.put(job)
    return board


def test_what_a_ripe_head_asks_for_goes_to_no_other_job_and_the_rest_does() -> None:
    jobs = [a_job(1, gpu=0.5), a_job(2, gpu=1.5, cpu=2), a_job(3, gpu=2, cpu=3)]
    more = [a_job(4, gpu=0.5), a_job(5, cpu=1), a_job(6, gpu=0.25), a_job(7, cpu=1)]
    board = a_ripe_board(a_worker(gpu=3, cpu=6), jobs=jobs, more=more)
    (kept,) = reservations(board, T0)
    assert (kept.order, kept.queue, kept.worker) == (order_of(30, 3), "default", "w")
    assert kept.reserved.devices == {"gpu": {"2": ONE, "0": ONE}}
    assert kept.reserved.pools == {"cpu": 3 * ONE}
    assert [*allocations_of(plan(board, T0))] == [5]
    finish(board, 1)
    finish(board, 2)
    assert 3 in allocations_of(plan(board, T0))


def test_a_higher_priority_takes_what_a_head_keeps_and_a_lower_one_does_not() -> None:
    info = a_worker(offers=[Offer("a"), Offer("b")], cpu=4)
    more = [a_job(3, "a", cpu=1, priority=20), a_job(4, "b", cpu=1, priority=20), a_job(5, "b", cpu=1)]
    board = a_ripe_board(info, jobs=[a_job(1, "a", cpu=3), a_job(2, "a", cpu=4)], more=more)
    assert plan(board, T0).placements == []
    board.put(a_job(6, "b", cpu=1, priority=31))
    assert [*allocations_of(plan(board, T0))] == [6]


def test_what_a_head_keeps_goes_to_no_earlier_job_of_another_queue_either_until_that_is_a_ripe_head_too() -> None:
    info = a_worker(offers=[Offer("a"), Offer("b")], cpu=4)
    board = a_ripe_board(info, jobs=[a_job(5, "a", cpu=3), a_job(6, "a", cpu=4)], more=[a_job(1, "b", cpu=1)])
    made = plan(board, T0)
    assert made.placements == [] and made.heads["b"] == Head(1, T0)
    apply(board, made)
    assert [*allocations_of(plan(board, T0))] == [1]


def test_jobs_on_workers_that_do_not_offer_its_queue_do_not_pass_a_head() -> None:
    workers = [a_worker("v", offers=[Offer("b")], cpu=4), a_worker("w", offers=[Offer("a")], cpu=4)]
    jobs = [a_job(1, "a", cpu=3), a_job(2, "a", cpu=4), a_job(3, "b", cpu=4), a_job(4, "a", cpu=1)]
    assert plan(a_board(*workers, jobs=jobs), T0).heads == {"a": Head(2, T0, passed=1)}


def test_a_new_head_starts_with_all_its_patience() -> None:
    board = a_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3), a_job(2, cpu=4), a_job(3, cpu=4), a_job(4, cpu=1)])
    apply(board, plan(board, T0))
    assert board.heads == {"default": Head(2, T0, passed=1)}
    finish(board, 1)
    finish(board, 4)
    apply(board, plan(board, T0 + 7))
    assert board.heads == {"default": Head(3, T0 + 7, passed=0)}


def test_a_job_that_comes_back_goes_before_the_later_head_of_its_queue() -> None:
    jobs = [a_job(5, cpu=4), a_job(6, cpu=4)]
    board = a_ripe_board(a_worker(cpu=4), jobs=jobs, more=[])
    finish(board, 5)
    board.put(a_job(1, cpu=4))
    assert [*allocations_of(plan(board, T0))] == [1]


def test_a_head_keeps_its_share_of_the_queue_from_the_queue_and_only_what_it_needs_from_others() -> None:
    infos = a_worker(offers=[an_offer("a", cpu=8), an_offer("b", cpu=8)], cpu=20)
    jobs = [a_job(1, "a", cpu=4), a_job(2, "a", cpu=8)]
    board = a_ripe_board(infos, jobs=jobs, more=[a_job(3, "a", cpu=1), a_job(4, "b", cpu=8)])
    assert [*allocations_of(plan(board, T0))] == [4]


def test_a_head_only_a_worker_out_of_touch_could_run_is_no_head() -> None:
    small, large = a_worker("small", cpu=2), a_worker("large", cpu=8)
    board = a_board(small, large, jobs=[a_job(1, cpu=1), a_job(2, cpu=4), a_job(3, cpu=2)], patience=AT_ONCE)
    board.set_worker(large, online=False, now=T0)
    made = plan(board, T0)
    assert made.heads == {"default": Head(3, T0)}
    apply(board, made)
    board.put(a_job(4, cpu=1))
    assert plan(board, T0).placements == [], "the head keeps what is left"


def test_a_head_that_is_paused_or_gone_keeps_nothing() -> None:
    board = a_ripe_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3), a_job(2, cpu=4)], more=[])
    assert reservations(board, T0)
    board.paused = {"default": "owner"}
    assert reservations(board, T0) == []
    board.paused = {}
    finish(board, 2)
    assert reservations(board, T0) == []
    board.put(replace(a_job(2, cpu=4), state=State.HELD))
    assert reservations(board, T0) == []


def test_a_head_that_no_worker_in_touch_could_run_any_more_keeps_nothing() -> None:
    board = a_ripe_board(a_worker(cpu=4), jobs=[a_job(1, cpu=3), a_job(2, cpu=4)], more=[])
    board.set_worker(a_worker(cpu=3), online=True, now=T0)
    assert reservations(board, T0) == []


def kept_by(head: Job, infos: list[WorkerInfo], held: dict[str, Allocation]) -> tuple[str, ReservedAmounts]:
    """Where a head keeps what, when this is held on each worker."""
    running = [
        a_job(100 + i, state=State.RUNNING, placement=a_placement(worker, allocation))
        for i, (worker, allocation) in enumerate(held.items())
    ]
    board = a_board(*infos, jobs=[*running, head], patience=AT_ONCE)
    apply(board, plan(board, T0))
    (kept,) = reservations(board, T0)
    return kept.worker, kept.reserved


def parts(**free: float) -> dict[str, int]:
    """What is held of devices that have so much free: parts(_0=0.25)."""
    return {device[1:]: int((1 - amount) * ONE) for device, amount in free.items() if amount < 1}


def test_a_head_keeps_room_on_the_worker_where_least_is_missing() -> None:
    workers = [a_worker("a", gpu=3, cpu=8), a_worker("b", gpu=3, cpu=8)]
    held: dict[str, Allocation] = {
        "a": {"gpu": parts(_0=1, _1=0.25, _2=0.25)},
        "b": {"gpu": parts(_0=0.75, _1=0.75, _2=0.75)},
    }
    assert kept_by(a_job(1, gpu=3), workers, held)[0] == "b"
    for cpu, worker in ((3, "b"), (5, "a")):
        held = {"a": {"gpu": parts(_0=1, _1=0, _2=0)}, "b": {"cpu": cpu * ONE}}
        assert kept_by(a_job(1, gpu=2, cpu=8), workers, held)[0] == worker
    same: dict[str, Allocation] = {"a": {"cpu": ONE}, "b": {"cpu": ONE}}
    assert kept_by(a_job(1, cpu=8), workers, same) == ("a", ReservedAmounts(pools={"cpu": 8 * ONE}))


def test_where_worths_differ_a_head_keeps_one_device_that_can_ever_hold_all_of_it() -> None:
    info = a_worker(tape={"left": 2, "middle": 3, "right": 4})
    held: dict[str, Allocation] = {"w": {"tape": {"middle": 2 * ONE, "right": 2 * ONE}}}
    assert kept_by(a_job(1, tape=2.5), [info], held) == ("w", ReservedAmounts({"tape": {"right": 5 * ONE // 2}}))
    limited = a_worker(offers=[an_offer(tape={"left": 2, "right": 3})], tape={"left": 4, "right": 4})
    held = {"w": {"tape": {"left": ONE, "right": 2 * ONE}}}
    assert kept_by(a_job(1, tape=2.5), [limited], held) == ("w", ReservedAmounts({"tape": {"right": 5 * ONE // 2}}))
    workers = [a_worker("a", tape={"left": 8}), a_worker("b", tape={"left": 4})]
    held = {"a": {"tape": {"left": 6 * ONE}}, "b": {"tape": {"left": ONE}}}
    assert kept_by(a_job(1, tape=4), workers, held)[0] == "b"


def test_a_head_that_asks_for_a_part_keeps_one_device() -> None:
    held: dict[str, Allocation] = {"w": {"gpu": parts(_0=0.25, _1=0.5, _2=0.25)}}
    assert kept_by(a_job(1, gpu=0.75), [a_worker(gpu=3)], held) == ("w", ReservedAmounts({"gpu": {"1": 3 * ONE // 4}}))


def test_a_head_that_asks_for_devices_with_memory_keeps_as_many_as_it_asks_for() -> None:
    gpus = {str(i): {"vram": 8 if i == 1 else 16} for i in range(4)}
    board = a_ripe_board(a_worker(gpu=gpus), jobs=[a_job(1, gpu=2, vram=16), a_job(2, gpu=1.5, vram=16)], more=[])
    (kept,) = reservations(board, T0)
    assert kept.reserved.devices == {"gpu": {"3": ONE, "0": ONE // 2}}


def test_a_head_that_asks_for_memory_alone_keeps_one_device_that_has_it() -> None:
    gpus = {"0": {"vram": 8}, "1": {"vram": 16}, "2": {"vram": 16, "worth": 2}}
    for there, device in (({"0": gpus["0"], "1": gpus["1"]}, "1"), ({"0": gpus["0"], "1": gpus["2"]}, "1")):
        board = a_ripe_board(a_worker(gpu=there), jobs=[a_job(1, vram=9), a_job(2, vram=9)], more=[])
        (kept,) = reservations(board, T0)
        assert kept.reserved == ReservedAmounts({"gpu": {device: 0}}, vram={device: 9 * ONE})
