"""Completion in real shells: bash with and without its library, zsh and fish. The daemon answers from a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.completion.shells import BASH_COMPLETION, SCRIPTS, Shell, env_of, in_bash, in_fish, needs
from tests.cli.fake import FakeDaemon, Request, document

HOSTILE = "running sh -c '$(touch pwned) `touch pwned` \"; touch pwned #' a:b %F{red}"
ROWS = [["7", HOSTILE], ["71", "queued sleep 9"], ["train", "queue, 2 queued"], ["trial:2", "x"]]
TRIES = 5
#: Names that no shell may be given.
EVIL = [["$(touch pwned)", "a"], ["`touch pwned`", "b"], ["a;touch pwned", "c"], ["a b", "d"], ["~root", "e"]]


def served(request: Request) -> bytes:
    return document({"rows": ROWS + EVIL})


@pytest.fixture
def env(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a shell whose `grass` has a daemon."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "data.csv").touch()
    monkeypatch.chdir(folder)
    with FakeDaemon(home, served):
        yield env_of(home, tmp_path / "bin")
    assert not [path for path in tmp_path.rglob("pwned")], "the shell ran what a job's name or command says"


def words(lines: list[str]) -> list[str]:
    return [line.split("\t")[0] for line in lines]


Cases = list[tuple[str, list[str]]]


def check(cases: Cases, ask: Callable[[list[str]], list[list[str]]]) -> None:
    """Ask a shell until it offers what is expected: on a busy machine the daemon may take longer than a shell waits."""
    for _ in range(TRIES):
        offers = ask([line for line, _ in cases])
        cases = [case for case, offer in zip(cases, offers, strict=True) if offer != case[1]]
        if not cases:
            return
    assert [*zip([line for line, _ in cases], ask([line for line, _ in cases]), strict=True)] == cases


CASES: Cases = [
    ("grass kil", ["kill"]),
    ("grass kill 7", ["7", "71"]),
    ("grass log --ta", ["--tail"]),
    ("grass enqueue --queue tr", ["train", "trial:2"]),
    ("grass ls fail", ["failed"]),
    ("grass enqueue --on-lost ", ["fail", "requeue"]),
    ("grass daemon --cert da", ["data.csv"]),
    ("grass enqueue -- cat da", ["data.csv"]),
    ("grass enqueue cat da", ["data.csv"]),
    ("grass nosuch x", []),
    ("grass kill nosuch", []),
]


@pytest.mark.parametrize("with_library", [False, True])
def test_bash_offers_what_can_come(env: dict[str, str], with_library: bool) -> None:
    needs("bash")
    if with_library and not BASH_COMPLETION.exists():
        pytest.skip("bash-completion is not installed; tests/needs.sh installs it")
    cases = [
        *CASES,
        # Bash itself keeps what stands before = and : and so on.
        ("grass enqueue --queue=tr", ["train", "trial:2"]),
        ("grass show name:trial:", ["2"]),
        ("grass enqueue --gpu=1 -- other on tw", ["tw after on, 2"]),
    ]
    check(cases, lambda lines: in_bash(lines, env, with_library=with_library))


def test_bash_shows_the_commands_of_jobs_only_in_a_list(env: dict[str, str]) -> None:
    needs("bash")
    listed = [f"7   {HOSTILE}"[:80], "71  queued sleep 9"]
    check([("grass kill 7", listed)], lambda lines: in_bash(lines, env, with_library=False, how=63))
    check([("grass kill 7", ["7", "71"])], lambda lines: in_bash(lines, env, with_library=False, how=37))


def test_bash_at_a_terminal_inserts_the_word(env: dict[str, str]) -> None:
    needs("bash")
    with Shell("bash", "--norc", "-i", env=env) as shell:
        shell.type(f"PS1='> '; . {SCRIPTS}/grass.bash; stty cols 100; echo rea''dy\n")
        shell.until("ready")
        shell.until_typed("grass kill 7\t\t", "71  queued sleep 9", "$(touch pwned)")
        shell.until_typed("grass enqueue --gp\t", "grass enqueue --gpu=")
        shell.until_typed("grass show que\tname:trial\t", "grass show queued name:trial:2")


def test_fish_offers_what_can_come_with_descriptions(env: dict[str, str]) -> None:
    needs("fish")
    cases = [
        *CASES,
        ("grass enqueue --queue=tr", ["--queue=train", "--queue=trial:2"]),
        ("grass daemon --cert=da", ["--cert=data.csv"]),
        ("grass enqueue --gpu=1 -- other tw", ["two"]),
    ]
    check(cases, lambda lines: [sorted(words(offer)) for offer in in_fish(lines, env)])
    check([("grass kill 7", [f"7\t{HOSTILE}", "71\tqueued sleep 9"])], lambda lines: in_fish(lines, env))


def test_zsh_offers_what_can_come_with_descriptions(env: dict[str, str]) -> None:
    needs("zsh")
    with Shell("zsh", "-f", "-i", env=env) as shell:
        shell.type(f"PS1='> '; stty cols 100; source {SCRIPTS}/grass.zsh; echo rea''dy\n")
        shell.until("ready")
        other = "_other() { compadd two three }; compdef _other other; echo ag''ain\n"
        shell.type(other)
        shell.until("again")
        drawn = shell.until_typed("grass kill 7\t", "71  queued sleep 9", "$(touch pwned)")
        assert "%F{red}" in drawn
        for line, completed in (
            ("grass kil", "grass kill "),
            ("grass enqueue --gp", "grass enqueue --gpu="),
            ("grass enqueue --queue=trai", "grass enqueue --queue=train"),
            ("grass daemon --cert=da", "grass daemon --cert=data.csv"),
            ("grass show name:tria", "grass show name:trial:2"),
            ("grass enqueue --gpu=1 -- other tw", "grass enqueue --gpu=1 -- other two"),
            ("grass enqueue cat da", "grass enqueue cat data.csv"),
        ):
            shell.until_typed(f"{line}\t", completed)
