"""Attending a queue: every committed move of its jobs is told once and in order, within a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service
from grassq.broker import subscriptions as subscription_lists
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call, Effects, FromWorker
from grassq.broker.subscriptions import Range, Subscriber, Subscriptions, check_queue
from grassq.core.messages import Report
from grassq.core.model import Job, Outcome
from grassq.core.states import Cancel, Exited, Started
from grassq.errors import NotFound, Refused

Seen = list[tuple[int, str]]


class Hall:
    """A broker whose moves are told as the engine tells them."""

    def __init__(self) -> None:
        self.fixture = DeciderFixture(a_worker("w", cpu=4, offers=[an_offer(), an_offer("q")]))
        self.subscriptions = Subscriptions()
        self.fixture.decider.attended = self.subscriptions.queues
        self.woken = 0

    def process(self, *messages: Call | FromWorker) -> Effects:
        effects = self.fixture.decider.process(messages)
        if effects.told or effects.torn:
            self.subscriptions.tell(effects.told, effects.torn)
        return effects

    def attend(self, queue: str = "q", first: int = 1, over: Sequence[Range] = ()) -> Subscriber:
        subscriber = Subscriber(queue, first, self._wake, over)
        self.subscriptions.enter(subscriber)
        return subscriber

    def page(self, subscriber: Subscriber) -> Call:
        return Call(partial(subscriber.page, first=subscriber.upto), False)

    def shown(self, subscriber: Subscriber) -> Seen:
        answer = self.process(self.page(subscriber)).answers[0][1]
        assert isinstance(answer, list)
        return seen(answer)

    def _wake(self) -> None:
        self.woken += 1


def seen(jobs: list[Job]) -> Seen:
    return [(job.id, str(job.state)) for job in jobs]


def started(job: int) -> FromWorker:
    return FromWorker("w", Report(job, Started(1, 4711)))


def exited(job: int) -> FromWorker:
    return FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 0)))


def killing(text: str | int, **more: bool) -> Callable[[Batch], object]:
    return lambda batch: service.kill(batch, chosen(text), None, **more)


def test_the_moves_of_an_attended_queue_are_told_in_order_and_of_no_other() -> None:
    hall = Hall()
    mine = hall.attend()
    assert hall.shown(mine) == []
    hall.process(hall.fixture.submission(a_draft("q"), a_draft("default"), a_draft("q")))
    hall.process(started(3), exited(2), exited(1), exited(3))
    assert seen(mine.take()) == [(1, "placed"), (3, "placed"), (3, "running"), (1, "succeeded"), (3, "succeeded")]
    assert mine.take() == []
    assert hall.woken == 2


def test_nothing_is_gathered_when_nobody_attends() -> None:
    hall = Hall()
    hall.subscriptions.leave(hall.attend())
    assert hall.process(hall.fixture.submission(a_draft("q"))).told == []


def test_what_a_page_has_shown_is_not_told_again_and_what_came_after_it_is() -> None:
    hall = Hall()
    other, mine = hall.attend(), hall.attend()
    hall.shown(other)
    hall.process(hall.fixture.submission(a_draft("q"), a_draft("q")))
    other.take()
    # All in one batch: one end before the look, one after it.
    answers = hall.process(exited(1), hall.page(mine), exited(2)).answers
    assert seen(answers[0][1]) == [(1, "succeeded"), (2, "placed")]  # type: ignore[arg-type]
    assert seen(mine.take()) == [(2, "succeeded")]
    assert seen(other.take()) == [(1, "succeeded"), (2, "succeeded")]


def test_a_job_submitted_and_ended_in_the_batch_of_the_first_look_is_shown() -> None:
    hall = Hall()
    mine = hall.attend()
    held = hall.fixture.submission(a_draft("q", hold=True))
    answers = hall.process(held, Call(lambda batch: batch.move(batch.fetch([1])[1], Cancel())), hall.page(mine))
    assert seen(answers.answers[2][1]) == [(1, "cancelled")]  # type: ignore[arg-type]
    assert mine.take() == []


def test_of_jobs_on_later_pages_nothing_is_told_before_their_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_lists, "PAGE", 2)
    hall = Hall()
    hall.process(hall.fixture.submission(*[a_draft("q")] * 3))
    mine = hall.attend()
    assert hall.shown(mine) == [(1, "placed"), (2, "placed")]
    assert not mine.is_up_to_date
    hall.process(exited(2), exited(3))
    assert seen(mine.take()) == [(2, "succeeded")]
    assert hall.shown(mine) == [(3, "succeeded")]
    assert mine.is_up_to_date
    assert mine.take() == []


def test_jobs_below_the_first_id_are_neither_shown_nor_told() -> None:
    hall = Hall()
    hall.process(hall.fixture.submission(a_draft("q"), a_draft("q")))
    mine = hall.attend(first=2)
    hall.process(exited(1))
    assert hall.shown(mine) == [(2, "placed")]
    hall.process(exited(2))
    assert seen(mine.take()) == [(2, "succeeded")]


def test_jobs_whose_end_is_known_are_not_shown_nor_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_lists, "PAGE", 3)
    hall = Hall()
    hall.process(hall.fixture.submission(*[a_draft("q")] * 4))
    hall.process(*(exited(job) for job in (2, 3)))
    hall.process(hall.fixture.submission(*[a_draft("q", hold=True)] * 8))
    hall.process(Call(killing("5-11")))
    mine = hall.attend(over=[(2, 3), (5, 5), (7, 11)])
    assert hall.shown(mine) == [(1, "placed")]
    assert hall.shown(mine) == [(4, "placed"), (6, "cancelled")]
    assert mine.upto == 12, "seven to eleven are passed over"
    assert hall.shown(mine) == [(12, "held")]
    # Of one that is thought to be over and is not, as in a store that was restored, the end is told.
    other = hall.attend(over=[(1, 12)])
    assert hall.shown(other) == []
    hall.process(exited(1))
    assert seen(other.take()) == [(1, "succeeded")]


def test_the_roll_has_every_job_that_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_lists, "PAGE", 3)
    hall = Hall()
    hall.process(hall.fixture.submission(*[a_draft("q")] * 6, a_draft("q", hold=True), a_draft("default")))
    hall.process(exited(2))
    mine = hall.attend()

    def roll(first: int) -> object:
        return hall.process(Call(partial(mine.roll, first=first), False)).answers[0][1]

    assert roll(1) == ([1, 3], 4)
    assert roll(4) == ([4, 5, 6], 7)
    assert roll(7) == ([7], 0)
    later = hall.process(exited(1), hall.fixture.submission(a_draft("q")), Call(partial(mine.roll, first=7), False))
    assert later.answers[1][1] == ([7, 9], 0)


def test_who_falls_behind_is_told_so_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_lists, "NEWS_MAX", 3)
    hall = Hall()
    mine = hall.attend()
    hall.shown(mine)
    hall.process(hall.fixture.submission(*[a_draft("q")] * 3))
    assert not mine.has_missed
    hall.process(exited(1))
    assert mine.has_missed
    assert mine.take() == []


def test_after_a_commit_that_failed_whoever_attends_must_look_again() -> None:
    hall = Hall()
    mine = hall.attend()
    hall.shown(mine)
    hall.fixture.trouble.at = ["before commit"]
    hall.process(hall.fixture.submission(a_draft("q")))
    assert hall.fixture.trouble.at == [], "the trouble was met"
    assert mine.has_missed


def test_only_so_many_attend_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_lists, "SUBSCRIBERS_MAX", 1)
    hall = Hall()
    mine = hall.attend()
    with pytest.raises(Refused):
        hall.attend("default")
    hall.subscriptions.leave(mine)
    assert hall.attend("default")


def test_a_queue_that_is_gone_can_be_attended_while_it_has_jobs_and_an_unknown_one_cannot() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=4, offers=[an_offer("q")]))
    fixture.submit(a_draft("q"))
    fixture.exited(1)
    fixture.hello(a_worker("w", cpu=4), fresh=False)
    fixture.do(lambda batch: check_queue(batch, "q"))
    with pytest.raises(NotFound):
        fixture.do(lambda batch: check_queue(batch, "qq"))


def test_kill_unstarted_cancels_what_waits_and_leaves_what_was_placed() -> None:
    fixture = a_decider(cpu=2)
    fixture.submit(a_draft(), a_draft(), a_draft(), a_draft(hold=True), a_draft("nowhere"))
    fixture.started(1)
    done = fixture.do(killing("all", unstarted=True))
    assert seen(done.jobs) == [(3, "cancelled"), (4, "cancelled"), (5, "cancelled")]
    assert [fixture.job(id_).state for id_ in (1, 2)] == ["running", "placed"]
    assert not fixture.job(1).cancel_requested and not fixture.job(2).cancel_requested
    assert seen(fixture.do(killing(1, unstarted=True)).jobs) == []
