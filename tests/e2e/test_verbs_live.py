"""The other verbs: wait, rerun, hold, release, clean, selectors, and JSON everywhere."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest
from tests.e2e.world import DEADLINE_S, Grass, eventually

from grassq.home import Sender

JOB_FIELDS = {
    "id", "name", "queue", "state", "reason", "command", "shell", "request", "allocation", "worker", "attempt", "pid",
    "exit_code", "signal", "outcome", "rerun_of", "created", "started", "finished",
}  # fmt: skip


def test_wait_says_how_it_went(grass: Grass) -> None:
    """0 all succeeded, 1 one did not, 124 not in time; of all only what has not ended counts."""
    good, bad = grass.enqueue("true"), grass.enqueue("false")
    assert grass("wait", str(good)).code == 0
    failed = grass("wait", f"{good}-{bad}")
    assert failed.code == 1 and f"job {bad} failed (exit 1)" in failed.err
    slow = grass.gated("go")
    late = grass("wait", "--timeout", "0.1s", str(slow))
    assert (late.code, late.err) == (124, "grass: timed out after 0.1s; 1 of 1 job unfinished\n")
    assert grass("wait", "--any", "--timeout=10s", str(good), str(slow)).code == 0
    grass.open_gate("go")
    assert grass("wait", "all").code == 0
    assert grass("wait") == grass("wait", "default") == (0, "", ""), "nothing is left to wait for"


def test_wait_ends_when_the_last_job_does(grass: Grass) -> None:
    ids = [grass.gated(f"go{number}") for number in range(3)]
    waiter = grass.start("wait", "all", stderr=subprocess.PIPE)
    for number in (2, 0):
        grass.open_gate(f"go{number}")
    grass.ended(ids[0], ids[2])
    assert waiter.poll() is None
    grass.open_gate("go1")
    assert waiter.wait(DEADLINE_S) == 0


def test_wait_survives_the_daemon(grass: Grass) -> None:
    id_ = grass.gated("go")
    waiter = grass.start("wait", str(id_), stderr=subprocess.PIPE)
    grass.until(id_, "running")
    grass.crash()
    grass.open_gate("go")
    assert waiter.wait(DEADLINE_S) == 0


def test_an_interrupted_wait_leaves_the_jobs_alone(grass: Grass) -> None:
    id_ = grass.gated("go")
    grass.until(id_, "running")
    waiter = grass.start("wait", str(id_), stderr=subprocess.PIPE)
    # In its long poll it holds a connection; before that an interrupt could hit the interpreter's start.
    eventually(lambda: connected(waiter.pid), "it waits")
    waiter.send_signal(signal.SIGINT)
    assert waiter.wait(DEADLINE_S) == 130
    assert grass.job(id_)["state"] == "running"
    grass.open_gate("go")


def connected(pid: int) -> bool:
    status = subprocess.run(["ls", "-l", f"/proc/{pid}/fd"], capture_output=True, text=True, check=False).stdout
    return "socket:" in status


def test_rerun_is_a_new_job_like_the_old_one(grass: Grass) -> None:
    """F75: new id, same command and requirement, the old record kept."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.enqueue("--gpu=1", "--name", "fit", "q", "sh", "-c", "echo $FLAVOUR; exit 3", env={"FLAVOUR": "mine"})
    old = grass.until(id_, "failed")
    assert f"job {id_ + 1} is a rerun of job {id_}" in grass.ok("rerun", str(id_))
    new = grass.until(id_ + 1, "failed")
    assert [new[key] for key in ("command", "request", "queue", "name", "cwd")] == [
        old[key] for key in ("command", "request", "queue", "name", "cwd")
    ]
    assert new["rerun_of"] == id_ and grass.job(id_) == old
    assert grass.log(id_ + 1) == "mine\n"
    running = grass.gated("go")
    assert "not ended" in grass.refuses(5, "rerun", str(running))
    grass.open_gate("go")


