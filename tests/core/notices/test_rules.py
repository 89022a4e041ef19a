"""The rules of the settings: what they accept, and which ends they concern."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import a_job

from grassq.core.model import State
from grassq.core.notices import notice
from grassq.core.notices.notice import JobEnd, SweepTally
from grassq.core.notices.rules import NotifyRule, Occasion, wants


def rule(*on: str, **more: Any) -> NotifyRule:
    return NotifyRule(on, "desktop", **more)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"on": [], "to": "desktop"}, "names no occasion"),
        ({"on": ["fail"], "to": "desktop"}, "did you mean failed?"),
        ({"on": ["never"], "to": "desktop"}, "the occasions are job, failed"),
        ({"on": ["failed"], "to": "https://"}, "names no host"),
        ({"on": ["queue-empty"], "to": "desktop", "name": "x"}, "takes `queue`"),
        ({"on": ["failed"], "to": "desktop", "quue": "x"}, "unknown field `quue`"),
        ({"on": ["failed"]}, "missing required field `to`"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words.replace("?", r"\?")):
        msgspec.convert(table, NotifyRule)


@pytest.mark.parametrize(
    ("given", "occasion", "queue", "name", "concerned"),
    [
        (rule("failed"), "failed", "default", None, True),
        (rule("failed"), "job", "default", None, False),
        (rule("failed", queue="gpu"), "failed", "default", None, False),
        (rule("failed", queue="gpu"), "failed", "gpu", None, True),
        (rule("sweep", name="fit*"), "sweep", "default", "fit-3", True),
        (rule("sweep", name="fit*"), "sweep", "default", "misfit", False),
        (rule("sweep", name="a.c"), "sweep", "default", "abc", False),
        (rule("failed", name="fit"), "failed", "default", None, False),
        (rule("queue-empty", "failed", name="fit"), "queue-empty", "default", None, True),
    ],
)
def test_a_rule_concerns_its_occasions_queue_and_name(
    given: NotifyRule, occasion: Occasion, queue: str, name: str | None, concerned: bool
) -> None:
    assert given.concerns(occasion, queue, name) is concerned


def test_only_ends_that_somebody_may_be_told_of_are_kept() -> None:
    good = a_job(1, state=State.SUCCEEDED)
    bad = replace(good, state=State.FAILED)
    assert not wants([], good)
    assert wants([], replace(good, spec=replace(good.spec, notify=("desktop",))))
    assert (wants([rule("failed")], good), wants([rule("failed")], bad)) == (False, True)
    assert wants([rule("queue-empty")], good)
    assert (wants([rule("sweep")], good), wants([rule("sweep")], replace(good, name="fit"))) == (False, True)
    assert not wants([rule("failed", queue="other")], bad)


def test_notices_say_what_happened() -> None:
    end = JobEnd(
        job=7, queue="gpu", state="failed", created=0.0, started=100.0, finished=285.0, exit_code=1, name="fit"
    )
    assert notice.about_job(end, "job").title == "job 7 (fit) failed after 3m5s: exit code 1"
    assert notice.about_job(end, "first-failure").title.startswith("first failure: job 7 (fit)")
    never = JobEnd(job=8, queue="gpu", state="cancelled", created=0.0, finished=5.0)
    assert notice.about_job(never, "job").title == "job 8 cancelled"
    tally = SweepTally("fit", 1400, 1398, 2, 0, 7800.0)
    assert notice.about_sweep(end, tally).title == "fit is done after 2h10m: 1,398 succeeded, 2 failed"
    assert notice.about_queue(never).title == "queue gpu is empty; the last job, 8, cancelled"


def test_an_end_is_stored_and_read_again_without_the_environment() -> None:
    job = replace(a_job(3, state=State.FAILED), finished=9.0, exit_code=2)
    job = replace(job, spec=replace(job.spec, notify=("desktop",), env=((b"TOKEN", b"s3cr3t"),)))
    stored = notice.encode_end(notice.end_of(job))
    assert b"s3cr3t" not in stored
    assert notice.decode_end(stored) == notice.end_of(job)
