"""The file about a call, and the report about calls that were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.compat.schedulers import run_file

from grassq.compat.messages import Messages
from grassq.compat.simple_gpu_scheduler.killed_runs import FOLDER, RunFile, report_killed_runs
from grassq.net.client import ApiClient

#: Keeps a file about itself and dies while a line is in flight.
DIES = """
import os, sys
from grassq.compat.simple_gpu_scheduler.killed_runs import RunFile
file = RunFile(sys.argv[1], "sgs-0", print)
file.put_in_flight(b"x" * 1000)
file.confirm(4)
file.put_in_flight(b"echo \\xff\\n")
os.kill(os.getpid(), 9)
"""
NOT_SUBMITTED = "these commands were read but not submitted:"


class World:
    """A daemon that knows some jobs, and what is said."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)
        self.folder = home / FOLDER
        self.known: list[dict[str, Any]] = []
        self.said: list[str] = []

    def jobs(self, *, queue: str, limit: int, cursor: str | None) -> dict[str, Any]:
        found = [job for job in reversed(self.known) if job["queue"] == queue]
        begin = int(cursor or 0)
        return {"jobs": found[begin : begin + 2], "next": str(begin + 2) if found[begin + 2 :] else None}

    def say(self, message: str) -> None:
        self.said.append(message)

    def write(self, data: bytes) -> None:
        self.said.append(data.decode("utf-8", "surrogateescape"))

    def file(self, name: str, content: bytes) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content)

    def report(self) -> list[str]:
        """Report all killed calls; what was said."""
        self.said.clear()
        report_killed_runs(cast(ApiClient, self), cast(Messages, self))
        return list(self.said)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def killed(world: World) -> None:
    subprocess.run([sys.executable, "-c", DIES, world.home], check=False, timeout=60)


def test_a_call_that_lives_is_not_reported(world: World) -> None:
    file = RunFile(world.home, "sgs-0", world.say)
    file.put_in_flight(b"echo a\n")
    assert world.report() == []
    file.confirm(1)
    file.close()
    assert list(world.folder.iterdir()) == []


def test_the_lines_in_flight_of_a_killed_call_are_printed_once(world: World) -> None:
    killed(world)
    said = world.report()
    assert said[0].endswith(NOT_SUBMITTED) and said[1:] == ["echo \udcff\n"]
    assert world.report() == []


def test_lines_in_flight_that_were_stored_are_jobs(world: World) -> None:
    killed(world)
    jobs = [{"id": id_, "queue": "sgs-0", "state": "succeeded", "command": ["true"]} for id_ in (3, 4, 5)]
    world.known = [*jobs, {"id": 6, "queue": "sgs-1", "state": "failed"}]
    said = world.report()
    assert said[0].endswith("of its commands: 3 succeeded") and NOT_SUBMITTED not in "".join(said)


def test_a_killed_call_is_reported_until_all_its_jobs_have_ended(world: World) -> None:
    killed(world)
    world.known = [{"id": 5, "queue": "sgs-0", "state": "running", "command": ["true"]}]
    assert "unfinished commands go on" in world.report()[-1]
    world.known[0]["state"] = "succeeded"
    assert world.report()
    assert world.report() == []


def test_of_two_calls_that_report_at_once_one_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(world)
    inner: list[list[str]] = []

    def jobs(**_: object) -> dict[str, Any]:
        second = World(Path(world.home))
        inner.append(second.report())
        return {"jobs": []}

    monkeypatch.setattr(world, "jobs", jobs)
    assert world.report()
    assert inner[0] == []


@pytest.mark.parametrize("content", [b"echo a", b"1 2 3\n", b"1 2 3 4 x\n"])
def test_a_file_that_cannot_be_read_is_kept_under_another_name(world: World, content: bytes) -> None:
    world.file("sgs-1", content)
    [said] = world.report()
    kept = world.folder / "sgs-1.unreadable"
    assert said.endswith(f"cannot be read; it is kept as {kept}") and kept.read_bytes() == content
    assert world.report() == []


def test_the_oldest_is_reported_first(world: World) -> None:
    for name, began in (("sgs-1", 7), ("sgs-2", 5), ("sgs-3", 6)):
        world.file(name, run_file(1, began, 1, 1, name.encode()))
    assert [said for said in world.report() if said.startswith("sgs")] == ["sgs-2", "sgs-3", "sgs-1"]


def test_what_is_left_of_earlier_lines_is_not_in_flight(world: World) -> None:
    world.file("sgs-1", run_file(1, 1, 1, 1, b"echo a\n") + b"the rest of longer ones\n")
    assert world.report()[1:] == ["echo a\n"]


def test_an_empty_file_is_left_to_the_call_that_is_about_to_write_it(world: World) -> None:
    world.file("sgs-1", b"")
    assert world.report() == []
    assert [path.name for path in world.folder.iterdir()] == ["sgs-1"]


def test_a_file_that_somebody_removed_is_no_failure(world: World) -> None:
    file = RunFile(world.home, "sgs-0", world.say)
    (world.folder / "sgs-0").unlink()
    file.close()
    assert world.said == []


def test_where_lines_do_not_fit_the_file_stays_readable(world: World) -> None:
    """A disk that is full in the middle of the lines."""
    code = """
import os, resource, signal, sys
from grassq.compat.simple_gpu_scheduler.killed_runs import RunFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = RunFile(sys.argv[1], "sgs-0", print)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
file.put_in_flight(b"x" * 10_000)
file.put_in_flight(b"x" * 10_000)
"""
    done = subprocess.run([sys.executable, "-c", code, world.home], capture_output=True, text=True, check=False)
    assert done.stdout.count("cannot be written (File too large)") == 1, done.stderr
    assert world.report() == []
    assert list(world.folder.iterdir()) == []


def test_where_no_file_can_be_made_it_is_said_once(world: World) -> None:
    (world.folder / "sgs-0").mkdir(parents=True)
    file = RunFile(world.home, "sgs-0", world.say)
    file.put_in_flight(b"echo a\n")
    file.close()
    assert [said.partition(";")[0] for said in world.said] == [
        "the file about this call cannot be written (File exists)"
    ]


def test_a_home_where_nobody_was_has_nothing_to_report(world: World) -> None:
    assert world.report() == []


def test_the_file_is_for_its_owner_alone(world: World) -> None:
    file = RunFile(world.home, "sgs-0", world.say)
    assert world.folder.stat().st_mode & 0o077 == 0
    assert (world.folder / "sgs-0").stat().st_mode & 0o077 == 0
    file.close()
