"""The pages of a queue: every job that there was is read once, and only what came after its page is news."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker.inbox import Call, Effects, FromWorker
from grassq.broker.job_change import JobChange
from grassq.broker.subscriptions import Filter, Subscriptions
from grassq.core.messages import Report
from grassq.core.model import Outcome
from grassq.core.states import Cancel, Exited
from grassq.errors import NotFound
from grassq.web.events import queue_pages
from grassq.web.events.queue_pages import QueuePages, Range, check_queue

Seen = list[tuple[int, str]]


class Reader:
    """A subscriber to queue q that reads pages."""

    def __init__(self, broker: Broker, first: int = 1, over: Sequence[Range] = ()) -> None:
        self.broker = broker
        self.pages = QueuePages("q", first, over)
        self.subscription = broker.subscriptions.subscribe(Filter(queue="q"))

    def call(self) -> Call:
        return Call(self.pages.page, False)

    def shown(self) -> Seen:
        return seen(self.broker.process(self.call()).answers[0][1])

    def news(self) -> Seen:
        return seen([change for change in self.subscription.take() or () if self.pages.is_news(change)])


class Broker:
    """A decider whose changes are published as the engine publishes them."""

    def __init__(self) -> None:
        self.fixture = DeciderFixture(a_worker("w", cpu=4, offers=[an_offer(), an_offer("q")]))
        self.subscriptions = Subscriptions("e")

    def process(self, *messages: Call | FromWorker) -> Effects:
        effects = self.fixture.decider.process(messages)
        self.subscriptions.publish(effects.changed, effects.must_reread)
        return effects

    def submit(self, count: int, hold: bool = False) -> None:
        self.process(self.fixture.submission(*[a_draft("q", hold=hold)] * count))


def seen(changes: object) -> Seen:
    assert isinstance(changes, list)
    found: list[JobChange] = changes
    return [(change.job, str(change.state)) for change in found]


def exited(job: int) -> FromWorker:
    return FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 0)))


def test_what_a_page_has_shown_is_no_news_and_what_came_after_it_is() -> None:
    broker = Broker()
    other = Reader(broker)
    assert other.shown() == []
    broker.submit(2)
    assert other.news() == [(1, "placed"), (2, "placed")]
    mine = Reader(broker)
    # All in one batch: one end before the look, one after it.
    answers = broker.process(exited(1), mine.call(), exited(2)).answers
    assert seen(answers[0][1]) == [(1, "succeeded"), (2, "placed")]
    assert mine.news() == [(2, "succeeded")]
    assert other.news() == [(1, "succeeded"), (2, "succeeded")]


def test_a_job_submitted_and_ended_in_the_batch_of_the_first_look_is_shown() -> None:
    broker = Broker()
    mine = Reader(broker)
    held = broker.fixture.submission(a_draft("q", hold=True))
    answers = broker.process(held, Call(lambda batch: batch.move(batch.fetch([1])[1], Cancel())), mine.call())
    assert seen(answers.answers[2][1]) == [(1, "cancelled")]
    assert mine.news() == []


def test_of_jobs_on_later_pages_nothing_is_news_before_their_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_pages, "PAGE", 2)
    broker = Broker()
    broker.submit(3)
    mine = Reader(broker)
    assert mine.shown() == [(1, "placed"), (2, "placed")]
    assert not mine.pages.is_complete
    broker.process(exited(2), exited(3))
    assert mine.news() == [(2, "succeeded")]
    assert mine.shown() == [(3, "succeeded")]
    assert mine.pages.is_complete
    assert mine.news() == []


def test_jobs_below_the_first_id_are_neither_shown_nor_news() -> None:
    broker = Broker()
    broker.submit(2)
    mine = Reader(broker, first=2)
    broker.process(exited(1))
    assert mine.shown() == [(2, "placed")]
    broker.process(exited(2))
    assert mine.news() == [(2, "succeeded")]


def test_jobs_whose_end_is_known_are_not_shown_nor_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_pages, "PAGE", 3)
    broker = Broker()
    broker.submit(4)
    broker.process(*(exited(job) for job in (2, 3)))
    broker.submit(8, hold=True)
    broker.process(Call(lambda batch: at_once.kill(batch, chosen("5-11"), None)))
    mine = Reader(broker, over=[(2, 3), (5, 5), (7, 11)])
    assert mine.shown() == [(1, "placed")]
    assert mine.shown() == [(4, "placed"), (6, "cancelled")]
    assert mine.pages.upto == 12, "seven to eleven are passed over"
    assert mine.shown() == [(12, "held")]
    # Of one that is thought to be over and is not, as in a store that was restored, the end is told.
    other = Reader(broker, over=[(1, 12)])
    assert other.shown() == []
    broker.process(exited(1))
    assert other.news() == [(1, "succeeded")]


def test_the_unfinished_are_all_jobs_that_have_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_pages, "PAGE", 3)
    broker = Broker()
    drafts = [*[a_draft("q")] * 6, a_draft("q", hold=True), a_draft("default")]
    broker.process(broker.fixture.submission(*drafts))
    broker.process(exited(2))
    pages = Reader(broker).pages

    def unfinished(first: int) -> object:
        return broker.process(Call(partial(pages.unfinished, first=first), False)).answers[0][1]

    assert unfinished(1) == ([1, 3], 4)
    assert unfinished(4) == ([4, 5, 6], 7)
    assert unfinished(7) == ([7], 0)
    more = Call(partial(pages.unfinished, first=7), False)
    later = broker.process(exited(1), broker.fixture.submission(a_draft("q")), more)
    assert later.answers[1][1] == ([7, 9], 0)


def test_a_queue_that_is_gone_can_be_subscribed_to_while_it_has_jobs_and_an_unknown_one_cannot() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=4, offers=[an_offer("q")]))
    fixture.submit(a_draft("q"))
    fixture.exited(1)
    fixture.hello(a_worker("w", cpu=4), fresh=False)
    fixture.do(lambda batch: check_queue(batch, "q"))
    with pytest.raises(NotFound):
        fixture.do(lambda batch: check_queue(batch, "qq"))
