"""The board: whatever is put, replaced and removed, its sums equal a count from scratch."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import UNSET
from msgspec.structs import replace
from tests.builders import T0, a_board, a_capacity, a_job, a_placement, a_request, a_worker, an_offer, detecting, finish

from grassq.core.model import FINAL, HOLDING, Constraints, ForQueue, ForTime, Job, Offer, State, WorkerInfo
from grassq.core.planner.board import EVERYTHING, Board
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.request_classes import shape_of
from grassq.core.planner.workers import machine_capacity
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.resources.capacity import Device, DeviceCount, Devices, Pool
from grassq.core.resources.fit import Shortage, fit
from grassq.core.resources.ledger import Ledger
from grassq.core.resources.slots import parse_slots

QUEUES = ("a", "b", "c")
WORKERS = ("w1", "w2")
LOOKED_FOR: list[frozenset[str] | bool] = [frozenset(), frozenset({"gpu"}), True]

allocations: st.SearchStrategy[Allocation] = st.sampled_from(
    [
        {},
        {"cpu": ONE},
        {"gpu": {"0": ONE}},
        {"gpu": {"0": ONE // 2}, "vram": {"0": 4}},
        {"gpu": {"0": ONE, "1": ONE // 4}, "cpu": 2 * ONE},
        {"vram": {"1": 7}},
        {"tape": {"left": 2 * ONE}},
        {"gpu": {"9": ONE}},
        {"slot": {"0": ONE}, "gpu": {"0": ONE // 2}},
        {"slot": {"1": ONE}, "gpu": {"1": ONE}},
        {"slot": {"5": ONE}},
    ]
)
offer_lists = st.lists(
    st.sampled_from(
        [
            an_offer("a"),
            an_offer("a", gpu=1),
            an_offer("b", gpu=[0, 1], cpu=2),
            an_offer("b", gpu=[0, 7]),
            an_offer("c", tape={"left": 2}, gpu={"0": 0.5}),
            an_offer("c", gpu={"pool": 3}, cpu=99),
            replace(an_offer("a", gpu=[0, 1]), slots=parse_slots(["0,0,1"])),
            replace(an_offer("b", gpu=[1]), slots=parse_slots(["1"]), order="rotate"),
        ]
    ),
    unique_by=lambda offer: offer.queue,
)
givens = st.sampled_from(
    [a_capacity(gpu=2, cpu=4), a_capacity(gpu=1, cpu=1), a_capacity(cpu=8), a_capacity(gpu={"0": {"vram": 9}, "1": 2})]
)
infos = st.builds(
    WorkerInfo,
    st.sampled_from(WORKERS),
    st.just("boot"),
    givens,
    offer_lists.map(tuple),
    looked_for=st.sampled_from(LOOKED_FOR),
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    state = draw(st.sampled_from(State))
    worker = draw(st.sampled_from([*WORKERS, "nowhere"]))
    job = a_job(
        draw(st.integers(1, 6)),
        draw(st.sampled_from(QUEUES)),
        state=state,
        priority=draw(st.sampled_from([30, 30, 40])),
        placement=a_placement(worker, draw(allocations)) if state in HOLDING | FINAL else None,
        cpu=draw(st.integers(1, 2)),
    )
    groups = draw(st.sampled_from([(), ("project:p",), ("project:p", "tag:a=1"), ("tag:a=1",), ("tag:a=2",)]))
    job = replace(job, spec=replace(job.spec, constraints=Constraints(groups=groups or UNSET)))
    waits = draw(st.sampled_from([(ForQueue(),), (ForTime(T0),), (ForTime(T0), ForQueue())]))
    return replace(job, waits=waits) if state is State.WAITING else job


def usage(ledger: Ledger) -> tuple[dict[str, int], dict[tuple[str, str], object]]:
    """What is taken of a ledger, without what is back to nothing."""
    loads = {
        (name, device): load
        for name, group in ledger.loads.items()
        for device, load in group.items()
        if (load.used, load.vram, load.holders, load.wholes) != (0, 0, 0, 0)
    }
    return {name: amount for name, amount in ledger.pools.items() if amount}, dict(loads)


class Boards(RuleBasedStateMachine):
    """A board to which jobs and workers come and go, beside the plain facts."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Board()
        self.jobs: dict[int, Job] = {}
        self.infos: dict[str, WorkerInfo] = {}

    @rule(job=jobs())
    def put(self, job: Job) -> None:
        self.board.put(job)
        self.jobs[job.id] = job

    @rule(name=st.sampled_from(["project:p", "tag:a=1"]), limit=st.sampled_from([None, GroupLimit(jobs=1)]))
    def set_limit(self, name: str, limit: GroupLimit | None) -> None:
        self.board.set_group_limit(name, limit)

    @rule(info=infos, online=st.booleans())
    def set_worker(self, info: WorkerInfo, online: bool) -> None:
        self.board.set_worker(info, online=online, now=T0)
        self.infos[info.name] = info

    @rule(name=st.sampled_from(["a", "b"]))
    def remove_worker(self, name: str) -> None:
        if name in self.infos and not self.board.held_by(name):
            self.board.remove_worker(name)
            del self.infos[name]

    @property
    def alive(self) -> dict[int, Job]:
        return {id_: job for id_, job in self.jobs.items() if job.state not in FINAL}

    @invariant()
    def jobs_lie_where_their_state_says(self) -> None:
        assert self.board.jobs == self.alive
        assert self.board.holding == {i: job for i, job in self.alive.items() if job.state in HOLDING}
        assert self.board.timed == {i: job for i, job in self.alive.items() if job.ready_at is not None}
        assert sorted(self.board.start_times.due(T0, 0.0)) == sorted(self.board.timed)

    @invariant()
    def shapes_are_the_queued_jobs_in_order(self) -> None:
        shapes = defaultdict(list)
        queued = sorted((job for job in self.alive.values() if job.state is State.QUEUED), key=lambda job: job.order)
        for job in queued:
            shapes[shape_of(job)].append(job.order)
        assert {shape: [*line] for shape, line in self.board.shapes()} == shapes
        assert all([*self.board.line(shape)] == line for shape, line in shapes.items())
        assert self.board.next_ids(2) == [job.id for job in queued[:2]]
        assert self.board.next_ids(99) == [job.id for job in queued]
        for queue in QUEUES:
            assert self.board.queued(queue) == sum(job.spec.queue == queue for job in queued)

    @invariant()
    def request_classes_differ_in_limited_groups_only(self) -> None:
        classes: dict[object, list[int]] = defaultdict(list)
        for (queue, _, constraints), line in self.board.shapes():
            groups = () if constraints.groups is UNSET else constraints.groups
            classes[queue, tuple(name for name in groups if name in self.board.group_limits)] += line
        found = [each for each in self.board.request_classes() if each.count]
        assert sorted(sorted(order for line in each.lines() for order in line) for each in found) == sorted(
            sorted(line) for line in classes.values()
        )
        for each in found:
            firsts = sorted(line.first for line in each.lines())
            assert [order for order, _ in each.index.fitting([99 * ONE] * len(each.names))] == firsts

    @invariant()
    def queues_are_what_the_workers_offer(self) -> None:
        offered = {offer.queue for info in self.infos.values() for offer in info.offers}
        assert self.board.queue_names() == offered
        for queue in offered:
            names = sorted(n for n, info in self.infos.items() if queue in {offer.queue for offer in info.offers})
            assert [worker.info.name for worker in self.board.offering(queue)] == names
            assert all(worker is self.board.workers[worker.info.name] for worker in self.board.offering(queue))

    @invariant()
    def rooms_hold_what_the_jobs_hold(self) -> None:
        assert set(self.board.workers) == set(self.infos)
        for name, worker in self.board.workers.items():
            assert worker.info is self.infos[name]
            assert set(worker.offers) == {offer.queue for offer in worker.info.offers}
            held = [job for job in self.alive.values() if job.placement and job.placement.worker == name]
            assert sorted(job.id for job in self.board.held_by(name)) == sorted(job.id for job in held)
            ledgers = [
                (worker.machine, None),
                *((ledger, queue) for queue, ledger in worker.offers.items()),
            ]
            for ledger, queue in ledgers:
                fresh = ledger.emptied()
                for job in held:
                    if job.placement and queue in (None, job.spec.queue):
                        fresh.take(job.placement.allocation)
                assert usage(ledger) == usage(fresh)
                if ledger.slot_set is not None and fresh.slot_set is not None:
                    assert (
                        ledger.slot_set.holders == fresh.slot_set.holders
                        and ledger.slot_set.free.keys() == fresh.slot_set.free.keys()
                    )


