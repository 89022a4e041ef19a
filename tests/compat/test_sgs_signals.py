"""Being asked to stop: once, twice, three times; and readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.schedulers import GATE, PROGRAM, Scheduler, others, processing
from tests.e2e.world import eventually, is_alive

from grassq.compat.simple_gpu_scheduler.scheduler import READ_SIZE, UNFINISHED_MAX

#: A command that has begun when there is a file, and ends when there is another.
LONG = "touch begun; " + GATE.format("gate") + "; echo finished"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=lambda value: str(value),
)
def test_asked_to_stop_it_lets_what_runs_finish_and_starts_nothing(
    scheduler: Scheduler, number: signal.Signals, code: int
) -> None:
    """F55, T25: during the first of three commands; the other two never start and are listed."""
    call = scheduler.call("--gpus", "0")
    call.write(LONG, "touch second  # two", "<<END", "touch third", "echo three", "END")
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 3, "all are handed over")
    call.signal(number)
    said = call.until_err("END\n")
    ends = "another ctrl-C" if number == signal.SIGINT else f"grass kill queue:{scheduler.job(1)['queue']}"
    assert said == (
        f"simple_gpu_scheduler: no more commands start; 1 running will finish ({ends} ends them)"
        "; the rest of the input is not read\n"
        "# 2 commands were not started:\ntouch second  # two\n<<END\ntouch third\necho three\nEND\n"
    )
    assert scheduler.states() == ["running", "cancelled", "cancelled"]
    scheduler.open_gate("gate")
    assert call.process.wait(30) == code
    assert others(call.out()) == ["finished"]
    assert call.err() == said + "simple_gpu_scheduler: 1 succeeded, 0 failed, 2 not started\n"
    assert not (scheduler.cwd / "second").exists() and not (scheduler.cwd / "third").exists()


def test_what_was_not_started_can_be_piped_in_again(scheduler: Scheduler) -> None:
    """F55."""
    call = scheduler.call("--gpus", "0")
    call.write(LONG, "echo two \\", "  more", "<<E", "echo three", "E", "echo four")
    assert call.process.stdin is not None
    call.process.stdin.write(b"echo five")  # no end of line yet
    call.process.stdin.flush()
    scheduler.made("begun")
    eventually(lambda: len(scheduler.jobs()) == 4, "all are handed over")
    call.signal(signal.SIGTERM)
    left = call.until_err("five\n").partition("# ")[2].partition("\n")[2]
    scheduler.open_gate("gate")
    assert call.process.wait(30) == 143
    assert others(scheduler.piped(left, "--gpus", "0").out) == ["two more", "three", "four", "five"]


def test_what_was_placed_behind_a_running_command_is_listed_and_not_started(scheduler: Scheduler) -> None:
    """F55: of brief commands the next is placed ahead of time; that is no start."""
    call = scheduler.call("--gpus", "0")
    brief = [f"true {number}" for number in range(20)]
    call.write(*brief, LONG, "touch ran_1", "touch ran_2")
    scheduler.made("begun")
    call.signal(signal.SIGTERM)
    call.until_err("touch ran_2\n")
    scheduler.open_gate("gate")
    assert call.process.wait(30) == 143
    assert [line for line in call.err().splitlines() if line.startswith("touch ran")] == ["touch ran_1", "touch ran_2"]
    assert "21 succeeded, 0 failed, 2 not started" in call.err()
    assert not list(scheduler.cwd.glob("ran_*"))


def test_a_second_ctrl_c_ends_what_runs(scheduler: Scheduler) -> None:
    """F55."""
    call = scheduler.call("--gpus", "0", "1")
    call.write("sleep 1000 & echo $!; wait", "echo $$; exec sleep 1000", "echo never")
    eventually(lambda: len(others(call.out())) == 2, "both run")
    pids = [int(line) for line in others(call.out())]
    call.signal(signal.SIGINT)
    call.until_err("no more commands start")
    assert all(map(is_alive, pids))
    call.signal(signal.SIGINT)
    assert call.process.wait(30) == 130
    assert not any(map(is_alive, pids))
    assert call.err().endswith("simple_gpu_scheduler: 0 succeeded, 2 failed, 1 not started\n")
    assert scheduler.states() == ["cancelled"] * 3
    assert not list((scheduler.home / "sgs").iterdir())


def test_a_third_one_leaves_at_once_and_the_next_call_tells(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("trap '' TERM; touch begun; " + GATE.format("gate"))
    scheduler.made("begun")
    for said in ("no more commands start", "ending 1 commands"):
        call.signal(signal.SIGINT)
        call.until_err(said)
    call.signal(signal.SIGINT)
    assert call.process.wait(30) == 130
    assert "Traceback" not in call.err()
    done = scheduler.piped("", "--gpus", "0")
    assert "of its commands: 1 running\n  job 1 running: " in done.err
    scheduler.open_gate("gate")


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ((signal.SIGHUP, signal.SIGHUP, signal.SIGHUP), 129),
        ((signal.SIGTERM, signal.SIGHUP, signal.SIGTERM), 143),
        ((signal.SIGTERM, signal.SIGINT, signal.SIGTERM), 143),
    ],
    ids=str,
)
def test_what_a_closed_terminal_or_a_supervisor_sends_never_ends_what_runs(
    scheduler: Scheduler, numbers: tuple[signal.Signals, ...], code: int
) -> None:
    """Both send several: only ctrl-C means more when it comes again."""
    call = scheduler.call("--gpus", "0")
    call.write(LONG)
    scheduler.made("begun")
    for number in numbers:
        call.signal(number)
        call.until_err("no more commands start")
        eventually(lambda: not pending(call.pid), "it was heard")
    scheduler.open_gate("gate")
    assert call.process.wait(30) == code
    assert others(call.out()) == ["finished"]
    assert "ending" not in call.err()


def pending(pid: int) -> int:
    """The signals that were sent to a process and not delivered."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["ShdPnd"], 16)


