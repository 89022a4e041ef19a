"""`grass enqueue` is light, sends what was typed, and prints what it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, reply, stored, stream

from grassq.cli.hot import wants_help

HEAVY = "re json argparse socket typing enum subprocess pathlib logging collections functools signal select"


def test_an_enqueue_loads_nothing_heavy(home: Path) -> None:
    path = f"import sys; sys.path.insert(0, {str(calls.ROOT / 'src')!r})"
    program = "from grassq.cli.hot import main; main(['enqueue', 'ls']); print(*sys.modules)"
    with FakeDaemon(home, lambda request: stored(b"7\n")):
        done = calls.python(home, "-I", "-S", "-c", f"{path}; {program}")
    loaded = done.stdout.split()
    assert loaded[0] == "7", done.stderr
    assert not set(loaded) & set(HEAVY.split())


def test_words_environment_and_directory_travel_untouched(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored()) as daemon:
        calls.grass(home, "enqueue", "exp1", "--gpu=1", "--", "echo", "a b", "é\n", b"\xff\xfe")
    sent = daemon.requests[0]
    assert (sent.method, sent.target) == ("POST", "/v1/enqueue")
    assert sent.document["words"] == ["exp1", "--gpu=1", "--", "echo", "a b", "é\n", {"b64": "//4="}]
    assert sent.document["cwd"] == str(Path.cwd())
    assert ["GRASS_HOME", str(home)] in sent.document["env"]
    assert sent.document["verb"] == "enqueue"
    assert isinstance(sent.document["umask"], int)


def test_output_and_exit_code_are_the_daemons(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored(b"job 3\n", b"grass: note\n", exit_code=5)):
        done = calls.grass(home, "enqueue", "ls")
    assert (done.stdout, done.stderr, done.returncode) == ("job 3\n", "grass: note\n", 5)


def test_another_version_is_said_in_one_line(home: Path) -> None:
    headers: dict[str, object] = {"Grass-Exit": 0, "Grass-Stdout": 2}
    with FakeDaemon(home, lambda request: reply(b"1\n", headers=headers, version="9.9.9")):
        done = calls.grass(home, "enqueue", "ls")
    assert done.stdout == "1\n"
    assert done.stderr.startswith("grass: the daemon is version 9.9.9, this command is ")
    assert done.stderr.count("\n") == 1


def test_an_enqueue_repeats_with_the_same_key(home: Path) -> None:
    answers = [None, stored()]
    with FakeDaemon(home, lambda request: answers.pop(0)) as daemon:
        assert calls.grass(home, "enqueue", "ls").returncode == 0
    first, second = daemon.requests
    assert first.body == second.body


def test_a_closed_stdout_does_not_become_the_socket(home: Path) -> None:
    program = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    with FakeDaemon(home, lambda request: stored(b"job 3\n")) as daemon:
        done = calls.python(home, "-c", program, calls.ROOT / "bin" / "grass", "enqueue", "ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(daemon.requests) == 1


def test_sync_follows_the_job_and_ends_as_it_did(home: Path) -> None:
    job = {"id": 4, "state": "failed", "exit_code": 42, "attempt": 1}
    answers = {"/v1/enqueue": stored(b"4\n", Grass_Follow=4), "/v1/show": document({"jobs": [job]})}
    log = {True: stream(b"hello\n", Grass_Attempt=1), False: stream(b"", Grass_Attempt=1)}

    def answer(request: Request) -> Answer:
        return answers.get(request.target.split("?")[0]) or log["offset=0" in request.target]

    with FakeDaemon(home, answer):
        done = calls.grass(home, "enqueue", "--sync", "false")
    assert (done.stdout, done.returncode) == ("4\nhello\n", 42)


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["-h"], True),
        (["--gpu", "1", "--help"], True),
        (["--name", "--help", "ls"], False),
        (["python", "--help"], False),
        (["--", "--help"], False),
        (["--gpu=1", "-e", "A=B", "-h"], True),
        ([], False),
    ],
)
def test_help_is_ours_only_before_the_job(words: list[str], ours: bool) -> None:
    assert wants_help(words) is ours


def test_the_body_is_json(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored()) as daemon:
        calls.grass(home, "enqueue", '"\\', "\u2028")
    assert json.loads(daemon.requests[0].body)["words"] == ['"\\', "\u2028"]
