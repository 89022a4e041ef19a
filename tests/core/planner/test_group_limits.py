"""Limits of groups: never exceeded, and nobody within a limit waits for ever."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from bench.packing.machines import Machine
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, an_offer, apply, finish
from tests.core.planner.test_plan import any_patience, boards

from grassq.core.messages import Withdraw
from grassq.core.model import ANYWHERE, AttemptId, Constraints, Job, State
from grassq.core.planner.board import Board
from grassq.core.planner.explain import LIMIT, Outlook, explain
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.limits.groups import GroupLimit, GroupUse, never_within
from grassq.core.planner.plan import plan
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.reconcile import Sent, due
from grassq.core.resources.amounts import ONE

AT_ONCE = ReservationPolicy(0, 0.0)
P = "project:p"


def of(job: Job, *groups: str) -> Job:
    """The same job in these groups."""
    constraints = Constraints(groups=tuple(sorted(groups)) if groups else UNSET)
    return replace(job, spec=replace(job.spec, constraints=constraints))


def go_on(board: Board, now: float = T0) -> list[int]:
    made = plan(board, now)
    apply(board, made, now)
    return [job_id for job_id, _ in made.placements]


def test_a_group_holds_no_more_than_its_limit_and_others_go_on_around_it() -> None:
    board = a_board(a_worker(gpu=8), jobs=[of(a_job(i, gpu=1), P) for i in range(1, 6)])
    board.set_group_limit(P, GroupLimit({"gpu": 2 * ONE}))
    board.put(a_job(6, gpu=3))
    assert go_on(board) == [1, 2, 6]
    assert board.heads == {} == board.kept, "a job that its group limits is no head and keeps nothing"
    (blocker,) = explain(board, board.jobs[3], T0)
    assert blocker.resource == LIMIT and blocker.holders == (1, 2)
    assert blocker.why == "limit project:p gpu=2: 1 gpu needed, 0 left; held by job 1, 2"
    finish(board, 1)
    assert go_on(board) == [3]
    board.set_group_limit(P, None)
    assert go_on(board) == [4, 5]


def test_a_limit_on_jobs_counts_jobs_and_zero_stops_the_group() -> None:
    board = a_board(a_worker(cpu=8), jobs=[of(a_job(i, cpu=1), "sweep:1") for i in range(1, 6)])
    board.set_group_limit("sweep:1", GroupLimit(jobs=2))
    assert go_on(board) == [1, 2]
    (blocker,) = explain(board, board.jobs[3], T0)
    assert blocker.why == "limit sweep:1 jobs=2: 2 of its jobs have started; held by job 1, 2"
    board.set_group_limit("sweep:1", GroupLimit(jobs=0))
    finish(board, 1)
    finish(board, 2)
    assert go_on(board) == []
    assert explain(board, board.jobs[3], T0)[0].why == "limit sweep:1 jobs=0: no job of it starts"
    board.set_group_limit("sweep:1", GroupLimit(jobs=9))
    assert go_on(board) == [3, 4, 5]


def test_a_limit_below_what_is_held_ends_nothing_and_starts_nothing() -> None:
    board = a_board(a_worker(gpu=4), jobs=[of(a_job(i, gpu=1), P) for i in range(1, 5)])
    assert go_on(board) == [1, 2, 3, 4]
    board.set_group_limit(P, GroupLimit({"gpu": 2 * ONE}))
    board.put(of(a_job(5, gpu=1), P))
    for job_id in (1, 2):
        finish(board, job_id)
        assert go_on(board) == []
    assert len(board.holding) == 2
    finish(board, 3)
    assert go_on(board) == [5]


def test_a_large_job_of_a_group_drains_the_limit_instead_of_waiting_behind_small_ones() -> None:
    board = a_board(a_worker(gpu=8), jobs=[of(a_job(i, gpu=1), P) for i in range(1, 4)])
    board.set_group_limit(P, GroupLimit({"gpu": 4 * ONE}))
    board.put(of(a_job(4, gpu=4), P))
    for job_id in range(5, 9):
        board.put(of(a_job(job_id, gpu=1), P))
    board.put(of(a_job(9, cpu=1), P))
    board.set_worker(a_worker(gpu=8, cpu=1), online=True, now=T0)
    assert go_on(board) == [1, 2, 3, 9], "job 9 takes nothing that job 4 lacks"
    (blocker,) = explain(board, board.jobs[5], T0)
    assert blocker.why == (
        "limit project:p gpu=4: what is left is kept for job 4, the next of the group; held by job 1, 2, 3, 9"
    )
    for job_id in (1, 2):
        finish(board, job_id)
        assert go_on(board) == []
    finish(board, 3)
    assert go_on(board) == [4]


def test_a_job_that_can_never_start_does_not_stop_its_group() -> None:
    board = a_board(a_worker(offers=[an_offer("a"), an_offer("b")], gpu=8), paused=["b"])
    board.set_group_limit(P, GroupLimit({"gpu": 4 * ONE}))
    board.set_group_limit("sweep:1", GroupLimit(jobs=0))
    board.put(of(a_job(1, "a", gpu=8), P))
    board.put(of(a_job(2, "b", gpu=4), P))
    board.put(of(a_job(3, "a", gpu=4), P, "sweep:1"))
    board.put(
        replace(
            of(a_job(4, "a", gpu=4), P),
            spec=replace(a_job(4, "a", gpu=4).spec, constraints=Constraints(worker="gone", groups=(P,))),
        )
    )
    board.put(of(a_job(5, "a", gpu=4), P))
    assert go_on(board) == [5]
    assert explain(board, board.jobs[1], T0)[0].why == "limit project:p gpu=4: job asks for 8"
    assert never_within(board, (P,), a_request(gpu=8)) == "limit project:p gpu=4: job asks for 8"
    assert never_within(board, (P, "sweep:1"), a_request(gpu=4, cpu=99)) is None
    board.set_group_limit(P, GroupLimit({"gpu": 4 * ONE, "cpu": ONE}))
    assert never_within(board, (P,), a_request(gpu=1, cpu=2)) == "limit project:p cpu=1 gpu=4: job asks for 2 cpu"


def test_a_job_is_bound_by_every_group_it_is_in() -> None:
    board = a_board(a_worker(gpu=8))
    board.set_group_limit(P, GroupLimit({"gpu": 4 * ONE}))
    board.set_group_limit("tag:team=a", GroupLimit(jobs=1))
    board.put(of(a_job(1, gpu=1), P, "tag:team=a", "tag:other=x"))
    board.put(of(a_job(2, gpu=1), P, "tag:team=a"))
    board.put(of(a_job(3, gpu=3), P))
    board.put(of(a_job(4, gpu=1), P))
    # Job 2 is the next of the project and keeps its part of the limit, though its team stops it.
    assert go_on(board) == [1, 4]
    finish(board, 1)
    assert go_on(board) == [2]
    finish(board, 2)
    finish(board, 4)
    assert go_on(board) == [3]


def test_what_is_held_is_counted_again_from_the_jobs() -> None:
    board = a_board(a_worker(gpu=8), jobs=[of(a_job(i, gpu=1), P) for i in range(1, 4)])
    go_on(board)
    board.set_group_limit(P, GroupLimit({"gpu": 4 * ONE}))
    again = Board()
    again.set_group_limit(P, GroupLimit({"gpu": 4 * ONE}))
    for job in board.jobs.values():
        again.put(job)
    again.set_worker(a_worker(gpu=8), online=True, now=T0)
    again.set_worker(a_worker(gpu=9), online=True, now=T0)
    assert again.groups.use == board.groups.use == {P: GroupUse(3, {"gpu": 3 * ONE})}


def a_pacing_board(limit: GroupLimit) -> Board:
    """A board whose jobs are all short, with two gpus and a group."""
    board = Board(prefetch_policy=PrefetchPolicy(runs=1))
    board.set_worker(replace(a_worker(gpu=2), follows=True), online=True, now=T0)
    board.set_group_limit(P, limit)
    return board


def test_a_job_is_prefetched_within_a_limit_only_behind_a_job_that_holds_as_much_of_it() -> None:
    board = a_pacing_board(GroupLimit(jobs=1))
    for job in (a_job(1, gpu=1), of(a_job(2, gpu=1), P), of(a_job(3, gpu=1), P), of(a_job(4, gpu=1), P)):
        board.put(job)
        if job.id > 1:
            board.prefetch.note_duration(job, 0.0)
    assert go_on(board) == [1, 2]
    assert go_on(board) == [3]
    where = board.holding[3].placement
    assert where is not None and where.after == (2, 1) and board.groups.use[P].jobs == 1
    finish(board, 2)
    assert board.groups.use[P].jobs == 1 and board.predecessor(board.holding[3]) is None
    # The limit is taken away: what waits behind another job is withdrawn.
    assert go_on(board) == [4]
    sent: dict[AttemptId, Sent] = {}
    board.set_group_limit(P, GroupLimit(jobs=0))
    orders = [told.order for _, told in due(board, "w", sent, T0)]
    assert [order for order in orders if isinstance(order, Withdraw)] == [Withdraw(4, 1, "boot-1")]


def test_nobody_is_prefetched_in_a_group_above_its_limit() -> None:
    board = a_pacing_board(GroupLimit(jobs=2))
    for job in (of(a_job(id_, gpu=1), P) for id_ in (1, 2, 3)):
        board.put(job)
        board.prefetch.note_duration(job, 0.0)
    board.set_group_limit(P, GroupLimit(jobs=2))
    first = plan(board, T0)
    apply(board, replace(first, placements=[each for each in first.placements if each[0] < 3]))
    board.set_group_limit(P, GroupLimit(jobs=1))
    assert go_on(board) == [], "when one of the two jobs ends, the other one fills the limit"
    finish(board, 2)
    assert go_on(board) == [3]
    where = board.holding[3].placement
    assert where is not None and where.after == (1, 1)


GROUPS = ("project:p", "project:q", "tag:a=b", "sweep:1")
ASKED = [
    *(a_request(gpu=n / 2) for n in (1, 1, 2, 2, 3, 4, 6)),
    a_request(cpu=1),
    a_request(cpu=3),
    a_request(cpu=2, gpu=1),
]
LIMITS = [
    GroupLimit({"gpu": ONE}),
    GroupLimit({"gpu": 2 * ONE}),
    GroupLimit({"gpu": 3 * ONE, "cpu": 2 * ONE}),
    GroupLimit(jobs=1),
    GroupLimit(jobs=2),
    GroupLimit({"cpu": 3 * ONE}, jobs=3),
]


def held_in(board: Board, name: str) -> GroupUse:
    """What a group holds, counted from the jobs alone."""
    use = GroupUse()
    for job in board.holding.values():
        groups = job.spec.constraints.groups
        if groups is not UNSET and name in groups and board.predecessor(job) is None:
            use.add(job.spec.request, 1)
    return use


def check_limits(board: Board) -> None:
    for name, limit in board.group_limits.items():
        use = held_in(board, name)
        assert not use.exceeds(limit), name
        mine = board.groups.use[name]
        assert (mine.jobs, {n: a for n, a in mine.amounts.items() if a}) == (
            use.jobs,
            {n: a for n, a in use.amounts.items() if a},
        )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Board, list[Job]]:
    """One or two machines, limits of some groups, and jobs that could all start one day."""
    policy = PrefetchPolicy(runs=1) if draw(st.booleans()) else None
    patience = ReservationPolicy(draw(st.sampled_from([0, 2, 10**9])), draw(st.sampled_from([0.0, 5.0])))
    board = Board(patience=patience, prefetch_policy=policy)
    for name in ("w", "v")[: draw(st.integers(1, 2))]:
        info = a_worker(name, offers=[an_offer("a"), an_offer("b", gpu=2)], gpu=3, cpu=4)
        board.set_worker(replace(info, follows=True), online=True, now=T0)
    for name in draw(st.lists(st.sampled_from(GROUPS), unique=True, min_size=1)):
        board.set_group_limit(name, draw(st.sampled_from(LIMITS)))
    jobs, asked = [], draw(st.sampled_from([ASKED, ASKED, [a_request(gpu=1)]]))
    for job_id in range(1, draw(st.integers(2, 18))):
        groups = draw(st.lists(st.sampled_from(GROUPS), unique=True, max_size=2))
        request = draw(st.sampled_from(asked))
        job = of(
            a_job(job_id, draw(st.sampled_from("ab")), request=request, priority=draw(st.sampled_from([30, 30, 31]))),
            *groups,
        )
        fits = any(
            worker.max_fit(job.spec.queue, tuple(n for n, _ in request)).holds(request)
            for worker in board.workers.values()
        )
        if fits and never_within(board, groups, request) is None:
            jobs.append(job)
    return board, jobs


def check_devices(board: Board) -> None:
    """No device is given twice; the referee raises an error."""
    machines = {name: Machine(name, worker.info.given) for name, worker in board.workers.items()}
    for job in board.holding.values():
        if job.placement is not None and board.predecessor(job) is None:
            machines[job.placement.worker].take(job.placement.allocation)


def check_explain(board: Board, started: set[int], now: float) -> None:
    """The first job of each shape starts, or it is said why not."""
    outlook = Outlook(board, now)
    for _, line in board.shapes():
        job = board.jobs[board.id_at(line.first)]
        assert not (job.id in started and outlook.explain(job))
        assert started or outlook.explain(job)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 2**32))
def test_no_limit_is_exceeded_and_every_job_within_the_limits_starts(world: tuple[Board, list[Job]], seed: int) -> None:
    board, jobs = world
    random, now, coming, prefetched = Random(seed), T0, [*jobs], 0
    for _ in range(40 * len(jobs) + 40):
        now += 1
        if not coming and not board.jobs:
            break
        if coming and random.random() < 0.9:
            job = coming.pop(0)
            board.put(job, at=now)
            board.prefetch.note_duration(job, 0.0)
        own = [job for job in board.holding.values() if board.predecessor(job) is None]
        if own and (random.random() < 0.4 or not coming):
            finish(board, random.choice(own).id, now)
            check_limits(board)
        for _ in range(2):
            made = plan(board, now)
            if random.random() < 0.1:
                check_explain(board, {job_id for job_id, where in made.placements if where.after is None}, now)
            apply(board, made, now)
            prefetched += sum(where.after is not None for _, where in made.placements)
            check_limits(board)
            check_devices(board)
    assert not board.jobs, "every job has started and ended"
    event(f"prefetched: {min(prefetched, 2)}")


@settings(max_examples=50, deadline=None)
@given(boards(any_patience), st.sampled_from([T0, T0 + 60]), st.sampled_from([{}, {"tag:x=y": GroupLimit(jobs=0)}]))
def test_without_a_limit_that_binds_a_plan_is_what_it_was(
    board: Board, now: float, limits: dict[str, GroupLimit]
) -> None:
    before = plan(board, now)
    for job in [*board.jobs.values()]:
        if job.state is State.QUEUED and job.spec.constraints == ANYWHERE:
            board.put(of(job, P))
    board.set_group_limit(P, GroupLimit({"gpu": 99 * ONE, "cpu": 99 * ONE}, jobs=99))
    for name, limit in limits.items():
        board.set_group_limit(name, limit)
    assert plan(board, now).placements == before.placements
    board.set_group_limit(P, None)
    after = plan(board, now)
    assert (after.placements, after.heads) == (before.placements, before.heads)


@settings(max_examples=25, deadline=None)
@given(worlds(), st.integers(0, 2**32))
def test_tags_without_a_limit_change_nothing_in_any_plan(world: tuple[Board, list[Job]], seed: int) -> None:
    plain, jobs = world
    tagged, random, now = deepcopy(plain), Random(seed), T0
    limits = dict(plain.group_limits)
    for job in jobs:
        groups = job.spec.constraints.groups
        plain.put(job)
        tagged.put(of(job, *(() if groups is UNSET else groups), *random.sample(["tag:s=1", f"tag:n={job.id}"], 1)))
    for _ in range(2 * len(jobs) + 2):
        now += 1
        name = random.choice(GROUPS)
        limit = limits.get(name) if random.random() < 0.8 else None
        for board in (plain, tagged):
            board.set_group_limit(name, limit)
        made, same = plan(plain, now), plan(tagged, now)
        assert (same.placements, same.heads, same.kept) == (made.placements, made.heads, made.kept)
        assert sum(bool(each.count) for each in tagged.request_classes()) == sum(
            bool(each.count) for each in plain.request_classes()
        )
        apply(plain, made, now)
        apply(tagged, same, now)
        own = [job.id for job in plain.holding.values() if plain.predecessor(job) is None]
        if own:
            ended = random.choice(own)
            finish(plain, ended, now)
            finish(tagged, ended, now)


def test_a_tag_of_its_own_for_each_job_makes_no_request_class_of_its_own() -> None:
    seeds = [of(a_job(i, gpu=1), f"tag:seed={i}") for i in range(1, 2001)]
    board = a_board(a_worker(gpu=1), jobs=seeds)
    assert len([*board.request_classes()]) == 1
    board.set_group_limit("tag:seed=1", GroupLimit(jobs=0))
    assert [each.count for each in board.request_classes()] == [1999, 1]
    assert go_on(board) == [2]
    board.set_group_limit("tag:seed=1", None)
    finish(board, 2)
    assert go_on(board) == [1] and len([*board.request_classes()]) == 1


def test_outlook_answers_for_jobs_behind_those_that_the_next_plan_starts() -> None:
    board = a_board(a_worker(gpu=8), jobs=[of(a_job(i, gpu=1), P) for i in range(1, 4)])
    board.set_group_limit(P, GroupLimit({"gpu": ONE}))
    outlook = Outlook(board, T0)
    assert outlook.explain(board.jobs[1]) == []
    assert [blocker.resource for blocker in outlook.explain(board.jobs[3])] == [LIMIT]
