"""Time limits: kept by the shim alone, with real processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tests.run.harness import Harness, eventually

from grassq.run import processes, rundir

PYTHON = (sys.executable, "-I", "-S", "-c")
#: Saves a file at USR1, and goes on.
SAVES = """
import pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: pathlib.Path(sys.argv[1]).write_text("saved"))
print("ready", flush=True)
while True: time.sleep(60)
"""


def order(harness: Harness, text: str, *words: str, **changes: object) -> str:
    """Order a script, and do not wait for it."""
    path = harness.prepare("/bin/sh", "-c", text, "sh", *words, **changes)
    harness.shim_pool.order(path)
    return path


def wait_for(harness: Harness, path: str, line: bytes) -> None:
    """Wait until the log of a job has a line."""
    eventually(lambda: Path(path, "log").exists() and line in harness.log(path), "its line")


def test_a_limit_ends_the_whole_tree_whatever_its_processes_ignore(harness: Harness) -> None:
    begun = time.monotonic()
    stubborn = order(
        harness,
        "trap '' TERM; (trap '' TERM; sleep 600; sleep 600) & sleep 600; sleep 600; sleep 600",
        time_limit_s=0.5,
        grace_s=0.3,
        keep_children=True,
    )
    polite = order(harness, "trap 'exit 0' TERM; sleep 600 & wait", time_limit_s=0.5)
    in_time = order(harness, "sleep 0.1; exit 7", time_limit_s=600.0, idle_limit_s=600.0)
    record = harness.ended(stubborn)
    assert (record["outcome"], record["error"]) == ("timed_out", "the time limit of 0.5s was reached")
    assert record["signal"] == signal.SIGKILL and 0.8 <= time.monotonic() - begun < 8
    assert rundir.read_exit(stubborn) == {"v": 1, **record}
    record = harness.ended(polite)
    assert (record["outcome"], record["code"]) == ("timed_out", 0), "an exit within the grace changes nothing"
    record = harness.ended(in_time)
    assert (record["outcome"], record["code"], record["error"]) == ("exited", 7, None)
    assert harness.left() == [], "--keep-children keeps what a command leaves that ended by itself, and nothing else"


def test_the_daemon_may_be_gone_for_good_when_the_limit_passes(harness: Harness) -> None:
    path, _ = harness.start("sleep", "600", time_limit_s=0.5, grace_s=0.5)
    harness.close()
    record = eventually(lambda: rundir.read_exit(path), "the record")
    assert record["outcome"] == "timed_out" and harness.left() == []


def test_what_came_first_counts_the_cancel_or_the_limit(harness: Harness) -> None:
    asked = "trap 'echo asked' TERM; echo on; while :; do sleep 0.05; done"
    cancelled = order(harness, asked, time_limit_s=1.2)
    limited = order(harness, asked, time_limit_s=0.2, grace_s=600.0)
    for path, line in ((cancelled, b"on\n"), (limited, b"asked\n")):
        wait_for(harness, path, line)
        assert harness.stop(path, 1.3)
    assert harness.ended(cancelled)["outcome"] == "cancelled"
    assert harness.ended(limited)["outcome"] == "timed_out", "the later request shortened its grace"


def test_processes_that_handle_the_signal_are_warned_and_no_other_is_ended(harness: Harness, tmp_path: Path) -> None:
    saved = tmp_path / "checkpoint"
    warned = {"time_limit_s": 1.7, "warn_s": 0.6, "warn_signal": int(signal.SIGUSR1)}
    path = order(harness, 'sleep 600 & "$@"; exit 3', *PYTHON, SAVES, str(saved), **warned)
    eventually(saved.exists, "the checkpoint")
    assert rundir.read_exit(path) is None, "the shell does not handle the signal, and still waits"
    assert harness.ended(path)["outcome"] == "timed_out"


def test_silence_ends_a_job_and_every_byte_of_either_stream_counts(harness: Harness) -> None:
    begun = time.monotonic()
    writes = "for i in 1 2 3 4; do printf . >&2; sleep 0.3; done; sleep 600"
    split = order(harness, writes, idle_limit_s=1.0, split=True)
    cut = 'for i in 1 2 3; do echo; sleep 0.3; : >"${GRASS_RUN_DIR%/files}/log"; sleep 0.3; done; exit 4'
    shrinks = order(harness, cut, idle_limit_s=1.0)
    record = harness.ended(split)
    assert (record["outcome"], record["error"]) == ("timed_out", "no output for 1s")
    assert harness.log(split, "err") == b"...." and 1.8 <= time.monotonic() - begun < 8
    assert harness.ended(shrinks)["code"] == 4, "a log that shrinks is being written"


def test_whether_a_process_handles_a_signal_is_read_from_the_kernel() -> None:
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert processes.handles(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not processes.handles(os.getpid(), signal.SIGRTMAX)
