"""What may be typed after `/`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.cli.top.filters import JobFilter, parse_filter


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("", JobFilter()),
        ("all", JobFilter()),
        ("7", JobFilter(ranges=((7, 7),))),
        ("3-7 1,4", JobFilter(ranges=((3, 7), (1, 1), (4, 4)))),
        ("@", JobFilter(back=0)),
        ("@~2", JobFilter(back=2)),
        ("failed", JobFilter(states=("failed",))),
        ("failed,held", JobFilter(states=("failed", "held"))),
        ("state:failed running", JobFilter(states=("failed", "running"))),
        ("queue:q name:n worker:w", JobFilter(queue="q", name="n", worker="w")),
        ("train", JobFilter(word="train")),
        ("failed train", JobFilter(states=("failed",), word="train")),
        ("lr=0.1", JobFilter(text="lr=0.1")),
        ("train lr=0.1", JobFilter(text="train lr=0.1")),
        ("failed python train.py", JobFilter(states=("failed",), text="python train.py")),
        ("text:failed", JobFilter(text="failed")),
        ("gpu>0 failed since:2d name:lr*", JobFilter(states=("failed",), more=("gpu>0", "since:2d", "name:lr*"))),
        ("project:p priority>3 train", JobFilter(word="train", more=("project:p", "priority>3"))),
        ("7-3", JobFilter(text="7-3")),
        ("state:nonsense", JobFilter(word="nonsense")),
        ("é*[", JobFilter(text="é*[")),
    ],
)
def test_selectors_narrow_and_other_text_is_searched_for(typed: str, wanted: JobFilter) -> None:
    assert parse_filter(typed) == wanted


@given(st.text(max_size=200))
def test_nothing_that_is_typed_is_an_error(typed: str) -> None:
    assert isinstance(parse_filter(typed), JobFilter)
