"""A daemon that a job itself started is not the job's: the shim leaves it, and what it runs, alone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.run.harness import Harness, a_spec, eventually, prepare

from grassq.run import own_daemon, processes, rundir
from grassq.run.lease_timer import boottime

SOURCE = Path(processes.__file__).parents[2]
# Serves a home as a daemon does: it holds a socket that is noted there, runs something below, and wants no TERM.
DAEMON = """
import os, signal, socket, subprocess, sys, time
sys.path.append(sys.argv[3])
from grassq.run import own_daemon
mark = socket.socket(socket.AF_UNIX)
own_daemon.note(sys.argv[1], mark)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
if sys.argv[2] == "closed":
    mark.close()
with open(sys.argv[1] + "/children", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
open(sys.argv[1] + "/ready", "w").close()
time.sleep(600)
"""
# Ignores TERM, and tells its pid.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def a_daemon(home: Path, mark: str = "open") -> str:
    """A line of shell that leaves a daemon of `home` behind once it serves."""
    return (
        f"mkdir -p {home}; setsid {sys.executable} -I -S -c '{DAEMON}' {home} {mark} {SOURCE} & "
        f"until [ -e {home}/ready ]; do sleep 0.02; done; "
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
    gone = "until ! kill -0 $(cat children) 2>/dev/null; do sleep 0.01; done"
    text = a_daemon(harness.home) + f"kill -9 $(cat children); {gone}"
    path, record = harness.script(text, cwd=str(harness.home))
    assert record["code"] == 0
    assert harness.until("exited", path)["idle"]


def test_the_daemon_of_another_home_ends_with_the_job(harness: Harness, tmp_path: Path) -> None:
    path, _ = harness.script(a_daemon(tmp_path / "other"), leave_grace_s=0.1)
    assert harness.until("exited", path)["idle"]
    assert family(tmp_path / "other") == []


def test_a_noted_socket_that_nobody_holds_protects_nobody(harness: Harness) -> None:
    path, _ = harness.script(a_daemon(harness.home, "closed"), leave_grace_s=0.1)
    assert harness.until("exited", path)["idle"]
    assert family(harness.home) == []


@pytest.mark.parametrize("whose", ["own", "other"])
def test_shims_whose_daemon_is_gone_are_spared_too(harness: Harness, tmp_path: Path, whose: str) -> None:
    """A daemon below a job may stop again while its own jobs run on: their shims fall to the job's shim."""
    home = harness.home if whose == "own" else tmp_path / "other"
    run_dir = rundir.attempt_dir(str(home), 99, 1)
    prepare(run_dir, a_spec(99, ["sleep", "600"], run_dir))
    program = f"""
import select, sys
sys.path.append("{SOURCE}")
from grassq.run.shim_pool import ShimPool
pool = ShimPool("{sys.executable}", "{home}")
pool.start()
pool.order("{run_dir}")
while not pool.read():
    select.select([pool], [], [])
"""
    path, record = harness.run(sys.executable, "-I", "-c", program, leave_grace_s=0.1)
    assert record["code"] == 0, harness.log(path)
    shim = rundir.look(run_dir, harness.boot).shim
    assert shim is not None
    lives = whose == "own"
    assert harness.until("exited", path)["idle"] is not lives
    assert processes.is_alive(*shim) is lives
    left = processes.members(None, rundir.marks(run_dir, 99, 1))
    processes.signal_all([shim, *left], signal.SIGKILL)


def test_launcher_and_shims_of_this_home_are_recognised(harness: Harness) -> None:
    _, started = harness.start("sleep", "600")
    for pid in (harness.shim_pool.launcher_pid or 0, started["shim"], os.getpid()):
        assert own_daemon.is_kept(pid, str(harness.home))
    assert not own_daemon.is_kept(started["pid"], str(harness.home))
    assert not own_daemon.is_kept(started["shim"], str(harness.home / "other"))


#: Where an attack stands: in the command itself, or in a child of it in its own session.
PLACES = {"itself": "exec {line}", "child": "setsid {line} & wait; wait"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("attack", ["words", "program name", "variables", "lock", "sockets file"])
def test_nothing_a_job_chooses_keeps_it_from_being_killed(harness: Harness, place: str, attack: str) -> None:
    home, python = harness.home, sys.executable
    lines = {
        "words": f"{python} -I -S -c '{STUBBORN}' --home {home} x/run/launcher.py",
        # Exactly the words of a launcher, and its file name.
        "program name": f"{python} -I -S {home}/run/launcher.py --fds 3,4,5 --home {home}",
        "variables": f"env -i GRASS_HOME={home} {python} -I -S -c '{STUBBORN}'",
        # A server that is told where to write its pid, and keeps the file open and locked.
        "lock": f"{python} -I -S -c '{LOCKING}{STUBBORN}' {home}/daemon.lock",
        "sockets file": f"{python} -I -S -c '{STUBBORN}' 9<{home}/daemon.sockets",
    }
    (home / "run").mkdir()
    (home / "run" / "launcher.py").write_text(STUBBORN)
    path, _ = harness.start("/bin/bash", "-c", "trap '' TERM; " + PLACES[place].format(line=lines[attack]))
    eventually(lambda: harness.log(path).endswith(b"\n"), "it ignores TERM by now")
    pid = int(harness.log(path))
    assert harness.stop(path, 0.1)
    assert harness.ended(path)["outcome"] == "cancelled"
    assert processes.start_ticks(pid) is None
    assert harness.until("exited", path)["idle"]


LOCKING = """
import fcntl, os, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(str(os.getpid()))
lock.flush()
"""


def test_words_of_a_launcher_keep_no_lease_from_ending_a_job(harness: Harness) -> None:
    path = harness.prepare(
        sys.executable, "-I", "-S", "-c", STUBBORN, "--home", str(harness.home), "x/run/launcher.py", lease=True
    )
    rundir.write_lease(path, rundir.Lease(boottime() + 2.0, 4.0), harness.boot)
    harness.shim_pool.order(path)
    eventually(lambda: harness.heard("started", path), "it starts")
    assert harness.ended(path)["outcome"] == "lease_ended"
    assert harness.left() == []
