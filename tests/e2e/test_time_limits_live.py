"""Time limits with a real daemon, alive and killed."""

from __future__ import annotations

import pytest
from tests.e2e.world import Grass, eventually

import grassq
from grassq.run import rundir
from grassq.sdk import JobFailed


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
    usual = ("--cpu=0.1", "--grace", "0.3s")
    hung = ("--time-limit", "1h", "--warn", "1m:usr2", "--idle-limit", "1s", "--output", "out", "--", "sleep", "600")
    quiet = grass.enqueue(*usual, *hung)
    by_queue = grass.enqueue("short", *usual, "--retries", "1", "--", "sleep", "600")
    failed = client.submit("trap 'exit 0' TERM; sleep 600 & wait", time_limit_s=1, cpu=0.1)
    for id_ in (quiet, by_queue, failed.id):
        grass.until(id_, "running", "waiting", "failed")  # a slow machine may see the end of a second first
    grass.crash()
    homes = [rundir.attempt_dir(str(grass.home), id_, 1) for id_ in (quiet, by_queue, failed.id)]
    eventually(lambda: all(rundir.read_exit(path) for path in homes), "the records, without a daemon")
    with client, pytest.raises(JobFailed, match="the time limit of 1s was reached"):
        failed.result(timeout=30)
    job = grass.job(quiet)
    assert (job["outcome"], job["error"]) == ("timed_out", "no output for 1s")
    assert "timed out -> waiting" in grass.ok("why", str(by_queue)), "a failed try like any other"
    shown = grass.ok("show", str(quiet))
    assert "limits    1h, USR2 1m before, 1s without output" in shown and "result    timed out" in shown
    done = grass("run", "-q", "--time-limit", "1s", "sleep", "600")
    assert done.code == 124 and "the time limit of 1s was reached" in done.err
