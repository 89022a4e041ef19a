"""What a forecast says of jobs, and what it says where there is no estimate."""

from __future__ import annotations

from math import log

import pytest
from msgspec.structs import replace
from tests.builders import T0, a_board, a_job, a_placement, a_worker, an_offer

from grassq.core.forecast.forecast import Forecast, Interval, forecast
from grassq.core.forecast.history import KINDS_MAX, RUNS_KEPT, RunHistory
from grassq.core.forecast.run_times import times_by_progress
from grassq.core.forecast.scene import first_queued, picture
from grassq.core.forecast.stretch import Stretch
from grassq.core.model import Job, Outcome, State, Suspension
from grassq.core.planner.board import Board

WALL = 1_700_000_000.0
PLAYS = 20


def ended(id: int, seconds: float, *, state: State = State.SUCCEEDED, name: str = "sweep") -> Job:
    outcome = Outcome.CANCELLED if state is State.CANCELLED else Outcome.EXITED
    job = replace(a_job(id, gpu=1), state=state, outcome=outcome, name=name)
    return replace(job, started=WALL - 1e6, finished=WALL - 1e6 + seconds)


def a_history(*seconds: float) -> RunHistory:
    history = RunHistory()
    for number, each in enumerate(seconds, 9000):
        history.add(ended(number, each))
    return history


def running(id: int, device: str, since_s: float) -> Job:
    placement = a_placement(allocation={"gpu": {device: 1_000_000}})
    return replace(a_job(id, state=State.RUNNING, gpu=1, placement=placement), name="sweep", started=WALL - since_s)


def queued(id: int, **more: object) -> Job:
    return replace(a_job(id, gpu=1), name="sweep", **more)


def forecast_of(board: Board, history: RunHistory, stretch: Stretch | None = None) -> Forecast:
    scene = picture(board, T0, WALL, [board.jobs[id_] for id_ in first_queued(board)])
    return forecast(scene, history, lambda plays: plays >= PLAYS, stretch=stretch)


def contains(interval: Interval | None, seconds: float) -> bool:
    assert interval is not None
    return interval.low <= WALL + seconds <= interval.high


def test_a_job_behind_a_running_one_starts_within_an_interval_and_says_on_what_that_rests() -> None:
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 40.0), queued(2)])
    found = forecast_of(board, a_history(*[95.0, 100.0, 105.0] * 4))
    next_one, first = found.of(board.jobs[2]), found.of(board.jobs[1])
    assert contains(next_one.starts, 60.0) and contains(next_one.ends, 160.0) and contains(first.ends, 60.0)
    assert next_one.basis == "12 like runs (same name), 1 running job" and next_one.count == 12
    assert next_one.where is not None and next_one.where.worker == "w"
    over, unknown = found.over([(board.jobs[1], 0), (board.jobs[2], 0), (queued(3, state=State.HELD), 0)])
    assert contains(over, 160.0) and over == found.everything() and unknown == 1


def test_the_time_in_which_a_job_was_suspended_is_neither_learnt_nor_counted() -> None:
    history = RunHistory()
    for number in range(9000, 9012):
        history.add(replace(ended(number, 1000.0), suspended_s=900.0))
    board = a_board(a_worker(gpu=1), jobs=[replace(running(1, "0", 540.0), suspended_s=500.0), queued(2)])
    found = forecast_of(board, history)
    first = found.of(board.jobs[1])
    assert contains(first.ends, 60.0) and contains(found.of(board.jobs[2]).starts, 60.0)
    assert first.starts is not None and first.starts.likely == WALL - 540.0


def test_a_suspended_job_has_no_end_and_one_that_was_told_to_go_on_waits_for_its_devices() -> None:
    history = a_history(*[95.0, 100.0, 105.0] * 4)
    kept = Suspension(5, WALL, confirmed=True, stopped_at=WALL - 30.0)
    board = a_board(a_worker(gpu=1), jobs=[replace(running(1, "0", 40.0), suspension=kept), queued(2)])
    found = forecast_of(board, history)
    assert found.of(board.jobs[1]).why == "no estimate: the job is suspended"
    behind = found.of(board.jobs[2])
    assert (behind.starts, behind.why) == (None, "no estimate: 1 gpu needed, 0 free; job 1 is suspended")
    waits = replace(kept, frees=True, resuming=True)
    jobs = [replace(running(1, "0", 40.0), suspension=waits), running(3, "0", 40.0), queued(2)]
    board = a_board(a_worker(gpu=1), jobs=jobs)
    found = forecast_of(board, history)
    assert contains(found.of(board.jobs[2]).starts, 60.0 + 90.0), "job 1 goes on first, and has run for 10 seconds"


