"""Which job starts where: nothing is handed out twice, the line is kept, and `explain` says why not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
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
)
from tests.core.planner.naive_planner import plain_plan

from grassq.core.model import ANYWHERE, Constraints, Job, Offer, RemoteSubmitter, State, WorkerInfo
from grassq.core.planner.board import EVERYTHING, Board
from grassq.core.planner.explain import explain, never_fits
from grassq.core.planner.heads import Head, ReservationPolicy
from grassq.core.planner.plan import PLACEMENTS_MAX, leased, plan
from grassq.core.planner.ranks import LineOfOthers, beside
from grassq.core.planner.request_classes import shape_of
from grassq.core.planner.workers import WorkerState, in_process
from grassq.core.resources.amounts import ONE, Allocation, Request
from grassq.core.resources.capacity import Devices, Pool, parse_limits
from grassq.core.resources.fit import Shortage, fit
from grassq.core.resources.slots import Slot, limits_of, parse_slots

QUEUES = ("a", "b", "c")
NEVER = ReservationPolicy(10**9, 10.0**9)
AT_ONCE = ReservationPolicy(0, 0.0)
PRIORITIES = st.sampled_from([30, 30, 30, 40, 50])

CAPACITIES = [
    a_capacity(gpu=2, cpu=4),
    a_capacity(gpu=3, cpu=2),
    a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 16}}, cpu=4),
    a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 16, "worth": 2}}, cpu=4),
    a_capacity(gpu=1, cpu=6, tape={"left": 2, "right": 3}),
]
LIMITS = [parse_limits(x) for x in ({}, {}, {"cpu": 3}, {"gpu": 1}, {"gpu": 2, "cpu": 2}, {"gpu": {"0": 0.5}})]
SLOTS = [*[()] * 4, *(parse_slots(words.split()) for words in ("0,1", "0,0,1", "1,0 1", "0,7 0 0")), (Slot(""),) * 2]
REQUESTS = [
    *(a_request(gpu=n / 4) for n in (1, 2, 3, 4, 6, 8, 10)),
    *(a_request(cpu=n) for n in (1, 2, 3)),
    a_request(gpu=0.5, cpu=1),
    a_request(gpu=1, cpu=2),
    a_request(vram=4),
    a_request(vram=12),
    a_request(gpu=0.5, vram=8),
    a_request(gpu=2, vram=8),
    a_request(tape=1),
    a_request(tape=2.5, cpu=4),
]


SUBMITTERS = [
    RemoteSubmitter(),
    RemoteSubmitter(bare=True),
    RemoteSubmitter(env=(b"A",)),
    RemoteSubmitter(bare=True, env=(b"A", b"B")),
    RemoteSubmitter(own_cwd=True),
    RemoteSubmitter(bare=True, shell=True),
]
CONSTRAINTS = [
    *[ANYWHERE] * 6,
    Constraints(worker="w0"),
    Constraints(worker="w1"),
    Constraints(labels=("big",)),
    Constraints(labels=("big", "fast")),
    *(Constraints(remote=remote) for remote in SUBMITTERS),
    Constraints(worker="w0", labels=("fast",), remote=RemoteSubmitter(bare=True)),
]
LABELS: list[tuple[str, ...]] = [(), ("big",), ("fast",), ("big", "fast")]


def admits(worker: WorkerState, job: Job) -> bool:
    """Whether a worker may run a job at all, by the rules as the issue states them."""
    constraints, remote = job.spec.constraints, job.spec.constraints.remote
    offer = worker.offer(job.spec.queue)
    chosen = constraints.worker in (None, worker.info.name) and set(constraints.labels) <= set(worker.info.labels)
    if offer is None or not chosen or remote is None:
        return offer is not None and chosen
    if not offer.prefix:
        return offer.unsecure or remote.bare
    return not remote.own_cwd and not remote.shell and set(remote.env) <= set(offer.allow_env)


@st.composite
def offers(draw: st.DrawFn, queue: str) -> Offer:
    """A queue with or without a command of its own, and with what it lets senders from elsewhere do."""
    slots = draw(st.sampled_from(SLOTS))
    return Offer(
        queue,
        limits_of(slots) if slots else draw(st.sampled_from(LIMITS)),
        draw(st.sampled_from([(), (b"prefix",)])),
        unsecure=draw(st.booleans()),
        allow_env=draw(st.sampled_from([(), (b"A",), (b"A", b"B")])),
        slots=slots,
        order=draw(st.sampled_from(["stack", "rotate"])),
    )


@st.composite
def workers(draw: st.DrawFn) -> list[WorkerInfo]:
    """One or two machines, each with two of the queues."""
    names = [f"w{i}" for i in range(draw(st.integers(1, 2)))]
    offered = [draw(st.permutations(QUEUES))[:2] for _ in names]
    return [
        WorkerInfo(
            name,
            f"boot of {name}",
            draw(st.sampled_from(CAPACITIES)),
            tuple(draw(offers(queue)) for queue in queues),
            labels=draw(st.sampled_from(LABELS)),
        )
        for name, queues in zip(names, offered, strict=True)
    ]


def with_constraints(job: Job, constraints: Constraints) -> Job:
    return replace(job, spec=replace(job.spec, constraints=constraints))


def job_lists(priorities: st.SearchStrategy[int], *, start: int) -> st.SearchStrategy[list[Job]]:
    each = st.tuples(
        st.sampled_from(QUEUES[:2]),
        st.sampled_from(REQUESTS),
        priorities,
        st.sampled_from(CONSTRAINTS),
    )
    return st.lists(each, max_size=8).map(
        lambda drawn: [
            with_constraints(a_job(start + i, q, priority=p, request=r), constraints)
            for i, (q, r, p, constraints) in enumerate(drawn)
        ]
    )


def move_one(draw: st.DrawFn, board: Board) -> None:
    """Move a queued job before or after another one of its priority."""
    queued = [job for job in board.jobs.values() if job.state is State.QUEUED]
    pairs = [(a, b) for a in queued for b in queued if a is not b and a.priority == b.priority]
    if pairs:
        job, other = draw(st.sampled_from(pairs))
        line, before = LineOfOthers(board.positions, [job.order]), draw(st.booleans())
        places = beside(line, other.order, 1, board.ranks.moved, before=before)
        assert places is not None and not places.shifted
        board.put(replace(job, rank=places.ranks[0]), job)
        board.forget_head(job.id)


@st.composite
def boards(
    draw: st.DrawFn,
    patience: st.SearchStrategy[ReservationPolicy],
    priorities: st.SearchStrategy[int] = PRIORITIES,
) -> Board:
    """A board with a past: jobs that run, jobs that wait, heads that may have lost their patience."""
    infos = draw(workers())
    board = a_board(*infos, patience=draw(patience), jobs=draw(job_lists(priorities, start=10)))
    for _ in range(draw(st.integers(0, 2))):
        apply(board, plan(board, T0))
        for job in [*board.holding.values()]:
            if draw(st.booleans()):
                finish(board, job.id)
    for job in draw(job_lists(priorities, start=draw(st.sampled_from([1, 50])))):
        if job.id not in board.jobs:
            board.put(job)
    for _ in range(draw(st.integers(0, 3))):
        move_one(draw, board)
    board.paused |= dict.fromkeys(draw(st.sets(st.sampled_from(["a", "b", EVERYTHING]), max_size=1)), "owner")
    for info in infos:
        if not draw(st.integers(0, 3)):
            board.set_worker(info, online=False, now=T0)
        board.workers[info.name].drained = not draw(st.integers(0, 4))
    return board


any_patience = st.sampled_from([NEVER, AT_ONCE, ReservationPolicy(2, 5.0)])


def holdings(board: Board) -> list[tuple[str, str, Allocation]]:
    """Who holds what: (worker, queue, allocation) of every job that has a placement."""
    return [
        (job.placement.worker, job.spec.queue, job.placement.allocation)
        for job in board.jobs.values()
        if job.placement is not None
    ]


def check_sums(board: Board) -> None:
    """Nothing is held twice, on the machine or within a queue's limits: counted from the jobs alone."""
    for name, worker_state in board.workers.items():
        for queue in (None, *worker_state.offers):
            supply = worker_state.machine.supply if queue is None else worker_state.offers[queue].supply
            held = [a for worker, q, a in holdings(board) if worker == name and queue in (None, q)]
            for resource, there in supply.items():
                if isinstance(there, Pool):
                    assert sum(a[resource] for a in held if resource in a) <= there.amount  # type: ignore[misc]
                else:
                    check_devices(resource, there, held, wholes=queue is None)


