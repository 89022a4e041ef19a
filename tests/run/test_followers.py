"""An attempt that takes over from another: its shim begins it, without being told once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.run.harness import Harness, eventually

from grassq.run import rundir, shim

WAITS = 'while [ ! -e "$GRASS_RUN_DIR/go" ]; do sleep 0.02; done'


def release(path: str) -> None:
    Path(rundir.files_dir(path), "go").touch()


def values(path: str) -> tuple[Any, ...]:
    spec = rundir.read_spec(path)
    return tuple(getattr(spec, name) for name in rundir.Spec.__slots__)


def test_the_shim_of_one_begins_the_next_and_says_so(harness: Harness) -> None:
    leader, started = harness.start("/bin/sh", "-c", WAITS)
    follower = harness.prepare("/bin/sh", "-c", "exit 3")
    rundir.follow(leader, shim.order_of(follower, values(follower)))
    release(leader)
    assert harness.ended(follower)["code"] == 3
    first, second = harness.until("exited", leader), harness.until("exited", follower)
    assert (first["next"], first["idle"], second["shim"], second["idle"]) == (True, False, started["shim"], True)
    assert harness.crew.idle == 1


def test_of_two_that_were_to_follow_the_last_counts(harness: Harness) -> None:
    leader, _ = harness.start("/bin/sh", "-c", WAITS)
    first, second = harness.prepare("true"), harness.prepare("true")
    rundir.follow(leader, shim.order_of(first, values(first)))
    rundir.follow(leader, shim.order_of(second, values(second)))
    release(leader)
    assert harness.ended(second)["code"] == 0
    assert not Path(first, "started").exists()


@pytest.mark.parametrize("packed", [b"", b"\0", b"\0" + shim.pack(("of", "another", "release")), b"\0i"])
def test_an_order_whose_spec_makes_no_sense_is_read_from_the_run_dir(harness: Harness, packed: bytes) -> None:
    leader, _ = harness.start("/bin/sh", "-c", WAITS)
    follower = harness.prepare("/bin/sh", "-c", "exit 4")
    rundir.follow(leader, follower.encode() + packed)
    release(leader)
    assert harness.ended(follower)["code"] == 4


def test_a_damaged_order_to_follow_is_none(harness: Harness) -> None:
    leader, _ = harness.start("/bin/sh", "-c", WAITS)
    follower = harness.prepare("true")
    rundir.follow(leader, shim.order_of(follower, values(follower)))
    order = Path(leader, "next")
    order.write_bytes(order.read_bytes()[:-3])
    release(leader)
    harness.ended(leader)
    ended = harness.until("exited", leader)
    assert (ended["idle"], "next" in ended) == (True, False)
    harness.crew.order(follower)
    assert harness.ended(follower)["code"] == 0


def test_with_nobody_to_hear_of_it_nothing_follows(harness: Harness) -> None:
    leader, _ = harness.start("/bin/sh", "-c", WAITS)
    follower = harness.prepare("true")
    rundir.follow(leader, shim.order_of(follower, values(follower)))
    harness.close()
    release(leader)
    eventually(lambda: rundir.read_exit(leader), "the end is on record")
    eventually(lambda: not rundir.look(leader, harness.boot).shim_alive, "its shim leaves")
    assert not Path(follower, "started").exists()
