"""The answer for one screen: few jobs of each kind, true counts of all, and the directory a job ran in."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker.summary import brief as briefs
from grassq.broker.summary.brief import brief, glance
from grassq.broker.summary.sweeps import JOBS_MIN, SWEEPS_MAX
from grassq.cli.listing.tree import SWEEP_MIN
from grassq.core.model import RemoteSubmitter


def shown(fixture: DeciderFixture) -> Any:
    return fixture.do(brief, changing=False)


def ids(answer: Any, state: str) -> list[int]:
    return [job["id"] for job in answer["jobs"] if job["state"] == state]


def test_a_brief_has_few_jobs_of_each_kind_and_counts_of_all() -> None:
    fixture = a_decider(cpu=2)
    fixture.submit(*[a_draft() for _ in range(60)], *[a_draft(hold=True) for _ in range(30)])
    fixture.started(1)
    answer = shown(fixture)
    assert ids(answer, "running") == [1] and ids(answer, "placed") == [2]
    assert ids(answer, "queued") == list(range(3, 3 + briefs.NEXT_SHOWN))
    assert len(ids(answer, "held")) == briefs.BLOCKED_SHOWN
    assert answer["totals"] == {"held": 30, "queued": 58, "placed": 1, "running": 1}


def test_the_last_failures_are_those_that_were_not_run_again() -> None:
    fixture = a_decider(cpu=4)
    fixture.submit(*[a_draft() for _ in range(4)])
    for id_ in (2, 1, 3):
        fixture.clock.now += 1
        fixture.exited(id_, 3)
    fixture.exited(4, 0)
    fixture.do(lambda batch: at_once.rerun(batch, chosen("1"), "again", b"d"))
    answer = shown(fixture)
    assert ids(answer, "failed") == [3, 2] and answer["last_succeeded"] == "2023-11-14T22:13:23.000Z"
    # Many successes later, and days later, a failure is still to be seen.
    fixture.clock.now += 3 * 86400
    answer = shown(fixture)
    assert ids(answer, "failed") == [3, 2] and answer["last_succeeded"] is None


def test_a_sweep_is_counted_whole_however_few_of_its_jobs_are_shown() -> None:
    fixture = a_decider(cpu=1)
    fixture.submit(*[a_draft(name="grid") for _ in range(50)], a_draft(name="alone"), a_draft())
    fixture.exited(1)
    fixture.exited(2, 1)
    for view in (brief, glance):
        (sweep,) = fixture.do(view, changing=False)["sweeps"]
        assert sweep == {
            **{"name": "grid", "queue": "default", "jobs": 50, "ended": 2, "running": 1},
            **dict.fromkeys(("id", "at_once", "max_fails", "stopped")),
            "counts": {"queued": 47, "placed": 1, "succeeded": 1, "failed": 1},
        }
    fixture.submit(*[a_draft(name=f"s{number}") for number in range(2 * SWEEPS_MAX) for _ in range(3)])
    assert len(fixture.do(glance, changing=False)["sweeps"]) <= SWEEPS_MAX


def test_two_jobs_of_a_name_are_a_sweep_as_in_a_tree() -> None:
    assert JOBS_MIN == SWEEP_MIN == 2
    fixture = a_decider(cpu=1)
    fixture.submit(a_draft(name="two"), a_draft(name="two"), a_draft(name="one"))
    assert [sweep["name"] for sweep in fixture.do(glance, changing=False)["sweeps"]] == ["two"]


def test_the_directory_is_the_one_a_job_ran_in() -> None:
    queue = replace(an_offer("there"), cwd=b"/srv")
    fixture = DeciderFixture(a_worker("w", offers=[an_offer(), queue], cpu=9), local="w")
    sent = replace(a_draft().spec.constraints, remote=RemoteSubmitter(bare=True))
    fixture.submit(
        a_draft(cwd=b"/home/me"),
        a_draft("there", cwd=b"/home/me"),
        a_draft("there", cwd=b"/home/me", own_cwd=True),
        a_draft(cwd=b"/home/me", constraints=sent),
        a_draft(cwd=b"/home/me", hold=True),
    )
    answer: Any = fixture.do(lambda batch: at_once.show(batch, chosen("all")), changing=False)
    found = {job["id"]: (job["worker"], job["directory"]) for job in answer["jobs"]}
    assert found == {
        **{1: ("w", "/home/me"), 2: ("w", "/srv"), 3: ("w", "/home/me")},
        **{4: ("w", None), 5: (None, None)},
    }
