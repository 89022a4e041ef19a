"""Which jobs a selector means: queues and names, words that are almost right, and what `rerun` leaves out."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import selection
from grassq.broker.actions.jobs import RerunFailed, RerunLast
from grassq.core.model import Job, Offer, Outcome, State
from grassq.core.states import Exited
from grassq.core.syntax.selectors import Selector
from grassq.errors import NotFound


def ids(fixture: DeciderFixture, text: str) -> list[int]:
    return [job.id for job in fixture.do(lambda batch: selection.select(batch, chosen(text)))]


def waited(fixture: DeciderFixture, text: str) -> list[int]:
    """The jobs that `wait` waits for."""
    found = [job.id for job in fixture.do(lambda batch: selection.select(batch, chosen(text), live=True))]
    [selector] = chosen(text)
    ids, _ = fixture.do(lambda batch: selection.live_ids(batch, selector, 1000, 1_000_000))
    assert ids == found, "read in brief, they are the same"
    return found


def kill(fixture: DeciderFixture, id_: int) -> None:
    """End a running job as a user does."""
    fixture.do(lambda batch: at_once.kill(batch, chosen(id_)))
    fixture.report(id_, Exited(1, Outcome.SIGNALLED, signal=15))


def with_queue(queue: str = "amb") -> DeciderFixture:
    return DeciderFixture(a_worker("w", cpu=4, offers=(Offer("default"), Offer(queue))))


def test_an_empty_queue_does_not_hide_the_jobs_of_its_name() -> None:
    fixture = with_queue()
    fixture.submit(a_draft(name="amb"))
    assert ids(fixture, "amb") == ids(fixture, "name:amb") == [1]
    fixture.submit(a_draft("amb"))
    assert ids(fixture, "amb") == [2], "a queue that has jobs wins over a name"


def test_an_empty_queue_is_no_error() -> None:
    assert ids(with_queue(), "amb") == []


def test_names_and_queues_in_a_list_mean_what_they_mean_alone() -> None:
    fixture = with_queue()
    fixture.submit(a_draft(name="lr"), a_draft(name="seed"), a_draft("amb"), a_draft())
    assert ids(fixture, "lr,amb") == [1, 3] and ids(fixture, "4,seed,lr") == [1, 2, 4]
    with pytest.raises(NotFound, match="no job matches 'sed'; did you mean 'seed'"):
        ids(fixture, "lr,sed")
    empty = with_queue()
    empty.submit(a_draft())
    assert ids(empty, "amb,1") == [1], "a queue without jobs is no error in a list either"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("runing", "running"), ("resnt", "resnet"), ("al", "all"), ("ambb", "amb"), ("name:resnt", "resnet")],
)
def test_a_word_that_matches_nothing_is_answered_with_the_near_one(typed: str, meant: str) -> None:
    fixture = with_queue()
    fixture.submit(a_draft(name="resnet"))
    with pytest.raises(NotFound, match=f"did you mean '{meant}'"):
        ids(fixture, typed)


def test_several_states_are_one_selector() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft() for _ in range(4)])
    fixture.exited(1, 1)
    fixture.exited(3, 0)
    kill(fixture, 4)
    assert ids(fixture, "failed,cancelled") == [1, 4]
    assert ids(fixture, "cancelled,succeeded,failed") == [1, 3, 4]
    assert ids(fixture, "failed,held") == [1]
    with pytest.raises(NotFound):
        ids(fixture, "held,queued")


def rerun(fixture: DeciderFixture, text: str, *states: State) -> tuple[list[int], list[str]]:
    """The first runs of the new jobs, and the notes."""
    action = RerunFailed(states=frozenset(states)) if states else RerunLast()
    done = fixture.do(lambda batch: at_once.change(batch, action, chosen(text)))
    return [fixture.job(id_).rerun_of or 0 for id_ in done.ids], done.notes


def test_rerun_of_what_failed_says_how_many_cancelled_jobs_it_leaves_out() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft(name="fit") for _ in range(4)])
    fixture.exited(1, 1)
    kill(fixture, 2)
    kill(fixture, 3)
    told = ["2 cancelled jobs are left out; --cancelled runs them again too"]
    assert rerun(fixture, "fit", State.FAILED) == ([1], told)
    assert rerun(fixture, "fit", State.CANCELLED) == ([2, 3], [])
    assert rerun(fixture, "failed,cancelled") == ([], []), "each has a run that has not ended"


def test_rerun_by_name_or_state_runs_each_job_once_however_often_it_ran() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(a_draft(name="fit"), a_draft(name="fit"))
    for id_ in (1, 2):
        fixture.exited(id_, 1)
    assert rerun(fixture, "1") == ([1], [])
    fixture.exited(3, 0)
    assert rerun(fixture, "failed") == ([2], []), "the later run of job 1 succeeded"
    fixture.exited(4, 1)
    assert rerun(fixture, "fit") == ([1, 2], [])


def test_wait_is_about_what_has_not_ended_unless_the_jobs_are_named() -> None:
    fixture = DeciderFixture(a_worker("w", cpu=4, offers=(Offer("default"), Offer("q"))))
    fixture.submit(a_draft("q"), a_draft(), a_draft("q", hold=True), a_draft("q"), a_draft("q", cpu=4))
    fixture.exited(1, 1)
    assert waited(fixture, "all") == [2, 3, 4, 5]
    assert waited(fixture, "q") == waited(fixture, "queue:q") == [3, 4, 5]
    assert waited(fixture, "1-2") == [1, 2], "ids are what they say"
    assert waited(fixture, "failed") == [1], "so is a state of the past"
    assert waited(fixture, "default") == [2]
    fixture.exited(2, 0)
    assert waited(fixture, "default") == [], "nothing is left to wait for"


def test_wait_for_a_name_counts_the_whole_submission_that_used_the_name_last() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(a_draft(name="fit"))
    fixture.exited(1, 1)
    fixture.clock.now += 60
    fixture.submit(a_draft(name="fit"), a_draft(name="fit"))
    fixture.exited(2, 1)
    assert waited(fixture, "fit") == [2, 3], "an old failure does not count, an early one does"
    fixture.exited(3, 0)
    assert waited(fixture, "fit") == [2, 3]
    fixture.clock.now += 60
    assert rerun(fixture, "fit", State.FAILED)[0] == [1, 2]
    assert waited(fixture, "name:fit") == [4, 5]
    with pytest.raises(NotFound):
        waited(fixture, "nothing")


def test_a_selector_that_is_named_often_is_read_once() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft(hold=True)] * 5)
    reading = fixture.do(lambda batch: selection.begin(batch, [*chosen("all")] * 100))
    assert len(reading.sources) == 1


def test_a_page_reads_about_as_many_jobs_as_it_may_return_also_when_it_returns_none() -> None:
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft(hold=True)] * 1000)
    read: list[int] = []
    page = fixture.store.page

    def counted(selector: Selector, after: int, upto: int, limit: int) -> tuple[list[Job], int]:
        jobs, upto = page(selector, after, upto, limit)
        read.append(len(jobs))
        return jobs, upto

    fixture.store.page = counted  # type: ignore[method-assign]
    reading = fixture.do(lambda batch: selection.begin(batch, chosen("all"), visible_to="nobody"))
    while not reading.is_over:
        read.clear()
        some, reading = fixture.do(partial(selection.read, reading=reading, limit=100))
        assert not some and sum(read) <= 100 + selection.ROWS_AT_ONCE


def test_a_project_has_jobs_of_any_name_and_a_name_may_be_in_several_projects() -> None:
    fixture = with_queue()

    def add(project: str | None, name: str | None) -> int:
        draft = a_draft(name=name)
        (id_,) = fixture.submit(replace(draft, spec=replace(draft.spec, project=project)))
        return id_

    first, second, third, fourth = add("p", "lr"), add("p", "lr"), add("p", None), add("q", "lr")
    add(None, "lr")
    assert ids(fixture, "project:p") == [first, second, third]
    assert ids(fixture, "p/lr") == [first, second]
    assert ids(fixture, f"p/lr/{second}") == [second]
    assert ids(fixture, "project:q") == ids(fixture, "q/lr") == [fourth]
    for wrong in ("project:other", "p/other", f"p/lr/{fourth}", f"q/lr/{first}"):
        with pytest.raises(NotFound, match="no job matches"):
            ids(fixture, wrong)
    fixture.report(first, Exited(1, Outcome.EXITED, code=0))
    assert second in waited(fixture, "p/lr") and waited(fixture, f"p/lr/{first}") == [first]