def check_devices(resource: str, there: Devices, held: list[Allocation], *, wholes: bool) -> None:
    for device in there.devices:
        amounts = [a[resource][device.id] for a in held if device.id in a.get(resource, {})]  # type: ignore
        assert sum(amounts) <= device.worth
        if resource == "gpu":
            memory = [a["vram"][device.id] for a in held if device.id in a.get("vram", {})]  # type: ignore
            assert sum(memory) <= device.vram
            touching = [a for a in held if any(device.id in a.get(name, {}) for name in ("gpu", "vram"))]  # type: ignore
            assert not wholes or len(touching) == 1 or device.worth not in amounts, (
                "a whole device is held by nobody else"
            )


@settings(max_examples=250)
@given(boards(any_patience), st.sampled_from([T0, T0 + 60]))
def test_a_plan_hands_nothing_out_twice_and_keeps_the_line(board: Board, now: float) -> None:
    before = repr(vars(board))
    made = plan(board, now)
    assert repr(vars(board)) == before, "planning changes nothing"
    assert made == plan(board, now)
    started = {job_id for job_id, _ in made.placements}
    orders = [board.jobs[job_id].order for job_id, _ in made.placements]
    assert orders == sorted(orders)
    for (queue, _, _), line in board.shapes():
        placed = [board.id_at(order) in started for order in line]
        assert placed == sorted(placed, reverse=True), "within a shape the first go first"
        assert not (any(placed) and board.is_paused(queue))
    for job_id, placement in made.placements:
        worker, job = board.workers[placement.worker], board.jobs[job_id]
        assert job.state is State.QUEUED and worker.online and not worker.drained and admits(worker, job)
        assert placement.boot == worker.info.boot
    check_sums(board)
    apply(board, made)
    check_sums(board)