TestBoards = Boards.TestCase
TestBoards.settings = settings(max_examples=120, stateful_step_count=20, deadline=None)


def test_a_finished_job_leaves_the_board_and_what_it_held_is_free() -> None:
    board = a_board(
        a_worker(gpu=1), jobs=[a_job(1, state=State.RUNNING, placement=a_placement("w", {"gpu": {"0": ONE}}))]
    )
    free_view = board.workers["w"].free_view("default")
    assert isinstance(fit(a_request(gpu=1), free_view), Shortage)
    finish(board, 1)
    assert fit(a_request(gpu=1), free_view) == {"gpu": {"0": ONE}}
    assert not board.jobs and not board.holding


def test_a_worker_that_comes_late_finds_its_jobs_counted() -> None:
    job = a_job(1, state=State.RUNNING, placement=a_placement("w", {"cpu": ONE}))
    board = a_board(jobs=[job])
    assert board.held_by("w") == [job]
    board.set_worker(a_worker(cpu=1), online=False, now=T0)
    assert board.workers["w"].free_view("default").pool_free("cpu") == 0


def test_a_worker_is_online_since_it_came_and_not_since_it_last_spoke() -> None:
    board = Board()
    board.set_worker(a_worker(cpu=1), online=True, now=T0)
    board.set_worker(a_worker(cpu=2), online=True, now=T0 + 1)
    assert board.workers["w"].since == T0
    board.set_worker(a_worker(cpu=2), online=False, now=T0 + 2)
    assert (board.workers["w"].since, board.workers["w"].online) == (T0 + 2, False)


