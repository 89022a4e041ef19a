"""`grass __complete`: which words it offers where, with daemons that are absent, slow or hostile."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.calls import ROOT, Done
from tests.cli.fake import FakeDaemon, Request, document, reply

from grassq.cli.completion import answer
from grassq.cli.completion.grammar import GROUPS, STATES, Expected, expected
from grassq.cli.completion.table import table
from grassq.cli.main import parsers
from grassq.core import names
from grassq.core.syntax import options
from grassq.core.syntax.commands import COMMANDS

TABLE = table()
Call = Callable[..., Done]


def at(*words: str, queues: tuple[str, ...] = ()) -> Expected:
    return expected(list(words), TABLE, queues.__contains__)


def in_time(grass: Call, *words: str) -> Done:
    """Ask until the daemon answers in time: on a busy machine 0.2 s may be too short for it."""
    return next(done for _ in range(20) if "\t" in (done := grass(*words)).stdout)


def offered(found: Expected) -> set[str]:
    return {word for word, _ in found.rows if word.startswith(found.prefix)}


def test_every_command_and_every_option_of_the_parsers_is_in_the_table() -> None:
    assert {command.name for command in COMMANDS} <= offered(at(""))
    for name, parser in parsers():
        if not isinstance(parser, str):
            shown = [action for action in parser._actions if action.help != "==SUPPRESS=="]
            long = {word for action in shown for word in action.option_strings if word.startswith("--")}
            assert long <= offered(at(name, "--")), name


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("enqueue", options.ENQUEUE),
        ("run", options.ENQUEUE),
        ("create-queue", options.CREATE_QUEUE),
    ],
)
def test_every_option_that_the_daemon_reads_is_in_the_table_with_its_value(name: str, read: options.Table) -> None:
    rows = {line.split("\t")[1]: line.split("\t") for line in TABLE.splitlines() if line.startswith(f"{name}\t")}
    for key, option in read.items():
        _, _, value, description = rows[key.decode()]
        assert value[:1] == {"flag": "", "maybe": "?", "value": "="}[option.takes], key
        assert description


def test_the_states_are_those_of_jobs() -> None:
    assert STATES == names.STATES
    assert all(set(states) <= set(STATES) for states in GROUPS.values())


@pytest.mark.parametrize(
    ("words", "action", "place"),
    [
        (("enqueue", "--", "git", "ch"), "command", 2),
        (("enqueue", "--gpu", "1", "git", "ch"), "command", 3),
        (("enqueue", "--gpu=1", "exp", "--cpu", "2", "git", "ch"), "command", 5),
        (("enqueue", "later", "--gpu=1", "--", "git", "ch"), "command", 4),
        (("enqueue", "gi"), "command", 1),
        (("run", "exp", "gi"), "command", 2),
        (("create-queue", "new", "--gpu=1", "lp"), "command", 3),
        (("enqueue", "python", "--gp"), "command", 1),
        (("enqueue", "--cwd", ""), "folders", 0),
        (("enqueue", "--shell=/bin/z"), "files", 0),
        (("kill", "--", ""), "words", 0),
    ],
)
def test_the_command_of_a_job_is_left_to_the_shell(words: tuple[str, ...], action: str, place: int) -> None:
    found = at(*words, queues=("exp",))
    assert (found.action, found.place) == (action, place)


@pytest.mark.parametrize(
    ("words", "kinds", "prefix", "kept"),
    [
        (("kill", "1,4,7"), ("job",), "7", 4),
        (("kill", "3-"), ("job",), "", 2),
        (("kill", "queue:e"), ("queue",), "e", 6),
        (("kill", "tag:team=a"), ("tag",), "team=a", 4),
        (("kill", "failed+project:v"), ("project",), "v", 15),
        (("show", "sweep:1"), ("sweep",), "1", 6),
        (("show", "1,2,sweep:"), ("sweep",), "", 10),
        (("show", "failed,tr"), ("job", "queue", "name"), "tr", 7),
        (("enqueue", "--after", "12,1"), ("job",), "1", 3),
        (("enqueue", "--after-any=1"), ("job",), "1", 12),
        (("sweep", "--after-fail", "tr"), ("job", "queue", "name"), "tr", 0),
        (("enqueue", "--tag", "te"), ("tag",), "te", 0),
        (("enqueue", "--project", "v"), ("project",), "v", 0),
        (("show", "--", "tr"), ("job", "queue", "name"), "tr", 0),
        (("enqueue", "--queue=ex"), ("queue",), "ex", 8),
        (("drain", ""), ("worker",), "", 0),
        (("device", "drain", "0"), ("device",), "0", 0),
        (("machine", "test", "g"), ("machine",), "g", 0),
        (("logs", "1"), ("job",), "1", 0),
        (("show", "--watch", "1"), ("job",), "1", 0),
        (("priority", "3", ""), ("job", "queue", "name"), "", 0),
    ],
)
def test_the_daemon_is_asked_for_what_can_come(
    words: tuple[str, ...], kinds: tuple[str, ...], prefix: str, kept: int
) -> None:
    found = at(*words)
    assert (found.kinds, found.prefix, found.kept) == (kinds, prefix, kept)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.sampled_from([command.name for command in COMMANDS]))
def test_any_words_have_an_answer(words: list[str], name: str) -> None:
    for typed in (words, [name, *words], [name, "--", *words]):
        found = at(*typed)
        assert 0 <= found.kept <= len(typed[-1]) and 0 <= found.place < len(typed)
        assert all("\n" not in word and "\t" not in word for word, _ in found.rows)


def test_the_words_are_those_of_the_daemon_and_a_typed_broker_is_asked(home: Path, grass: Call) -> None:
    with FakeDaemon(home, lambda _: document({"rows": [["12", "sleep 9"], ["2", "no"], ["1x", "yes"]]})) as daemon:
        done = in_time(grass, "__complete", "kill", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "words 0\n12\tsleep 9\n1x\tyes\n", "")
    assert (
        daemon.requests[0].target == "/v1/complete?kind=job&prefix=1&states=held%2Cwaiting%2Cqueued%2Cplaced%2Crunning"
    )
    with FakeDaemon(home, lambda _: document({"rows": [["12", "x"]]})) as daemon:
        done = grass("__complete", "kill", "--broker", "nosuch.invalid", "1")
    assert done.stdout == "words 0\n" and not daemon.requests


def test_the_words_of_selectors_are_offered_without_the_daemon() -> None:
    assert offered(at("show", "state:fa")) == {"failed"} and at("show", "state:fa").kept == 6
    assert offered(at("show", "tag:a=b+state:")) == {*STATES}
    assert {"1h", "1d"} <= offered(at("kill", "failed+since:"))
    assert offered(at("show", "s")) == {"state:", "since:", "sweep:", "succeeded"}
    assert offered(at("enqueue", "--after", "sw")) == {"sweep:"}


def test_columns_are_completed_one_by_one() -> None:
    found = at("show", "-o", "id,sta")
    assert (found.kept, offered(found)) == (3, {"state", "started"})
    assert "queue" in offered(at("show", "--columns=+qu")) and at("show", "--columns=+qu").kept == 11
    assert offered(at("history", "--by", "")) == {"day", "queue", "name", "worker", "user"}


def test_without_a_daemon_the_words_of_the_table_are_offered_and_none_is_started(home: Path, grass: Call) -> None:
    done = grass("__complete", "kill", "--gr")
    assert done.stdout.startswith("words 0\n--grace\t") and done.stderr == ""
    assert "queued\t" in grass("__complete", "show", "").stdout
    assert not [*home.iterdir()]


def test_a_home_that_cannot_be_used_costs_only_the_words_of_the_daemon() -> None:
    command = [sys.executable, str(ROOT / "bin" / "grass"), "__complete", "kill", "ru"]
    env = {"HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "words 0\nrunning\t\n", "")


def test_a_daemon_that_does_not_answer_does_not_hold_the_shell_up(home: Path, grass: Call) -> None:
    over = threading.Event()

    def asleep(request: Request) -> bytes | None:
        over.wait(60)
        return None

    with FakeDaemon(home, asleep):
        done = grass("__complete", "kill", "")
        assert not over.is_set(), "the daemon still sleeps"
        over.set()
    assert "running\t" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "answered",
    [
        reply(b"no json"),
        reply(b"[]"),
        document({"rows": 3}),
        document({"rows": [["a"], [1, 2], "x", None, {"a": 1}]}),
        reply(b"{}", status=500),
        b"garbage\r\n\r\n",
        None,
    ],
)
def test_an_answer_that_makes_no_sense_is_as_good_as_none(home: Path, grass: Call, answered: bytes | None) -> None:
    with FakeDaemon(home, lambda _: answered):
        done = grass("__complete", "drain", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "words 0\n", "")


@given(st.text(max_size=20), st.text(max_size=100))
def test_no_word_of_a_daemon_is_more_than_a_word(word: str, about: str) -> None:
    text = answer._text(Expected(), [(word, about), ("next", "")])
    lines = text.split("\n")
    assert lines[0] == "words 0" and lines[-2:] == ["next\t", ""] and len(lines) <= 4
    if len(lines) == 4:
        assert lines[1].split("\t")[0] == word
        assert re.fullmatch(r"[^\s'\"`$;&|<>(){}\[\]*?!#\\^]+", word) and word[0] not in "~="
    assert text.replace("\n", "").replace("\t", "").isprintable()


def test_thousands_of_words_are_cut(home: Path, grass: Call) -> None:
    rows = [[f"w{number}", "x" * 500] for number in range(5000)]
    with FakeDaemon(home, lambda _: document({"rows": rows})):
        done = in_time(grass, "__complete", "drain", "w")
    lines = done.stdout.splitlines()
    assert len(lines) == answer.ROWS_MAX + 1 and max(map(len, lines)) < 200


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(grass: Call, shell: str) -> None:
    done = grass("completion", shell)
    assert done.returncode == 0 and "__complete" in done.stdout
    assert f"grass completion {shell}" in grass("completion", "--help").stdout


def test_another_shell_is_refused_in_one_line(grass: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert grass("completion", "csh").returncode == 2
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    done = grass("completion")
    assert done.returncode == 2 and "bash, zsh, fish" in done.stderr and done.stderr.count("\n") == 1
