"""What workers say: reports move jobs once, late ones change nothing, and orders are repeated until answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen, ended
from tests.builders import a_worker, an_offer

from grassq.broker import views
from grassq.broker.inbox import Call, FromWorker
from grassq.core.messages import Ack, Check, Report, Start, Stop
from grassq.core.model import ForQueue, Outcome, State
from grassq.core.states import SENDING, Exited, Lost, RefusedByWorker, Release, Started, Stuck
from grassq.errors import InvalidMove


def _orders(fixture: DeciderFixture) -> list[str]:
    return [type(order).__name__ for _, order in fixture.process().orders]


def test_an_unanswered_start_is_sent_again_every_five_seconds() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert _orders(fixture) == []
    fixture.clock.now += 4.9
    assert _orders(fixture) == []
    fixture.clock.now += 0.2
    assert _orders(fixture) == ["Start"]
    fixture.started(1)
    fixture.clock.now += 60
    assert _orders(fixture) == []


def test_a_stop_is_sent_at_once_and_again_until_the_job_ends() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    effects = fixture.process(Call(lambda batch: at_once.kill(batch, chosen("1"), 2.0)))
    ((_, order),) = effects.orders
    assert isinstance(order, Stop) and order.grace_s == 2.0
    fixture.clock.now += 5
    assert _orders(fixture) == ["Stop"]
    fixture.report(1, Exited(1, Outcome.CANCELLED, None, 15))
    assert fixture.job(1).state is State.CANCELLED and fixture.job(1).signal == 15
    fixture.clock.now += 5
    assert _orders(fixture) == []


def test_a_shorter_grace_is_sent_at_once() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.do(lambda batch: at_once.kill(batch, chosen("1"), 60.0))
    effects = fixture.process(Call(lambda batch: at_once.kill(batch, chosen("1"), 0.0)))
    assert [getattr(order, "grace_s", None) for _, order in effects.orders] == [0.0]


def test_a_fresh_hello_is_answered_with_what_should_run_there() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft(), a_draft())
    fixture.started(1)
    fixture.started(2)
    fixture.do(lambda batch: at_once.kill(batch, chosen("2"), None))
    orders = fixture.hello(a_worker("w", gpu=2, cpu=4))
    kinds = [(type(order), order.job) for order in orders if isinstance(order, Check | Start | Stop)]
    assert sorted(kinds, key=str) == [(Check, 1), (Check, 2), (Start, 3), (Stop, 2)] and len(orders) == 4


def test_a_hello_that_is_not_fresh_orders_nothing_again() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert fixture.hello(a_worker("w", gpu=2, cpu=4), fresh=False) == []


def test_nothing_is_ordered_of_a_worker_that_has_not_spoken_since_the_restart() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.restart()
    assert _orders(fixture) == []
    assert [type(order) for order in fixture.hello(a_worker("w", gpu=2, cpu=4))] == [Start]


@pytest.mark.parametrize(
    ("code", "state"), [(0, State.SUCCEEDED), (1, State.FAILED), (77, State.FAILED)], ids=["ok", "one", "other"]
)
def test_an_exit_code_decides_and_is_kept(code: int, state: State) -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    effects = fixture.exited(1, code)
    assert ended(effects) == [1]
    job = fixture.job(1)
    assert (job.state, job.exit_code, job.outcome) == (state, code, Outcome.EXITED)
    assert [type(order) for _, order in effects.orders] == [Ack]


def test_an_end_that_is_reported_again_is_acknowledged_and_changes_nothing() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1, 3)
    before = fixture.job(1)
    effects = fixture.exited(1, 0)
    assert [type(order) for _, order in effects.orders] == [Ack]
    assert ended(effects) == [] and fixture.job(1) == before


def test_an_end_may_come_before_the_start_was_confirmed() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1, 0)
    fixture.started(1)
    assert fixture.job(1).state is State.SUCCEEDED


def test_a_report_of_an_older_attempt_is_ignored() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.report(1, RefusedByWorker(1, "no room"))
    assert (fixture.job(1).state, fixture.job(1).attempt) == (State.PLACED, 2)
    fixture.exited(1, 0, attempt=1)
    assert fixture.job(1).state is State.PLACED
    fixture.exited(1, 0, attempt=2)
    assert fixture.job(1).state is State.SUCCEEDED


def test_a_report_of_another_worker_is_ignored() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=4), a_worker("v", cpu=0))
    fixture.submit(a_draft())
    effects = fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="v")
    assert fixture.job(1).state is State.PLACED
    assert [(worker, type(order)) for worker, order in effects.orders] == [("v", Ack)]


def test_a_report_of_a_removed_job_is_acknowledged_so_that_it_stops() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1)
    fixture.do(lambda batch: at_once.clean(batch, chosen("1"), None))
    assert [type(order) for _, order in fixture.exited(1).orders] == [Ack]


def test_a_lost_job_fails_and_is_not_run_again() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    fixture.report(1, Lost(1, Outcome.UNKNOWN, "gone"))
    job = fixture.job(1)
    assert (job.state, job.outcome, job.exit_code, job.error) == (State.FAILED, Outcome.UNKNOWN, None, "gone")


def test_a_lost_job_that_asked_for_it_runs_again_three_times_and_is_then_held() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(on_lost="requeue"))
    for attempt in (1, 2, 3):
        assert (fixture.job(1).state, fixture.job(1).attempt) == (State.PLACED, attempt)
        fixture.report(1, Lost(attempt, Outcome.LOST, "reboot"))
    assert fixture.job(1).state is State.HELD and "lost 3 times" in (fixture.job(1).reason or "")
    assert [attempt.outcome for attempt in fixture.store.attempts(1)] == [Outcome.LOST] * 3


def test_a_running_job_whose_worker_gives_it_up_is_lost_and_not_forgotten() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    effects = fixture.report(1, RefusedByWorker(1, "cancelled before it started"))
    assert (fixture.job(1).state, fixture.job(1).outcome) == (State.FAILED, Outcome.UNKNOWN)
    assert [type(order) for _, order in effects.orders] == [Ack]


def test_a_final_refusal_is_a_spawn_failure() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.report(1, RefusedByWorker(1, "no such program", final=True))
    assert (fixture.job(1).state, fixture.job(1).outcome) == (State.FAILED, Outcome.SPAWN_FAILED)


def test_a_stuck_job_keeps_its_devices() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=1))
    fixture.started(1)
    fixture.report(1, Stuck(1, "killed, and yet alive"))
    assert (fixture.job(1).state, fixture.job(1).reason) == (State.RUNNING, "killed, and yet alive")
    assert fixture.job(2).state is State.QUEUED


def test_devices_are_free_only_when_the_job_has_ended() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    fixture.started(1)
    fixture.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    assert fixture.job(2).state is State.QUEUED
    fixture.report(1, Exited(1, Outcome.CANCELLED, None, 9))
    assert fixture.job(2).state is State.PLACED


def test_a_retry_waits_five_seconds_and_wakes_by_itself() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=2))
    fixture.exited(1, 1)
    assert fixture.job(1).state is State.WAITING
    assert fixture.decider.next_wake() == 5.0
    fixture.clock.now += 4.9
    fixture.process()
    assert fixture.job(1).state is State.WAITING
    fixture.clock.now += 0.1
    fixture.process()
    assert (fixture.job(1).state, fixture.job(1).attempt) == (State.PLACED, 2)
    fixture.exited(1, 1, attempt=2)
    assert fixture.job(1).state is State.FAILED


@pytest.mark.parametrize("by_s", [-86400.0, 86400.0])
def test_a_retry_comes_although_the_clock_was_set(by_s: float) -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=2))
    fixture.exited(1, 1)
    fixture.clock.set_by = by_s
    fixture.clock.now += 5
    assert fixture.decider.next_wake() == 0.0
    fixture.process()
    assert fixture.job(1).attempt == 2


def test_a_retry_waits_for_a_queue_that_went_meanwhile() -> None:
    fixture = DeciderFixture(a_worker("w", offers=[an_offer("exp")], cpu=4))
    fixture.submit(a_draft("exp", tries=2))
    fixture.hello(a_worker("w", offers=[], cpu=4), fresh=False)
    fixture.exited(1, 1)
    fixture.clock.now += 5
    fixture.process()
    assert fixture.job(1).state is State.WAITING and "no queue" in (fixture.job(1).reason or "")
    fixture.hello(a_worker("w", offers=[an_offer("exp")], cpu=4), fresh=False)
    assert fixture.job(1).state is State.PLACED


@pytest.mark.parametrize("back_at", [2.0, 8.0])
def test_a_retry_starts_when_its_delay_is_over_and_its_queue_is_there(back_at: float) -> None:
    with_queue, without = a_worker("w", offers=[an_offer("exp")], cpu=4), a_worker("w", offers=[], cpu=4)
    fixture = DeciderFixture(with_queue)
    fixture.submit(a_draft("exp", tries=2), a_draft("exp", hold=True))
    fixture.exited(1, 1)
    fixture.hello(without, fresh=False)
    delay = fixture.job(1).waits[0]
    assert fixture.job(1).waits == (delay, ForQueue()) and "no queue" in (fixture.job(1).reason or "")
    fixture.decider.reload()
    fixture.clock.now = back_at
    fixture.process()
    assert fixture.job(1).waits == ((delay, ForQueue()) if back_at < 5 else (ForQueue(),))
    fixture.hello(with_queue, fresh=False)
    if back_at < 5:
        assert fixture.job(1).waits == (delay,) and "try 1 of 2 failed" in (fixture.job(1).reason or "")
        assert fixture.decider.next_wake() == 5 - back_at
        fixture.clock.now = 5.0
        fixture.process()
    assert (fixture.job(1).state, fixture.job(1).attempt, fixture.job(1).waits) == (State.PLACED, 2, ())


def test_a_move_that_no_rule_allows_tells_what_happened_before() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    with pytest.raises(InvalidMove) as caught:
        fixture.do(lambda batch: batch.move(fixture.job(1), Release()))
    assert str(caught.value) == (
        "job 1 is running in attempt 1: no rule for Release; before: submitted queue default, placed attempt 1 on w, "
        "started"
    )


def test_each_attempt_is_kept_with_its_own_end() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=2))
    fixture.started(1)
    fixture.clock.now = 3.0
    fixture.exited(1, 1)
    fixture.clock.now = 8.0
    fixture.process()
    fixture.started(1, attempt=2)
    fixture.clock.now = 9.0
    fixture.exited(1, 0, attempt=2)
    first, second = fixture.store.attempts(1)
    t0 = fixture.clock.wall() - 9.0
    assert (first.started, first.ended, first.exit_code, first.pid) == (t0, t0 + 3, 1, 4711)
    assert (second.started, second.ended, second.exit_code, second.pid) == (t0 + 8, t0 + 9, 0, 4711)


def test_reports_and_kills_of_one_batch_do_not_bring_a_job_back() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    effects = fixture.process(
        FromWorker("w", Report(1, Exited(1, Outcome.EXITED, 0))),
        Call(lambda batch: at_once.kill(batch, chosen("1"), None)),
    )
    ((_, answer),) = effects.answers
    assert getattr(answer, "notes", None) == ["job 1 has ended already (succeeded)"]
    assert fixture.job(1).state is State.SUCCEEDED and ended(effects) == [1]


def test_a_job_killed_and_held_in_one_batch_stays_cancelled() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    effects = fixture.process(
        Call(lambda batch: at_once.kill(batch, chosen("2"), None)),
        Call(lambda batch: at_once.hold(batch, chosen("2"))),
    )
    assert "has ended (cancelled)" in str(effects.answers[1][1])
    assert fixture.job(2).state is State.CANCELLED


def test_a_started_report_that_says_nothing_new_writes_nothing() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    commits = fixture.store.commits
    fixture.report(1, Started(1, 4711))
    assert fixture.store.commits == commits


def test_a_lost_worker_row_is_written_again_when_it_changes() -> None:
    fixture = a_decider()
    info = a_worker("w", gpu=2, cpu=4)
    commits = fixture.store.commits
    fixture.hello(info)
    assert fixture.store.commits == commits
    fixture.hello(replace(info, boot="boot-2"))
    assert fixture.store.commits == commits + 1


@pytest.mark.parametrize(("why", "is_stuck"), [("its run dir cannot be made", True), (f"{SENDING}: 5 of 9 MiB", False)])
def test_a_job_whose_files_are_on_their_way_needs_no_person(why: str, is_stuck: bool) -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.report(1, Stuck(1, why))
    (found,) = fixture.ask(lambda batch: views.documents(batch, [fixture.job(1)]))
    assert (found["state"], found["reason"]) == ("placed", why)
    assert found["cannot_start"] == (why if is_stuck else None)
