"""`grass enqueue` is light, sends what was typed, and prints what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, reply, stored, stream

from grassq.cli.typed import VALUE_OPTIONS, wants_help
from grassq.core.syntax import options

HEAVY = "re json argparse socket typing enum subprocess pathlib logging collections functools signal select"


def test_an_enqueue_loads_nothing_heavy(home: Path) -> None:
    path = f"import sys; sys.path.insert(0, {str(calls.ROOT / 'src')!r})"
    program = "from grassq.cli.fast import main; main(['enqueue', 'ls']); print(*sys.modules)"
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
    answers = {"/v1/enqueue": stored(b"4\n", Grass_Follow=4), "/v1/jobs": document({"jobs": [job]})}
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


def test_the_options_with_a_value_are_those_of_the_grammar() -> None:
    assert options.value_options(options.ENQUEUE) == VALUE_OPTIONS


@pytest.mark.parametrize("answer", [b"job 37 is queued in q2\n", b"37\n", b'{"id":37,"queue":"q2"}\n'])
def test_a_full_disk_is_one_line_that_names_the_job(home: Path, answer: bytes) -> None:
    with FakeDaemon(home, lambda request: stored(answer)):
        code, error = onto_full(home, 1, "enqueue", "ls")
    assert (code, error) == (1, b"grass: job 37 is stored, but stdout: No space left on device\n")


def test_a_warning_that_nobody_can_read_is_no_failure(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored(b"37\n", b"grass: note\n")):
        assert onto_full(home, 2, "enqueue", "ls") == (0, b"37\n")
    with FakeDaemon(home, lambda request: document({"error": {"exit": 5, "message": "no"}}, status=409)):
        assert onto_full(home, 2, "pause") == (5, b"")


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["hold", "37"], ["help"]])
def test_a_full_disk_is_one_line_from_every_command(home: Path, words: list[str]) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": [{"id": 37, "state": "held"}]})):
        code, error = onto_full(home, 1, *words)
    assert (code, error) == (1, b"grass: stdout: No space left on device\n")


def test_a_rerun_onto_a_full_disk_names_the_new_jobs(home: Path) -> None:
    jobs = [{"id": number, "rerun_of": number - 30, "state": "queued"} for number in (37, 38, 41)]
    with FakeDaemon(home, lambda request: document({"jobs": jobs, "ids": [37, 38, 41]})):
        code, error = onto_full(home, 1, "rerun", "7,8,11")
    assert (code, error) == (1, b"grass: stored as 37-38,41, but stdout: No space left on device\n")


@pytest.mark.parametrize("words", [["run", "ls"], ["follow", "37"], ["log", "37"]])
def test_output_onto_a_full_disk_is_one_line_that_names_the_job(home: Path, words: list[str]) -> None:
    def answer(request: Request) -> Answer:
        if request.target == "/v1/enqueue":
            return stored(b"37\n", Grass_Follow=37)
        job = {"id": 37, "state": "running", "attempt": 1}
        return document({"jobs": [job]}) if "/v1/jobs?" in request.target else stream(b"hello\n", Grass_Attempt=1)

    with FakeDaemon(home, answer):
        code, error = onto_full(home, 1, *words)
    assert (code, error) == (1, b"grass: the log of job 37 is incomplete: stdout: No space left on device\n")


def onto_full(home: Path, stream: int, *words: str) -> tuple[int, bytes]:
    """Call `grass` with stdout or stderr on a full disk: its exit code, and what the other one got."""
    with Path("/dev/full").open("wb") as full:
        out, err = (full, subprocess.PIPE) if stream == 1 else (subprocess.PIPE, full)
        argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), *words]
        done = subprocess.run(argv, env=calls.environment(home), stdout=out, stderr=err, timeout=60, check=False)
    return done.returncode, done.stderr if stream == 1 else done.stdout


def test_the_body_is_json(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored()) as daemon:
        calls.grass(home, "enqueue", '"\\', "\u2028")
    assert json.loads(daemon.requests[0].body)["words"] == ['"\\', "\u2028"]
