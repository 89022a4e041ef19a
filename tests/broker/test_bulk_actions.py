"""Actions on many jobs: bounded steps, other requests in between, and one effect however often they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.broker.test_engine import Running, play

from grassq.broker import selection, service
from grassq.broker.actions.bulk import LISTED_MAX, NOTES_MAX, STEP_JOBS, Action, BulkChange, BulkResult, Next
from grassq.broker.actions.jobs import CleanJobs, HoldJobs, KillJobs, ReleaseJobs, RerunJobs, SetPriority
from grassq.core.model import State
from grassq.core.syntax.selectors import AllJobs, parse
from grassq.errors import NotFound, Refused, StoreUnavailable
from grassq.store.base import Changes

MANY = 2 * STEP_JOBS + 50


def a_change(action: Action, text: str = "all", key: str = "k") -> BulkChange:
    return BulkChange(action, [parse(each) for each in text.split()], key=key, digest=b"d")


def finish(fixture: DeciderFixture, answer: BulkResult | Next, steps: int = 1000) -> BulkResult:
    """Do the steps that are left."""
    for _ in range(steps):
        if isinstance(answer, BulkResult):
            return answer
        answer = fixture.do(answer.handler)
    raise AssertionError("there is no end of steps")


def whole(fixture: DeciderFixture, action: Action, text: str = "all", key: str = "k") -> BulkResult:
    return finish(fixture, fixture.do(a_change(action, text, key).start))


def until_changed(fixture: DeciderFixture, change: BulkChange, least: int) -> Next:
    """Do steps until so many jobs were changed."""
    answer: BulkResult | Next = fixture.do(change.start)
    while isinstance(answer, Next) and answer.done < least:
        answer = fixture.do(answer.handler)
    assert isinstance(answer, Next)
    return answer


def with_jobs(count: int = MANY, **more: Any) -> DeciderFixture:
    """A broker with one job that runs, and many that wait for its devices."""
    fixture = a_decider()
    fixture.submit(a_draft(gpu=2), *[a_draft(gpu=2, **more)] * (count - 1))
    fixture.started(1)
    return fixture


def committed(fixture: DeciderFixture, monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """Every commit from now on."""
    seen: list[Changes] = []
    commit = fixture.store.commit

    def noted(changes: Changes) -> None:
        seen.append(changes)
        commit(changes)

    monkeypatch.setattr(fixture.store, "commit", noted)
    return seen


@pytest.mark.parametrize("action", [KillJobs(), HoldJobs(), SetPriority(40)], ids=["kill", "hold", "priority"])
def test_no_step_changes_or_reads_more_jobs_than_its_bound(action: Action, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = with_jobs()
    commits, read = committed(fixture, monkeypatch), []
    page = fixture.store.page

    def noted(*asked: Any) -> Any:
        found = page(*asked)
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(fixture.store, "page", noted)
    done = whole(fixture, action)
    assert len(done.ids) in (MANY, MANY - 1)
    assert max(len(each.updated) for each in commits) <= STEP_JOBS
    assert max(read) <= STEP_JOBS and sum(read) == MANY, "each job is selected once"


def test_other_requests_are_answered_between_two_steps() -> None:
    async def test(one: Running) -> None:
        drafts = [a_draft(hold=True)] * MANY
        await one.engine.change(lambda batch: service.submit(batch, drafts, "s", b"d"))
        cancelled: list[int] = []

        async def look() -> None:
            totals = await one.engine.read(lambda batch: batch.store.totals())
            cancelled.append(totals.get("cancelled", 0))

        done = await one.engine.change_in_steps(a_change(KillJobs()).start, look)
        assert len(done.ids) == MANY
        assert {STEP_JOBS, 2 * STEP_JOBS} <= set(cancelled)

    play(test)


def test_two_changes_of_many_jobs_take_turns() -> None:
    async def test(one: Running) -> None:
        await one.engine.change(lambda batch: service.submit(batch, [a_draft(hold=True)] * MANY, "s", b"d"))
        turns: list[str] = []

        async def run(name: str, action: Action) -> BulkResult:
            async def note() -> None:
                turns.append(name)

            return await one.engine.change_in_steps(a_change(action, key=name).start, note)

        await asyncio.gather(run("a", SetPriority(40)), run("b", SetPriority(50)))
        assert turns[:6] == ["a", "b"] * 3

    play(test)


def test_the_set_is_fixed_when_the_command_runs() -> None:
    fixture = with_jobs()
    first = fixture.do(a_change(KillJobs()).start)
    fixture.submit(a_draft(gpu=2))
    done = finish(fixture, first)
    assert done.ids == list(range(1, MANY + 1)) and fixture.job(MANY + 1).state is not State.CANCELLED


def test_what_runs_is_stopped_after_what_waits_so_that_nothing_new_starts() -> None:
    fixture = with_jobs()
    last = until_changed(fixture, a_change(KillJobs(3.0)), 2 * STEP_JOBS)
    assert not fixture.job(1).cancel_requested
    done = finish(fixture, last)
    assert fixture.job(1).cancel_requested and (done.stopping, done.graces) == (1, [3.0, 3.0])
    assert len(done.ids) == MANY and done.jobs == []


@pytest.mark.parametrize("steps", [0, STEP_JOBS, 2 * STEP_JOBS], ids=["set fixed", "one step", "two steps"])
def test_a_repeated_request_goes_on_after_a_crash(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = with_jobs()
    until_changed(fixture, a_change(HoldJobs(), "queued"), steps)
    fixture.restart()
    # Whoever lets a job go on meanwhile is not overruled by the repetition.
    fixture.do(lambda batch: None)
    if steps:
        whole(fixture, ReleaseJobs(), "2", "other")
    done = whole(fixture, HoldJobs(), "queued")
    assert done.ids == list(range(2, MANY + 1))
    assert fixture.store.totals()["held"] == MANY - 1 - bool(steps)
    commits = committed(fixture, monkeypatch)
    assert whole(fixture, HoldJobs(), "queued") == done and not commits


def failed_jobs(count: int = MANY) -> DeciderFixture:
    fixture = a_decider()
    fixture.submit(*[a_draft(hold=True)] * count)
    whole(fixture, KillJobs(), key="end")
    return fixture


@pytest.mark.parametrize("steps", [0, STEP_JOBS, 2 * STEP_JOBS])
def test_a_rerun_is_never_submitted_twice(steps: int) -> None:
    fixture = failed_jobs()
    until_changed(fixture, a_change(RerunJobs(), f"1-{MANY}"), steps)
    fixture.submit(a_draft())
    fixture.restart()
    done = whole(fixture, RerunJobs(), f"1-{MANY}")
    assert whole(fixture, RerunJobs(), f"1-{MANY}") == done
    runs = fixture.store.reruns(list(range(1, MANY + 1)))
    assert sorted(job.id for job in runs) == done.ids and len(done.ids) == MANY
    assert sorted(job.rerun_of or 0 for job in runs) == list(range(1, MANY + 1))


def test_two_clients_with_one_key_are_one_request() -> None:
    fixture = failed_jobs()
    answers: list[Any] = [fixture.do(a_change(RerunJobs(), f"1-{MANY}").start) for _ in range(2)]
    while not all(isinstance(answer, BulkResult) for answer in answers):
        answers = [answer if isinstance(answer, BulkResult) else fixture.do(answer.handler) for answer in answers]
    assert answers[0] == answers[1] and len(answers[0].ids) == MANY
    assert len(fixture.store.reruns(list(range(1, MANY + 1)))) == MANY


def test_an_error_in_the_middle_says_how_many_jobs_were_done() -> None:
    async def test(one: Running) -> None:
        await one.engine.change(lambda batch: service.submit(batch, [a_draft(hold=True)] * MANY, "s", b"d"))

        async def spoil() -> None:
            if (await one.engine.read(lambda batch: batch.store.totals())).get("cancelled"):
                one.trouble.at = ["before commit"] * 2

        with pytest.raises(StoreUnavailable, match=f"; {STEP_JOBS} of {MANY} jobs were done before"):
            await one.engine.change_in_steps(a_change(KillJobs()).start, spoil)
        one.trouble.at = []

    play(test)


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
def test_a_step_whose_commit_failed_is_looked_up_and_done_once(moment: str) -> None:
    async def test(one: Running) -> None:
        await one.engine.change(lambda batch: service.submit(batch, [a_draft(hold=True)] * 3, "s", b"d"))
        await one.engine.change_in_steps(a_change(KillJobs(), key="end").start, nothing)
        one.trouble.at = [moment]
        done = await one.engine.change_in_steps(a_change(RerunJobs(), "1-3").start, nothing)
        assert done.ids == [4, 5, 6]
        assert await one.engine.read(lambda batch: len(batch.store.jobs(AllJobs(), 100))) == 6

    play(test)


async def nothing() -> None:
    return


def test_a_job_named_by_its_id_that_cannot_be_changed_refuses_all_before_anything_is_changed() -> None:
    fixture = a_decider()
    fixture.submit(*[a_draft("nowhere")] * MANY, a_draft(gpu=2))
    answer: Any = fixture.do(a_change(HoldJobs(), f"1-{MANY + 1}").start)
    while isinstance(answer, Next):
        answer = fixture.ask(answer.handler)
    assert isinstance(answer, Refused) and f"job {MANY + 1} runs already" in str(answer)
    assert "held" not in fixture.store.totals()


def test_a_job_that_starts_between_two_steps_is_left_out_with_a_note() -> None:
    fixture = with_jobs()
    answer: BulkResult | Next = fixture.do(a_change(HoldJobs(), "queued").start)
    while isinstance(answer, Next) and not answer.total:
        answer = fixture.do(answer.handler)
    fixture.exited(1)
    done = finish(fixture, answer)
    assert done.ids == list(range(3, MANY + 1)) and "job 2 runs already" in done.notes[0]


def test_few_jobs_take_one_commit_and_are_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = with_jobs(LISTED_MAX)
    commits = committed(fixture, monkeypatch)
    done = fixture.do(a_change(KillJobs()).start)
    assert [job.id for job in done.jobs] == done.ids == list(range(1, LISTED_MAX + 1))
    assert len(commits) == 1 and set(commits[0].submissions) == {"k"}


def test_many_jobs_are_cleaned_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = failed_jobs()
    commits = committed(fixture, monkeypatch)
    done = whole(fixture, CleanJobs())
    assert done.ids == list(range(1, MANY + 1)) and fixture.store.totals() == {}
    assert max(len(each.removed) for each in commits) <= STEP_JOBS
    assert fixture.submit(a_draft()) == [MANY + 1]


def test_notes_are_bounded() -> None:
    assert len(whole(with_jobs(2 * NOTES_MAX), ReleaseJobs(), f"1-{2 * NOTES_MAX}", "h").notes) == NOTES_MAX


# Reading page by page.


def read_all(fixture: DeciderFixture, text: str, limit: int) -> list[int]:
    selectors = [each for part in text.split() for each in chosen(part)]
    reading = fixture.do(lambda batch: selection.begin(batch, selectors))
    found: list[int] = []
    while not reading.is_over:
        some, reading = fixture.do(_reader(reading, limit))
        assert len(some) <= limit
        found += [job.id for job, _ in some]
    return found


def _reader(reading: selection.Reading, limit: int) -> Callable[[Any], Any]:
    return lambda batch: selection.read(batch, reading, limit)


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("all", range(1, 31)),
        ("1-9 5-30", range(1, 31)),
        ("queued running", range(1, 31)),
        ("queued", range(2, 31)),
        ("30 2 17 @", (2, 17, 30)),
        ("default 4-5", range(1, 31)),
        ("1,3,5,7-20,25", (1, 3, 5, *range(7, 21), 25)),
    ],
)
def test_pages_give_every_job_once_and_in_order(text: str, ids: Sequence[int], limit: int) -> None:
    assert read_all(with_jobs(30), text, limit) == list(ids)


def test_a_selector_that_matches_nothing_is_told_before_the_first_job() -> None:
    fixture = with_jobs(30)
    selectors = [*chosen("all"), *chosen("succeeded")]
    reading = fixture.do(lambda batch: selection.begin(batch, selectors))
    with pytest.raises(NotFound, match="no job matches succeeded"):
        for _ in range(30):
            some, reading = fixture.do(_reader(reading, 2))
            assert not some