def test_ctrl_c_held_down_leaves_without_a_traceback(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("trap '' TERM; touch begun; " + GATE.format("gate"))
    scheduler.made("begun")
    while call.process.poll() is None:
        call.signal(signal.SIGINT)
    assert call.process.wait(30) == 130
    assert "Traceback" not in call.err() and "Leave" not in call.err() and "ignored" not in call.err()
    assert "; submitted commands keep running" in call.err()
    scheduler.open_gate("gate")


@pytest.mark.parametrize("module", ["argparse", "grassq.net.client", "grassq.compat.simple_gpu_scheduler.scheduler"])
def test_ctrl_c_while_it_is_loading_is_no_traceback(scheduler: Scheduler, module: str) -> None:
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from grassq.compat.simple_gpu_scheduler.entry import main
sys.exit(main(["--gpus", "0"]))
"""
    assert scheduler.program(sys.executable, "-c", code) == (130, "", "")


def test_stopping_when_nothing_runs_ends_at_once(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    eventually(lambda: list((scheduler.home / "sgs").glob("sgs-*")), "it is ready")
    call.signal(signal.SIGTERM)
    assert call.process.wait(30) == 143
    assert call.err().count("\n") == 1 and "none is running" in call.err()


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(scheduler: Scheduler) -> None:
    """As under nohup."""
    call = scheduler.call("--gpus", "0", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    call.write("echo a")
    call.until_out("\na\n")
    call.signal(signal.SIGHUP)
    call.write("echo b")
    assert call.end() == 0
    assert others(call.out()) == ["a", "b"]


def test_when_nobody_reads_the_output_any_more_the_commands_run_to_their_end(scheduler: Scheduler) -> None:
    reading, writing = os.pipe()
    call = scheduler.call("--gpus", "0", stdout=writing)
    os.close(writing)
    call.write("echo a")
    assert os.read(reading, 1000).startswith(b"Processing")
    os.close(reading)
    call.write("echo b", "touch end")
    assert call.end() == 0
    assert call.err().count("stdout cannot be written (Broken pipe)") == 1 == call.err().count("\n")
    assert (scheduler.cwd / "end").exists() and scheduler.log(2) == "b\n"


def test_a_reader_that_does_not_read_does_not_stop_a_ctrl_c(scheduler: Scheduler) -> None:
    reading, writing = os.pipe()
    call = scheduler.call("--gpus", "0", stdout=writing)
    os.close(writing)
    call.write("yes | head -c 8000000; touch begun; exec sleep 1000")
    scheduler.made("begun")
    for said in ("no more commands start", "ending 1 commands"):
        call.signal(signal.SIGINT)
        call.until_err(said)
    eventually(lambda: scheduler.states() == ["cancelled"], "it is ended")
    os.close(reading)
    assert call.process.wait(30) == 130


def test_input_is_read_only_so_far_ahead(scheduler: Scheduler) -> None:
    line = b"exec sleep 1000 " + b"#" * 200 + b"\n"
    count = UNFINISHED_MAX + 4 * READ_SIZE // len(line)
    path = scheduler.cwd / "many"
    path.write_bytes(line * count)
    with path.open("rb") as lines, subprocess.Popen(["cat"], stdin=lines, stdout=subprocess.PIPE) as cat:
        call = scheduler.call("--gpus", "0", stdin=cat.stdout)

        def handed() -> int:
            return sum(scheduler.json("show")["totals"].values())

        eventually(lambda: handed() >= UNFINISHED_MAX, "as many as it takes", 60)
        for number in (1, 2):
            call.signal(signal.SIGINT)
            call.until_err(("no more commands start", "ending")[number - 1])
        assert call.process.wait(60) == 130
        assert UNFINISHED_MAX <= len(scheduler.jobs()) <= UNFINISHED_MAX + READ_SIZE // len(line) + 1 < count
        cat.terminate()


def test_the_program_is_where_it_is_called(scheduler: Scheduler) -> None:
    """F53: as installed, not only from the source tree."""
    assert PROGRAM.exists()
    assert processing("Processing command `a` on gpu 0\n") == [("a", "0")]
