"""Directories that go away, files that cannot be written, terminals that are closed: commands are run all the same."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from tests.compat.schedulers import GATE, PROGRAM, Call, Scheduler, others
from tests.e2e.world import eventually

from grassq.errors import BadInput
from grassq.home import Sender
from grassq.net.client import ApiClient

#: The first request to cancel what waits meets nothing: as if all were about to start at that moment.
MISSES_ONE = """
import sys
from grassq.net.client import ApiClient
kill, missed = ApiClient.kill, []
def miss(self, selectors, **options):
    if not missed:
        missed.append(selectors)
        return {"ids": []}
    return kill(self, selectors, **options)
ApiClient.kill = miss
from grassq.compat.simple_gpu_scheduler.entry import main
sys.exit(main(sys.argv[1:]))
"""


def elsewhere(scheduler: Scheduler, cwd: Path, *argv: str | Path) -> Call:
    """A call from another directory, or of another program."""
    out, err = scheduler.cwd / "out", scheduler.cwd / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        words = [os.fsencode(word) for word in argv]
        process = subprocess.Popen(
            words, cwd=cwd, env=scheduler.env, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr
        )
    scheduler.foreground.append(process)
    return Call(process, out, err)


def is_missed(scheduler: Scheduler, directory: Path) -> bool:
    """Whether the daemon takes no commands from there; it remembers for a moment that a directory was there."""
    env = {os.fsencode(name): os.fsencode(value) for name, value in scheduler.env.items()}
    with ApiClient(str(scheduler.home)) as client:
        try:
            client.submit_many(["true; true"], {"hold": True}, Sender(os.fsencode(directory), env, 0o022))
        except BadInput:
            return True
    return False


def test_a_directory_that_is_gone_is_named_before_anything_is_made(scheduler: Scheduler) -> None:
    done = scheduler.typed("mkdir d; cd d; rmdir ../d; echo true | simple_gpu_scheduler --gpus 0")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "simple_gpu_scheduler: the current directory cannot be used (No such file or directory); cd to another one"
    )
    assert not scheduler.home.exists()


def test_a_directory_that_goes_meanwhile_ends_it_and_what_is_not_stored_is_printed(scheduler: Scheduler) -> None:
    inner = scheduler.cwd / "inner"
    inner.mkdir()
    call = elsewhere(scheduler, inner, PROGRAM, "--gpus", "0")
    call.write(f"touch ../begun; {GATE.format('../gate')}; touch ../finished")
    scheduler.made("begun")
    inner.rename(scheduler.cwd / "other")
    eventually(lambda: is_missed(scheduler, inner), "the daemon looks again")
    call.write("<<E", "echo b", "E")
    assert call.process.wait(20) == 2
    lines = call.err().splitlines()
    assert lines[:4] == ["# 1 command was not started:", "<<E", "echo b", "E"]
    queue = scheduler.job(1)["queue"]
    goes_on = "submitted commands go on (1 not ended)"
    assert lines[4] == f"simple_gpu_scheduler: {goes_on}; grass kill queue:{queue} ends them"
    assert "there is no directory" in lines[5] and len(lines) == 6
    scheduler.open_gate("gate")
    scheduler.made("finished")


def test_a_note_that_cannot_be_kept_is_said_once_and_the_commands_are_run(scheduler: Scheduler) -> None:
    scheduler.ok("start")
    call = scheduler.call(
        "--gpus", "0", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
    )
    long = " # " + "x" * 2000
    for name in ("a", "b"):
        call.write(*[f"touch {name}{number}{long}" for number in range(5)])
        scheduler.made(f"{name}4")
    assert call.end() == 0
    assert call.err().count("the file about this call cannot be written (File too large)") == 1
    assert scheduler.states() == ["succeeded"] * 10


def test_without_a_place_for_notes_the_commands_are_run(scheduler: Scheduler) -> None:
    scheduler.ok("start")
    (scheduler.home / "sgs").write_text("in the way")
    done = scheduler.piped("echo a\necho b\n", "--gpus", "0")
    assert (done.code, others(done.out)) == (0, ["a", "b"])
    assert done.err.count("cannot be written") == 1


def test_a_note_that_somebody_removed_is_no_failure(scheduler: Scheduler) -> None:
    call = scheduler.call("--gpus", "0")
    call.write("echo a")
    call.until_out("\na\n")
    for path in (scheduler.home / "sgs").iterdir():
        path.unlink()
    assert call.end() == 0
    assert call.err() == ""


def test_a_note_that_cannot_be_read_is_said_and_kept(scheduler: Scheduler) -> None:
    scheduler.piped("true\n", "--gpus", "0")
    (scheduler.home / "sgs" / "sgs-1").write_text("echo a")
    done = scheduler.piped("", "--gpus", "0")
    kept = scheduler.home / "sgs" / "sgs-1.unreadable"
    assert done.err.endswith(f"cannot be read; it is kept as {kept}\n") and kept.read_text() == "echo a"
    assert scheduler.piped("", "--gpus", "0").err == ""


def test_what_is_put_back_after_it_was_asked_to_stop_does_not_start_later(scheduler: Scheduler) -> None:
    call = elsewhere(scheduler, scheduler.cwd, sys.executable, "-c", MISSES_ONE, "--gpus", "0")
    call.write(f"touch begun; {GATE.format('speak')}; echo heard; {GATE.format('gate')}", "touch second", "touch third")
    scheduler.made("begun")
    call.until_out("Processing")
    eventually(lambda: len(scheduler.jobs()) == 3, "all are handed over")
    call.signal(signal.SIGTERM)
    call.until_err("no more commands start")
    # Any event makes it try again: this output is one, if none came before.
    scheduler.open_gate("speak")
    call.until_err("# 2 commands were not started:\ntouch second\ntouch third\n")
    scheduler.open_gate("gate")
    assert call.process.wait(30) == 143
    assert call.err().endswith("1 succeeded, 0 failed, 2 not started\n") and call.err().count("third") == 1
    assert scheduler.states() == ["succeeded", "cancelled", "cancelled"]
