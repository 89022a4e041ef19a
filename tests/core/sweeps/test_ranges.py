"""Ranges, exclusions and the points of a sweep, by properties."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.core.sweeps.exclusions import leaves_out
from grassq.core.sweeps.grid import GridSearch
from grassq.core.sweeps.points import Points
from grassq.core.sweeps.ranges import RANGE_VALUES_MAX, expanded
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("0..4", "0 1 2 3 4"),
        ("-1..1", "-1 0 1"),
        ("0..1:0.25", "0 0.25 0.5 0.75 1"),
        ("0..1:0.3", "0 0.3 0.6 0.9"),
        ("0.1..0.5:0.1", "0.1 0.2 0.3 0.4 0.5"),
        ("32..256*2", "32 64 128 256"),
        ("1e-5..1e-1*10", "1e-05 0.0001 0.001 0.01 0.1"),
        ("log:1e-5..1e-1:5", "1e-05 0.0001 0.001 0.01 0.1"),
        ("log:1..8:4", "1 2 4 8"),
        ("log:1e-300..1e300:5", "1e-300 1e-150 1 1e+150 1e+300"),
        ("lin:0..1:5", "0 0.25 0.5 0.75 1"),
        ("7..7", "7"),
        # Not ranges: as they were typed.
        ("../data", "../data"),
        ("a..b", "a..b"),
        ("1e-5", "1e-5"),
        ("v1..2", "v1..2"),
    ],
)
def test_a_range_is_written_in_the_short_way(typed: str, values: str) -> None:
    assert expanded([typed]) == values.split()


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("5..", "it has no end"),
        ("5..x", "'x' is not an end and a step"),
        ("4..0", "it is backwards; write 0..4"),
        ("0..4:0", "its step must be more than 0"),
        ("0..4:-1", "its step must be more than 0"),
        ("0..4*2", "it begins above 0 and its factor is more than 1"),
        ("1..4*1", "it begins above 0 and its factor is more than 1"),
        ("log:1e-5..1e-1", "it needs how many values"),
        ("log:0..1:3", "a logarithm needs numbers above 0"),
        ("log:1..2:1", "it needs how many values, 2 or more"),
        ("log:x", "write log:FIRST..LAST:COUNT"),
        ("0..1000000", f"it has more than {RANGE_VALUES_MAX:,} values"),
        ("log:1..2:1000000", f"it has more than {RANGE_VALUES_MAX:,} values"),
        ("1..1e300*1.0000001", f"it has more than {RANGE_VALUES_MAX:,} values"),
        ("0..1e999999", "is too large or too small"),
        ("0.." + "9" * 100, "more than 30 characters"),
        ("lin:0..1:" + "9" * 5000, "more than 30 characters"),
        ("lin:1..1.00000000000001:9", "9 values do not fit between its ends"),
    ],
)
def test_a_bad_range_is_refused_and_named(typed: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        expanded(["1", typed], "lr")
    assert why in str(refused.value) and "parameter 'lr'" in str(refused.value)
    assert "\n" not in str(refused.value)


@settings(max_examples=40)
@given(st.floats(1e-9, 1e9), st.floats(1.5, 1e6), st.integers(2, 60), st.sampled_from(["log", "lin"]))
def test_spaced_values_ascend_and_have_exact_ends(first: float, ratio: float, count: int, kind: str) -> None:
    last = first * ratio
    values = expanded([f"{kind}:{first!r}..{last!r}:{count}"])
    numbers = [*map(float, values)]
    assert len(values) == count and numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (first, last)
    if kind == "log":
        assert all(math.isclose(b / a, ratio ** (1 / (count - 1)), rel_tol=1e-9) for a, b in pairwise(numbers))


@settings(max_examples=40)
@given(st.integers(-1000, 1000), st.integers(0, 300), st.integers(1, 40))
def test_whole_ranges_are_those_of_python(first: int, more: int, step: int) -> None:
    assert expanded([f"{first}..{first + more}:{step}"]) == [*map(str, range(first, first + more + 1, step))]


_VALUES = st.lists(st.sampled_from(["0.1", "1e-1", "32", "a", "b c"]), min_size=1, max_size=4, unique=True)


@settings(max_examples=40)
@given(_VALUES, _VALUES, st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["0.1", "a", "32"])), max_size=3))
def test_what_is_left_out_has_all_values_of_an_exclusion(
    xs: list[str], ys: list[str], pairs: list[tuple[str, str]]
) -> None:
    texts = [" ".join(f"{name}={value}" for name, value in pairs)] if pairs else []
    every = [*product(xs, ys)]

    def same(one: str, other: str) -> bool:
        return one == other or {one, other} == {"0.1", "1e-1"}

    expected = [
        point
        for point in every
        if not pairs or not all(same(dict(zip("xy", point, strict=True))[name], value) for name, value in pairs)
    ]
    is_left_out = leaves_out(texts, ["x", "y"])
    assert [point for point in every if not is_left_out(point)] == expected
    if expected:
        search = GridSearch("run {x} {y}", {"x": xs, "y": ys}, exclude=texts)
        assert [*search.values(None)] == expected
        assert sorted(search.values(7)) == sorted(expected)
    else:
        with pytest.raises(BadInput, match="leaves out every point"):
            GridSearch("run {x} {y}", {"x": xs, "y": ys}, exclude=texts)


def test_rows_of_a_file_go_with_each_combination_of_values() -> None:
    rows = Points(("a", "b"), [("1", "2"), ("3", "4")], [2, 3])
    search = GridSearch("run {a} {b} {c}", {"c": ["x", "y"]}, rows=rows, exclude=["a=3 c=x"])
    assert [*search.lines(None)] == ["run 1 2 x", "run 1 2 y", "run 3 4 y"]
    with pytest.raises(BadInput, match="parameter 'a' is in the file of points"):
        GridSearch("run {a} {b}", {"a": ["1"]}, rows=rows)


@pytest.mark.parametrize("text", ["", "lr", "=1", "x=1", "lr='1"])
def test_a_bad_exclusion_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--exclude"):
        leaves_out([text], ["lr"])
