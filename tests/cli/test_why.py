"""`grass why` says in words where a queued job is in line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli import calls
from tests.cli.fake import FakeDaemon, document

IN_LINE: dict[str, Any] = {
    "higher": 0,
    "earlier": 0,
    "passed": None,
    "passes": 64,
    "kept_on": None,
    "kept_since": None,
    "kept_from_equals": False,
    "kept_from_equals_at": None,
    "starts_by": None,
}


def today(hour: int) -> tuple[str, str]:
    """This hour of today, as the daemon writes it and as a person here reads it."""
    local = time.localtime()
    at = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, hour, 30, 0, 0, 0, -1))
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at)), f"{hour:02}:30:00"


STAMP, CLOCK = today(11)


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({"passed": 0}, "next in line"),
        ({"passed": 0, "kept_from_equals_at": STAMP}, f"next in line; room is kept for it from {CLOCK} at the latest"),
        (
            {"passed": 23, "kept_from_equals_at": STAMP},
            f"passed by 23 of 64 jobs; room is kept for it from {CLOCK} at the latest",
        ),
        ({"higher": 3, "earlier": 12}, "jobs that come first: 3 of higher priority, 12 earlier"),
        ({"higher": 3, "passed": 0}, "jobs that come first: 3 of higher priority"),
        (
            {"passed": 0, "kept_on": "desk", "kept_since": STAMP, "kept_from_equals_at": STAMP},
            f"next in line; room is kept for it on desk since {CLOCK}, from jobs of lower priority",
        ),
        (
            {"passed": 64, "kept_on": "desk", "kept_since": STAMP, "kept_from_equals": True},
            f"room is kept for it on desk since {CLOCK}",
        ),
        (
            {"passed": 1, "kept_on": "desk", "kept_since": STAMP, "kept_from_equals": True, "starts_by": STAMP},
            f"room is kept for it on desk since {CLOCK}; it starts by {CLOCK} at the latest, by time limits",
        ),
    ],
)
def test_why_says_where_a_job_is_in_line(home: Path, turn: dict[str, Any], said: str) -> None:
    job = {"id": 7, "state": "queued", "text": "job 7 waits", "story": [], "turn": IN_LINE | turn}
    with FakeDaemon(home, lambda request: document({"jobs": [job]})):
        done = calls.grass(home, "why", "7")
    assert done.stdout.splitlines() == ["job 7 waits", f"  {said}"], done.stderr


def test_a_job_that_is_not_in_line_has_no_such_sentence(home: Path) -> None:
    job = {"id": 7, "state": "running", "text": "job 7 is running", "story": [], "turn": None}
    with FakeDaemon(home, lambda request: document({"jobs": [job]})):
        assert calls.grass(home, "why", "7").stdout == f"job 7 is running{os.linesep}"
