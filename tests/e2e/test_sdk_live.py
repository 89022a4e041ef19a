"""The SDK against a real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from tests.e2e.world import Grass, is_alive

import grassq
from grassq.errors import BadInput, NotFound, Refused
from grassq.sdk import JobFailed


def test_submit_wait_and_log(client: grassq.Client, grass: Grass) -> None:
    """The first submit starts the daemon."""
    with client:
        job = client.submit(["sh", "-c", "pwd; echo $FLAVOUR"], env={"FLAVOUR": "mine"}, name="fit")
        assert job.result(timeout=30) is None and job.exit_code == 0
        assert job.log() == f"{grass.cwd}\nmine\n"
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
        job.result(timeout=30)
        assert (job.log_bytes(), job.log()) == (b"0 \xff", "0 \ufffd")
        split = client.submit("echo out; echo err >&2", split=True)
        split.wait(timeout=30)
        assert (client.log(split, stream="out"), client.log(split, stream="err")) == ("out\n", "err\n")
        assert split.log() == "out\nerr\n"
        with pytest.raises(BadInput, match="follow"):
            next(split.follow())
        assert list(split.follow(stream="err")) == ["err"]


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
        outer.result(timeout=30)
        inner = int(outer.log())
        client.wait(inner, timeout=30)
        assert client.log(inner) == "inner\n"


def test_a_client_survives_the_daemon_and_a_fork(client: grassq.Client, grass: Grass) -> None:
    with client:
        client.submit(["true"]).result(timeout=30)
        grass.crash()
        assert client.submit(["true"]).wait(timeout=30).exit_code == 0
        child = os.fork()
        if child == 0:
            os._exit(client.submit(["sh", "-c", "exit 0"]).wait(timeout=30).exit_code or 0)
        assert os.waitpid(child, 0)[1] == 0
        assert client.submit(["true"]).wait(timeout=30).id == 4


def test_a_script_of_three_lines(grass: Grass) -> None:
    script = grass.write(
        "grid.py", 'import grassq\nwith grassq.Client() as grass:\n    print(grass.submit("true").wait().exit_code)\n'
    )
    done = subprocess.run([sys.executable, script], env=grass.env, cwd=grass.cwd, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0\n", b"")


def test_the_result_is_what_the_job_wrote_to_its_result_file(client: grassq.Client) -> None:
    with client:
        job = client.submit("""echo '{"loss": 0.5, "epochs": [1, 2]}' > $GRASS_RESULT_FILE""")
        assert job.result(timeout=30) == {"loss": 0.5, "epochs": [1, 2]}
        assert client.job(job.id).info["result"] == {"loss": 0.5, "epochs": [1, 2]}


def test_the_error_of_a_failed_job_has_the_last_lines_of_its_log(client: grassq.Client) -> None:
    with client:
        job = client.submit("echo first; printf '10%%\\r20%%\\n'; printf '\\033[31mred\\n' >&2; exit 7")
        error = job.exception(timeout=30)
        assert isinstance(error, JobFailed)
        assert str(error) == f"job {job.id} failed: exit code 7\n  | first\n  | 20%\n  | \\x1b[31mred"
        assert error.log_tail == "first\n10%\r20%\n\x1b[31mred\n"
        assert client.submit("true").exception(timeout=30) is None


def test_a_job_for_a_queue_that_is_not_there_is_refused_unless_it_shall_wait(
    client: grassq.Client, grass: Grass
) -> None:
    grass.ok("create-queue", "exp1")
    with client:
        with pytest.raises(NotFound, match="there is no queue 'ex1'; did you mean 'exp1'"):
            client.submit(["true"], queue="ex1")
        with pytest.raises(NotFound, match="there is no queue 'ex1'"):
            client.submit_many([["true"]], queue="ex1")
        grass.nothing_was_stored()
        with pytest.warns(UserWarning, match="there is no queue 'ex1' yet") as told:
            job = client.submit(["true"], queue="ex1", wait_for_queue=True)
        assert told[0].filename == __file__
        assert client.create_queue("ex1") == "created"
        job.result(timeout=30)


@pytest.mark.parametrize("begin", ["hold", "pause"])
def test_a_wait_for_a_job_that_cannot_start_is_never_silent(client: grassq.Client, begin: str) -> None:
    with client:
        if begin == "pause":
            client.pause("default")
        job = client.submit(["true"], hold=begin == "hold")
        with pytest.warns(grassq.CannotStartWarning, match=f"job {job.id} cannot start") as told:
            assert grassq.wait([job], timeout=0.1).not_done == {job}
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error", grassq.CannotStartWarning)
            with pytest.raises(grassq.CannotStartWarning):
                job.result()
            with pytest.raises(grassq.CannotStartWarning):
                next(job.follow())


def test_a_job_that_is_held_while_a_program_waits_is_told_of(client: grassq.Client, grass: Grass) -> None:
    grass.ok("create-queue", "q", "--cpu=1")
    with client:
        first = client.submit(["sleep", 1000], queue="q")
        second = client.submit(["true"], queue="q")
        grass.until(first.id, "running")
        holder = threading.Timer(0.1, second.hold)
        with pytest.warns(grassq.CannotStartWarning, match=f"job {second.id} cannot start: held"):
            holder.start()
            with pytest.raises(TimeoutError):
                second.result(timeout=5)
        holder.join()
        first.kill(grace_s=0)


def test_verbs_change_jobs_as_the_command_line_does(client: grassq.Client) -> None:
    with client:
        job = client.submit(["true"], hold=True, name="fit")
        assert job.set_priority(50).refresh().info["priority"] == 50
        assert "held" in job.why()
        with pytest.warns(UserWarning, match="cannot start"), pytest.raises(TimeoutError):
            client.wait("fit", timeout=0.05)
        assert job.release().wait(timeout=30).state == "succeeded"
        with pytest.warns(UserWarning, match="is not held"):
            job.release()
        again = job.rerun()
        assert again.wait(timeout=30).info["rerun_of"] == job.id
        assert client.job("@") == again
        failed = client.submit("exit 1").wait(timeout=30)
        [second] = client.rerun(failed=True)
        assert second.wait(timeout=30).info["rerun_of"] == failed.id
        assert client.clean("fit") == 2
        with pytest.raises(NotFound):
            client.job(job.id)


def test_a_state_may_match_no_job_but_a_name_must(client: grassq.Client) -> None:
    with client:
        assert client.jobs("failed") == client.jobs([]) == []
        job = client.submit("exit 1").wait(timeout=30)
        assert client.jobs("running", "failed") == client.jobs("running,failed") == [job]
        with pytest.raises(NotFound):
            client.jobs("nosuch")


def test_queues_are_made_listed_paused_and_deleted(client: grassq.Client) -> None:
    with client:
        assert client.create_queue("q", ["echo", 1], gpu=[0, 2], capacity={"printer": 1}, env={"A": 7}) == "created"
        [queue] = [queue for queue in client.queues() if queue["name"] == "q"]
        assert (queue["limits"]["gpu"], queue["prefix"]) == ({"0": 1.0, "2": 1.0}, ["echo", "1"])
        client.pause("q")
        assert [queue["paused"] for queue in client.queues() if queue["name"] == "q"] == [True]
        client.resume("q")
        assert client.submit(["$A", "{gpu}"], queue="q", gpu=1).wait(timeout=30).log() == "1 $A 0\n"
        client.delete_queue("q")
        assert "q" not in {queue["name"] for queue in client.queues()}


def test_a_sweep_fills_in_each_word_by_itself(client: grassq.Client) -> None:
    with client:
        jobs = client.sweep(["echo", "{lr}:{name}", "{{cpu}}"], {"lr": [0.1, 1e-5], "name": ["a b", "$HOME"]}, name="s")
        assert client.wait("s", timeout=30) == jobs
        assert [job.log() for job in jobs] == ["0.1:a b 1\n", "0.1:$HOME 1\n", "1e-05:a b 1\n", "1e-05:$HOME 1\n"]
        lines = client.sweep("echo {n} | cat", {"n": range(50)}, samples=2, seed=1)
        again = client.sweep("echo {n} | cat", {"n": range(50)}, samples=2, seed=1)
        client.wait(lines, again, timeout=30)
        assert [job.log() for job in lines] == [job.log() for job in again] and len(lines) == 2
        with pytest.raises(BadInput, match="'lr' are a list"):
            client.sweep(["echo", "{lr}"], {"lr": "0.1"})


def test_lines_are_followed_as_they_are_written(client: grassq.Client, grass: Grass) -> None:
    with client:
        job = client.submit("echo one; while [ ! -e go ]; do sleep 0.05; done; echo zwei ü; printf end")
        lines = job.follow()
        assert next(lines) == "one"
        grass.write("go", "")
        assert list(lines) == ["zwei ü", "end"]
        assert job.log(tail=2) == "zwei ü\nend"
        assert list(job.follow(tail=1)) == ["end"]
