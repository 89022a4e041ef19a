"""Slots: in which order they are handed out, and that nobody gets one whose devices are in use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import (
    T0,
    a_board,
    a_job,
    a_placement,
    a_request,
    a_worker,
    allocations_of,
    an_offer,
    apply,
    detecting,
    finish,
    reservations,
)

from grassq.core.model import Offer, State, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.explain import Blocker, explain, never_fits
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.plan import plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Device, Devices
from grassq.core.resources.slots import Slot, SlotOrder, limits_of, parse_slots, slot_set_of, slots_in

AT_ONCE = ReservationPolicy(0, 0.0)


def a_slotted(queue: str, words: str, order: SlotOrder = "stack", slots: tuple[Slot, ...] = ()) -> Offer:
    """A queue with these slots."""
    slots = slots or parse_slots(words.split())
    return Offer(queue, limits_of(slots), slots=slots, order=order)


def names(words: str, per_device: int = 1) -> list[str]:
    return [slot.name for slot in parse_slots(words.split(), per_device)]


def held(board: Board, queue: str = "q") -> dict[int, str]:
    """Which slot each job of a queue holds, by name."""
    found = {}
    for job in board.holding.values():
        if job.spec.queue == queue and job.placement is not None:
            worker = board.workers[job.placement.worker]
            offer = worker.offer(queue)
            assert offer is not None
            (index,) = slots_in(job.placement.allocation)
            found[job.id] = offer.slots[index].name
    return found


def holdings(board: Board, queue: str) -> dict[int, Allocation]:
    """What the jobs of a queue hold."""
    return {j.id: j.placement.allocation for j in board.holding.values() if j.spec.queue == queue and j.placement}


def go_on(board: Board) -> list[int]:
    """Plan once; who was placed."""
    made = plan(board, T0)
    apply(board, made)
    return [job_id for job_id, _ in made.placements]


# What a job gets.


def test_a_job_takes_one_slot_whatever_it_asks_for_and_is_told_its_name() -> None:
    offer = replace(a_slotted("q", "1,0 2 2"), env=((b"A", b"1"),))
    board = a_board(
        a_worker(offers=[offer], gpu=3), jobs=[a_job(1, "q", cpu=999), a_job(2, "q", gpu=50), a_job(3, "q")]
    )
    made = plan(board, T0)
    half = {"2": ONE // 2}
    assert allocations_of(made) == {
        1: {"slot": {"2": ONE}, "gpu": half},
        2: {"slot": {"1": ONE}, "gpu": half},
        3: {"slot": {"0": ONE}, "gpu": {"1": ONE, "0": ONE}},
    }
    assert [(where.slot, where.env) for _, where in made.placements] == [
        (name, ((b"A", b"1"),)) for name in ("2", "2", "1,0")
    ]


def test_a_slot_without_a_device_takes_nothing_else() -> None:
    board = a_board(a_worker(offers=[a_slotted("q", "", slots=(Slot(""),))]), jobs=[a_job(1, "q"), a_job(2, "q")])
    (_, where), *rest = plan(board, T0).placements
    assert (where.allocation, where.slot, rest) == ({"slot": {"0": ONE}}, "", [])


def test_a_whole_device_is_all_it_is_worth() -> None:
    board = a_board(
        a_worker(offers=[a_slotted("q", "0,1 1")], gpu={"0": 0.5, "1": 3}), jobs=[a_job(1, "q"), a_job(2, "q")]
    )
    assert [*allocations_of(plan(board, T0)).values()] == [
        {"slot": {"1": ONE}, "gpu": {"1": ONE * 3 // 2}},
        {"slot": {"0": ONE}, "gpu": {"0": ONE // 2, "1": ONE * 3 // 2}},
    ]


def test_a_slot_whose_devices_somebody_uses_is_passed_over() -> None:
    offers = [an_offer("other"), a_slotted("q", "0,1 2 3")]
    running = a_job(9, "other", state=State.RUNNING, placement=a_placement("w", {"gpu": {"3": ONE // 4}}))
    board = a_board(a_worker(offers=offers, gpu=4), jobs=[running, *(a_job(i, "q") for i in (1, 2, 3))])
    assert go_on(board) == [1, 2] and held(board) == {1: "2", 2: "0,1"}
    finish(board, 9)
    assert go_on(board) == [3] and held(board)[3] == "3"


def test_a_whole_device_in_a_slot_is_beside_nobody_who_uses_its_memory_alone() -> None:
    offers = [an_offer("other"), a_slotted("q", "0 1")]
    board = a_board(a_worker(offers=offers, gpu={"0": {"vram": 8}, "1": {"vram": 8}}), jobs=[a_job(1, "other", vram=4)])
    board.put(a_job(2, "q"))
    board.put(a_job(3, "q"))
    assert go_on(board) == [1, 2] and held(board) == {2: "1"}
    board.put(a_job(4, "other", vram=6))
    finish(board, 1)
    assert go_on(board) == [3] and held(board) == {2: "1", 3: "0"}
    finish(board, 2)
    assert go_on(board) == [4]


def test_two_queues_with_slots_and_one_without_never_share_a_device() -> None:
    offers = [a_slotted("q", "0 1"), a_slotted("r", "1 0"), an_offer("plain", gpu=2)]
    jobs = [a_job(1, "q"), a_job(2, "r"), a_job(3, "plain", gpu=0.5), a_job(4, "q"), a_job(5, "r")]
    board = a_board(a_worker(offers=offers), jobs=jobs)
    assert go_on(board) == [1, 2] and (held(board, "q"), held(board, "r")) == ({1: "1"}, {2: "0"})
    finish(board, 2)
    assert go_on(board) == [3], "the devices of both are declared once"


# The order in which they are handed out.


def test_stack_gives_the_last_listed_first_and_then_the_last_freed() -> None:
    board = a_board(a_worker(offers=[a_slotted("q", "0 1 2")], gpu=3), jobs=[a_job(i, "q") for i in (1, 2, 3)])
    assert go_on(board) == [1, 2, 3] and held(board) == {1: "2", 2: "1", 3: "0"}
    for job_id in (1, 3, 2):
        finish(board, job_id)
    board.put(a_job(4, "q"))
    board.put(a_job(5, "q"))
    assert go_on(board) == [4, 5] and held(board) == {4: "1", 5: "0"}


def test_rotate_gives_the_first_listed_first_and_then_the_one_free_longest() -> None:
    board = a_board(a_worker(offers=[a_slotted("q", "0 1 2", "rotate")], gpu=3), jobs=[a_job(i, "q") for i in (1, 2)])
    assert go_on(board) == [1, 2] and held(board) == {1: "0", 2: "1"}
    finish(board, 2)
    finish(board, 1)
    for job_id in (3, 4, 5):
        board.put(a_job(job_id, "q"))
    assert go_on(board) == [3, 4, 5] and held(board) == {3: "2", 4: "1", 5: "0"}


def test_a_worker_that_says_something_new_keeps_the_order_of_slots_that_stay() -> None:
    offer = a_slotted("q", "0 1 2")
    board = a_board(a_worker(offers=[offer], gpu=3), jobs=[a_job(i, "q") for i in (1, 2, 3)])
    go_on(board)
    finish(board, 1)
    finish(board, 3)
    finish(board, 2)
    for info in (a_worker(offers=[offer, Offer("new")], gpu=3), a_worker(offers=[offer], gpu=4)):
        board.set_worker(info, online=True, now=T0)
    board.put(a_job(4, "q"))
    assert go_on(board) == [4] and held(board) == {4: "1"}
    finish(board, 4)
    board.set_worker(a_worker(offers=[a_slotted("q", "2 1 0")], gpu=3), online=True, now=T0)
    board.put(a_job(5, "q"))
    assert go_on(board) == [5] and held(board) == {5: "0"}, "another list begins anew"


def test_fewer_slots_than_are_held_let_those_who_hold_them_finish() -> None:
    board = a_board(a_worker(offers=[a_slotted("q", "0 1 2")], gpu=3), jobs=[a_job(i, "q") for i in (1, 2, 3, 4)])
    go_on(board)
    board.set_worker(a_worker(offers=[a_slotted("q", "0")], gpu=3), online=True, now=T0)
    assert go_on(board) == []
    finish(board, 1)
    assert go_on(board) == [], "slot 2 is none any more"
    finish(board, 3)
    assert go_on(board) == [4] and slots_in(holdings(board, "q")[4]) == [0]


class Plain:
    """Slots restated: a list of names, who holds which, and since when each is free."""

    def __init__(self, slots: tuple[Slot, ...], order: SlotOrder, whole: int) -> None:
        self.slots, self.order, self.whole = slots, order, whole
        self.freed_at = dict.fromkeys(range(len(slots)), -1)
        self.moment = 0

    def share(self, id_: str) -> int:
        return self.whole // sum(id_ in slot.ids for slot in self.slots)

    def choose(self, used: dict[str, int]) -> int | None:
        """The slot that is next, given what is used of each device by anybody."""
        found = [index for index in self.freed_at if all(self._fits(id_, used) for id_ in self.slots[index].ids)]
        if self.order == "stack":
            return max(found, key=lambda index: (self.freed_at[index], index), default=None)
        return min(found, key=lambda index: (self.freed_at[index], index), default=None)

    def _fits(self, id_: str, used: dict[str, int]) -> bool:
        share = self.share(id_)
        return not used.get(id_) if share == self.whole else used.get(id_, 0) + share <= self.whole

    def free(self, index: int) -> None:
        self.moment += 1
        self.freed_at[index] = self.moment


slot_lists = st.lists(
    st.lists(st.sampled_from("0123"), max_size=2, unique=True).map(lambda each: Slot(",".join(each), tuple(each))),
    min_size=1,
    max_size=5,
).map(tuple)
#: Somebody comes, or one of those that hold something goes, or another queue's job takes a part of a device.
moves = st.lists(st.tuples(st.sampled_from(["come", "come", "go", "other", "say"]), st.integers(0, 99)), max_size=30)


@settings(max_examples=300)
@given(slot_lists, st.sampled_from(["stack", "rotate"]), st.sampled_from([1, 2]), moves)
def test_slots_go_out_as_a_plain_list_would_hand_them_out(
    slots: tuple[Slot, ...], order: SlotOrder, worth: int, moves: list[tuple[str, int]]
) -> None:
    gpus = {str(i): worth for i in range(4)}
    info = a_worker(offers=[a_slotted("q", "", order, slots), an_offer("other")], gpu=gpus)
    board, plain = a_board(info), Plain(slots, order, worth * ONE)
    mine: dict[int, int] = {}
    others: dict[int, dict[str, int]] = {}
    for job_id, (move, pick) in enumerate(moves, 1):
        used: dict[str, int] = {}
        for taken in [*others.values(), *({i: plain.share(i) for i in slots[index].ids} for index in mine.values())]:
            for id_, part in taken.items():
                used[id_] = used.get(id_, 0) + part
        match move:
            case "come":
                board.put(a_job(job_id, "q"))
                expected = plain.choose(used)
                placed = allocations_of(made := plan(board, T0))
                assert {i: slots_in(a) for i, a in placed.items()} == ({} if expected is None else {job_id: [expected]})
                if expected is None:
                    finish(board, job_id)
                    continue
                apply(board, made)
                mine[job_id] = expected
                del plain.freed_at[expected]
            case "go" if mine or others:
                gone = sorted([*mine, *others])[pick % (len(mine) + len(others))]
                finish(board, gone)
                if gone in mine:
                    plain.free(mine.pop(gone))
                others.pop(gone, None)
            case "other":
                board.put(a_job(job_id, "other", gpu=0.25))
                for other, allocation in allocations_of(made := plan(board, T0)).items():
                    others[other] = dict(allocation["gpu"])  # type: ignore[arg-type]
                apply(board, made)
                if job_id not in others:
                    finish(board, job_id)
            case _:
                board.set_worker(info, online=True, now=T0)
        assert {i: slots_in(a) for i, a in holdings(board, "q").items()} == {i: [n] for i, n in mine.items()}


@given(slot_lists, st.lists(st.integers(0, 5), max_size=12))
def test_a_rack_counts_who_holds_a_slot_also_when_two_do(slots: tuple[Slot, ...], taken: list[int]) -> None:
    slot_set = slot_set_of(slots, "stack", Devices((Device("0"),)))
    before = slot_set.copy()

    def held(index: int) -> Allocation:
        return slot_set.allocation(index) if index < len(slots) else {"slot": {str(index): ONE}}

    for index in taken:
        slot_set.take(held(index))
    taken = [index for index in taken if index < len(slots)]
    assert slot_set.holders == {index: taken.count(index) for index in taken}
    assert set(slot_set.free) == set(range(len(slots))) - set(taken)
    assert before == before.emptied(), "a copy is its own"
    slot_set.give({"slot": {"0": ONE}, "gpu": {"no-such": ONE}})
    for at, index in enumerate(taken, 1):
        slot_set.give(held(index))
        assert set(slot_set.free) == set(range(len(slots))) - set(taken[at:]), "free when the last one is gone"
    assert slot_set.holders == {} and set(slot_set.free) == set(range(len(slots)))


def test_a_slot_in_the_place_of_another_one_is_free_though_the_job_there_goes_on() -> None:
    before, after = (slot_set_of(parse_slots(words.split()), "rotate", None) for words in ("0 1", "7 1"))
    for index in (0, 1):
        after.take(before.allocation(index))
    assert list(after.free) == [0]
    after.give(before.allocation(0))
    assert list(after.free) == [0] and after.holders == {1: 1}


@pytest.mark.parametrize("allocation", [{}, {"slot": ONE}, {"slot": {"x": ONE}}, {"slot": {"-1": 1, "9" * 5000: 1}}])
def test_what_names_no_slot_holds_none(allocation: Allocation) -> None:
    assert slots_in(allocation) == []


# Those who wait.


@pytest.mark.parametrize("words", ["0 1", "0,1 2", "0,0,1"])
def test_short_jobs_follow_one_another_in_their_slots(words: str) -> None:
    board = Board(prefetch_policy=PrefetchPolicy(short_s=0.05, runs=1, wait_s=0.25))
    info = replace(a_worker(offers=[a_slotted("q", words)], gpu=3), follows=True)
    board.set_worker(info, online=True, now=T0)
    jobs = [a_job(i, "q") for i in range(1, 10)]
    count = len(names(words))
    for job in jobs:
        board.put(job)
    board.prefetch.note_duration(jobs[0], 0.0)
    first = go_on(board)
    assert first == [*range(1, count + 1)]
    assert go_on(board) == [*range(count + 1, 2 * count + 1)], "each behind one of them"
    for job in board.holding.values():
        predecessor = board.predecessor(job)
        if predecessor is not None:
            assert job.placement is not None and predecessor.placement is not None
            assert (job.placement.allocation, job.placement.env) == (
                predecessor.placement.allocation,
                predecessor.placement.env,
            )
    for job_id in first:
        finish(board, job_id)
        slot_set = board.workers["w"].offers["q"].slot_set
        assert slot_set is not None and not slot_set.free and set(slot_set.holders.values()) == {1}


@pytest.mark.parametrize(
    "slots",
    [parse_slots(["0,1", "2"]), parse_slots(["0"]), parse_slots(["7", "0"]), (Slot(""), Slot("0", ("0",)))],
    ids=["a pair and another", "one", "one that is not there", "one of no device that is held for ever"],
)
def test_a_stream_of_small_jobs_of_other_queues_does_not_starve_a_slot(slots: tuple[Slot, ...]) -> None:
    offers = [an_offer("small"), a_slotted("q", "", slots=slots)]
    ever = a_job(999, "q", state=State.RUNNING, placement=a_placement("w", {"slot": {"0": ONE}}))
    small = [a_job(i, "small", gpu=0.5) for i in range(1, 7)]
    jobs = [*small, ever] if not slots[0].ids else small
    board = a_board(a_worker(offers=offers, gpu=3), jobs=jobs, patience=AT_ONCE)
    go_on(board)
    board.put(a_job(10, "q"))
    for turn in range(12):
        for job_id in (100 + 2 * turn, 101 + 2 * turn):
            board.put(a_job(job_id, "small", gpu=0.5))
        if 10 in go_on(board):
            return
        oldest = min(job.id for job in board.holding.values())
        finish(board, oldest)
    pytest.fail("the job that waits for a slot never starts")


def test_what_is_kept_for_the_head_of_a_queue_with_slots_are_the_devices_of_one_slot() -> None:
    offers = [an_offer("small"), a_slotted("q", "0,1 2")]
    running = a_job(
        1, "small", state=State.RUNNING, placement=a_placement("w", {"gpu": {"0": ONE // 2, "2": ONE // 4}})
    )
    board = a_board(a_worker(offers=offers, gpu=3), jobs=[running, a_job(2, "q")], patience=AT_ONCE)
    go_on(board)
    for job_id, amount in ((3, 0.25), (4, 1), (5, 0.5)):
        board.put(a_job(job_id, "small", gpu=amount))
    # Of the pair a quarter is missing, of the single one a quarter of it too: the first of them is kept.
    assert allocations_of(plan(board, T0)) == {3: {"gpu": {"2": ONE // 4}}, 5: {"gpu": {"2": ONE // 2}}}


@pytest.mark.parametrize(
    "slots", [parse_slots(["7", "0"]), (Slot(""), Slot("0", ("0",)))], ids=["one not there", "one held"]
)
def test_kept_is_a_slot_that_is_free_and_there_though_nothing_of_it_is_free_now(slots: tuple[Slot, ...]) -> None:
    offers = [an_offer("other"), a_slotted("q", "", slots=slots)]
    busy = a_job(1, "other", state=State.RUNNING, placement=a_placement("w", {"gpu": {"0": ONE}}))
    mine = a_job(2, "q", state=State.RUNNING, placement=a_placement("w", {"slot": {"0": ONE}}))
    jobs = [busy, *([] if slots[0].ids else [mine]), a_job(3, "q")]
    board = a_board(a_worker(offers=offers, gpu=2), jobs=jobs, patience=AT_ONCE)
    go_on(board)
    (kept,) = reservations(board, T0)
    assert kept.reserved.devices == {"gpu": {"0": ONE}}


def test_explain_says_whether_slots_or_their_devices_are_taken() -> None:
    offers = [an_offer("other"), a_slotted("q", "0 1 2"), a_slotted("r", "3")]
    jobs = [a_job(1, "other", gpu=0.5), *(a_job(i, "q") for i in (2, 3, 4, 5)), a_job(6, "r")]
    board = a_board(a_worker(offers=offers, gpu=4), jobs=jobs)
    assert go_on(board) == [1, 2, 3, 6]
    used = "the devices of its free slots are in use"
    assert explain(board, board.jobs[4], T0) == [Blocker("w", "gpu", ONE, ONE // 2, used, (1, 2, 3))]
    finish(board, 1)
    assert go_on(board) == [4]
    assert explain(board, board.jobs[5], T0) == [Blocker("w", "slot", ONE, 0, "all 3 slots are taken", (2, 3, 4))]


def test_a_job_never_runs_in_a_queue_whose_slots_all_miss_a_device() -> None:
    info = a_worker(offers=[a_slotted("q", "0,5 7")], gpu=2)
    board = a_board(info, jobs=[a_job(1, "q")])
    assert never_fits(board, "q", a_request(gpu=9)) == "queue 'q' on w has no slot whose devices are all there"
    assert go_on(board) == [] and board.heads == {}
    looking = a_board(detecting(a_worker(offers=[a_slotted("q", "0,5 7")])), jobs=[a_job(1, "q")])
    assert never_fits(looking, "q", a_request(gpu=9)) is None
    assert [blocker.why for blocker in explain(looking, looking.jobs[1], T0)] == ["devices are still being looked for"]
    nothing = replace(a_worker(offers=[a_slotted("q", "", slots=(Slot(""),))]), looked_for=frozenset({"gpu"}))
    looking = a_board(nothing, jobs=[a_job(1, "q"), a_job(2, "q")])
    assert go_on(looking) == [1], "a slot of no device need not wait for them"
    assert [blocker.why for blocker in explain(looking, looking.jobs[2], T0)] == ["its only slot is taken"]
    half = a_board(a_worker(offers=[a_slotted("q", "0,5 1")], gpu=2))
    assert never_fits(half, "q", a_request(gpu=9)) is None, "one slot is enough"


def test_of_two_workers_the_one_with_a_free_slot_is_taken_and_requests_count_where_there_are_none() -> None:
    infos: list[WorkerInfo] = [
        a_worker("a", offers=[a_slotted("q", "0")], gpu=1),
        a_worker("b", offers=[Offer("q")], cpu=2),
    ]
    board = a_board(*infos, jobs=[a_job(i, "q", cpu=2) for i in (1, 2, 3)])
    placed = {job_id: where.worker for job_id, where in plan(board, T0).placements}
    assert placed == {1: "a", 2: "b"}
