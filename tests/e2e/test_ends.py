"""How jobs end: by themselves, by a signal, by `kill` with everything they started, or unseen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.world import DEADLINE_S, Grass, end, eventually, is_alive, kill_all

#: A tree that does not want to end: a child in a session of its own, an orphan, and all of them deaf to TERM.
ROGUE = """\
import os, signal, sys, time

def note():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")

signal.signal(signal.SIGTERM, signal.SIG_IGN)
note()
if os.fork() == 0:
    os.setsid()
    note()
    if os.fork() == 0:
        note()
        time.sleep(1000)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
    note()
    time.sleep(1000)
time.sleep(1000)
"""


def rogue(grass: Grass, *options: str) -> tuple[int, list[int]]:
    grass.write("rogue.py", ROGUE)
    id_ = grass.enqueue(*options, sys.executable, "rogue.py")

    def pids() -> list[int]:
        path = grass.cwd / "pids"
        found = path.read_text().split() if path.exists() else []
        return [int(pid) for pid in found] if len(found) == 4 else []

    tree = eventually(pids, "the whole tree runs")
    grass.until(id_, "running")
    return id_, tree


def test_kill_ends_the_whole_tree_and_frees_the_device(grass: Grass) -> None:
    """F67: a setsid child, an orphan and a command that all ignore TERM."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_, tree = rogue(grass, "--gpu=1", "q")
    next_one = grass.enqueue("q", "--gpu=1", "--", "true")
    assert f"job {id_}" in grass.ok("kill", "--grace", "0.2s", str(id_))
    job = grass.until(id_, "cancelled")
    assert job["signal"] == signal.SIGKILL and job["outcome"] == "cancelled"
    assert not [pid for pid in tree if is_alive(pid)]
    grass.until(next_one, "succeeded")


