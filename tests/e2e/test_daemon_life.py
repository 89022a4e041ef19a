"""The daemon: it starts by itself, there is one per home, and jobs do not need it to run on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.world import BIN, DEADLINE_S, Grass, end, eventually, is_alive, processes_of

#: Under a second on an idle machine is the promise; tests share two cores with others.
START_BOUND_S = 5.0


def listening(grass: Grass) -> bool:
    return (grass.home / "grass.sock").exists()


def test_any_local_command_starts_the_daemon(grass: Grass) -> None:
    """F23, T29."""
    began = time.monotonic()
    assert grass.ok("enqueue", "true") == "job 1 queued in default\n"
    assert time.monotonic() - began < START_BOUND_S
    assert is_alive(grass.daemon_pid())
    assert (grass.home.stat().st_mode & 0o777, (grass.home / "store.db").stat().st_mode & 0o777) == (0o700, 0o600)


def test_many_commands_at_once_start_one_daemon(grass: Grass) -> None:
    calls = [grass.start("enqueue", "-q", "true", stdout=subprocess.PIPE) for _ in range(8)]
    ids = {int(call.communicate(timeout=DEADLINE_S)[0]) for call in calls}
    assert ids == set(range(1, 9))

    def daemons() -> list[int]:
        return [pid for pid, words in processes_of(grass.home).items() if " daemon " in words]

    # Those that came second may still be leaving.
    assert eventually(lambda: len(daemons()) == 1 and daemons(), "one daemon is left") == [grass.daemon_pid()]


def test_a_second_daemon_names_the_first_and_leaves(grass: Grass) -> None:
    """F24."""
    first = grass.start("daemon")
    eventually(lambda: listening(grass), "the first listens")
    line = grass.refuses(5, "daemon")
    assert str(first.pid) in line
    assert first.poll() is None and grass.run("echo", "unharmed") == "unharmed\n"


def test_start_and_stop_in_the_background(grass: Grass) -> None:
    """F25: start returns soon, stop ends it and leaves no socket."""
    began = time.monotonic()
    assert "started" in grass.ok("start")
    assert time.monotonic() - began < START_BOUND_S
    pid = grass.daemon_pid()
    assert str(pid) in grass.ok("start"), "already running is said, and no error"
    assert "pause" in grass.ok("stop")
    assert not is_alive(pid) and not listening(grass)
    assert "no daemon" in grass.ok("stop")
    eventually(lambda: not processes_of(grass.home), "launcher and idle shims leave with the daemon")


def test_jobs_run_on_without_the_daemon_and_are_known_afterwards(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    waits = "echo before; until [ -e go ]; do sleep 0.02; done; echo after; exit 3"
    running = grass.enqueue("q", "--gpu=1", "--", "sh", "-c", waits)
    queued = grass.enqueue("q", "--gpu=1", "--", "true")
    pid = grass.until(running, "running")["pid"]
    assert "1 running job goes on" in grass.ok("stop")
    assert is_alive(pid)
    grass.open_gate("go")
    eventually(lambda: not is_alive(pid), "the job ends by itself")
    assert not listening(grass)
    job = grass.until(running, "failed")
    assert job["exit_code"] == 3 and grass.log(running) == "before\nafter\n"
    grass.until(queued, "succeeded")


def test_restart_keeps_jobs_running(grass: Grass) -> None:
    id_ = grass.gated("go")
    pid, daemon = grass.until(id_, "running")["pid"], grass.daemon_pid()
    assert "restarted" in grass.ok("restart")
    assert grass.daemon_pid() != daemon
    assert grass.until(id_, "running")["pid"] == pid
    grass.open_gate("go")
    grass.until(id_, "succeeded")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_foreground_daemon_cleanly(grass: Grass, number: signal.Signals) -> None:
    daemon = grass.start("daemon")
    eventually(lambda: listening(grass), "it listens")
    daemon.send_signal(number)
    assert daemon.wait(DEADLINE_S) == 0
    assert not listening(grass)


def test_a_stale_socket_is_no_obstacle(grass: Grass) -> None:
    grass.ok("start")
    grass.crash()
    assert listening(grass), "killed with SIGKILL it could not clean up"
    assert grass.run("echo", "again") == "again\n"


def test_a_file_in_the_place_of_the_socket_is_replaced(grass: Grass) -> None:
    grass.home.mkdir(mode=0o700)
    (grass.home / "grass.sock").write_text("not a socket")
    assert grass.run("echo", "fine") == "fine\n"


def test_a_stranger_on_the_socket_is_unreachable(grass: Grass) -> None:
    """Exit 4: something listens that is not Grass."""
    grass.home.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        directory = os.open(grass.home, os.O_PATH)
        stranger.bind(f"/proc/self/fd/{directory}/grass.sock")
        os.close(directory)
        stranger.listen()
        call = grass.start("show", stderr=subprocess.PIPE)
        for _ in range(3):
            stranger.settimeout(DEADLINE_S)
            connection, _address = stranger.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 smtp.example ready\r\n\r\n")
            if call.poll() is not None:
                break
            try:
                call.wait(1)
                break
            except subprocess.TimeoutExpired:
                continue
        error = call.communicate(timeout=DEADLINE_S)[1]
    assert call.returncode == 4 and error.count(b"\n") == 1, error
    (grass.home / "grass.sock").unlink()


def test_a_store_in_memory_keeps_nothing(grass: Grass) -> None:
    """F33."""
    daemon = grass.start("daemon", "--store", "memory")
    eventually(lambda: listening(grass), "it listens")
    assert grass.run("echo", "seen") == "seen\n"
    running = grass.gated("never")
    pid = grass.until(running, "running")["pid"]
    assert not (grass.home / "store.db").exists() and not (grass.home / "jobs").exists()
    grass.ok("stop")
    assert daemon.wait(DEADLINE_S) == 0
    eventually(lambda: not is_alive(pid), "a job that nobody would know of ends with the daemon")
    left = {path.name for path in grass.home.iterdir()}
    assert left <= {"daemon.lock", "daemon.log", "daemon.sockets", "worker.json"}, left
    assert grass.json("show", "all")["jobs"] == []


def test_a_store_in_memory_that_is_killed_keeps_nothing_either(grass: Grass) -> None:
    """F33: its jobs end, and the next daemon starts empty."""
    daemon = grass.start("daemon", "--store=memory")
    eventually(lambda: listening(grass), "it listens")
    pid = grass.until(grass.gated("never"), "running")["pid"]
    end(daemon.pid)
    eventually(lambda: not is_alive(pid), "the job ends")
    assert grass.json("show", "all")["jobs"] == []
    assert not list(grass.home.glob("memory.*"))


def test_stopping_a_daemon_whose_store_is_in_memory_says_what_is_gone(grass: Grass) -> None:
    grass.start("daemon", "--store=memory")
    eventually(lambda: listening(grass), "it listens")
    grass.until(grass.gated("never"), "running")
    grass.ok("enqueue", "--hold", "true")
    said = grass.ok("stop")
    assert said == "daemon stopped; its store was in memory, so all its jobs are gone (1 was running and is ended)\n"


def test_a_store_of_ones_own_place(grass: Grass, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere.db"
    grass.start("daemon", "--store", f"sqlite:{place}")
    eventually(lambda: listening(grass), "it listens")
    grass.run("echo", "x")
    assert place.exists() and not (grass.home / "store.db").exists()


def test_a_very_long_home_works(grass: Grass, tmp_path: Path) -> None:
    """A socket's address holds 107 bytes; a home may be deeper."""
    grass.home = tmp_path / ("d" * 100) / ("e" * 100)
    grass.env["GRASS_HOME"] = str(grass.home)
    assert grass.run("echo", "deep") == "deep\n"
    grass.ok("restart")
    assert grass.states() == ["succeeded"]


