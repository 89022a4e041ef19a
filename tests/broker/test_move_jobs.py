"""Moving jobs in the line: the line is the list that a person has in mind, also after a restart."""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import Any

import pytest
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service
from grassq.broker.actions.edit import Editor
from grassq.broker.actions.move import MOVED_AT_ONCE, Destination, Where, move
from grassq.broker.inbox import Call
from grassq.broker.tokens import OWNER, Bearer
from grassq.core.model import State
from grassq.core.planner.heads import ReservationPolicy
from grassq.errors import BadInput, Refused

WHERE: tuple[Where, ...] = ("first", "last", "before", "after")
ANN = Editor("ann", OWNER)
keys = (f"move-{number}" for number in itertools.count())


def do(fixture: DeciderFixture, ids: list[int], where: Where, target: int | None = None, **more: Any) -> Any:
    key, mover = more.get("key") or next(keys), more.get("mover", ANN)
    return fixture.do(lambda batch: move(batch, ids, Destination(where, target), mover, key, b"d"), changing=True)


def line(fixture: DeciderFixture) -> list[int]:
    return fixture.decider.board.next_ids(9999)


def a_line(count: int, near_max: int = 4096) -> DeciderFixture:
    """Job 1 has the only gpu; the others wait for it."""
    fixture = DeciderFixture(a_worker("w", gpu=1, offers=[an_offer(), an_offer("q")]), near_max=near_max)
    fixture.submit(*[a_draft("q" if number % 3 else "default", gpu=1) for number in range(count)])
    return fixture


@pytest.mark.parametrize("near_max", [0, 4096])
@pytest.mark.parametrize("seed", range(3))
def test_any_moves_make_the_line_that_a_list_would_be(seed: int, near_max: int) -> None:
    rng, fixture = random.Random(seed), a_line(12, near_max)
    model = list(range(2, 13))
    for _ in range(40):
        some = sorted(rng.sample(model, rng.choice((1, 1, 3))), key=model.index)
        rest = [id_ for id_ in model if id_ not in some]
        where, target = rng.choice(WHERE), rng.choice(rest)
        do(fixture, sorted(some), where, target if where in ("before", "after") else None)
        at = {"first": 0, "last": len(rest), "before": rest.index(target), "after": rest.index(target) + 1}[where]
        model = rest[:at] + some + rest[at:]
        assert line(fixture) == model
        if rng.random() < 0.2:
            fixture.decider.stale = True
            fixture.process()
            assert line(fixture) == model, "as the store has it"
    fixture.restart()
    fixture.hello(a_worker("w", gpu=1, offers=[an_offer(), an_offer("q")]), held=[(1, 1)])
    assert line(fixture) == model
    started = [1]
    while model:
        fixture.exited(started[-1])
        started += [job.id for job in fixture.decider.board.holding.values()]
        assert started[-1] == model.pop(0), "jobs start in the order of the line"


def test_a_move_is_told_and_what_is_there_already_stays() -> None:
    fixture = a_line(5)
    effects = fixture.process(Call(lambda batch: move(batch, [4], Destination("first"), ANN, next(keys), b"d")))
    assert [(change.job, change.event, change.detail) for change in effects.changed] == [(4, "moved", "first, by ann")]
    assert line(fixture) == [4, 2, 3, 5]
    assert do(fixture, [4], "first").ids == [] and do(fixture, [5], "last").ids == []
    assert do(fixture, [2], "after", 4).ids == [] and do(fixture, [2], "before", 3).ids == []
    assert [line.kind for line in fixture.store.story(4)] == ["submitted", "moved"]


def test_a_repeated_request_moves_once() -> None:
    fixture = a_line(5)
    do(fixture, [4], "first", key="once")
    do(fixture, [3], "first")
    assert do(fixture, [4], "first", key="once").ids == [4]
    assert line(fixture) == [3, 4, 2, 5]


def test_priorities_decide_first_and_a_new_priority_forgets_the_move() -> None:
    fixture = a_line(6)
    fixture.do(lambda batch: at_once.set_priority(batch, chosen("5,6"), 50))
    with pytest.raises(Refused, match=r"job 3 has priority 30 and job 5 has 50.*`grass priority 3 50`"):
        do(fixture, [3], "before", 5)
    with pytest.raises(Refused, match=r"these jobs differ in priority \(30, 50\)"):
        do(fixture, [3, 5], "first")
    assert do(fixture, [4], "first").notes == ["2 jobs of higher priority come first; `grass priority` changes that"]
    do(fixture, [6], "first")
    assert line(fixture) == [6, 5, 4, 2, 3]
    fixture.do(lambda batch: at_once.set_priority(batch, chosen("4,6"), 30))
    assert line(fixture) == [5, 4, 2, 3, 6], "4 had this priority before, and stays where it was moved"
    assert fixture.job(6).rank is None and fixture.job(4).rank is not None


