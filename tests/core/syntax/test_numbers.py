from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax.numbers import id_ranges, is_number


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_every_id_once_and_none_touches_the_next(ids: set[int]) -> None:
    ranges = id_ranges(sorted(ids))
    assert [id_ for first, last in ranges for id_ in range(first, last + 1)] == sorted(ids)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))


@pytest.mark.parametrize("text", ["0", "7", "007", "9" * 19])
def test_a_number_is_made_of_ascii_digits(text: str) -> None:
    assert is_number(text) and int(text) >= 0


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "1.0", "\u0663", "\u00b2", "9" * 20])
def test_what_int_would_take_or_choke_on_is_no_number(text: str) -> None:
    assert not is_number(text)
