"""Suspended jobs at the broker: orders until they are confirmed, devices for others, and back again in turn."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.actions.bulk import Action, BulkChange, BulkResult
from grassq.broker.actions.jobs import KillJobs
from grassq.broker.actions.limits import set_limit
from grassq.broker.actions.suspend import MEMORY_STAYS, ResumeJobs, SuspendJobs
from grassq.broker.inbox import Call
from grassq.broker.summary.timeline import present
from grassq.core.messages import Check, Order, Start, Stop, SuspendOrder
from grassq.core.model import Constraints, Outcome, State, WorkerInfo
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.reconcile import RESEND_S
from grassq.core.resources.amounts import ONE
from grassq.core.states import Exited, Lost, Started
from grassq.core.suspension.events import Resumed, Suspended, SuspendRefused
from grassq.errors import BadInput, NotFound, Refused

TEAM = "tag:team=a"


def able(**given: Any) -> WorkerInfo:
    return replace(a_worker("w", **given), suspends=True)


class Desk(DeciderFixture):
    """A broker with one worker that has one gpu, and what it is told."""

    def __init__(self, **given: object) -> None:
        super().__init__(able(**(given or {"gpu": 1, "cpu": 4})))

    def runs(self, **amounts: Any) -> int:
        (id_,) = self.submit(a_draft(**(amounts or {"gpu": 1})))
        self.started(id_)
        return id_

    def runs_in_team(self) -> int:
        draft = a_draft(gpu=1)
        spec = replace(draft.spec, constraints=Constraints(groups=(TEAM,)))
        (id_,) = self.submit(replace(draft, spec=spec))
        self.started(id_)
        return id_

    def suspend(self, which: int | str, *, free: bool = False) -> BulkResult:
        done: BulkResult = self.do(lambda batch: at_once.change(batch, SuspendJobs(free), chosen(which)))
        return done

    def resume(self, which: int | str) -> BulkResult:
        done: BulkResult = self.do(lambda batch: at_once.change(batch, ResumeJobs(), chosen(which)))
        return done

    def number(self, job: int) -> int:
        known = self.job(job).suspension
        assert known is not None
        return known.number

    def stops(self, job: int) -> None:
        """The worker says that a job is stopped."""
        self.report(job, Suspended(1, self.number(job)))

    def goes_on(self, job: int) -> None:
        """The worker says that a job runs again."""
        self.report(job, Resumed(1, self.number(job)))

    def word(self, job: int) -> object:
        return self.do(lambda batch: at_once.show(batch, chosen(job)))["jobs"][0]["suspended"]

    def drawn(self) -> list[tuple[int, str]]:
        """Return the jobs on the lanes of a timeline, with what each block says."""
        return [(block.job, block.state) for _, block in self.do(present).blocks]

    def why(self, job: int) -> str:
        return str(self.do(lambda batch: at_once.why(batch, chosen(job)))["jobs"][0]["text"])

    def orders(self) -> list[Order]:
        """What is ordered now without a message."""
        return [order for _, order in self.process().orders]


def test_a_suspended_job_keeps_its_devices() -> None:
    desk = Desk()
    job, other = desk.runs(), *desk.submit(a_draft(gpu=1))
    desk.suspend(job)
    assert (desk.job(job).state, desk.word(job)) == (State.RUNNING, "kept")
    desk.stops(job)
    assert desk.job(other).state is State.QUEUED and desk.word(job) == "kept"
    assert "suspended since" in desk.why(job) and "its devices stay taken" in desk.why(job)
    assert f"held by job {job}" in desk.why(other)
    assert desk.drawn() == [(job, "suspended")]
    assert desk.resume(job).notes == []
    assert desk.word(job) == "resuming"
    desk.goes_on(job)
    assert desk.word(job) is None and "suspended" not in desk.why(job)
    desk.exited(job)
    assert desk.job(job).state is State.SUCCEEDED and desk.job(job).suspension is None


def test_an_order_is_repeated_until_it_is_confirmed_and_given_again_after_every_silence() -> None:
    desk = Desk()
    job = desk.runs()
    call = desk.process(_call(SuspendJobs(), job))
    suspend = SuspendOrder(job, 1, desk.number(job), True, "boot-1")
    assert [order for _, order in call.orders] == [suspend]
    assert desk.orders() == []
    desk.clock.now += RESEND_S
    assert desk.orders() == [suspend]
    desk.stops(job)
    desk.clock.now += 2 * RESEND_S
    assert desk.orders() == [], "confirmed"
    desk.silent()
    assert desk.hello(able(gpu=1, cpu=4)) == [Check(job, 1, "boot-1", suspended=True), suspend]
    desk.restart()
    assert desk.hello(able(gpu=1, cpu=4)) == [Check(job, 1, "boot-1", suspended=True), suspend]
    desk.resume(job)
    desk.goes_on(job)
    desk.restart()
    assert desk.hello(able(gpu=1, cpu=4)) == [Check(job, 1, "boot-1")], "it is not to be stopped"


def _call(action: Action, job: int) -> Call:
    return Call(lambda batch: at_once.change(batch, action, chosen(job)))


def test_others_get_freed_devices_only_when_the_stop_is_confirmed() -> None:
    desk = Desk()
    job, other = desk.runs(), *desk.submit(a_draft(gpu=1))
    assert desk.suspend(job, free=True).notes == [MEMORY_STAYS]
    assert (desk.word(job), desk.job(other).state) == ("kept", State.QUEUED)
    desk.report(job, Suspended(1, desk.number(job) - 1))
    assert desk.job(other).state is State.QUEUED, "another order"
    desk.report(job, Suspended(1, desk.number(job)), worker="other")
    assert desk.job(other).state is State.QUEUED, "another worker"
    desk.stops(job)
    assert (desk.word(job), desk.job(other).state) == ("freed", State.PLACED)
    assert [id_ for id_, _ in desk.drawn()] == [other], "a freed job is on no lane"


def test_a_freed_job_goes_on_when_its_own_device_is_free_and_nobody_passes_it() -> None:
    desk = Desk()
    job, other = desk.runs(), *desk.submit(a_draft(gpu=1))
    desk.suspend(job, free=True)
    desk.stops(job)
    desk.started(other)
    late, small = desk.submit(a_draft(gpu=1), a_draft(gpu="0.5"))
    (note,) = desk.resume(job).notes
    assert "goes on when its devices have room again" in note and note.endswith(f"held by job {other}")
    assert desk.word(job) == "resuming" and f"held by job {other}" in desk.why(job)
    assert not any(isinstance(order, SuspendOrder) and not order.stop for order in desk.orders())
    desk.restart()
    desk.hello(able(gpu=1, cpu=4))
    effects = desk.exited(other)
    assert SuspendOrder(job, 1, desk.number(job), False, "boot-1") in [order for _, order in effects.orders]
    assert {desk.job(each).state for each in (late, small)} == {State.QUEUED}
    desk.goes_on(job)
    desk.exited(job)
    assert desk.job(late).state is State.PLACED


def test_a_resume_waits_for_the_limits_of_its_groups_and_says_so() -> None:
    desk = Desk(gpu=2, cpu=4)
    job = desk.runs_in_team()
    desk.suspend(job, free=True)
    desk.stops(job)
    other = desk.runs_in_team()
    desk.do(lambda batch: set_limit(batch, TEAM, GroupLimit({"gpu": ONE})))
    (note,) = desk.resume(job).notes
    assert f"its groups have room again; limit tag:team=a gpu=1: 1 gpu needed, 0 left; held by job {other}" in note
    assert desk.word(job) == "resuming" and desk.why(job).endswith(note.removeprefix(f"job {job}: "))
    desk.exited(other)
    desk.goes_on(job)
    assert desk.word(job) is None


def test_a_resume_that_is_taken_back_lets_others_have_the_devices() -> None:
    desk = Desk()
    job, other = desk.runs(), *desk.submit(a_draft(gpu=1))
    desk.suspend(job, free=True)
    desk.stops(job)
    desk.started(other)
    desk.resume(job)
    (late,) = desk.submit(a_draft(gpu=1))
    desk.suspend(job)
    desk.exited(other)
    assert (desk.job(late).state, desk.word(job)) == (State.PLACED, "freed")


def test_what_is_not_running_is_refused_with_what_to_do() -> None:
    desk = Desk()
    job, waiting = desk.runs(), *desk.submit(a_draft(gpu=1))
    with pytest.raises(Refused, match=rf"job {waiting} is not running \(queued\); `grass hold {waiting}`"):
        desk.suspend(waiting)
    with pytest.raises(NotFound):
        desk.suspend(99)
    desk.exited(job)
    with pytest.raises(Refused, match=f"job {waiting} is about to start"):
        desk.suspend(waiting)
    with pytest.raises(Refused, match=rf"job {job} has ended \(succeeded\)"):
        desk.suspend(job)
    desk.started(waiting)
    desk.do(lambda batch: at_once.kill(batch, chosen(waiting)))
    with pytest.raises(Refused, match="was told to end"):
        desk.suspend(waiting)
    (note,) = desk.resume(waiting).notes
    assert note == f"job {waiting} is not suspended (running)"


def test_a_second_suspend_says_so_and_changes_nothing() -> None:
    desk = Desk()
    job = desk.runs()
    desk.suspend(job)
    desk.stops(job)
    before = desk.job(job)
    (note,) = desk.suspend(job).notes
    assert note.startswith(f"job {job} is suspended already, since ") and "its devices stay taken" in note
    assert desk.job(job) == before
    desk.suspend(job, free=True)
    assert desk.word(job) == "freed", "the devices can be given back later"


def test_a_worker_or_a_shim_of_an_earlier_release_is_named() -> None:
    desk = DeciderFixture(a_worker("w", gpu=1))
    (job,) = desk.submit(a_draft(gpu=1))
    desk.started(job)
    with pytest.raises(Refused, match="worker w is of an earlier release, which cannot suspend jobs"):
        desk.do(lambda batch: at_once.change(batch, SuspendJobs(), chosen(job)))
    new = Desk()
    job = new.runs()
    new.suspend(job, free=True)
    new.report(job, SuspendRefused(1, new.number(job), "its supervisor is old"))
    assert new.word(job) is None and new.reason(job) == "not suspended: its supervisor is old"


@pytest.mark.parametrize("free", [False, True])
def test_a_suspended_job_can_be_killed_lost_and_run_again(free: bool) -> None:
    desk = Desk()
    (job,) = desk.submit(a_draft(gpu=1, tries=2))
    desk.started(job)
    desk.suspend(job, free=free)
    desk.stops(job)
    desk.report(job, Exited(1, Outcome.SIGNALLED, signal=9))
    assert desk.job(job).state is State.WAITING and desk.job(job).suspension is None
    desk.clock.now += 10
    assert any(isinstance(order, Start) for order in desk.orders())
    desk.report(job, Started(2, 8))
    desk.suspend(job, free=free)
    desk.report(job, Suspended(2, desk.number(job)))
    effects = desk.process(_call(KillJobs(), job))
    assert [type(order) for _, order in effects.orders] == [Stop]
    desk.report(job, Exited(2, Outcome.CANCELLED, signal=15))
    assert desk.job(job).state is State.CANCELLED
    other = desk.runs()
    desk.suspend(other, free=free)
    desk.stops(other)
    desk.report(other, Lost(1, Outcome.UNKNOWN, "gone"))
    assert desk.job(desk.runs()).state is State.RUNNING, "what it had is free once"


def test_a_freed_job_that_is_killed_runs_again_only_if_its_devices_are_free() -> None:
    desk = Desk()
    job = desk.runs()
    desk.suspend(job, free=True)
    desk.stops(job)
    other = desk.runs()
    killed: BulkResult = desk.do(lambda batch: at_once.change(batch, KillJobs(30.0), chosen(job)))
    assert killed.notes == [f"job {job} gets no grace: it has given its devices back, and others have them"]
    assert killed.graces == [0.0, 0.0]
    assert desk.job(job).stop_grace_s == 0.0
    desk.exited(other)
    assert desk.job(job).is_freed, "it gets its devices never again"
    alone = desk.runs()
    desk.suspend(alone, free=True)
    desk.stops(alone)
    killed = desk.do(lambda batch: at_once.change(batch, KillJobs(30.0), chosen(alone)))
    assert (killed.notes, killed.graces) == ([], [30.0, 30.0])
    (waiting,) = desk.submit(a_draft(gpu=1))
    assert desk.job(waiting).state is State.QUEUED, "it has its grace, and its devices until it has ended"
    desk.exited(alone)
    assert desk.job(waiting).state is State.PLACED


def test_a_job_that_is_killed_before_it_is_stopped_gives_nothing_back() -> None:
    desk = Desk()
    job = desk.runs()
    desk.suspend(job, free=True)
    number = desk.number(job)
    desk.do(lambda batch: at_once.change(batch, KillJobs(30.0), chosen(job)))
    desk.report(job, Suspended(1, number))
    (waiting,) = desk.submit(a_draft(gpu=1))
    assert desk.job(waiting).state is State.QUEUED and desk.job(job).stop_grace_s == 30.0


def test_a_token_suspends_and_resumes_its_own_jobs_only() -> None:
    desk = Desk(cpu=4)
    mine, other = desk.runs(cpu=1, by="mine"), desk.runs(cpu=1, by="other")
    for action in (SuspendJobs(), SuspendJobs(frees=True), ResumeJobs()):
        named = BulkChange(action, chosen(other), key=next(desk.keys), digest=b"d", visible_to="mine")
        with pytest.raises(Refused, match=f"job {other} was submitted with another token"):
            desk.do(named.start)
    every = BulkChange(SuspendJobs(), chosen("all"), key=next(desk.keys), digest=b"d", visible_to="mine")
    assert desk.do(every.start).ids == [mine]
    assert desk.job(other).suspension is None


def test_pausing_a_job_names_what_was_meant() -> None:
    desk = Desk()
    job, waiting = desk.runs(), *desk.submit(a_draft(gpu=1))
    with pytest.raises(BadInput, match=f"`grass suspend {job}` stops a running job"):
        desk.do(lambda batch: service.pause(batch, str(job)))
    with pytest.raises(BadInput, match=f"`grass hold {waiting}`"):
        desk.do(lambda batch: service.pause(batch, str(waiting)))


def test_a_lying_worker_gets_its_own_devices_confused_and_nobody_elses() -> None:
    desk = Desk()
    job = desk.runs()
    for event in (Suspended(1, 5), Resumed(1, 2**53), SuspendRefused(1, 1, "x" * 1000)):
        desk.report(job, event)
    assert desk.job(job).suspension is None and desk.word(job) is None
    (other,) = desk.submit(a_draft(gpu=1))
    assert desk.job(other).state is State.QUEUED
