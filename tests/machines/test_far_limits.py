"""Limits on the far side: kept by the supervisor there, whatever becomes of the connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.machines.far_site import FarSite
from tests.run.harness import eventually

from grassq.run.lease_timer import boottime

#: Saves a file at the first USR1, and ends at no signal.
SAVES = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: pathlib.Path("saved").touch())
while True:
    print("on", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FarSite]:
    """A far side with a plain sh."""
    site = FarSite(tmp_path, "dash")
    yield site
    site.close()


def test_an_attempt_is_warned_and_ended_by_its_time_limit_and_by_its_silence(tmp_path: Path) -> None:
    # The shell with the fewest commands; the suite of all machines holds a limit on every one.
    site = FarSite(tmp_path, "busybox")
    begun = boottime()
    limits: dict[str, Any] = {"time_limit_s": 2.5, "warn_s": 1.0, "warn_signal": 10, "idle_limit_s": 1.5}
    assert site.start(1, "/usr/bin/python3", "-c", SAVES, grace_s=0.5, **limits)
    assert site.start(2, "/bin/sh", "-c", "sleep 600 & printf .; sleep 600", idle_limit_s=0.8, keep_children=True)
    assert site.start(3, "true", time_limit_s=600.0, idle_limit_s=600.0)
    quiet, ended = site.ended(2), site.ended(1)
    assert boottime() - begun >= 2.9
    assert (quiet["outcome"], quiet["error"]) == ("timed_out", "no output for 0.8s")
    assert (ended["outcome"], ended["error"]) == ("timed_out", "the time limit of 2.5s was reached")
    assert ended["signal"] == 9 and (site.home / "saved").exists()
    assert site.ended(3)["outcome"] == "exited" and site.left() == []
    site.close()


def test_only_the_time_in_which_an_attempt_runs_counts_for_its_limit(site: FarSite) -> None:
    orders = count(1)
    limits: dict[str, Any] = {"time_limit_s": 1.5, "grace_s": 0.2}
    counts = ("/bin/sh", "-c", "while :; do echo; sleep 0.1; done")

    def order(job: int, *, stop: bool) -> None:
        number = next(orders)
        eventually(lambda: site.far.suspend((job, 1), number, stop) or site.far.look((job, 1)).exit, "the order")

    assert all([site.start(job, *counts, **limits) for job in (1, 2, 3)])
    order(2, stop=True)
    stopped_at = boottime()
    while site.far.look((3, 1)).exit is None:
        order(3, stop=True)
        order(3, stop=False)
        assert boottime() < stopped_at + 40, "the time in which it ran counts, however often it was suspended"
    eventually(lambda: boottime() > stopped_at + 2.0, "more than its limit, while job 2 is suspended")
    order(2, stop=False)
    assert [site.ended(job)["outcome"] for job in (1, 2, 3)] == ["timed_out"] * 3
    steps = {job: len(site.log(job)) for job in (1, 2)}
    assert steps[2] > steps[1] / 2, "the time in which it was suspended does not count"
