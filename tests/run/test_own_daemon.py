"""A daemon that a job itself started is not the job's: the shim leaves it, and what it runs, alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.run.harness import Harness, eventually

from grassq.run import own_daemon, processes
from grassq.run.shim_pool import ShimPool

# Serves a home as a daemon does: it holds the lock that has its pid, runs something below, and wants no TERM.
DAEMON = """
import fcntl, os, signal, subprocess, sys, time
lock = os.open(sys.argv[1] + "/daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
fcntl.flock(lock, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
if sys.argv[2] == "closed":
    os.close(lock)
with open(sys.argv[1] + "/children", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
with open(sys.argv[1] + "/daemon.lock", "w") as file:
    file.write(f"{os.getpid()}\\n")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
time.sleep(600)
"""


def a_daemon(home: Path, lock: str = "open") -> str:
    """A line of shell that leaves a daemon of `home` behind once it serves."""
    return (
        f"mkdir -p {home}; setsid {sys.executable} -I -S -c '{DAEMON}' {home} {lock} & "
        f"until [ -s {home}/daemon.lock ]; do sleep 0.02; done; "
    )


def family(home: Path) -> list[tuple[int, int]]:
    """The daemon and its child, as far as they live."""
    pids = [int(word) for word in (home / "children").read_text().split()]
    return [(pid, ticks) for pid in pids if (ticks := processes.start_ticks(pid)) is not None]


def test_the_daemon_of_this_home_outlives_the_job_that_started_it(harness: Harness) -> None:
    path, record = harness.script(a_daemon(harness.home) + "sleep 600 & exit 3", leave_grace_s=0.1)
    assert (record["code"], record["outcome"]) == (3, "exited")
    exited = harness.until("exited", path)
    assert not exited["idle"]
    eventually(lambda: processes.start_ticks(exited["shim"]) is None, "the shim leaves")
    assert len(family(harness.home)) == 2
    assert sorted(harness.left()) == sorted(family(harness.home)), "what else the job left is gone"
    assert harness.run("true")[1]["code"] == 0


def test_a_stop_of_the_job_spares_the_daemon_it_started(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", a_daemon(harness.home) + "trap '' TERM; echo ready; sleep 600; sleep 600")
    eventually(lambda: harness.log(path) == b"ready\n", "it stands")
    assert harness.stop(path, 0.1)
    assert harness.ended(path)["outcome"] == "cancelled"
    assert len(family(harness.home)) == 2
    assert sorted(harness.left()) == sorted(family(harness.home))


def test_beside_the_daemon_a_tree_that_keeps_forking_is_still_killed(harness: Harness) -> None:
    bomb = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); end = time.monotonic() + 20\n" + (
        "while time.monotonic() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    )
    text = a_daemon(harness.home) + f"exec {sys.executable} -I -S -c '{bomb}'"
    harness.script(text, leave_grace_s=0.05)
    assert len(family(harness.home)) == 2
    assert sorted(harness.left()) == sorted(family(harness.home))


def test_a_daemon_that_outlives_no_job_is_forgotten(harness: Harness) -> None:
    """While the job runs the daemon may end again: then the shim is as good as new."""
    text = a_daemon(harness.home) + "kill -9 $(cat daemon.lock) $(cut -d' ' -f2 children)"
    path, record = harness.script(text, cwd=str(harness.home))
    assert record["code"] == 0
    assert harness.until("exited", path)["idle"]


def test_the_daemon_of_another_home_ends_with_the_job(harness: Harness, tmp_path: Path) -> None:
    path, _ = harness.script(a_daemon(tmp_path / "other"), leave_grace_s=0.1)
    assert harness.until("exited", path)["idle"]
    assert family(tmp_path / "other") == []


def test_a_number_in_the_lock_that_nobody_holds_protects_nobody(harness: Harness) -> None:
    path, _ = harness.script(a_daemon(harness.home, "closed"), leave_grace_s=0.1)
    assert harness.until("exited", path)["idle"]
    assert family(harness.home) == []


@pytest.mark.parametrize("signature", ["launcher", "other"])
def test_shims_whose_daemon_is_gone_are_spared_too(harness: Harness, tmp_path: Path, signature: str) -> None:
    """A daemon below a job may stop again while its own jobs run on: their shims fall to the job's shim."""
    home = harness.home if signature == "launcher" else tmp_path / "other"
    package = tmp_path / "run"
    package.mkdir()
    program = package / "launcher.py"
    program.write_text(f"import os, time\nopen('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    text = f"setsid {sys.executable} -I -S {program} --fds 1,2,3 --home {home} & "
    path, _ = harness.script(text + f"until [ -s {tmp_path}/pid ]; do sleep 0.02; done", leave_grace_s=0.1)
    lives = signature == "launcher"
    assert harness.until("exited", path)["idle"] is not lives
    assert (processes.start_ticks(int((tmp_path / "pid").read_text())) is not None) is lives


def test_a_launcher_is_known_by_its_command_line(harness: Harness) -> None:
    """What the test above imitates is what the crew really starts."""
    shim_pool = ShimPool(sys.executable, "/some home")
    shim_pool.start()
    try:
        pid = shim_pool.launcher_pid or 0
        eventually(lambda: own_daemon.is_kept(pid, "/some home"), "it has its words")
        assert not own_daemon.is_kept(pid, "/some")
    finally:
        shim_pool.close()
