"""A worker in the wrong hands: what it says of jobs it was never given changes nothing, and stops nobody else."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import recovery, views
from grassq.broker.batch import Batch
from grassq.broker.inbox import FromWorker
from grassq.broker.summary.devices import device_documents
from grassq.core.messages import Hello, StorePosition
from grassq.core.model import ID_MAX, Constraints, Offer, Outcome, State, WorkerInfo
from grassq.core.states import Exited, Started
from grassq.errors import Refused
from grassq.store.base import Changes

A, EVIL = a_worker("a", cpu=2), a_worker("evil", cpu=2)


def test_a_job_that_a_worker_invents_is_never_started_on_another() -> None:
    fixture = DeciderFixture(A, EVIL)
    [real] = fixture.submit(a_draft(hold=True))
    fixture.hello(EVIL, held=[(500, 1)])
    fixture.report(500, Exited(1, Outcome.EXITED, 1), worker="evil")
    fixture.clock.now += 60
    assert fixture.process().orders == []
    assert set(fixture.decider.board.jobs) == {real}


def test_a_worker_cannot_take_over_a_job_of_another() -> None:
    fixture = DeciderFixture(A, EVIL)
    [job] = fixture.submit(a_draft(constraints=Constraints(worker="a")))
    fixture.report(job, Started(1, 4711), worker="a")
    before = fixture.job(job)
    fixture.hello(EVIL, held=[(job, 7)])
    fixture.report(job, Exited(7, Outcome.EXITED, 0), worker="evil")
    assert fixture.job(job) == before
    assert before.state is State.RUNNING


def test_ids_a_worker_makes_up_move_no_id() -> None:
    fixture = DeciderFixture(A, EVIL)
    [first] = fixture.submit(a_draft(hold=True))
    told = fixture.decider.status.history.position
    forged = replace(told, highest_id=ID_MAX)
    for seen in (None, StorePosition("nobody's life", 10**9, ID_MAX), forged, replace(forged, commit=10**9), told):
        held = [(ID_MAX, 1), (first + 10, 1)]
        fixture.process(FromWorker("evil", Hello(EVIL, True, tuple(held), seen, unrecorded=tuple(held))))
        fixture.report(first + 20, Started(1, 1), worker="evil")
        fixture.report(ID_MAX, Exited(1, Outcome.EXITED, 0), worker="evil")
    assert fixture.submit(a_draft(hold=True)) == [first + 1]
    assert fixture.decider.board.unreconciled == set(), "nor does it stop the broker"


def test_attempts_a_worker_makes_up_hold_no_waiting_job() -> None:
    fixture = DeciderFixture(A, EVIL)
    jobs = fixture.submit(a_draft(cpu=2), a_draft(cpu=2), a_draft(cpu=2), a_draft(hold=True))
    before = [fixture.job(id_) for id_ in jobs]
    assert [job.state for job in before] == [State.PLACED, State.PLACED, State.QUEUED, State.HELD]
    made_up = tuple((job, 7) for job in jobs)
    seen = StorePosition("nobody's life", 10**9, ID_MAX)
    for unrecorded in ((), made_up):
        fixture.process(FromWorker("evil", Hello(EVIL, True, made_up, seen, unrecorded)))
    for job in jobs:
        fixture.report(job, Started(7, 1), worker="evil")
        fixture.report(job, Exited(7, Outcome.EXITED, 0), worker="evil")
    assert [fixture.job(id_) for id_ in jobs] == before
    fixture.do(lambda batch: at_once.release(batch, chosen(jobs[-1])))
    assert fixture.job(jobs[-1]).state is State.QUEUED, "nor keeps it a job from being released"


def test_used_up_ids_are_said_in_words_and_stop_nothing_else() -> None:
    fixture = DeciderFixture(A)
    [first] = fixture.submit(a_draft(hold=True))
    fixture.decider._next_id = ID_MAX
    with pytest.raises(Refused, match=r"1 job ids are left in this store, of 4,294,967,295; start a broker with a"):
        fixture.submit(a_draft(), a_draft())
    assert fixture.submit(a_draft(hold=True)) == [ID_MAX]
    with pytest.raises(Refused, match="0 job ids are left"):
        fixture.submit(a_draft())
    fixture.do(lambda batch: at_once.release(batch, chosen(first)))
    assert fixture.job(first).state is State.PLACED and fixture.job(ID_MAX).state is State.HELD


def test_an_attempt_number_no_store_can_hold_stops_nobody() -> None:
    fixture = DeciderFixture(A)
    [job] = fixture.submit(a_draft(hold=True))
    fixture.hello(EVIL, held=[(job, 2**63)])
    for _ in range(60):
        fixture.clock.now += 1
        fixture.process()
    assert fixture.submit(a_draft()) == [job + 1]


def test_what_is_remembered_of_a_worker_that_names_ever_more_attempts_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "NEWER_MAX", 3)
    fixture = DeciderFixture(a_worker("a", cpu=9), EVIL)
    jobs = fixture.submit(*[a_draft(constraints=Constraints(worker="a")) for _ in range(9)])
    for job in jobs:
        fixture.report(job, Started(1, 1), worker="a")
    # After a restore every worker is believed once.
    later = StorePosition("after the backup", 10**6).proved(fixture.store.load(0).position_key)
    fixture.hello(EVIL, held=[(job, 7) for job in jobs], seen=later)
    assert len(fixture.decider._recovery.state.newer) == 3


def test_a_store_that_holds_a_worker_with_one_queue_twice_can_be_shown(caplog: pytest.LogCaptureFixture) -> None:
    fixture = DeciderFixture(A)
    twins = WorkerInfo("evil", "boot", {}, (an_offer("p", gpu=1), Offer("p")))
    fixture.store.commit(Changes(workers={"evil": twins}))
    fixture.restart()
    shown = fixture.do(views.glance, changing=False)
    assert [worker["name"] for worker in shown["workers"]] == ["a", "evil"]
    assert [queue["name"] for queue in shown["queues"]] == ["default"]
    assert "worker_without_queues worker=evil why=the worker offers queue p twice" in caplog.text


def test_a_store_that_holds_an_end_in_the_year_30489_can_be_shown() -> None:
    fixture = DeciderFixture(A)
    [job] = fixture.submit(a_draft())
    fixture.report(job, Exited(1, Outcome.EXITED, 0), worker="a")
    far = fixture.job(job)
    changes = Changes()
    changes.put(far, replace(far, finished=9e11))
    fixture.store.commit(changes)
    fixture.restart()
    [shown] = fixture.do(views.glance, changing=False)["jobs"]
    assert shown["finished"].startswith("9999-12-31")


def test_a_worker_with_many_devices_and_jobs_does_not_hold_those_who_look_at_devices() -> None:
    fixture = DeciderFixture(a_worker("w", gpu=2000, cpu=3000))
    fixture.submit(*[a_draft() for _ in range(3000)])

    def look(batch: Batch) -> float:
        began = time.process_time()
        assert len(device_documents(batch)) == 2000
        return time.process_time() - began

    assert fixture.ask(look) < 0.4
