"""Queues that are defined at the broker: which workers offer them, and what jobs wait for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.broker.decider_fixture import DeciderFixture, a_draft
from tests.builders import a_worker, an_offer

from grassq.broker import service, views
from grassq.core.messages import Start
from grassq.core.model import Offer, QueueTemplate, State
from grassq.errors import NotFound, Refused

PILOTS = QueueTemplate(Offer("pilots", prefix=(b"nice",)), ("big",))
SMALL = a_worker("small", cpu=4)
BIG = replace(a_worker("big", cpu=4), labels=("big", "fast"))


def put(fixture: DeciderFixture, template: QueueTemplate = PILOTS) -> str:
    status, _ = fixture.do(lambda batch: service.put_template(batch, template))
    return str(status)


def delete(fixture: DeciderFixture, queue: str = "pilots") -> None:
    fixture.do(lambda batch: service.delete_template(batch, queue))


def queues(fixture: DeciderFixture) -> list[tuple[object, object]]:
    shown = fixture.do(views.overview)["queues"]
    return [(queue["worker"], queue["name"]) for queue in shown]


def test_a_job_waits_for_a_worker_with_the_label_and_starts_when_one_joins() -> None:
    fixture = DeciderFixture(SMALL)
    assert put(fixture) == "created"
    (job,) = fixture.submit(a_draft("pilots", cpu=100))
    (small,) = fixture.submit(a_draft("pilots"))
    assert fixture.job(job).state is State.WAITING, "what no worker offers is never judged too large"
    assert fixture.reason(small) == "no worker offers queue 'pilots' yet; it starts when a worker with label big joins"
    assert queues(fixture) == [("small", "default"), (None, "pilots")]
    orders = fixture.hello(BIG)
    assert [order.job for order in orders if isinstance(order, Start)] == [small]
    placement = fixture.job(small).placement
    assert placement is not None and (placement.worker, placement.prefix) == ("big", (b"nice",))
    assert "no worker can run it" in fixture.reason(job)
    assert queues(fixture) == [("big", "default"), ("big", "pilots"), ("small", "default")]


def test_a_worker_that_is_there_offers_a_new_template_at_once_and_a_restart_keeps_it() -> None:
    fixture = DeciderFixture(BIG)
    (job,) = fixture.submit(a_draft("pilots"))
    assert "no queue 'pilots'" in fixture.reason(job)
    put(fixture)
    assert fixture.job(job).state is State.PLACED
    fixture.restart()
    assert ("big", "pilots") in queues(fixture)
    assert (put(fixture), put(fixture, replace(PILOTS, labels=()))) == ("unchanged", "replaced")
    fixture.hello(SMALL)
    assert ("small", "pilots") in queues(fixture)


def test_a_deleted_template_lets_what_runs_finish_and_the_others_wait() -> None:
    fixture = DeciderFixture(BIG)
    put(fixture)
    fixture.submit(a_draft("pilots", cpu=4))
    (second,) = fixture.submit(a_draft("pilots", cpu=4))
    delete(fixture)
    assert fixture.job(1).state is State.PLACED and fixture.job(second).state is State.WAITING
    assert "no queue 'pilots'" in fixture.reason(second)
    fixture.restart()
    assert queues(fixture) == [("big", "default")]
    with pytest.raises(NotFound, match="no queue 'pilots' at this broker"):
        delete(fixture)


def test_a_workers_own_queue_comes_before_the_template() -> None:
    own = an_offer("pilots", cpu=1)
    fixture = DeciderFixture(replace(BIG, offers=(an_offer(), own)))
    put(fixture)
    state = fixture.decider.board.workers["big"]
    assert state.offer("pilots") == own == state.own_offer("pilots")
    fixture.hello(replace(BIG, offers=(an_offer(),)), fresh=False)
    state = fixture.decider.board.workers["big"]
    assert state.offer("pilots") == PILOTS.offer and state.own_offer("pilots") is None


def test_a_hello_that_says_nothing_new_is_not_stored_again() -> None:
    fixture = DeciderFixture(BIG)
    put(fixture)
    before = fixture.store.number
    fixture.hello(BIG, fresh=False)
    assert fixture.store.number == before


def test_default_is_every_workers_own_and_a_template_can_be_paused() -> None:
    fixture = DeciderFixture(SMALL)
    with pytest.raises(Refused, match="of its own"):
        put(fixture, QueueTemplate(Offer("default")))
    put(fixture)
    fixture.do(lambda batch: service.pause(batch, "pilots"))
    assert fixture.decider.board.is_paused("pilots")
