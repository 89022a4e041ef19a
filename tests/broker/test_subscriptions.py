"""Subscriptions: every committed change is told once and in order, within a bound, and can be resumed."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import subscriptions
from grassq.broker.batch import Batch
from grassq.broker.inbox import OWNER, WORKS_FOR, Call, Effects, FromWorker
from grassq.broker.job_change import JobChange
from grassq.broker.subscriptions import Filter, Subscription, Subscriptions
from grassq.core.messages import Report
from grassq.core.model import Job, Outcome
from grassq.core.states import Exited, Started
from grassq.errors import Refused

EPOCH = "e1"
Q = Filter(queue="q")
ALL = Filter()


class Broker:
    """A decider whose changes are published as the engine publishes them."""

    def __init__(self) -> None:
        self.fixture = DeciderFixture(a_worker("w", cpu=4, offers=[an_offer(), an_offer("q")]))
        self.subscriptions = Subscriptions(EPOCH)
        self.subscribe = self.subscriptions.subscribe

    def process(self, *messages: Call | FromWorker) -> Effects:
        effects = self.fixture.decider.process(messages)
        self.subscriptions.publish(effects.changed, effects.must_reread)
        return effects

    def submit(self, *queues: str) -> None:
        self.process(self.fixture.submission(*map(a_draft, queues)))


def seen(changes: list[JobChange] | None) -> list[tuple[int, str]]:
    assert changes is not None
    return [(change.job, change.event) for change in changes]


def started(job: int) -> FromWorker:
    return FromWorker("w", Report(job, Started(1, 4711)))


def exited(job: int) -> FromWorker:
    return FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 0)))


def killing(text: str | int, **more: bool) -> Callable[[Batch], object]:
    return lambda batch: at_once.kill(batch, chosen(text), None, **more)


def test_the_changes_of_a_queue_are_told_in_order_and_of_no_other() -> None:
    broker = Broker()
    woken = []
    mine = broker.subscribe(Q, wake=lambda: woken.append(1))
    broker.submit("q", "default", "q")
    broker.process(started(3), exited(2), exited(1), exited(3))
    changes = mine.take()
    assert seen(changes) == [
        (1, "submitted"),
        (3, "submitted"),
        (1, "placed"),
        (3, "placed"),
        (3, "started"),
        (1, "exited"),
        (3, "exited"),
    ]
    assert [change.state for change in changes or ()][-1] == "succeeded"
    assert mine.take() == []
    assert len(woken) == 2, "once for each batch"


def test_changes_of_some_jobs_or_only_ends_are_told_to_who_wants_no_more() -> None:
    broker = Broker()
    two, ends = broker.subscribe(Filter(frozenset({2}))), broker.subscribe(Filter(ended=True))
    broker.submit("q", "default")
    broker.process(exited(1), exited(2))
    assert seen(two.take()) == [(2, "submitted"), (2, "placed"), (2, "exited")]
    assert seen(ends.take()) == [(1, "exited"), (2, "exited")]


def test_equal_jobs_of_one_submit_are_one_change_and_so_are_those_removed() -> None:
    broker = Broker()
    mine, third = broker.subscribe(ALL), broker.subscribe(Filter(frozenset({3})))
    broker.process(broker.fixture.submission(*[a_draft("q", hold=True)] * 5, a_draft("default", hold=True)))
    broker.process(Call(killing("all")))
    broker.process(Call(lambda batch: at_once.clean(batch, chosen("all"), None)))
    told = mine.take() or []
    ranges = [(change.event, change.job, change.last) for change in told if change.event in ("submitted", "removed")]
    assert ranges == [("submitted", 1, 5), ("submitted", 6, 6), ("removed", 1, 5), ("removed", 6, 6)]
    assert [change.event for change in third.take() or []] == ["submitted", "cancel requested", "removed"]


def test_a_priority_is_a_change_too() -> None:
    broker = Broker()
    broker.process(broker.fixture.submission(a_draft("q", hold=True)))
    mine = broker.subscribe(Q)
    broker.process(Call(lambda batch: at_once.set_priority(batch, chosen("all"), 40)))
    assert [(change.event, change.detail) for change in mine.take() or []] == [("priority", "40")]


def test_who_comes_back_is_told_what_came_after_its_position() -> None:
    broker = Broker()
    broker.submit("q", "q")
    position = broker.subscriptions.position
    broker.process(exited(1))
    broker.submit("default")
    assert seen(broker.subscribe(Q, position).take()) == [(1, "exited")]
    assert seen(broker.subscribe(Q, broker.subscriptions.position).take()) == []


@pytest.mark.parametrize("position", [("e0", 1), (EPOCH, 10**6)])
def test_a_position_of_another_run_cannot_be_resumed(position: tuple[str, int]) -> None:
    broker = Broker()
    broker.submit("q")
    mine = broker.subscribe(Q, position)
    assert mine.take() is None, "it must re-read"
    broker.process(exited(1))
    assert seen(mine.take()) == [(1, "exited")], "and is told of what comes"


def test_what_the_ring_no_longer_has_cannot_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "RING_MAX", 3)
    broker = Broker()
    begin = broker.subscriptions.position
    broker.submit("q")
    after_submit = broker.subscriptions.position
    broker.process(started(1), exited(1))
    assert after_submit == (EPOCH, 2)
    assert broker.subscribe(Q, begin).take() is None
    assert seen(broker.subscribe(Q, (EPOCH, 1)).take()) == [(1, "placed"), (1, "started"), (1, "exited")]
    broker.submit(*["q"] * 4)
    assert broker.subscribe(Q, after_submit).take() is None


def test_who_falls_behind_must_re_read_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_MAX", 3)
    broker = Broker()
    mine = broker.subscribe(Q)
    broker.submit("q", "q")
    assert not mine.must_reread
    broker.process(exited(1))
    assert mine.must_reread
    assert mine.take() is None
    broker.process(exited(2))
    assert seen(mine.take()) == [(2, "exited")]


def test_who_waits_for_the_ends_of_named_jobs_never_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_MAX", 1)
    broker = Broker()
    broker.submit("q", "q", "q")
    mine = broker.subscribe(Filter(frozenset({1, 2, 3}), ended=True))
    mine.keep({1, 2})
    broker.process(exited(1), exited(2), exited(3))
    assert seen(mine.take()) == [(1, "exited"), (2, "exited")]


def test_after_a_commit_that_failed_every_subscriber_must_re_read() -> None:
    broker = Broker()
    mine, one = broker.subscribe(Q), broker.subscribe(Filter(frozenset({1})))
    position = broker.subscriptions.position
    broker.fixture.trouble.at = ["before commit"]
    broker.submit("q")
    assert broker.fixture.trouble.at == [], "the trouble was met"
    assert mine.take() is None and one.take() is None
    broker.submit("q")
    assert seen(broker.subscribe(Q, position).take()) == seen(mine.take())


def test_subscriptions_are_bounded_in_number_and_in_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "SUBSCRIBERS_MAX", 1)
    monkeypatch.setattr(subscriptions, "SUBSCRIBED_JOBS_MAX", 3)
    broker = Broker()
    for first, second in [(Q, ALL), (Filter(frozenset({1, 2})), Filter(frozenset({2, 3})))]:
        mine = broker.subscribe(first)
        with pytest.raises(Refused):
            broker.subscribe(second)
        mine.close()
        broker.subscribe(second).close()


def test_what_one_token_waits_for_refuses_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "TOKEN_SUBSCRIBERS_MAX", 2)
    monkeypatch.setattr(subscriptions, "TOKEN_SUBSCRIBED_JOBS_MAX", 3)
    broker = Broker()

    def subscribe(caller: str, wanted: Filter) -> Subscription:
        def as_caller() -> Subscription:
            WORKS_FOR.set(caller)
            return broker.subscribe(wanted)

        return contextvars.copy_context().run(as_caller)

    three = Filter(frozenset({1, 2, 3}))
    taken = [subscribe("eve", three), subscribe("eve", ALL), subscribe("eve", Q)]
    with pytest.raises(Refused, match=r"3 already, 1 more, limit 3"):
        subscribe("eve", Filter(frozenset({4})))
    with pytest.raises(Refused, match=r"2 event streams of your token are open"):
        subscribe("eve", Q)
    for other in ("ann", OWNER):
        subscribe(other, three)
        subscribe(other, Q)
    for mine in taken:
        mine.close()
    subscribe("eve", three)
    subscribe("eve", Q)


def test_a_subscriber_waits_for_the_next_change_or_for_its_time() -> None:
    async def test() -> None:
        broker = Broker()
        mine = broker.subscribe(Q)
        assert await mine.next(0.01) == []
        waiting = asyncio.ensure_future(mine.next())
        await asyncio.sleep(0)
        broker.submit("q")
        assert seen(await waiting) == [(1, "submitted"), (1, "placed")]

    asyncio.run(test())


def test_kill_unstarted_cancels_what_waits_and_leaves_what_was_placed() -> None:
    fixture = a_decider(cpu=2)
    fixture.submit(a_draft(), a_draft(), a_draft(), a_draft(hold=True), a_draft("nowhere"))
    fixture.started(1)

    def kill(text: str | int) -> list[tuple[int, str]]:
        jobs: list[Job] = fixture.do(killing(text, unstarted=True)).jobs
        return [(job.id, str(job.state)) for job in jobs]

    assert kill("all") == [(3, "cancelled"), (4, "cancelled"), (5, "cancelled")]
    assert [fixture.job(id_).state for id_ in (1, 2)] == ["running", "placed"]
    assert not fixture.job(1).cancel_requested and not fixture.job(2).cancel_requested
    assert kill(1) == []