def test_a_polite_job_ends_at_once_and_may_clean_up(grass: Grass) -> None:
    """TERM comes first, and the stop does not wait for the grace."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    id_ = grass.enqueue("sh", "-c", script)
    eventually(lambda: grass.log(id_) == "up\n", "the trap is set")
    grass.ok("kill", "--grace", "60s", str(id_))
    began = time.monotonic()
    job = grass.until(id_, "cancelled")
    assert time.monotonic() - began < 4.0, "a stop must not wait until the start would be repeated"
    # A shell may say that the sleep it waited for was terminated too.
    assert job["exit_code"] == 0 and grass.log(id_).endswith("bye\n")


def test_the_grace_is_given(grass: Grass) -> None:
    """Between TERM and KILL a job has its --grace."""
    id_ = grass.enqueue("--grace", "1s", "sh", "-c", "trap 'echo heard' TERM; echo up; while :; do sleep 0.02; done")
    eventually(lambda: grass.log(id_) == "up\n", "the trap is set")
    began = time.monotonic()
    grass.ok("kill", str(id_))
    grass.until(id_, "cancelled")
    assert time.monotonic() - began >= 0.9
    assert grass.log(id_).endswith("heard\n")


def test_a_second_kill_may_shorten_the_grace(grass: Grass) -> None:
    id_, tree = rogue(grass)
    grass.ok("kill", "--grace", "5m", str(id_))
    assert grass.job(id_)["cancel_requested"] is True
    grass.ok("kill", "--grace", "0", str(id_))
    grass.until(id_, "cancelled")
    assert not [pid for pid in tree if is_alive(pid)]


def test_kill_of_a_waiting_job_cancels_it_at_once(grass: Grass) -> None:
    grass.ok("pause")
    id_ = grass.enqueue("true")
    assert "cancelled" in grass.ok("kill", str(id_))
    assert grass.job(id_)["state"] == "cancelled"
    again = grass("kill", str(id_))
    assert again.code == 0 and "ended already" in again.err


def test_what_a_job_leaves_behind_ends_with_it(grass: Grass) -> None:
    """Promise 6: a child in the background does not outlive its job."""
    id_ = grass.enqueue("sh", "-c", "setsid sleep 1000 & echo $!")
    job = grass.until(id_, "succeeded")
    assert job["exit_code"] == 0
    assert not is_alive(int(grass.log(id_)))


def test_failed_jobs_stay_visible_with_the_reason(grass: Grass) -> None:
    """F38: exit code 1, a program that vanished, signal 9."""
    tool = grass.write("tool", "#!/bin/sh\n", 0o755)
    grass.ok("pause")
    false, vanished = grass.enqueue("false"), grass.enqueue(str(tool))
    tool.unlink()
    grass.ok("resume")
    killed = grass.gated("never")
    end(grass.until(killed, "running")["pid"])
    one, two, three = grass.ended(false, vanished, killed)
    assert [job["state"] for job in (one, two, three)] == ["failed"] * 3
    assert (one["exit_code"], one["outcome"]) == (1, "exited")
    assert two["outcome"] == "spawn_failed" and "tool" in two["error"] and two["exit_code"] is None
    assert (three["signal"], three["exit_code"]) == (9, None)
    table = grass.ok("show")
    assert "exit 1" in table and "spawn failed" in table and "signal 9" in table
    assert "tool" in grass.ok("show", str(vanished))


def test_a_vanished_directory_is_a_spawn_failure(grass: Grass) -> None:
    place = grass.cwd / "place"
    place.mkdir()
    grass.ok("pause")
    id_ = grass.enqueue("--cwd", "place", "true")
    place.rmdir()
    grass.ok("resume")
    job = grass.until(id_, "failed")
    assert job["outcome"] == "spawn_failed" and "place" in job["error"]


def test_an_outside_kill_is_noticed_and_the_device_reused(grass: Grass) -> None:
    """F76, F77, T38: the pid shown is alive; kill -9 of it frees the device soon."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.gated("never", "q", "--gpu=1")
    pid = grass.until(id_, "running")["pid"]
    assert is_alive(pid) and str(pid) in grass.ok("show", str(id_))
    next_one = grass.enqueue("q", "--gpu=1", "--", "true")
    began = time.monotonic()
    end(pid)
    grass.until(id_, "failed")
    assert time.monotonic() - began < 10.0
    grass.until(next_one, "succeeded")


