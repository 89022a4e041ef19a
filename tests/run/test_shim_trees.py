from __future__ import annotations

import signal
import sys
import time

import pytest
from tests.run.harness import Harness, eventually

from grassq.run import processes

# Each leaves or holds processes in a way that hides them from their parent; $1 is how long they would live.
HOSTILE = {
    "setsid": "setsid sleep 600 &",
    "double fork": "(setsid sh -c 'sleep 600 & sleep 600 & wait' &)",
    "orphan": "(sleep 600 &)",
    "ignores TERM": "(trap '' TERM HUP INT; while :; do sleep 600; done) &",
    "scrubbed": "(env -i setsid sleep 600 >/dev/null 2>&1 </dev/null &)",
    "stopped": "sleep 600 & kill -STOP $!",
    "closed fds": "sh -c 'exec >&- 2>&- <&-; trap \"\" TERM; sleep 600; sleep 600' &",
    "forks on TERM": "sh -c 'trap \"setsid sleep 600 & setsid sleep 600 &\" TERM; while :; do sleep 1; done' &",
}


def everything_below(shim: int) -> list[tuple[int, int]]:
    return processes.descendants(shim)


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_a_hostile_tree_survives_a_stop(harness: Harness, kind: str) -> None:
    path, started = harness.start("/bin/sh", "-c", f"{HOSTILE[kind]}\necho ready\nsleep 600")
    eventually(lambda: harness.log(path) == b"ready\n", "the tree stands")
    eventually(lambda: len(everything_below(started["shim"])) >= 3, "the tree stands")
    tree = everything_below(started["shim"])
    assert harness.stop(path, 0.1)
    record = harness.ended(path)
    assert record["outcome"] == "cancelled"
    assert not [found for found in tree if processes.is_alive(*found)]
    assert harness.left() == []
    assert everything_below(started["shim"]) == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_a_hostile_tree_survives_its_command(harness: Harness, kind: str) -> None:
    path, record = harness.script(f"{HOSTILE[kind]}\nexit 3", leave_grace_s=0.1)
    assert (record["code"], record["outcome"]) == (3, "exited")
    assert harness.left() == []
    assert everything_below(harness.until("started", path)["shim"]) == []
    assert harness.until("exited", path)["idle"]


def test_a_tree_that_keeps_forking_is_killed(harness: Harness) -> None:
    bomb = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + (
        "end = time.monotonic() + 20\nwhile time.monotonic() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    )
    path, _ = harness.start(sys.executable, "-I", "-S", "-c", bomb, keep_children=False, leave_grace_s=0.05)
    before = time.monotonic()
    harness.ended(path)
    assert time.monotonic() - before < 5
    assert harness.left() == []


def test_a_stop_gives_the_job_its_grace(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: harness.log(path) == b"ready\n", "it listens")
    harness.stop(path, 10.0)
    record = harness.ended(path)
    assert (record["code"], record["outcome"]) == (9, "cancelled")
    assert b"bye\n" in harness.log(path)


def test_a_later_stop_with_a_shorter_grace_is_honoured(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: harness.log(path) == b"ready\n", "it ignores TERM")
    harness.stop(path, 600.0)
    harness.stop(path, 0.05)
    record = harness.ended(path)
    assert (record["signal"], record["outcome"]) == (signal.SIGKILL, "cancelled")


def test_a_signal_to_the_shim_without_a_stop_file_changes_nothing(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", "while :; do sleep 0.02; done")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        assert processes.signal_verified(started["shim"], started["shim_ticks"], number)
    assert processes.is_alive(started["pid"], started["ticks"])
    assert not harness.heard("exited", path)
    harness.stop(path, 1.0)
    assert harness.ended(path)["outcome"] == "cancelled"


def test_kept_children_stay_and_their_shim_leaves(harness: Harness) -> None:
    path, record = harness.script("sleep 600 & exit 0", keep_children=True)
    assert record["code"] == 0
    exited = harness.until("exited", path)
    assert not exited["idle"]
    eventually(lambda: processes.start_ticks(exited["shim"]) is None, "the shim leaves")
    assert len(harness.left()) == 1
    assert harness.run("true")[1]["code"] == 0


def test_a_stop_ends_children_that_were_to_be_kept(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", "sleep 600 & echo ready; wait", keep_children=True)
    eventually(lambda: harness.log(path) == b"ready\n", "it stands")
    harness.stop(path, 0.5)
    assert harness.ended(path)["outcome"] == "cancelled"
    assert harness.left() == []
