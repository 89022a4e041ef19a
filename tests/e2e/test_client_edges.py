"""Where clients meet dying daemons, Ctrl-C, full disks and logs that shrink."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e.world import DEADLINE_S, Done, Grass, eventually

WAYS = b"`grass follow 1` shows its output again, `grass kill 1` ends it\n"
WAITS = "until [ -e go ]; do sleep 0.02; done"


def shrank(size: int) -> bytes:
    """The mark of a log that lost what it had."""
    return b"\n[grass: the log shrank at %d bytes]\n" % size


@pytest.mark.parametrize("words", [("log",), ("follow",)])
def test_a_log_is_whole_though_the_daemon_dies_while_it_is_read(grass: Grass, words: tuple[str, ...]) -> None:
    """The reader does not read on before the daemon is dead, so the first answer cannot have been whole."""
    data = bytes(range(256)) * (64 << 10)
    (grass.cwd / "data").write_bytes(data)
    grass.until(grass.enqueue("cat", "data"), "succeeded")
    reader = grass.start(*words, "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert reader.stdout is not None
    first = reader.stdout.read(1)
    grass.crash()
    rest, error = reader.communicate(timeout=DEADLINE_S)
    assert (reader.returncode, error) == (0, b"")
    assert first + rest == data


def test_a_log_that_shrinks_is_marked_and_followed_from_its_new_start(grass: Grass) -> None:
    script = f"echo before the cut; {WAITS}; exec > /dev/stdout; echo new; until [ -e end ]; do sleep 0.02; done"
    id_ = grass.enqueue("sh", "-c", script)
    follower = grass.start("follow", str(id_), stdout=subprocess.PIPE)
    assert follower.stdout is not None and follower.stdout.readline() == b"before the cut\n"
    grass.open_gate("go")
    assert b"".join(follower.stdout.readline() for _ in range(3)) == shrank(15) + b"new\n"
    grass.crash()  # and the next connection goes on behind what was read of the new start
    grass.open_gate("end")
    assert follower.communicate(timeout=DEADLINE_S)[0] == b""
    assert (follower.returncode, grass.log(id_)) == (0, "new\n")


def test_a_log_that_shrinks_as_its_job_ends_is_marked_too(grass: Grass) -> None:
    id_ = grass.enqueue("sh", "-c", f"echo before the cut; {WAITS}; : > /dev/stdout")
    follower = grass.start("follow", str(id_), stdout=subprocess.PIPE)
    assert follower.stdout is not None and follower.stdout.readline() == b"before the cut\n"
    grass.open_gate("go")
    assert follower.communicate(timeout=DEADLINE_S)[0] == shrank(15)
    assert follower.returncode == 0


@pytest.mark.parametrize("words", [("run", "-q", "--split"), ("follow",), ("log", "-f")])
def test_an_interrupted_follower_of_two_streams_detaches_at_once(grass: Grass, words: tuple[str, ...]) -> None:
    command = ("sh", "-c", f"echo one; {WAITS}")
    rest = command if words[0] == "run" else (str(grass.enqueue("--split", "--", *command)),)
    follower = grass.start(*words, *rest, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout is not None and follower.stdout.readline() == b"one\n"
    follower.send_signal(signal.SIGINT)
    error = follower.communicate(timeout=5)[1]
    assert (follower.returncode, error) == (130, b"grass: detached; job 1 is not stopped: " + WAYS)
    assert grass.job(1)["state"] == "running"


def test_a_follower_of_two_streams_outlives_the_daemon(grass: Grass) -> None:
    script = f"echo one; echo first >&2; {WAITS}; echo two; echo second >&2"
    follower = grass.start(
        "run", "-q", "--split", "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert follower.stdout is not None and follower.stdout.readline() == b"one\n"
    grass.crash()
    grass.open_gate("go")
    assert follower.communicate(timeout=DEADLINE_S) == (b"two\n", b"first\nsecond\n")
    assert follower.returncode == 0


def test_a_waiting_thread_does_not_hold_up_the_others(grass: Grass) -> None:
    id_ = grass.gated("go")
    with grass.client() as client:
        ends: list[bool] = []
        waiter = threading.Thread(target=lambda: ends.append(client.wait([str(id_)], timeout_s=30)["done"]))
        waiter.start()
        # A wait that had taken the one connection would answer only after the gate opens, which needs this answer.
        eventually(lambda: client.show([str(id_)])["jobs"][0]["state"] == "running", "the job runs", 10.0)
        grass.open_gate("go")
        waiter.join(DEADLINE_S)
    assert ends == [True]


def test_an_id_that_cannot_be_printed_is_told_on_stderr(grass: Grass) -> None:
    done = _onto_full(grass, "enqueue", "true")
    assert (done.code, done.err) == (1, "grass: job 1 is stored, but stdout: No space left on device\n")
    grass.until(1, "succeeded")
    done = _onto_full(grass, "run", "-q", "echo", "hello")
    assert done.code == 1
    assert done.err == "grass: the log of job 2 is incomplete: stdout: No space left on device\n"


def _onto_full(grass: Grass, *words: str) -> Done:
    with Path("/dev/full").open("wb") as full:
        process = grass.start(*words, stdout=full, stderr=subprocess.PIPE)
        error = process.communicate(timeout=DEADLINE_S)[1]
    return Done(process.returncode, "", error.decode())