def test_a_killed_supervisor_never_looks_like_success(grass: Grass) -> None:
    """The command runs on and keeps its device; when it is gone the end is unknown."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.gated("go", "q", "--gpu=1")
    pid, shim = grass.until(id_, "running")["pid"], grass.shim_of(id_)
    end(shim)
    job = eventually(lambda: [job for job in grass.jobs(str(id_)) if job["reason"]], "the loss is noticed")[0]
    assert job["state"] == "running" and "supervisor" in job["reason"]
    assert is_alive(pid) and grass.queue("q")["free"]["gpu"] == {"0": 0.0}
    grass.open_gate("go")
    job = grass.until(id_, "failed")
    assert (job["outcome"], job["exit_code"]) == ("unknown", None)
    assert grass("wait", str(id_)).code == 1
    assert grass.run("q", "--gpu=1", "--", "echo", "free again") == "free again\n"


def test_a_supervisor_killed_with_its_command_is_unknown(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.gated("never", "q", "--gpu=1")
    shim, pid = grass.shim_of(id_), grass.job(id_)["pid"]
    # Stopped first, so that it cannot record the end of its command.
    os.kill(shim, signal.SIGSTOP)
    kill_all([pid, shim])
    assert grass.until(id_, "failed")["outcome"] == "unknown"
    assert grass.run("q", "--gpu=1", "--", "echo", "free again") == "free again\n"


def test_a_job_without_supervisor_can_still_be_killed(grass: Grass) -> None:
    id_, tree = rogue(grass)
    end(grass.shim_of(id_))
    eventually(lambda: grass.job(id_)["reason"], "the loss is noticed")
    grass.ok("kill", "--grace", "0", str(id_))
    assert grass.until(id_, "cancelled")["outcome"] in ("unknown", "cancelled")
    # The child that cleared its environment has left its parent's tree: only the others can be known for sure.
    assert not is_alive(tree[0])
    kill_all(tree)


def test_a_killed_launcher_is_replaced(grass: Grass) -> None:
    running = grass.gated("go")
    grass.until(running, "running")
    launcher = grass.launcher_pid()
    end(launcher)
    assert eventually(lambda: grass.launcher_pid() != launcher and grass.launcher_pid(), "another one starts")
    assert grass.run("echo", "next") == "next\n"
    grass.open_gate("go")
    assert grass.until(running, "succeeded")["exit_code"] == 0


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 255", 255)],
)
def test_run_ends_as_the_job_did(grass: Grass, script: str, code: int) -> None:
    done = grass("run", "--", "sh", "-c", f"echo said; {script}")
    assert (done.code, done.out) == (code, "said\n"), done


def test_run_and_sync_return_what_became_of_the_job(grass: Grass) -> None:
    """F40: --sync waits and returns the job's exit code; 127 for what could not be started, 1 for a cancelled one."""
    assert grass("enqueue", "--sync", "--", "sh", "-c", "exit 6").code == 6
    tool = grass.write("tool", "#!/nowhere/interpreter\n", 0o755)
    vanished = grass("run", str(tool))
    assert vanished.code == 127 and "interpreter" in vanished.err
    follower = grass.start("run", "sleep", "1000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: [job for job in grass.jobs() if job["state"] == "running"], "it runs")
    grass.ok("kill", "@")
    assert b"cancelled" in follower.communicate(timeout=DEADLINE_S)[1]
    assert follower.returncode == 1


def test_the_checkpoint_directory_is_kept_for_a_rerun(grass: Grass) -> None:
    """T36."""
    count = 'echo x >> "$GRASS_CHECKPOINT_DIR/n"; wc -l < "$GRASS_CHECKPOINT_DIR/n"; exit 1'
    id_ = grass.enqueue("sh", "-c", count)
    grass.until(id_, "failed")
    grass.ok("rerun", str(id_))
    grass.until(id_ + 1, "failed")
    assert [grass.log(id_).strip(), grass.log(id_ + 1).strip()] == ["1", "2"]


def test_results_stay_in_the_run_dir(grass: Grass) -> None:
    id_ = grass.enqueue("sh", "-c", 'echo "{}" > "$GRASS_RESULT_FILE"')
    grass.until(id_, "succeeded")
    assert (grass.home / "jobs" / str(id_) / "1" / "files" / "result.json").read_text() == "{}\n"
    assert Path(grass.home / "jobs" / str(id_)).stat().st_mode & 0o077 == 0


def test_a_result_is_kept_with_the_job(grass: Grass) -> None:
    written = grass.enqueue("sh", "-c", 'echo \'{"loss": 0.25, "steps": [1, 2]}\' > "$GRASS_RESULT_FILE"')
    assert grass.until(written, "succeeded")["result"] == {"loss": 0.25, "steps": [1, 2]}
    assert grass.until(grass.enqueue("true"), "succeeded")["result"] is None


def test_an_unusable_result_is_told(grass: Grass) -> None:
    job = grass.until(grass.enqueue("sh", "-c", 'echo loss=0.25 > "$GRASS_RESULT_FILE"'), "succeeded")
    assert (job["result"], job["error"]) == (
        None,
        "the result file is unusable: Expecting value: line 1 column 1 (char 0)",
    )


def test_a_failed_job_may_leave_a_result(grass: Grass) -> None:
    job = grass.until(grass.enqueue("sh", "-c", 'echo 7 > "$GRASS_RESULT_FILE"; exit 3'), "failed")
    assert (job["result"], job["exit_code"]) == (7, 3)
