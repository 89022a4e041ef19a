"""Many jobs that wait: most are only a place in line, and what changes for all of them changes some at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call
from grassq.broker.sweeps.objects import NewSweep
from grassq.broker.waiting import eligibility
from grassq.core.messages import Ack, Start, Withdraw
from grassq.core.model import Outcome, State
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.states import Exited, RefusedByWorker
from grassq.core.syntax.selectors import AllJobs
from grassq.errors import GuardFailed

ONE_SLOT = replace(a_worker("w", cpu=1), follows=True)


def states(fixture: DeciderFixture, count: int) -> list[State]:
    return [fixture.job(job_id).state for job_id in range(1, count + 1)]


@pytest.mark.parametrize("near_max", [0, 1, 3])
def test_jobs_that_are_not_known_whole_start_in_turn_like_any_other(near_max: int) -> None:
    fixture = DeciderFixture(a_worker("w", cpu=2), near_max=near_max)
    fixture.submit(*(a_draft(name=f"n{i}") for i in range(9)))
    fixture.restart()
    fixture.hello(a_worker("w", cpu=2))
    for job_id in range(1, 10):
        assert fixture.job(job_id).state is State.PLACED
        effects = fixture.exited(job_id)
        started = [order.name for _, order in effects.orders if isinstance(order, Start)]
        assert started == ([f"n{job_id + 1}"] if job_id < 8 else [])
    assert states(fixture, 9) == [State.SUCCEEDED] * 9


@pytest.mark.parametrize("near_max", [0, 2])
def test_every_action_reaches_jobs_that_are_not_known_whole(near_max: int) -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1), near_max=near_max)
    fixture.submit(*(a_draft() for _ in range(6)))
    fixture.do(lambda batch: at_once.set_priority(batch, chosen("6"), 40))
    fixture.do(lambda batch: at_once.hold(batch, chosen("5")))
    fixture.do(lambda batch: at_once.kill(batch, chosen("4"), None))
    fixture.do(lambda batch: at_once.hold(batch, chosen("3")))
    fixture.do(lambda batch: at_once.release(batch, chosen("3")))
    assert "cpu" in fixture.do(lambda batch: at_once.why(batch, chosen("2")))["jobs"][0]["text"]
    shown = fixture.do(lambda batch: at_once.show(batch, []))
    assert [job["id"] for job in shown["jobs"]] == [1, 2, 3, 4, 5, 6]
    fixture.exited(1)
    assert states(fixture, 6) == [
        State.SUCCEEDED, State.QUEUED, State.QUEUED, State.CANCELLED, State.HELD, State.PLACED
    ]  # fmt: skip


@pytest.mark.parametrize("near_max", [0, 100])
def test_what_a_new_queue_lets_go_on_goes_on_some_at_a_time(near_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "REEVALUATED_MAX", 3)
    fixture = DeciderFixture(a_worker("w", cpu=1), near_max=near_max)
    fixture.submit(*(a_draft("later") for _ in range(8)))
    assert states(fixture, 8) == [State.WAITING] * 8
    with_queue = a_worker("w", cpu=1, offers=[an_offer(), an_offer("later")])
    fixture.hello(with_queue, fresh=False)
    assert 0 < sum(state is State.WAITING for state in states(fixture, 8)) < 8
    while fixture.process().again:
        pass
    assert states(fixture, 8) == [State.PLACED] + [State.QUEUED] * 7
    fixture.hello(a_worker("w", cpu=1), fresh=False)
    fixture.restart()
    while fixture.process().again:
        pass
    assert states(fixture, 8) == [State.PLACED] + [State.WAITING] * 7, "a restart in between loses nothing"


def test_the_words_for_why_a_job_waits_are_those_of_today() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1))
    fixture.submit(a_draft("later", cpu=3))
    assert "no queue 'later' yet" in fixture.reason(1)
    fixture.hello(a_worker("w", cpu=1, offers=[an_offer("later")]), fresh=False)
    assert "3 cpu asked" in fixture.reason(1)


def test_a_store_that_somebody_else_has_written_is_read_again() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1), near_max=0)
    fixture.submit(a_draft(), a_draft(), a_draft())
    job = fixture.job(3)
    # Another broker has taken over and placed the job; this one does not know yet.
    stolen = replace(job, state=State.RUNNING, attempt=1, pid=7, placement=fixture.job(1).placement)
    with pytest.raises(GuardFailed):
        fixture.decider._batch().set(stolen, replace(stolen, priority=40))


PACE = PrefetchPolicy(short_s=0.05, runs=1, wait_s=0.25)
BRIEF = Exited(1, Outcome.EXITED, 0, started=100.0, ended=100.01)


def a_pair() -> DeciderFixture:
    """Job 2 runs on the only slot and job 3 is placed behind it."""
    fixture = DeciderFixture(ONE_SLOT, prefetch_policy=PACE)
    fixture.submit(*(a_draft() for _ in range(4)))
    fixture.report(1, BRIEF)
    return fixture


def test_the_next_brief_job_is_placed_behind_the_one_that_runs() -> None:
    fixture = a_pair()
    prefetched = fixture.job(3)
    assert states(fixture, 4) == [State.SUCCEEDED, State.PLACED, State.PLACED, State.QUEUED]
    assert prefetched.placement is not None and prefetched.placement.after == (2, 1)
    assert fixture.reason(3) == "starts when job 2 ends, on its devices"
    effects = fixture.report(2, BRIEF)
    assert [order.job for _, order in effects.orders if isinstance(order, Start)] == [4]
    after = fixture.job(4).placement
    assert after is not None and after.after == (3, 1)


def test_one_that_waits_too_long_behind_another_is_taken_back_and_queued() -> None:
    fixture = a_pair()
    fixture.clock.now += 0.3
    orders = [order for _, order in fixture.process().orders]
    assert orders == [Withdraw(3, 1, ONE_SLOT.boot)]
    fixture.report(3, RefusedByWorker(1, "taken back"))
    assert fixture.job(3).state is State.QUEUED and fixture.job(3).tried == 0
    assert [order for _, order in fixture.process().orders] == [], "one that keeps others waiting is not followed again"


def test_jobs_of_a_stopped_sweep_that_have_not_started_are_taken_back_and_cancelled() -> None:
    fixture = DeciderFixture(replace(a_worker("w", cpu=2), follows=True), prefetch_policy=PACE)
    sweep = NewSweep(kind="sweep", name="fit", max_fails=1)
    fixture.do(lambda batch: service.submit(batch, [a_draft()] * 7, "k", b"d", sweep))
    fixture.report(1, BRIEF)
    assert states(fixture, 7)[1:] == [State.PLACED] * 4 + [State.QUEUED] * 2, "two of them wait behind others"
    fixture.started(2)
    fixture.started(3)
    effects = fixture.exited(2, code=1)
    assert [order for _, order in effects.orders if not isinstance(order, Ack)] == [
        Withdraw(job, 1, ONE_SLOT.boot) for job in (4, 5)
    ]
    fixture.report(5, RefusedByWorker(1, "taken back"))
    assert states(fixture, 7)[2:] == [State.RUNNING, State.PLACED, State.CANCELLED, State.CANCELLED, State.CANCELLED]
    fixture.started(4)
    orders = [order for _, order in fixture.process().orders]
    assert fixture.job(4).state is State.RUNNING and not orders, "one that had started before the worker knew goes on"
    fixture.exited(4)
    fixture.exited(3)
    assert not fixture.store.sweeps([1])[1].is_open


def test_a_pause_takes_back_who_waits_behind_another() -> None:
    fixture = a_pair()
    effects = fixture.process(Call(lambda batch: service.pause(batch, None)))
    assert [order for _, order in effects.orders] == [Withdraw(3, 1, ONE_SLOT.boot)]


@pytest.mark.parametrize("job", [2, 3])
def test_one_that_has_not_started_is_taken_back_and_held_when_its_token_ends(job: int) -> None:
    fixture = a_pair()
    before = fixture.job(job)
    fixture.do(lambda batch: batch.set(before, replace(before, token="abcd1234")))

    def end_token(batch: Batch) -> None:
        batch.board.ended_tokens.add("abcd1234")

    assert [order for _, order in fixture.process(Call(end_token)).orders] == [Withdraw(job, 1, ONE_SLOT.boot)]
    fixture.report(job, RefusedByWorker(1, "taken back"))
    assert fixture.job(job).state is State.HELD


def test_one_that_is_placed_behind_another_has_not_started() -> None:
    fixture = a_pair()
    effects = fixture.process(Call(lambda batch: at_once.kill(batch, [AllJobs()], None, unstarted=True)))
    assert [order for _, order in effects.orders] == [Withdraw(3, 1, ONE_SLOT.boot)]
    fixture.report(3, RefusedByWorker(1, "taken back"))
    assert states(fixture, 4) == [State.SUCCEEDED, State.PLACED, State.CANCELLED, State.CANCELLED]
    assert not fixture.job(2).cancel_requested


def test_after_a_restart_a_follower_is_ordered_again_behind_its_leader() -> None:
    fixture = a_pair()
    fixture.restart()
    orders = {order.job: order for order in fixture.hello(ONE_SLOT) if isinstance(order, Start)}
    assert orders[2].placement.after is None and orders[3].placement.after == (2, 1)
    fixture.exited(2)
    fixture.clock.now += 10
    again = [order for _, order in fixture.process().orders if isinstance(order, Start) and order.job == 3]
    assert [order.placement.after for order in again] == [None], "the broker knows that its leader is over"