@settings(max_examples=400)
@given(boards(any_patience), st.sampled_from([T0, T0 + 60]))
def test_a_plan_is_what_asking_every_job_in_turn_gives(board: Board, now: float) -> None:
    made = plan(board, now)
    started = [(job_id, placement.worker, placement.allocation) for job_id, placement in made.placements]
    assert (started, made.heads) == plain_plan(board, now)


@settings(max_examples=200)
@given(boards(st.just(NEVER), st.just(30)))
def test_while_nothing_is_kept_a_plan_leaves_no_job_that_fits(board: Board) -> None:
    apply(board, plan(board, T0))
    assert board.kept == {}
    again = plan(board, T0)
    assert again.placements == [] and again.heads == board.heads
    for job in (board.jobs[job_id] for job_id in board.next_ids(99)):
        if not board.is_paused(job.spec.queue) and [*board.offering(job.spec.queue)]:
            assert explain(board, job, T0)
            for worker in board.offering(job.spec.queue):
                open_ = worker.online and not worker.drained and admits(worker, job)
                assert not open_ or isinstance(fit(job.spec.request, worker.free_view(job.spec.queue)), Shortage)


@settings(max_examples=250)
@given(boards(any_patience), st.sampled_from([T0, T0 + 60]))
def test_explain_is_empty_exactly_when_the_next_plan_starts_the_job(board: Board, now: float) -> None:
    started = [job_id for job_id, _ in plan(board, now).placements]
    for _, line in board.shapes():
        job = board.jobs[board.id_at(line.first)]
        if board.is_paused(job.spec.queue) or not [*board.offering(job.spec.queue)]:
            continue
        if job.id in started:
            assert explain(board, job, now) == []
        elif all(board.jobs[other].order > job.order for other in started):
            assert explain(board, job, now)


@settings(max_examples=200)
@given(workers(), st.sampled_from(QUEUES), st.sampled_from(REQUESTS), st.booleans())
def test_a_request_never_fits_exactly_when_no_empty_machine_starts_it(
    infos: list[WorkerInfo], queue: str, request: Request, busy: bool
) -> None:
    board = a_board(*infos, jobs=[a_job(99, queue, request=request)] if busy else [])
    if busy:
        apply(board, plan(board, T0))
        board.set_worker(infos[0], online=False, now=T0)
    alone = [a_board(info, jobs=[a_job(1, queue, request=request)]) for info in infos if info_offers(info, queue)]
    possible = any(plan(one, T0).placements for one in alone)
    assert (never_fits(board, queue, request) is None) == (possible or not alone)


