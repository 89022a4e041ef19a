"""A full disk: what cannot be written waits, is named, and goes on by itself when there is room again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.e2e.small_disk import fill, free, needs_root
from tests.e2e.world import DEADLINE_S, Grass, eventually, is_alive


def until_refused(grass: Grass) -> str:
    """Submit until the store has no room left in what it allocated; what was refused is not stored."""
    known = {job["id"] for job in grass.jobs()}
    for number in range(50):
        # A large environment of its own, so that each submission needs room.
        done = grass("enqueue", "-q", "true", env={"BULK": f"{number}" * 20_000})
        assert {job["id"] for job in grass.jobs()} == known | ({int(done.out)} if done.code == 0 else set())
        if done.code != 0:
            assert (done.code, done.out, done.err.count("\n")) == (5, "", 1), done
            return done.err
        known.add(int(done.out))
    raise AssertionError("a full disk took everything")


def until_nothing_is_stored(grass: Grass) -> None:
    """Submit until the store refuses even the smallest job, twice."""
    until_refused(grass)
    refused = 0
    while refused < 2:
        refused += grass("enqueue", "-q", "true").code != 0


@needs_root
def test_a_full_disk_at_submit_is_one_line_and_nothing_is_stored(grass: Grass, disk: Path) -> None:
    """Running jobs are unharmed, and all goes on once there is room again."""
    running = grass.gated("go")
    pid = grass.until(running, "running")["pid"]
    fill(disk)
    refusal = until_refused(grass)
    assert "full" in refusal or "space" in refusal
    assert is_alive(pid) and grass.job(running)["state"] == "running"
    checks = {check["check"]: check for check in grass.json_of(1, "doctor")["checks"]}
    assert checks["disk"]["status"] == "fail"
    free(disk)

    def submitted() -> bool:
        return grass("enqueue", "echo", "room").code == 0

    eventually(submitted, "the store is tried again by itself")
    grass.open_gate("go")
    assert grass.until(running, "succeeded")["exit_code"] == 0
    ids = [job["id"] for job in grass.jobs()]
    assert {job["state"] for job in grass.ended(*ids)} == {"succeeded"}
    assert grass.log(ids[-1]) == "room\n"


@needs_root
def test_an_end_on_a_full_disk_is_kept(grass: Grass, disk: Path) -> None:
    """The exit code is recorded once there is room, and the next job starts."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.enqueue("q", "--gpu=1", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 9")
    next_one = grass.enqueue("q", "--gpu=1", "--", "true")
    pid = grass.until(id_, "running")["pid"]
    fill(disk)
    grass.open_gate("go")
    eventually(lambda: not is_alive(pid), "the job ends")
    until_refused(grass)
    free(disk)
    assert grass.until(id_, "failed")["exit_code"] == 9
    grass.until(next_one, "succeeded")


@needs_root
def test_a_daemon_cannot_start_on_a_full_disk(grass: Grass, disk: Path) -> None:
    fill(disk)
    done = grass("enqueue", "true")
    assert done.code == 5 and done.err.count("\n") == 1, done
    free(disk)
    grass.nothing_was_stored()


@needs_root
@pytest.mark.parametrize("disk", ["6m"], indirect=True)
def test_clean_removes_a_log_that_fills_the_disk(grass: Grass, disk: Path) -> None:
    """The end of such a job could not be written beside its log; clean makes room, and the next job runs."""
    greedy = grass.enqueue("--", "sh", "-c", "yes | head -c 30000000")
    grass.until(greedy, "failed")
    late = grass.enqueue("echo", "room")
    assert grass.ok("clean", str(greedy)) == "removed 1 job\n"
    assert not (grass.home / "jobs" / str(greedy)).exists()
    assert grass.until(late, "succeeded") and grass.log(late) == "room\n"


@needs_root
def test_an_end_that_fits_neither_run_dir_nor_store_outlives_the_daemon(grass: Grass, disk: Path) -> None:
    id_ = grass.enqueue("--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 9")
    pid = grass.until(id_, "running")["pid"]
    fill(disk)
    until_nothing_is_stored(grass)
    grass.open_gate("go")
    eventually(lambda: not is_alive(pid), "the job ends")
    grass.crash()
    free(disk)
    assert grass.until(id_, "failed")["exit_code"] == 9


@needs_root
def test_clean_makes_room_when_not_even_its_own_work_can_be_stored(grass: Grass, disk: Path) -> None:
    large = grass.enqueue("--", "head", "-c", "8000000", "/dev/zero")
    grass.until(large, "succeeded")
    held = grass.enqueue("--hold", "true")
    fill(disk)
    until_nothing_is_stored(grass)
    assert grass.ok("clean", str(large)) == "removed 1 job\n"
    grass.ok("release", str(held))
    grass.until(held, "succeeded")


@needs_root
def test_a_job_that_finds_no_room_is_named_and_starts_when_there_is_room(grass: Grass, disk: Path) -> None:
    grass.run("true")
    fill(disk)
    runner = grass.start("run", "echo", "room", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert runner.stderr is not None and runner.stdout is not None
    assert "cannot start" in first_line_with(runner, "No space left on device")
    assert "No space left on device" in grass.ok("why", "@")
    free(disk)
    assert runner.stdout.read() == b"room\n"
    assert runner.wait(DEADLINE_S) == 0


@needs_root
def test_what_waits_names_a_full_disk_that_nothing_can_be_stored_on(grass: Grass, disk: Path) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    first = grass.gated("go", "q", "--gpu=1")
    second = grass.enqueue("q", "--gpu=1", "true")
    grass.until(first, "running")
    fill(disk)
    until_nothing_is_stored(grass)
    followers = [grass.start(*words, stderr=subprocess.PIPE) for words in (("wait",), ("follow", str(first)))]
    for follower in followers:
        assert str(grass.home / "store.db") in first_line_with(follower, "is full")
    for id_ in (first, second):
        assert "store.db is full" in grass.ok("why", str(id_))
    grass.open_gate("go")
    free(disk)
    assert [follower.wait(DEADLINE_S) for follower in followers] == [0, 0]
    assert [job["state"] for job in grass.ended(first, second)] == ["succeeded"] * 2


@needs_root
def test_the_daemons_own_files_are_whole_after_a_full_disk(grass: Grass, disk: Path) -> None:
    grass.ok("create-queue", "q", "--cpu=1")
    pid = grass.daemon_pid()
    fill(disk)
    assert "worker.json cannot be written: No space left on device" in grass.refuses(5, "create-queue", "r", "--cpu=1")
    with grass.client() as client:
        for _ in range(60):
            # Each is a line of the audit that cannot be written, and so a line of the log that cannot be written.
            client.change("pause", queue="q")
            client.change("resume", queue="q")
    free(disk)
    grass.ok("create-queue", "s", "--cpu=1")
    assert grass.daemon_pid() == pid
    assert {queue["name"] for queue in grass.json("show")["queues"]} == {"default", "q", "s"}
    assert grass.json("audit")["entries"][-1]["path"] == "/v1/create-queue"
    lines = (grass.home / "daemon.log").read_text().splitlines()
    assert all(line[:4].isdigit() for line in lines), [line for line in lines if not line[:4].isdigit()][:5]
    grass.ok("restart")
    assert {queue["name"] for queue in grass.json("show")["queues"]} == {"default", "q", "s"}


def first_line_with(process: subprocess.Popen[bytes], words: str) -> str:
    """Return the first line on stderr that has these words."""
    assert process.stderr is not None
    return next(line for line in map(bytes.decode, process.stderr) if words in line)
