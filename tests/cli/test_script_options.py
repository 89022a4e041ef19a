"""Options inside a script: which lines count, which typed options win, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from grassq.cli.typed import VALUE_OPTIONS
from grassq.errors import BadInput
from grassq.inputs import script_options
from grassq.inputs.script_options import line_words

SCRIPT = """#!/bin/sh
# a training
#GRASS --gpu 0.5 --name x
#
# GRASS --tag team=a -e 'A=b c' --retries 2

#GRASSLAND --nonsense
#  GRASS --nonsense
echo
#GRASS --nonsense
"""
GIVEN = ["--name=x", "--tag=team=a", "--env=A=b c", "--retries=2", "--gpu=0.5"]


def script_words(words: list[str]) -> list[str]:
    """The words that a script adds to those of `grass enqueue`."""
    return script_options.script_words(words, VALUE_OPTIONS)


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    "words",
    [
        "train.sh",
        "./train.sh 3 4",
        "-- train.sh",
        "--priority 4 train.sh --name y",
        "sh train.sh",
        "/usr/bin/python3.12 -u train.sh --lr 3",
        "-- bash -x -- train.sh",
        "slow train.sh",
        "slow --hold -- sh train.sh",
        "A=1 B= sh train.sh",
    ],
)
def test_the_first_comments_of_the_script_that_a_job_runs_are_options(words: str) -> None:
    assert script_words(words.split()) == GIVEN


@pytest.mark.parametrize(
    "words", ["", "sleep 1", "--", "-- sleep train.sh", "sh -c train.sh", "python -m train.sh", "--stdin", "nothing.sh"]
)
def test_a_job_that_runs_no_script_has_none(words: str) -> None:
    assert script_words(words.split()) == []


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        (["--name", "y"], {"--name=x"}),
        (["--name=y"], {"--name=x"}),
        (["--tries", "3"], {"--retries=2"}),
        (["--gpu=1"], {"--gpu=0.5"}),
        (["--require", "{cpu: 1}"], {"--gpu=0.5"}),
        (["--cpu=1"], set()),
        (["--tag", "team=b"], set()),
        (["--env=A=c"], set()),
    ],
)
def test_a_typed_option_wins_and_tags_and_variables_are_added(typed: list[str], left: set[str]) -> None:
    assert script_words([*typed, "train.sh"]) == [word for word in GIVEN if word not in left]


def test_a_queue_that_is_typed_wins_over_that_of_the_script(script: Path) -> None:
    script.write_text("#GRASS --queue big\n")
    assert script_words(["train.sh"]) == ["--queue=big"]
    assert script_words(["--queue", "small", "train.sh"]) == []
    assert script_words(["small", "train.sh"]) == []


def test_the_script_is_looked_for_in_the_directory_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.sh").write_text("#GRASS --hold\n")
    assert script_words(["--cwd", "sub", "other.sh"]) == ["--hold"]
    assert script_words(["other.sh"]) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--naem x", "unknown option '--naem'; did you mean --name"),
        ("--name", "--name needs a value"),
        ("--name x --name y", "--name is given twice"),
        ("--retries many", "--retries needs a whole number"),
        ("--tag x", "--tag needs KEY=VALUE"),
        ("--gpu lots", "--gpu needs an amount"),
        ("python train.py", "'python' is not an option"),
        ("--name 'x", "cannot be split into words"),
        ("--json", "--json says how a command works"),
        ("--broker far", "--broker says how a command works"),
    ],
)
def test_a_wrong_option_is_named_with_its_file_and_line(script: Path, line: str, why: str) -> None:
    script.write_text(f"#!/bin/sh\n#GRASS --hold\n#GRASS {line}\n")
    with pytest.raises(BadInput, match=r"^train\.sh, line 3: ") as error:
        script_words(["train.sh"])
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_only_the_beginning_of_a_file_is_read(script: Path) -> None:
    script.write_text("#\n" * script_options.LINES_MAX + "#GRASS --nonsense\n")
    assert script_words(["train.sh"]) == []
    script.write_text("#" * script_options.BYTES_MAX + "\n#GRASS --nonsense\n")
    assert script_words(["train.sh"]) == []
    script.write_text("#" * 5000 + "\n#GRASS --hold\n")
    assert script_words(["train.sh"]) == ["--hold"]
    script.write_bytes(b"\x7fELF\n#GRASS --hold\n")
    assert script_words(["train.sh"]) == []


def test_the_script_in_the_line_of_a_sweep_gives_options_too(script: Path) -> None:
    assert line_words("python train.sh --lr {lr}", ["--hold"]) == GIVEN
    assert line_words("sh 'train.sh'", ["--name", "y", "--gpu=1"]) == ["--tag=team=a", "--env=A=b c", "--retries=2"]
    assert line_words("sh {script}", []) == line_words("sh 'train.sh", []) == line_words("", []) == []
    script.write_text("#GRASS --array 0-9\n")
    with pytest.raises(BadInput, match=r"^train\.sh: its #GRASS lines have --array, which is for `grass"):
        line_words("sh train.sh {x}", [])


def test_a_queue_of_the_script_counts_where_variables_stand_first(script: Path) -> None:
    script.write_text("#GRASS --queue big\n")
    assert script_words(["A=1", "sh", "train.sh"]) == ["--queue=big"]
