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
    return tuple(getattr(spec, name) for name in rundir.RunSpec.FIELDS)


def test_the_shim_of_one_begins_the_next_and_says_so(harness: Harness) -> None:
    predecessor, started = harness.start("/bin/sh", "-c", WAITS)
    prefetched = harness.prepare("/bin/sh", "-c", "exit 3")
    rundir.follow(predecessor, shim.order_of(prefetched, values(prefetched)))
    release(predecessor)
    assert harness.ended(prefetched)["code"] == 3
    first, second = harness.until("exited", predecessor), harness.until("exited", prefetched)
    assert (first["next"], first["idle"], second["shim"], second["idle"]) == (True, False, started["shim"], True)
    assert harness.shim_pool.idle == 1


def test_of_two_that_were_to_follow_the_last_counts(harness: Harness) -> None:
    predecessor, _ = harness.start("/bin/sh", "-c", WAITS)
    first, second = harness.prepare("true"), harness.prepare("true")
    rundir.follow(predecessor, shim.order_of(first, values(first)))
    rundir.follow(predecessor, shim.order_of(second, values(second)))
    release(predecessor)
    assert harness.ended(second)["code"] == 0
    assert not Path(first, "started").exists()


@pytest.mark.parametrize("packed", [b"", b"\0", b"\0" + shim.pack(("of", "another", "release")), b"\0i"])
def test_an_order_whose_spec_makes_no_sense_is_read_from_the_run_dir(harness: Harness, packed: bytes) -> None:
    predecessor, _ = harness.start("/bin/sh", "-c", WAITS)
    prefetched = harness.prepare("/bin/sh", "-c", "exit 4")
    rundir.follow(predecessor, prefetched.encode() + packed)
    release(predecessor)
    assert harness.ended(prefetched)["code"] == 4


def test_a_damaged_order_to_follow_is_none(harness: Harness) -> None:
    predecessor, _ = harness.start("/bin/sh", "-c", WAITS)
    prefetched = harness.prepare("true")
    rundir.follow(predecessor, shim.order_of(prefetched, values(prefetched)))
    order = Path(predecessor, "next")
    order.write_bytes(order.read_bytes()[:-3])
    release(predecessor)
    harness.ended(predecessor)
    ended = harness.until("exited", predecessor)
    assert (ended["idle"], ended["next"]) == (True, False)
    harness.shim_pool.order(prefetched)
    assert harness.ended(prefetched)["code"] == 0


def test_with_nobody_to_hear_of_it_nothing_follows(harness: Harness) -> None:
    predecessor, _ = harness.start("/bin/sh", "-c", WAITS)
    prefetched = harness.prepare("true")
    rundir.follow(predecessor, shim.order_of(prefetched, values(prefetched)))
    harness.close()
    release(predecessor)
    eventually(lambda: rundir.read_exit(predecessor), "the end is on record")
    eventually(lambda: not rundir.look(predecessor, harness.boot).shim_alive, "its shim leaves")
    assert not Path(prefetched, "started").exists()
