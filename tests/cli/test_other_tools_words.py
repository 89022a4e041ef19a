"""What is answered to words of other tools, and to what is probably meant otherwise."""

from __future__ import annotations

import argparse

import pytest
from tests.core.syntax.enqueue_lines import enqueue

from grassq.cli.commands import limits
from grassq.cli.synonyms import advice, in_our_words
from grassq.core.sweeps.arrays import read_array
from grassq.core.syntax.durations import duration_s
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--dependency=afterok:1 ls", "afterok:12 is --after 12, afterany:12 is --after-any 12"),
        ("--time-limit 1:30:00 ls", "such as 90s, 5m, 1h30m or 7d; write 1h30m0s for 1:30:00"),
    ],
)
def test_the_options_of_slurm_are_answered_with_ours(line: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        enqueue(line)
    assert said in str(refused.value)


def test_a_long_time_without_a_unit_is_remarked() -> None:
    assert enqueue("--time-limit 90 ls").notes == ("--time-limit 90 is 90 seconds; write 90s, or 90m for minutes",)
    assert enqueue("--in 5 --idle-limit 60s --grace 5 ls").notes == (
        "--in 5 is 5 seconds; write 5s, or 5m for minutes",
    )
    assert enqueue("--time-limit 90s --in 2h ls").notes == ()


def test_ranges_and_clocks_are_answered_with_the_right_spelling() -> None:
    with pytest.raises(BadInput, match=r"write 1-10 for 1\.\.10"):
        read_array("1..10%2")
    with pytest.raises(BadInput, match="not '1:30'"):
        duration_s("1:30", "x")


@pytest.mark.parametrize(
    ("group", "amounts", "said"),
    [
        ("gpu=4", [], "a limit is of a group: grass limit project:NAME gpu=4"),
        ("vision", ["gpu=4"], "a limit is of a group: grass limit project:NAME gpu=4"),
        ("project:p", ["gpus=4"], "there is no resource 'gpus'; did you mean gpu"),
    ],
)
def test_a_limit_of_no_group_or_of_a_misspelt_resource_is_refused(group: str, amounts: list[str], said: str) -> None:
    given = argparse.Namespace(group=group, amounts=amounts, remove=False, json=False, broker=None)
    with pytest.raises(BadInput, match=said):
        limits.limit(given)


def test_other_words_for_groups_and_sweeps_are_understood_or_answered() -> None:
    assert in_our_words("limits", []) == ["limit"]
    for word, said in (("cont", "grass resume"), ("sweeps", "grass show"), ("sbatch", "grass-sbatch")):
        assert said in (advice(word, ["3"]) or "")
