"""The daemon killed with SIGKILL at any moment: no job lost, none twice, every exit code and log byte kept."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.world import BIN, DEADLINE_S, FINAL, Grass, end, eventually, is_alive

from grassq.errors import GrassError
from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.encoding import new_key

JOBS = 60
SLOTS = 2
KILLS = 25

#: Notes its start and end in a ledger under a lock, writes a log that can be checked, and ends with a code of its own.
PROBE = """\
import fcntl, hashlib, os, sys, time

def note(what):
    with open("ledger", "a") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        ids = (os.environ["GRASS_JOB_ID"], os.environ["GRASS_ATTEMPT"], os.environ["GRASS_GPU"])
        ledger.write(" ".join((what, *ids, str(os.getpid()), repr(time.monotonic()))) + "\\n")

note("start")
job = os.environ["GRASS_JOB_ID"]
for number in range(20):
    os.write(1 + number % 2, f"{job} {number} ".encode() + b"x" * 200 + b"\\n")
    time.sleep(float(sys.argv[1]) / 20)
note("end")
sys.exit(hashlib.sha256(job.encode()).digest()[0])
"""


class Note(NamedTuple):
    """One line of the ledger."""

    what: str
    job: int
    attempt: int
    gpu: str
    pid: int
    at: float


def ledger(grass: Grass) -> list[Note]:
    lines = (grass.cwd / "ledger").read_text().splitlines()
    notes = (line.split() for line in lines)
    return [Note(what, int(job), int(n), gpu, int(pid), float(at)) for what, job, n, gpu, pid, at in notes]


def code_of(job: int) -> int:
    return hashlib.sha256(str(job).encode()).digest()[0]


def log_of(job: int) -> str:
    return "".join(f"{job} {number} " + "x" * 200 + "\n" for number in range(20))


def most_at_once(notes: list[Note]) -> int:
    """How many jobs held the device at the same time, by what they noted themselves."""
    running = most = 0
    for note in sorted(notes, key=lambda each: each.at):
        running += 1 if note.what == "start" else -1
        most = max(most, running)
    return most


def let_pass(seconds: float) -> None:
    """Not to wait for anything: a crash may come at any moment, and this chooses one."""
    time.sleep(seconds)


def kill_at_some_moment(grass: Grass, dice: random.Random) -> None:
    """Kill the daemon; what ran runs on under the same pid, or has ended."""
    before = {job["id"]: job["pid"] for job in grass.jobs() if job["state"] == "running" and job["pid"]}
    let_pass(dice.uniform(0.0, 0.25))
    grass.crash()
    after = {job["id"]: job for job in grass.jobs()}
    for id_, pid in before.items():
        assert after[id_]["state"] in (*FINAL, "running"), after[id_]
        assert after[id_]["state"] != "running" or after[id_]["pid"] == pid


@pytest.mark.timeout(300)
def test_sixty_jobs_run_once_each_through_twenty_five_kills(grass: Grass) -> None:
    """F36, promises 1 to 5, seeded."""
    grass.write("probe.py", PROBE)
    grass.ok("create-queue", "q", f"--gpu={SLOTS}")
    dice = random.Random(20260)
    jobs = [
        {"command": [sys.executable, "probe.py", f"{dice.uniform(0.0, 0.25):.3f}"], "queue": "q", "request": {"gpu": 1}}
        for _ in range(JOBS)
    ]
    env = {os.fsencode(name): os.fsencode(value) for name, value in grass.env.items()}
    with grass.client() as client:
        ids = client.submit(jobs, Sender(os.fsencode(grass.cwd), env, 0o22))["ids"]
    for _ in range(KILLS):
        kill_at_some_moment(grass, dice)
    grass.ended(*ids)
    notes = ledger(grass)
    assert Counter((note.what, note.job) for note in notes) == {(w, id_): 1 for w in ("start", "end") for id_ in ids}
    assert {note.attempt for note in notes} == {1}
    for gpu in ("0", "1"):
        assert most_at_once([note for note in notes if note.gpu == gpu]) == 1
    ended = {job["id"]: job for job in grass.jobs()}
    assert {id_: ended[id_]["exit_code"] for id_ in ids} == {id_: code_of(id_) for id_ in ids}
    with grass.client() as client:
        logs = {id_: b"".join(client.log(id_)).decode() for id_ in ids}
        assert client.info()["strays"] == []
    assert [id_ for id_ in ids if logs[id_] != log_of(id_)] == []
    assert grass.queue("q")["free"]["gpu"] == {"0": 1.0, "1": 1.0}


def test_five_pending_jobs_survive_a_kill_and_run(grass: Grass) -> None:
    """F34."""
    grass.ok("pause")
    ids = [grass.enqueue("sh", "-c", f"echo {number}") for number in range(5)]
    grass.crash()
    assert grass.states() == ["queued"] * 5
    grass.ok("resume")
    assert {job["state"] for job in grass.ended(*ids)} == {"succeeded"}
    assert [grass.log(id_) for id_ in ids] == [f"{number}\n" for number in range(5)]


def test_everything_that_was_said_is_still_true_after_a_kill(grass: Grass) -> None:
    """Queues, pauses, holds, priorities and waiting jobs."""
    grass.ok("create-queue", "q", "--gpu=2", "echo", "first")
    grass.ok("pause", "q")
    held = grass.enqueue("--hold", "--name", "fit", "true")
    queued = grass.enqueue("--gpu=1", "q", "word")
    grass.ok("enqueue", "--gpu=1", "later", "true")
    grass.ok("priority", str(queued), "44")
    before = grass.json("show", "all")
    grass.crash()
    after = grass.json("show", "all")
    for part in ("jobs", "queues", "totals", "paused"):
        assert after[part] == before[part]
    grass.ok("release", str(held))
    grass.ok("resume")
    grass.ended(held, queued)
    assert grass.log(queued) == "first word\n"


def test_a_running_job_keeps_its_pid_and_its_device(grass: Grass) -> None:
    grass.ok("create-queue", "q", "--gpu=1")
    waits = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 9"
    id_ = grass.enqueue("q", "--gpu=1", "--", "sh", "-c", waits)
    next_one = grass.enqueue("q", "--gpu=1", "--", "true")
    pid = grass.until(id_, "running")["pid"]
    for _ in range(3):
        grass.crash()
        assert is_alive(pid)
        job = grass.until(id_, "running")
        assert (job["pid"], job["attempt"]) == (pid, 1)
        assert grass.job(next_one)["state"] == "queued"
    grass.open_gate("go")
    assert grass.until(id_, "failed")["exit_code"] == 9
    assert grass.log(id_) == "one\ntwo\n"
    grass.until(next_one, "succeeded")


def test_an_end_without_a_daemon_is_known_to_the_next(grass: Grass) -> None:
    """A job that ends, one that is killed and one whose shim is killed, all while nobody looks."""
    ended, killed, lost = (grass.gated(gate) for gate in ("go", "never", "never"))
    pids = {id_: grass.until(id_, "running")["pid"] for id_ in (ended, killed, lost)}
    shim = grass.shim_of(lost)
    grass.crash()
    grass.open_gate("go")
    end(pids[killed])
    os.kill(shim, signal.SIGSTOP)
    end(pids[lost])
    end(shim)
    eventually(lambda: not any(map(is_alive, pids.values())), "all are gone")
    assert grass.until(ended, *FINAL)["state"] == "succeeded"
    assert grass.until(killed, *FINAL)["signal"] == 9
    job = grass.until(lost, *FINAL)
    assert (job["state"], job["outcome"]) == ("failed", "unknown")


def test_a_kill_asked_for_before_the_crash_happens_after_it(grass: Grass) -> None:
    id_ = grass.enqueue("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done")
    eventually(lambda: grass.log(id_) == "up\n", "it is deaf")
    pid = grass.job(id_)["pid"]
    grass.ok("kill", "--grace", "1s", str(id_))
    grass.crash()
    assert grass.until(id_, *FINAL)["state"] == "cancelled"
    assert not is_alive(pid)


def test_a_daemon_killed_during_submissions_loses_none_that_was_acknowledged(grass: Grass) -> None:
    """Commands start the daemon again by themselves; each prints one id, and each id is one job."""
    grass.ok("pause")
    dice = random.Random(7)
    calls = []
    for number in range(16):
        calls.append(grass.start("enqueue", "-q", "echo", str(number), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        if number % 4 == 3:
            let_pass(dice.uniform(0.0, 0.1))
            grass.crash()
    done = [(call.communicate(timeout=DEADLINE_S), call.returncode) for call in calls]
    assert {code for _, code in done} == {0}, done
    ids = {int(out): str(number) for number, ((out, _), _) in enumerate(done)}
    assert len(ids) == 16
    stored = {job["id"]: job["command"][1] for job in grass.jobs()}
    assert stored == ids


@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.05, 0.07, 0.1])
def test_a_command_killed_while_submitting_leaves_one_job_or_none(grass: Grass, delay_s: float) -> None:
    grass.ok("pause")
    call = grass.start("enqueue", "-q", "echo", "x", stdout=subprocess.PIPE)
    let_pass(delay_s)
    call.kill()
    printed = call.communicate()[0]
    stored = [job["id"] for job in grass.jobs()]
    assert stored in ([], [1])
    assert not printed or stored == [int(printed)]


def test_the_same_key_gives_the_same_id_across_a_crash(grass: Grass) -> None:
    key, env = new_key(), {b"PATH": b"/bin:/usr/bin"}
    jobs = [{"command": ["true"]}, {"command": ["false"]}]

    def submit() -> list[int]:
        with grass.client() as client:
            ids: list[int] = client.submit(jobs, Sender(b"/", env, 0o22), key=key)["ids"]
        return ids

    first = submit()
    grass.crash()
    assert submit() == first
    grass.ended(*first)
    grass.ok("restart")
    assert submit() == first and len(grass.jobs()) == 2


def test_a_lost_job_runs_again_only_if_it_said_so(grass: Grass) -> None:
    """--on-lost requeue: a second attempt, after the first one's processes are gone."""
    again = grass.enqueue(
        "--on-lost", "requeue", "sh", "-c", "echo $GRASS_ATTEMPT; until [ -e go ]; do sleep 0.02; done"
    )
    shim, pid = grass.shim_of(again), grass.job(again)["pid"]
    grass.crash()
    os.kill(shim, signal.SIGSTOP)
    end(pid)
    end(shim)
    eventually(lambda: grass.job(again)["attempt"] == 2, "it is started anew")
    grass.open_gate("go")
    grass.until(again, "succeeded")
    assert grass.log(again) == "2\n" and grass.ok("log", "--attempt", "1", str(again)) == "1\n"


