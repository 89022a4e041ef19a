"""The judge of the fault runs finds what must never happen."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest
from tests.machines.ledger import KINDS, JobPlan, Kind, Seen, judge, plan, starts
from tests.machines.schedule import schedule

TALK = JobPlan("talk", "talk", "", 3, None, b"line\n", None, {})
KILLED = TALK._replace(killed_at_s=1.0)
GOOD = Seen("failed", "exited", 3, None, 1, b"line\n")


def test_a_job_that_ended_as_planned_is_right() -> None:
    assert judge(TALK, GOOD, 1) == []


@pytest.mark.parametrize(
    ("seen", "count", "word"),
    [
        (GOOD, 2, "started 2 times"),
        (GOOD, 0, "never started"),
        (GOOD._replace(attempts=2), 1, "2 attempts"),
        (GOOD._replace(code=255), 1, "code 255"),
        (GOOD._replace(code=None, signal=9), 1, "signal 9"),
        (GOOD._replace(state="failed", outcome="lost", code=None), 1, "lost"),
        (GOOD._replace(log=b"line"), 1, "5 bytes"),
    ],
)
def test_each_broken_promise_is_named(seen: Seen, count: int, word: str) -> None:
    (sentence,) = judge(TALK, seen, count)
    assert word in sentence


def test_a_killed_job_is_cancelled_and_may_never_have_started() -> None:
    cancelled = Seen("cancelled", "signalled", None, 15, 1, b"")
    assert judge(KILLED, cancelled, 0) == judge(KILLED, cancelled, 1) == []
    assert judge(KILLED, GOOD, 1) and judge(KILLED, cancelled, 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "killed"])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_on_this_computer_does_what_its_plan_says(tmp_path: Path, kind: Kind, seed: int) -> None:
    job = plan(Random(seed), "name", 0.1, (kind,))
    for name, content in job.tree.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    # The child of one kind would hold a pipe open.
    script = job.script.replace("sleep 1000 &", "sleep 0.01 &")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GRASS_JOB_ID": "7", "GRASS_ATTEMPT": "1"}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, check=False)
    code = done.returncode
    seen = Seen("", "", code if code >= 0 else None, -code if code < 0 else None, 1, done.stdout)
    assert judge(job, seen, starts((tmp_path / "ledger").read_text().splitlines())[7]) == []


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7) == schedule(7) != schedule(8)