def info_offers(info: WorkerInfo, queue: str) -> bool:
    return any(offer.queue == queue for offer in info.offers)


def test_two_half_gpu_jobs_share_one_device() -> None:
    board = a_board(a_worker(gpu=2), jobs=[a_job(1, gpu="0.5"), a_job(2, gpu="0.5")])
    assert allocations_of(plan(board, T0)) == {1: {"gpu": {"0": ONE // 2}}, 2: {"gpu": {"0": ONE // 2}}}


def test_a_larger_priority_goes_first_and_then_the_earlier_submission() -> None:
    jobs = [a_job(1, cpu=1), a_job(2, cpu=1, priority=40), a_job(3, cpu=1, priority=40), a_job(4, cpu=1, priority=20)]
    board = a_board(a_worker(cpu=3), jobs=jobs)
    assert [job_id for job_id, _ in plan(board, T0).placements] == [2, 3, 1]


def test_a_smaller_job_passes_a_blocked_one_which_then_heads_its_queue() -> None:
    board = a_board(a_worker(gpu=2), jobs=[a_job(1, gpu=0.5), a_job(2, gpu=2), a_job(3, gpu=1), a_job(4, gpu=1.5)])
    made = plan(board, T0)
    assert [job_id for job_id, _ in made.placements] == [1, 3]
    assert made.heads == {"default": Head(2, T0, passed=1)}
    apply(board, made)
    finish(board, 3)
    board.put(a_job(5, gpu=1))
    assert plan(board, T0 + 9).heads == {"default": Head(2, T0, passed=2)}


def test_two_queues_naming_gpu_0_share_it() -> None:
    offers = [an_offer("a", gpu=[0]), an_offer("b", gpu=[0, 1])]
    jobs = [a_job(1, "a", gpu=0.75), a_job(2, "b", gpu=0.75), a_job(3, "a", gpu=0.75), a_job(4, "b", gpu=0.25)]
    made = plan(a_board(a_worker(offers=offers, gpu=4), jobs=jobs), T0)
    devices = {job_id: [*allocation["gpu"]] for job_id, allocation in allocations_of(made).items()}  # type: ignore[misc]
    assert devices == {1: ["0"], 2: ["1"], 4: ["0"]}
    declared = plan(a_board(a_worker(offers=offers), jobs=[a_job(1, "a", gpu=1), a_job(2, "b", gpu=2)]), T0)
    assert [*allocations_of(declared)] == [1], "declared twice, gpu 0 is still one device"


def test_a_paused_queue_starts_nothing_and_the_others_go_on() -> None:
    offers = [Offer("a"), Offer("b")]
    board = a_board(a_worker(offers=offers, cpu=4), jobs=[a_job(1, "a", cpu=1), a_job(2, "b", cpu=1)], paused=["a"])
    assert [*allocations_of(plan(board, T0))] == [2]
    board.paused = {EVERYTHING: "owner"}
    assert plan(board, T0).placements == []


def test_a_placement_carries_what_the_queue_adds() -> None:
    offer = Offer("q", prefix=(b"nice",), cwd=b"/tmp", env=((b"A", b"1"),))
    made = plan(a_board(a_worker("m", offers=[offer], boot="b7", cpu=1), jobs=[a_job(1, "q", cpu=1)]), T0)
    (_, where), *_ = made.placements
    assert (where.worker, where.boot, where.prefix, where.cwd, where.env) == ("m", "b7", (b"nice",), b"/tmp", offer.env)


def test_a_job_goes_to_the_first_worker_in_touch_where_it_fits() -> None:
    board = a_board(a_worker("a", cpu=1), a_worker("b", cpu=4), a_worker("c", cpu=4), jobs=[a_job(1, cpu=2)])
    assert plan(board, T0).placements[0][1].worker == "b"
    board.set_worker(a_worker("b", cpu=4), online=False, now=T0)
    assert plan(board, T0).placements[0][1].worker == "c"


def test_a_plan_is_cut_at_its_limit_and_keeps_the_heads_it_did_not_reach() -> None:
    board = a_board(a_worker(cpu=PLACEMENTS_MAX + 1, gpu=1, offers=[Offer("a"), Offer("b")]))
    board.put(a_job(1, "b", state=State.RUNNING, placement=a_placement("w", {"gpu": {"0": ONE}})))
    board.put(a_job(2, "b", gpu=1))
    apply(board, plan(board, T0))
    for job_id in range(10, 11 + PLACEMENTS_MAX):
        board.put(a_job(job_id, "a", priority=40, cpu=1))
    board.heads |= {"a": Head(10, T0)}
    made = plan(board, T0 + 5)
    assert made.more and len(made.placements) == PLACEMENTS_MAX
    assert made.heads == {"b": Head(2, T0)}
    apply(board, made)
    assert not plan(board, T0 + 6).more


def test_jobs_of_one_shape_are_those_with_equal_request_and_queue() -> None:
    assert shape_of(a_job(1, "a", gpu=0.5, cpu=1)) == shape_of(a_job(2, "a", cpu="1.0", gpu=".5", priority=40))
    assert shape_of(a_job(1, "a", gpu=0.5)) != shape_of(a_job(2, "b", gpu=0.5))


# Who may run what.


@settings(max_examples=150)
@given(boards(any_patience), st.booleans())
def test_nothing_starts_while_workers_must_speak_first(board: Board, restored: bool) -> None:
    if restored:
        board.unreconciled = {"w0"}
    else:
        board.awaited, board.awaited_until = {"w0"}, T0 + 1
    held = plan(board, T0)
    assert held.placements == [] and held.heads == board.heads and not held.more
    board.unreconciled = set()
    before, after = plan(board, T0), plan(board, T0 + 1)
    assert restored or not before.placements
    board.awaited = set()
    assert plan(board, T0 + 1) == after


@given(st.sampled_from(CONSTRAINTS), workers(), st.sampled_from(REQUESTS))
def test_what_can_never_run_is_told_exactly_when_no_worker_would_take_it_empty(
    constraints: Constraints, infos: list[WorkerInfo], request: Request
) -> None:
    board = a_board(*infos)
    job = with_constraints(a_job(1, "a", request=request), constraints)
    possible = [
        worker
        for worker in board.offering("a")
        if admits(worker, job) and not isinstance(fit(request, worker.free_view("a")), Shortage)
    ]
    never = never_fits(board, "a", request, constraints)
    named = constraints.worker is None or constraints.worker in board.workers
    assert (never is None) == (bool(possible) or (named and not [*board.offering("a")]))


def test_jobs_of_one_request_but_other_terms_do_not_stand_in_each_others_way() -> None:
    board = a_board(a_worker("a", cpu=1), replace(a_worker("b", cpu=1), labels=("big",)))
    board.put(a_job(1, cpu=1))
    apply(board, plan(board, T0))
    board.put(with_constraints(a_job(2, cpu=1), Constraints(worker="a")))
    board.put(with_constraints(a_job(3, cpu=1), Constraints(labels=("big",))))
    assert len([*board.shapes()]) == 2
    made = plan(board, T0)
    assert [(job_id, placement.worker) for job_id, placement in made.placements] == [(3, "b")]
    assert made.heads["default"].job == 2 and made.heads["default"].passed == 0, "b could never have run it"


def test_only_what_may_start_elsewhere_on_another_machine_has_a_lease() -> None:
    board = Board(lease_s=60.0, roles=in_process("here"))
    for name in ("here", "there"):
        board.set_worker(a_worker(name, cpu=2), online=True, now=T0)
    for job_id, (worker, on_lost) in enumerate(
        [("here", "requeue"), ("here", "fail"), ("there", "requeue"), ("there", "fail")], start=1
    ):
        job = a_job(job_id, cpu=1, on_lost=on_lost)  # type: ignore[arg-type]
        board.put(with_constraints(job, Constraints(worker=worker)))
    leases = {job_id: leased(board.jobs[job_id], where).lease_s for job_id, where in plan(board, T0).placements}
    assert leases == {1: None, 2: None, 3: 60.0, 4: None}