def test_a_worker_out_of_touch_was_heard_last_when_it_was_heard_last() -> None:
    board = a_board(a_worker(cpu=1))
    assert board.workers["w"].silent_s(T0) == 0.0 and board.workers["w"].takes
    board.lose_touch("w", 70.0, T0 + 5)
    assert (board.workers["w"].online, board.workers["w"].since, board.workers["w"].heard) == (
        False,
        T0 + 5,
        70.0,
    )
    board.lose_touch("w", 60.0, T0 + 9)
    assert (board.workers["w"].since, board.workers["w"].silent_s(100.0)) == (T0 + 5, 30.0)
    assert not board.workers["w"].takes
    board.set_worker(a_worker(cpu=1), online=True, now=T0 + 20)
    assert board.workers["w"].silent_s(1e9) == 0.0


def test_a_drained_worker_stays_drained_whatever_it_says_of_itself() -> None:
    board = a_board(a_worker(cpu=1))
    board.workers["w"].drained = True
    board.set_worker(a_worker(cpu=2), online=True, now=T0)
    assert board.workers["w"].drained and not board.workers["w"].takes


def test_offers_declare_what_the_machine_does_not_know_and_their_devices_are_united() -> None:
    info = a_worker(
        offers=[an_offer("a", licence=[1, 2], gb={"pool": 5}, gpu=9), an_offer("b", licence=3, gb={"pool": 7})], gpu=2
    )
    assert machine_capacity(info) == {
        "gpu": Devices((Device("0"), Device("1"))),
        "licence": Devices((Device("0"), Device("1"), Device("2"))),
        "gb": Pool(7 * ONE),
    }
    offers = a_board(info).workers["w"].offers
    assert offers["a"].supply["gpu"] == Devices((Device("0"), Device("1")))
    assert offers["a"].supply["licence"] == Devices((Device("1"), Device("2")))
    assert offers["a"].supply["gb"] == Pool(5 * ONE)


def test_until_devices_are_looked_for_an_offer_declares_none_of_them() -> None:
    info = detecting(a_worker(offers=[an_offer("a", gpu=2, tape=1)], cpu=4))
    assert set(machine_capacity(info)) == {"cpu", "tape"}
    free_view = a_board(info).workers["w"].free_view("a")
    assert isinstance(fit(a_request(gpu=1), free_view), Shortage)
    assert set(machine_capacity(replace(info, looked_for=frozenset()))) == {"cpu", "tape", "gpu"}


def test_of_a_limit_naming_a_device_that_is_gone_the_others_stay() -> None:
    board = a_board(a_worker(offers=[an_offer("a", gpu=[1, 7])], gpu=2))
    free_view = board.workers["w"].free_view("a")
    assert [device.id for device in free_view.devices_free("gpu")] == ["1"]
    assert isinstance(fit(a_request(gpu=2), free_view), Shortage)


def test_who_offers_a_queue_is_listed_by_name() -> None:
    board = a_board(
        a_worker("z", offers=[Offer("a")]), a_worker("m", offers=[Offer("a"), Offer("b")]), a_worker("k", offers=[])
    )
    assert [worker.info.name for worker in board.offering("a")] == ["m", "z"]
    assert [*board.offering("nobody's")] == []
    assert board.queue_names() == {"a", "b"}
    assert board.workers["m"].offer("b") == Offer("b")
    assert board.workers["z"].offer("b") is None


@pytest.mark.parametrize(("given", "names"), [({"cpu": 1}, {"cpu"}), ({"gpu": 1}, {"gpu", "vram"}), ({}, set())])
def test_resource_names_are_what_machines_have_and_vram_comes_with_gpus(given: dict[str, int], names: set[str]) -> None:
    assert a_board(WorkerInfo("w", "boot", a_capacity(**given))).resource_names() == names


def test_a_pause_is_of_a_queue_or_of_everything() -> None:
    board = a_board(paused=["a"])
    assert board.is_paused("a") and not board.is_paused("b")
    board.paused[EVERYTHING] = "owner"
    assert board.is_paused("b")


def test_holders_are_the_jobs_that_hold_that_resource_there() -> None:
    running = [
        a_job(1, state=State.RUNNING, placement=a_placement("w", {"cpu": ONE})),
        a_job(2, state=State.PLACED, placement=a_placement("w", {"gpu": {"0": ONE}})),
        a_job(3, state=State.RUNNING, placement=a_placement("v", {"cpu": ONE})),
    ]
    board = a_board(a_worker(cpu=4, gpu=1), a_worker("v", cpu=4), jobs=running)
    assert [job.id for job in board.holders("w", "cpu")] == [1]
    assert [job.id for job in board.holders("w", "gpu")] == [2]
    assert board.holders("w", "mem") == []


def test_limits_a_worker_was_given_do_not_grow_by_an_offer() -> None:
    info = WorkerInfo("w", "boot", a_capacity(gpu=1), (Offer("a", {"gpu": DeviceCount(4)}),))
    assert machine_capacity(info) == a_capacity(gpu=1)