def test_what_cannot_be_moved_is_refused_whole() -> None:
    fixture = a_line(5)
    for ids, where, target, error in (
        ([2, 1], "first", None, "job 1 started meanwhile; nothing was changed"),
        ([2], "before", 1, "job 1 does not wait any more"),
        ([2], "after", 99, "job 99 does not wait any more"),
        ([99], "first", None, "job 99 was removed meanwhile"),
        ([2, 3], "before", 3, "job 3 cannot be moved before itself"),
    ):
        with pytest.raises((Refused, BadInput), match=error):
            do(fixture, ids, where, target)  # type: ignore[arg-type]
    assert line(fixture) == [2, 3, 4, 5]


def test_a_held_job_is_moved_too_and_comes_back_to_its_place() -> None:
    fixture = a_line(5)
    fixture.do(lambda batch: at_once.hold(batch, chosen(4)))
    do(fixture, [4], "first")
    do(fixture, [5], "before", 4)
    assert line(fixture) == [5, 2, 3]
    fixture.do(lambda batch: at_once.release(batch, chosen(4)))
    assert line(fixture) == [5, 4, 2, 3]
    assert fixture.decider.board.ranks.moved.keys() == {fixture.job(4).rank, fixture.job(5).rank}


def test_a_moved_job_that_is_lost_and_queued_again_keeps_its_place() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1), a_draft(gpu=1), a_draft(gpu=1, tries=2), a_draft(gpu=1))
    do(fixture, [3], "first")
    fixture.exited(1)
    assert fixture.job(3).state is State.PLACED
    fixture.exited(3, code=1)
    fixture.clock.now += 10
    fixture.process()
    assert line(fixture) == [3, 4]


def test_a_head_that_is_moved_waits_anew_and_the_next_one_is_the_head() -> None:
    fixture = DeciderFixture(a_worker("w", gpu=2), patience=ReservationPolicy(passes=1, wait_s=1e9))
    fixture.submit(a_draft(gpu=1))
    fixture.submit(a_draft(gpu=2), a_draft(gpu=2))
    fixture.submit(a_draft(gpu=1))
    board = fixture.decider.board
    assert (board.heads["default"].job, board.heads["default"].passed) == (2, 1)
    do(fixture, [2], "last")
    assert (board.heads["default"].job, board.heads["default"].passed) == (3, 0)
    assert fixture.decider.board.next_ids(9) == [3, 2]


def test_a_head_that_is_moved_and_is_still_the_first_of_its_queue_has_not_been_passed_yet() -> None:
    worker = a_worker("w", gpu=2, offers=[an_offer(), an_offer("q")])
    fixture = DeciderFixture(worker, patience=ReservationPolicy(passes=1, wait_s=1e9))
    fixture.submit(a_draft(gpu=1))
    fixture.submit(a_draft("q", gpu=2), a_draft(gpu=2))
    fixture.submit(a_draft(gpu=1))
    assert fixture.decider.board.heads["q"].passed == 1
    do(fixture, [2], "last")
    assert (fixture.decider.board.heads["q"].job, fixture.decider.board.heads["q"].passed) == (2, 0)


def test_a_token_passes_only_its_own_jobs() -> None:
    fixture = a_decider(gpu=1)
    fixture.submit(a_draft(gpu=1))
    for by in ("t1", "t2", "t1", "t1"):
        drafts = [a_draft(gpu=1, by=by)]
        fixture.do(partial(service.submit, drafts=drafts, key=next(keys), digest=b"d", bearer=Bearer(by)))
    token = Editor("ann", Bearer("t1"), "t1")
    with pytest.raises(Refused, match="this passes job 3, which was submitted with another token"):
        do(fixture, [4], "first", mover=token)
    do(fixture, [5], "before", 4, mover=token)
    do(fixture, [2], "last", mover=token)
    assert line(fixture) == [3, 5, 4, 2]
    fixture.decider.board.ended_tokens.add("t1")
    with pytest.raises(Refused, match="your token was revoked"):
        do(fixture, [2], "last", mover=token)


def test_hundreds_of_jobs_are_moved_to_one_place_and_then_it_is_full() -> None:
    fixture = a_line(1800)
    do(fixture, list(range(500, 500 + MOVED_AT_ONCE)), "before", 3)
    assert line(fixture)[:3] == [2, 500, 501] and line(fixture)[499:502] == [998, 999, 3]
    do(fixture, list(range(1000, 1200)), "before", 3)
    assert line(fixture)[500:503] == [999, 1000, 1001] and line(fixture)[701] == 3
    do(fixture, [*range(4, 490), *range(1201, 1215)], "before", 3)
    assert line(fixture)[1201] == 3
    with pytest.raises(Refused, match="too many jobs were moved to this place"):
        do(fixture, [*range(1300, 1800)], "before", 3)
    assert line(fixture)[1201] == 3, "nothing was changed"
    do(fixture, [1300], "before", 3)