def test_a_forecast_of_the_same_scene_is_the_same() -> None:
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 40.0), queued(2)])
    history = a_history(50.0, 80.0, 120.0)
    assert forecast_of(board, history).of(board.jobs[2]) == forecast_of(board, history).of(board.jobs[2])


def test_without_like_runs_there_is_no_estimate_and_it_says_so() -> None:
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 40.0), queued(2)])
    found = forecast_of(board, RunHistory())
    assert found.of(board.jobs[1]).why == "no estimate yet: no job like it has ended"
    assert found.of(board.jobs[2]).why == "no estimate yet: no job like those that run now has ended"
    assert found.over([(board.jobs[2], 0)]) == (None, 1) and found.everything() is None


def test_jobs_ahead_without_like_runs_are_judged_by_any_job_but_their_end_is_not_told() -> None:
    history = RunHistory()
    history.add(replace(ended(9000, 100.0), name=None, spec=replace(a_job(1, "other").spec, command=(b"x",))))
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 1.0), queued(2)])
    found = forecast_of(board, history).of(board.jobs[2])
    assert (
        found.starts is not None
        and found.ends is None
        and found.why == "no estimate of the end yet: no job like it has ended"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda board: board.paused.update(default="owner"), "no estimate: queue default is paused"),
        (lambda board: board.paused.update({"": "owner"}), "no estimate: everything is paused"),
        (lambda board: board.unreconciled.add("w"), "no estimate: the store was restored from a backup"),
        (lambda board: setattr(board.workers["w"], "drained", True), "no estimate: worker w is drained"),
        (lambda board: board.lose_touch("w", T0, T0), "no estimate: worker w is out of touch"),
    ],
)
def test_what_cannot_start_has_no_estimate_and_a_reason(change: object, why: str) -> None:
    board = a_board(a_worker(gpu=1), jobs=[queued(2)])
    change(board)  # type: ignore[operator]
    found = forecast_of(board, a_history(100.0)).of(board.jobs[2])
    assert found.starts is None and found.why is not None and found.why.startswith(why)


def test_held_blocked_and_ended_jobs_say_so() -> None:
    found = forecast_of(a_board(a_worker(gpu=1)), a_history(100.0))
    assert found.of(queued(5, state=State.HELD)).why == "no estimate: the job is held"
    blocked = replace(a_job(6, state=State.WAITING), reason="no queue 'x'")
    assert found.of(blocked).why == "no estimate: no queue 'x'"
    assert found.of(ended(7, 3.0)).why == "the job has ended (succeeded)"


def test_a_job_far_behind_is_estimated_from_the_throughput() -> None:
    board = a_board(a_worker(gpu=4), jobs=[queued(i) for i in range(1, 3001)])
    found = forecast_of(board, a_history(*[10.0] * 30)).of(queued(3000), 2999)
    assert "estimate from throughput" in found.basis
    assert found.starts is not None and abs(found.starts.likely - WALL - 7500.0) < 750.0


def test_runs_that_were_cancelled_count_as_at_least_so_long_and_lost_ones_not_at_all() -> None:
    plain, cut, lost = a_history(100.0, 100.0), a_history(100.0, 100.0), a_history(100.0, 100.0)
    cut.add(ended(1, 400.0, state=State.CANCELLED))
    lost.add(replace(ended(1, 4000.0, state=State.FAILED), outcome=Outcome.LOST))

    def middle(history: RunHistory) -> float:
        estimate = history.lens().estimate(queued(5))
        assert estimate is not None and estimate.count == 2
        return estimate.times.quantile(0.5)

    assert middle(cut) > middle(plain) == middle(lost)


def test_of_each_kind_the_newest_runs_are_kept_and_the_oldest_kinds_are_forgotten() -> None:
    history = a_history(*[1000.0] * RUNS_KEPT, *[10.0] * RUNS_KEPT)
    estimate = history.lens().estimate(queued(5))
    assert estimate is not None and estimate.count == RUNS_KEPT and log(estimate.times.quantile(0.9)) < log(20.0)
    for number in range(KINDS_MAX):
        history.add(ended(number, 1.0, name=f"other-{number}"))
    assert not history.knows(("sweep", "sweep"))


