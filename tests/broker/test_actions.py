"""Every action a user can take, and what each refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import selection, service
from grassq.broker.actions.bulk import BulkResult
from grassq.broker.actions.jobs import HoldJobs, KillJobs, RequeueJobs
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call
from grassq.core.messages import Stop
from grassq.core.model import FINAL, Outcome, State
from grassq.core.states import Exited, Lost, RefusedByWorker
from grassq.errors import BadInput, GrassError, NotFound
from grassq.errors import Refused as Denied


def _refusal(fixture: DeciderFixture, handler: Any) -> str:
    answer = fixture.ask(handler)
    assert isinstance(answer, GrassError), answer
    return f"{answer.exit_code}: {answer}"


# Selecting.


def test_selectors_name_ids_ranges_states_queues_and_names() -> None:
    fixture = DeciderFixture(a_worker("w", offers=[an_offer(), an_offer("exp"), an_offer("empty")], gpu=2, cpu=2))
    fixture.submit(a_draft(cpu=2), a_draft("exp", name="train"), a_draft(name="exp"), a_draft())
    for text, ids in {
        "1": [1],
        "2-3": [2, 3],
        "1,4": [1, 4],
        "@": [4],
        "@~1": [3],
        "all": [1, 2, 3, 4],
        "placed": [1],
        "exp": [2],
        "name:exp": [3],
        "queue:exp": [2],
        "train": [2],
        "empty": [],
    }.items():
        found = fixture.do(partial(selection.select, selectors=chosen(text)), changing=False)
        assert [job.id for job in found] == ids, text


@pytest.mark.parametrize("text", ["9", "nothing", "failed", "queue:nothing", "@~7"])
def test_a_selector_that_matches_nothing_is_exit_3(text: str) -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert _refusal(fixture, lambda batch: selection.select(batch, chosen(text))).startswith("3: no job matches")


# Killing.


def test_killing_cancels_what_waits_and_stops_what_runs() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2), a_draft("nowhere"), a_draft(hold=True))
    fixture.started(1)
    done = fixture.do(lambda batch: at_once.kill(batch, chosen("all"), 3.0))
    assert [(job.state, job.cancel_requested) for job in done.jobs] == [
        (State.RUNNING, True),
        *[(State.CANCELLED, True)] * 3,
    ]
    assert fixture.job(1).stop_grace_s == 3.0


def _requeue(fixture: DeciderFixture, which: str) -> BulkResult:
    done: BulkResult = fixture.do(lambda batch: at_once.change(batch, RequeueJobs(), chosen(which)))
    return done


def test_a_requeued_job_is_stopped_and_started_again_under_its_id_also_by_the_next_broker() -> None:
    fixture = a_decider(gpu=2)
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    fixture.started(1)
    assert _requeue(fixture, "1").stopping == 1
    fixture.restart()
    assert Stop(1, 1, fixture.job(1).grace_s, "boot-1") in fixture.hello(a_worker("w", gpu=2, cpu=4))
    fixture.report(1, Exited(1, Outcome.SIGNALLED, signal=15))
    again = fixture.job(1)
    assert (again.state, again.attempt, again.tried) == (State.PLACED, 2, 0), "it keeps its place before job 2"
    fixture.report(1, Exited(1, Outcome.EXITED, 0))
    assert fixture.job(1) == again, "a report of the first attempt comes too late"
    fixture.started(1, 2)
    fixture.exited(1, 0, 2)
    assert fixture.job(1).state is State.SUCCEEDED
    assert [each.signal for each in fixture.store.attempts(1)] == [15, None]


def test_only_what_has_started_and_was_not_told_to_end_is_requeued() -> None:
    fixture = a_decider(gpu=2)
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    refused = {"2": "5: job 2 has not started (queued)"}
    fixture.started(1)
    fixture.do(lambda batch: at_once.kill(batch, chosen("1")))
    refused["1"] = "5: job 1 was told to end"
    for which, said in refused.items():
        handler = partial(at_once.change, action=RequeueJobs(), selectors=chosen(which))
        assert _refusal(fixture, handler).startswith(said)
    fixture.exited(1)
    handler = partial(at_once.change, action=RequeueJobs(), selectors=chosen("1"))
    assert "has ended (cancelled); `grass rerun 1`" in _refusal(fixture, handler)


def test_killing_what_has_ended_says_so_and_changes_nothing() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1, 5)
    done = fixture.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    assert done.notes == ["job 1 has ended already (failed)"]
    assert fixture.job(1).state is State.FAILED


@pytest.mark.parametrize(
    "event",
    [Exited(1, Outcome.EXITED, 0), Exited(1, Outcome.EXITED, 1), Lost(1, Outcome.LOST, "x"), RefusedByWorker(1, "x")],
    ids=["success", "failure", "lost", "refused"],
)
def test_a_requested_cancel_ends_in_cancelled_whatever_the_worker_says(event: Any) -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=5, on_lost="requeue"))
    fixture.do(lambda batch: at_once.kill(batch, chosen("1"), None))
    fixture.report(1, event)
    assert fixture.job(1).state is State.CANCELLED


# Holding and releasing.


def test_a_held_job_does_not_start_until_released() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    fixture.do(lambda batch: at_once.hold(batch, chosen("2")))
    fixture.exited(1)
    assert fixture.job(2).state is State.HELD
    fixture.do(lambda batch: at_once.hold(batch, chosen("2")))
    fixture.do(lambda batch: at_once.release(batch, chosen("2")))
    assert fixture.job(2).state is State.PLACED


def test_a_job_held_between_two_tries_stays_held() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=2))
    fixture.exited(1, 1)
    fixture.do(lambda batch: at_once.hold(batch, chosen("1")))
    fixture.clock.now += 60
    fixture.process()
    assert fixture.job(1).state is State.HELD
    assert fixture.decider.next_wake() is None
    fixture.do(lambda batch: at_once.release(batch, chosen("1")))
    assert fixture.job(1).attempt == 2


def test_holding_a_job_that_runs_or_has_ended_is_refused() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    assert "5: job 1 runs already; `grass kill 1`" in _refusal(fixture, lambda b: at_once.hold(b, chosen("1-2")))
    assert fixture.job(2).state is State.QUEUED
    fixture.exited(1)
    assert "5: job 1 has ended" in _refusal(fixture, lambda b: at_once.hold(b, chosen("1")))


def test_of_a_set_only_what_can_be_held_is_held() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    done = fixture.do(lambda batch: at_once.hold(batch, chosen("default")))
    assert [job.id for job in done.jobs] == [2] and "job 1 runs already" in done.notes[0]
    assert fixture.job(2).state is State.HELD


def test_a_set_with_nothing_to_hold_is_refused() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2))
    assert "5: job 1 runs already" in _refusal(fixture, lambda b: at_once.hold(b, chosen("all")))


def test_all_means_what_has_not_ended_to_hold_and_priority() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft("nowhere"))
    fixture.exited(1)
    changed = fixture.do(lambda batch: at_once.set_priority(batch, chosen("all"), 7))
    held = fixture.do(lambda batch: at_once.hold(batch, chosen("all")))
    assert ([job.id for job in changed.jobs], changed.notes) == ([2], [])
    assert ([job.id for job in held.jobs], held.notes) == ([2], [])
    assert fixture.do(lambda batch: at_once.hold(batch, chosen("succeeded"))).ids == []


def test_releasing_what_is_not_held_is_a_note() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert fixture.do(lambda batch: at_once.release(batch, chosen("1"))).notes == ["job 1 is not held (placed)"]


def test_a_released_job_without_a_queue_waits() -> None:
    fixture = a_decider()
    fixture.submit(a_draft("nowhere", hold=True))
    fixture.do(lambda batch: at_once.release(batch, chosen("1")))
    assert fixture.job(1).state is State.WAITING and "no queue 'nowhere'" in (fixture.job(1).reason or "")


# Priority.


def test_priority_changes_who_is_next() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2), a_draft(gpu=2))
    fixture.do(lambda batch: at_once.set_priority(batch, chosen("3"), 90))
    fixture.exited(1)
    assert (fixture.job(2).state, fixture.job(3).state) == (State.QUEUED, State.PLACED)


def test_priority_of_a_running_job_is_noted_and_of_an_ended_one_refused() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1)
    assert "runs already" in fixture.do(lambda b: at_once.set_priority(b, chosen("2"), 1)).notes[0]
    assert fixture.job(2).priority == 1
    assert "5: job 1 has ended" in _refusal(fixture, lambda b: at_once.set_priority(b, chosen("1"), 1))


# Running again.


def test_a_rerun_is_a_new_job_that_names_the_first() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=0.5, name="train", command=(b"a", b"\xff")))
    fixture.exited(1, 1)
    again = fixture.job(fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "r1", b"d"))[0])
    assert (again.id, again.rerun_of, again.name, again.spec) == (2, 1, "train", fixture.job(1).spec)
    assert fixture.job(1).state is State.FAILED
    fixture.exited(2, 1)
    assert fixture.job(fixture.do(lambda batch: at_once.rerun(batch, chosen("2"), "r2", b"d"))[0]).rerun_of == 1


def test_a_repeated_rerun_makes_no_second_job() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1)
    calls = [Call(lambda batch: at_once.rerun(batch, chosen("1"), "r", b"d")) for _ in range(2)]
    answers = [answer for _, answer in fixture.process(*calls).answers]
    later = fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "r", b"d"))
    assert [*answers, later] == [[2], [2], [2]]


def test_running_again_what_has_not_ended_is_refused() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert "5: job 1 has not ended" in _refusal(fixture, lambda b: at_once.rerun(b, chosen("1"), "r", b"d"))


# Cleaning.


def _clean(fixture: DeciderFixture, text: str, older_s: float | None = None) -> list[int]:
    done = fixture.do(lambda batch: at_once.clean(batch, chosen(text), older_s))
    return [job.id for job in done.jobs]


def test_cleaning_removes_only_what_has_ended() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft(), a_draft(hold=True))
    fixture.exited(1)
    assert _clean(fixture, "all") == [1]
    assert fixture.store.totals() == {"placed": 1, "held": 1}
    assert fixture.submit(a_draft()) == [4]


def test_ids_are_not_given_again_after_a_clean_and_a_restart() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1)
    fixture.exited(2)
    _clean(fixture, "all")
    fixture.restart()
    assert fixture.submit(a_draft()) == [3]


def test_cleaning_by_age_keeps_what_ended_lately() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1)
    fixture.clock.now += 100
    fixture.exited(2)
    assert _clean(fixture, "all", 50.0) == [1]


def test_a_checkpoint_that_a_rerun_uses_is_spared() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1)
    fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "r", b"d"))
    assert _clean(fixture, "1") == [1]
    assert fixture.store.rerun_jobs() == {1}


def test_two_cleans_in_one_batch_are_both_well() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.exited(1)
    calls = [Call(lambda batch: at_once.clean(batch, chosen("all"), None)) for _ in range(2)]
    answers = [answer for _, answer in fixture.process(*calls).answers]
    assert [len(getattr(answer, "jobs", [])) for answer in answers] == [1, 0]
    assert fixture.store.totals() == {}


# Keys.


def test_an_action_repeated_under_its_key_is_done_once_to_the_jobs_it_meant() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(hold=True))

    def kill_last(batch: Batch) -> BulkResult:
        return at_once.change(batch, KillJobs(), chosen("@"), "k")

    fixture.do(kill_last)
    fixture.submit(a_draft(hold=True))
    again = fixture.do(kill_last)
    assert [(job.id, job.state) for job in again.jobs] == [(1, State.CANCELLED)]
    assert fixture.job(2).state is State.HELD


def test_a_key_of_one_action_is_not_for_another() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(hold=True))
    fixture.do(lambda batch: at_once.change(batch, KillJobs(), chosen("1"), "k", b"one"))
    again = _refusal(fixture, lambda batch: at_once.change(batch, HoldJobs(), chosen("1"), "k", b"two"))
    assert "5: this key was used for another request" in again


def test_unknown_ids_are_told() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert fixture.do(lambda batch: service.unknown(batch, [1, 2, 7]), changing=False) == [2, 7]


# Pausing.


def test_a_paused_queue_starts_nothing_also_after_a_restart() -> None:
    fixture = a_decider()
    fixture.do(lambda batch: service.pause(batch, "default"))
    fixture.submit(a_draft())
    fixture.restart()
    fixture.hello(a_worker("w", gpu=2, cpu=4))
    assert fixture.job(1).state is State.QUEUED
    fixture.do(lambda batch: service.resume(batch, "default"))
    assert fixture.job(1).state is State.PLACED


def test_pausing_everything_is_lifted_by_resuming_everything() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    assert fixture.do(lambda b: service.pause(b, None)).notes == ["1 job started already, and will finish"]
    fixture.submit(a_draft())
    (note,) = fixture.do(lambda b: service.resume(b, "default")).notes
    assert "everything is paused" in note
    assert fixture.job(2).state is State.QUEUED
    fixture.do(lambda batch: service.resume(batch, None))
    assert fixture.job(2).state is State.PLACED


def test_a_pause_keeps_the_name_of_its_first_pauser_until_it_is_lifted() -> None:
    fixture = a_decider()
    fixture.do(lambda batch: service.pause(batch, "default", "ann"))
    fixture.do(lambda batch: service.pause(batch, "default", "bob"))
    fixture.do(lambda batch: service.pause(batch, None, "bob"))
    fixture.restart()
    assert fixture.decider.board.paused == {"default": "ann", "": "bob"}
    fixture.do(lambda batch: service.resume(batch, "default"))
    fixture.do(lambda batch: service.pause(batch, "default", "bob"))
    assert fixture.decider.board.paused == {"default": "bob", "": "bob"}


def test_pausing_an_unknown_queue_is_exit_3_and_a_job_exit_2() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(name="train"))
    assert isinstance(fixture.ask(lambda b: service.pause(b, "nope")), NotFound)
    answer = fixture.ask(lambda b: service.pause(b, "train"))
    assert isinstance(answer, BadInput) and "grass hold train" in str(answer)


# Queues that come, go and shrink.


def test_jobs_wait_for_a_queue_and_go_on_when_it_comes() -> None:
    fixture = a_decider()
    fixture.submit(a_draft("exp"))
    assert fixture.job(1).reason == "no queue 'exp' yet; `grass create-queue exp` makes it"
    fixture.hello(a_worker("w", offers=[an_offer("exp")], gpu=2, cpu=4), fresh=False)
    assert fixture.job(1).state is State.PLACED


def test_a_queue_that_goes_lets_running_jobs_finish_and_parks_the_others() -> None:
    fixture = DeciderFixture(a_worker("w", offers=[an_offer("exp")], gpu=1))
    fixture.submit(a_draft("exp", gpu=1), a_draft("exp", gpu=1))
    fixture.hello(a_worker("w", offers=[], gpu=1), fresh=False)
    assert (fixture.job(1).state, fixture.job(2).state) == (State.PLACED, State.WAITING)
    fixture.exited(1)
    assert fixture.job(1).state is State.SUCCEEDED


def test_a_lowered_limit_parks_what_no_longer_fits_until_it_is_raised() -> None:
    wide, narrow = (a_worker("w", offers=[an_offer("exp", gpu=n)], gpu=2) for n in (2, 1))
    fixture = DeciderFixture(wide)
    fixture.submit(a_draft("exp", gpu=1), a_draft("exp", gpu=2), a_draft("exp", gpu=1))
    fixture.hello(narrow, fresh=False)
    assert "no worker can run it" in (fixture.job(2).reason or "")
    assert (fixture.job(1).state, fixture.job(2).state) == (State.PLACED, State.WAITING)
    fixture.hello(wide, fresh=False)
    assert fixture.job(2).state is State.QUEUED


def test_prefix_directory_and_environment_of_the_queue_are_copied_at_placement() -> None:
    offer = replace(an_offer("exp"), prefix=(b"python",), cwd=b"/data", env=((b"K", b"v"),))
    fixture = DeciderFixture(a_worker("w", offers=[offer], cpu=4))
    fixture.submit(a_draft("exp"))
    where = fixture.job(1).placement
    assert where is not None and (where.prefix, where.cwd, where.env) == ((b"python",), b"/data", ((b"K", b"v"),))
    fixture.hello(a_worker("w", offers=[an_offer("exp")], cpu=4), fresh=False)
    assert fixture.job(1).placement == where


def test_two_workers_share_a_queue_and_an_unknown_one_is_left_out() -> None:
    fixture = DeciderFixture(a_worker("v", gpu=1), a_worker("w", gpu=1))
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1))
    places = [placement.worker if (placement := fixture.job(i).placement) else None for i in (1, 2, 3)]
    assert places == ["v", "w", None]


def test_a_refused_action_changes_nothing() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    before, commits = dict(fixture.decider.board.jobs), fixture.store.commits
    with pytest.raises(Denied):
        fixture.do(lambda batch: at_once.set_priority(batch, chosen("all"), 5) and at_once.hold(batch, chosen("1")))
    assert fixture.decider.board.jobs == before and fixture.store.commits == commits
    assert all(job.state not in FINAL for job in before.values())
