"""Leases: the shim itself ends what may be started elsewhere, whoever else is dead, and in time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.run.harness import Harness, eventually, names_in

from grassq.run import lease_timer, processes, rundir
from grassq.run.lease_timer import GRACE_PART, UNREADABLE_PART, boottime
from grassq.worker.leases import LEASE_PART

SOURCE = Path(__file__).parents[2] / "src"
STUBBORN = "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; echo ready;"
#: A worker's daemon as far as its shims can tell.
DAEMON = """
import sys, time
from grassq.run.shim_pool import ShimPool
pool = ShimPool(sys.executable, sys.argv[1])
pool.start()
pool.order(sys.argv[2])
while True:
    pool.read()
    pool.check()
    time.sleep(0.01)
"""


def lease(harness: Harness, path: str, until: float, length_s: float = 2.0) -> float:
    """Write a lease that ends so many seconds from now; when that is."""
    at = boottime() + until
    rundir.write_lease(path, rundir.Lease(at, length_s), harness.boot)
    return at


def start_leased(harness: Harness, script: str, until: float, length_s: float = 2.0, **changes: Any) -> tuple[str, int]:
    """Order a leased script and wait until it has said that it is ready; its run dir and its pid."""
    path = harness.prepare("/bin/sh", "-c", script, lease=True, **changes)
    lease(harness, path, until, length_s)
    harness.shim_pool.order(path)
    pid = harness.until("started", path)["pid"]
    eventually(lambda: harness.log(path).startswith(b"ready\n"), "it is ready")
    return path, pid


@pytest.fixture
def daemon(harness: Harness) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a daemon of its own for an attempt."""
    running: list[subprocess.Popen[bytes]] = []

    def start(path: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", DAEMON, str(harness.home), path]
        running.append(subprocess.Popen(words, env={"PYTHONPATH": str(SOURCE)}))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


# Before the start.


@pytest.mark.parametrize("kind", ["missing", "over", "of another boot", "damaged", "a link", "without an end"])
def test_without_a_lease_in_force_nothing_is_started(harness: Harness, tmp_path: Path, kind: str) -> None:
    path = harness.prepare("touch", str(tmp_path / "ran"), lease=True)
    match kind:
        case "over":
            lease(harness, path, -0.001)
        case "of another boot":
            rundir.write_lease(path, rundir.Lease(boottime() + 60, 80.0), "another boot")
        case "damaged":
            Path(path, "lease").write_bytes(b'{"v": 1, "until": ')
        case "a link":
            lease(harness, path, 60)
            Path(path, "lease").rename(tmp_path / "elsewhere")
            Path(path, "lease").symlink_to(tmp_path / "elsewhere")
        case "without an end":
            Path(path, "lease").write_text(f'{{"v": 1, "until": Infinity, "length_s": 1, "boot": "{harness.boot}"}}\n')
    harness.shim_pool.order(path)
    record = harness.ended(path)
    assert (record["outcome"], record["code"], record["signal"]) == ("lease_ended", None, None)
    assert not (tmp_path / "ran").exists()
    assert not harness.heard("started", path)
    assert harness.run("true")[1]["code"] == 0, "the shim goes on"
    assert harness.shim_pool.idle == 1


def test_a_stop_found_before_the_spawn_is_a_stop_whatever_the_lease(harness: Harness) -> None:
    path = harness.prepare("true", lease=True)
    rundir.request_stop(path, 1.0, "test")
    harness.shim_pool.order(path)
    assert harness.ended(path)["outcome"] == "cancelled"


# While it runs.


def test_a_job_that_ends_within_its_lease_is_like_any_other(harness: Harness) -> None:
    path = harness.prepare("/bin/sh", "-c", "exit 3", lease=True)
    lease(harness, path, 60, 80)
    harness.shim_pool.order(path)
    record = harness.ended(path)
    assert (record["outcome"], record["code"]) == ("exited", 3)
    assert names_in(path) == ["exit", "files", "lease", "log", "spec.json", "started"]


def test_a_lease_that_is_not_renewed_ends_the_job_and_not_before(harness: Harness) -> None:
    path, pid = start_leased(harness, "echo ready; exec sleep 600", 1.0)
    end = rundir.read_lease(path, harness.boot)
    assert end is not None
    record = harness.ended(path)
    assert boottime() >= end.until
    assert (record["outcome"], record["signal"]) == ("lease_ended", signal.SIGTERM)
    assert processes.start_ticks(pid) is None and harness.left() == []


def test_a_lease_that_is_renewed_keeps_the_job_alive(harness: Harness) -> None:
    path, pid = start_leased(harness, "echo ready; exec sleep 600", 1.0)
    first = boottime() + 1.0
    while boottime() < first + 0.7:
        until = lease(harness, path, 0.8)
        eventually(lambda until=until: boottime() > until - 0.5, "time passes")  # type: ignore[misc]
        assert processes.start_ticks(pid) is not None
    assert not harness.heard("exited", path)
    assert harness.ended(path)["outcome"] == "lease_ended"


@pytest.mark.parametrize("grace_s", [0.01, 600.0])
def test_a_tree_that_ignores_term_is_gone_before_the_broker_may_start_another(harness: Harness, grace_s: float) -> None:
    length_s = 4.0
    path, _ = start_leased(harness, STUBBORN + "while :; do sleep 1; done", 1.0, length_s, grace_s=grace_s)
    end = rundir.read_lease(path, harness.boot)
    assert end is not None and len(harness.left()) >= 2
    record = harness.ended(path)
    assert (record["outcome"], record["signal"]) == ("lease_ended", signal.SIGKILL)
    # The lease is over at three quarters of its length: a quarter is left.
    assert boottime() < end.until + length_s / 4
    assert harness.left() == []


def test_what_a_command_left_behind_is_gone_too_and_the_command_keeps_its_code(harness: Harness) -> None:
    path, _ = start_leased(harness, STUBBORN + "exit 3", 1.0, 4.0, leave_grace_s=600.0)
    record = harness.ended(path)
    assert (record["outcome"], record["code"]) == ("exited", 3)
    assert harness.left() == []


def test_a_stop_that_is_still_waiting_when_the_lease_ends_stays_a_stop(harness: Harness) -> None:
    path, _ = start_leased(harness, STUBBORN + "while :; do sleep 1; done", 1.0, 4.0)
    harness.stop(path, 600.0)
    assert harness.ended(path)["outcome"] == "cancelled"
    assert harness.left() == []


def test_only_a_leased_job_has_a_timer_and_only_while_it_runs(harness: Harness) -> None:
    def timers(shim: int) -> list[str]:
        about = [entry.read_text() for entry in Path(f"/proc/{shim}/fdinfo").iterdir()]
        return [line for text in about for line in text.splitlines() if line.startswith("clockid:")]

    path, started = harness.start("sleep", "600")
    assert timers(started["shim"]) == []
    harness.stop(path, 1.0)
    harness.ended(path)
    path, _ = start_leased(harness, "echo ready; exec sleep 600", 60.0, 80.0)
    shim = harness.until("started", path)["shim"]
    assert timers(shim) == ["clockid: 7"], "CLOCK_BOOTTIME: it counts while the machine sleeps"
    harness.stop(path, 1.0)
    harness.ended(path)
    assert timers(shim) == []


# With nobody else there.


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lease_ends_with_the_daemon_dead_or_stopped(
    harness: Harness, daemon: Callable[[str], subprocess.Popen[bytes]], fate: signal.Signals
) -> None:
    path = harness.prepare("/bin/sh", "-c", "echo ready; exec sleep 600", lease=True)
    until = lease(harness, path, 3.0, 4.0)
    process = daemon(path)
    eventually(lambda: Path(path, "log").exists() and harness.log(path) == b"ready\n", "it runs")
    process.send_signal(fate)
    assert boottime() < until and rundir.read_exit(path) is None
    record = eventually(lambda: rundir.read_exit(path), "its end is on record")
    assert record["outcome"] == "lease_ended" and until <= boottime() < until + 1.0
    assert harness.left() == []


def test_a_lease_ends_with_the_launcher_gone(harness: Harness) -> None:
    path, _ = start_leased(harness, "echo ready; exec sleep 600", 1.0)
    assert harness.shim_pool.launcher_pid is not None
    os.kill(harness.shim_pool.launcher_pid, signal.SIGKILL)
    assert harness.ended(path)["outcome"] == "lease_ended"
    assert harness.left() == []


# A lease that cannot be read.


def test_a_lease_that_cannot_be_read_for_a_moment_is_read_again(harness: Harness) -> None:
    path, pid = start_leased(harness, "echo ready; exec sleep 600", 1.0, 60.0)
    shim = harness.until("started", path)["shim"]
    first = boottime() + 1.0
    limits = resource.prlimit(shim, resource.RLIMIT_NOFILE)
    resource.prlimit(shim, resource.RLIMIT_NOFILE, (3, limits[1]))
    eventually(lambda: boottime() > first + 0.3, "the lease on record was over")
    lease(harness, path, 60.0, 60.0)
    resource.prlimit(shim, resource.RLIMIT_NOFILE, limits)
    eventually(lambda: boottime() > first + 1.0, "it has been read again")
    assert processes.start_ticks(pid) is not None and not harness.heard("exited", path)
    harness.stop(path, 1.0)
    assert harness.ended(path)["outcome"] == "cancelled"


def test_a_lease_that_stays_unreadable_counts_as_over_after_a_margin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, length_s = 1000.0, 100.0
    monkeypatch.setattr(lease_timer, "boottime", lambda: now)
    rundir.write_lease(str(tmp_path), rundir.Lease(1075.0, length_s), "boot")
    guard = lease_timer.LeaseTimer(str(tmp_path), "boot")
    assert guard.holds() and guard.grace_s == GRACE_PART * length_s

    def unreadable(path: str, boot: str) -> rundir.Lease:
        raise OSError("no descriptor")

    monkeypatch.setattr(rundir, "read_lease", unreadable)
    now = 1075.0 + UNREADABLE_PART * length_s - 0.01
    assert guard.holds()
    now += 0.02
    assert not guard.holds()
    guard.close()


def test_a_lease_that_was_never_read_is_not_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: str, boot: str) -> rundir.Lease:
        raise OSError("no descriptor")

    monkeypatch.setattr(rundir, "read_lease", unreadable)
    guard = lease_timer.LeaseTimer(str(tmp_path), "boot")
    assert not guard.holds()
    guard.close()


def test_all_parts_of_a_lease_fit_into_it() -> None:
    assert LEASE_PART + UNREADABLE_PART + GRACE_PART <= 0.9
