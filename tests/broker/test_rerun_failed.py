"""Running again only what failed: once per job, and not while a later run may still succeed. And names of sweeps."""

from __future__ import annotations

import itertools

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.actions.jobs import RerunFailed
from grassq.broker.inbox import Call
from grassq.broker.sweeps.objects import NewSweep
from grassq.core.model import State
from grassq.core.syntax.selectors import Selector
from grassq.errors import NotFound

_keys = (f"r{number}" for number in itertools.count())


def again(fixture: DeciderFixture, text: str | None = None) -> list[int]:
    """`rerun --failed`: the jobs of which there are new ones."""
    selectors: list[Selector] = [] if text is None else chosen(text)
    ids = fixture.do(lambda batch: at_once.rerun(batch, selectors, next(_keys), b"d", failed=True))
    return [fixture.job(id_).rerun_of or 0 for id_ in ids]


@pytest.fixture
def fixture() -> DeciderFixture:
    """Jobs 1 to 4 of one name: failed, succeeded, failed, running; and 5, failed, of none."""
    fixture = a_decider(cpu=9)
    fixture.submit(*[a_draft(name="group") for _ in range(4)], a_draft())
    for job, code in ((1, 1), (2, 0), (3, 2), (5, 1)):
        fixture.exited(job, code)
    return fixture


def test_only_what_failed_of_the_selection_is_run_again(fixture: DeciderFixture) -> None:
    assert again(fixture, "group") == [1, 3]
    assert [fixture.job(id_).name for id_ in (6, 7)] == ["group", "group"]


def test_without_a_selector_it_is_all_that_failed(fixture: DeciderFixture) -> None:
    assert again(fixture) == [1, 3, 5]
    assert again(a_decider()) == []


def test_asking_twice_does_not_double_the_work(fixture: DeciderFixture) -> None:
    assert again(fixture, "group") == [1, 3]
    assert again(fixture, "group") == again(fixture, "1") == []
    fixture.started(6)
    assert again(fixture, "group") == []
    fixture.exited(6, 0)
    assert again(fixture, "group") == again(fixture, "1") == []


def test_asking_twice_at_once_does_not_double_the_work(fixture: DeciderFixture) -> None:
    calls = [Call(lambda batch: at_once.rerun(batch, chosen("group"), next(_keys), b"d", True)) for _ in range(2)]
    assert [answer for _, answer in fixture.process(*calls).answers] == [[6, 7], []]


def test_what_failed_again_is_run_again_once(fixture: DeciderFixture) -> None:
    again(fixture, "group")
    fixture.exited(6, 1)
    fixture.exited(7, 0)
    # 1 and 6 have failed, and are one job.
    assert again(fixture, "group") == [1]
    fixture.exited(8, 1)
    assert again(fixture, "1") == [1]


def test_a_cancelled_rerun_does_not_count(fixture: DeciderFixture) -> None:
    fixture.do(lambda batch: service.pause(batch, None))
    again(fixture, "1")
    fixture.do(lambda batch: at_once.kill(batch, chosen("6"), None))
    assert fixture.job(6).state is State.CANCELLED
    assert again(fixture, "1,6") == [1]


def test_a_failure_after_a_success_is_run_again(fixture: DeciderFixture) -> None:
    [six] = fixture.do(lambda batch: at_once.rerun(batch, chosen("2"), "plain", b"d"))
    fixture.exited(six, 0)
    [seven] = fixture.do(lambda batch: at_once.rerun(batch, chosen("2"), "once more", b"d"))
    fixture.exited(seven, 1)
    assert again(fixture, "group") == [1, 3, 2]


@pytest.mark.parametrize("text", ["2", "4", "2,4"])
def test_where_nothing_failed_nothing_is_run_again(fixture: DeciderFixture, text: str) -> None:
    assert again(fixture, text) == []
    assert fixture.decider.board.jobs.keys() == {4}


def test_a_selection_that_does_not_exist_is_not_found(fixture: DeciderFixture) -> None:
    with pytest.raises(NotFound):
        again(fixture, "nothing")


def test_the_jobs_of_a_sweep_are_called_after_the_first() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    ids = fixture.do(
        lambda batch: service.submit(batch, [a_draft(), a_draft(name="mine")], "k", b"d", sweep=NewSweep(kind="sweep"))
    )
    assert [(id_, fixture.job(id_).name) for id_ in ids] == [(2, "sweep-2"), (3, "mine")]
    again = fixture.do(
        lambda batch: service.submit(batch, [a_draft(), a_draft(name="mine")], "k", b"d", sweep=NewSweep(kind="sweep"))
    )
    assert again == ids


def test_a_failed_job_that_can_never_run_again_is_left_out_and_named() -> None:
    fixture = a_decider(gpu=1, cpu=2)
    fixture.submit(a_draft(gpu=1), a_draft())
    fixture.exited(1, 1)
    fixture.exited(2, 1)
    fixture.hello(a_worker(cpu=2), fresh=False)
    done = fixture.do(lambda batch: at_once.change(batch, RerunFailed(), []))
    assert [job.rerun_of for job in done.jobs] == [2]
    assert done.notes[0].startswith("job 1 is left out, because it can never run: 1 gpu asked")
