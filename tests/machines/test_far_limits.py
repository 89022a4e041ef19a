"""Limits on the far side: kept by the supervisor there, whatever becomes of the connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.machines.far_site import FarSite

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
