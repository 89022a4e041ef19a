"""execute_batch when something breaks: signals, crashes, broken lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from tests.compat.batches import GATED, LITTLE, Desk, events, gated, open_gates, starts
from tests.e2e.world import BIN, eventually
from tests.machines.proxy import Proxies
from tests.machines.site import SshMachine

from grassq.compat.execute_batch.results import RECORD

#: More than a pipe holds, and less than the longest word of a command.
PIPE_BYTES = 100_000
#: A line so slow that files take longer than the first words about their transfer.
SLOW_BYTES_S = 300_000


def running(two: SshMachine) -> list[str]:
    """What runs on the machine for jobs."""
    return [" ".join(each.argv) for each in two.processes() if "EXECUTE_BATCH_BASHRC" in " ".join(each.argv)]


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f102_an_interrupt_ends_the_jobs_there_and_brings_their_files_back(
    desk: Desk, two: SshMachine, sig: signal.Signals, code: int
) -> None:
    call = gated(desk, two, "a", "b", "c")
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    call.signal(sig)
    done = call.end()
    assert done.code == code
    assert "interrupting tasks" in done.err
    assert running(two) == []
    assert starts(two, "c") == 0 and "batch.sh.3" not in done.out
    assert (desk.results / "batch.sh.1.partial/made").read_text() == "part\n"
    assert desk.out("batch.sh.1") == "begun\n"
    assert not (desk.results / "batch.sh.1").exists(), "it is not done"
    assert not (desk.results / ".grass").exists()
    open_gates(two, "a", "b", "c")
    again = desk.execute("batch.sh", "--machines", "m", LITTLE)
    assert again.code == 0, again
    assert [event for event, _ in events(again.out)].count("finished") == 3
    assert desk.out("batch.sh.1") == "begun\ndone\n"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_f102_no_job_starts_after_a_signal_whatever_the_call_is_busy_with(
    desk: Desk, two: SshMachine, sig: signal.Signals
) -> None:
    desk.yaml("m.yaml", two)
    for name in "abc":
        for kind in ("starts", "open"):
            (two.home / f"{kind}.{name}").unlink(missing_ok=True)
    desk.batch(*(f"{GATED.format(name)} # {'x' * PIPE_BYTES}" for name in "abc"))
    words = [os.fsencode(BIN / "execute_batch"), b"batch.sh", b"--machines", b"m", LITTLE.encode()]
    call = subprocess.Popen(words, cwd=desk.cwd, env=desk.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    desk.foreground.append(call)
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    call.send_signal(sig)  # the call waits for a reader of its stdout
    eventually(lambda: running(two) == [], "the jobs are ended")
    open_gates(two, "a", "b", "c")
    desk.ended(1, 2, 3)
    assert starts(two, "c") == 0
    _, said = call.communicate(timeout=60)
    assert call.returncode == 128 + sig, said
    assert b"interrupting tasks" in said


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGHUP])
def test_a_killed_call_leaves_its_jobs_and_the_same_call_goes_on_with_them(
    desk: Desk, two: SshMachine, sig: signal.Signals
) -> None:
    call = gated(desk, two, "a", "b", "c")
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    call.signal(sig)
    assert call.end().code == (-9 if sig == signal.SIGKILL else 129)
    open_gates(two, "a")
    eventually(lambda: starts(two, "c"), "the batch goes on without the call")
    again = desk.call("batch.sh", "--machines", "m", LITTLE)
    again.until("going on with the jobs of an earlier call")
    again.until("finished: batch.sh.1")
    open_gates(two, "b", "c")
    done = again.end()
    assert done.code == 0, done
    assert done.out.splitlines()[0] == "machine limits:  {'m': 2}"
    assert "WARNING" not in done.out and "skipping" not in done.out
    assert sorted(name for event, name in events(done.out) if event == "finished") == [
        f"batch.sh.{number}" for number in (1, 2, 3)
    ]
    assert [starts(two, name) for name in "abc"] == [1, 1, 1]
    assert [desk.out(f"batch.sh.{number}") for number in (1, 2, 3)] == ["begun\ndone\n"] * 3
    assert len(desk.jobs()) == 3
    assert not (desk.results / ".grass").exists()


#: A call that is killed after the daemon has stored its jobs and before it hears so.
KILLED_AT_SUBMIT = """
import os, sys
from grassq.compat.execute_batch.entry import main
from grassq.net.client import ApiClient
stored = ApiClient.submit
def submit(*words, **more):
    stored(*words, **more)
    os.kill(os.getpid(), 9)
