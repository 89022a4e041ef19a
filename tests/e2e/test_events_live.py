"""`grass events` beside a real daemon: changes as they happen, a killed daemon, and Ctrl-C."""

from __future__ import annotations

import json
import select
import signal
import subprocess
from typing import Any

from tests.e2e.world import DEADLINE_S, Grass

from grassq.net.client import ApiClient


def next_event(reader: subprocess.Popen[bytes], event: str, job: int) -> dict[str, Any]:
    """The next change of this kind; what comes before it is passed over."""
    assert reader.stdout is not None
    while data := reader.stdout.readline():
        document: dict[str, Any] = json.loads(data)
        if (document["event"], document.get("job")) == (event, job):
            return document
    raise AssertionError(f"no {event} of job {job}")


def test_events_go_on_after_a_killed_daemon_and_say_what_may_be_missed(grass: Grass) -> None:
    grass.enqueue("true")
    reader = grass.start("events", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert reader.stdout is not None and json.loads(reader.stdout.readline())["event"] == "subscribed"
    first = grass.enqueue("true")
    assert next_event(reader, "exited", first)["state"] == "succeeded"
    grass.crash()
    second = grass.enqueue("false")
    seen = []
    while (line := json.loads(reader.stdout.readline()))["event"] != "reread":
        seen.append(line["event"])
    assert seen == [], "the daemon that was killed said no more"
    third = grass.enqueue("false")
    assert next_event(reader, "exited", third)["exit_code"] == 1
    assert third > second
    reader.send_signal(signal.SIGINT)
    _, error = reader.communicate(timeout=DEADLINE_S)
    assert reader.returncode == 130
    assert error.count(b"\n") == 1 and b"waiting for the daemon to come back" in error


def test_events_are_one_plain_line_each_and_only_of_what_was_asked_for(grass: Grass) -> None:
    mine = grass.enqueue("--hold", "true")
    other = grass.enqueue("--hold", "true")
    reader = grass.start("events", str(mine), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    # It says nothing before the first change, so changes are made until it has heard one.
    assert reader.stdout is not None
    priority = 40
    while not select.select([reader.stdout], [], [], 0.1)[0]:
        priority += 1
        grass.ok("priority", f"{mine},{other}", str(priority))
    assert f"job {mine} priority in default: 4".encode() in reader.stdout.readline()
    reader.send_signal(signal.SIGINT)
    assert reader.communicate(timeout=DEADLINE_S)[1] == b""
    assert reader.returncode == 130


def test_a_program_can_hear_of_ends_alone(grass: Grass) -> None:
    with ApiClient(str(grass.home)) as client:
        lines, connection = client.ends()
        assert next(lines)["event"] == "subscribed"
        first, second = grass.enqueue("true"), grass.enqueue("false")
        heard = [next(lines) for _ in range(2)]
        assert {line["job"]: line["state"] for line in heard} == {first: "succeeded", second: "failed"}
        connection.close()
