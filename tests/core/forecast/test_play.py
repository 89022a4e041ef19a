"""The queue played forward is what the broker's planner does with the same run times."""

from __future__ import annotations

from heapq import heappop, heappush

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_placement, a_request, a_worker, an_offer, finish

from grassq.core.forecast.play import play
from grassq.core.forecast.scene import Scene, first_queued, picture
from grassq.core.model import ForTime, Job, Outcome, State, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.plan import plan
from grassq.core.resources.amounts import Allocation
from grassq.core.states import Exited, Place, Started, advance

WALL = 1_700_000_000.0


def scene_of(board: Board, now: float = T0, most: int = 400) -> Scene:
    return picture(board, now, WALL, [board.jobs[id_] for id_ in first_queued(board, most)])


def really(board: Board, lasts: dict[int, int]) -> dict[int, float]:
    """When each job starts if the broker plans after every start and every end, and each job lasts this long."""
    now = T0
    starts: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    while True:
        while (made := plan(board, now)).placements:
            for job_id, where in made.placements:
                placed = advance(board.jobs[job_id], Place(where), now)
                board.put(placed)
                board.put(advance(placed, Started(placed.attempt, 1), now))
                starts[job_id] = now
                heappush(ends, (now + lasts[job_id], job_id))
            board.heads, board.kept = made.heads, made.kept
        board.heads, board.kept = made.heads, made.kept
        ripe = [head.since + board.patience.wait_s for head in board.heads.values()]
        later = [at for at in (*ripe, *(at for at, _ in ends[:1])) if at > now]
        if not later:
            return starts
        now = min(later)
        while ends and ends[0][0] <= now:
            job = board.jobs[heappop(ends)[1]]
            board.put(advance(job, Exited(job.attempt, Outcome.EXITED, code=0), now))


REQUESTS = [
    a_request(gpu=1),
    a_request(gpu=0.5),
    a_request(gpu=0.25, cpu=1),
    a_request(gpu=2),
    a_request(cpu=2),
    a_request(vram=6),
    a_request(gpu=1, vram=12),
]
MACHINES = [
    [a_worker(gpu=2, cpu=4, offers=[an_offer("a"), an_offer("b", gpu=1)])],
    [
        a_worker("v", gpu={"0": {"vram": 16}}, cpu=2, offers=[an_offer("a"), an_offer("b")]),
        a_worker("w", gpu={"0": {"vram": 8}, "1": {"vram": 16}}, cpu=3, offers=[an_offer("b")]),
    ],
]
JOBS = st.lists(
    st.tuples(st.sampled_from(REQUESTS), st.sampled_from("ab"), st.sampled_from((20, 30, 40)), st.integers(1, 900)),
    min_size=1,
    max_size=25,
)


def fits(board: Board, job: Job) -> bool:
    return any(
        worker.max_fit(job.spec.queue, tuple(n for n, _ in job.spec.request)).holds(job.spec.request)
        for worker in board.offering(job.spec.queue)
    )


@settings(deadline=None)
@given(st.sampled_from(MACHINES), JOBS, st.sampled_from([ReservationPolicy(3, 100.0), ReservationPolicy()]))
def test_with_known_run_times_the_starts_are_those_of_the_broker(
    machines: list[WorkerInfo], asked: list[tuple[object, str, int, int]], patience: ReservationPolicy
) -> None:
    jobs = [a_job(i, queue, request=request, priority=p) for i, (request, queue, p, _) in enumerate(asked, 1)]  # type: ignore[arg-type]
    empty = a_board(*machines)
    jobs = [job for job in jobs if fits(empty, job)]
    lasts = {i: run for i, (*_, run) in enumerate(asked, 1)}
    board = a_board(*machines, jobs=jobs, patience=patience)
    played = play(scene_of(board), lambda job: float(lasts[job.id]))
    assert played.broken_off is None
    assert played.starts == really(board, lasts)
    assert played.ends == {id_: at + lasts[id_] for id_, at in played.starts.items()}