def test_a_held_job_waits_for_its_release(grass: Grass) -> None:
    held = grass.enqueue("--hold", "true")
    assert grass.job(held)["state"] == "held"
    grass.ok("pause")
    queued = grass.enqueue("true")
    grass.ok("hold", str(queued))
    grass.ok("resume")
    assert grass.run("echo", "others go on") == "others go on\n"
    assert [grass.job(id_)["state"] for id_ in (held, queued)] == ["held", "held"]
    assert f"grass release {held}" in grass.ok("why", str(held))
    grass.ok("release", str(held), str(queued))
    grass.ended(held, queued)


def test_a_running_job_cannot_be_held(grass: Grass) -> None:
    """Exit 5."""
    id_ = grass.gated("go")
    grass.until(id_, "running")
    assert "runs already" in grass.refuses(5, "hold", str(id_))
    grass.open_gate("go")
    grass.until(id_, "succeeded")
    grass.refuses(5, "hold", str(id_))


def test_clean_removes_what_ended_and_never_what_runs(grass: Grass) -> None:
    done, failed, running = grass.enqueue("true"), grass.enqueue("false"), grass.gated("go")
    grass.ended(done, failed)
    grass.until(running, "running")
    assert "removed 0" in grass.ok("clean", "--older", "7d")
    assert "removed 1" in grass.ok("clean", "failed")
    assert not (grass.home / "jobs" / str(failed)).exists()
    assert "removed 1" in grass.ok("clean", "--yes")
    assert [job["id"] for job in grass.jobs()] == [running]
    grass.open_gate("go")
    grass.until(running, "succeeded")
    assert grass.json("clean", "--yes")["ids"] == [running]
    assert grass.enqueue("true") == running + 1, "an id is never used again"


def test_selectors_name_jobs_in_every_way(grass: Grass) -> None:
    """Id, range, list, @, @~1, all, a state, a queue, a name; `queue:` and `name:` force."""
    grass.ok("create-queue", "q", "--cpu=8")
    grass.ok("create-queue", "empty", "--cpu=1")
    grass.ok("pause", "q")
    ids = [
        grass.enqueue("q", "true"),
        grass.enqueue("--name", "fit", "q", "true"),
        grass.enqueue("--name", "q", "true"),
    ]
    grass.until(ids[2], "succeeded")

    def chosen(*selectors: str) -> list[int]:
        return [job["id"] for job in grass.json("show", *selectors)["jobs"]]

    assert chosen("2") == [2]
    assert chosen("2-9") == [2, 3]
    assert chosen("1,3") == [1, 3]
    assert (chosen("@"), chosen("@~1")) == ([3], [2])
    assert chosen("all") == [1, 2, 3]
    assert (chosen("succeeded"), chosen("queued")) == ([3], [1, 2])
    assert chosen("q") == chosen("queue:q") == [1, 2], "a queue wins over a name"
    assert (chosen("name:q"), chosen("fit")) == ([3], [2])
    assert chosen("1", "@") == [1, 3]
    assert chosen("empty") == [], "an existing queue without jobs is no error"


def test_the_set_is_fixed_when_the_command_runs(grass: Grass) -> None:
    first = grass.gated("go")
    waiter = grass.start("wait", "all", stderr=subprocess.PIPE)
    eventually(lambda: connected(waiter.pid), "it waits")
    later = grass.gated("go2")
    grass.open_gate("go")
    grass.until(first, "succeeded")
    assert waiter.wait(DEADLINE_S) == 0
    grass.until(later, "running")
    grass.open_gate("go2")


