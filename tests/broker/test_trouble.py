"""When the store fails: read-only after two failures, again after five seconds, and never ahead of the disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service, tokens
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call, FromWorker
from grassq.core.messages import Check, Hello
from grassq.core.model import Offer, QueueTemplate, State
from grassq.core.planner.board import NEAR_MAX
from grassq.errors import GrassError, GuardFailed, Refused, StoreUnavailable
from grassq.store.base import Token


def _fail(fixture: DeciderFixture, times: int) -> None:
    for _ in range(times):
        fixture.trouble.at = ["before commit"]
        assert isinstance(fixture.process(fixture.submission(a_draft())).answers[0][1], StoreUnavailable)


def test_after_two_failures_it_only_reads() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=1))
    _fail(fixture, 2)
    assert fixture.decider.read_only == "no disk before commit"
    shown = fixture.ask(lambda batch: at_once.show(batch, []), changing=False)
    assert [job["id"] for job in shown["jobs"]] == [1]
    refused = fixture.ask(lambda batch: at_once.hold(batch, chosen("1")))
    assert isinstance(refused, StoreUnavailable) and "nothing can be stored now" in str(refused)


def test_a_read_between_two_failures_does_not_hide_them() -> None:
    fixture = a_decider()
    _fail(fixture, 1)
    fixture.ask(lambda batch: at_once.show(batch, []), changing=False)
    _fail(fixture, 1)
    assert fixture.decider.read_only is not None


def test_after_five_seconds_it_tries_again() -> None:
    fixture = a_decider()
    _fail(fixture, 2)
    assert fixture.decider.next_wake() == 5.0
    fixture.clock.now += 4.9
    assert isinstance(fixture.process(fixture.submission(a_draft())).answers[0][1], StoreUnavailable)
    fixture.clock.now += 0.1
    assert fixture.submit(a_draft()) == [1]
    assert fixture.decider.read_only is None


def test_a_third_failure_is_read_only_at_once() -> None:
    fixture = a_decider()
    _fail(fixture, 2)
    fixture.clock.now += 5
    fixture.process()
    _fail(fixture, 1)
    assert fixture.decider.read_only is not None


def test_no_order_is_given_for_what_only_the_board_knew() -> None:
    fixture = a_decider()
    fixture.trouble.at = ["before commit", "load"]
    fixture.process(fixture.submission(a_draft()))
    assert fixture.decider.stale and fixture.decider.read_only == "no disk load"
    assert isinstance(fixture.ask(lambda batch: at_once.show(batch, []), changing=False), StoreUnavailable)
    fixture.clock.now += 5
    effects = fixture.process()
    assert effects.orders == [] and fixture.decider.board.jobs == {}


def test_a_store_that_stays_unreadable_is_asked_every_five_seconds() -> None:
    fixture = a_decider()
    fixture.trouble.at = ["before commit", "load", "load", "load"]
    fixture.process(fixture.submission(a_draft()))
    fixture.clock.now += 5
    fixture.process()
    assert fixture.decider.stale and fixture.decider.read_only is not None
    fixture.clock.now += 5
    assert fixture.submit(a_draft()) == [1]


def test_a_report_is_not_acknowledged_by_a_failed_commit() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    fixture.trouble.at = ["before commit"]
    assert fixture.exited(1).orders == []
    assert fixture.job(1).state is State.RUNNING
    assert [type(order).__name__ for _, order in fixture.exited(1).orders] == ["Ack"]
    assert fixture.job(1).state is State.SUCCEEDED


def test_an_end_whose_commit_was_unclear_is_acknowledged_when_repeated() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    fixture.trouble.at = ["after commit"]
    assert fixture.exited(1).orders == []
    assert fixture.job(1).state is State.SUCCEEDED
    assert [type(order).__name__ for _, order in fixture.exited(1).orders] == ["Ack"]


def test_a_new_queue_is_heard_of_although_its_commit_failed() -> None:
    fixture = a_decider()
    fixture.submit(a_draft("exp"))
    fixture.trouble.at = ["before commit"]
    fixture.hello(a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4), fresh=False)
    assert fixture.job(1).state is State.WAITING
    assert fixture.decider.next_wake() == 0.0
    fixture.process()
    assert fixture.job(1).state is State.PLACED
    assert fixture.decider.next_wake() == 5.0


def test_a_queue_made_while_only_reading_is_heard_of_afterwards() -> None:
    fixture = a_decider()
    fixture.submit(a_draft("exp"))
    _fail(fixture, 2)
    fixture.hello(a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4), fresh=False)
    fixture.clock.now += 5
    fixture.process()
    assert fixture.job(1).state is State.PLACED


def test_a_worker_that_connects_in_a_failed_batch_is_still_asked_what_it_holds() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.started(1)
    fixture.restart()
    fixture.trouble.at = ["before commit"]
    changed = a_worker("w", gpu=2, cpu=5)
    assert fixture.hello(changed) == []
    assert [type(order) for _, order in fixture.process().orders] == [Check]
    assert fixture.decider.board.workers["w"].info == changed
    assert super(type(fixture.store), fixture.store).load(0).workers == [changed]


def test_a_hello_in_a_batch_that_met_a_bug_is_not_lost() -> None:
    fixture = a_decider()
    fixture.submit(a_draft("exp"))
    more = a_worker("w", offers=[an_offer(), an_offer("exp")], gpu=2, cpu=4)
    fixture.process(FromWorker("w", Hello(more, False)), _bug())
    assert fixture.job(1).state is State.PLACED


def _bug(*, changing: bool = True) -> Call:
    return Call(lambda batch: 1 // 0, changing)


def _reads(error: Exception) -> Call:
    def read(batch: Batch) -> None:
        raise error

    return Call(read, changing=False)


def test_a_failing_read_fails_its_own_caller_only() -> None:
    fixture = a_decider()
    board = fixture.decider.board
    reads = [_bug(changing=False), _reads(ValueError("year 30489 is out of range"))]
    good = fixture.submission(a_draft())
    answers = dict(fixture.process(reads[0], good, reads[1]).answers)
    assert answers[good] == [1]
    assert "the daemon failed on this (ValueError: year 30489" in str(answers[reads[1]])
    assert all(type(answers[read]) is GrassError for read in reads)
    assert fixture.decider.board is board, "the board was read anew"


@pytest.mark.parametrize("error", [StoreUnavailable("too many variables"), GuardFailed("job 1 is not queued")])
def test_a_read_that_the_store_refuses_fails_its_own_caller_only(error: GrassError) -> None:
    fixture = a_decider()
    read, good = _reads(error), fixture.submission(a_draft())
    answers = dict(fixture.process(read, good).answers)
    assert answers[good] == [1] and str(answers[read]) == str(error)
    assert isinstance(answers[read], StoreUnavailable)
    assert fixture.decider.read_only is None


def test_a_failing_change_never_fails_the_other_changes_of_its_batch() -> None:
    def half_done(batch: Batch) -> None:
        service.submit(batch, [a_draft()], "half", b"d")
        raise KeyError("p")

    fixture = a_decider()
    good = [fixture.submission(a_draft()) for _ in range(3)]
    # Many of them: a batch is decided anew without each of them, one after the other.
    bad = [Call(half_done) for _ in range(600)]
    answers = dict(fixture.process(*bad, good[0], _bug(), *good[1:]).answers)
    assert [answers[each] for each in good] == [[1], [2], [3]]
    assert all("KeyError" in str(answers[each]) for each in bad)
    assert fixture.store.submission("half") is None


def test_a_message_of_a_worker_that_meets_a_bug_is_dropped_once_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*more: object) -> None:
        raise KeyError("p")

    fixture = a_decider()
    monkeypatch.setattr(fixture.decider._recovery, "hello", bug)
    good = fixture.submission(a_draft())
    effects = fixture.process(FromWorker("evil", Hello(a_worker("evil", cpu=1))), good)
    assert effects.answers == [(good, [1])]
    assert fixture.submit(a_draft()) == [2]
    assert set(fixture.decider.board.workers) == {"w"}


def test_since_when_a_worker_is_there_is_a_date_also_after_a_restart() -> None:
    fixture = a_decider()
    fixture.restart()
    shown = fixture.do(lambda batch: at_once.show(batch, []), changing=False)
    assert shown["workers"][0]["since"].startswith("2023-11-14T")


def test_a_handler_that_refuses_too_late_spoils_nobody_elses_request() -> None:
    fixture = a_decider()

    def changes_then_refuses(batch: Batch) -> object:
        service.submit(batch, [a_draft()], "half", b"d")
        raise Refused("too late")

    bad, good = Call(changes_then_refuses), fixture.submission(a_draft(), key="good")
    answers = dict(fixture.process(bad, good).answers)
    assert str(answers[bad]) == "too late" and answers[good] == [1]
    assert fixture.store.submission("half") is None
    assert fixture.decider.read_only is None


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: service.pause(batch, None),
        lambda batch: service.drain(batch, "w", undo=False),
        lambda batch: tokens.create(
            batch, Token(id="t", digest=b"d", scope="submit", name="me", created=0.0, is_code=True)
        ),
        lambda batch: service.put_template(batch, QueueTemplate(Offer("pilots"))),
    ],
    ids=["a pause", "what is kept of a worker", "a token", "a queue of the broker"],
)
def test_whatever_a_handler_changed_before_it_refused_is_not_stored(change: Callable[[Batch], object]) -> None:
    def refuse_too_late(batch: Batch) -> None:
        change(batch)
        raise Refused("after all not")

    fixture = a_decider()
    assert isinstance(fixture.ask(refuse_too_late), Refused)
    loaded = fixture.store.load(NEAR_MAX)
    assert (loaded.paused, loaded.worker_records, loaded.templates, fixture.store.tokens()) == ({}, {}, {}, [])
    assert fixture.decider.board.paused == {} and not fixture.decider.board.workers["w"].drained
