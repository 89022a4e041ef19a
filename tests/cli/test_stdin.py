"""`grass enqueue --stdin`: what is sent, and when stdin is read."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, stored
from tests.cli.fake_broker import Certificate, FakeBroker, let_in

from grassq.core.syntax.shell_lines import REMOTE_LINES_MAX
from grassq.net.encoding import BYTES_MAX, text

ASKS = stored(b"", b"grass: an old release would say this\n", exit_code=2, Grass_Lines=1)


def takes_lines(request: Request) -> Answer:
    """Asks for lines, then takes them."""
    return ASKS if "lines" not in request.document else stored(b"2 jobs enqueued: 4-5\n")


def enqueue(home: Path, sent: bytes | None, *words: str) -> subprocess.CompletedProcess[bytes]:
    """`grass enqueue WORDS` with something on its stdin, or with none at all."""
    argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), "enqueue", *words]
    return subprocess.run(argv, input=sent, env=calls.environment(home), capture_output=True, timeout=60, check=False)


def test_lines_are_sent_as_they_came_when_the_daemon_asks_for_them(home: Path) -> None:
    with FakeDaemon(home, takes_lines) as daemon:
        done = enqueue(home, b'ls "a\\b"\r\n\n# x\n\xc3\xa9', "exp", "--stdin", "--gpu=1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"2 jobs enqueued: 4-5\n", b"")
    first, second = (request.document for request in daemon.requests)
    assert first["words"] == second["words"] == ["exp", "--stdin", "--gpu=1"]
    assert "lines" not in first and second["lines"] == 'ls "a\\b"\r\n\n# x\né'
    assert first["key"] != second["key"]


@pytest.mark.parametrize("refuses", [False, True])
def test_many_lines_go_to_a_broker_in_parts_and_a_refusal_says_what_is_stored(
    home: Path, tmp_path: Path, refuses: bool
) -> None:
    lines = [f"true {number}" for number in range(2 * REMOTE_LINES_MAX)]

    def takes_parts(request: Request) -> Answer:
        if refuses and f"true {REMOTE_LINES_MAX}\n" in request.document.get("lines", ""):
            return stored(b"", b"grass: line 3: no\n", exit_code=2)
        return takes_lines(request)

    certificate = Certificate(tmp_path)
    with FakeBroker(certificate, takes_parts) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        done = enqueue(home, "\n".join([*lines, ""]).encode(), f"--broker={broker.address}", "--stdin")
    _, *parts = (request.document for request in broker.requests)
    assert [part["lines"].split("\n") for part in parts] == [lines[:REMOTE_LINES_MAX], lines[REMOTE_LINES_MAX:]]
    assert len({part["key"] for part in parts}) == 2
    if refuses:
        assert (done.returncode, done.stdout) == (2, b"2 jobs enqueued: 4-5\n")
        told = b"grass: line 3: no\ngrass: this is about part 2 of 2; the parts before it are stored\n"
        assert done.stderr == told
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, b"2 jobs enqueued: 4-5\n" * 2, b"")


def test_a_stdin_that_belongs_to_the_job_is_not_read(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored(b"job 1 queued in default\n")) as daemon:
        process = subprocess.Popen(
            [sys.executable, str(calls.ROOT / "bin" / "grass"), "enqueue", "tool", "--stdin"],
            env=calls.environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None and process.stdin is not None
        # Its stdin stays open: were it read, this would wait for ever.
        assert process.stdout.read() == b"job 1 queued in default\n"
        assert process.wait(30) == 0
        process.stdin.close()
        process.stdout.close()
    assert len(daemon.requests) == 1


def test_bytes_that_are_no_text_travel_too(home: Path) -> None:
    with FakeDaemon(home, takes_lines) as daemon:
        enqueue(home, b"ls \xff\n", "--stdin")
    assert base64.b64decode(daemon.requests[1].document["lines"]["b64"]) == b"ls \xff\n"


def test_no_line_is_sent_as_well(home: Path) -> None:
    with FakeDaemon(home, takes_lines) as daemon:
        assert enqueue(home, b"", "--stdin").returncode == 0
    assert daemon.requests[1].document["lines"] == ""


def test_too_much_is_refused_before_it_is_sent(home: Path) -> None:
    with FakeDaemon(home, takes_lines) as daemon:
        done = enqueue(home, b"x" * (BYTES_MAX + 1), "--stdin")
    assert done.returncode == 2 and b"more than 47,185,920 bytes" in done.stderr
    assert len(daemon.requests) == 1


def test_a_stdin_that_cannot_be_read_is_said(home: Path) -> None:
    deaf = os.open(os.devnull, os.O_WRONLY)
    with FakeDaemon(home, takes_lines):
        done = subprocess.run(
            [sys.executable, str(calls.ROOT / "bin" / "grass"), "enqueue", "--stdin"],
            stdin=deaf,
            env=calls.environment(home),
            capture_output=True,
            timeout=60,
            check=False,
        )
    os.close(deaf)
    assert done.returncode == 2 and b"stdin cannot be read: Bad file descriptor" in done.stderr


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (b"2 jobs enqueued: 4-5\n", b"jobs 4-5 are stored"),
        (b"1 job enqueued: 4\n", b"job 4 is stored"),
        (b"4-5\n", b"jobs 4-5 are stored"),
        (b'{"first":4,"count":2,"queue":"q"}\n', b"the jobs are stored"),
        (b"job 7 queued in exp-1-2\n", b"job 7 is stored"),
    ],
)
def test_when_the_answer_cannot_be_written_it_is_said_what_is_stored(home: Path, printed: bytes, said: bytes) -> None:
    with FakeDaemon(home, lambda request: stored(printed)), Path("/dev/full").open("wb") as full:
        argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), "enqueue", "ls"]
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, env=calls.environment(home), timeout=60, check=False
        )
    assert done.returncode == 1 and said in done.stderr


@pytest.mark.parametrize("value", [b"plain\n" * 1000, "é".encode() * 1000, b"\xff" * 1000, b"\x01" * 1000])
def test_long_texts_are_written_in_a_third_more_at_most(value: bytes) -> None:
    assert len(text(value)) <= 4 * len(value) // 3 + 1024
