from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.run.harness import Harness, a_spec, eventually, names_in, prepare

from grassq.run import processes, rundir
from grassq.run import shim_pool as shim_pools

SHORT_JOBS = 200
LAUNCHER = str(Path(shim_pools.__file__).with_name("launcher.py"))


def wait_for_go(path: str) -> str:
    """A file the jobs below wait for."""
    return f"{rundir.files_dir(path)}/go"


WAITS = 'while [ ! -e "$GRASS_RUN_DIR/go" ]; do sleep 0.02; done; echo went; exit 6'


def release(path: str) -> None:
    Path(wait_for_go(path)).touch()


def kill(pid: int) -> None:
    ticks = processes.start_ticks(pid)
    assert ticks is not None
    assert processes.signal_verified(pid, ticks, signal.SIGKILL)
    eventually(lambda: not processes.is_alive(pid, ticks), "it dies")


def restart(harness: Harness) -> None:
    def alive() -> bool:
        harness.shim_pool.check()
        return harness.shim_pool.launcher_pid is not None

    eventually(alive, "a launcher is there again")


def test_an_order_sent_ten_times_runs_once(harness: Harness) -> None:
    others = [harness.start("/bin/sh", "-c", WAITS)[0] for _ in range(3)]
    for path in others:
        release(path)
        harness.ended(path)
    path = harness.prepare("/bin/sh", "-c", "echo ran; sleep 0.1")
    for _ in range(10):
        harness.shim_pool.order(path)
    eventually(lambda: len(harness.heard("duplicate", path)) == 9, "nine are told apart")
    harness.ended(path)
    assert len(harness.heard("started", path)) == 1
    assert harness.log(path) == b"ran\n"


def test_short_jobs_reuse_one_shim(harness: Harness) -> None:
    shims = {harness.until("exited", harness.run("true")[0])["shim"] for _ in range(5)}
    assert len(shims) == 1


def test_two_hundred_short_jobs_leave_no_zombie_and_no_descriptor(harness: Harness) -> None:
    harness.run("true")
    ours = len(names_in("/proc/self/fd"))
    paths = [harness.prepare("sh", "-c", f"exit {job % 200}") for job in range(SHORT_JOBS)]
    for first in range(0, SHORT_JOBS, 4):
        for path in paths[first : first + 4]:
            harness.shim_pool.order(path)
        for path in paths[first : first + 4]:
            harness.ended(path)
    assert [(rundir.read_exit(path) or {})["code"] for path in paths] == [job % 200 for job in range(SHORT_JOBS)]
    launcher = harness.shim_pool.launcher_pid
    assert launcher is not None
    shims = [pid for pid, _ in processes.descendants(launcher)]
    assert 1 <= len(shims) <= 4
    # Not `descendants`: that leaves zombies out.
    below = [name for name in names_in("/proc") if name.isdecimal() and parent_of(int(name)) in {launcher, *shims}]
    assert sorted(map(int, below)) == sorted(shims)
    assert {len(names_in(f"/proc/{shim}/fd")) for shim in shims} == {8}
    assert len(names_in("/proc/self/fd")) == ours
    assert harness.left() == []


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_more_idle_shims_than_are_kept_are_sent_away(harness: Harness) -> None:
    paths = [harness.start("/bin/sh", "-c", WAITS)[0] for _ in range(shim_pools.IDLE_SHIMS_MAX + 4)]
    for path in paths:
        release(path)
    for path in paths:
        harness.ended(path)

    def settled() -> bool:
        harness.heard("gone", paths[0])
        return harness.shim_pool.idle == shim_pools.IDLE_SHIMS_MAX

    eventually(settled, "the surplus leaves")

    def trimmed() -> bool:
        harness.shim_pool.check()
        harness.heard("gone", paths[0])
        return harness.shim_pool.idle == shim_pools.IDLE_SHIMS_KEPT

    eventually(trimmed, "a quiet crew shrinks")
    assert harness.run("true")[1]["code"] == 0


