"""Both READMEs Grass began with, typed word for word; only the directory /data/ is another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.world import Grass, eventually

TRAIN = """\
import os, sys
print("gpu", os.environ.get("CUDA_VISIBLE_DEVICES"))
print("args", *sys.argv[1:])
print("cwd", os.getcwd())
"""

FIRST_BLOCK = """\
grass create-queue exp1 --cpu=32 --gpu=2
grass enqueue exp1 --gpu=1 -- CUDA_VISIBLE_DEVICES={gpu} python train.py

grass create-queue exp2 --cpu=32 --gpu=[2,3]
for lr in 0.01 0.1
do
    grass enqueue exp2 --gpu=0.5 -- CUDA_VISIBLE_DEVICES={gpu} python train_exp2.py --lr=$lr
done

grass info
"""

FIRST_LOOP = """\
import os

for lr in [0.01, 0.1]:
    for batch_size in [8, 16, 32]:
        os.system("grass enqueue exp1 --gpu=1 --cwd=/data/ -- CUDA_VISIBLE_DEVICES={gpu} python train.py")
"""

SECOND_BLOCK = """\
grass create-queue job1 --capacity "{gpu:4,cpu:16}" main.py arg1
grass enqueue --require "{gpu:1}" --env "CUDA_VISIBLE_DEVICES={gpu}" job1 arg2 arg3
grass enqueue --require "{gpu:0.5}" --env "CUDA_VISIBLE_DEVICES={gpu}" job2 arg2 arg3
grass enqueue  python train.py
"""

SECOND_LOOP = """\
import os

for lr in [0.01, 0.1]:
    for batch_size in [8, 16, 32]:
        os.system("grass enqueue --require '{gpu:0.5}' --cwd=/data/ --env='CUDA_VISIBLE_DEVICES={gpu}' -- python train.py lr=%s batch_size=%s" % (lr,batch_size))
"""  # noqa: E501


@pytest.fixture
def user(grass: Grass) -> Grass:
    """Somebody with nothing but stand-ins for the READMEs' programs: no settings, no daemon."""
    del grass.env["GRASS_CAPACITY"]
    for name in ("train.py", "main.py", "train_exp2.py"):
        grass.write(name, TRAIN)
    return grass


def data(user: Grass) -> Path:
    directory = user.cwd / "data"
    directory.mkdir()
    (directory / "train.py").write_text(TRAIN)
    return directory


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="a machine with GPUs may have no devices 2 and 3")
def test_the_first_readme_works_as_typed_in_a_fresh_home(user: Grass) -> None:
    """F1, F2, F7, F9, F14, F21, F22 (shell loop), F23."""
    done = user.bash(FIRST_BLOCK)
    assert done.code == 0, done
    assert "train.py" in done.out and "exp2" in done.out, "grass info prints the jobs"
    one, two, three = user.ended(1, 2, 3)
    assert [job["state"] for job in (one, two, three)] == ["succeeded"] * 3
    assert one["command"] == ["python", "train.py"], "the leading word became environment"
    assert user.log(1).splitlines() == ["gpu 0", "args", f"cwd {user.cwd}"]
    assert user.log(2).splitlines()[:2] == ["gpu 2", "args --lr=0.01"]
    assert user.log(3).splitlines()[1] == "args --lr=0.1"
    assert user.log(3).splitlines()[0] in ("gpu 2", "gpu 3")
    exp1 = user.queue("exp1")["limits"]
    assert exp1 == {"cpu": 32.0, "gpu": {"0": 1.0, "1": 1.0}}
    assert set(user.queue("exp2")["limits"]["gpu"]) == {"2", "3"}


def test_the_first_readmes_python_loop_submits_six_jobs(user: Grass) -> None:
    """F9, F20, F22: six jobs, one per turn of the loop, in /data/."""
    directory = data(user)
    user.ok("create-queue", "exp1", "--cpu=32", "--gpu=2")
    user.write("loop.py", FIRST_LOOP.replace("/data/", f"{directory}/"))
    done = user.program("python", "loop.py")
    assert done.code == 0 and done.err == "", done
    assert len(set(done.out.splitlines())) == 6
    jobs = user.ended(*range(1, 7))
    assert {job["state"] for job in jobs} == {"succeeded"}
    assert user.log(6).splitlines()[2] == f"cwd {directory}"


def test_the_second_readme_works_as_typed(user: Grass) -> None:
    """F3, F6, F8, F11, F12, F13, F24, T21: `grass daemon` in one terminal, the other lines in the next."""
    daemon = user.start("daemon")
    eventually((user.home / "grass.sock").exists, "the daemon listens")
    done = user.bash(SECOND_BLOCK)
    assert done.code == 0, done
    assert "job2" in done.err and "Traceback" not in done.err
    assert user.until(1, "succeeded")["queue"] == "job1"
    assert user.log(1).splitlines() == ["gpu 0", "args arg1 arg2 arg3", f"cwd {user.cwd}"]
    assert user.until(3, "succeeded")["queue"] == "default"
    assert user.log(3).splitlines()[0] == "gpu None"
    waiting = user.job(2)
    assert waiting["state"] == "waiting" and "job2" in waiting["reason"]
    user.ok("create-queue", "job2", "--capacity", "{gpu:4,cpu:16}", "main.py", "first")
    user.until(2, "succeeded")
    assert user.log(2).splitlines()[:2] == ["gpu 0", "args first arg2 arg3"]
    assert daemon.poll() is None, "the daemon stays in the foreground"


def test_the_second_readmes_python_loop_submits_six_jobs(user: Grass) -> None:
    """F4, F11, F13, F20, F22: the loop names no queue, so its jobs wait in `default` until gpus are known."""
    directory = data(user)
    user.ok("create-queue", "job1", "--capacity", "{gpu:4,cpu:16}", "main.py", "arg1")
    user.write("loop.py", SECOND_LOOP.replace("/data/", f"{directory}/"))
    done = user.program("python", "loop.py")
    assert done.code == 0, done
    jobs = user.ended(*range(1, 7))
    assert {(job["state"], job["queue"]) for job in jobs} == {("succeeded", "default")}
    arguments = {tuple(job["command"][2:]) for job in jobs}
    assert arguments == {(f"lr={lr}", f"batch_size={size}") for lr in (0.01, 0.1) for size in (8, 16, 32)}
    gpu, args, cwd = user.log(1).splitlines()
    assert gpu in {f"gpu {id_}" for id_ in range(4)} and args == "args lr=0.01 batch_size=8"
    assert cwd == f"cwd {directory}"


def test_the_queues_of_the_multi_node_part_work_on_one_machine(user: Grass) -> None:
    """F3 (--capacity before the name), F5, F6, F10: `print` and `cifar100` without --broker."""
    tools = user.cwd / "tools"
    tools.mkdir()
    (tools / "lpr").write_text('#!/bin/sh\necho "lpr $*"\n')
    (tools / "lpr").chmod(0o755)
    user.env["PATH"] = f"{tools}:{user.env['PATH']}"
    done = user.bash(
        'grass create-queue --capacity "{gpu:4}" cifar100 python train.py\n'
        'grass create-queue --capacity "{printer:1}" print lpr\n'
        'grass enqueue --require "{printer:1}" print paper.pdf\n'
        'grass enqueue --require "{gpu:1}" cifar100 --lr=0.01\n'
        "grass show\n"
    )
    assert done.code == 0 and done.err == "", done
    user.until(1, "succeeded")
    assert user.log(1) == "lpr paper.pdf\n"
    user.until(2, "succeeded")
    assert user.log(2).splitlines()[1] == "args --lr=0.01"
