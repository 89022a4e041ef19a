"""Commands, their help and their complaints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import FakeDaemon, document, stream

from grassq.cli import fast
from grassq.cli import help as texts
from grassq.cli import main as cli
from grassq.cli.main import main
from grassq.core.syntax.commands import BY_NAME, COMMANDS

Grass = Callable[..., calls.Done]


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("form", ["option", "short", "command"])
def test_every_command_has_help(name: str, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = {"option": [name, "--help"], "short": [name, "-h"], "command": ["help", name]}[form]
    assert main(words) == 0
    out, err = capfd.readouterr()
    assert out.startswith(f"usage: grass {name}")
    assert err == ""


def test_parsers_lists_every_command() -> None:
    found = dict(cli.parsers())
    assert set(found) == set(BY_NAME)
    assert all(isinstance(parser, str) == BY_NAME[name].takes_words for name, parser in found.items())
    assert isinstance(found["show"], argparse.ArgumentParser)


def test_the_fast_path_knows_every_name_of_show() -> None:
    assert set(fast.SHOWS) == {name for name, command in BY_NAME.items() if command.name == "show"}


@pytest.mark.parametrize("words", [[], ["--help"], ["help"], ["-h"]])
def test_grass_alone_names_every_command(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capfd.readouterr().out
    assert all(f"  {name} " in out for name in [command.name for command in COMMANDS])
    assert max(map(len, out.splitlines())) <= 80


OPTIONS = "require gpu cpu mem vram disk env cwd queue name priority hold split shell"
OPTIONS += " quiet json sync grace on-lost tries broker worker label"


@pytest.mark.parametrize("name", ["enqueue", "run"])
@pytest.mark.parametrize("option", OPTIONS.split())
def test_the_help_of_a_job_names_every_option(name: str, option: str) -> None:
    assert f"--{option}" in texts.text_of(name)


REMOTE = (
    "show info status top why kill rerun hold release suspend priority edit clean wait events log follow pause resume "
)
REMOTE += (
    "history web delete-queue limit move eta what-if token device drain remove audit run sweep enqueue create-queue"
)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_command_that_asks_the_queue_can_ask_a_broker(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help", name]) == 0
    is_told = "--broker ADDRESS" in capfd.readouterr().out
    # To these two it says where the broker of the code is.
    assert is_told == (name in REMOTE.split() or name in ("join", "login"))


def test_a_misspelt_command_is_exit_2_with_a_hint(grass: Grass) -> None:
    done = grass("enqeue", "ls")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "grass: there is no command 'enqeue'; did you mean 'enqueue'?\n"


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--jsno"],
        ["kill"],
        ["priority", "1", "high"],
        ["wait", "1", "--timeout", "soon"],
        ["daemon", "--bind", ":7500", "--no-broker"],
        ["daemon", "--connect", "a:7500", "--no-worker"],
        ["daemon", "--no-broker", "--no-worker"],
        ["daemon", "--store", "oracle"],
        ["log"],
        ["nonsense"],
        ["\x1b[2J"],
    ],
)
def test_a_mistake_is_one_line_and_exit_2(words: list[str], home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": []})):
        assert main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("grass: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_no_home_is_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = calls.grass(tmp_path / "file", "show")
    assert done.returncode in (2, 5)
    assert done.stderr.startswith("grass: ")
    assert "Traceback" not in done.stderr


def test_a_reader_that_went_away_is_no_complaint(home: Path) -> None:
    import os
    import subprocess
    import sys

    reading, writing = os.pipe()
    os.close(reading)
    with FakeDaemon(home, lambda request: document({"jobs": []})):
        done = subprocess.run(
            [sys.executable, str(calls.ROOT / "bin" / "grass"), "show"],
            env=calls.environment(home), stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    os.close(writing)
    assert done.stderr == b""


JOB = {
    "id": 12, "name": None, "queue": "exp1", "state": "running", "reason": None, "shell": False,
    "command": ["python", "train.py", "a b", "x\x1b[2Jy"], "request": {"gpu": 0.5}, "allocation": {"gpu": {"0": 0.5}},
    "worker": "desk", "attempt": 1, "pid": 4711, "created": "2026-11-15T10:00:00Z", "started": "2026-11-15T10:00:01Z",
    "finished": None, "exit_code": None, "signal": None, "outcome": None, "priority": 30, "cwd": "/w",
}  # fmt: skip
DONE = {
    **JOB, "id": 11, "state": "failed", "exit_code": 3, "outcome": "exit_code", "finished": "2026-11-15T10:02:03Z",
    "allocation": None,
}  # fmt: skip
QUEUE = {
    "name": "exp1", "paused": True, "limits": {"gpu": {"0": 1.0, "1": 1.0}, "cpu": 32}, "prefix": ["lpr"],
    "free": {"gpu": {"0": 0.5, "1": 1.0}, "cpu": 32}, "running": 1, "queued": 0,
}  # fmt: skip
SHOWN = {
    "schema": 1, "jobs": [JOB, DONE], "queues": [QUEUE], "totals": {"running": 1, "failed": 1}, "more": False,
    "workers": [{"name": "desk", "online": True, "capacity": {}, "free": {}}],
}  # fmt: skip


def test_show_in_a_pipe_is_plain_aligned_text(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document(SHOWN)):
        done = grass("show")
    assert done.returncode == 0, done.stderr
    header, running, failed, *rest = done.stdout.splitlines()
    assert header.split() == ["ID", "QUEUE", "STATE", "COMMAND", "HOLDS", "PID", "CREATED", "STARTED", "TOOK", "RESULT"]
    assert running[header.index("STATE") :].startswith("running")
    assert failed.endswith("exit 3")
    assert "gpu:0(0.5)" in running
    assert "4711" in running
    assert "2m2s" in failed
    assert "\x1b" not in done.stdout
    assert "exp1 (paused)" in "\n".join(rest)


def test_show_json_is_the_daemons_document(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document(SHOWN)) as daemon:
        done = grass("status", "--json", "3-7", "queue:a b")
    assert json.loads(done.stdout) == SHOWN
    assert daemon.requests[0].target == "/v1/show?selector=3-7&selector=queue%3Aa%20b"


def test_show_of_one_job_tells_all_about_it(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({**SHOWN, "jobs": [DONE]})):
        done = grass("show", "11")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["state"] == "failed"
    assert lines["result"] == "exit 3"
    assert "\x1b" not in lines["command"]


def test_options_may_stand_between_selectors(home: Path, grass: Grass) -> None:
    told = {"ids": [12], "jobs": [JOB], "stopping": 1, "grace_s": [2, 2], "notes": ["half done"]}
    with FakeDaemon(home, lambda request: document(told)) as daemon:
        done = grass("kill", "3", "--grace", "2s", "4")
    assert daemon.requests[0].document["selectors"] == ["3", "4"]
    assert daemon.requests[0].document["grace_s"] == 2.0
    assert done.stdout == "job 12: asked to stop (killed after 2s)\n"
    assert done.stderr == "grass: half done\n"


@pytest.mark.parametrize(
    ("words", "stopping", "said"),
    [
        ("kill all", (12, 10, 10), "400 jobs: 12 asked to stop (killed after 10s), 388 cancelled"),
        ("kill all", (400, 2, 10), "400 jobs: 400 asked to stop (killed after 2s to 10s)"),
        ("kill all", (0,), "400 jobs: 400 cancelled"),
        ("hold all", (0,), "held 400 jobs"),
        ("release all", (0,), "released 400 jobs"),
        ("priority all 40", (0,), "400 jobs: priority 40"),
        ("rerun all", (0,), "submitted 400 jobs again: 1-400"),
        ("clean all", (0,), "removed 400 jobs"),
    ],
)
def test_of_many_jobs_one_line_tells_the_counts(
    home: Path, grass: Grass, words: str, stopping: tuple[int, ...], said: str
) -> None:
    ids = list(range(1, 401))
    told = {"count": 400, "ids": ids, "stopping": stopping[0], "grace_s": list(stopping[1:]), "jobs": [], "notes": []}
    with FakeDaemon(home, lambda request: document(told)):
        plain, verbose, quiet = (grass(*words.split(), *more) for more in ((), ("-v",), ("-q",)))
        assert json.loads(grass(*words.split(), "--json").stdout) == told
    assert plain.stdout == f"{said}\n"
    assert verbose.stdout == f"{said}\n1-400\n"
    assert quiet.stdout.split() == [str(id_) for id_ in ids]


def test_a_failure_in_the_middle_of_an_answer_is_told(home: Path, grass: Grass) -> None:
    error = {"error": {"exit": 5, "message": "the disk is full; 200 of 400 jobs were done before"}}
    with FakeDaemon(home, lambda request: stream(b"  " + json.dumps(error).encode())):
        done = grass("kill", "all")
    assert (done.returncode, done.stderr) == (5, "grass: the disk is full; 200 of 400 jobs were done before\n")


def test_priority_may_be_negative(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({"ids": [12], "jobs": [{**JOB, "priority": -5}]})) as daemon:
        assert grass("priority", "3", "-5").returncode == 0
    assert daemon.requests[0].document["priority"] == -5


@pytest.mark.parametrize(
    ("states", "code"), [(["succeeded"], 0), (["succeeded", "failed"], 1), (["cancelled"], 1), (["running"], 124)]
)
def test_wait_ends_as_the_jobs_did(home: Path, grass: Grass, states: list[str], code: int) -> None:
    jobs = [{**JOB, "id": number, "state": state} for number, state in enumerate(states, 1)]
    with FakeDaemon(home, lambda request: document({"done": code != 124, "jobs": jobs})):
        done = grass("wait", "--timeout", "0.05s", "all")
    assert done.returncode == code
    assert done.stdout == ""


def test_create_queue_words_travel_untouched(home: Path, grass: Grass) -> None:
    answer = {"name": "print", "status": "created", "notes": []}
    with FakeDaemon(home, lambda request: document(answer)) as daemon:
        done = grass("create-queue", "print", "--printer=1", "lpr", "-q", "--json")
    assert daemon.requests[0].document["words"] == ["print", "--printer=1", "lpr", "-q", "--json"]
    assert done.stdout == "queue print created\n"


def test_stop_starts_nothing(grass: Grass, home: Path) -> None:
    done = grass("stop")
    assert (done.returncode, done.stdout) == (0, "no daemon runs\n")
    assert list(home.iterdir()) == []


def test_doctor_works_without_a_daemon_and_starts_none(grass: Grass, home: Path) -> None:
    done = grass("doctor", "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["home"]["status"] in ("ok", "warn")
    assert checks["daemon"]["found"].startswith("none runs")
    assert done.returncode == int(any(check["status"] == "fail" for check in checks.values()))
    assert list(home.iterdir()) == []
