"""Backfill: a job that ends in time uses what is kept for a head, and the head starts no later."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from bench.packing.machines import Machine
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_request, a_worker, an_offer, finish

from grassq.core.model import Constraints, Job, Offer, State, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.explain import Outlook
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.kept_room import KeptRoom
from grassq.core.planner.limits.known_starts import STARTS_WITHIN_S
from grassq.core.planner.overlay import Overlay
from grassq.core.planner.plan import Plan, adopt, plan
from grassq.core.resources.amounts import Request
from grassq.core.states import Cancel, Place, Started, Stuck, advance
from grassq.core.suspension.events import Suspend

AT_ONCE = ReservationPolicy(0, 0.0)
GRACE_S = 10.0
#: How often the rest of a play is played again without backfill.
FORKS_MAX = 3


def limited(job: Job, limit_s: float | None, *, files: bool = False) -> Job:
    """A job with a time limit, as a submission makes it."""
    constraints = Constraints(lasts_s=UNSET if limit_s is None else limit_s + GRACE_S, files=True if files else UNSET)
    return replace(job, spec=replace(job.spec, constraints=constraints, time_limit_s=limit_s, grace_s=GRACE_S))


def place(board: Board, made: Plan, now: float) -> list[int]:
    """Place what a plan says, each with its time limit, and let it start."""
    for job_id, where in made.placements:
        job = board.jobs[job_id]
        placed = advance(job, Place(replace(where, time_limit_s=job.spec.time_limit_s)), now)
        board.put(placed, at=now)
        board.put(advance(placed, Started(placed.attempt, 7), now), at=now)
    adopt(board, made)
    return [job_id for job_id, _ in made.placements]


def go_on(board: Board, now: float) -> list[int]:
    return place(board, plan(board, now), now)


def a_busy_board(holder_limit_s: float | None = 1000.0) -> Board:
    """A machine with two gpus: job 1 holds one of them, and job 2 waits for both and keeps the other."""
    board = a_board(a_worker(gpu=2), jobs=[limited(a_job(1, gpu=1), holder_limit_s)], patience=AT_ONCE)
    assert go_on(board, T0) == [1]
    board.put(a_job(2, gpu=2))
    assert go_on(board, T0) == []
    return board


def test_no_job_passes_where_the_supervisor_of_a_holder_is_gone_and_its_limit_with_it() -> None:
    board = a_busy_board()
    board.put(advance(board.holding[1], Stuck(1, "supervisor gone"), T0))
    board.put(limited(a_job(3, gpu=1), 900.0))
    assert go_on(board, T0) == []


def test_a_job_that_ends_in_time_uses_what_is_kept_and_others_do_not() -> None:
    for limit_s, passes in ((900.0, True), (1000.0 - GRACE_S - STARTS_WITHIN_S, True), (990.0, False), (None, False)):
        board = a_busy_board()
        board.put(limited(a_job(3, gpu=1), limit_s))
        made = plan(board, T0)
        assert ([job_id for job_id, _ in made.placements] == [3]) is passes, limit_s
        assert (made.backfilled == {3}) is passes
        assert (Outlook(board, T0).explain(board.jobs[3]) == []) is passes


def test_time_that_passes_leaves_less_of_it() -> None:
    board = a_busy_board()
    board.put(limited(a_job(3, gpu=1), 500.0))
    assert plan(board, T0 + 600).placements == [] != plan(board, T0 + 400).placements


def test_nobody_passes_where_the_end_of_a_holder_is_not_known() -> None:
    board = a_busy_board(holder_limit_s=None)
    board.put(limited(a_job(3, gpu=1), 10.0))
    assert go_on(board, T0) == []
    # A broker that has just begun did not see when the attempt was placed.
    board = a_busy_board()
    reloaded = a_board(a_worker(gpu=2), jobs=board.jobs.values(), patience=AT_ONCE)
    adopt(reloaded, plan(reloaded, T0))
    reloaded.put(limited(a_job(3, gpu=1), 10.0))
    assert go_on(reloaded, T0) == []
    # The time in which a job is suspended does not count for its limit, and how long that is nobody knows.
    board = a_busy_board()
    board.put(advance(board.jobs[1], Suspend(), T0), at=T0)
    board.put(limited(a_job(3, gpu=1), 10.0))
    assert go_on(board, T0) == []
    # A job that was killed ends any moment.
    board = a_busy_board()
    board.put(advance(board.jobs[1], Cancel(), T0), at=T0)
    board.put(limited(a_job(3, gpu=1), 10.0))
    assert go_on(board, T0) == []


def test_a_job_that_has_to_send_files_first_does_not_pass() -> None:
    board = a_busy_board()
    board.put(limited(a_job(3, gpu=1), 10.0, files=True))
    board.workers["w"].info = replace(board.workers["w"].info, takes_files=True)
    assert go_on(board, T0) == []


def test_room_that_is_not_kept_is_preferred() -> None:
    board = a_board(a_worker(gpu=3), jobs=[limited(a_job(1, gpu=1), 1000.0)], patience=AT_ONCE)
    board.put(a_job(2, queue="default", gpu=3))
    go_on(board, T0)
    board.put(limited(a_job(3, gpu=1), 500.0))
    made = plan(board, T0)
    assert made.backfilled == {3}, "all three gpus are kept"
    other = a_board(a_worker("a", gpu=2), a_worker("b", gpu=1), patience=AT_ONCE)
    other.put(limited(a_job(1, gpu=1), 1000.0))
    other.put(a_job(2, gpu=2))
    go_on(other, T0)
    other.put(limited(a_job(3, gpu=1), 500.0))
    made = plan(other, T0)
    assert made.placements[0][1].worker == "a" and made.backfilled == {3}, "workers are asked in their order"


def test_what_is_kept_stays_where_it_was_when_a_job_passes() -> None:
    a, b = a_worker("a", gpu=2), a_worker("b", offers=[an_offer(), an_offer("b")], gpu=2)
    board = a_board(a, b, patience=AT_ONCE)
    jobs = [limited(a_job(1, gpu=1), 1000.0), limited(a_job(2, "b", gpu=1.5), 1000.0)]
    for job in jobs:
        board.put(job)
    go_on(board, T0)
    assert board.holding[1].placement is not None and board.holding[1].placement.worker == "a"
    board.put(a_job(3, gpu=2))
    assert go_on(board, T0) == go_on(board, T0) == []
    assert board.kept[3].worker == "a"
    board.put(limited(a_job(4, gpu=1), 500.0))
    assert go_on(board, T0) == [4]
    go_on(board, T0 + 1)
    assert board.kept[3].worker == "a", "without job 4 it lacks one gpu on a, and one and a half on b"
    finish(board, 4)
    assert board.times.backfilled == set()


def test_explain_says_when_the_job_that_keeps_room_starts_at_the_latest() -> None:
    board = a_busy_board()
    board.put(a_job(3, gpu=1))
    (blocker,) = Outlook(board, T0 + 9).explain(board.jobs[3])
    assert blocker.why == "gpu is free but kept for job 2, which has waited longer"
    assert blocker.starts_by == T0 + 1000 + GRACE_S
    assert Outlook(board, T0 + 9).turn(board.jobs[2]).starts_by == T0 + 1000 + GRACE_S, "the job itself is told too"
    board = a_busy_board(holder_limit_s=None)
    board.put(a_job(3, gpu=1))
    (blocker,) = Outlook(board, T0 + 9).explain(board.jobs[3])
    assert blocker.starts_by is None
    assert Outlook(board, T0 + 9).turn(board.jobs[2]).starts_by is None


def test_where_a_holder_ends_early_the_head_waits_no_longer_than_it_was_told() -> None:
    """What backfill costs: without it job 2 would start at once."""
    board = a_busy_board()
    board.put(limited(a_job(3, gpu=1), 900.0))
    assert go_on(board, T0) == [3]
    finish(board, 1)
    board.put(limited(a_job(4, gpu=1), 800.0))
    assert go_on(board, T0 + 10) == [4], "job 2 could not start before job 3 has ended"
    board.put(limited(a_job(5, gpu=1), 895.0))
    finish(board, 4)
    assert go_on(board, T0 + 20) == [], "and the time never grows"
    finish(board, 3)
    assert go_on(board, T0 + 900) == [2]


class Want(NamedTuple):
    """A job that comes: when, where, what it asks for, its limit, and how long it really runs."""

    at: int
    queue: str
    request: Request
    limit_s: int | None
    run: int
    priority: int = 30


class World:
    """A machine, or two, on a virtual clock; a referee raises an error if a device is given twice."""

    def __init__(self, infos: list[WorkerInfo], wants: list[Want], patience: ReservationPolicy) -> None:
        self.board = a_board(*infos, patience=patience)
        self.machines = {info.name: Machine(info.name, info.given) for info in infos}
        self.wants = dict(enumerate(wants, 1))
        self.ends: dict[int, float] = {}
        self.starts: dict[int, float] = {}
        self.come: set[int] = set()
        self.now = T0
        #: By job: when it was first in line and its start known, and the least that was known of its latest start.
        self.told: dict[int, float] = {}
        #: The first in line that was passed while its start was known, and the world as it was then.
        self.passed: list[tuple[int, World]] = []
        self.backfilled = 0
        self.listens = self.forks = False

    def play(self) -> None:
        """Play until every job has ended."""
        now, coming = self.now, [job_id for job_id in self.wants if job_id not in self.come]
        while coming or self.ends or self.board.positions:
            while self.decide(now):
                pass
            heads = [head.since + self.board.patience.wait_s for head in self.board.heads.values()]
            times = [*(T0 + self.wants[job_id].at for job_id in coming[:1]), *self.ends.values(), *heads]
            later = [at for at in times if at > now]
            assert later or (coming and T0 + self.wants[coming[0]].at <= now), "something waits for ever"
            now = now if coming and T0 + self.wants[coming[0]].at <= now else min(later)
            for job_id in [job_id for job_id, end in self.ends.items() if end <= now]:
                where = self.board.holding[job_id].placement
                assert where is not None
                self.machines[where.worker].give(where.allocation)
                finish(self.board, job_id, now)
                del self.ends[job_id]
            while coming and T0 + self.wants[coming[0]].at <= now:
                job_id = coming.pop(0)
                self.come.add(job_id)
                want = self.wants[job_id]
                job = a_job(job_id, want.queue, request=want.request, priority=want.priority)
                self.board.put(limited(job, want.limit_s), at=now)
            self.now = now

    def decide(self, now: float) -> bool:
        """Make one plan."""
        made = plan(self.board, now)
        if self.listens or (self.forks and made.backfilled and len(self.passed) < FORKS_MAX):
            first = self.listen(now)
            if self.forks and first is not None:
                self.forks = False
                self.passed.append((first, deepcopy(self)))
                self.forks = True
        for job_id, where in made.placements:
            self.machines[where.worker].take(where.allocation)
            self.starts[job_id], self.ends[job_id] = now, now + self.wants[job_id].run
        self.backfilled += len(made.backfilled)
        place(self.board, made, now)
        return bool(made.placements)

    def listen(self, now: float) -> int | None:
        """Note what is known of the start of the first in line; return its id if something is."""
        if not self.board.positions:
            return None
        room = KeptRoom(self.board, Overlay(), now)
        room.reach(self.board.positions.last)
        first, order = self.board.id_at(self.board.positions.first), self.board.positions.first
        known = next(
            (start for each in room.reservations if each.order == order and (start := room.known_start(each))), None
        )
        if known is None:
            return None
        self.told[first] = min(self.told.get(first, known.latest), known.latest)
        return first


ASKED = [
    *(a_request(gpu=n) for n in (0.25, 0.5, 1, 1, 1.5, 2, 3)),
    *(a_request(cpu=n) for n in (1, 3)),
    a_request(gpu=1, cpu=2),
    a_request(gpu=2, cpu=4),
    a_request(vram=4),
    a_request(gpu=1, vram=16),
]
GIVEN: list[dict[str, Any]] = [{"gpu": 3, "cpu": 4}, {"gpu": {str(i): {"vram": 16} for i in range(3)}, "cpu": 4}]


def wants_of(random: Random, count: int, *, exact: bool, priorities: bool = False) -> list[Want]:
    """Jobs that come one after the other; most have a limit, and none runs longer than its limit."""
    found = []
    for _ in range(count):
        limit_s = random.choice([20, 60, 200, 600]) if random.random() < 0.92 else None
        run = random.randint(1, 300) if limit_s is None else limit_s if exact else random.randint(1, limit_s)
        priority = random.choice([20, 30, 30, 40]) if priorities else 30
        found.append(Want(random.randint(0, 400), random.choice("ab"), random.choice(ASKED), limit_s, run, priority))
    return sorted(found, key=lambda want: want.at)


def a_world(random: Random, wants: list[Want], offers: list[Offer], *, workers: int, backfills: bool) -> World:
    given = GIVEN[random.randrange(2)]
    infos = [a_worker(f"w{i}", offers=offers, **given) for i in range(workers)]
    board = a_board(*infos)
    fit = [
        want
        for want in wants
        if any(
            w.max_fit(want.queue, tuple(n for n, _ in want.request)).holds(want.request) for w in board.workers.values()
        )
    ]
    patience = ReservationPolicy(random.choice([0, 2]), random.choice([0.0, 30.0]), backfills)
    return World(infos, fit, patience)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, list[Offer]]:
    offers = [an_offer("a"), draw(st.sampled_from([an_offer("b"), an_offer("b"), an_offer("b", gpu=1)]))]
    return draw(st.integers(0, 2**32)), draw(st.integers(4, 14)), offers


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_first_in_line_starts_no_later_where_jobs_use_up_their_limits(case: tuple[int, int, list[Offer]]) -> None:
    """Whenever a job passes the first in line, the rest is played again by the planner without backfill."""
    seed, count, offers = case
    random = Random(seed)
    mine = a_world(random, wants_of(random, count, exact=True), offers, workers=1, backfills=True)
    mine.forks = True
    mine.play()
    assert {*mine.starts} == {*mine.wants}
    event(f"backfilled: {min(mine.backfilled, 3)}, passed: {len(mine.passed)}")
    for first, without in mine.passed:
        without.board.patience = replace(without.board.patience, backfills=False)
        without.play()
        assert {*without.starts} == {*mine.wants}
        assert mine.starts[first] <= without.starts[first]


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_first_in_line_starts_by_the_time_that_was_told(case: tuple[int, int, list[Offer]]) -> None:
    seed, count, offers = case
    random = Random(seed)
    world = a_world(random, wants_of(random, count, exact=False), offers, workers=1, backfills=True)
    world.listens = True
    world.play()
    event(f"backfilled: {min(world.backfilled, 3)}, told: {min(len(world.told), 3)}")
    for job_id, latest in world.told.items():
        assert world.starts[job_id] <= latest


@settings(max_examples=40, deadline=None)
@given(cases())
def test_with_limits_and_priorities_every_job_starts(case: tuple[int, int, list[Offer]]) -> None:
    """The referee of `World` raises an error if a device is given twice."""
    seed, count, offers = case
    random = Random(seed)
    wants = wants_of(random, count, exact=False, priorities=True)
    world = a_world(random, wants, offers, workers=2, backfills=True)
    world.play()
    assert {*world.starts} == {*world.wants} and not world.board.jobs
    assert not world.board.times.placed and not world.board.times.backfilled


def test_a_job_that_is_queued_has_no_times() -> None:
    board = a_board(a_worker(gpu=1), jobs=[a_job(1, gpu=1)])
    assert go_on(board, T0) == [1] and board.times.placed == {(1, 1): T0} == board.times.started
    board.put(replace(board.jobs[1], state=State.QUEUED, placement=None), at=T0 + 1)
    assert board.times.placed == board.times.started == {}
    assert go_on(board, T0 + 5) == [1] and board.times.placed == {(1, 2): T0 + 5}
