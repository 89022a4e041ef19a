"""The SDK against a real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.world import Grass, is_alive

import grassq
from grassq.errors import BadInput, NotFound, Refused
from grassq.sdk import JobFailed


@pytest.fixture
def client(grass: Grass, monkeypatch: pytest.MonkeyPatch) -> grassq.Client:
    """A client of a fresh home, in the place where commands are typed."""
    for name in ("GRASS_HOME", "GRASS_CAPACITY", "PATH"):
        monkeypatch.setenv(name, grass.env[name])
    monkeypatch.chdir(grass.cwd)
    return grassq.Client()


def test_submit_wait_and_log(client: grassq.Client, grass: Grass) -> None:
    """The first submit starts the daemon."""
    with client:
        job = client.submit(["sh", "-c", "pwd; echo $FLAVOUR"], env={"FLAVOUR": "mine"}, name="fit")
        assert job.result(timeout=30) == 0
        assert job.log() == f"{grass.cwd}\nmine\n".encode()
        assert job.done() and job.state == "succeeded"
        assert [each.id for each in client.jobs("fit")] == [job.id]
        assert client.home == str(grass.home)


def test_a_failure_says_how(client: grassq.Client) -> None:
    with client:
        failed = client.submit("exit 3")
        with pytest.raises(JobFailed, match="exit code 3") as caught:
            failed.result(timeout=30)
        assert (caught.value.code, caught.value.job.id) == (3, failed.id)


def test_kill_and_wait_for_many(client: grassq.Client, grass: Grass) -> None:
    with client:
        slow = client.submit(["sleep", "1000"])
        quick = [client.submit(["true"]) for _ in range(3)]
        with pytest.raises(TimeoutError):
            slow.wait(timeout=0.05)
        pid = grass.until(slow.id, "running")["pid"]
        slow.kill(grace_s=0)
        states = [job.info["state"] for job in client.wait(slow, *quick, timeout=30)]
        assert states == ["cancelled", "succeeded", "succeeded", "succeeded"]
        assert not is_alive(pid)


def test_devices_fractions_and_bytes(client: grassq.Client, grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=2")
    with client:
        job = client.submit([b"printf", b"%s", b"{gpu} \xff"], queue="q", gpu=0.5)
        assert job.result(timeout=30) == 0 and job.log() == b"0 \xff"
        split = client.submit("echo out; echo err >&2", split=True)
        split.wait(timeout=30)
        assert (client.log(split, stream="out"), client.log(split, stream="err")) == (b"out\n", b"err\n")


def test_what_is_refused_is_an_exception_and_nothing_is_stored(client: grassq.Client, grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=2")
    with client:
        with pytest.raises(Refused, match="never"):
            client.submit(["true"], queue="q", gpu=3)
        with pytest.raises(BadInput):
            client.submit(["nosuchprogram"])
        with pytest.raises(BadInput):
            client.submit(["true"], gpu=float("nan"))
        with pytest.raises(BadInput):
            client.submit(["true"], cwd="/nowhere/at/all")
        with pytest.raises(BadInput):
            client.submit([])
        with pytest.raises(NotFound):
            client.jobs("7")
    grass.nothing_was_stored()


def test_the_same_key_is_the_same_job(client: grassq.Client) -> None:
    with client:
        first, again = (client.submit(["true"], key="0" * 31 + "7") for _ in range(2))
        assert first.id == again.id and len(client.jobs("all")) == 1


def test_a_job_may_submit_jobs(client: grassq.Client, grass: Grass) -> None:
    """GRASS_HOME reaches the job, so the command line works inside it."""
    with client:
        outer = client.submit(f"{Path(sys.executable).parent}/grass enqueue -q echo inner")
        assert outer.result(timeout=30) == 0
        inner = int(outer.log())
        client.wait(inner, timeout=30)
        assert client.log(inner) == b"inner\n"


def test_a_client_survives_the_daemon_and_a_fork(client: grassq.Client, grass: Grass) -> None:
    with client:
        client.submit(["true"]).result(timeout=30)
        grass.crash()
        assert client.submit(["true"]).result(timeout=30) == 0
        child = os.fork()
        if child == 0:
            os._exit(0 if client.submit(["true"]).id == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.submit(["true"]).result(timeout=30) == 0


def test_a_script_of_three_lines(grass: Grass) -> None:
    script = grass.write(
        "grid.py", 'import grassq\nwith grassq.Client() as grass:\n    print(grass.submit("true").result())\n'
    )
    done = subprocess.run([sys.executable, script], env=grass.env, cwd=grass.cwd, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0\n", b"")