def test_a_client_that_cannot_start_a_daemon_says_unreachable(grass: Grass) -> None:
    grass.ok("start")
    grass.crash()
    with ApiClient(str(grass.home), autostart=False) as client, pytest.raises(GrassError, match="no daemon"):
        client.info()


def test_a_machine_full_of_jobs_is_recovered(grass: Grass) -> None:
    """Forty short jobs at once, the daemon killed in the middle, and its successor killed while it recovers."""
    grass.ok("create-queue", "q", "--gpu=1")
    env = {os.fsencode(name): os.fsencode(value) for name, value in grass.env.items()}
    jobs = [{"command": ["sh", "-c", "echo $$"], "queue": "q", "request": {"gpu": 0.1}} for _ in range(40)]
    with grass.client() as client:
        ids = client.submit(jobs, Sender(os.fsencode(grass.cwd), env, 0o22))["ids"]
    for _ in range(3):
        grass.crash()
        subprocess.run([BIN / "grass", "start"], env=grass.env, check=True, capture_output=True)
    ended = grass.ended(*ids)
    assert {(job["state"], job["attempt"]) for job in ended} == {("succeeded", 1)}
    logs = [Path(grass.home / "jobs" / str(id_) / "1" / "log").read_text() for id_ in ids]
    assert all(log.count("\n") == 1 for log in logs), "each ran exactly once"
