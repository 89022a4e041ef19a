"""Time limits with a real daemon, alive and killed."""

from __future__ import annotations

import sys

import pytest
from tests.e2e.world import Grass, eventually

import grassq
from grassq.run import rundir
from grassq.sdk import JobFailed

#: Saves a checkpoint at the warning.
SAVES = """\
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR2, lambda *_: pathlib.Path(os.environ["GRASS_CHECKPOINT_DIR"], "step").write_text("7"))
time.sleep(600)
"""


def test_limits_hold_with_the_daemon_alive_and_killed(grass: Grass, client: grassq.Client) -> None:
    for words, said in (
        (["--time-limit", "-1"], "--time-limit needs a number and its unit"),
        (["--warn", "3h", "--time-limit", "2h"], "--warn 3h must be shorter than the time limit of 2h"),
        (["--warn", "60s"], "--warn needs a time limit"),
    ):
        assert said in grass.refuses(2, "enqueue", *words, "true")
    grass.nothing_was_stored()
    grass.ok("create-queue", "short", "--max-time-limit", "1s")
    assert "at most 1s" in grass.refuses(5, "enqueue", "short", "--time-limit", "1h", "--", "true")
    grass.write("saves.py", SAVES)
    usual = ("--cpu=0.1", "--grace", "0.3s")
    warned = grass.enqueue(*usual, "--time-limit", "2s", "--warn", "1s:USR2", sys.executable, "saves.py")
    quiet = grass.enqueue(*usual, "--idle-limit", "1s", "--output", "out", "--", "sleep", "600")
    by_queue = grass.enqueue("short", *usual, "--retries", "1", "--", "sleep", "600")
    failed = client.submit("trap 'exit 0' TERM; sleep 600 & wait", time_limit_s=1, cpu=0.1)
    for id_ in (warned, quiet, by_queue, failed.id):
        grass.until(id_, "running")
    assert grass.job(by_queue)["effective_time_limit_s"] == 1.0
    grass.crash()
    homes = [rundir.attempt_dir(str(grass.home), id_, 1) for id_ in (warned, quiet, by_queue, failed.id)]
    eventually(lambda: all(rundir.read_exit(path) for path in homes), "the records, without a daemon")
    with client, pytest.raises(JobFailed, match="the time limit of 1s was reached"):
        failed.result(timeout=30)
    assert [grass.job(id_)["outcome"] for id_ in (warned, quiet)] == ["timed_out"] * 2
    assert grass.job(quiet)["error"] == "no output for 1s"
    assert (grass.home / f"jobs/{warned}/checkpoint/step").read_text() == "7"
    assert "try 1 of 2 failed" in grass.job(by_queue)["reason"]
    shown = grass.ok("show", str(warned))
    assert "limits    2s, USR2 1s before" in shown and "result    timed out" in shown
    done = grass("run", "-q", "--time-limit", "1s", "sleep", "600")
    assert done.code == 124 and "the time limit of 1s was reached" in done.err
