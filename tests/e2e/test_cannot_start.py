"""Jobs that cannot start are named at once by what waits for them; --strict makes it an error."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable

import pytest
from tests.e2e.world import DEADLINE_S, Grass


def held(grass: Grass) -> str:
    return f"job {grass.enqueue('--hold', 'true')} cannot start: held; `grass release"


def without_queue(grass: Grass) -> str:
    return f"job {grass.enqueue('--queue', 'nowhere', 'true')} cannot start: no queue 'nowhere' yet"


def paused(grass: Grass) -> str:
    grass.ok("pause", "default")
    return f"job {grass.enqueue('true')} cannot start: queue default is paused; `grass resume default`"


def never_fits(grass: Grass) -> str:
    grass.ok("create-queue", "q", "--cpu=4")
    grass.ok("pause", "q")
    id_ = grass.enqueue("q", "--cpu=4", "true")
    grass.ok("create-queue", "q", "--cpu=2")
    return f"job {id_} cannot start: no worker can run it: 4 cpu asked"


def without_disk(grass: Grass) -> str:
    # A file where the folder of job 1 would be: its run dir cannot be made, as on a full disk.
    grass.ok("start")
    (grass.home / "jobs").mkdir(exist_ok=True)
    (grass.home / "jobs" / "1").write_text("")
    return f"job {grass.enqueue('true')} cannot start: its run dir cannot be made"


CAUSES = [held, without_queue, paused, never_fits, without_disk]


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("words", [("wait",), ("follow",), ("log", "-f")], ids=" ".join)
def test_a_job_that_cannot_start_is_named_at_once(
    grass: Grass, cause: Callable[[Grass], str], words: tuple[str, ...]
) -> None:
    said = cause(grass)
    waiter = grass.start(*words, "1", stderr=subprocess.PIPE)
    assert waiter.stderr is not None
    assert select.select([waiter.stderr], [], [], DEADLINE_S)[0]
    assert waiter.stderr.readline().decode().startswith(f"grass: {said}")
    assert waiter.poll() is None, "it waits on"
    assert said in grass.refuses(5, *words, "--strict", "1")
    if cause is without_disk:
        (grass.home / "jobs" / "1").unlink()


def test_run_names_a_job_that_cannot_start(grass: Grass) -> None:
    grass.ok("pause")
    done = grass("run", "--strict", "true")
    assert (done.code, done.out) == (5, "")
    assert "job 1 cannot start: everything is paused; `grass resume` lets it go on (the job is not removed)" in done.err
    runner = grass.start("run", "-q", "true", stderr=subprocess.PIPE)
    assert runner.stderr is not None
    assert runner.stderr.readline().startswith(b"grass: job 2 cannot start: everything is paused")
    grass.ok("resume")
    assert runner.wait(DEADLINE_S) == 0
    assert grass("run", "--strict", "sh", "-c", "exit 3").code == 3


def test_of_many_jobs_that_cannot_start_a_few_are_named(grass: Grass) -> None:
    grass.ok("sweep", "echo {x}", "-p", "x", *map(str, range(9)), "--hold")
    done = grass("wait", "--timeout", "0.1s", "sweep-1")
    assert done.code == 124
    assert done.err.count("cannot start: held") == 5 and "4 more cannot start" in done.err


def test_a_job_that_never_started_has_no_log(grass: Grass) -> None:
    id_ = grass.enqueue("--hold", "true")
    assert f"job {id_} has not started (held)" in grass.refuses(3, "log", str(id_))
    grass.ok("kill", str(id_))
    assert f"job {id_} never started (cancelled)" in grass.refuses(3, "log", str(id_))
    assert grass("wait", str(id_)) == (1, "", f"grass: job {id_} cancelled; grass why {id_}\n")
    silent = grass.enqueue("true")
    grass.until(silent, "succeeded")
    assert grass("log", str(silent)) == (0, "", "")
    assert "has 1 attempt, no attempt 9" in grass.refuses(3, "log", "--attempt", "9", str(silent))


def test_ctrl_c_on_a_terminal_begins_a_new_line(grass: Grass) -> None:
    id_ = grass.enqueue("sh", "-c", "printf 'loss=0.020]'; until [ -e go ]; do sleep 0.02; done")
    near, far = pty.openpty()
    follower = grass.start("follow", str(id_), stdout=far, stderr=far)
    os.close(far)
    text = b""
    while b"0.020]" not in text:
        text += os.read(near, 1000)
    follower.send_signal(signal.SIGINT)
    while not text.endswith(b"ends it\r\n"):
        text += os.read(near, 1000)
    assert text.startswith(b"loss=0.020]\r\ngrass: detached; job 1 is not stopped"), text
    assert follower.wait(DEADLINE_S) == 130
    os.close(near)
    grass.open_gate("go")
