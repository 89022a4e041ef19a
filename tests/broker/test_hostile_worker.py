"""A worker in the wrong hands: what it says of jobs it was never given changes nothing, and stops nobody else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.broker.desk import Desk, a_draft
from tests.builders import a_worker

from grassq.broker import reunion
from grassq.broker.decide import FromWorker
from grassq.broker.reunion import LEAP_MAX
from grassq.core.messages import Moment, Recall, Recalled, Start
from grassq.core.model import ID_MAX, Outcome, Placement, State, Terms
from grassq.core.states import Exited, Started

A, EVIL = a_worker("a", cpu=2), a_worker("evil", cpu=2)
THERE = Placement("evil", EVIL.boot, {})


def recalled(desk: Desk, start: Start) -> None:
    """The worker tells what it says it was once ordered."""
    desk.process(FromWorker("evil", Recalled(start)))


def test_a_job_that_a_worker_invents_is_never_started_on_another() -> None:
    desk = Desk(A, EVIL)
    [real] = desk.submit(a_draft(hold=True))
    assert desk.hello(EVIL, held=[(500, 1)]) == [Recall(500, 1)]
    spec = replace(desk.job(real).spec, command=(b"steal",), tries=9, terms=Terms(worker="a"))
    recalled(desk, Start(500, 1, spec, THERE, ()))
    desk.report(500, Exited(1, Outcome.EXITED, 1), worker="evil")
    desk.clock.now += 60
    assert desk.process().orders == []
    assert set(desk.decider.board.jobs) == {real}


def test_a_worker_cannot_take_over_a_job_of_another() -> None:
    desk = Desk(A, EVIL)
    [job] = desk.submit(a_draft(terms=Terms(worker="a")))
    desk.report(job, Started(1, 4711), worker="a")
    before = desk.job(job)
    desk.hello(EVIL, held=[(job, 7)])
    recalled(desk, Start(job, 7, before.spec, THERE, ()))
    desk.report(job, Exited(7, Outcome.EXITED, 0), worker="evil")
    assert desk.job(job) == before
    assert before.state is State.RUNNING


def test_an_order_that_was_changed_is_not_known_again() -> None:
    desk = Desk(EVIL)
    effects = desk.process(desk.submission(a_draft()))
    [(_, order)] = effects.orders
    assert isinstance(order, Start) and len(order.seal) == 32
    desk.hello(EVIL, held=[(order.job, 2)])
    recalled(desk, replace(order, attempt=2))
    assert desk.job(order.job).attempt == 1


def test_ids_a_worker_makes_up_do_not_use_up_the_ids_there_are() -> None:
    desk = Desk(A, EVIL)
    for seen in (None, Moment("nobody's life", 10**9, ID_MAX)):
        desk.hello(EVIL, held=[(ID_MAX, 1), (ID_MAX - 1, 1)], seen=seen)
    desk.report(ID_MAX, Started(1, 1), worker="evil")
    [job] = desk.submit(a_draft(hold=True))
    assert job <= LEAP_MAX + 1


def test_an_attempt_number_no_store_can_hold_stops_nobody() -> None:
    desk = Desk(A)
    [job] = desk.submit(a_draft(hold=True))
    desk.hello(EVIL, held=[(job, 2**63)])
    for _ in range(60):
        desk.clock.now += 1
        desk.process()
    assert desk.submit(a_draft()) == [job + 1]


def test_what_is_remembered_of_a_worker_that_names_ever_more_attempts_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reunion, "HELD_MAX", 20)
    monkeypatch.setattr(reunion, "UNTOLD_MAX", 30)
    desk = Desk(EVIL)
    for job in range(1, 200):
        desk.report(job, Started(1, 1), worker="evil")
        desk.clock.now += 6
    state = desk.decider._reunion.state
    assert 0 < len(state.asked) <= 20
    assert 0 < len(state.untold) <= 30
