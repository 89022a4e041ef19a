"""A broker restored from an old backup: what it does with the attempts that it and its workers know differently."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.broker.test_restored import A, B, Hand, Site, hands, submit
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.decider import AWAIT_S
from grassq.broker.inbox import Call, FromWorker
from grassq.core.job_options import STOP_GRACE_S
from grassq.core.messages import Ack, Hello, Report, Stop, Withdraw
from grassq.core.model import Outcome, State
from grassq.core.states import Exited, Lost, RefusedByWorker, Started
from grassq.core.waiting.retries import RETRY_DELAY_S


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


def test_a_newer_attempt_than_the_running_one_is_known_after_a_restart_too(site: Site) -> None:
    a, b = hands(site, A, B)
    a.ends = b.ends = False
    submit(site, a_draft(cpu=2, on_lost="requeue"))
    site.report(1, Started(1, 4711), worker="a")
    backup = site.back_up()
    site.silent("a")
    site.clock.now += 300
    b.obey(site.process().orders)
    site.restore(backup)
    a.connect()
    b.connect()
    assert site.job(1).state is State.RUNNING
    site.restart()
    a.connect()
    b.connect()
    site.silent("a")
    site.clock.now += 300
    site.process()
    assert (site.job(1).state, site.job(1).attempt, b.ran) == (State.HELD, 2, [1])


def test_a_worker_whose_hello_comes_with_its_removal_is_removed(site: Site) -> None:
    hands(site, A, B)
    submit(site, a_draft(hold=True, cpu=2))
    remove = Call(lambda batch: service.remove_worker(batch, "a"))
    release = Call(lambda batch: at_once.release(batch, chosen("1")))
    site.process(remove, FromWorker("a", Hello(A)), release)
    assert site.decider.board.workers.keys() == {"b"}
    assert site.job(1).placement.worker == "b"  # type: ignore[union-attr]


def beside_unrecorded(site: Site) -> tuple[Hand, int]:
    """A worker that runs job 1, of which the restored store has no record, and a job submitted since."""
    (a,) = hands(site, A)
    a.ends = False
    backup = site.back_up()
    submit(site, a_draft())
    site.restore(backup)
    a.connect()
    (waits,) = submit(site, a_draft())
    return a, waits


def test_nothing_is_started_beside_a_running_attempt_that_the_store_has_no_record_of(site: Site) -> None:
    a, waits = beside_unrecorded(site)
    assert site.job(waits).state is State.QUEUED
    text = site.do(lambda batch: at_once.why(batch, chosen(str(waits))), changing=False)["jobs"][0]["text"]
    assert "worker a may run attempt 1 of job 1, which the store has no record of" in text
    a.tell((1, 1))
    assert site.job(waits).state is State.PLACED and a.ran == [1, waits]


def test_a_start_of_the_backup_waits_for_an_attempt_that_the_store_has_no_record_of(site: Site) -> None:
    (a,) = hands(site, A)
    a.ends = False
    site.submit(a_draft(cpu=2))
    backup = site.back_up()
    site.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    site.report(1, RefusedByWorker(1, "given up before it started"), worker="a")
    submit(site, a_draft(cpu=2))
    site.restore(backup)
    a.connect()
    assert site.job(1).state is State.PLACED and a.ran == [2]
    a.tell((2, 1))
    assert a.ran == [2, 1]


def test_a_job_is_not_released_while_an_attempt_without_a_record_may_run_and_a_kill_ends_that(site: Site) -> None:
    (a,) = hands(site, A)
    a.ends = False
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    site.do(lambda batch: at_once.release(batch, chosen("1")))
    a.connect()
    assert a.ran == [1]
    site.restore(backup)
    a.connect()
    site.restart()
    site.process(FromWorker("a", Hello(A, unrecorded=((1, 1),))))
    done = site.do(lambda batch: at_once.release(batch, chosen("1")))
    assert "an attempt of it that the store has no record of may still run" in done.notes[0]
    assert site.job(1).state is State.HELD
    effects = site.process(Call(lambda batch: at_once.kill(batch, chosen("1"), None)))
    assert effects.orders == [("a", Stop(1, 1, STOP_GRACE_S, A.boot))]
    assert site.job(1).state is State.CANCELLED


def test_a_job_is_not_released_until_the_worker_that_ran_it_without_a_record_has_reconnected(site: Site) -> None:
    a, b = hands(site, A, B)
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    site.do(lambda batch: at_once.release(batch, chosen("1")))
    a.connect()
    site.restore(backup)
    a.connect()
    b.connect()
    assert site.job(1).state is State.HELD
    site.restart()
    b.connect()
    site.clock.now += 2 * AWAIT_S
    done = site.do(lambda batch: at_once.release(batch, chosen("1")))
    assert "may run on a, which has not connected since the broker started" in done.notes[0]
    assert site.job(1).state is State.HELD and b.ran == []
    site.do(lambda batch: service.remove_worker(batch, "a", lost=True))
    site.do(lambda batch: at_once.release(batch, chosen("1")))
    b.connect()
    assert b.ran == [1]


def test_an_attempt_without_a_record_counts_also_when_its_worker_did_not_get_the_answer(site: Site) -> None:
    (a,) = hands(site, A)
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    site.do(lambda batch: at_once.release(batch, chosen("1")))
    a.connect()
    site.restore(backup)
    answer = Withdraw(1, 1, A.boot, unrecorded=True)
    assert site.hello(A, held=a.dirs, seen=a.seen) == [answer] == site.hello(A, held=a.dirs)
    site.restart()
    assert site.hello(A, held=a.dirs) == [answer]
    assert site.decider.board.workers["a"].unrecorded == {(1, 1)}


def test_who_goes_on_without_waiting_gives_the_devices_away(site: Site) -> None:
    _, waits = beside_unrecorded(site)
    done = site.do(service.accept_restored)
    assert done.notes == ["other jobs may get the devices of a that job 1 may still use"]
    assert site.job(waits).state is State.PLACED


@pytest.mark.parametrize("is_marked", [True, False])
def test_what_runs_of_a_job_that_was_killed_keeps_its_devices_and_is_stopped_also_after_a_restart(
    site: Site, is_marked: bool
) -> None:
    (a,) = hands(site, A)
    a.ends = False
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    a.obey(site.process(Call(lambda batch: at_once.release(batch, chosen("1")))).orders)
    site.restore(backup)
    a.connect()
    site.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    assert site.job(1).state is State.CANCELLED
    site.restart()
    dirs = tuple(a.dirs)
    hello = Hello(A, held=() if is_marked else dirs, unrecorded=dirs if is_marked else ())
    orders = site.process(FromWorker("a", hello)).orders
    stop, withdraw = Stop(1, 1, STOP_GRACE_S, A.boot), Withdraw(1, 1, A.boot, unrecorded=True)
    assert orders == [("a", stop), ("a", withdraw)]
    (waits,) = submit(site, a_draft())
    assert site.job(waits).state is State.QUEUED, "nobody knows which devices it uses"
    a.tell((1, 1))
    assert site.job(waits).state is State.PLACED and site.job(1).state is State.CANCELLED


def test_what_ran_of_a_job_that_was_killed_before_its_worker_spoke_keeps_its_devices(site: Site) -> None:
    (a,) = hands(site, A)
    a.ends = False
    submit(site, a_draft(hold=True))
    backup = site.back_up()
    a.obey(site.process(Call(lambda batch: at_once.release(batch, chosen("1")))).orders)
    site.restore(backup)
    site.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    a.connect()
    site.restart()
    orders = site.hello(A, held=a.dirs)
    assert [type(order) for order in orders] == [Stop, Withdraw]
    (waits,) = submit(site, a_draft())
    assert site.job(waits).state is State.QUEUED
    a.tell((1, 1))
    assert site.job(waits).state is State.PLACED


@pytest.mark.parametrize("restarts", [True, False])
def test_a_newer_attempt_than_the_running_one_keeps_its_devices_when_its_worker_connects_again(
    site: Site, restarts: bool
) -> None:
    (a,) = hands(site, A)
    a.ends = False
    submit(site, a_draft(tries=2))
    site.report(1, Started(1, 4711), worker="a")
    backup = site.back_up()
    site.report(1, Exited(1, Outcome.EXITED, 1), worker="a")
    site.clock.now += 2 * RETRY_DELAY_S
    a.obey(site.process().orders)
    assert sorted(a.dirs) == [(1, 1), (1, 2)]
    site.restore(backup)
    site.hello(A, held=a.dirs, seen=a.seen)
    if restarts:
        site.restart()
    assert Withdraw(1, 2, A.boot, unrecorded=True) in site.hello(A, held=a.dirs)
    assert not site.decider.board.unreconciled
    site.report(1, Exited(1, Outcome.EXITED, 1), worker="a")
    (waits,) = submit(site, a_draft())
    assert (site.job(1).state, site.job(1).attempt, site.job(waits).state) == (State.HELD, 2, State.QUEUED)
    done = site.do(lambda batch: at_once.release(batch, chosen("1")))
    assert "may still run" in done.notes[0] and site.job(1).state is State.HELD
    a.tell((1, 2))
    assert site.job(waits).state is State.PLACED


def test_a_worker_that_was_removed_is_not_awaited_any_more() -> None:
    """Found by the simulator: a job that waits for the word of a removed worker could never be released."""
    fixture = DeciderFixture(a_worker("w", cpu=1), a_worker("v", cpu=1))
    fixture.restart()
    fixture.hello(a_worker("w", cpu=1))
    assert fixture.decider.board.awaited == {"v"}
    fixture.do(lambda batch: service.remove_worker(batch, "v", lost=True))
    assert fixture.decider.board.awaited == set()
    fixture.decider.stale = True
    fixture.process()
    assert fixture.decider.board.awaited == set(), "also after the board was read again"
