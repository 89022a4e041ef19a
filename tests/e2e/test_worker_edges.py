"""Where daemon, worker and jobs meet badly: a job that starts the daemon, and a daemon one part of which fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.world import DEADLINE_S, Grass, end, eventually, is_alive

from grassq.errors import InvalidMove

# Loaded by every interpreter: in the daemon, a part fails once the file exists.
FAILING = """
import os, sys
if "daemon" in sys.orig_argv:
    from {module} import {owner}
    whole = {owner}.{method}
    def fail(self, *args):
        if os.path.exists({trigger!r}):
            raise KeyError("broken on purpose")
        return whole(self, *args)
    {owner}.{method} = fail
"""


def submits_once_the_daemon_is_gone(grass: Grass, then: str) -> int:
    """A job that waits until there is no daemon and then submits another, which starts one below it."""
    script = f"until [ -e go ]; do sleep 0.02; done; grass enqueue -- sleep 600; {then}"
    id_ = grass.enqueue("sh", "-c", script)
    grass.until(id_, "running")
    grass.ok("stop")
    grass.open_gate("go")
    eventually((grass.home / "jobs" / str(id_ + 1)).exists, "the job starts a daemon")
    grass.until(id_ + 1, "running")
    return id_


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_daemon_that_a_job_started_outlives_it_with_all_it_runs(grass: Grass) -> None:
    id_ = submits_once_the_daemon_is_gone(grass, "until [ -e on ]; do sleep 0.02; done; sleep 600 & exit 4")
    daemon, other, shim = grass.daemon_pid(), grass.job(id_ + 1)["pid"], grass.shim_of(id_)
    assert parent(daemon) == shim, "otherwise this test tests nothing"
    grass.open_gate("on")
    assert grass.until(id_, "failed")["exit_code"] == 4
    eventually(lambda: not is_alive(shim), "the shim leaves the daemon to init")
    assert is_alive(daemon) and grass.daemon_pid() == daemon
    assert grass.until(id_ + 1, "running")["pid"] == other and is_alive(other)
    assert grass.run("echo", "serves") == "serves\n"


def test_killing_the_job_that_started_the_daemon_kills_nothing_else(grass: Grass) -> None:
    id_ = submits_once_the_daemon_is_gone(grass, "sleep 600")
    daemon, other = grass.daemon_pid(), grass.job(id_ + 1)["pid"]
    grass.ok("kill", "--grace", "1s", str(id_))
    grass.until(id_, "cancelled")
    assert is_alive(daemon) and is_alive(other)
    assert grass.until(id_ + 1, "running")["pid"] == other


def test_jobs_of_a_daemon_that_a_job_started_outlive_both(grass: Grass) -> None:
    """When that daemon is stopped in its turn, its shims fall to the shim of the job that started it."""
    id_ = submits_once_the_daemon_is_gone(grass, "until [ -e on ]; do sleep 0.02; done")
    other, shim = grass.job(id_ + 1)["pid"], grass.shim_of(id_)
    grass.ok("restart")
    eventually(lambda: parent(parent(other)) == shim, "the other job's shim falls to ours")
    grass.open_gate("on")
    grass.until(id_, "succeeded")
    assert grass.until(id_ + 1, "running")["pid"] == other and is_alive(other)


def test_only_what_a_store_in_memory_left_is_removed_at_a_start(grass: Grass) -> None:
    daemon = grass.start("daemon", "--store=memory")
    eventually(lambda: (grass.home / "grass.sock").exists(), "it listens")
    end(daemon.pid)
    (left,) = grass.home.glob("memory.*")
    precious = ["memory.txt", "memory.5", "memory.x7"]
    for name in precious:
        (grass.home / name).mkdir()
        (grass.home / name / "notes").write_text("mine")
    elsewhere = grass.cwd / "elsewhere"
    left.rename(elsewhere)
    (grass.home / "memory.9").symlink_to(elsewhere)
    copy = grass.home / "memory.11"
    grass.bash(f"cp -a {elsewhere} {copy}")
    grass.ok("start")
    assert not copy.exists()
    assert {path.name for path in grass.home.glob("memory.*")} == {*precious, "memory.9"}
    assert all((grass.home / name / "notes").exists() for name in precious)
    assert any(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("module", "owner", "method"),
    [("grassq.worker.agent", "Agent", "tick"), ("grassq.broker.engine", "Engine", "_act")],
    ids=["the worker", "the engine"],
)
def test_a_daemon_a_part_of_which_failed_ends_and_the_next_command_starts_another(
    grass: Grass, module: str, owner: str, method: str
) -> None:
    trigger, patches = grass.cwd / "fail", grass.cwd / "patches"
    patches.mkdir()
    text = FAILING.format(module=module, owner=owner, method=method, trigger=str(trigger))
    (patches / "sitecustomize.py").write_text(text)
    grass.env["PYTHONPATH"] = str(patches)
    id_ = grass.gated("go")
    pid, daemon = grass.until(id_, "running")["pid"], grass.daemon_pid()
    trigger.touch()
    if owner == "Engine":
        grass("show", timeout_s=DEADLINE_S)
    eventually(lambda: not is_alive(daemon), "the daemon ends")
    trigger.unlink()
    grass.ok("stop")
    assert "broken on purpose" in (grass.home / "daemon.log").read_text()
    assert is_alive(pid) and grass.until(id_, "running")["pid"] == pid
    grass.open_gate("go")
    grass.until(id_, "succeeded")


def test_a_queue_cannot_hand_out_a_setting(grass: Grass) -> None:
    """GRASS_STORE of a job would be the store of a daemon the job starts."""
    grass.refuses(2, "create-queue", "q", "--store=2")


def test_a_move_that_makes_no_sense_tells_no_secrets() -> None:
    from tests.builders import a_job

    from grassq.core.states import Release, advance

    job = a_job()
    with pytest.raises(InvalidMove) as caught:
        advance(job, Release(), 0.0)
    assert str(job.id) in str(caught.value) and "Spec(" not in str(caught.value)
