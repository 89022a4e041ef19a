"""Sweeps at the broker: their limits, also after a restart, when they stop, and how they are applied again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call, Effects
from grassq.broker.service import Draft
from grassq.broker.summary.brief import glance
from grassq.broker.sweeps import apply, limits
from grassq.broker.sweeps.apply import ThereSweep
from grassq.broker.sweeps.objects import NewSweep
from grassq.broker.tokens import OWNER, Bearer, TokenLimits
from grassq.core.model import State
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.sweeps.sweep import Sweep
from grassq.errors import GrassError


def submit(fixture: DeciderFixture, count: int, **more: Any) -> list[int]:
    """Submit a sweep of so many jobs."""
    drafts = [a_draft() for _ in range(count)]
    sweep = NewSweep(**{"kind": "sweep", "name": "fit", **more})
    ids: list[int] = fixture.do(lambda batch: service.submit(batch, drafts, next(fixture.keys), b"d", sweep))
    return ids


def stored(fixture: DeciderFixture, id_: int) -> Sweep:
    return fixture.store.sweeps([id_])[id_]


def settle(fixture: DeciderFixture) -> int:
    """Let the broker do what is left, as its engine does; return how many batches that took."""
    batches = 0
    effects = Effects([], [], again=True)
    while effects.again:
        effects, batches = fixture.process(), batches + 1
        assert batches < 100
    return batches


def states(fixture: DeciderFixture, ids: list[int]) -> list[State]:
    return [fixture.job(id_).state for id_ in ids]


def test_a_sweep_is_an_object_that_its_jobs_name() -> None:
    fixture = a_decider()
    fixture.submit(a_draft())
    ids = submit(fixture, 3, name=None, kind="array", definition="--array 0-2")
    assert ids == [2, 3, 4]
    assert {(job.name, job.spec.sweep) for job in map(fixture.job, ids)} == {("sweep-2", 2)}
    sweep = stored(fixture, 2)
    assert (sweep.name, sweep.kind, sweep.definition, sweep.is_open) == ("sweep-2", "array", "--array 0-2", False)
    assert [job.id for job in fixture.store.jobs(chosen("sweep:2")[0], 9)] == ids
    assert fixture.do(lambda batch: at_once.kill(batch, chosen("sweep:2"))).ids == ids
    shown = fixture.do(glance)["sweeps"]
    assert [(each["name"], each["id"], each["jobs"], each["stopped"]) for each in shown] == [("sweep-2", 2, 3, None)]


def test_at_most_so_many_jobs_run_at_once_and_their_reruns_count_with_them() -> None:
    fixture = a_decider(cpu=4)
    ids = submit(fixture, 4, at_once=2)
    assert states(fixture, ids) == [State.PLACED, State.PLACED, State.QUEUED, State.QUEUED]
    fixture.exited(1, code=1)
    assert fixture.job(3).state is State.PLACED
    fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "key-rerun", b"d"))
    assert (fixture.job(5).state, fixture.job(5).spec.constraints.groups) == (State.QUEUED, ("sweep:1",))


def test_at_once_is_a_limit_of_a_group_until_the_last_job_ends_also_after_a_restart() -> None:
    fixture = a_decider()
    ids = submit(fixture, 3, at_once=2)
    board = fixture.decider.board
    assert board.group_limits == {"sweep:1": GroupLimit(jobs=2)}
    assert {job.spec.constraints.groups for job in map(fixture.job, ids)} == {("sweep:1",)}
    fixture.restart()
    assert fixture.decider.board.group_limits == {"sweep:1": GroupLimit(jobs=2)}
    fixture.do(lambda batch: at_once.kill(batch, chosen("fit")))
    for job in [job for job in fixture.decider.board.holding.values()]:
        fixture.exited(job.id, 1, job.attempt)
    assert fixture.decider.board.group_limits == {} and not fixture.decider.board.sweeps
    assert not stored(fixture, 1).is_open
    [again] = fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "r", b"d"))
    assert fixture.job(again).spec.sweep == 1
    assert fixture.decider.board.group_limits == {"sweep:1": GroupLimit(jobs=2)}


def test_a_sweep_without_limits_has_no_group() -> None:
    fixture = a_decider()
    [first, *_] = submit(fixture, 2)
    assert fixture.job(first).spec.constraints == a_draft().spec.constraints
    assert not fixture.decider.board.sweeps


def test_after_enough_failures_nothing_more_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CANCELLED_MAX", 3)
    fixture = a_decider(cpu=4)
    other = fixture.submit(a_draft())
    ids = submit(fixture, 14, max_fails=2)
    running, waiting = ids[:3], ids[3:]
    for id_ in running:
        fixture.started(id_)
    fixture.do(lambda batch: at_once.hold(batch, chosen(waiting[-1])))
    fixture.exited(running[0], 1)
    fixture.exited(waiting[0], 0)
    assert stored(fixture, ids[0]).stopped is None, "one failure is allowed"
    started = [id_ for id_ in ids if fixture.job(id_).state in (State.PLACED, State.RUNNING)]
    effects = fixture.exited(running[1], 1)
    left = [id_ for id_ in waiting if fixture.job(id_).state is State.QUEUED]
    assert effects.again and left, "the rest is cancelled in steps"
    assert fixture.decider.board.group_limits == {f"sweep:{ids[0]}": GroupLimit(jobs=0)}, "and none of it starts"
    fixture.restart()
    assert fixture.decider.board.group_limits == {f"sweep:{ids[0]}": GroupLimit(jobs=0)}
    assert settle(fixture) > 1
    reason = "sweep fit stopped: 2 of its jobs failed"
    ended = [fixture.job(id_) for id_ in waiting if id_ not in started and id_ != waiting[0]]
    assert {(job.state, job.error) for job in ended} >= {(State.CANCELLED, reason)}
    assert not [job for job in map(fixture.job, ids) if job.state in (State.QUEUED, State.HELD, State.WAITING)]
    assert fixture.job(running[2]).state is State.RUNNING, "what runs goes on"
    assert stored(fixture, ids[0]).stopped == reason
    assert fixture.job(other[0]).state in (State.PLACED, State.RUNNING)


def test_a_job_of_a_stopped_sweep_does_not_come_back_for_another_try() -> None:
    fixture = a_decider(cpu=2)
    drafts = [a_draft(tries=3), a_draft(tries=1), a_draft()]
    sweep = NewSweep(kind="sweep", name="fit", max_fails=1)
    fixture.do(lambda batch: service.submit(batch, drafts, "k", b"d", sweep))
    fixture.exited(2, 1)
    fixture.exited(1, 1)
    settle(fixture)
    assert states(fixture, [1, 2, 3]) == [State.CANCELLED, State.FAILED, State.CANCELLED]
    assert not stored(fixture, 1).is_open


def test_a_stopped_sweep_that_is_run_again_counts_anew() -> None:
    fixture = a_decider(cpu=1)
    ids = submit(fixture, 3, max_fails=1)
    fixture.exited(ids[0], 1)
    settle(fixture)
    assert states(fixture, ids) == [State.FAILED, State.CANCELLED, State.CANCELLED]
    again = fixture.do(lambda batch: at_once.rerun(batch, chosen("fit"), "r", b"d"))
    assert stored(fixture, 1).stopped is None and stored(fixture, 1).is_open
    settle(fixture)
    fixture.restart()
    fixture.hello(a_worker("w", cpu=1))
    fixture.exited(again[0], 0)
    assert State.CANCELLED not in states(fixture, again)
    fixture.exited(again[1], 1)
    settle(fixture)
    assert states(fixture, again) == [State.SUCCEEDED, State.FAILED, State.CANCELLED]


def test_a_job_that_was_killed_is_no_failure() -> None:
    fixture = a_decider(cpu=1)
    ids = submit(fixture, 3, max_fails=1)
    fixture.do(lambda batch: at_once.kill(batch, chosen(ids[0])))
    fixture.exited(ids[0], 1)
    assert states(fixture, ids)[0] is State.CANCELLED
    assert stored(fixture, 1).stopped is None


def test_a_sweep_goes_with_its_last_job() -> None:
    fixture = a_decider()
    ids = submit(fixture, 2)
    for id_ in ids:
        fixture.exited(id_)
    fixture.do(lambda batch: batch.remove([fixture.job(ids[0])]))
    assert fixture.store.sweeps([1])
    fixture.do(lambda batch: batch.remove([fixture.job(ids[1])]))
    assert not fixture.store.sweeps([1])


def a_point(number: int, digest: str = "d") -> Draft:
    draft = a_draft(parameters=(("x", str(number)),))
    return replace(draft, spec=replace(draft.spec, point=digest))


def read(fixture: DeciderFixture) -> ThereSweep:
    there, is_whole = ThereSweep(), False
    while not is_whole:
        there, is_whole = fixture.do(partial(apply.read_page, name="fit", token=None, there=there))
    return there


def test_applied_twice_at_the_same_time_no_point_is_run_twice() -> None:
    fixture = a_decider()

    def run(there: ThereSweep, *drafts: Draft) -> Call:
        key, new = next(fixture.keys), NewSweep(kind="file", name="fit")

        def handler(batch: Batch) -> list[int] | None:
            return apply.run(batch, drafts, new, there, key, b"d", OWNER, None)

        return Call(handler, True)

    nothing = read(fixture)
    first = fixture.process(run(nothing, a_point(1)), run(nothing, a_point(1))).answers
    assert [answer for _, answer in first] == [[1], None], "in one batch"
    assert [answer for _, answer in fixture.process(run(nothing, a_point(1))).answers] == [None], "and in the next one"
    there = read(fixture)
    assert there.sweep is not None and there.jobs[(("x", "1"),)].id == 1
    both = fixture.process(run(there, a_point(2)), run(there, a_point(2))).answers
    assert [answer for _, answer in both] == [[2], None]
    assert fixture.job(2).spec.sweep == 1, "it is the same sweep"
    assert [answer for _, answer in fixture.process(run(there, a_point(3))).answers] == [None]
    fixture.exited(1)
    assert {point: (job.id, job.state) for point, job in read(fixture).jobs.items()} == {
        (("x", "1"),): (1, "succeeded"),
        (("x", "2"),): (2, "placed"),
    }


def test_a_sweep_of_another_token_is_another_sweep() -> None:
    fixture = a_decider()
    theirs = [replace(a_point(1), spec=replace(a_point(1).spec, by="0badc0de"))]
    new = NewSweep(kind="file", name="fit")
    fixture.do(lambda batch: service.submit(batch, theirs, "t", b"d", new))
    assert read(fixture).sweep is None
    assert fixture.do(lambda batch: apply.find(batch, "fit", "0badc0de")).id == 1


def test_a_refused_submission_changes_nothing_and_reloads_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fixture = a_decider()
    generation = fixture.decider.status.generation
    lost = replace(a_draft(), after=(("ok", ("999",)),))
    few = Bearer("t", TokenLimits(jobs=2))
    array = NewSweep(kind="array", at_once=2)
    refused: list[tuple[list[Draft], NewSweep | None, Bearer]] = [
        ([lost], None, OWNER),
        ([lost], array, OWNER),
        ([lost], array, few),
        ([a_draft()] * 3, array, few),
    ]
    for drafts, sweep, bearer in refused:
        answer = fixture.ask(partial(service.submit, drafts=drafts, key="k", digest=b"d", sweep=sweep, bearer=bearer))
        assert isinstance(answer, GrassError), answer
    assert fixture.decider.status.generation == generation and not caplog.records
    assert not fixture.decider.board.sweeps and not fixture.decider.board.group_limits
    two = fixture.do(
        lambda batch: [
            isinstance(refusal(partial(service.submit, batch, [lost], "k", b"d", None, few)), GrassError),
            service.submit(batch, [a_draft()] * 2, "l", b"d", None, few),
        ]
    )
    assert two == [True, [1, 2]], "what was refused earlier in a batch does not count for the token"


def refusal(call: Callable[[], object]) -> Exception | None:
    """Return how a call is refused."""
    try:
        call()
    except GrassError as error:
        return error
    return None


def test_sweeps_of_others_with_the_same_name_do_not_hide_a_sweep_in_a_file() -> None:
    fixture = a_decider()
    (first,) = submit(fixture, 1, kind="file", name="train")
    other = [replace(a_draft(), spec=replace(a_draft().spec, by="b"))]
    for kind in ("array", "file"):
        for _ in range(51):
            new, key = NewSweep(kind=kind, name="train"), next(fixture.keys)
            call = Call(partial(service.submit, drafts=other, key=key, digest=b"d", sweep=new))
            fixture.decider.process([call])
    found = fixture.do(lambda batch: apply.find(batch, "train", None))
    assert found is not None and found.id == first


def test_a_sweep_that_is_applied_again_stays_as_it_was_if_its_new_jobs_are_refused() -> None:
    fixture = a_decider()
    (first,) = submit(fixture, 1, kind="file", name="fit")
    generation, before = fixture.decider.status.generation, stored(fixture, first)
    there = fixture.do(lambda batch: apply.read_page(batch, "fit", None, ThereSweep()))[0]
    new = NewSweep(kind="file", name="fit", definition="wider", at_once=1)
    lost = [replace(a_draft(), after=(("ok", ("999",)),))]
    answer = fixture.ask(lambda batch: apply.run(batch, lost, new, there, "k", b"d", OWNER, None))
    assert isinstance(answer, GrassError)
    assert fixture.decider.status.generation == generation and stored(fixture, first) == before