def test_a_killed_launcher_touches_no_busy_shim_and_orders_go_on(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", WAITS)
    launcher = harness.shim_pool.launcher_pid
    assert launcher is not None
    kill(launcher)
    assert processes.is_alive(started["shim"], started["shim_ticks"])
    restart(harness)
    assert harness.shim_pool.launcher_pid != launcher
    other, record = harness.run("true")
    assert record["code"] == 0
    release(path)
    assert harness.ended(path)["code"] == 6
    assert harness.until("exited", path)["shim"] == started["shim"]
    assert harness.until("exited", other)["shim"] != started["shim"]


def test_an_order_given_while_the_launcher_is_dead_runs_once_it_is_back(harness: Harness) -> None:
    launcher = harness.shim_pool.launcher_pid
    assert launcher is not None
    kill(launcher)
    path = harness.prepare("true")
    harness.shim_pool.order(path)
    restart(harness)
    assert harness.ended(path)["code"] == 0


def test_a_launcher_that_cannot_start_is_said_and_tried_again(tmp_path: Path) -> None:
    now = [100.0]
    broken = shim_pools.ShimPool(str(tmp_path / "python"), str(tmp_path), clock=lambda: now[0])
    with pytest.raises(OSError):
        broken.start()
    now[0] += shim_pools.RESTART_PAUSE_S
    broken.check()
    assert broken.trouble is not None
    assert "cannot be started" in broken.trouble
    assert broken.order(tmp_path.as_posix())
    (tmp_path / "python").symlink_to(sys.executable)
    now[0] += shim_pools.RESTART_PAUSE_S
    broken.check()
    assert broken.launcher_pid is not None
    broken.close()


def test_idle_shims_that_were_killed_are_replaced(harness: Harness) -> None:
    path, _ = harness.run("true")
    kill(harness.until("exited", path)["shim"])
    assert harness.run("true")[1]["code"] == 0


def test_the_job_runs_on_and_its_end_is_recorded_when_the_daemon_is_gone(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", WAITS)
    launcher = harness.shim_pool.launcher_pid
    assert launcher is not None
    harness.close()
    eventually(lambda: processes.start_ticks(launcher) is None, "the launcher leaves")
    found = rundir.look(path, harness.boot)
    assert (found.shim_alive, found.command_alive, found.exit) == (True, True, None)
    release(path)
    record = eventually(lambda: rundir.read_exit(path), "the end is on record")
    assert (record["code"], harness.log(path)) == (6, b"went\n")
    eventually(lambda: not processes.is_alive(started["shim"], started["shim_ticks"]), "the shim leaves")


def test_a_shim_without_a_daemon_can_still_be_stopped(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", WAITS)
    harness.close()
    assert harness.stop(path, 1.0)
    record = eventually(lambda: rundir.read_exit(path), "the end is on record")
    assert record["outcome"] == "cancelled"


def test_idle_shims_leave_with_the_daemon(harness: Harness) -> None:
    shim = harness.until("exited", harness.run("true")[0])["shim"]
    harness.close()
    eventually(lambda: processes.start_ticks(shim) is None, "the shim leaves")


def test_a_job_tied_to_the_daemon_ends_with_it(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", WAITS, with_daemon=True, grace_s=1.0)
    harness.close()
    record = eventually(lambda: rundir.read_exit(path), "the end is on record")
    assert record["outcome"] == "cancelled"
    assert harness.left() == []


def test_a_killed_shim_leaves_a_command_that_can_be_found_and_ended(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", "(setsid sleep 600 &); " + WAITS)
    eventually(lambda: len(harness.left()) >= 2, "the tree stands")
    kill(started["shim"])
    eventually(lambda: "gone" in [r["event"] for r in harness.reports] or harness.heard("gone", path), "it is said")
    found = rundir.look(path, harness.boot)
    assert (found.shim_alive, found.command_alive, found.exit) == (False, True, None)
    assert (started["pid"], started["ticks"]) in found.members
    assert len(found.members) >= 2
    processes.signal_all(found.members, signal.SIGKILL)

    def nothing_left() -> bool:
        after = rundir.look(path, harness.boot)
        return not after.members and not after.command_alive

    eventually(nothing_left, "the tree is gone")


def test_a_command_is_found_though_its_shim_died_before_noting_it(harness: Harness) -> None:
    path, started = harness.start("/bin/sh", "-c", WAITS)
    kill(started["shim"])
    claim = Path(path, "started")
    claim.write_bytes(claim.read_bytes().splitlines(keepends=True)[0])
    found = rundir.look(path, harness.boot)
    assert (found.command, found.command_alive) == (None, True)
    assert (started["pid"], started["ticks"]) in found.members


def test_more_orders_than_the_socket_holds_are_kept_and_done(harness: Harness) -> None:
    path = harness.prepare("true")
    for _ in range(3000):
        assert harness.shim_pool.order(path)
    harness.ended(path)
    assert len(harness.heard("started", path)) == 1


def test_a_full_backlog_says_so(tmp_path: Path) -> None:
    idle = shim_pools.ShimPool(sys.executable, str(tmp_path))
    taken = 0
    while idle.order("/x" * 1000):
        taken += 1
    assert taken > shim_pools.BACKLOG_MAX
    idle.close()


def test_a_daemon_that_does_not_read_holds_no_running_job_up(harness: Harness) -> None:
    paths = [harness.prepare("/bin/sh", "-c", "exit 5") for _ in range(20)]
    for path in paths:
        for _ in range(100):  # duplicates fill the reports socket
            harness.shim_pool.order(path)
    eventually(lambda: rundir.read_exit(paths[0]), "it ran, heard or not")
    assert [harness.ended(path)["code"] for path in paths] == [5] * 20


def test_what_a_launcher_was_handed_by_mistake_is_closed(tmp_path: Path) -> None:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
    fds = [theirs.fileno() for _, theirs in pairs]
    stray, kept = os.pipe()
    launcher = subprocess.Popen(
        [sys.executable, "-I", "-S", LAUNCHER, "--fds", ",".join(map(str, fds))], pass_fds=(*fds, kept)
    )
    os.close(kept)
    assert os.read(stray, 1) == b""  # end-of-file: nobody holds it any more, and yet the launcher lives
    assert launcher.poll() is None
    os.close(stray)
    for end in (end for pair in pairs for end in pair):
        end.close()
    assert launcher.wait(shim_pools.CLOSE_WAIT_S) == 0


def test_only_a_shim_whose_launcher_is_gone_is_a_stray(harness: Harness) -> None:
    path, _ = harness.run("true")
    launcher = harness.shim_pool.launcher_pid
    assert launcher is not None
    first, started = harness.start("/bin/sh", "-c", WAITS)
    assert (started["stray"], started["shim"]) == (False, harness.until("exited", path)["shim"])
    release(first)
    harness.ended(first)
    kill(launcher)
    restart(harness)
    second, started = harness.start("/bin/sh", "-c", WAITS)
    assert (started["stray"], started["shim"]) == (True, harness.until("exited", path)["shim"])
    release(second)


def test_jobs_have_the_limit_of_open_files_the_daemon_was_born_with(tmp_path: Path) -> None:
    shim_pool = shim_pools.ShimPool(sys.executable, str(tmp_path), nofile=77)
    shim_pool.start()
    path = rundir.attempt_dir(str(tmp_path), 1, 1)
    prepare(path, a_spec(1, ["sh", "-c", "ulimit -S -n"], path))
    shim_pool.order(path)
    eventually(lambda: rundir.read_exit(path), "it ran")
    assert Path(path, "log").read_bytes() == b"77\n"
    shim_pool.close()
