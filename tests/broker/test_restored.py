"""A broker restored from an old backup: it notices, stands still, runs nothing twice and gives no id twice."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.inbox import FromWorker
from grassq.broker.service import Draft
from grassq.core.messages import Ack, Check, Forget, Hello, Order, Report, Start, StorePosition, Withdraw
from grassq.core.model import AttemptId, Constraints, Outcome, State, WorkerInfo
from grassq.core.states import Exited, Lost, Started

A, B = a_worker("a", cpu=2), a_worker("b", cpu=2)


class Site(DeciderFixture):
    """A desk on a file that can be backed up, and the workers at it."""

    def __init__(self, path: str) -> None:
        self.hands: dict[str, Hand] = {}
        super().__init__(path=path)

    def back_up(self) -> str:
        """The store as it is now, in another file."""
        target = f"{self.store.path}.backup"
        with sqlite3.connect(self.store.path) as connection:
            connection.execute("vacuum into ?", (target,))
        return target


class Hand:
    """A worker that runs what it is told at once, keeps a run dir of it, and remembers what it has heard."""

    def __init__(self, fixture: Site, info: WorkerInfo) -> None:
        self.fixture = fixture
        self.info = info
        self.dirs: dict[AttemptId, Start] = {}
        self.unacknowledged: set[AttemptId] = set()
        #: Jobs whose command really ran here, each time.
        self.ran: list[int] = []
        self.seen: StorePosition | None = None
        self.ends = True

    def connect(self) -> None:
        hello = Hello(self.info, held=tuple(sorted(self.dirs, reverse=True)), seen=self.seen)
        self.obey(self.fixture.process(FromWorker(self.info.name, hello)).orders)
        self.seen = self.fixture.decider.status.history.position

    def again(self) -> None:
        """Repeat what was not acknowledged."""
        for attempt in sorted(self.unacknowledged):
            self.tell(attempt)

    def tell(self, attempt: AttemptId) -> None:
        self.unacknowledged.add(attempt)
        self._say(Report(attempt[0], Exited(attempt[1], Outcome.EXITED, 0)))

    def _say(self, message: Report) -> None:
        self.obey(self.fixture.process(FromWorker(self.info.name, message)).orders)
        self.seen = self.fixture.decider.status.history.position

    def obey(self, orders: list[tuple[str, Order]]) -> None:
        for worker, order in orders:
            hand = self.fixture.hands[worker]
            match order:
                case Start():
                    hand.start(order)
                case Withdraw() if hand.ends:
                    hand.tell(order.id)
                case Check():
                    hand.tell(order.id)
                case Ack():
                    hand.unacknowledged.discard(order.id)
                case Forget(jobs):
                    hand.dirs = {attempt: start for attempt, start in hand.dirs.items() if attempt[0] not in jobs}

    def start(self, order: Start) -> None:
        # A start comes with the position of the store.
        self.seen = self.fixture.decider.status.history.position
        if order.id not in self.dirs:
            self.dirs[order.id] = order
            self.ran.append(order.job)
        if self.ends:
            self.tell(order.id)


def hands(fixture: Site, *infos: WorkerInfo) -> list[Hand]:
    """Workers at a desk."""
    fixture.hands = {info.name: Hand(fixture, info) for info in infos}
    for hand in fixture.hands.values():
        hand.connect()
    return [*fixture.hands.values()]


@pytest.fixture
def fixture(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "grass.db"))


def submit(fixture: Site, *drafts: Draft) -> list[int]:
    """Submit, and let the workers do what they are told."""
    effects = fixture.process(fixture.submission(*drafts))
    next(iter(fixture.hands.values())).obey(effects.orders)
    answer = effects.answers[0][1]
    assert isinstance(answer, list), answer
    return answer


def test_what_ran_since_the_backup_does_not_run_again_and_no_id_is_given_twice(fixture: Site) -> None:
    a, b = hands(fixture, A, B)
    submit(fixture, *[a_draft(hold=True) for _ in range(3)], *[a_draft(name=f"n{i}") for i in range(3)])
    backup = fixture.back_up()
    fixture.do(lambda batch: at_once.release(batch, chosen("1-3")))
    a.connect()
    b.connect()
    submit(fixture, *[a_draft() for _ in range(20)])
    ran = sorted(a.ran + b.ran)
    assert ran == list(range(1, 27))
    dirs = a.dirs | b.dirs

    fixture.restore(backup)
    a.connect()
    b.connect()
    assert sorted(a.ran + b.ran) == ran, "nothing ran a second time"
    for job_id in (1, 2, 3):
        job = fixture.job(job_id)
        assert (job.state, job.attempt) == (State.HELD, 1)
        assert "ran attempt 1 of it after the backup" in (job.reason or "")
        assert f"`grass release {job_id}` runs it again" in (job.reason or "")
    assert fixture.store.totals() == {"held": 3, "succeeded": 3}
    assert submit(fixture, a_draft()) == [27], "no id is given twice"
    fixture.do(lambda batch: at_once.release(batch, chosen("2")))
    a.connect()
    b.connect()
    assert (fixture.job(2).state, fixture.job(2).attempt) == (State.SUCCEEDED, 2)
    assert dirs.items() <= (a.dirs | b.dirs).items(), "no run dir is deleted"
    assert fixture.decider.board.unreconciled == set()


def test_after_another_restart_no_id_is_given_twice_and_no_run_dir_is_deleted(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    backup = fixture.back_up()
    submit(fixture, *[a_draft() for _ in range(3)])
    fixture.restore(backup)
    a.connect()
    fixture.restart()
    assert fixture.submit(a_draft(hold=True)) == [4]
    assert a.dirs.keys() == {(1, 1), (2, 1), (3, 1)}
    a.connect()
    assert a.dirs.keys() == {(1, 1), (2, 1), (3, 1)} and fixture.decider.board.unreconciled == set()
    fixture.submit(a_draft(hold=True))
    fixture.do(lambda batch: at_once.kill(batch, chosen("5"), None))
    fixture.do(lambda batch: at_once.clean(batch, chosen("5"), None))
    orders = fixture.hello(A, held=[*a.dirs, (5, 1)])
    assert [order for order in orders if isinstance(order, Forget)] == [Forget((5,))], "given after the restore"


def test_a_waiting_job_of_the_backup_is_not_started_before_who_ran_it_has_spoken(fixture: Site) -> None:
    a, b = hands(fixture, A, B)
    submit(fixture, a_draft(cpu=2, constraints=Constraints(worker="a")))
    submit(fixture, a_draft(hold=True))
    backup = fixture.back_up()
    held = fixture.job(2)
    fixture.do(lambda batch: at_once.set_priority(batch, chosen("2"), 50))
    fixture.do(lambda batch: at_once.release(batch, chosen("2")))
    a.connect()
    b.connect()
    ran = a.ran + b.ran
    assert ran.count(2) == 1
    ran_it, other = (a, b) if 2 in a.ran else (b, a)

    fixture.restore(backup)
    assert fixture.job(2) == held
    fixture.clock.now += 60
    other.connect()
    fixture.do(lambda batch: at_once.release(batch, chosen("2")))
    assert fixture.job(2).state is State.QUEUED and fixture.decider.board.unreconciled == {ran_it.info.name}
    fixture.clock.now += 1e6
    fixture.process()
    assert fixture.job(2).state is State.QUEUED
    ran_it.connect()
    assert (fixture.job(2).state, fixture.job(2).attempt) == (State.HELD, 1)
    assert a.ran + b.ran == ran


def test_it_is_said_loudly_and_shown_and_why_tells_the_way_out(fixture: Site, caplog: pytest.LogCaptureFixture) -> None:
    (a, _b) = hands(fixture, A, B)
    backup = fixture.back_up()
    submit(fixture, a_draft())
    a.connect()
    fixture.restore(backup)
    with caplog.at_level(logging.ERROR):
        a.connect()
    assert "restored_from_backup" in caplog.text and "grass resume --restored" in caplog.text
    (second,) = submit(fixture, a_draft())
    shown = fixture.do(lambda batch: at_once.show(batch, []), changing=False)
    assert shown["restored"] == ["b"]
    text = fixture.do(lambda batch: at_once.why(batch, chosen(str(second))), changing=False)["jobs"][0]["text"]
    assert "restored from a backup, and b may have run jobs since" in text and "grass resume --restored" in text
    done = fixture.do(service.accept_restored)
    assert done.notes == ["what b ran since the backup may be started a second time"]
    assert fixture.job(second).state is State.PLACED
    assert fixture.do(service.accept_restored).notes == ["no restore in progress"]


def test_doubts_outlive_a_restart(fixture: Site) -> None:
    a, b = hands(fixture, A, B)
    backup = fixture.back_up()
    submit(fixture, a_draft(), a_draft(), a_draft())
    a.connect()
    fixture.restore(backup)
    a.connect()
    assert fixture.decider.board.unreconciled == {"b"}
    fixture.restart()
    assert fixture.decider.board.unreconciled == {"b"}
    fixture.clock.now += 60
    a.connect()
    (waits,) = submit(fixture, a_draft())
    assert fixture.job(waits).state is State.QUEUED
    b.connect()
    assert fixture.job(waits).state is State.SUCCEEDED


def test_a_worker_that_is_removed_is_waited_for_no_more(fixture: Site) -> None:
    a, _b = hands(fixture, A, B)
    backup = fixture.back_up()
    submit(fixture, a_draft())
    a.connect()
    fixture.restore(backup)
    a.connect()
    (waits,) = submit(fixture, a_draft())
    fixture.do(lambda batch: service.remove_worker(batch, "b"))
    assert fixture.decider.board.unreconciled == set() and fixture.job(waits).state is State.PLACED


def test_a_restart_that_lost_nothing_raises_no_doubts(fixture: Site) -> None:
    a, b = hands(fixture, A, B)
    submit(fixture, a_draft())
    for _ in range(3):
        fixture.restart()
        b.connect()
        a.connect()
        assert fixture.decider.board.unreconciled == set()
        submit(fixture, a_draft())
    assert sorted(a.ran + b.ran) == [1, 2, 3, 4]


def test_a_position_of_the_present_or_the_past_is_not_ahead_and_one_of_the_future_is(fixture: Site) -> None:
    hands(fixture, A)
    first = fixture.decider.status.history.position
    submit(fixture, a_draft())
    last = fixture.decider.status.history.position
    fixture.restart()
    submit(fixture, a_draft())
    ahead = fixture.decider.status.history.is_behind
    now = fixture.decider.status.history.position
    assert not ahead(first) and not ahead(last) and not ahead(now)
    assert ahead(replace(last, commit=last.commit + 1)), "that incarnation ended earlier"
    assert ahead(replace(now, commit=now.commit + 1))
    assert ahead(StorePosition("never heard of", 7))
    assert not ahead(StorePosition("never heard of", 0)), "older than everything that is kept"


def test_ids_a_worker_has_heard_of_are_not_given_again_although_it_holds_none(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    backup = fixture.back_up()
    ids = submit(fixture, *[a_draft(hold=True) for _ in range(7)])
    a.connect()
    fixture.restore(backup)
    a.connect()
    assert submit(fixture, a_draft()) == [ids[-1] + 1]


def test_the_end_of_an_attempt_without_a_record_is_acknowledged_and_changes_no_job(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    backup = fixture.back_up()
    submit(fixture, a_draft())
    fixture.restore(backup)
    hello = FromWorker("a", Hello(A, held=((1, 1),), seen=a.seen))
    assert fixture.process(hello).orders == [("a", Withdraw(1, 1, A.boot, unrecorded=True))]
    end = FromWorker("a", Report(1, Exited(1, Outcome.EXITED, 3)))
    assert fixture.process(end).orders == [("a", Ack(1, 1))]
    assert fixture.store.totals() == {}


def test_what_is_told_in_a_batch_that_fails_is_not_lost(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    submit(fixture, a_draft(hold=True))
    backup = fixture.back_up()
    fixture.do(lambda batch: at_once.release(batch, chosen("1")))
    a.connect()
    fixture.restore(backup)
    fixture.trouble.at = ["before commit"]
    fixture.process(FromWorker("a", Hello(A, held=((1, 1), (5, 1)), seen=a.seen)))
    assert fixture.job(1).attempt == 0
    fixture.process()
    assert fixture.job(1).attempt == 1 and fixture.submit(a_draft(hold=True)) == [6]


def test_a_waiting_job_of_which_a_worker_has_a_newer_attempt_is_held(
    fixture: Site, caplog: pytest.LogCaptureFixture
) -> None:
    hands(fixture, A)
    (job_id,) = fixture.submit(a_draft(hold=True))
    backup = fixture.back_up()
    fixture.submit(a_draft(hold=True))
    seen = fixture.decider.status.history.position
    fixture.restore(backup)
    fixture.do(lambda batch: service.pause(batch, None))
    fixture.do(lambda batch: at_once.release(batch, chosen(str(job_id))))
    fixture.process(FromWorker("a", Hello(A, held=((job_id, 4), (77, 1)), seen=seen)))
    job = fixture.job(job_id)
    assert (job.state, job.attempt) == (State.HELD, 4) and "grass release" in (job.reason or "")
    assert fixture.decider.board.unreconciled == set()
    assert "unrecorded_attempt worker=a job=77 attempt=1: `grass doctor` there" in caplog.text


def test_a_newer_attempt_elsewhere_holds_the_job_when_the_one_in_the_backup_is_over(fixture: Site) -> None:
    a, b = hands(fixture, A, B)
    a.ends = b.ends = False
    submit(fixture, a_draft(cpu=2, on_lost="requeue"))
    fixture.report(1, Started(1, 4711), worker="a")
    backup = fixture.back_up()
    assert fixture.job(1).placement.worker == "a"  # type: ignore[union-attr]
    fixture.silent("a")
    fixture.clock.now += 300
    b.obey(fixture.process().orders)
    assert (1, 2) in b.dirs
    fixture.restore(backup)
    b.connect()
    fixture.hello(A, held=a.dirs, seen=a.seen)
    assert fixture.job(1).attempt == 1
    fixture.report(1, Lost(1, Outcome.LOST, "its lease ended"), worker="a")
    b.connect()
    job = fixture.job(1)
    assert (job.state, job.attempt, a.ran, b.ran) == (State.HELD, 2, [1], [1])


def test_an_id_given_before_anybody_knew_of_the_backup_never_runs_as_the_attempt_that_ran(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    backup = fixture.back_up()
    submit(fixture, a_draft())
    fixture.restore(backup)
    (stolen,) = fixture.submit(a_draft(command=(b"another",)))
    assert stolen == 1
    a.connect()
    job = fixture.job(1)
    assert (job.state, job.attempt, a.ran) == (State.HELD, 1, [1])
    fixture.do(lambda batch: at_once.release(batch, chosen("1")))
    a.connect()
    assert (fixture.job(1).attempt, a.ran) == (2, [1, 1]), "its own folder, not the one that is there"


def test_folders_of_removed_jobs_may_go_but_not_what_a_rerun_needs(fixture: Site) -> None:
    (a,) = hands(fixture, A)
    submit(fixture, a_draft(), a_draft(), a_draft())
    fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "k", b"d"))
    fixture.do(lambda batch: at_once.clean(batch, chosen("1-2"), None))
    orders = fixture.hello(A, held=a.dirs)
    assert [order for order in orders if isinstance(order, Forget)] == [Forget((1, 2), (1,))]


def test_logs_that_are_to_be_kept_are_kept_by_a_worker_that_was_away(fixture: Site) -> None:
    """A worker that can is told to put the folders aside; a worker of an earlier release keeps the jobs in the list."""
    (a,) = hands(fixture, A)
    submit(fixture, a_draft(), a_draft(), a_draft())
    done = fixture.do(lambda batch: at_once.clean(batch, chosen("1"), None, keep_logs=True))
    assert done.ids == [] and done.notes == ["job 1 stays: worker a cannot keep the logs of a removed job"]
    newer = replace(A, keeps_logs=True)
    fixture.hello(newer, held=a.dirs)
    fixture.do(lambda batch: at_once.clean(batch, chosen("1"), None, keep_logs=True))
    fixture.do(lambda batch: at_once.clean(batch, chosen("2"), None))
    fixture.do(lambda batch: batch.changes.cleared.extend([1, 2]))
    orders = fixture.hello(newer, held=a.dirs)
    assert [each for each in orders if isinstance(each, Forget)] == [Forget((2,)), Forget((1,), keep_logs=True)]


def test_strays_of_this_machine_are_not_deleted(fixture: Site) -> None:
    fixture.local = "a"
    fixture.restart()
    fixture.hello(A)
    fixture.submit(a_draft())
    fixture.exited(1)
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    fixture.do(lambda batch: at_once.clean(batch, chosen("1"), None))
    assert fixture.hello(A, held=[(1, 1)]) == []
