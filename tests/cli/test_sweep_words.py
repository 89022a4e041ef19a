"""`grass sweep` and `grass rerun --failed`: what is sent, what is printed, and what is refused before that."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import FakeDaemon, document, stored

from grassq.cli.commands.jobs import sweep
from grassq.core.syntax.shell_lines import LINES_MAX
from grassq.net.encoding import BYTES_MAX

SAID = b"sweep sweep-12: 4 jobs 12-15\n"


def test_the_lines_are_sent_with_the_options_of_enqueue(home: Path) -> None:
    words = ["python t.py {a} {{gpu}} {b}", "--gpu", "0.5", "-p", "a", "-1", "2", "--queue", "q", "--retries", "2"]
    words += ["-p", "b", "x y", "z", "-e", "A=1", "--sampling-mode", "grid", "--printer=1", "-q"]
    with FakeDaemon(home, lambda request: stored(SAID)) as daemon:
        done = calls.grass(home, "sweep", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID.decode(), "")
    [request] = daemon.requests
    sent = request.document
    options = ["--gpu", "0.5", "--queue", "q", "--retries", "2", "-e", "A=1", "--printer=1", "-q"]
    assert sent["words"] == ["--stdin", *options]
    assert sent["verb"] == "sweep"
    assert sent["parameters"] == {"a": ["-1", "-1", "2", "2"], "b": ["x y", "z", "x y", "z"]}
    assert sent["lines"].splitlines() == [f"python t.py {a} {{gpu}} {b}" for a in ("-1", "2") for b in ("x y", "z")]


def test_the_order_is_random_unless_a_seed_fixes_it(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored(SAID)) as daemon:
        for seed in ([], [], ["--seed", "1"], ["--seed=1"], ["--seed=1", "--n-samples", "3"]):
            assert calls.grass(home, "sweep", "./run {a}", "-p", "a", *map(str, range(50)), *seed).returncode == 0
    lines = [request.document["lines"].splitlines() for request in daemon.requests]
    assert all(sorted(each) == sorted(lines[0]) for each in lines[:4])
    assert lines[0] != lines[1] and lines[2] == lines[3] and lines[4] == lines[2][:3]


def test_a_dry_run_asks_nobody(home: Path) -> None:
    done = calls.grass(home, "sweep", "./run {a}", "-p", "a", "1", "2", "--dry-run", "--sampling-mode=grid", "--gpu=1")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "./run 1\n./run 2\n",
        "grass: 2 jobs; nothing was enqueued\n",
    )
    assert not list(home.iterdir())


def test_notes_are_told_on_stderr(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored(SAID)):
        done = calls.grass(home, "sweep", "./run {a}", "-p", "a", "1", "-p", "b", "1", "2")
    assert done.stderr == "grass: no {b} is in the command, so every line comes 2 times\n"


@pytest.mark.parametrize("words", [["-h"], ["./run {a}", "-p", "a", "1", "--help"], ["./run", "-h"]])
def test_the_help_is_asked_for_anywhere(home: Path, words: list[str]) -> None:
    done = calls.grass(home, "sweep", *words)
    assert done.returncode == 0 and done.stdout.startswith("usage: grass sweep TEMPLATE")
    for option in ("-p", "--n-samples", "--sampling-mode", "--seed", "--dry-run", "--retries", "--gpu", "--queue"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{a}", "-p", "b", "1"], "{a} has no values: add -p a VALUE..., or write {{a}} for the text {a}"),
        (["${HOME}"], "{HOME} has no values: add -p HOME VALUE..., or write ${{HOME}} for the text ${HOME}"),
        (["{a}", "-p", "a"], "parameter 'a' has no values: -p a VALUE..."),
        (["x", "--n-samples", "-2"], "--n-samples needs a whole number, 0 or more, not '-2'"),
        (["x", "--sampling-mode", "all"], "--sampling-mode is shuffled_grid or grid, not 'all'"),
        (["x", "y"], 'put the whole command in quotes, as one word: "x y ..."'),
        (
            ["python", "t.py", "--lr", "{lr}", "-p", "lr", "1", "2"],
            'put the whole command in quotes, as one word: "python t.py ..."',
        ),
        (
            ["./run", "--lr", "{lr}", "-p", "lr", "1", "2"],
            "unknown option '--lr'; if it belongs to the command, put the whole command in quotes, as one word: "
            '"./run --lr ..."',
        ),
        (
            ["./run", "--seed", "{s}", "-p", "s", "1"],
            "--seed needs a whole number, not '{s}'; if it belongs to the command, put the whole command in quotes, "
            'as one word: "./run --seed ..."',
        ),
        (["ls {a}", "y"], "there is one command, 'ls {a}', so 'y' has no place here"),
        (["ls {a}", "-p", "a=1,2"], "-p a=1,2: write the name and each value as a word of its own: -p a 1 2"),
        (["ls {a}", "-p", "a=1", "2"], "-p a=1: write the name and each value as a word of its own: -p a 1"),
        ([], "the command is missing: put it in quotes, with {NAME} for each parameter"),
        (
            ["exp1", "-p", "a", "1", "--", "echo", "{a}"],
            "behind -- is the command, so 'exp1' has no place before it; a queue is --queue exp1",
        ),
        (
            ["-p", "a", "it's", "--", "echo", "{a}"],
            'the value "it\'s" of a has a quote; put the whole command in quotes, as one word',
        ),
        (["x", "--nmae=y", "--nmae", "y"], "unknown option '--nmae'; did you mean --name?"),
        (["night.toml"], "night.toml is a sweep in a file: grass sweep --file night.toml"),
        (["x", "--stdin"], "--stdin cannot go with a sweep, whose commands come from TEMPLATE"),
        (["x", "--sync"], "--sync follows one job, but a sweep has many; `grass wait NAME` waits for all of them"),
        (["x {a}", "-p", "a", "1\n2"], "a job is one line, but 'x 1\\n2' contains a line break"),
        (["{a}", "-p", "a", "ls", " "], "' ' is not a command"),
        (["{a}", "-p", "a", "ls", "#ls"], "'#ls' is not a command"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(home: Path, words: list[str], said: str) -> None:
    done = calls.grass(home, "sweep", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"grass: {said}\n")
    assert not list(home.iterdir())


def test_words_behind_two_dashes_are_one_command_and_each_value_stays_within_its_word(home: Path) -> None:
    search = ["-p", "lr", "0.1", "a b; ls", "--sampling-mode", "grid", "--dry-run"]
    done = calls.grass(home, "sweep", *search, "--", "python", "my train.py", "--lr={lr}")
    assert [shlex.split(line) for line in done.stdout.splitlines()] == [
        ["python", "my train.py", "--lr=0.1"],
        ["python", "my train.py", "--lr=a b; ls"],
    ], done.stderr


def test_one_value_with_commas_is_remarked(home: Path) -> None:
    done = calls.grass(home, "sweep", "ls {a} {b}", "-p", "a", "1,2,3", "-p", "b", "4", "5,6", "--dry-run")
    said = "parameter 'a' has one value, '1,2,3'; for several, put blanks between them: -p a 1 2 3"
    assert (done.returncode, done.stderr) == (0, f"grass: {said}\ngrass: 2 jobs; nothing was enqueued\n")
    assert len(done.stdout.splitlines()) == 2


def test_more_than_fits_is_one_sentence(home: Path) -> None:
    digits = [word for name in "abcdefg" for word in ("-p", name, *"0123456789")]
    done = calls.grass(home, "sweep", "{a}{b}{c}{d}{e}{f}{g}", *digits)
    assert done.returncode == 2
    assert done.stderr == (f"grass: 10,000,000 jobs are more than {LINES_MAX:,} at once; take fewer with --n-samples\n")
    long = ["-p", "x", *map(str, range(600)), "-p", "y", "a" * 100_000]
    done = calls.grass(home, "sweep", "./run {x} {y}", *long)
    assert done.returncode == 2 and f"more than {BYTES_MAX:,} bytes" in done.stderr
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (SAID, b"jobs 12-15 are stored"),
        (b"sweep lr-3-4: 1 job 12\n", b"job 12 is stored"),
        (b'{"first":4,"count":2,"queue":"q","name":"n"}\n', b"the jobs are stored"),
    ],
)
def test_when_the_answer_cannot_be_written_it_is_said_what_is_stored(home: Path, printed: bytes, said: bytes) -> None:
    with FakeDaemon(home, lambda request: stored(printed)), Path("/dev/full").open("wb") as full:
        argv = [sys.executable, str(calls.ROOT / "bin" / "grass"), "sweep", "ls"]
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, env=calls.environment(home), timeout=60, check=False
        )
    assert done.returncode == 1 and said in done.stderr


def test_values_end_at_every_option_of_one_letter() -> None:
    # Else a -q behind the values would be one of them, and the job of it a surprise.
    assert set(sweep._SHORTS) == {"-h", "-q", "-e"}


def test_a_rerun_of_what_failed_is_asked_for(home: Path) -> None:
    jobs = [{"id": 7, "rerun_of": 3, "state": "queued"}]
    with FakeDaemon(home, lambda request: document({"ids": [7], "jobs": jobs, "notes": []})) as daemon:
        assert calls.grass(home, "rerun", "--failed", "sweep-1").stdout == "job 7 is a rerun of job 3\n"
        assert calls.grass(home, "rerun", "--failed").returncode == 0
        assert calls.grass(home, "rerun", "3").returncode == 0
    sent = [(request.document["selectors"], request.document.get("failed")) for request in daemon.requests]
    assert sent == [(["sweep-1"], True), ([], True), (["3"], None)]


def test_where_there_is_nothing_to_run_again_that_is_said(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({"ids": [], "jobs": [], "notes": []})):
        done = calls.grass(home, "rerun", "--failed", "x")
        quiet = calls.grass(home, "rerun", "--failed", "x", "-q")
        told = calls.grass(home, "rerun", "--failed", "x", "--json")
    assert done.returncode == quiet.returncode == told.returncode == 0
    assert done.stdout.startswith("nothing to rerun") and quiet.stdout == ""
    assert json.loads(told.stdout)["jobs"] == []


def test_a_rerun_of_nothing_named_is_exit_2(home: Path) -> None:
    done = calls.grass(home, "rerun")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "--failed" in done.stderr
