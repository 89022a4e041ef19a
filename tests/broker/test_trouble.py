"""When the store fails: read-only after two failures, again after five seconds, and never ahead of the disk."""

from __future__ import annotations

import pytest
from tests.broker.desk import Desk, a_desk, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service, views
from grassq.broker.batch import Batch
from grassq.broker.decide import Call, FromWorker
from grassq.core.messages import Check, Hello
from grassq.core.model import State
from grassq.errors import Refused, StoreUnavailable


def _fail(desk: Desk, times: int) -> None:
    for _ in range(times):
        desk.trouble.at = ["before commit"]
        assert isinstance(desk.process(desk.submission(a_draft())).answers[0][1], StoreUnavailable)


def test_after_two_failures_it_only_reads() -> None:
    desk = a_desk()
    desk.submit(a_draft(gpu=1))
    _fail(desk, 2)
    assert desk.decider.read_only == "no disk before commit"
    shown = desk.ask(lambda batch: views.show(batch, []), changing=False)
    assert [job["id"] for job in shown["jobs"]] == [1]
    refused = desk.ask(lambda batch: service.hold(batch, chosen("1")))
    assert isinstance(refused, StoreUnavailable) and "nothing can be stored now" in str(refused)


def test_a_read_between_two_failures_does_not_hide_them() -> None:
    desk = a_desk()
    _fail(desk, 1)
    desk.ask(lambda batch: views.show(batch, []), changing=False)
    _fail(desk, 1)
    assert desk.decider.read_only is not None


def test_after_five_seconds_it_tries_again() -> None:
    desk = a_desk()
    _fail(desk, 2)
    assert desk.decider.next_wake() == 5.0
    desk.clock.now += 4.9
    assert isinstance(desk.process(desk.submission(a_draft())).answers[0][1], StoreUnavailable)
    desk.clock.now += 0.1
    assert desk.submit(a_draft()) == [1]
    assert desk.decider.read_only is None


def test_a_third_failure_is_read_only_at_once() -> None:
    desk = a_desk()
    _fail(desk, 2)
    desk.clock.now += 5
    desk.process()
    _fail(desk, 1)
    assert desk.decider.read_only is not None


def test_no_order_is_given_for_what_only_the_board_knew() -> None:
    desk = a_desk()
    desk.trouble.at = ["before commit", "load"]
    desk.process(desk.submission(a_draft()))
    assert desk.decider.stale and desk.decider.read_only == "no disk load"
    assert isinstance(desk.ask(lambda batch: views.show(batch, []), changing=False), StoreUnavailable)
    desk.clock.now += 5
    effects = desk.process()
    assert effects.orders == [] and desk.decider.board.jobs == {}


def test_a_store_that_stays_unreadable_is_asked_every_five_seconds() -> None:
    desk = a_desk()
    desk.trouble.at = ["before commit", "load", "load", "load"]
    desk.process(desk.submission(a_draft()))
    desk.clock.now += 5
    desk.process()
    assert desk.decider.stale and desk.decider.read_only is not None
    desk.clock.now += 5
    assert desk.submit(a_draft()) == [1]


def test_a_report_is_not_acknowledged_by_a_failed_commit() -> None:
    desk = a_desk()
    desk.submit(a_draft())
    desk.started(1)
    desk.trouble.at = ["before commit"]
    assert desk.exited(1).orders == []
    assert desk.job(1).state is State.RUNNING
    assert [type(order).__name__ for _, order in desk.exited(1).orders] == ["Ack"]
    assert desk.job(1).state is State.SUCCEEDED


def test_an_end_whose_commit_was_unclear_is_acknowledged_when_repeated() -> None:
    desk = a_desk()
    desk.submit(a_draft())
    desk.started(1)
    desk.trouble.at = ["after commit"]
    assert desk.exited(1).orders == []
    assert desk.job(1).state is State.SUCCEEDED
    assert [type(order).__name__ for _, order in desk.exited(1).orders] == ["Ack"]


def test_a_new_queue_is_heard_of_although_its_commit_failed() -> None:
    desk = a_desk()
    desk.submit(a_draft("exp"))
    desk.trouble.at = ["before commit"]
    desk.hello(a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4), fresh=False)
    assert desk.job(1).state is State.WAITING
    assert desk.decider.next_wake() == 0.0
    desk.process()
    assert desk.job(1).state is State.PLACED
    assert desk.decider.next_wake() == 5.0


def test_a_queue_made_while_only_reading_is_heard_of_afterwards() -> None:
    desk = a_desk()
    desk.submit(a_draft("exp"))
    _fail(desk, 2)
    desk.hello(a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4), fresh=False)
    desk.clock.now += 5
    desk.process()
    assert desk.job(1).state is State.PLACED


def test_a_worker_that_connects_in_a_failed_batch_is_still_asked_what_it_holds() -> None:
    desk = a_desk()
    desk.submit(a_draft())
    desk.started(1)
    desk.restart()
    desk.trouble.at = ["before commit"]
    changed = a_worker("w", gpu=2, cpu=5)
    assert desk.hello(changed) == []
    assert [type(order) for _, order in desk.process().orders] == [Check]
    assert desk.decider.board.stations["w"].info == changed
    assert super(type(desk.store), desk.store).load(0).workers == [changed]


def test_a_hello_in_a_batch_that_met_a_bug_is_not_lost() -> None:
    desk = a_desk()
    desk.submit(a_draft("exp"))
    more = a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4)
    with pytest.raises(ZeroDivisionError):
        desk.process(FromWorker("w", Hello(more, False)), desk.submission(), _bug())
    desk.process()
    assert desk.job(1).state is State.PLACED


def _bug() -> Call:
    return Call(lambda batch: 1 // 0)


def test_since_when_a_worker_is_there_is_a_date_also_after_a_restart() -> None:
    desk = a_desk()
    desk.restart()
    shown = desk.do(lambda batch: views.show(batch, []), changing=False)
    assert shown["workers"][0]["since"].startswith("2023-11-14T")


def test_a_handler_that_refuses_too_late_spoils_nobody_elses_request() -> None:
    desk = a_desk()

    def changes_then_refuses(batch: Batch) -> object:
        service.submit(batch, [a_draft()], "half", b"d")
        raise Refused("too late")

    bad, good = Call(changes_then_refuses), desk.submission(a_draft(), key="good")
    answers = dict(desk.process(bad, good).answers)
    assert str(answers[bad]) == "too late" and answers[good] == [1]
    assert desk.store.submission("half") is None
    assert desk.decider.read_only is None
