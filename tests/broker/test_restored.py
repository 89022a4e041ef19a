"""A broker restored from an old backup: it notices, runs nothing twice, and gets back what it has forgotten."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.desk import Desk, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service, views
from grassq.broker.decide import FromWorker
from grassq.broker.reunion import RECALL_TRIES
from grassq.broker.service import Draft
from grassq.core.messages import Ack, Check, Forget, Hello, Moment, Order, Recall, Recalled, Report, Start
from grassq.core.model import AttemptId, Outcome, State, Terms, WorkerInfo
from grassq.core.states import Exited, Started

A, B = a_worker("a", cpu=2), a_worker("b", cpu=2)


class Site(Desk):
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

    def __init__(self, desk: Site, info: WorkerInfo) -> None:
        self.desk = desk
        self.info = info
        self.dirs: dict[AttemptId, Start] = {}
        self.unacknowledged: set[AttemptId] = set()
        #: Jobs whose command really ran here, each time.
        self.ran: list[int] = []
        self.seen: Moment | None = None
        self.ends = True

    def connect(self) -> None:
        hello = Hello(self.info, held=tuple(sorted(self.dirs, reverse=True)), seen=self.seen)
        self.obey(self.desk.process(FromWorker(self.info.name, hello)).orders)
        self.seen = self.desk.decider.moment

    def again(self) -> None:
        """Repeat what was not acknowledged."""
        for attempt in sorted(self.unacknowledged):
            self.tell(attempt)

    def tell(self, attempt: AttemptId) -> None:
        self.unacknowledged.add(attempt)
        self._say(Report(attempt[0], Exited(attempt[1], Outcome.EXITED, 0)))

    def _say(self, message: Report | Recalled) -> None:
        self.obey(self.desk.process(FromWorker(self.info.name, message)).orders)
        self.seen = self.desk.decider.moment

    def obey(self, orders: list[tuple[str, Order]]) -> None:
        for worker, order in orders:
            hand = self.desk.hands[worker]
            match order:
                case Start():
                    hand.start(order)
                case Recall():
                    hand._say(Recalled(hand.dirs[order.id]))
                    hand.tell(order.id)
                case Check():
                    hand.tell(order.id)
                case Ack():
                    hand.unacknowledged.discard(order.id)
                case Forget(jobs):
                    hand.dirs = {attempt: start for attempt, start in hand.dirs.items() if attempt[0] not in jobs}

    def start(self, order: Start) -> None:
        if order.id not in self.dirs:
            self.dirs[order.id] = order
            self.ran.append(order.job)
        if self.ends:
            self.tell(order.id)


def hands(desk: Site, *infos: WorkerInfo) -> list[Hand]:
    """Workers at a desk."""
    desk.hands = {info.name: Hand(desk, info) for info in infos}
    for hand in desk.hands.values():
        hand.connect()
    return [*desk.hands.values()]


@pytest.fixture
def desk(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "grass.db"))


def submit(desk: Site, *drafts: Draft) -> list[int]:
    """Submit, and let the workers do what they are told."""
    effects = desk.process(desk.submission(*drafts))
    next(iter(desk.hands.values())).obey(effects.orders)
    answer = effects.answers[0][1]
    assert isinstance(answer, list), answer
    return answer


def test_what_ran_since_the_backup_comes_back_and_nothing_runs_twice(desk: Site) -> None:
    a, b = hands(desk, A, B)
    submit(desk, *[a_draft(hold=True) for _ in range(3)], *[a_draft(name=f"n{i}") for i in range(3)])
    backup = desk.back_up()
    desk.do(lambda batch: service.release(batch, chosen("1-3")))
    a.connect()
    b.connect()
    submit(desk, *[a_draft() for _ in range(20)])
    ran = sorted(a.ran + b.ran)
    assert ran == list(range(1, 27))
    ends = {job_id: desk.job(job_id) for job_id in ran}

    desk.restore(backup)
    assert desk.job(1).state is State.HELD
    a.connect()
    b.connect()
    assert sorted(a.ran + b.ran) == ran, "nothing ran a second time"
    for job_id, before in ends.items():
        now = desk.job(job_id)
        assert (now.state, now.exit_code, now.spec, now.name) == (State.SUCCEEDED, 0, before.spec, before.name)
        assert now.placement == before.placement
    assert submit(desk, a_draft()) == [27], "no id is given twice"
    assert desk.decider.board.doubts == set()
    assert "recalled" in [line.kind for line in desk.store.story(26)]


def test_a_waiting_job_of_the_backup_is_not_started_before_who_ran_it_has_spoken(desk: Site) -> None:
    a, b = hands(desk, A, B)
    submit(desk, a_draft(cpu=2, terms=Terms(worker="a")))
    submit(desk, a_draft(hold=True))
    backup = desk.back_up()
    held = desk.job(2)
    desk.do(lambda batch: service.set_priority(batch, chosen("2"), 50))
    desk.do(lambda batch: service.release(batch, chosen("2")))
    a.connect()
    b.connect()
    ran = a.ran + b.ran
    assert ran.count(2) == 1
    ran_it, other = (a, b) if 2 in a.ran else (b, a)

    desk.restore(backup)
    assert desk.job(2) == held
    desk.clock.now += 60
    other.connect()
    desk.do(lambda batch: service.release(batch, chosen("2")))
    assert desk.job(2).state is State.QUEUED and desk.decider.board.doubts == {ran_it.info.name}
    desk.clock.now += 1e6
    desk.process()
    assert desk.job(2).state is State.QUEUED
    ran_it.connect()
    assert desk.job(2).state is State.SUCCEEDED
    assert a.ran + b.ran == ran


def test_it_is_said_loudly_and_shown_and_why_tells_the_way_out(desk: Site, caplog: pytest.LogCaptureFixture) -> None:
    (a, _b) = hands(desk, A, B)
    backup = desk.back_up()
    submit(desk, a_draft())
    a.connect()
    desk.restore(backup)
    with caplog.at_level(logging.ERROR):
        a.connect()
    assert "restored_from_backup" in caplog.text and "grass resume --restored" in caplog.text
    (second,) = submit(desk, a_draft())
    shown = desk.do(lambda batch: views.show(batch, []), changing=False)
    assert shown["restored"] == ["b"]
    text = desk.do(lambda batch: views.why(batch, chosen(str(second))), changing=False)["jobs"][0]["text"]
    assert "restored from a backup, and b may have run jobs since" in text and "grass resume --restored" in text
    done = desk.do(service.accept_restored)
    assert done.notes == ["what b ran since the backup may be started a second time"]
    assert desk.job(second).state is State.PLACED
    assert desk.do(service.accept_restored).notes == ["nothing waits for a worker to speak"]


def test_doubts_outlive_a_restart(desk: Site) -> None:
    a, b = hands(desk, A, B)
    backup = desk.back_up()
    submit(desk, a_draft(), a_draft(), a_draft())
    a.connect()
    desk.restore(backup)
    a.connect()
    assert desk.decider.board.doubts == {"b"}
    desk.restart()
    assert desk.decider.board.doubts == {"b"}
    desk.clock.now += 60
    a.connect()
    (waits,) = submit(desk, a_draft())
    assert desk.job(waits).state is State.QUEUED
    b.connect()
    assert desk.job(waits).state is State.SUCCEEDED


def test_a_worker_that_is_removed_is_waited_for_no_more(desk: Site) -> None:
    a, _b = hands(desk, A, B)
    backup = desk.back_up()
    submit(desk, a_draft())
    a.connect()
    desk.restore(backup)
    a.connect()
    (waits,) = submit(desk, a_draft())
    desk.do(lambda batch: service.remove_worker(batch, "b"))
    assert desk.decider.board.doubts == set() and desk.job(waits).state is State.PLACED


def test_a_restart_that_lost_nothing_raises_no_doubts(desk: Site) -> None:
    a, b = hands(desk, A, B)
    submit(desk, a_draft())
    for _ in range(3):
        desk.restart()
        b.connect()
        a.connect()
        assert desk.decider.board.doubts == set()
        submit(desk, a_draft())
    assert sorted(a.ran + b.ran) == [1, 2, 3, 4]


def test_a_moment_of_the_present_or_the_past_is_not_ahead_and_one_of_the_future_is(desk: Site) -> None:
    hands(desk, A)
    first = desk.decider.moment
    submit(desk, a_draft())
    last = desk.decider.moment
    desk.restart()
    submit(desk, a_draft())
    ahead = desk.decider.is_ahead
    assert not ahead(first) and not ahead(last) and not ahead(desk.decider.moment)
    assert ahead(replace(last, commit=last.commit + 1)), "that life ended earlier"
    assert ahead(replace(desk.decider.moment, commit=desk.decider.moment.commit + 1))
    assert ahead(Moment("never heard of", 7))
    assert not ahead(Moment("never heard of", 0)), "older than everything that is kept"


def test_ids_a_worker_has_heard_of_are_not_given_again_although_it_holds_none(desk: Site) -> None:
    (a,) = hands(desk, A)
    backup = desk.back_up()
    ids = submit(desk, *[a_draft(hold=True) for _ in range(7)])
    a.connect()
    desk.restore(backup)
    a.connect()
    assert submit(desk, a_draft()) == [ids[-1] + 1]


def test_a_job_the_backup_does_not_know_is_acknowledged_only_when_it_is_stored(desk: Site) -> None:
    (a,) = hands(desk, A)
    backup = desk.back_up()
    submit(desk, a_draft())
    start = a.dirs[1, 1]
    desk.restore(backup)
    hello = FromWorker("a", Hello(A, held=((1, 1),), seen=a.seen))
    assert [type(order) for _, order in desk.process(hello).orders] == [Recall]
    end = FromWorker("a", Report(1, Exited(1, Outcome.EXITED, 3)))
    assert desk.process(end).orders == [], "the worker says it again"
    desk.process(FromWorker("a", Recalled(start)))
    assert desk.job(1).state is State.PLACED
    assert ("a", Ack(1, 1)) in desk.process(end).orders
    assert (desk.job(1).state, desk.job(1).exit_code) == (State.FAILED, 3)


def test_what_is_told_in_a_batch_that_fails_is_not_lost(desk: Site) -> None:
    (a,) = hands(desk, A)
    backup = desk.back_up()
    submit(desk, a_draft())
    start = a.dirs[1, 1]
    desk.restore(backup)
    desk.process(FromWorker("a", Hello(A, held=((1, 1),), seen=a.seen)))
    desk.trouble.at = ["before commit"]
    desk.process(FromWorker("a", Recalled(start)))
    assert desk.store.totals() == {}
    desk.process()
    assert desk.job(1).state is State.PLACED


def test_a_report_of_a_job_nobody_knows_is_asked_about_too(desk: Site) -> None:
    hands(desk, A)
    ((worker, order),) = desk.process(FromWorker("a", Report(99, Exited(1, Outcome.EXITED, 0)))).orders
    assert (worker, order) == ("a", Recall(99, 1))
    assert desk.decider.board.doubts == {"a"}
    assert submit(desk, a_draft()) == [100]


def test_who_cannot_tell_is_asked_a_few_times_and_the_job_is_held(desk: Site, caplog: pytest.LogCaptureFixture) -> None:
    hands(desk, A)
    (job_id,) = desk.submit(a_draft(hold=True))
    desk.do(lambda batch: service.pause(batch, None))
    desk.do(lambda batch: service.release(batch, chosen(str(job_id))))
    hello = FromWorker("a", Hello(A, held=((job_id, 4), (77, 1))))
    asked = desk.process(hello).orders
    assert [order for _, order in asked] == [Recall(job_id, 4), Recall(77, 1)]
    for _ in range(RECALL_TRIES - 1):
        assert desk.decider.next_wake() == 5.0
        desk.clock.now += 5
        assert [type(order) for _, order in desk.process().orders] == [Recall, Recall]
    desk.clock.now += 5
    assert desk.process().orders == []
    job = desk.job(job_id)
    assert (job.state, job.attempt) == (State.HELD, 4) and "grass release" in (job.reason or "")
    assert desk.decider.board.doubts == set() and "recall_given_up" in caplog.text
    end = FromWorker("a", Report(77, Exited(1, Outcome.EXITED, 0)))
    assert [type(order) for _, order in desk.process(end).orders] == [Ack], "it must stop some time"


def test_an_unasked_story_is_not_believed(desk: Site) -> None:
    (a,) = hands(desk, A)
    submit(desk, a_draft())
    start = replace(a.dirs[1, 1], job=50)
    desk.process(FromWorker("a", Recalled(start)))
    assert desk.store.totals() == {"succeeded": 1}
    desk.process(FromWorker("a", Hello(A, held=((50, 1),))))
    desk.process(FromWorker("b", Recalled(start)))
    assert desk.store.totals() == {"succeeded": 1}, "each tells of itself only"


def test_a_worker_that_came_back_under_another_name_tells_of_what_it_has(desk: Site) -> None:
    (a,) = hands(desk, A)
    backup = desk.back_up()
    submit(desk, a_draft())
    desk.restore(backup)
    (again,) = hands(desk, replace(A, name="a-2"))
    again.dirs, again.seen = a.dirs, a.seen
    again.connect()
    job = desk.job(1)
    assert (job.state, job.placement and job.placement.worker) == (State.SUCCEEDED, "a-2")


def test_a_newer_attempt_elsewhere_takes_the_place_of_the_one_in_the_backup(desk: Site) -> None:
    a, b = hands(desk, A, B)
    a.ends = b.ends = False
    submit(desk, a_draft(cpu=2, on_lost="requeue"))
    backup = desk.back_up()
    assert desk.job(1).placement.worker == "a"  # type: ignore[union-attr]
    desk.silent("a")
    desk.clock.now += 300
    b.obey(desk.process().orders)
    assert (1, 2) in b.dirs
    desk.restore(backup)
    a.connect()
    b.ends = True
    b.connect()
    job = desk.job(1)
    assert (job.state, job.attempt, a.ran, b.ran) == (State.SUCCEEDED, 2, [1], [1])
    assert [(each.number, each.outcome) for each in desk.store.attempts(1)] == [
        (1, Outcome.UNKNOWN),
        (2, Outcome.EXITED),
    ]


def test_an_id_given_before_anybody_knew_of_the_backup_is_no_other_job(desk: Site) -> None:
    (a,) = hands(desk, A)
    backup = desk.back_up()
    submit(desk, a_draft())
    desk.restore(backup)
    (stolen,) = desk.submit(a_draft(command=(b"another",)))
    assert stolen == 1
    a.connect()
    job = desk.job(1)
    assert job.spec.command == (b"another",) and job.attempt == 2, "its own folder, not the one that is there"
    assert a.ran == [1, 1]


def test_folders_of_removed_jobs_may_go_but_not_what_a_rerun_needs(desk: Site) -> None:
    (a,) = hands(desk, A)
    submit(desk, a_draft(), a_draft(), a_draft())
    desk.do(lambda batch: service.rerun(batch, chosen("1"), "k", b"d"))
    desk.do(lambda batch: service.clean(batch, chosen("1-2"), None))
    orders = desk.hello(A, held=a.dirs)
    assert [order for order in orders if isinstance(order, Forget)] == [Forget((1, 2), (1,))]


def test_strays_of_this_machine_are_not_deleted(desk: Site) -> None:
    desk.local = "a"
    desk.restart()
    desk.hello(A)
    desk.submit(a_draft())
    desk.exited(1)
    desk.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    desk.do(lambda batch: service.clean(batch, chosen("1"), None))
    assert desk.hello(A, held=[(1, 1)]) == []


def test_a_running_job_the_backup_does_not_know_holds_its_devices(desk: Site) -> None:
    (a,) = hands(desk, A)
    a.ends = False
    backup = desk.back_up()
    submit(desk, a_draft(cpu=2))
    start = a.dirs[1, 1]
    desk.restore(backup)
    desk.process(FromWorker("a", Hello(A, held=((1, 1),), seen=a.seen)))
    desk.process(FromWorker("a", Recalled(start)), FromWorker("a", Report(1, Started(1, 4711))))
    desk.submit(a_draft())
    assert (desk.job(1).state, desk.job(1).pid) == (State.RUNNING, 4711)
    assert desk.job(2).state is State.QUEUED