def test_show_and_info_have_the_whole_job(grass: Grass) -> None:
    """F21, T8, F76."""
    grass.ok("create-queue", "q", "--gpu=1")
    id_ = grass.gated("go", "q", "--gpu=1", "--name", "fit")
    pid = grass.until(id_, "running")["pid"]
    for verb in ("show", "info", "status"):
        document = grass.json(verb)
        assert document["schema"] == 1 and document["more"] is False
        assert set(document) >= {"jobs", "queues", "workers", "totals"} and document["totals"] == {"running": 1}
        job = document["jobs"][0]
        assert set(job) >= JOB_FIELDS
        assert (job["pid"], job["allocation"], job["attempt"]) == (pid, {"gpu": {"0": 1.0}}, 1)
        assert job["created"].endswith("Z") and job["finished"] is None
        text = grass.ok(verb)
        assert all(word in text for word in ("fit", "q", "running", "gpu:0", str(pid)))
    grass.open_gate("go")
    grass.until(id_, "succeeded")
    assert "succeeded" in grass.ok("info") and "ok" in grass.ok("info")


def test_show_without_a_selector_is_bounded_and_says_so(grass: Grass) -> None:
    grass.ok("pause")
    with grass.client() as client:
        client.submit([{"command": ["true"]}] * 150, Sender(b"/", {b"PATH": b"/bin:/usr/bin"}, 0o22))
    document = grass.json("show")
    assert [job["id"] for job in document["jobs"]] == list(range(1, 101))
    assert document["more"] is True and document["totals"] == {"queued": 150}
    assert len(grass.json("show", "all")["jobs"]) == 150
    assert "grass show all" in grass("show").err
    assert grass.ok("kill", "-q", "all").split() == [str(id_) for id_ in range(1, 151)]


def test_a_failed_try_is_followed_by_another(grass: Grass) -> None:
    """--tries: each attempt has its own log."""
    script = "echo try $GRASS_ATTEMPT; test $GRASS_ATTEMPT = 2"
    id_ = grass.enqueue("--tries=3", "sh", "-c", script)
    job = grass.until(id_, "succeeded")
    assert (job["attempt"], job["exit_code"]) == (2, 0)
    assert (grass.log(id_), grass.ok("log", "--attempt=1", str(id_))) == ("try 2\n", "try 1\n")


def test_jobs_killed_at_once_never_start_twice_and_never_stay(grass: Grass) -> None:
    """A kill that overtakes the start, the start that overtakes the kill, and all in between."""
    tool = grass.write("tool", "#!/bin/sh\necho started\nexec sleep 1000\n", 0o755)
    env = {b"PATH": b"/bin:/usr/bin"}
    with grass.client() as client:
        for _ in range(30):
            [id_] = client.submit([{"command": [str(tool)]}], Sender(b"/", env, 0o22))["ids"]
            client.kill([str(id_)], grace_s=0)
        eventually(lambda: client.wait(["all"], timeout_s=5)["done"], "all end")
        assert {job["state"] for job in client.show(["all"])["jobs"]} == {"cancelled"}
        for id_ in range(1, 31):
            assert b"".join(client.log(id_)) in (b"", b"started\n")


def test_enqueue_prints_the_id_in_three_ways(grass: Grass) -> None:
    assert grass("enqueue", "true") == (0, "job 1 queued in default\n", "")
    assert grass("enqueue", "-q", "true") == (0, "2\n", "")
    assert json.loads(grass.ok("enqueue", "--json", "true")) == {"id": 3, "queue": "default", "state": "queued"}


@pytest.mark.parametrize(
    ("words", "state"),
    [(["true"], "queued"), (["--hold", "true"], "held"), (["--queue", "later", "true"], "waiting")],
)
def test_what_enqueue_prints_has_the_state_of_the_job(grass: Grass, words: list[str], state: str) -> None:
    grass.ok("pause")
    one = json.loads(grass.ok("enqueue", "--json", *words))
    assert one["state"] == state == grass.job(one["id"])["state"]
    assert grass.ok("enqueue", *words) == f"job 2 {state} in {one['queue']}\n"


