"""Selectors: what each spelling means, and what makes no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.model import State as JobState
from grassq.core.names import NAME_PATTERN, STATES, check_name, is_name, shown
from grassq.core.syntax.commands import BY_NAME
from grassq.core.syntax.selectors import (
    MAX_PARTS,
    AllJobs,
    ByIds,
    ByName,
    ByQueue,
    ByState,
    ByWord,
    LastJob,
    Selector,
    parse,
)
from grassq.errors import BadInput


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("7", ByIds(ranges=((7, 7),))),
        ("3-7", ByIds(ranges=((3, 7),))),
        ("4-4", ByIds(ranges=((4, 4),))),
        ("1,4", ByIds(ranges=((1, 1), (4, 4)))),
        ("1,4,9-12", ByIds(ranges=((1, 1), (4, 4), (9, 12)))),
        ("1000000000000000", ByIds(ranges=((10**15, 10**15),))),
        ("@", LastJob(back=0)),
        ("@~1", LastJob(back=1)),
        ("all", AllJobs()),
        ("failed,cancelled", ByState(names=("failed", "cancelled"))),
        ("failed,failed", ByState(names=("failed",))),
        ("exp1", ByWord(text="exp1")),
        ("a.b-c_d", ByWord(text="a.b-c_d")),
        ("queue:exp1", ByQueue(name="exp1")),
        ("name:train", ByName(name="train")),
        *((state, ByState(names=(state,))) for state in STATES),
    ],
)
def test_a_selector_means_what_it_says(text: str, selector: Selector) -> None:
    assert parse(text) == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "7-3",
        "1,,2",
        ",1",
        "1,",
        "-1",
        "1-",
        "1-2-3",
        "3x",
        "1,exp1",
        "exp1,1",
        "failed,exp1",
        "failed,",
        "failed," * 10_000,
        "1,@",
        "٣",
        "1000000000000001",
        "9" * 5_000,
        "@@",
        "@1",
        "@~",
        "@~-1",
        "@~" + "9" * 5_000,
        "queue:",
        "name:",
        "queue:a:b",
        "other:x",
        "é",
        "a b",
        "_x",
        "exp1\n",
        "x" * 65,
        ",".join(["1"] * (MAX_PARTS + 1)),
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_the_longest_list_allowed_is_read() -> None:
    assert parse(",".join(["1"] * MAX_PARTS)) == ByIds(ranges=((1, 1),) * MAX_PARTS)


def test_the_states_are_the_states_jobs_have() -> None:
    assert set(STATES) == {state.value for state in JobState}


@given(st.text())
def test_parsing_ends_in_a_selector_or_a_sentence(text: str) -> None:
    try:
        selector = parse(text)
    except BadInput as error:
        assert str(error)
    else:
        assert isinstance(selector, ByIds | LastJob | AllJobs | ByState | ByWord | ByQueue | ByName)


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)).map(sorted), min_size=1, max_size=20))
def test_ranges_come_back_as_typed(ranges: list[list[int]]) -> None:
    text = ",".join(f"{low}-{high}" for low, high in ranges)
    assert parse(text) == ByIds(ranges=tuple((low, high) for low, high in ranges))


@given(st.from_regex(NAME_PATTERN, fullmatch=True))
def test_a_name_selects_by_itself(name: str) -> None:
    if is_name(name):
        assert check_name(name) == name
        assert parse(name) == ByWord(text=name)
    assert parse(f"queue:{name}") == ByQueue(name=name)


@pytest.mark.parametrize("text", ["", "1abc", "-x", "a b", "é", "x" * 65, "a\n", "all", *STATES, *BY_NAME])
def test_what_a_job_or_queue_may_not_be_called(text: str) -> None:
    assert not is_name(text)
    with pytest.raises(BadInput):
        check_name(text)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (b"a b", "'a b'"),
        ("x\ny", "'x\\ny'"),
        (b"\xff", "'\\xff'"),
        (b"a" * 500, "'" + "a" * 77 + "'..."),
        ("a" * 500, "'" + "a" * 77 + "'..."),
    ],
)
def test_a_word_is_shown_on_one_short_line(word: bytes | str, text: str) -> None:
    assert shown(word) == text
