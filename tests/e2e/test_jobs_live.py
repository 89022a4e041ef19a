"""What a job is given: environment, directory, umask, streams, devices; and what becomes of its output."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.world import BIN, DEADLINE_S, Grass, end, eventually, is_alive

ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def environment_of(grass: Grass, *words: str, **env: str) -> dict[str, str]:
    shown: dict[str, str] = json.loads(grass.run(*words, sys.executable, "-c", ENVIRONMENT, env=env))
    return shown


def test_a_job_runs_as_its_submitter_would(grass: Grass) -> None:
    """Environment, directory and umask are the submitter's, not the daemon's."""
    grass.ok("start", env={"FLAVOUR": "the daemon's"})
    place = grass.cwd / "a place"
    place.mkdir()
    done = grass.bash(f'cd "{place}"; umask 027; FLAVOUR=mine grass enqueue sh -c "umask; pwd; env; touch made"')
    assert done.code == 0, done
    grass.until(1, "succeeded")
    umask, pwd, *env = grass.log(1).splitlines()
    assert (umask, pwd) == ("0027", str(place))
    assert "FLAVOUR=mine" in env
    assert (place / "made").stat().st_mode & 0o777 == 0o640


def test_a_job_is_told_who_it_is(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=[3,4]")
    words = ("--gpu=1.5", "--name", "fit", "q")
    env = environment_of(
        grass, *words, GRASS_JUNK="x", GRASS_JOB_ID="999", GRASS_BROKER="local", CUDA_VISIBLE_DEVICES="9"
    )
    folder = grass.home / "jobs" / "1"
    ours = {name: value for name, value in env.items() if name.startswith("GRASS_")}
    assert ours == {
        "GRASS_HOME": str(grass.home),
        "GRASS_BROKER": "local",
        "GRASS_JOB_ID": "1",
        "GRASS_JOB_NAME": "fit",
        "GRASS_QUEUE": "q",
        "GRASS_ATTEMPT": "1",
        "GRASS_RUN_DIR": str(folder / "1" / "files"),
        "GRASS_RESULT_FILE": str(folder / "1" / "files" / "result.json"),
        "GRASS_CHECKPOINT_DIR": str(folder / "checkpoint"),
        "GRASS_GPU": "3,4",
        "GRASS_WORKER": grass.json("show")["workers"][0]["name"],
    }
    assert env["CUDA_VISIBLE_DEVICES"] == "3,4", "an inherited value is replaced"
    assert all(Path(ours[name]).is_dir() for name in ("GRASS_RUN_DIR", "GRASS_CHECKPOINT_DIR"))


def test_cuda_visible_devices_is_the_jobs_own_if_it_says_so(grass: Grass) -> None:
    """T14."""
    grass.ok("create-queue", "q", "--gpu=2")
    inherited = {"CUDA_VISIBLE_DEVICES": "7"}
    assert environment_of(grass, "q", "--gpu=1", "--", **inherited)["CUDA_VISIBLE_DEVICES"] == "0"
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(grass, "q", **inherited), "removed when it holds no gpu"
    chosen = environment_of(grass, "q", "--gpu=1", "--", "CUDA_VISIBLE_DEVICES=5", **inherited)
    assert chosen["CUDA_VISIBLE_DEVICES"] == "5"
    assert environment_of(grass, "--env", "CUDA_VISIBLE_DEVICES=6", "q")["CUDA_VISIBLE_DEVICES"] == "6"


def test_a_job_that_names_no_amount_takes_one_cpu(grass: Grass) -> None:
    assert environment_of(grass)["GRASS_CPU"] == "1"
    assert grass.job(1)["request"] == {"cpu": 1}


def test_stdin_is_empty_and_nothing_else_is_open(grass: Grass) -> None:
    grass.write("fds", "#!/bin/sh\ncat; ls -l /proc/self/fd | grep -o '[0-9]* ->.*'\n", 0o755)
    lines = grass.run("./fds").splitlines()
    assert lines[0] == "0 -> /dev/null"
    log = str(grass.home / "jobs" / "1" / "1" / "log")
    # ls itself opens the directory it lists, through grep's pipe.
    assert [line for line in lines if line.startswith("2 ")] == [f"2 -> {log}"]
    assert len(lines) == 4, lines


def test_signals_are_as_a_shell_would_give_them(grass: Grass) -> None:
    blocked, ignored = re.findall(r"Sig(?:Blk|Ign):\s+(\w+)", grass.run("cat", "/proc/self/status"))
    # glibc's posix_spawn leaves its own two signals, 32 and 33, ignored; no program can see or use them.
    assert (int(blocked, 16), int(ignored, 16) & ~(3 << 31)) == (0, 0)


def test_a_job_has_the_limits_the_daemon_was_born_with(grass: Grass) -> None:
    """The daemon raises its own limit of open files; jobs do not get that."""
    done = grass.bash("ulimit -Sn 567; grass start")
    assert done.code == 0, done
    assert grass.run("sh", "-c", "ulimit -Sn").strip() == "567"


ALTERNATING = """\
import os
for number in range(500):
    os.write(1, b"out %d\\n" % number)
    os.write(2, b"err %d\\n" % number)