def test_a_paused_queue_is_seen_at_its_jobs(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--cpu=1")
    grass.ok("pause", "q")
    grass.ok("enqueue", "q", "--", "true")
    words = "queue q is paused; `grass resume q` lets it go on"
    assert grass.job(1)["reason"] == words
    assert f"reason    {words}" in grass.ok("show", "1") and "queued (queue q is paused)" in grass.ok("show")
    assert grass.json("why", "1")["jobs"][0]["reason"] == words


def test_pausing_everything_names_the_queues_and_quiet_commands_print_names_only(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--cpu=1")
    assert grass.json("pause") == {"all": True, "queues": ["default", "q"], "notes": []}
    assert grass.json("resume", "q") == {
        "all": True,
        "queues": ["default", "q"],
        "notes": ["everything is paused; `grass resume` lets all queues go on"],
    }
    assert grass.json("resume") == {"all": False, "queues": [], "notes": []}
    assert grass.ok("pause", "-q") == "" and grass.ok("resume", "--quiet") == ""
    assert grass.ok("pause", "-q", "q") == "q\n" and grass.json("resume", "q")["queues"] == []
    held = [grass.enqueue("--hold", "true") for _ in range(3)]
    assert grass.ok("show", "-q", "held") == "".join(f"{id_}\n" for id_ in held)
    [worker] = grass.json("show")["workers"]
    assert grass.ok("drain", "-q", worker["name"]) == f"{worker['name']}\n"
    assert grass.ok("delete-queue", "-q", "q") == "q\n"


def test_a_job_that_asks_for_nothing_says_so(grass: Grass) -> None:
    grass.ok("pause")
    grass.ok("enqueue", "--cpu=0", "true")
    assert grass.job(1)["request"] == {}
    assert "request   nothing" in grass.ok("show", "1") and "needs nothing" in grass.ok("show")
    assert "job 1 (nothing, queue default)" in grass.ok("why", "1")


def test_the_totals_come_in_the_order_of_a_jobs_life(grass: Grass) -> None:
    grass.run("true")
    assert grass("run", "false").code == 1
    grass.ok("pause")
    for words in (["true"], ["--hold", "true"], ["--queue", "later", "true"]):
        grass.ok("enqueue", *words)
    order = ["held", "waiting", "queued", "succeeded", "failed"]
    assert list(grass.json("show")["totals"]) == order
    grass.ok("restart")
    assert list(grass.json("show")["totals"]) == order


def test_everything_that_prints_data_prints_json(grass: Grass) -> None:
    """Data on stdout, messages on stderr."""
    grass.json("create-queue", "q", "--cpu=99")
    held = grass.enqueue("--hold", "q", "true")
    for words in (
        ("show",), ("info",), ("status",), ("why", "1"), ("release", "1"), ("wait", "1"), ("rerun", "1"),
        ("wait", "all"), ("pause", "q"), ("resume",), ("doctor",), ("clean", "--yes"), ("delete-queue", "q"),
        ("start",), ("restart",), ("stop",),
    ):  # fmt: skip
        document = grass.json(*words)
        assert isinstance(document, dict), words
    assert held == 1
    again = grass.enqueue("--hold", "true")
    changes: list[tuple[str, ...]] = [("hold", str(again)), ("priority", str(again), "31"), ("kill", str(again))]
    for change in changes:
        assert grass.json(*change)["jobs"][0]["id"] == again


@pytest.mark.parametrize("command", ["", "enqueue", "run", "create-queue", "show", "daemon", "kill", "wait", "log"])
def test_help_needs_no_daemon(grass: Grass, command: str) -> None:
    """F53."""
    words = [command] if command else []
    assert grass.ok(*words, "--help") == grass.ok("help", *words)
    assert not grass.home.exists()


def test_both_names_of_the_command_are_one(grass: Grass) -> None:
    id_ = grass.enqueue("true")
    done = grass.program("grassq", "wait", str(id_))
    assert done.code == 0, done
    assert grass.program("python", "-m", "grassq", "--version").out == grass.ok("--version")
