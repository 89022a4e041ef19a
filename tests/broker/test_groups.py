"""Groups at the broker: unique keys that hold while a job lives, and limits of projects and tags."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.actions import limits
from grassq.broker.actions.bulk import BulkChange, BulkResult
from grassq.broker.actions.jobs import KillJobs, ReleaseJobs, RerunJobs
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call
from grassq.broker.tokens import OWNER, Bearer
from grassq.core.model import State
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.limits.membership import groups_of
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import Submission


def unique(key: str, sent: str, bearer: Bearer = OWNER, *, hold: bool = False) -> Call:
    """The submission of a job with a unique key, under the key of a request."""
    draft = a_draft(hold=hold)
    draft = replace(draft, spec=replace(draft.spec, unique=key))
    return Call(partial(service.submit_unique, draft=draft, key=sent, digest=b"d", bearer=bearer), True, sent)


def ids(fixture: DeciderFixture, *calls: Call) -> list[tuple[int, bool]]:
    """The job of each submission of one batch, and whether it was there before."""
    found = []
    for _, answer in fixture.process(*calls).answers:
        assert isinstance(answer, Submission), answer
        found.append((answer.first_id, bool(answer.ids)))
    return found


def test_a_unique_key_holds_while_its_job_lives_for_its_token_alone() -> None:
    fixture = a_decider()
    assert ids(fixture, unique("x", "1"), unique("x", "2"), unique("y", "3")) == [(1, False), (1, True), (2, False)]
    assert ids(fixture, unique("x", "4", Bearer("t1")), unique("x", "5", Bearer("t2"))) == [(3, False), (4, False)]
    # A repeated request gets its answer, also after the job has ended.
    assert ids(fixture, unique("x", "2"), unique("x", "1")) == [(1, True), (1, False)]
    fixture.exited(1)
    assert ids(fixture, unique("x", "2")) == [(1, True)]
    assert ids(fixture, unique("x", "6"), unique("x", "7")) == [(5, False), (5, True)]
    # Of a job that ends in the same batch the key is free.
    killing = partial(BulkChange(KillJobs(), chosen(5), key="k", digest=b"d").start)
    answers = fixture.process(Call(killing, True, "k"), unique("x", "8")).answers
    assert [type(answer) for _, answer in answers] == [BulkResult, Submission]


def test_a_unique_key_survives_a_restart(tmp_path: Path) -> None:
    fixture = DeciderFixture(a_worker("w", cpu=1), path=str(tmp_path / "store.db"))
    assert ids(fixture, unique("x", "1")) == [(1, False)]
    fixture.reopen()
    assert ids(fixture, unique("x", "2")) == [(1, True)]


def test_a_rerun_keeps_its_key_and_waits_for_nobody_else() -> None:
    fixture = a_decider()

    def rerun(selector: str, key: str) -> BulkResult:
        answer = fixture.do(BulkChange(RerunJobs(), chosen(selector), key=key, digest=b"d").start)
        assert isinstance(answer, BulkResult)
        return answer

    ids(fixture, unique("x", "1"))
    fixture.exited(1)
    ids(fixture, unique("x", "2"))
    with pytest.raises(Refused, match="job 2 with unique key 'x' is not finished; nothing was queued"):
        rerun("1", "a")
    fixture.exited(2)
    done = rerun("1-2", "b")
    assert done.ids == [3]
    assert done.notes == ["job 2 is left out: another job with unique key 'x' is run again"]
    assert ids(fixture, unique("x", "3")) == [(3, True)]


def test_a_job_that_is_taken_over_from_a_revoked_token_does_not_share_its_key_with_an_unfinished_one() -> None:
    fixture = a_decider()
    bearers = (OWNER, Bearer("t1"), Bearer("t2"))
    held = [unique("x", str(number), bearer, hold=True) for number, bearer in enumerate(bearers, 1)]
    assert ids(fixture, *held) == [(1, False), (2, False), (3, False)]
    fixture.decider.board.ended_tokens |= {"t1", "t2"}

    def release(text: str) -> list[str]:
        done: BulkResult = fixture.do(lambda batch: at_once.change(batch, ReleaseJobs(None), chosen(text)))
        return done.notes

    kept = "job {} stays held: job {} with unique key 'x' is not finished"
    assert release("2,3") == [kept.format(2, 1), kept.format(3, 1)]
    assert (fixture.job(2).state, fixture.job(2).token) == (State.HELD, "t1")
    fixture.do(lambda batch: at_once.kill(batch, chosen("1")))
    assert release("2,3") == [kept.format(3, 2)]
    assert (fixture.job(2).token, fixture.job(3).state) == (None, State.HELD)
    assert ids(fixture, unique("x", "9")) == [(2, True)], "the key holds for its new owner"


def test_the_groups_of_a_job_are_its_project_and_its_tags_sorted() -> None:
    spec = a_draft().spec
    assert not groups_of(spec)
    tagged = replace(spec, project="p", tags=(("a", "1"), ("z", "2")))
    assert groups_of(tagged) == ("project:p", "tag:a=1", "tag:z=2")


def in_project(project: str, **amounts: Any) -> service.Draft:
    """A job of a project."""
    draft = a_draft(**amounts)
    spec = replace(draft.spec, project=project)
    return replace(draft, spec=replace(spec, constraints=replace(spec.constraints, groups=groups_of(spec))))


def test_limits_are_stored_and_say_what_their_groups_hold(tmp_path: Path) -> None:
    fixture = DeciderFixture(a_worker("w", cpu=4, gpu=2), path=str(tmp_path / "store.db"))

    def set_limit(group: str, limit: GroupLimit | None, key: str) -> list[str]:
        notes = fixture.do(
            lambda batch: service.once(batch, key, b"d", lambda: limits.set_limit(batch, group, limit))
        ).notes
        assert isinstance(notes, list)
        return notes

    fixture.submit(in_project("p", gpu=1, cpu=1), in_project("q", gpu=1))
    read = limits.read_limit({"gpu": "0.5", "mem": "64G"}, 10)
    assert read == GroupLimit({"gpu": 500_000, "mem": 65_536_000_000}, 10)
    assert set_limit("project:p", read, "1") == ["the running jobs of project:p hold more than that, and will finish"]
    assert set_limit("tag:team=a", GroupLimit({"gpu": 8_000_000}), "2") == []
    for _ in range(2):
        [of_project, of_tag] = fixture.do(limits.limit_documents)
        assert of_project == {
            "group": "project:p",
            "amounts": {"gpu": 0.5, "mem": 65_536},
            "jobs": 10,
            "held": {"gpu": 1, "mem": 0},
            "running": 1,
        }
        assert (of_tag["group"], of_tag["held"], of_tag["running"]) == ("tag:team=a", {"gpu": 0}, 0)
        assert fixture.decider.board.group_limits["project:p"] == read
        fixture.reopen()
        fixture.hello(a_worker("w", cpu=4, gpu=2), fresh=False, held=[(1, 1), (2, 1)])
    with pytest.raises(Refused, match=r"never run: limit project:p gpu=0\.5 .*: job asks for 1 gpu"):
        fixture.submit(in_project("p", gpu=1))
    fixture.submit(in_project("p", gpu=0.5), in_project("q", gpu=1))
    set_limit("project:p", None, "3")
    fixture.submit(in_project("p", gpu=1))
    with pytest.raises(NotFound, match="there is no limit of 'project:p'"):
        set_limit("project:p", None, "4")


def test_the_number_of_limits_is_bounded() -> None:
    fixture = a_decider()

    def fill(batch: Batch) -> None:
        for number in range(limits.LIMITS_MAX):
            limits.set_limit(batch, f"project:p{number}", GroupLimit({}, 1))

    fixture.do(fill)
    fixture.do(lambda batch: limits.set_limit(batch, "project:p1", GroupLimit({}, 2)))
    with pytest.raises(Refused, match="1000 groups have a limit already"):
        fixture.do(lambda batch: limits.set_limit(batch, "project:more", GroupLimit({}, 1)))


@pytest.mark.parametrize(
    "text", ["", "p", "project:", "p/name", "tag:k", "all", "project:p+failed", "sweep:1", "queue:q"]
)
def test_only_a_project_or_a_tag_with_a_value_can_have_a_limit(text: str) -> None:
    with pytest.raises(BadInput, match="write project:NAME or tag:KEY=VALUE"):
        limits.check_group(text)


@pytest.mark.parametrize(
    ("amounts", "jobs"),
    [({}, None), ({}, 0), ({}, -1), ({}, 1 << 60), ({"gpu": "x"}, None), ({"gpu": -1}, 1), ({"": 1}, 1)],
)
def test_a_limit_of_nonsense_is_refused(amounts: dict[str, object], jobs: int | None) -> None:
    with pytest.raises(BadInput):
        limits.read_limit(amounts, jobs)