@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(1, 4))
def test_one_device_more_never_makes_equal_jobs_in_one_line_end_later(runs: list[int], devices: int) -> None:
    jobs = [a_job(i, gpu=1) for i in range(1, len(runs) + 1)]

    def ends(count: int) -> dict[int, float]:
        return play(scene_of(a_board(a_worker(gpu=count), jobs=jobs)), lambda job: float(runs[job.id - 1])).ends

    fewer, more = ends(devices), ends(devices + 1)
    assert all(more[id_] <= fewer[id_] for id_ in fewer)


def test_a_running_job_ends_after_what_is_left_of_its_run_time() -> None:
    running = replace(
        a_job(1, state=State.RUNNING, gpu=1, placement=a_placement(allocation={"gpu": {"0": 1_000_000}})),
        started=WALL - 40.0,
    )
    board = a_board(a_worker(gpu=1), jobs=[running, a_job(2, gpu=1)])
    played = play(scene_of(board), lambda job: 100.0)
    assert (played.starts, played.ends) == ({1: T0 - 40.0, 2: T0 + 60.0}, {1: T0 + 60.0, 2: T0 + 160.0})


def test_a_job_behind_a_running_one_starts_when_that_one_ends() -> None:
    held: Allocation = {"gpu": {"0": 1_000_000}}
    first = replace(a_job(1, state=State.RUNNING, gpu=1, placement=a_placement(allocation=held)), started=WALL)
    second = a_job(2, state=State.PLACED, gpu=1, placement=replace(a_placement(allocation=held), after=(1, 1)))
    board = a_board(a_worker(gpu=1), jobs=[first, second])
    assert play(scene_of(board), lambda job: 5.0).starts == {1: T0, 2: T0 + 5.0}


def test_a_job_that_waits_for_a_time_comes_at_that_time() -> None:
    timed = replace(a_job(1, gpu=1, state=State.WAITING), waits=(ForTime(WALL + 30.0),))
    played = play(scene_of(a_board(a_worker(gpu=1), jobs=[timed])), lambda job: 5.0)
    assert played.starts == {1: T0 + 30.0}


def test_jobs_behind_the_played_ones_start_at_the_rate_of_the_play() -> None:
    board = a_board(a_worker(gpu=2), jobs=[a_job(i, gpu=1) for i in range(1, 1001)])
    scene = scene_of(board, most=100)
    assert sum(scene.behind.values()) == 900
    played = play(scene, lambda job: 10.0)
    [shape] = scene.behind
    start = played.start_behind(shape, 899)
    assert start is not None and abs(start - (T0 + 4990.0)) < 150.0


def test_a_scene_has_jobs_of_every_shape_however_long_the_first_line_is() -> None:
    jobs = [a_job(i, "a", gpu=1) for i in range(1, 501)] + [a_job(i, "b", cpu=1) for i in range(501, 503)]
    board = a_board(a_worker(gpu=1, cpu=1, offers=[an_offer("a"), an_offer("b")]), jobs=jobs)
    ids = first_queued(board, 50)
    assert len(ids) == 50 and {501, 502} <= {*ids}


def test_a_silent_worker_ends_nothing_and_a_drained_one_starts_nothing() -> None:
    board = a_board(a_worker("v", gpu=1), a_worker("w", gpu=1), jobs=[a_job(i, gpu=1) for i in (1, 2)])
    for job_id, where in plan(board, T0).placements:
        board.put(replace(board.jobs[job_id], state=State.RUNNING, placement=where, attempt=1, started=WALL))
    board.put(a_job(3, gpu=1))
    board.lose_touch("v", T0, T0)
    board.workers["w"].drained = True
    played = play(scene_of(board), lambda job: 5.0)
    assert played.starts.keys() == {1, 2}
    finish(board, 2)
    board.workers["w"].drained = False
    assert play(scene_of(board), lambda job: 5.0).starts[3] == T0
