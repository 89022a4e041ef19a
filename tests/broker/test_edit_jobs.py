"""Editing jobs that have not started: all of a request or nothing, and never behind the planner's back."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft
from tests.builders import a_request, a_worker, an_offer

from grassq.broker.actions.edit import EditedJob, Editor, EditResult, edit, version_of
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call
from grassq.broker.tokens import OWNER, Bearer, TokenLimits
from grassq.broker.waiting.edited import NewWaits
from grassq.core.model import ForTime, State
from grassq.core.planner.heads import ReservationPolicy
from grassq.errors import NotFound, Refused

ANN = Editor("ann", OWNER)
keys = (f"edit-{number}" for number in itertools.count())


def edited(fixture: DeciderFixture, *ids: int, named: bool = True, **spec: Any) -> list[EditedJob]:
    """Jobs as they are now, after an edit of name, priority or spec."""
    found = [fixture.job(id_) for id_ in ids]
    about = {"name": spec.pop("name", None), "priority": spec.pop("priority", 30)}
    return [EditedJob(job, replace(job.spec, **spec), **about, named=named) for job in found]


def do(fixture: DeciderFixture, edits: list[EditedJob], key: str | None = None, editor: Editor = ANN) -> Any:
    key = key or next(keys)
    return fixture.do(lambda batch: edit(batch, edits, editor, key, b"d"), changing=True)


def test_an_edited_job_is_stored_planned_and_told_as_it_is_now() -> None:
    fixture = a_decider(gpu=2)
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    call = Call(lambda batch: edit(batch, edited(fixture, 2, request=a_request(cpu=1)), ANN, "k", b"d"))
    effects = fixture.process(call)
    assert [(change.job, change.event, change.detail) for change in effects.changed] == [
        (2, "edited", "cpu 0 -> 1, gpu 2 -> 0, by ann"),
        (2, "placed", "attempt 1 on w"),
    ]
    assert fixture.job(2).spec.request == a_request(cpu=1) and fixture.job(2).state is State.PLACED


def test_an_edit_of_several_jobs_is_refused_whole_if_one_has_started() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1))
    edits = edited(fixture, 2, 3, priority=50)
    fixture.exited(1)
    with pytest.raises(Refused, match=r"^job 2 started meanwhile; nothing was changed$"):
        do(fixture, edits)
    assert fixture.job(3).priority == 30
    fixture.exited(2)
    fixture.exited(3)
    with pytest.raises(Refused, match="job 2 ended meanwhile"):
        do(fixture, edits)


def test_of_selected_jobs_those_that_started_meanwhile_are_left_out_with_a_note() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1))
    edits = edited(fixture, 2, 3, named=False, priority=50)
    fixture.exited(1)
    result = do(fixture, edits)
    assert (result.done.ids, result.done.notes) == ([3], ["job 2 started meanwhile, and stays as it is"])


def test_an_edit_made_from_an_older_version_changes_nothing() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1))
    first, second = edited(fixture, 2, 3, priority=50), edited(fixture, 2, tries=3)
    assert do(fixture, first).what == {2: "priority 30 -> 50", 3: "priority 30 -> 50"}
    assert do(fixture, second) is None
    assert fixture.job(2).spec.tries == 1


def test_a_repeated_request_changes_nothing_more() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1))
    edits = edited(fixture, 2, priority=50)
    do(fixture, edits, "once")
    do(fixture, edited(fixture, 2, priority=10))
    again = do(fixture, edits, "once")
    assert (again.done.ids, again.done.jobs[0].priority) == ([2], 10)
    assert isinstance(fixture.ask(lambda batch: edit(batch, edits, ANN, "once", b"other")), Refused)


def test_what_can_never_run_is_refused_and_what_waits_already_may_be_edited() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft("nowhere", gpu=7))
    with pytest.raises(Refused, match="this can never run: 2 gpu asked"):
        do(fixture, edited(fixture, 2, request=a_request(gpu=2)))
    do(fixture, edited(fixture, 3, priority=9))
    assert fixture.job(3).priority == 9


@pytest.mark.parametrize("near_max", [0, 4096])
def test_a_job_waits_for_its_new_queue_and_is_queued_when_it_leaves_a_queue_that_is_not_there(near_max: int) -> None:
    fixture = DeciderFixture(a_worker("w", gpu=1, offers=[an_offer(), an_offer("q")]), near_max=near_max)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft("gone", gpu=1), a_draft(gpu=1, hold=True))
    do(fixture, edited(fixture, 2, queue="elsewhere"))
    assert (fixture.job(2).state, fixture.job(2).waits_for_queue) == (State.WAITING, True)
    assert "no queue 'elsewhere' yet" in fixture.reason(2)
    do(fixture, edited(fixture, 3, queue="q"))
    assert (fixture.job(3).state, fixture.job(3).reason) == (State.QUEUED, None)
    do(fixture, edited(fixture, 4, queue="elsewhere"))
    assert fixture.job(4).state is State.HELD
    do(fixture, edited(fixture, 2, queue="other"))
    assert "no queue 'other' yet" in fixture.reason(2) and fixture.job(2).state is State.WAITING
    assert [line.detail for line in fixture.store.story(2)][:2] == [
        "queue default",
        "queue default -> elsewhere, by ann",
    ]
    fixture.decider.stale = True  # read again from the store
    fixture.exited(1)
    assert fixture.job(3).state is State.PLACED


def test_a_head_that_asks_for_something_else_waits_anew() -> None:
    fixture = DeciderFixture(
        a_worker("w", gpu=2, offers=[an_offer(), an_offer("q")]), patience=ReservationPolicy(passes=1, wait_s=1e9)
    )
    fixture.submit(a_draft(gpu=1))
    fixture.submit(a_draft(gpu=2))
    fixture.submit(a_draft(gpu=1))
    assert fixture.decider.board.heads["default"].passed == 1
    do(fixture, edited(fixture, 2, queue="q"))
    heads = fixture.decider.board.heads
    assert "default" not in heads and (heads["q"].job, heads["q"].passed) == (2, 0)
    fixture.exited(3)
    fixture.submit(a_draft("q", gpu=1))
    assert fixture.job(4).state is State.PLACED, "the head keeps nothing yet"
    assert heads is not fixture.decider.board.heads and fixture.decider.board.heads["q"].passed == 1


def test_a_head_that_asks_for_more_in_the_same_queue_has_not_been_passed_yet() -> None:
    fixture = DeciderFixture(a_worker("w", gpu=3), patience=ReservationPolicy(passes=1, wait_s=1e9))
    fixture.submit(a_draft(gpu=2))
    fixture.submit(a_draft(gpu=2))
    fixture.submit(a_draft(gpu=1))
    assert fixture.decider.board.heads["default"].passed == 1
    do(fixture, edited(fixture, 2, request=a_request(gpu=3)))
    assert (fixture.decider.board.heads["default"].job, fixture.decider.board.heads["default"].passed) == (2, 0)


def test_a_job_between_two_tries_can_be_edited_within_what_it_has_done() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(cpu=1, tries=3))
    fixture.started(1)
    fixture.exited(1, code=1)
    assert fixture.job(1).state is State.WAITING
    with pytest.raises(Refused, match="its logs stay as they are, so split cannot be changed"):
        do(fixture, edited(fixture, 1, split=True))
    with pytest.raises(Refused, match="job 1 was tried 1 times; tries must be more"):
        do(fixture, edited(fixture, 1, tries=1))
    do(fixture, edited(fixture, 1, tries=2, command=(b"other",)))
    assert "try 1 of 2 failed" in fixture.reason(1)
    fixture.clock.now += 10
    fixture.process()
    assert (fixture.job(1).state, fixture.job(1).attempt) == (State.PLACED, 2)


def test_a_job_does_not_leave_a_queue_that_a_client_watches() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1, offers=[an_offer(), replace(an_offer("t"), temporary=True)]))
    fixture.submit(a_draft("t", cpu=1), a_draft("t", cpu=1), a_draft(cpu=1))
    for id_, queue in ((2, "default"), (3, "t")):
        with pytest.raises(Refused, match="queue 't' belongs to a command that watches it"):
            do(fixture, edited(fixture, id_, queue=queue))
    do(fixture, edited(fixture, 2, priority=40))


def test_a_token_pays_for_what_its_jobs_take_more() -> None:
    fixture = a_decider(cpu=1)
    bearer = Bearer("t1", TokenLimits(jobs=10, bytes=2000))
    from functools import partial

    from grassq.broker import service

    fixture.do(partial(service.submit, drafts=[a_draft(cpu=1)] * 2, key="s", digest=b"d", bearer=bearer))
    editor = Editor("ann", bearer, "t1")
    with pytest.raises(Refused, match="the unfinished jobs of your token may take"):
        do(fixture, edited(fixture, 2, command=(b"x" * 3000,)), editor=editor)
    do(fixture, edited(fixture, 2, command=(b"x" * 1000,)), editor=editor)
    before = fixture.store.tallies.of_token("t1").bytes
    fixture.store._tallies = None
    assert fixture.store.tallies.of_token("t1").bytes == before, "counted as it would be counted anew"
    fixture.decider.board.ended_tokens.add("t1")
    with pytest.raises(Refused, match="your token was revoked"):
        do(fixture, edited(fixture, 2, priority=1), editor=editor)


def test_a_job_that_was_submitted_in_the_same_batch_can_be_edited() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1))

    def change(batch: Batch) -> EditResult | None:
        job = batch.changes.inserted[2]
        return edit(batch, [EditedJob(job, job.spec, "other", 50)], ANN, "k", b"d")

    effects = fixture.process(fixture.submission(a_draft(gpu=1)), Call(change))
    assert isinstance(effects.answers[1][1], EditResult)
    assert (fixture.job(2).name, fixture.job(2).priority) == ("other", 50)


def test_a_version_is_the_same_for_a_job_from_the_board_and_from_the_store() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1))
    assert version_of(fixture.job(2)) == version_of(fixture.decider.board.jobs[2])
    assert version_of(fixture.job(2)) != version_of(fixture.job(1)) or fixture.job(1).spec == fixture.job(2).spec


def rewait(fixture: DeciderFixture, *ids: int, **waits: Any) -> Any:
    """Edit what jobs wait for."""
    edits = [replace(each, waits=NewWaits(**waits)) for each in edited(fixture, *ids)]
    return do(fixture, edits)


def states(fixture: DeciderFixture, *ids: int) -> list[str]:
    return [fixture.job(id_).state.value for id_ in ids]


@pytest.mark.parametrize("near_max", [0, 100])
def test_what_a_job_starts_after_can_be_changed_added_and_removed(near_max: int) -> None:
    fixture = DeciderFixture(a_worker("w", gpu=1), near_max=near_max)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1))
    done = rewait(fixture, 3, 4, after=(("ok", ("2",)),))
    assert done.what == {3: "after none -> 2", 4: "after none -> 2"} and states(fixture, 3, 4) == ["waiting"] * 2
    assert fixture.job(3).reason == "waits to start after job 2"
    rewait(fixture, 3, after=(("ok", ()), ("any", ("1",))))
    rewait(fixture, 4, after=(("ok", ()),))
    assert states(fixture, 3, 4) == ["waiting", "queued"]
    assert fixture.job(4).spec.dependencies == () and fixture.job(4).reason is None
    fixture.restart()
    fixture.hello(a_worker("w", gpu=1))
    fixture.exited(1, 3)
    assert states(fixture, 3) == ["queued"], "the end of job 1 is enough, however it ended"
    fixture.exited(2, 3)
    assert states(fixture, 2, 3, 4) == ["failed", "placed", "queued"], "nothing waits for job 2 any more"


def test_a_job_never_starts_after_itself_nor_after_a_job_that_has_failed() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(*[a_draft(gpu=1)] * 5)
    for id_ in (3, 4, 5):
        rewait(fixture, id_, after=(("any", (str(id_ - 1),)),))
    before = [fixture.job(id_) for id_ in range(1, 6)]
    with pytest.raises(Refused, match=r"^job 5 itself starts after one of these jobs; nothing was changed$"):
        rewait(fixture, 2, after=(("fail", ("5",)),))
    with pytest.raises(Refused, match=r"^job 2 cannot start after itself; nothing was changed$"):
        rewait(fixture, 2, after=(("ok", ("1-2",)),))
    with pytest.raises(NotFound, match=r"^--after: no job matches 77; "):
        rewait(fixture, 2, after=(("ok", ("77",)),))
    assert [fixture.job(id_) for id_ in range(1, 6)] == before
    rewait(fixture, 3, after=(("any", ()),))
    rewait(fixture, 2, after=(("fail", ("5",)),))
    assert states(fixture, 2, 3) == ["waiting", "queued"], "without that edge it is no cycle"
    fixture.exited(1, 1)
    with pytest.raises(Refused, match=r"^job 4 would never start: job 1 failed \(exit code 1\); nothing was changed$"):
        rewait(fixture, 4, after=(("ok", ("1",)),))


def test_a_start_time_can_be_set_changed_and_removed() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(*[a_draft(gpu=1)] * 2)
    now = fixture.clock.wall()
    rewait(fixture, 2, is_timed=True, in_s=600.0)
    assert fixture.job(2).waits == (ForTime(now + 600.0, 600.0),) and states(fixture, 2) == ["waiting"]
    rewait(fixture, 2, is_timed=True, at=now + 60.0)
    fixture.exited(1)
    assert states(fixture, 2) == ["waiting"] and fixture.job(2).waits == (ForTime(now + 60.0),)
    rewait(fixture, 2, is_timed=True)
    assert states(fixture, 2) == ["placed"]
