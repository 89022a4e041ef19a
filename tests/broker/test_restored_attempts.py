"""A broker restored from an old backup: what it does with the attempts that it and its workers know differently."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import at_once
from tests.broker.decider_fixture import a_draft, chosen
from tests.broker.test_restored import A, B, Site, hands, submit

from grassq.broker import service
from grassq.broker.inbox import Call, FromWorker
from grassq.core.messages import Ack, Hello, Report, Stop
from grassq.core.model import Outcome, State
from grassq.core.states import Exited, Lost


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "grass.db"))


def test_a_start_of_the_backup_is_not_repeated_while_somebody_may_have_a_newer_attempt(site: Site) -> None:
    a, b = hands(site, A, B)
    b.ends = False
    site.submit(a_draft(cpu=2, on_lost="requeue"))
    backup = site.back_up()
    site.silent("a")
    site.clock.now += 300
    b.obey(site.process().orders)
    site.restore(backup)
    a.connect()
    assert site.job(1).placement.worker == "a" and a.ran == []  # type: ignore[union-attr]
    b.connect()
    assert (a.ran, b.ran) == ([], [1])


def test_a_start_of_the_backup_is_repeated_once_everybody_has_spoken(site: Site) -> None:
    a, b = hands(site, A, B)
    site.submit(a_draft(cpu=2))
    site.restore(site.back_up())
    a.connect()
    assert a.ran == []
    b.connect()
    a.obey(site.process().orders)
    assert (site.job(1).state, a.ran) == (State.SUCCEEDED, [1])


def test_what_ran_of_a_job_that_was_killed_before_its_worker_spoke_is_stopped(site: Site) -> None:
    (a,) = hands(site, A)
    a.ends = False
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    a.obey(site.process(Call(lambda batch: at_once.release(batch, chosen("1")))).orders)
    assert a.ran == [1]
    site.restore(backup)
    site.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    assert site.job(1).state is State.CANCELLED
    orders = site.hello(A, held=a.dirs, seen=a.seen)
    assert [(order.job, order.attempt) for order in orders if isinstance(order, Stop)] == [(1, 1)]
    assert site.report(1, Exited(1, Outcome.CANCELLED, None, 15), worker="a").orders == [("a", Ack(1, 1))]
    assert site.job(1).state is State.CANCELLED


def test_the_end_of_a_leased_attempt_counts_only_when_nobody_can_have_a_newer_one(site: Site) -> None:
    a, b = hands(site, A, B)
    a.ends = b.ends = False
    submit(site, a_draft(cpu=2, on_lost="requeue"))
    backup = site.back_up()
    site.silent("a")
    site.clock.now += 300
    b.obey(site.process().orders)
    site.restore(backup)
    a.connect()
    lost = Report(1, Lost(1, Outcome.LOST, "its lease ended"))
    assert site.process(FromWorker("a", lost)).orders == [], "not acknowledged: it is repeated"
    assert site.job(1).state is State.PLACED
    b.connect()
    assert site.process(FromWorker("a", lost)).orders == [("a", Ack(1, 1))]
    assert (site.job(1).state, site.job(1).attempt, b.ran) == (State.HELD, 2, [1])


def test_a_worker_whose_hello_comes_with_its_removal_is_removed(site: Site) -> None:
    hands(site, A, B)
    submit(site, a_draft(hold=True, cpu=2))
    remove = Call(lambda batch: service.remove_worker(batch, "a"))
    release = Call(lambda batch: at_once.release(batch, chosen("1")))
    site.process(remove, FromWorker("a", Hello(A)), release)
    assert site.decider.board.workers.keys() == {"b"}
    assert site.job(1).placement.worker == "b"  # type: ignore[union-attr]
