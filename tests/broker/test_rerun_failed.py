"""Running again only what failed: once per job, and not while a later run may still succeed. And names of sweeps."""

from __future__ import annotations

import itertools

import pytest
from tests.broker.desk import Desk, a_desk, a_draft, chosen

from grassq.broker import service
from grassq.broker.decide import Call
from grassq.core.model import State
from grassq.core.selectors import Selector
from grassq.errors import NotFound

_keys = (f"r{number}" for number in itertools.count())


def again(desk: Desk, text: str | None = None) -> list[int]:
    """`rerun --failed`: the jobs of which there are new ones."""
    selectors: list[Selector] = [] if text is None else chosen(text)
    ids = desk.do(lambda batch: service.rerun(batch, selectors, next(_keys), b"d", failed=True))
    return [desk.job(id_).rerun_of or 0 for id_ in ids]


@pytest.fixture
def desk() -> Desk:
    """Jobs 1 to 4 of one name: failed, succeeded, failed, running; and 5, failed, of none."""
    desk = a_desk(cpu=9)
    desk.submit(*[a_draft(name="group") for _ in range(4)], a_draft())
    for job, code in ((1, 1), (2, 0), (3, 2), (5, 1)):
        desk.exited(job, code)
    return desk


def test_only_what_failed_of_the_selection_is_run_again(desk: Desk) -> None:
    assert again(desk, "group") == [1, 3]
    assert [desk.job(id_).name for id_ in (6, 7)] == ["group", "group"]


def test_without_a_selector_it_is_all_that_failed(desk: Desk) -> None:
    assert again(desk) == [1, 3, 5]
    assert again(a_desk()) == []


def test_asking_twice_does_not_double_the_work(desk: Desk) -> None:
    assert again(desk, "group") == [1, 3]
    assert again(desk, "group") == again(desk, "1") == []
    desk.started(6)
    assert again(desk, "group") == []
    desk.exited(6, 0)
    assert again(desk, "group") == again(desk, "1") == []


def test_asking_twice_at_once_does_not_double_the_work(desk: Desk) -> None:
    calls = [Call(lambda batch: service.rerun(batch, chosen("group"), next(_keys), b"d", True)) for _ in range(2)]
    assert [answer for _, answer in desk.process(*calls).answers] == [[6, 7], []]


def test_what_failed_again_is_run_again_once(desk: Desk) -> None:
    again(desk, "group")
    desk.exited(6, 1)
    desk.exited(7, 0)
    # 1 and 6 have failed, and are one job.
    assert again(desk, "group") == [1]
    desk.exited(8, 1)
    assert again(desk, "1") == [1]


def test_a_cancelled_rerun_does_not_count(desk: Desk) -> None:
    desk.do(lambda batch: service.pause(batch, None))
    again(desk, "1")
    desk.do(lambda batch: service.kill(batch, chosen("6"), None))
    assert desk.job(6).state is State.CANCELLED
    assert again(desk, "1,6") == [1]


def test_a_failure_after_a_success_is_run_again(desk: Desk) -> None:
    [six] = desk.do(lambda batch: service.rerun(batch, chosen("2"), "plain", b"d"))
    desk.exited(six, 0)
    [seven] = desk.do(lambda batch: service.rerun(batch, chosen("2"), "once more", b"d"))
    desk.exited(seven, 1)
    assert again(desk, "group") == [1, 3, 2]


@pytest.mark.parametrize("text", ["2", "4", "2,4"])
def test_where_nothing_failed_nothing_is_run_again(desk: Desk, text: str) -> None:
    assert again(desk, text) == []
    assert desk.decider.board.jobs.keys() == {4}


def test_a_selection_that_does_not_exist_is_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound):
        again(desk, "nothing")


def test_the_jobs_of_a_sweep_are_called_after_the_first() -> None:
    desk = a_desk()
    desk.submit(a_draft())
    ids = desk.do(lambda batch: service.submit(batch, [a_draft(), a_draft(name="mine")], "k", b"d", as_sweep=True))
    assert [(id_, desk.job(id_).name) for id_ in ids] == [(2, "sweep-2"), (3, "mine")]
    again = desk.do(lambda batch: service.submit(batch, [a_draft(), a_draft(name="mine")], "k", b"d", as_sweep=True))
    assert again == ids
