"""kill -9 of a call, and of the daemon under it: nothing that was read is lost, and it is told what became of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import NoReturn

import pytest
from tests.compat.schedulers import GATE, Scheduler, others, processing, run_file
from tests.e2e.world import DEADLINE_S, end, eventually

from grassq.compat.event_reader import EventReader
from grassq.compat.simple_gpu_scheduler.killed_runs import FOLDER
from grassq.errors import Unreachable
from grassq.net.event_stream import EventStream

#: A daemon that waits a moment only for what its workers tell; else that is ten seconds.
HURRIED = (
    "import sys; from grassq.web.events import temporary_queues; temporary_queues.SETTLE_S = 1.0\n"
    "from grassq.cli.main import main; main(sys.argv[1:])"
)

#: Writes numbered lines, slowly, and ends when there is a gate.
COUNTS = "for i in $(seq {0}); do echo {1} $i; sleep 0.005; done; touch counted.{1}; " + GATE.format("gate")


def hurried(scheduler: Scheduler, *words: str) -> None:
    """Start that daemon and wait until it answers."""
    argv = [os.fsencode(word) for word in (sys.executable, "-c", HURRIED, "daemon", *words)]
    with (scheduler.cwd / "said").open("ab") as said:
        process = subprocess.Popen(argv, env=scheduler.env, cwd=scheduler.cwd, stdout=said, stderr=said)
    scheduler.foreground.append(process)
    lock = scheduler.home / "daemon.lock"
    eventually(lambda: lock.exists() and lock.read_text().strip() == str(process.pid), "it has the home")
    eventually(lambda: (scheduler.home / "grass.sock").exists() and scheduler.json("show"), "it answers")


def test_commands_of_a_call_that_was_killed_run_on_and_the_next_call_tells(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("echo one", "exit 3", f"touch begun; {GATE.format('gate')}", "echo four > four")
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 4, "all are handed over")
    end(call.pid, signal.SIGKILL)

    said = scheduler.piped("echo next\n", "--gpus", "1")
    assert (said.code, others(said.out)) == (0, ["next"])
    told = said.err.splitlines()
    assert told[0].startswith("simple_gpu_scheduler: the call of ") and f"(process {call.pid}) was killed" in told[0]
    assert told[0].endswith("of its commands: 1 succeeded, 1 failed, 1 running, 1 waiting")
    assert told[1:] == [
        "  job 2 failed (exit 3): exit 3",
        f"  job 3 running: touch begun; {GATE.format('gate')}",
        "  job 4 queued: echo four > four",
        "  job 1 succeeded: echo one",
        f"  unfinished commands go on; grass kill queue:{scheduler.job(1)['queue']} ends them",
    ]

    scheduler.open_gate("gate")
    scheduler.made("four")
    eventually(lambda: scheduler.job(4)["state"] == "succeeded", "the last one ends")
    assert "3 succeeded, 1 failed" in scheduler.piped("", "--gpus", "1").err
    assert scheduler.piped("", "--gpus", "1").err == ""
    assert not list((scheduler.home / FOLDER).iterdir())
    eventually(lambda: [q["name"] for q in scheduler.json("show")["queues"]] == ["default"], "the queues go")


def test_of_many_commands_some_are_told_and_where_the_others_are(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write(*["true"] * 30, f"touch begun; {GATE.format('gate')}")
    scheduler.made("begun")
    end(call.pid, signal.SIGKILL)
    told = scheduler.piped("", "--gpus", "0").err.splitlines()
    assert len(told) == 23 and told[1].startswith("  job 31 running: ")
    assert told[-2].startswith("  and 11 more: grass show queue:sgs-")
    listed = scheduler.ok(*told[-2].rpartition(": grass ")[2].split())
    assert listed.count("succeeded") == 30
    scheduler.ok(*told[-1].partition("; grass ")[2].partition(" ends")[0].split())
    eventually(lambda: scheduler.job(31)["state"] == "cancelled", "it is ended")


def test_a_daemon_that_is_killed_loses_no_line_and_doubles_none(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0", "1")
    call.write(COUNTS.format(300, "a"), COUNTS.format(300, "b"), "echo last")
    for number in range(3):
        call.until_out(f"\na {1 + 60 * number}\n")
        scheduler.crash()
        if number == 1:
            call.write("echo later")
    scheduler.made("counted.a")
    scheduler.made("counted.b")
    scheduler.open_gate("gate")
    assert call.end() == 0, call.err()
    written = others(call.out())
    for name in ("a", "b"):
        assert [line for line in written if line.startswith(name)] == [f"{name} {i}" for i in range(1, 301)]
    assert sorted(line for line in written if line.startswith("l")) == ["last", "later"]
    assert len(processing(call.out())) == 4 == len(scheduler.jobs())


def test_a_daemon_that_is_killed_while_nothing_happens_is_started_again(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("echo a")
    call.until_out("\na\n")
    scheduler.crash()
    call.write("echo b")
    call.until_out("\nb\n")
    assert call.end() == 0
    assert others(call.out()) == ["a", "b"]


def test_a_daemon_that_cannot_start_for_a_while_is_waited_for(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write(f"touch begun; {GATE.format('gate')}; echo a")
    scheduler.made("begun")
    (scheduler.home / "grass.toml").write_text("probe_s = -1\n")
    scheduler.crash()
    call.write("echo b")
    call.until_err("a setting is wrong")
    (scheduler.home / "grass.toml").unlink()
    scheduler.open_gate("gate")
    assert call.end() == 0
    assert others(call.out()) == ["a", "b"]


def test_a_queue_that_was_deleted_under_it_is_made_again(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write(f"touch begun; {GATE.format('gate')}; echo a", "echo b")
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 2, "both are handed over")
    scheduler.ok("delete-queue", scheduler.job(1)["queue"])
    scheduler.open_gate("gate")
    call.write("echo c")
    assert call.end() == 0
    assert others(call.out()) == ["a", "b", "c"]


def test_a_queue_that_was_deleted_under_a_call_whose_input_is_over_is_made_again(scheduler: Scheduler) -> None:
    lines = scheduler.file("lines", f"touch begun; {GATE.format('gate')}; echo a", "echo b")
    with lines.open("rb") as given:
        call = scheduler.call("--gpus", "0", stdin=given)
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 2, "both are handed over")
    queue = scheduler.job(1)["queue"]
    scheduler.ok("delete-queue", queue)
    eventually(lambda: queue in {q["name"] for q in scheduler.json("show")["queues"]}, "it is made again")
    scheduler.open_gate("gate")
    assert call.process.wait(DEADLINE_S) == 0, call.err()
    assert others(call.out()) == ["a", "b"]
    assert call.err().count("\n") <= 1, "and without many words"


def test_jobs_that_exist_no_more_are_told_and_not_waited_for(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0", "1")
    call.write(f"echo a; touch begun; {GATE.format('gate')}", f"touch two; {GATE.format('other')}; echo b")
    call.until_out("\na\n")
    scheduler.made("two")
    call.signal(signal.SIGSTOP)
    scheduler.crash()
    hurried(scheduler)
    scheduler.open_gate("gate")
    eventually(lambda: scheduler.job(1)["state"] == "succeeded", "one ends")
    scheduler.ok("clean", "1")
    call.signal(signal.SIGCONT)
    told = call.until_err("job 1 is gone: the daemon has no record of it, and its result is unknown\n")
    assert told.count("is gone") == 1
    scheduler.open_gate("other")
    assert call.end() == 1
    assert others(call.out()) == ["a", "b"]
    assert "1 succeeded, 1 failed, 0 not started" in call.err()


def test_a_daemon_whose_store_died_with_it_leaves_nobody_waiting(scheduler: Scheduler) -> None:
    hurried(scheduler, "--store", "memory")
    call = scheduler.call("--gpus", "0")
    call.write(f"touch begun; {GATE.format('gate')}; echo a", "echo b", "echo c")
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 3, "all are handed over")
    call.signal(signal.SIGSTOP)
    scheduler.crash()
    hurried(scheduler, "--store", "memory")
    call.signal(signal.SIGCONT)
    for job in (1, 2, 3):
        call.until_err(f"job {job} is gone: ")
    call.write("echo d")
    call.until_out("\nd\n")
    scheduler.open_gate("gate")
    assert call.end() == 1, call.err()
    assert "1 succeeded, 3 failed, 0 not started" in call.err()


def test_a_call_that_slept_while_its_queue_went_makes_it_again(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    eventually(lambda: (scheduler.home / FOLDER).exists(), "it is ready")
    [queue] = eventually(
        lambda: [q["name"] for q in scheduler.json("show")["queues"] if q["name"] != "default"], "it has a queue"
    )
    call.signal(signal.SIGSTOP)
    scheduler.crash()
    scheduler.ok("delete-queue", queue)
    call.signal(signal.SIGCONT)
    eventually(lambda: len(scheduler.json("show")["queues"]) == 2, "it is made again")
    call.write("echo a")
    assert call.end() == 0
    assert others(call.out()) == ["a"]


def test_both_are_killed_and_the_next_call_tells(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write(f"touch begun; {GATE.format('gate')}; echo done > done")
    scheduler.made("begun")
    end(call.pid, signal.SIGKILL)
    scheduler.crash()
    scheduler.open_gate("gate")
    scheduler.made("done")
    told = scheduler.piped("", "--gpus", "0").err
    assert "job 1 succeeded" in told or "job 1 running" in told
    eventually(lambda: scheduler.job(1)["state"] == "succeeded", "its end is known")
    scheduler.piped("", "--gpus", "0")
    assert scheduler.piped("", "--gpus", "0").err == ""


def test_a_bug_while_reading_events_is_said_in_one_line() -> None:
    def ask(*_: object) -> NoReturn:
        raise ValueError("unheard of")

    event_reader = EventReader(EventStream(ask, lambda: (0, [])))
    assert select.select([event_reader], [], [], DEADLINE_S)[0]
    with pytest.raises(Unreachable, match=r"\(ValueError: unheard of\)"):
        eventually(lambda: event_reader.take() or None, "it is raised")
    event_reader.close()


def test_a_home_without_a_daemon_gets_one_and_a_broken_one_is_a_sentence(scheduler: Scheduler) -> None:
    scheduler.home.write_text("in the way")
    done = scheduler.piped("echo a\n", "--gpus", "0")
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1, done
    assert done.err.startswith("simple_gpu_scheduler: ")
    scheduler.home.unlink()


def test_lines_that_were_read_and_not_handed_over_are_told_as_they_can_be_piped_in_again(scheduler: Scheduler) -> None:
    """Killed between reading and handing over, which no test can hit: the file it would leave is written here."""
    scheduler.piped("true\n", "--gpus", "0")
    lines = b"echo \xff\n<<E\necho b\nE\n"
    (scheduler.home / FOLDER / "sgs-00000000").write_bytes(run_file(1, 1, 0, 0, lines) + b"the rest of longer ones")
    told = scheduler.piped("", "--gpus", "0").err
    assert "these commands were read but not submitted:\n" in told
    left = told.partition("submitted:\n")[2]
    assert left == "echo \udcff\n<<E\necho b\nE\n"
    assert not list((scheduler.home / FOLDER).iterdir())


def test_lines_that_were_handed_over_without_an_answer_are_told_as_jobs(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("true")
    call.until_out("Processing")
    call.write("echo b")
    eventually(lambda: scheduler.states() == ["succeeded"] * 2, "both have run")
    end(call.pid, signal.SIGKILL)
    [path] = (scheduler.home / FOLDER).iterdir()
    assert path.read_bytes().split()[2:5] == [b"0", b"2", b"0"]
    path.write_bytes(run_file(call.pid, 1, 1, 1, b"echo b\n"))
    told = scheduler.piped("", "--gpus", "0").err
    assert "2 succeeded" in told and "not submitted" not in told and "job 2 succeeded: echo b" in told
    path.write_bytes(run_file(call.pid, 1, 0, 0, b"true\n"))
    told = scheduler.piped("", "--gpus", "0").err
    assert "2 succeeded" in told and "not submitted" not in told
