"""Jobs that start after others: what the broker makes of every end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import selection, service, tokens
from grassq.broker.actions import bulk
from grassq.broker.actions.jobs import HoldJobs, KillJobs, ReleaseJobs, RerunFailed, RerunJobs
from grassq.broker.service import Draft
from grassq.broker.tokens import Bearer, TokenLimits
from grassq.broker.waiting import dependents
from grassq.core.model import ForTime, Outcome, State
from grassq.core.states import Edit, Exited
from grassq.core.waiting import conditions
from grassq.core.waiting.conditions import Dependency
from grassq.errors import NotFound, Refused

QUEUED, WAITING, PLACED, RUNNING, HELD = State.QUEUED, State.WAITING, State.PLACED, State.RUNNING, State.HELD
SUCCEEDED, FAILED, CANCELLED = State.SUCCEEDED, State.FAILED, State.CANCELLED


def after(*jobs: object, condition: str = "ok", **more: Any) -> Draft:
    """A job that starts after others."""
    return replace(a_draft(**more), after=((condition, tuple(map(str, jobs))),))


def states(fixture: DeciderFixture) -> list[State]:
    """The states of all jobs, by id."""
    return [job.state for job in fixture.store.jobs(chosen("all")[0], 1000)]


def act(fixture: DeciderFixture, action: Any, *which: object) -> Any:
    """Do something to jobs as a user."""
    return fixture.do(partial(at_once.change, action=action, selectors=[s for w in which for s in chosen(str(w))]))


def test_a_job_starts_when_the_last_job_before_it_has_succeeded_and_not_before() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.submit(after(1, 2))
    assert (fixture.job(3).state, fixture.job(3).reason) == (WAITING, "waits to start after jobs 1-2")
    fixture.exited(1)
    assert fixture.job(3).state is WAITING
    fixture.restart()
    fixture.hello(a_worker("w", gpu=2, cpu=4))
    fixture.exited(2)
    assert fixture.job(3).state is PLACED, "in the batch of the end"


def test_a_job_that_is_ready_and_has_not_run_lets_those_behind_it_wait_also_after_a_restart() -> None:
    fixture = a_decider(cpu=1)
    fixture.submit(a_draft(), a_draft())
    fixture.submit(after(1))
    fixture.submit(after(3))
    fixture.exited(1)
    assert states(fixture) == [SUCCEEDED, PLACED, QUEUED, WAITING]
    fixture.restart()
    assert 4 in fixture.decider.board.dependencies and 3 not in fixture.decider.board.dependencies


def test_a_failure_goes_down_the_chain_in_one_commit_and_each_reason_names_the_job_before() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    for parent in (1, 2, 3):
        fixture.submit(after(parent))
    commits = fixture.store.number
    fixture.exited(1, code=3)
    assert fixture.store.number == commits + 1
    assert states(fixture) == [FAILED] * 4
    assert [fixture.job(id_).error for id_ in (2, 3, 4)] == [
        "job 1 failed (exit code 3)",
        "job 2 failed (dependency failed)",
        "job 3 failed (dependency failed)",
    ]
    assert fixture.job(4).outcome is Outcome.DEPENDENCY_FAILED and fixture.job(4).attempt == 0


@pytest.mark.parametrize(
    ("condition", "codes", "state"),
    [
        ("any", (1, 0), PLACED),
        ("fail", (0, 1), PLACED),
        ("fail", (0, 0), FAILED),
        ("ok", (0, 1), FAILED),
        ("ok", (0, 0), PLACED),
    ],
)
def test_each_condition_is_kept(condition: str, codes: tuple[int, int], state: State) -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.submit(after(1, 2, condition=condition))
    for id_, code in enumerate(codes, 1):
        fixture.exited(id_, code=code)
    assert fixture.job(3).state is state
    again = fixture.submit(after(1, 2, condition=condition))[0]
    assert fixture.job(again).state is state, "the same if the jobs have ended before the submission"


def test_a_job_that_was_to_start_after_a_failure_names_the_jobs_that_did_not_fail() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.submit(after(1, condition="fail"))
    fixture.exited(1)
    assert (fixture.job(2).state, fixture.job(2).error) == (FAILED, "job 1 succeeded")


def test_a_retried_job_decides_when_its_last_try_has_ended() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(tries=2))
    fixture.submit(after(1), after(1, condition="any"))
    fixture.exited(1, code=1)
    assert states(fixture) == [WAITING, WAITING, WAITING]
    fixture.clock.now += 6
    fixture.process()
    fixture.exited(1, attempt=2)
    assert states(fixture) == [SUCCEEDED, PLACED, PLACED]


def test_a_kill_of_a_waiting_job_fails_those_behind_it_and_with_dependents_cancels_them() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(hold=True))
    fixture.submit(after(1))
    fixture.submit(after(2))
    act(fixture, KillJobs(), 2)
    assert states(fixture) == [HELD, CANCELLED, FAILED] and fixture.job(3).error == "job 2 was cancelled"
    fixture.submit(after(1))
    fixture.submit(after(4))
    act(fixture, KillJobs(with_dependents=True), 1)
    assert states(fixture) == [CANCELLED, CANCELLED, FAILED, CANCELLED, CANCELLED]
    fixture.restart()
    assert len(fixture.decider.board.dependencies) == 0


def test_a_held_job_does_not_start_when_its_condition_holds_and_fails_when_it_cannot() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.submit(after(1), after(2), after(2))
    act(fixture, HoldJobs(), "3-4")
    fixture.exited(1)
    assert fixture.job(3).state is HELD
    act(fixture, ReleaseJobs(), 3)
    assert fixture.job(3).state is PLACED
    fixture.exited(2, code=1)
    assert [fixture.job(id_).state for id_ in (4, 5)] == [FAILED, FAILED]


def test_a_job_of_which_the_board_keeps_only_the_place_is_found_when_its_turn_comes() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1), near_max=2)
    fixture.submit(*[a_draft() for _ in range(5)])
    fixture.submit(*[after("1-5") for _ in range(5)])
    fixture.submit(after("6-10", condition="any"))
    for id_ in range(1, 6):
        fixture.exited(id_)
    assert states(fixture)[5:] == [PLACED, QUEUED, QUEUED, QUEUED, QUEUED, WAITING]
    fixture.submit(after("1"), after("1", condition="fail"))
    assert (fixture.job(12).state, fixture.job(13).state) == (QUEUED, FAILED)


def test_a_dependency_on_nothing_is_refused_and_nothing_is_stored() -> None:
    fixture = a_decider()
    for selector in ("7", "@", "train", "3-9"):
        with pytest.raises(NotFound, match="--after"):
            fixture.submit(a_draft(), after(selector))
    fixture.submit(a_draft())
    with pytest.raises(NotFound, match="there is no job 9"):
        fixture.submit(after("1,9"))
    assert states(fixture) == [PLACED]


def test_names_and_the_last_job_are_fixed_when_the_job_is_submitted() -> None:
    fixture = a_decider(cpu=2)
    fixture.submit(a_draft(name="train"), a_draft(name="train"))
    fixture.submit(after("train"))
    fixture.submit(a_draft(name="train"), after("@"))
    assert [each.ranges for each in fixture.job(3).spec.dependencies] == [((1, 2),)]
    assert [each.ranges for each in fixture.job(5).spec.dependencies] == [((3, 3),)], (
        "@ is the last job before the submission"
    )


def test_a_submission_with_too_many_dependencies_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents, "EDGES_MAX", 5)
    fixture = a_decider()
    fixture.submit(*[a_draft() for _ in range(3)])
    with pytest.raises(Refused, match="more than 5 dependencies"):
        fixture.submit(after("1-3"), after("1-3"))
    assert len(states(fixture)) == 3
    fixture.submit(after("1-3"))


def test_ranges_beyond_the_bound_are_refused_also_of_a_rerun_and_nothing_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft(name="a" if n % 2 else "b") for n in range(5)])
    fixture.submit(after("name:b"))
    act(fixture, KillJobs(), "6")
    monkeypatch.setattr(conditions, "RANGES_MAX", 2)
    with pytest.raises(Refused, match="--after names jobs in 3 ranges of ids; 2 is the most"):
        fixture.submit(after("name:b"))
    with pytest.raises(Refused, match="3 ranges of ids"):
        act(fixture, RerunJobs(), "6")
    assert len(states(fixture)) == 6
    fixture.restart()
    assert fixture.job(6).spec.dependencies[0].count == 3, "what is stored stays readable"


def test_the_selectors_of_a_request_are_bounded_and_so_is_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents, "SELECTORS_MAX", 2)
    monkeypatch.setattr(dependents, "LOOKED_AT_MAX", 20)
    fixture = a_decider()
    fixture.submit(*[a_draft(name=name) for name in "aabbccc"])
    with pytest.raises(Refused, match="start after 3 different selectors; 2 is the most in one request"):
        fixture.submit(after("name:a"), after("name:b", "name:c"))
    with pytest.raises(Refused, match="--after: more than 20 jobs would be looked at; name the jobs by their ids"):
        fixture.submit(after("1-7", "1-6", "2-7"))
    with pytest.raises(Refused, match="more than 20 jobs would be looked at"):
        fixture.submit(after("name:a,name:b"))
    assert len(states(fixture)) == 7
    fixture.submit(*[after(id_) for id_ in range(1, 8)], after("name:a"), after("name:a"), after("name:b"))


def test_a_selector_is_not_read_beyond_the_bound_of_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents, "EDGES_MAX", 5)
    monkeypatch.setattr(selection, "BRIEF_AT_ONCE", 8)
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 4)
    fixture = a_decider()
    fixture.submit(*[a_draft(name="a") for _ in range(40)])
    read: list[int] = []
    page = type(fixture.store).brief_page

    def brief_page(store: Any, *asked: Any) -> Any:
        read.append(asked[1])
        return page(store, *asked)

    monkeypatch.setattr(type(fixture.store), "brief_page", brief_page)
    with pytest.raises(Refused, match="more than 5 dependencies"):
        fixture.submit(*[after(f"name:a,{id_}") for id_ in range(1, 9)])
    assert max(read) == 4, "of forty jobs"


def test_ends_that_jobs_wait_for_count_for_the_token_and_for_all_jobs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependents, "UNMET_MAX", 8)
    fixture = a_decider(cpu=1)
    fixture.submit(a_draft(), a_draft(), a_draft())
    bearer = Bearer("t", TokenLimits(bytes=tokens.EDGE_BYTES * 6))

    def submit(*drafts: Draft, by: Bearer) -> Any:
        handler = partial(service.submit, drafts=drafts, key=next(fixture.keys), digest=b"d", bearer=by)
        return fixture.ask(handler)

    assert submit(after("1-3"), by=bearer) == [4]
    refused = submit(after("1-3"), by=bearer)
    assert isinstance(refused, Refused) and "your token may take" in str(refused)
    fixture.restart()
    assert isinstance(submit(after("1-3"), by=bearer), Refused), "counted anew after a restart"
    assert submit(after("1-3"), by=Bearer("u", TokenLimits())) == [5]
    with pytest.raises(Refused, match="would wait for 9 ends of other jobs; 8 is the most"):
        fixture.submit(after("1-3"))
    act(fixture, KillJobs(), "4")
    assert fixture.submit(after("1-3")) == [6]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_early", [False, True])
def test_where_a_failure_is_enough_the_other_jobs_of_this_condition_do_not_matter(
    restarts: bool, is_early: bool
) -> None:
    def begin() -> DeciderFixture:
        fixture = a_decider(cpu=3)
        fixture.submit(a_draft(), a_draft(), a_draft())
        if is_early:
            fixture.exited(2, code=1)
        fixture.submit(replace(a_draft(), after=(("ok", ("1",)), ("fail", ("2,3",)))))
        if not is_early:
            fixture.exited(2, code=1)
        if restarts:
            fixture.restart()
            fixture.hello(a_worker("w", gpu=2, cpu=4))
        return fixture

    fixture = begin()
    fixture.exited(3)
    assert fixture.job(4).state is WAITING
    fixture.exited(1)
    assert fixture.job(4).state is PLACED
    fixture = begin()
    fixture.exited(1)
    assert fixture.job(4).state is PLACED, "job 3 still runs, and does not matter"


def test_a_waiting_job_that_changes_its_queue_counts_there() -> None:
    fixture = a_decider(cpu=1)
    fixture.submit(a_draft())
    fixture.submit(after(1))
    job = fixture.job(2)
    moved = Edit(replace(job.spec, queue="other"), job.name, job.priority)
    fixture.do(lambda batch: batch.move(job, moved))
    board = fixture.decider.board
    assert (board.unfinished("default"), board.unfinished("other")) == (1, 1)


def test_a_rerun_in_steps_runs_a_job_again_after_the_jobs_that_it_starts_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP_JOBS", 2)
    fixture = a_decider(cpu=9)
    fixture.submit(a_draft())
    fixture.submit(after(1), a_draft(), a_draft())
    for id_ in (1, 3, 4):
        fixture.exited(id_, code=1)
    act(fixture, RerunJobs(), 1)
    fixture.exited(5, code=1)
    assert states(fixture) == [FAILED] * 5
    act(fixture, RerunFailed(), "failed")
    again = [fixture.job(id_) for id_ in range(6, 10)]
    assert [(job.rerun_of, job.state) for job in again] == [(1, PLACED), (2, WAITING), (3, PLACED), (4, PLACED)]


def test_a_start_time_a_queue_and_a_job_are_all_waited_for() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.submit(replace(after(1, queue="later"), in_s=60.0))
    fixture.exited(1)
    assert [type(wait) for wait in fixture.job(2).waits] == [ForTime]
    fixture.clock.set_by = 86_400.0
    fixture.clock.now += 59
    fixture.process()
    assert fixture.job(2).ready_at is not None, "a delay ignores the wall clock"
    fixture.clock.now += 1
    fixture.process()
    assert fixture.job(2).waits_for_queue and "no queue" in fixture.reason(2)


def test_a_job_starts_at_its_time_also_after_a_restart_and_a_time_that_is_past_changes_nothing() -> None:
    fixture = a_decider()
    fixture.submit(replace(a_draft(), at=fixture.clock.wall() + 100), replace(a_draft(), at=5.0))
    assert states(fixture) == [WAITING, PLACED] and fixture.reason(1).startswith("waits for its start time: 20")
    assert 0 < (fixture.decider.next_wake() or 0) <= 30
    fixture.restart()
    fixture.hello(a_worker("w", gpu=2, cpu=4))
    fixture.clock.now += 99
    fixture.process()
    assert fixture.job(1).state is WAITING
    fixture.clock.now += 1
    fixture.process()
    assert fixture.job(1).state is PLACED


def test_a_rerun_starts_after_the_newest_runs_of_the_jobs_before_it() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.submit(after(1))
    fixture.submit(after(1, 2))
    fixture.exited(1, code=1)
    assert states(fixture) == [FAILED] * 3
    act(fixture, RerunJobs(with_dependents=True), 1)
    assert states(fixture)[3:] == [PLACED, WAITING, WAITING]
    assert [each.ranges for each in fixture.job(6).spec.dependencies] == [((4, 5),)]
    fixture.exited(4, code=1)
    act(fixture, RerunFailed(), "all")
    assert states(fixture)[6:] == [PLACED, WAITING, WAITING]
    fixture.exited(7)
    fixture.exited(8)
    assert fixture.job(9).state is PLACED
    act(fixture, KillJobs(), 9)
    fixture.report(9, Exited(1, Outcome.SIGNALLED, signal=15))
    act(fixture, RerunJobs(), 3)
    assert fixture.job(10).state is PLACED, "its jobs have succeeded meanwhile"


def test_a_job_that_was_removed_is_not_waited_for() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1)
    fixture.do(lambda batch: batch.remove([fixture.job(1)]))
    found = fixture.do(lambda batch: dependents.settled(batch, [Dependency("ok", ((1, 2),))]))
    assert found.unmet == ((2, "ok"),) and found.never is None


def test_the_jobs_behind_a_job_are_found_also_when_all_have_ended_and_removed_ones_are_not() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    fixture.submit(after(1))
    fixture.submit(after(2))
    fixture.exited(1, code=1)
    assert fixture.do(lambda batch: dependents.behind(batch, [1])) == [2, 3]
    fixture.do(lambda batch: batch.remove([fixture.job(3)]))
    assert fixture.do(lambda batch: dependents.behind(batch, [1])) == [2]
