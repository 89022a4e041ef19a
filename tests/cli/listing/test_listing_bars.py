"""The one bar and the one percent number of `show`, `top` and `history`."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.cli.listing.bars import bar, percent


@given(st.floats(), st.integers(2, 40), st.booleans())
def test_a_bar_has_its_size_and_neither_begin_nor_end_are_told_too_early(
    fraction: float, size: int, is_ascii: bool
) -> None:
    drawn = bar(fraction, size, ascii=is_ascii)
    assert len(drawn) == size and drawn.isascii() == is_ascii
    assert (drawn == ("#" if is_ascii else "█") * size) == (fraction >= 1)
    assert (drawn == ("." if is_ascii else "░") * size) == (not fraction > 0)


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(0.0, "0%"), (0.29, "29%"), (2 / 3, "67%"), (0.996, "99%"), (0.99999, "99%"), (1.0, "100%"), (7.0, "100%")],
)
def test_a_percent_number_is_100_only_at_the_end(fraction: float, said: str) -> None:
    assert percent(fraction) == said


def test_what_is_no_number_is_nothing() -> None:
    assert (percent(math.nan), percent(-1.0), percent(math.inf)) == ("0%", "0%", "100%")