def test_two_homes_are_two_worlds(grass: Grass, tmp_path: Path) -> None:
    other = Grass(tmp_path / "other", grass.cwd)
    try:
        assert (grass.enqueue("true"), other.enqueue("true"), other.enqueue("true")) == (1, 1, 2)
        grass.ok("stop")
        assert other.run("echo", "still here") == "still here\n"
    finally:
        other.close()


def test_without_a_home_of_its_own_the_state_directory_is_used(grass: Grass, tmp_path: Path) -> None:
    state = tmp_path / "state"
    grass.home = state / "grass"
    del grass.env["GRASS_HOME"]
    grass.env["XDG_STATE_HOME"] = str(state)
    grass.ok("enqueue", "true")
    assert (grass.home / "store.db").exists()


def test_the_daemon_carries_nothing_of_the_command_that_started_it(grass: Grass) -> None:
    """Auto-start resets cwd, umask, nice and descriptors, so a shell's directory can be unmounted."""
    done = grass.bash(f"exec 7>held; umask 0; nice -n 5 {BIN}/grass start >/dev/null")
    assert done.code == 0, done
    pid = grass.daemon_pid()
    status = Path(f"/proc/{pid}/status").read_text()
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert "Umask:\t0077" in status
    targets = {path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert grass.cwd / "held" not in targets
    if os.geteuid() == 0:
        assert os.getpriority(os.PRIO_PROCESS, pid) == 0


def test_doctor_finds_this_machine_healthy(grass: Grass) -> None:
    assert "none runs" in grass.ok("doctor")
    assert not listening(grass), "looking starts nothing"
    grass.ok("start")
    checks = {check["check"]: check for check in grass.json("doctor")["checks"]}
    assert checks["home"]["status"] in ("ok", "warn") and str(grass.daemon_pid()) in checks["daemon"]["found"]
    assert not [check for check in checks.values() if check["status"] == "fail"]


def test_doctor_lists_a_run_dir_nobody_knows(grass: Grass) -> None:
    grass.ok("start")
    stray = grass.home / "jobs" / "77" / "1"
    stray.mkdir(parents=True)
    assert "jobs/77" in grass.ok("doctor")
    assert grass.enqueue("true") == 1 or stray.exists()
    grass.ok("restart")
    assert grass.enqueue("true") == 78, "an id below a folder that exists is never given out"
    assert stray.exists()
