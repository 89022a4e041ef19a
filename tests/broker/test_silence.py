"""Workers out of touch: what they hold stays theirs, and only a lease that is over lets a job start elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen, ended
from tests.builders import a_worker

from grassq.broker import views
from grassq.broker.decider import AWAIT_S
from grassq.broker.inbox import FromWorker
from grassq.core.messages import Ack, Check, Hello, Silent, Start, Stop
from grassq.core.model import Constraints, Outcome, State
from grassq.core.states import Exited, Lost, Started
from grassq.errors import Deposed

LEASE_S = 60.0
A, B = a_worker("a", cpu=1), a_worker("b", cpu=1)


def two(**more: Any) -> DeciderFixture:
    """Two workers of one processor each, and a lease of a minute."""
    return DeciderFixture(A, B, lease_s=LEASE_S, **more)


def on_a(**more: Any) -> DeciderFixture:
    """A job runs on `a`, and `a` falls silent."""
    fixture = two()
    fixture.submit(a_draft(**more))
    fixture.report(1, Started(1, 4711), worker="a")
    fixture.silent("a")
    return fixture


def test_a_silent_worker_gets_nothing_and_keeps_what_it_holds() -> None:
    fixture = on_a()
    fixture.submit(a_draft(), a_draft())
    assert [fixture.job(i).state for i in (1, 2, 3)] == [State.RUNNING, State.PLACED, State.QUEUED]
    assert [fixture.job(i).placement.worker for i in (1, 2)] == ["a", "b"]  # type: ignore[union-attr]
    fixture.clock.now += 1e6
    assert {worker for worker, _ in fixture.process().orders} == {"b"}
    assert fixture.job(1).state is State.RUNNING, "without a lease it is never given up"


def test_what_a_silent_worker_said_before_still_counts() -> None:
    fixture = on_a()
    effects = fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    assert fixture.job(1).state is State.SUCCEEDED
    assert effects.orders == [("a", Ack(1, 1))]


def test_no_orders_wait_for_a_silent_worker_and_nobody_is_woken_for_them() -> None:
    fixture = two()
    fixture.submit(a_draft())
    fixture.silent("a")
    fixture.clock.now += 60
    assert fixture.process().orders == []
    assert fixture.decider.next_wake() is None
    assert [type(order) for order in fixture.hello(A)] == [Start]


def test_a_job_whose_worker_is_silent_is_shown_unreachable_and_why_says_so() -> None:
    fixture = on_a()

    def shown() -> Any:
        return fixture.do(lambda batch: at_once.show(batch, chosen("1")), changing=False)

    fixture.clock.now += views.UNREACHABLE_S - 0.1
    assert shown()["jobs"][0]["unreachable"] is False
    fixture.clock.now += 0.1
    (job,) = shown()["jobs"]
    assert job["unreachable"] is True and job["state"] == "running"
    assert job["reason"] == "worker a has not been heard from for 5 s; its jobs keep running"
    worker = shown()["workers"][0]
    assert (worker["online"], worker["silent_s"], worker["since"]) == (False, 5.0, "2023-11-14T22:13:20.000Z")
    text = fixture.do(lambda batch: at_once.why(batch, chosen("1")), changing=False)["jobs"][0]["text"]
    assert "is unreachable: worker a has not been heard from for 5 s" in text
    fixture.hello(A)
    assert shown()["jobs"][0]["unreachable"] is False
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    fixture.silent("a")
    fixture.clock.now += 60
    assert shown()["jobs"][0]["unreachable"] is False, "what has ended is where it is"


def test_a_lease_is_over_after_its_whole_length_and_not_before() -> None:
    fixture = on_a(on_lost="requeue")
    assert fixture.job(1).placement.lease_s == LEASE_S  # type: ignore[union-attr]
    assert fixture.decider.next_wake() == LEASE_S
    fixture.clock.now += LEASE_S - 0.001
    fixture.process()
    assert fixture.job(1).state is State.RUNNING
    fixture.clock.now += 0.001
    ((worker, order),) = fixture.process().orders
    assert (worker, type(order)) == ("b", Start)
    job = fixture.job(1)
    assert (job.state, job.attempt, job.lost) == (State.PLACED, 2, 1)
    first, _ = fixture.store.attempts(1)
    assert first.outcome is Outcome.LOST and first.error == "its worker was silent for 60 s; its lease is over"


def test_a_lease_counts_from_when_its_worker_was_last_heard() -> None:
    fixture = two()
    fixture.submit(a_draft(on_lost="requeue"))
    fixture.clock.now = 15.0
    fixture.silent("a", heard=2.0)
    fixture.clock.now = 61.9
    fixture.process()
    assert fixture.job(1).attempt == 1
    fixture.clock.now = 62.0
    fixture.process()
    assert fixture.job(1).attempt == 2


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the broker restarts"])
def test_a_leased_attempt_that_another_boot_calls_dead_is_lost_only_when_its_lease_is_over(restarts: bool) -> None:
    fixture = on_a(on_lost="requeue")
    fixture.clock.now += 7
    copy = replace(A, boot="boot-of-a-copy")
    fixture.hello(copy)
    if restarts:
        fixture.restart()
        fixture.hello(copy)
        fixture.clock.now += 7  # it counts from the broker's start
    dead = Lost(1, Outcome.LOST, "the machine restarted while it ran")
    assert fixture.report(1, dead, worker="a").orders == []
    fixture.clock.now += LEASE_S - 8
    assert fixture.report(1, dead, worker="a").orders == []
    assert fixture.job(1).state is State.RUNNING and fixture.job(1).attempt == 1
    assert fixture.decider.next_wake() == pytest.approx(1)
    fixture.clock.now += 1
    fixture.process()
    assert fixture.job(1).attempt == 2
    assert ("a", Ack(1, 1)) in fixture.report(1, dead, worker="a").orders


def test_an_attempt_without_a_lease_is_lost_as_soon_as_its_machine_has_restarted() -> None:
    fixture = on_a()
    fixture.hello(replace(A, boot="boot-2"))
    fixture.report(1, Lost(1, Outcome.LOST, "the machine restarted while it ran"), worker="a")
    assert fixture.job(1).outcome is Outcome.LOST


def test_a_worker_that_comes_back_in_time_keeps_its_job() -> None:
    fixture = on_a(on_lost="requeue")
    fixture.clock.now += LEASE_S - 1
    assert [type(order) for order in fixture.hello(A)] == [Check]
    fixture.clock.now += 1e5
    fixture.process()
    assert (fixture.job(1).state, fixture.job(1).attempt) == (State.RUNNING, 1)
    fixture.silent("a")
    fixture.clock.now += LEASE_S - 1
    fixture.process()
    assert fixture.job(1).attempt == 1, "the silence before counts no more"


def test_after_a_restart_of_the_broker_a_lease_counts_from_its_start() -> None:
    fixture = on_a(on_lost="requeue")
    fixture.clock.now += LEASE_S - 1
    fixture.restart()
    fixture.hello(B)
    fixture.clock.now += LEASE_S - 0.001
    fixture.process()
    assert fixture.job(1).state is State.RUNNING
    fixture.clock.now += 0.001
    fixture.process()
    assert (fixture.job(1).state, fixture.job(1).attempt) == (State.PLACED, 2)


def test_a_failed_commit_makes_no_lease_shorter() -> None:
    fixture = on_a(on_lost="requeue")
    fixture.clock.now += 30
    fixture.trouble.at = ["before commit"]
    fixture.process(fixture.submission(a_draft()))
    fixture.clock.now += 29.9
    fixture.process()
    assert fixture.job(1).attempt == 1
    fixture.clock.now += 0.1
    fixture.process()
    assert fixture.job(1).attempt == 2


def test_silence_in_a_batch_that_failed_is_not_forgotten() -> None:
    fixture = two()
    fixture.submit(a_draft(on_lost="requeue"))
    fixture.trouble.at = ["before commit"]
    fixture.process(FromWorker("a", Silent(0.0)), fixture.submission(a_draft()))
    fixture.process()
    assert not fixture.decider.board.workers["a"].online
    fixture.trouble.at = ["before commit"]
    fixture.process(
        FromWorker("a", Hello(A)), FromWorker("a", Silent(fixture.clock.now)), fixture.submission(a_draft(), a_draft())
    )
    fixture.process()
    assert not fixture.decider.board.workers["a"].online, "it came and went"


def test_three_leases_lost_and_the_job_is_held() -> None:
    fixture = two()
    fixture.submit(a_draft(on_lost="requeue"))
    for attempt in (1, 2, 3):
        job = fixture.job(1)
        assert (job.state, job.attempt) == (State.PLACED, attempt)
        holder = job.placement.worker  # type: ignore[union-attr]
        fixture.silent(holder)
        fixture.clock.now += LEASE_S
        fixture.process()
        fixture.hello(A if holder == "a" else B)
    assert fixture.job(1).state is State.HELD and "lost 3 times" in (fixture.job(1).reason or "")


def test_a_cancelled_job_on_a_silent_worker_is_cancelled_when_its_lease_is_over() -> None:
    fixture = on_a(on_lost="requeue")
    fixture.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    assert fixture.job(1).state is State.RUNNING
    fixture.clock.now += LEASE_S
    assert ended(fixture.process()) == [1]
    assert fixture.job(1).state is State.CANCELLED


def test_an_attempt_that_outlived_its_lease_is_stopped_when_its_worker_is_back() -> None:
    fixture = on_a(on_lost="requeue")
    fixture.clock.now += LEASE_S
    fixture.process()
    assert Stop(1, 1, 10.0, A.boot) in fixture.hello(A)
    late = fixture.report(1, Exited(1, Outcome.CANCELLED, None, 15), worker="a")
    assert late.orders == [("a", Ack(1, 1))] and fixture.job(1).attempt == 2
    fixture.silent("a")
    assert [order for order in fixture.hello(A) if isinstance(order, Stop)] == [], "it has said that it ended"


def test_the_worker_of_the_same_process_needs_no_lease() -> None:
    fixture = DeciderFixture(A, local="a", lease_s=LEASE_S)
    fixture.submit(a_draft(on_lost="requeue"))
    assert fixture.job(1).placement.lease_s is None  # type: ignore[union-attr]


def test_silence_of_somebody_unknown_is_no_news() -> None:
    fixture = two()
    assert fixture.silent("nobody").orders == []
    fixture.hello(a_worker("c", cpu=8), fresh=False)
    assert "c" not in fixture.decider.board.workers, "an unknown worker must begin with a fresh hello"


# A broker that has just begun.


def test_a_broker_that_began_waits_a_moment_for_the_workers_it_knows() -> None:
    fixture = two()
    fixture.restart()
    fixture.hello(A)
    fixture.submit(a_draft())
    assert fixture.job(1).state is State.QUEUED
    assert fixture.decider.next_wake() == AWAIT_S
    fixture.clock.now += AWAIT_S
    fixture.process()
    assert fixture.job(1).state is State.PLACED


def test_it_waits_no_longer_than_until_all_have_spoken() -> None:
    fixture = two()
    fixture.restart()
    fixture.submit(a_draft())
    fixture.hello(A)
    assert fixture.job(1).state is State.QUEUED
    fixture.hello(B)
    assert fixture.job(1).state is State.PLACED


def test_a_failed_commit_at_the_beginning_does_not_start_the_wait_again() -> None:
    fixture = two()
    fixture.restart()
    fixture.submit(a_draft())
    fixture.hello(A)
    fixture.trouble.at = ["before commit"]
    fixture.hello(replace(B, labels=("new",)))
    fixture.process()
    assert fixture.job(1).state is State.PLACED


# A store that another broker may take over.


class Beaten:
    """Counts beats, and says at one of them that this broker is deposed."""

    def __init__(self, fixture: DeciderFixture, beat_s: float) -> None:
        self.count = 0
        self.over = False
        fixture.store.beat_s = beat_s
        fixture.store.beat = self.beat  # type: ignore[method-assign]

    def beat(self) -> None:
        self.count += 1
        if self.over:
            raise Deposed("another broker leads")


def test_the_store_hears_of_this_broker_often_enough_but_not_more_often() -> None:
    fixture = two()
    beaten = Beaten(fixture, 1.0)
    fixture.clock.now += 0.9
    fixture.process()
    assert beaten.count == 0 and fixture.decider.next_wake() == pytest.approx(0.1)
    fixture.clock.now += 0.1
    fixture.process()
    assert beaten.count == 1
    fixture.clock.now += 0.9
    fixture.submit(a_draft(constraints=Constraints(worker="a")))
    fixture.clock.now += 0.9
    fixture.process()
    assert beaten.count == 1, "a commit is a sign of life too"


def test_a_broker_that_was_deposed_says_so_and_answers_nothing() -> None:
    fixture = two()
    beaten = Beaten(fixture, 1.0)
    beaten.over = True
    fixture.clock.now += 1.0
    with pytest.raises(Deposed):
        fixture.decider.process([])
