"""Notices of a real daemon: to a real server and real commands, over a kill -9, from every way to submit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import Grass, eventually
from tests.notify.receiver import Receiver, receiver

import grassq


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as state:
        yield state


def settings(grass: Grass, text: str) -> None:
    grass.home.mkdir(mode=0o700)
    (grass.home / "grass.toml").write_text(text)


def test_the_end_of_a_job_is_told_to_a_command_and_a_url_and_listed(grass: Grass, server: Receiver) -> None:
    told = grass.cwd / "told.json"
    id_ = grass.enqueue(
        "--notify", "cat > told.json", "--notify", server.url("/s3cr3t"), "--", "sh", "-c", "echo no module; exit 3"
    )
    eventually(lambda: told.exists() and told.read_text().endswith("\n") and server.bodies, "both are told")
    job = json.loads(told.read_text())["job"]
    assert (job["exit_code"], job["last_line"]) == (3, "no module")
    assert server.documents("/s3cr3t")[0]["job"]["id"] == id_
    eventually(lambda: len(grass.json("notify")["recent"]) == 2, "both are listed")
    listed = grass.ok("notify")
    assert f"job {id_} failed" in listed and "s3cr3t" not in listed
    assert "s3cr3t" not in grass.ok("show", str(id_), "--json")
    assert "s3cr3t" not in (grass.home / "daemon.log").read_text()
    spec = (grass.home / "jobs" / str(id_) / "1" / "spec.json").read_text()
    assert "s3cr3t" not in spec


def test_a_daemon_killed_right_after_an_end_tells_of_it_when_it_is_back(grass: Grass, server: Receiver) -> None:
    server.statuses["/x"] = [503]
    id_ = grass.enqueue("--notify", server.url("/x"), "--", "true")
    grass.until(id_, "succeeded")
    grass.crash()
    server.statuses["/x"] = [200]
    seen = len(server.bodies)
    grass.ok("start")
    eventually(lambda: len(server.bodies) > seen, "the notice is sent after the crash")
    eventually(lambda: grass.json("notify")["recent"], "the delivery is noted")
    grass.ok("restart")
    assert [each["state"] for each in grass.json("notify")["recent"]] == ["sent"]


def test_rules_tell_of_a_sweep_once_and_a_url_that_hangs_delays_nothing(grass: Grass, server: Receiver) -> None:
    hang = '[[notify]]\non = ["job"]\nto = "{}"\n'.format(server.url("/hang"))
    rule = '[[notify]]\non = ["sweep", "first-failure"]\nname = "fit"\nto = "{}"\n'.format(server.url("/fit"))
    settings(grass, hang + rule)
    grass.ok("sweep", "test {x} -ne 2", "-p", "x", "1", "2", "3", "--name", "fit")
    eventually(lambda: len(server.documents("/fit")) == 2, "the rule is told")
    first, last = server.documents("/fit")
    assert first["event"] == "first-failure"
    assert {**last["sweep"], "took_s": 0} == {
        "name": "fit", "jobs": 3, "succeeded": 2, "failed": 1, "cancelled": 0, "took_s": 0,
    }  # fmt: skip
    began = time.monotonic()
    grass.ok("stop")
    eventually(lambda: not (grass.home / "grass.sock").exists(), "the daemon stops")
    assert time.monotonic() - began < 5, "a notice that hangs does not delay the stop"


def test_a_program_can_be_told_too(client: grassq.Client, server: Receiver) -> None:
    with client:
        client.submit(["true"], notify=server.url("/one")).result(timeout=30)
        eventually(lambda: server.documents("/one"), "the job is told")
        client.submit_many([["true"], ["true"]], name="many", notify=[server.url("/many")])
        eventually(lambda: server.documents("/many"), "the submission is told")
    assert [each["event"] for each in server.documents("/many")] == ["sweep"]


def test_a_test_notice_says_how_it_went(grass: Grass, server: Receiver, tmp_path: Path) -> None:
    assert grass.ok("notify", "--test", server.url("/x")) == f"sent to http://127.0.0.1:{server.port}/...\n"
    assert server.documents("/x")[0]["event"] == "test"
    assert "not sent to exit ...: exit code 4" in grass.refuses(1, "notify", "--test", "exit 4")
    assert grass.json_of(1, "notify", "--test", "exit 4")["results"][0]["ok"] is False
    assert "no rules" in grass.refuses(2, "notify", "--test")
    assert "no rules" in grass.ok("notify")


def test_a_command_that_does_not_end_is_killed_with_the_daemon(grass: Grass) -> None:
    grass.enqueue("--notify", "echo $$ > pid; sleep 100", "--", "true")
    pid = grass.cwd / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip(), "the command runs")
    grass.ok("stop")
    eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}/stat").exists(), "the command is gone")


def test_mistakes_are_one_line_and_store_nothing(grass: Grass) -> None:
    assert "is not a program" in grass.refuses(2, "enqueue", "--notify", "slak", "--", "true")
    assert "names no host" in grass.refuses(2, "enqueue", "--notify", "https://", "--", "true")
    assert "--notify" in grass.refuses(2, "enqueue", "--notify", "", "--", "true")
    grass.nothing_was_stored()
    grass.ok("stop")
    (grass.home / "grass.toml").write_text('[[notify]]\non = ["faild"]\nto = "desktop"\n')
    assert "did you mean failed?" in grass.refuses(2, "start")
    (grass.home / "grass.toml").unlink()