ApiClient.submit = submit
main(sys.argv[1:])
"""


def test_a_call_that_is_killed_before_its_answer_submits_no_line_twice(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    (two.home / "starts.a").unlink(missing_ok=True)
    desk.batch("echo x >> ~/starts.a", "echo x >> ~/starts.a")
    words = ["batch.sh", "--machines", "m", LITTLE]
    assert desk.program(sys.executable, "-c", KILLED_AT_SUBMIT, *words).code == -9
    done = desk.execute(*words)
    assert done.code == 0, done
    assert len(desk.jobs()) == 2
    assert starts(two, "a") == 2
    assert desk.listed() == sorted(f"batch.sh.{n}{suffix}" for n in (1, 2) for suffix in ("", ".out", ".err"))


def test_lines_that_were_added_to_a_batch_run_after_the_jobs_of_the_killed_call(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a")
    eventually(lambda: starts(two, "a"), "the job runs")
    call.signal(signal.SIGKILL)
    call.end()
    open_gates(two, "a")
    desk.batch(GATED.format("a"), "echo new")
    done = desk.execute("batch.sh", "--machines", "m", LITTLE)
    assert done.code == 0, done
    assert [name for event, name in events(done.out) if event == "finished"] == ["batch.sh.1", "batch.sh.2"]
    assert starts(two, "a") == 1


def test_a_line_that_has_changed_while_its_job_runs_is_refused(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a")
    eventually(lambda: starts(two, "a"), "the job runs")
    call.signal(signal.SIGKILL)
    call.end()
    desk.batch("echo another")
    refused = desk.execute("batch.sh", "--machines", "m", LITTLE)
    assert (refused.code, refused.out) == (5, "")
    assert "line 1 has changed while its earlier command is job 1" in refused.err
    desk.ok("kill", "1")
    desk.ended(1)
    done = desk.execute("batch.sh", "--machines", "m", LITTLE)
    assert done.code == 0
    assert "job 1 of line 1 is not done: it was cancelled" in done.err
    assert desk.out("batch.sh.1") == "another\n"


def test_two_calls_of_the_same_batch_do_not_run_side_by_side(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a")
    eventually(lambda: starts(two, "a"), "the job runs")
    assert "another execute_batch runs batch.sh in this directory" in desk.refused(5, "batch.sh", "--machines", "m")
    open_gates(two, "a")
    assert call.end().code == 0


def test_a_daemon_that_is_killed_loses_no_job_and_no_result(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a", "b", "c")
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    desk.crash()
    open_gates(two, "a", "b", "c")
    done = call.end()
    assert done.code == 0, done
    assert [starts(two, name) for name in "abc"] == [1, 1, 1]
    assert [desk.out(f"batch.sh.{number}") for number in (1, 2, 3)] == ["begun\ndone\n"] * 3


def test_a_connection_that_breaks_loses_no_job_and_no_result(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a", "b", "c")
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    two.kill_sessions()
    open_gates(two, "a", "b", "c")
    done = call.end()
    assert done.code == 0, done
    assert [starts(two, name) for name in "abc"] == [1, 1, 1]
    assert json.loads((desk.results / "batch.sh.3" / RECORD).read_text())["exit_code"] == 0


def test_a_job_that_is_killed_elsewhere_is_failed_and_not_done(desk: Desk, two: SshMachine) -> None:
    call = gated(desk, two, "a")
    eventually(lambda: starts(two, "a"), "the job runs")
    desk.ok("kill", "1")
    done = call.end()
    assert done.code == 1
    assert "failed: batch.sh.1; " in done.out and "batch.sh.1 (it was cancelled" in done.err
    assert not (desk.results / "batch.sh.1").exists()
    assert (desk.results / "batch.sh.1.partial").is_dir()


def test_a_second_interrupt_leaves_at_once_and_the_next_call_says_what_became_of_the_jobs(
    desk: Desk, two: SshMachine
) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("trap '' TERM; echo begun; sleep 30")
    call = desk.call("batch.sh", "--machines", "m", LITTLE)
    eventually(lambda: (desk.results / "batch.sh.1.out").exists() and desk.out("batch.sh.1") == "begun\n", "it runs")
    # A daemon that answers late is told nevertheless before the call leaves.
    os.kill(desk.daemon_pid(), signal.SIGSTOP)
    call.signal(signal.SIGINT)
    call.until("interrupting tasks")
    call.signal(signal.SIGINT)
    os.kill(desk.daemon_pid(), signal.SIGCONT)
    done = call.end()
    assert done.code == 130
    assert "are being ended" in done.err and "left; " in done.err
    desk.batch("true", name="other.sh")
    assert (desk.results / ".grass/batch.sh.json").exists()
    desk.ended(1)
    (desk.cwd / "batch.sh").write_text("echo again\n")
    again = desk.execute("batch.sh", "--machines", "m", LITTLE)
    assert again.code == 0, again
    assert "job 1 of line 1 is not done: it was cancelled" in again.err and "the line runs again" in again.err
    assert desk.out("batch.sh.1") == "again\n"


def test_a_call_that_could_not_tell_the_daemon_says_that_its_jobs_may_go_on(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("until [ -e ~/go ]; do sleep 0.05; done")
    call = desk.call("batch.sh", "--machines", "m", LITTLE)
    call.until("started: ")
    os.kill(desk.daemon_pid(), signal.SIGSTOP)
    call.signal(signal.SIGINT)
    call.until("interrupting tasks")
    call.signal(signal.SIGINT)
    done = call.end()
    os.kill(desk.daemon_pid(), signal.SIGCONT)
    assert done.code == 130
    assert "the daemon does not answer, so 1 jobs may go on" in done.err and "are being ended" not in done.err


def test_a_closed_stdout_loses_no_result(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("echo one", "echo two")
    done = desk.typed(f"set -o pipefail; execute_batch batch.sh --machines m {LITTLE} | true")
    assert done.err.count("stdout cannot be written") == 1
    assert [desk.out(f"batch.sh.{number}") for number in (1, 2)] == ["one\n", "two\n"]


def test_results_that_cannot_be_written_do_not_make_a_line_done(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("mkdir -p ~/meanwhile; until [ -e ~/go ]; do sleep 0.05; done")
    call = desk.call("batch.sh", "--machines", "m", LITTLE)
    call.until("started: ")
    (desk.results / "batch.sh.1").mkdir()
    (two.home / "go").touch()
    done = call.end()
    (two.home / "go").unlink()
    assert done.code == 1
    assert "is there already" in done.err
    assert os.listdir(desk.results / "batch.sh.1") == []  # noqa: PTH208


def test_calls_and_daemons_that_are_killed_again_and_again_run_every_line_once(
    desk: Desk, two: SshMachine, one: SshMachine
) -> None:
    desk.yaml("m.yaml", two)
    desk.yaml("n.yaml", one)
    for machine in (two, one):
        (machine.home / "ran").unlink(missing_ok=True)
    count = 12
    desk.batch(*(f"echo {number} >> ~/ran; sleep 0.2; echo out {number}" for number in range(count)))
    words = ["batch.sh", "--machines", "m", "n", LITTLE]
    for killed_at in (1, 2, 4):
        call = desk.call(*words)
        eventually(lambda call=call, at=killed_at: call.out().count("started: ") >= at, "some jobs run", 60.0)  # type: ignore[misc]
        call.signal(signal.SIGKILL)
        call.end()
        if killed_at % 2 == 0:
            desk.crash()
    done = desk.execute(*words)
    assert done.code == 0, done
    ran = [number for machine in (two, one) for number in (machine.home / "ran").read_text().split()]
    assert sorted(ran, key=int) == [str(number) for number in range(count)]
    assert [desk.out(f"batch.sh.{number + 1}") for number in range(count)] == [f"out {n}\n" for n in range(count)]
    assert len(desk.jobs()) == count


def test_the_progress_on_a_terminal_is_not_in_the_way_of_the_lines(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("sleep 0.5", "false")
    line = f"execute_batch batch.sh --machines m {LITTLE} > printed"
    terminal = desk.program("script", "-qec", line, "/dev/null")
    assert terminal.code == 1
    assert "1/2" in terminal.out and "1 failed" in terminal.out
    printed = (desk.cwd / "printed").read_text().splitlines()
    assert len(printed) == 6 and "\x1b" not in "".join(printed)


def test_a_terminal_shows_how_far_the_files_of_a_job_are(desk: Desk, two: SshMachine) -> None:
    with contextlib.closing(Proxies(desk.site.near.space)) as proxies:
        proxy = proxies.proxy(two.address, two.port)
        desk.yaml("m.yaml", ip=proxy.address, port=proxy.port)
        desk.batch("ls")
        # Connected over a fast line first.
        assert desk.execute("batch.sh", "--machines", "m", LITTLE, "--dry-run", "--accept-key").code == 0
        for number in range(16):
            (desk.cwd / f"data.{number}").write_bytes(os.urandom(SLOW_BYTES_S))
        proxy.slow(SLOW_BYTES_S)
        line = f"execute_batch batch.sh --machines m {LITTLE} --copy-backwards m.yaml"
        terminal = desk.program("script", "-qec", line, "/dev/null", timeout_s=100.0)
        assert terminal.code == 0, terminal
    assert "sending its files: " in terminal.out and " MiB/s" in terminal.out
