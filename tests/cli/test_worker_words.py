"""What is typed about workers, and what is shown of workers that are silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document

Grass = Callable[..., calls.Done]


def test_a_worker_is_drained_and_taken_back(home: Path, grass: Grass) -> None:
    def answer(request: Request) -> Answer:
        return document({"worker": "box", "drained": "undo" not in request.document, "notes": ["2 jobs run there"]})

    with FakeDaemon(home, answer) as daemon:
        done = grass("drain", "box")
        assert done.stdout.startswith("worker box finishes its jobs")
        assert done.stderr == "grass: 2 jobs run there\n"
        assert grass("drain", "box", "--undo").stdout == "worker box takes jobs again\n"
    assert [request.target for request in daemon.requests] == ["/v1/drain"] * 2


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_is_removed(home: Path, grass: Grass, lost: bool) -> None:
    with FakeDaemon(home, lambda request: document({"worker": "box", "notes": []})) as daemon:
        done = grass("remove", "box", *(["--lost"] if lost else []))
    assert done.stdout.startswith("worker box is removed")
    [request] = daemon.requests
    assert (request.target, request.document["worker"], request.document.get("lost", False)) == (
        "/v1/remove-worker",
        "box",
        lost,
    )


def test_a_restored_broker_is_told_to_go_on(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({})) as daemon:
        assert grass("resume", "--restored").returncode == 0
        assert grass("resume").returncode == 0
    first, second = (request.document for request in daemon.requests)
    assert (first["restored"], "restored" in second) == (True, False)


JOB = {"id": 12, "queue": "print", "state": "running", "command": ["lpr", "a.pdf"], "worker": "box", "attempt": 1}
WORKERS = [
    {"name": "box", "online": False, "since": "2026-11-15T10:00:00Z", "drained": False, "labels": ["a100", "big"],
     "capacity": {"gpu": {"0": 1.0}}, "free": {}},
    {"name": "desk", "online": True, "drained": True, "labels": [], "capacity": {"cpu": 8}, "free": {"cpu": 7}},
]  # fmt: skip


def test_show_says_which_jobs_are_unreachable_and_how_workers_are(home: Path, grass: Grass) -> None:
    shown = {"jobs": [{**JOB, "unreachable": True}, {**JOB, "id": 13}], "workers": WORKERS}
    with FakeDaemon(home, lambda request: document(shown)):
        lines = grass("show").stdout.splitlines()
        assert json.loads(grass("show", "--json").stdout) == shown
    header, lost, running = lines[:3]
    at = header.index("STATE")
    assert lost[at:].startswith("unreachable ") and running[at:].startswith("running ")
    header, silent, online = lines[-3:]
    assert header.split() == ["WORKER", "STATE", "LABELS", "HAS", "FREE"]
    assert silent.startswith("box") and "silent since" in silent and "a100 big" in silent
    assert "online, drained" in online and "cpu=8" in online and "cpu=7" in online


def test_show_of_one_job_says_that_it_is_unreachable(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": [{**JOB, "unreachable": True}]})):
        assert "state     unreachable\n" in grass("show", "12").stdout