def test_a_clock_that_was_set_back_makes_no_estimate_before_now() -> None:
    back = replace(ended(9001, 5.0), finished=WALL - 2e6)
    history = a_history(100.0, 90.0)
    history.add(back)
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", -500.0), queued(2)])
    for job in board.jobs.values():
        found = forecast_of(board, history).of(job)
        assert found.ends is not None and WALL <= found.ends.low <= found.ends.likely <= found.ends.high


def test_another_queue_on_another_machine_is_not_behind_a_long_line() -> None:
    offers = [a_worker("v", gpu=1, offers=[an_offer("a")]), a_worker("w", gpu=1, offers=[an_offer("b")])]
    jobs = [replace(a_job(i, "a", gpu=1), name="sweep") for i in range(1, 1001)]
    board = a_board(*offers, jobs=[*jobs, replace(a_job(1001, "b", gpu=1), name="sweep")])
    found = forecast_of(board, a_history(*[60.0] * 20)).of(board.jobs[1001])
    assert found.starts is not None and found.starts.high - WALL < 1.0


def test_intervals_learn_to_hold_what_they_are_meant_to_hold() -> None:
    stretch = Stretch()
    stretch.learn("end", [(0.0, 10.0, 50.0)] * 20)
    assert stretch.ends.high > 2.0 > 1.0 > stretch.ends.low and stretch.starts.high == 1.0
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 1.0)])
    history = a_history(*[90.0, 110.0] * 10)
    plain, wide = (forecast_of(board, history, each).of(board.jobs[1]).ends for each in (None, stretch))
    assert plain is not None and wide is not None and wide.high > plain.high and wide.likely == plain.likely


def test_a_progress_bar_tells_more_than_like_runs() -> None:
    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 100.0)])
    scene = picture(board, T0, WALL, [])
    known = times_by_progress(100.0, 0.5, 95.0)
    assert known is not None
    found = forecast(scene, a_history(*[1000.0] * 9), lambda plays: True, known={1: known}).of(board.jobs[1])
    assert contains(found.ends, 97.0) and found.basis == "its progress bar"
    assert found.ends is not None and found.ends.high < WALL + 200.0


@pytest.mark.parametrize(
    ("elapsed", "fraction", "left"),
    [(100.0, None, 5.0), (100.0, 0.001, None), (0.1, 0.5, 0.1), (3600.0, 0.5, 3.0), (3600.0, 1.0, 0.0)],
)
def test_a_bar_of_one_part_of_the_job_or_of_no_use_is_not_believed(
    elapsed: float, fraction: float | None, left: float | None
) -> None:
    assert times_by_progress(elapsed, fraction, left) is None


def test_jobs_of_one_shape_are_counted_once_however_many_are_asked_about() -> None:
    class Counted(dict[int, float]):
        looks = 0

        def __contains__(self, key: object) -> bool:
            Counted.looks += 1
            return super().__contains__(key)

    board = a_board(a_worker(gpu=1), jobs=[running(1, "0", 40.0), *(queued(id_) for id_ in range(2, 602))])
    found = forecast_of(board, a_history(*[95.0, 100.0, 105.0] * 4))
    assert found.of(board.jobs[600], 598).basis.endswith("more than 400 jobs ahead: estimate from throughput")
    for played in found.plays:
        played.starts = Counted(played.starts)
    for id_ in range(501, 601):
        assert found.of(board.jobs[id_], id_ - 2).starts is not None
    assert Counted.looks <= 100 * 2 * len(found.plays), "not each played job for each job that was asked about"


def test_no_job_is_expected_to_run_longer_than_its_limit() -> None:
    first, second = running(1, "0", 40.0), queued(2)
    where = first.placement
    assert where is not None
    first = replace(first, placement=replace(where, time_limit_s=50.0))
    second = replace(second, spec=replace(second.spec, time_limit_s=20.0))
    board = a_board(a_worker(gpu=1), jobs=[first, second])
    found = forecast_of(board, a_history(*[95.0, 100.0, 105.0] * 4))
    ends = [found.of(board.jobs[id_]).ends for id_ in (1, 2)]
    assert [round(each.high - WALL) for each in ends if each is not None] == [10, 30]
