"""A one-time code is given on stdin or at a prompt, so that `ps` shows it to nobody."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, Request, document
from tests.cli.fake_broker import STORE_ID, Certificate, FakeBroker, code_for

from grassq.net import broker_file

GRASS = [sys.executable, str(calls.ROOT / "bin" / "grass")]


def give(request: Request) -> Answer:
    """Answer any code with a token."""
    asked = request.document
    scope = "worker" if asked["kind"] == "worker" else "submit"
    return document({"token": "0a1b2c3d", "scope": scope, "name": asked["name"], "store_id": STORE_ID, "queues": None})


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


@pytest.fixture
def broker(certificate: Certificate) -> Iterator[FakeBroker]:
    with FakeBroker(certificate, give) as broker:
        yield broker


def call(home: Path, words: list[str], stdin: str) -> calls.Done:
    return subprocess.run(
        [*GRASS, *words], env=calls.environment(home), input=stdin, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["login"], ["login", "-"], ["join"], ["join", "-", "--name", "box"]])
def test_the_code_is_one_line_of_stdin(
    home: Path, certificate: Certificate, broker: FakeBroker, words: list[str]
) -> None:
    done = call(home, words, f"  {code_for(certificate, broker.address)}\nmore\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    [entry] = broker_file.load(str(home)).entries
    assert (entry.login if words[0] == "login" else entry.worker) is not None


@pytest.mark.parametrize("verb", ["login", "join"])
def test_a_code_on_the_command_line_works_with_a_warning(
    home: Path, certificate: Certificate, broker: FakeBroker, verb: str
) -> None:
    done = call(home, [verb, code_for(certificate, broker.address)], "")
    assert done.returncode == 0, done.stderr
    assert "`ps`" in done.stderr and f"`grass {verb}`" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "x" * 100_000])
def test_a_line_that_is_no_code_is_exit_2_with_one_line(home: Path, text: str) -> None:
    done = call(home, ["login"], text)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "code" in done.stderr


def test_a_terminal_is_asked_and_does_not_show_the_code(
    home: Path, certificate: Certificate, broker: FakeBroker
) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen([*GRASS, "login"], env=calls.environment(home), stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        shown = b""
        while b"code" not in shown:
            shown += os.read(ours, 4096)
        code = code_for(certificate, broker.address)
        os.write(ours, code.encode() + b"\n")
        while b"logged in" not in shown:
            shown += os.read(ours, 4096)
        assert child.wait(30) == 0
        assert code.encode() not in shown
        assert termios.tcgetattr(theirs) == before, "the terminal shows again what is typed"
    finally:
        child.kill()
        child.wait()
        os.close(ours)
        os.close(theirs)
