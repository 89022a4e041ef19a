"""What a submission takes from files: options inside of a script, and sweeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.fake import Answer, FakeDaemon, Request, document, stored

from grassq.errors import BadInput, NotFound
from grassq.sdk import Client, JobList

SCRIPT = """#!/bin/sh
#GRASS --gpu 0.5 --printer=2 --name x --retries 2 --warn 60s:TERM --time-limit 2h
#GRASS --tag team=a -e A=b -e B=c --after 3 --label big --output out-{job.id}
"""
FILE = """name = "fit"
command = ["sh", "train.sh", "{x}"]
cpu = 1
[params]
x = "1..2"
"""
APPLIED: dict[str, Any] = {"name": "fit", "sweep": 7, "dry_run": False, "first": 7, "count": 2, "ended": [3]}
APPLIED |= {"counts": {"new": 2}, "new": [{"x": "1"}, {"x": "2"}], "changed": [], "again": [], "kept": [], "gone": []}


def answer(request: Request) -> Answer:
    if request.target == "/v1/enqueue":
        return stored(json.dumps(APPLIED).encode())
    if request.target == "/v1/submit-many":
        return document({"first": 7, "count": 2, "warnings": []})
    return document({"ids": [8], "warnings": [], **({"existing": True} if b"unique" in request.body else {})})


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return path


def sent(home: Path, command: object, **options: object) -> dict[str, Any]:
    with FakeDaemon(home, answer) as daemon, Client(home) as client:
        client.submit(command, **options)  # type: ignore[arg-type]
    [job] = daemon.requests[0].document["jobs"]
    return dict(job)


@pytest.mark.parametrize("command", [["sh", "train.sh", 3], ["./train.sh"], "A=1 sh train.sh | tee log"])
def test_a_script_gives_the_options_that_the_program_does_not(home: Path, command: object) -> None:
    job = sent(home, command)
    assert job["request"] == {"gpu": "0.5", "printer": "2"}
    assert (job["name"], job["tries"], job["time_limit_s"], job["warn_s"], job["warn_signal"]) == (
        "x",
        3,
        7200,
        60,
        "TERM",
    )
    assert (job["tags"], job["env"], job["after"]) == ({"team": "a"}, [["A", "b"], ["B", "c"]], ["3"])
    assert (job["labels"], job["output"]) == (["big"], "out-{job.id}")


def test_what_the_program_gives_wins_and_tags_and_variables_are_added(home: Path) -> None:
    given = {"gpu": 1, "name": "y", "tries": 1, "env": {b"A": "z"}, "tags": {"who": "me"}, "warn_s": 5, "after": 9}
    job = sent(home, ["sh", "train.sh"], **given, request={"printer": 1})
    assert job["request"] == {"printer": 1, "gpu": 1}
    assert (job["name"], job["tries"], job["warn_s"], job.get("warn_signal"), job["after"]) == ("y", 1, 5, None, ["9"])
    assert (job["env"], job["tags"]) == ([["A", "z"], ["B", "c"]], {"team": "a", "who": "me"})


def test_sweeps_and_arrays_read_the_script_and_lists_of_commands_do_not(home: Path, script: Path) -> None:
    script.write_text("#GRASS --cpu 2 --at-once 4\n")
    with FakeDaemon(home, answer) as daemon, Client(home) as client:
        client.sweep(["sh", "train.sh", "{x}"], {"x": "1..2"})
        client.submit_array("sh train.sh {index}", "1-2", at_once=1)
        client.submit_many(["sh train.sh 1", "sh train.sh 2"])
        with pytest.raises(BadInput, match=r"^train.sh: its #GRASS lines have at_once, which is of many jobs"):
            client.submit(["sh", "train.sh"])
    swept, array, many = [request.document for request in daemon.requests]
    assert (swept["job"]["request"], swept["sweep"]) == ({"cpu": "2"}, {"at_once": 4})
    assert (array["job"]["request"], array["sweep"]) == ({"cpu": "2"}, {"at_once": 1})
    assert "request" not in many["job"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--naem x", "train.sh, line 1: unknown option '--naem'; did you mean --name?"),
        ("--array 0-9", "train.sh: its #GRASS lines have --array, which is for `grass enqueue` alone"),
        ("--require '{gpu: 1}'", "train.sh: its #GRASS lines have --require, which a command line alone reads"),
        ("--tries 2 --retries 1", "train.sh: give either --tries or --retries"),
    ],
)
def test_a_wrong_line_is_named_before_anything_is_sent(home: Path, script: Path, line: str, said: str) -> None:
    script.write_text(f"#GRASS {line}\n")
    with FakeDaemon(home, answer) as daemon, Client(home) as client, pytest.raises(BadInput) as refused:
        client.submit(["sh", "train.sh"])
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)
    assert daemon.requests == []


def test_a_job_tells_whether_it_was_there_before(home: Path) -> None:
    with FakeDaemon(home, answer), Client(home) as client:
        assert client.submit(["true"], unique="k").existing is True
        assert client.submit(["true"]).existing is False


def test_a_sweep_in_a_file_is_applied(home: Path, tmp_path: Path, script: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(FILE)
    script.write_text("#GRASS --cpu 2 --hold\n")
    with FakeDaemon(home, answer) as daemon, Client(home) as client:
        done = client.sweep_file(file, prune=True)
        assert isinstance(done.jobs, JobList) and [job.id for job in done.jobs] == [7, 8]
        assert (done.name, done.sweep, done.ended, done.counts) == ("fit", 7, [3], {"new": 2})
        file.write_text(FILE.replace("x = ", "y = "))
        with pytest.raises(BadInput, match=r"s\.toml, line 5: y: there is no \{y\} in command"):
            client.sweep_file(file)
    [request] = daemon.requests
    body = request.document
    assert body["words"] == ["--stdin", "--json", "--hold", "--name", "fit", "--cpu=1"]
    assert (body["lines"], body["parameters"]) == ("sh train.sh 1\nsh train.sh 2", {"x": ["1", "2"]})
    assert body["sweep"] == {"apply": True, "prune": True, "dry_run": False, "definition": FILE}


def test_what_the_daemon_refuses_of_a_file_is_raised(home: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(FILE)
    refusal = stored(b"", b"grass: there is no queue 'x'\n", exit_code=3)
    with (
        FakeDaemon(home, lambda request: refusal),
        Client(home) as client,
        pytest.raises(NotFound, match=r"^there is no queue 'x'$"),
    ):
        client.sweep_file("s.toml", dry_run=True)