"""


def test_the_log_has_both_streams_in_order(grass: Grass) -> None:
    """F66, T22: 1000 alternating lines, byte for byte."""
    expected = "".join(f"out {number}\nerr {number}\n" for number in range(500))
    assert grass.run(sys.executable, "-c", ALTERNATING) == expected


def test_split_keeps_the_streams_apart(grass: Grass) -> None:
    id_ = grass.enqueue("--split", sys.executable, "-c", ALTERNATING)
    grass.until(id_, "succeeded")
    out, err = (grass.ok("log", stream, str(id_)) for stream in ("--out", "--err"))
    assert out == "".join(f"out {number}\n" for number in range(500))
    assert err == out.replace("out", "err")
    assert grass.log(id_) == out + err


def test_a_large_log_is_kept_byte_for_byte(grass: Grass) -> None:
    """Four megabytes of anything, read back by `log`, `follow` and `run`."""
    data = random.Random(4).randbytes(4 << 20)
    (grass.cwd / "data").write_bytes(data)
    for words in (("run", "cat", "data"), ("log", "1"), ("follow", "1")):
        argv = [BIN / "grass", *words]
        done = subprocess.run(argv, cwd=grass.cwd, env=grass.env, capture_output=True, timeout=60, check=True)
        assert done.stdout == data, words


def test_run_keeps_split_streams_apart(grass: Grass) -> None:
    done = grass("run", "-q", "--split", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done == (3, "out\n", "err\n")


def test_a_job_that_has_not_started_has_no_log(grass: Grass) -> None:
    id_ = grass.enqueue("--hold", "true")
    assert f"job {id_} has not started" in grass.refuses(3, "log", str(id_))


def test_a_log_is_readable_while_the_job_runs(grass: Grass) -> None:
    waits = "echo one; until [ -e go ]; do sleep 0.02; done; echo two"
    id_ = grass.enqueue("sh", "-c", waits)
    eventually(lambda: grass.log(id_) == "one\n", "the first line is there")
    assert grass.job(id_)["state"] == "running"
    grass.open_gate("go")
    grass.until(id_, "succeeded")
    assert grass.log(id_) == "one\ntwo\n"
    assert grass.ok("log", "--tail", "1", "@") == "two\n"


@pytest.mark.parametrize("words", [("log", "-f"), ("follow",)])
def test_follow_writes_what_comes_and_ends_with_the_job(grass: Grass, words: tuple[str, ...]) -> None:
    waits = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4"
    id_ = grass.enqueue("sh", "-c", waits)
    follower = grass.start(*words, str(id_), stdout=subprocess.PIPE)
    assert follower.stdout is not None and follower.stdout.readline() == b"one\n"
    grass.open_gate("go")
    assert follower.communicate(timeout=DEADLINE_S)[0] == b"two\n"
    assert follower.returncode == 1
    assert grass(*words, str(id_)) == (1, "one\ntwo\n", "")


def test_a_follower_outlives_the_daemon(grass: Grass) -> None:
    id_ = grass.enqueue("sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
    follower = grass.start("follow", str(id_), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout is not None and follower.stdout.readline() == b"one\n"
    grass.crash()
    grass.open_gate("go")
    assert follower.communicate(timeout=DEADLINE_S) == (b"two\n", b"")
    assert follower.returncode == 0


def test_a_follower_sees_every_try_of_a_job(grass: Grass) -> None:
    """Followed from before its first start, and tried again: both tries are written whole."""
    grass.ok("create-queue", "q", "--gpu=1")
    grass.gated("go", "q", "--gpu=1")
    script = "echo try $GRASS_ATTEMPT; exit 5"
    follower = grass.start("run", "--tries=2", "q", "--gpu=1", "--", "sh", "-c", script, stdout=subprocess.PIPE)
    eventually(lambda: len(grass.jobs()) == 2, "the job is stored")
    grass.open_gate("go")
    assert follower.communicate(timeout=DEADLINE_S)[0] == b"try 1\ntry 2\n"
    assert follower.returncode == 5


def test_an_interrupted_follower_detaches_and_says_so(grass: Grass) -> None:
    """Exit 130, and the job keeps running."""
    follower = grass.start(
        "run",
        "sh",
        "-c",
        "echo one; until [ -e go ]; do sleep 0.02; done",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert follower.stdout is not None and follower.stdout.readline() == b"one\n"
    follower.send_signal(signal.SIGINT)
    error = follower.communicate(timeout=DEADLINE_S)[1]
    assert follower.returncode == 130 and b"detached" in error
    assert grass.job(1)["state"] == "running"
    grass.open_gate("go")
    grass.until(1, "succeeded")


def test_bytes_that_are_no_text_reach_the_job(grass: Grass) -> None:
    """Arguments, environment and directory are bytes."""
    strange = b"\xff\xfe nested \x80\n'\"\\ end"
    place = os.fsencode(grass.cwd) + b"/dir-\xff"
    Path(os.fsdecode(place)).mkdir()
    script = "import os, sys; os.write(1, os.fsencode(sys.argv[1]) + b'|' + os.environb[b'V'] + b'|' + os.getcwdb())"
    env = {**{os.fsencode(name): os.fsencode(value) for name, value in grass.env.items()}, b"V": b"v\xff"}
    argv = [os.fsencode(word) for word in (BIN / "grass", "enqueue", "-q", sys.executable, "-c", script)]
    subprocess.run([*argv, strange], cwd=place, env=env, check=True, capture_output=True)
    grass.until(1, "succeeded")
    with grass.client() as client:
        assert b"".join(client.log(1)) == strange + b"|v\xff|" + place
    assert "\\xff" in grass.job(1)["command"][-1]
    assert "\\xff" in grass.ok("show", "1")


def test_a_job_survives_the_terminal_it_was_typed_in(grass: Grass) -> None:
    """The session is hung up, its leader killed: job and daemon run on."""
    shell, terminal = pty.fork()
    if shell == 0:
        os.chdir(grass.cwd)
        script = (
            f"{BIN}/grass enqueue sh -c 'echo on; until [ -e go ]; do sleep 0.02; done; echo still'; exec sleep 1000"
        )
        os.execve("/bin/sh", ["sh", "-c", script], grass.env)
    try:
        eventually(lambda: (grass.home / "jobs" / "1").exists(), "the job is submitted from the terminal")
        pid, daemon = grass.until(1, "running")["pid"], grass.daemon_pid()
        os.kill(shell, signal.SIGHUP)
        end(shell)
    finally:
        os.close(terminal)
        os.waitpid(shell, 0)
    assert is_alive(pid) and is_alive(daemon)
    assert os.getsid(pid) == pid and os.getsid(daemon) not in (shell, os.getsid(0))
    grass.open_gate("go")
    grass.until(1, "succeeded")
    assert grass.log(1) == "on\nstill\n"


def test_environments_are_stored_once(grass: Grass) -> None:
    """A large environment submitted many times does not grow the store by it each time."""
    grass.ok("pause")
    large = {"BULK": "x" * 100_000}
    for _ in range(12):
        grass.ok("enqueue", "-q", "true", env=large)
    grass.ok("stop")
    assert (grass.home / "store.db").stat().st_size < 600_000


def test_a_program_may_be_a_script_without_the_mode(grass: Grass) -> None:
    """T21: PATH, then the directory; a .py that is not executable runs under Python."""
    grass.write("main.py", "print('under python')")
    assert grass.run("main.py") == "under python\n"
    grass.write("tool", "#!/bin/sh\necho local\n", 0o755)
    assert grass.run("tool") == "local\n"


def test_a_shell_line_runs_in_a_shell(grass: Grass) -> None:
    """T11."""
    assert grass.run("--shell", "echo a | tr a b; echo $((1+1))") == "b\n2\n"
    job = grass.job(1)
    assert job["shell"] is True and job["command"] == ["echo a | tr a b; echo $((1+1))"]
