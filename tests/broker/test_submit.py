"""Submitting: an id is on disk before it is given, and one key is one submission, whatever the disk does."""

from __future__ import annotations

import pytest
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, ended
from tests.builders import a_worker

from grassq.core.messages import Start
from grassq.core.model import State
from grassq.errors import Refused, StoreUnavailable


def test_a_submitted_job_is_placed_and_ordered_in_one_batch() -> None:
    fixture = a_decider()
    effects = fixture.process(fixture.submission(a_draft(gpu=0.5)))
    assert [answer for _, answer in effects.answers] == [[1]]
    assert fixture.job(1).state is State.PLACED
    ((worker, order),) = effects.orders
    assert worker == "w" and isinstance(order, Start)
    assert order.placement.allocation == {"gpu": {"0": 500_000}}
    assert order.env == ((b"A", b"b"),)


def test_parameters_and_notices_stay_with_the_broker() -> None:
    fixture = a_decider()
    effects = fixture.process(fixture.submission(a_draft(parameters=(("lr", "0.1"),), notify=("desktop",))))
    ((_, order),) = effects.orders
    assert isinstance(order, Start) and not order.spec.parameters and not order.spec.notify
    kept = fixture.store.some([1])[0].spec
    assert (kept.parameters, kept.notify) == ((("lr", "0.1"),), ("desktop",))


def test_a_bulk_submission_gets_consecutive_ids() -> None:
    fixture = a_decider()
    assert fixture.submit(a_draft()) == [1]
    assert fixture.submit(a_draft(), a_draft(), a_draft()) == [2, 3, 4]


def test_the_same_key_gives_the_same_ids() -> None:
    fixture = a_decider()
    assert fixture.submit(a_draft(), key="k") == fixture.submit(a_draft(), key="k") == [1]
    assert fixture.store.totals() == {"placed": 1}


def test_the_same_key_twice_in_one_batch_is_one_submission() -> None:
    fixture = a_decider()
    effects = fixture.process(fixture.submission(a_draft(), key="k"), fixture.submission(a_draft(), key="k"))
    assert [answer for _, answer in effects.answers] == [[1], [1]]
    assert fixture.decider.read_only is None


def test_the_same_key_with_another_content_is_refused() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), key="k", digest=b"one")
    with pytest.raises(Refused, match="key was used for another request"):
        fixture.submit(a_draft(), key="k", digest=b"two")


def test_a_key_is_remembered_across_restarts() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), key="k")
    fixture.restart()
    assert fixture.submit(a_draft(), key="k") == [1]


def test_what_can_never_fit_is_refused_whole() -> None:
    fixture = a_decider()
    with pytest.raises(Refused, match=r"never run: 3 gpu asked, queue 'default' on w has 2"):
        fixture.submit(a_draft(), a_draft(gpu=3))
    assert fixture.store.totals() == {}


def test_with_no_worker_known_a_job_waits_and_is_judged_later() -> None:
    fixture = DeciderFixture()
    fixture.submit(a_draft(gpu=3), a_draft(gpu=1))
    assert "no queue 'default' yet" in (fixture.job(1).reason or "")
    fixture.hello(a_worker("w", gpu=2))
    assert (fixture.job(1).state, fixture.job(2).state) == (State.WAITING, State.PLACED)
    assert "no worker can run it" in fixture.reason(1)


def test_a_job_may_be_born_held() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(hold=True))
    assert fixture.job(1).state is State.HELD


@pytest.mark.parametrize("stored", [False, True])
def test_a_failed_commit_is_answered_by_what_is_stored(stored: bool) -> None:
    fixture = a_decider()
    fixture.trouble.at = ["after commit" if stored else "before commit"]
    effects = fixture.process(fixture.submission(a_draft(), a_draft(), key="k"))
    ((_, answer),) = effects.answers
    if stored:
        assert answer == [1, 2]
    else:
        assert isinstance(answer, StoreUnavailable) and "no disk" in str(answer)
    assert effects.orders == [] and ended(effects) == []
    assert fixture.submit(a_draft(), a_draft(), key="k") == [1, 2]


def test_ids_are_above_those_of_folders_that_exist() -> None:
    fixture = a_decider()
    fixture.decider = type(fixture.decider)(fixture.store, fixture.clock, floor_id=41, incarnation="another")
    assert fixture.submit(a_draft()) == [42]


def test_a_read_that_fails_after_the_commit_changes_no_answer() -> None:
    fixture = a_decider()
    fixture.trouble.at = ["environment"]
    effects = fixture.process(fixture.submission(a_draft()))
    assert [answer for _, answer in effects.answers] == [[1]]
    assert effects.orders == []
    fixture.clock.now += fixture.decider.next_wake() or 0
    assert [type(order) for _, order in fixture.process().orders] == [Start]
