"""execute_remote: one command on one machine, with its output here and its exit code."""

from __future__ import annotations

import signal

import pytest
from tests.compat.batches import Desk
from tests.e2e.world import BIN, Done, eventually
from tests.machines.site import SshMachine


def remote(desk: Desk, *words: str) -> Done:
    """Run execute_remote to its end."""
    return desk.program(BIN / "execute_remote", *words)


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)])
def test_f103_the_exit_code_is_that_of_the_command(desk: Desk, two: SshMachine, command: str, code: int) -> None:
    desk.yaml("m.yaml", two)
    done = remote(desk, "--machine", "m", f"echo out; echo err >&2; {command}")
    (name,) = desk.listed()
    assert (done.code, done.out) == (code, "out\n")
    assert done.err == f"err\nexecute_remote: the results are in job_results/{name}\n"


def test_f103_copies_are_those_of_the_job(desk: Desk, one: SshMachine) -> None:
    desk.yaml("m.yaml", one)
    for name in ("a", "b"):
        (desk.cwd / name).write_text(name)
    words = ["ls; echo made > made; echo no > no", "--copy-forward", "a", "--copy-backwards", "made", "--job-name", "x"]
    done = remote(desk, "--machine", "m", *words)
    assert (done.code, done.out, done.err) == (0, "a\n", "")
    assert (desk.results / "x/made").read_text() == "made\n"
    assert not (desk.results / "x/no").exists()
    again = remote(desk, "--machine", "m", *words)
    assert (again.code, again.out) == (2, "")
    assert "job_results/x is there already" in again.err
    assert len(desk.jobs()) == 1


def test_a_job_without_a_name_gets_a_random_one(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    assert remote(desk, "--machine", "m", "true").code == 0
    (name,) = desk.listed()
    assert len(name) == 24 and set(name) <= set("0123456789abcdef")


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_the_command_there_and_brings_its_files_back(
    desk: Desk, two: SshMachine, sig: signal.Signals, code: int
) -> None:
    desk.yaml("m.yaml", two)
    (two.home / "begun").unlink(missing_ok=True)
    call = desk.call(
        "--machine", "m", "echo x > made; touch ~/begun; sleep 4567", "--job-name", "n", program="execute_remote"
    )
    eventually((two.home / "begun").exists, "the command runs")
    call.signal(sig)
    assert call.end().code == code
    assert not any("4567" in each.argv for each in two.processes())
    assert (desk.results / "n.partial/made").read_text() == "x\n"
    assert not (desk.results / "n").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["true"], 2, "--machine"),
        (["--machine", "m"], 2, "COMMAND is missing"),
        (["--machine", "nowhere", "true"], 2, "there is no machine file nowhere"),
        (["--machine", "m", "true", "--job-name", "a/b"], 2, "cannot be the name of a folder"),
        (["--machine", "off", "true"], 255, "off cannot be used"),
    ],
)
def test_mistakes_are_one_line(desk: Desk, two: SshMachine, words: list[str], code: int, said: str) -> None:
    desk.yaml("m.yaml", two)
    desk.yaml("off.yaml", two, port=2299)
    done = remote(desk, *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("execute_remote: ") and done.err.count("\n") == 1
    assert said in done.err
