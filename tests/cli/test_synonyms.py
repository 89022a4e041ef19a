"""Words of other tools, and commands that do not exist: understood where that is harmless, else answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.fake import FakeDaemon, document

from grassq.cli.main import main
from grassq.cli.synonyms import ADVICE, HARMFUL, UNDERSTOOD, in_our_words
from grassq.core.syntax.commands import BY_NAME

OTHER_TOOLS = """
ls ps list top tail cat cancel submit add rm retry logs stat queue jobs del delete stop-job restart-job mv
history eta completion nodes workers squeue sbatch scancel qsub qstat qdel watch attach resubmit requeue suspend gpus
"""


def complaint(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    return err.removeprefix("grass: ").removesuffix("\n")


@pytest.mark.parametrize("word", sorted({*OTHER_TOOLS.split()} - BY_NAME.keys()))
def test_a_word_of_another_tool_is_understood_or_answered(word: str) -> None:
    assert (word in UNDERSTOOD) != (word in ADVICE)


def test_no_synonym_hides_a_command() -> None:
    assert not BY_NAME.keys() & (UNDERSTOOD.keys() | ADVICE.keys())
    assert all(words[0] in BY_NAME or words[0] == "--version" for words in UNDERSTOOD.values())
    assert not HARMFUL & {words[0] for words in UNDERSTOOD.values()}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("squeue --start 5", "eta 5"),
        ("squeue 5", "show 5"),
        ("watch 5", "show --watch=2 5"),
        ("htop", "top"),
        ("sacct", "history"),
    ],
)
def test_a_command_line_of_another_tool_is_put_into_our_words(typed: str, meant: str) -> None:
    name, *words = typed.split()
    assert in_our_words(name, words) == meant.split()


@pytest.mark.parametrize("word", ["ls", "ps", "list", "jobs"])
def test_a_word_that_lists_jobs_shows_them(word: str, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": []})) as daemon:
        assert main([word, "running"]) == 0
    assert daemon.requests[0].target == "/v1/show?selector=running"
    assert capfd.readouterr() == ("no jobs\n", "")


def test_tail_prints_the_last_lines_of_a_log(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = {"id": 5, "state": "succeeded", "attempt": 1, "started": "2026-01-02T03:04:05.678Z"}
    lines = {"lines": [{"n": 1, "spans": [["", "x"]]}], "is_whole": True}
    with FakeDaemon(home, lambda request: document(lines if "/log" in request.target else {"jobs": [job]})) as daemon:
        assert main(["tail", "5"]) == 0
        assert main(["tail", "-n", "3", "5"]) == 0
    asked = [request.target for request in daemon.requests if "/log" in request.target]
    assert ["line=-10" in asked[0], "line=-3" in asked[1]] == [True, True]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("cancel 5", "'cancel' is not a command; to end jobs: grass kill 5"),
        (
            "submit python 'my train.py'",
            "'submit' is not a command; to put a command into the queue: grass enqueue python",
        ),
        ("retry 5", "'retry' is not a command; to submit jobs again: grass rerun 5"),
        ("alter 5", "'alter' is not a command; to change a job that has not started: grass edit 5"),
        ("scontrol update job 5", "'scontrol' is not a command; to change a waiting job: grass edit JOB"),
        ("queue", "'queue' is not a command; to list jobs and queues: grass show; to add a job: grass enqueue"),
    ],
)
def test_an_answer_names_the_command_to_type(words: str, answer: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert complaint(words.split(), capfd).startswith(answer)


@pytest.mark.parametrize("word", ["sop", "strat", "remve", "kil", "klean", "delete-que", "restrat", "sto", "stp"])
def test_a_guess_is_never_a_command_that_ends_or_deletes(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    said = complaint([word], capfd)
    guess = said.partition("did you mean '")[2].partition("'")[0]
    assert guess not in HARMFUL


@pytest.mark.parametrize(
    ("word", "meant"), [("enqeue", "enqueue"), ("shwo", "show"), ("wiat", "wait"), ("folow", "follow")]
)
def test_a_misspelt_command_is_guessed(word: str, meant: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert complaint([word], capfd) == f"there is no command '{word}'; did you mean '{meant}'?"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("--json show", "grass show --json"),
        ("-q enqueue ls", "grass enqueue -q ls"),
        ("--broker host show all", "grass show --broker host all"),
    ],
)
def test_an_option_before_the_command_is_put_behind_it(
    words: str, right: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert complaint(words.split(), capfd) == f"options come after the command: {right}"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("stop 5", "`grass stop` ends the daemon and takes no job; to end a job: grass kill 5"),
        ("restart 5", "`grass restart` restarts the daemon and takes no job; to submit a job again: grass rerun 5"),
        ("start 5", "`grass start` starts the daemon and takes no job; to let a held job start: grass release 5"),
    ],
)
def test_a_command_about_the_daemon_given_a_job_names_the_one_about_jobs(
    words: str, answer: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert complaint(words.split(), capfd) == answer


def test_help_of_a_synonym_is_help_of_what_it_means(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "ls"]) == main(["ls", "--help"]) == 0
    assert capfd.readouterr().out.count("usage: grass show") == 2


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("show --failed", "unrecognized arguments: --failed; a state is a word: grass show failed"),
        ("wait --running", "unrecognized arguments: --running; a state is a word: grass wait running"),
        ("kill -9 5", "`grass kill` sends SIGTERM, then SIGKILL; to kill at once: grass kill --grace 0 5"),
    ],
)
def test_an_option_that_people_try_is_answered(words: str, answer: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert complaint(words.split(), capfd) == answer


def test_show_all_may_be_spelled_as_an_option(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({"jobs": []})) as daemon:
        assert main(["show", "--all"]) == 0
    assert daemon.requests[0].target == "/v1/show?selector=all"
