"""Selectors: what each spelling means, and what makes no sense."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.model import State as JobState
from grassq.core.names import NAME_PATTERN, STATES, check_name, is_name, looks_like_name, shown
from grassq.core.syntax.commands import BY_NAME
from grassq.core.syntax.selectors import (
    MAX_PARTS,
    AllJobs,
    AllOf,
    AnyOf,
    ByIds,
    ByName,
    ByProject,
    ByQueue,
    ByState,
    BySweep,
    ByTag,
    ByToken,
    ByWord,
    LastJob,
    Selector,
    Since,
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
        ("1116-lr", ByWord(text="1116-lr")),
        ("3-7b", ByWord(text="3-7b")),
        ("größe", ByWord(text="größe")),
        ("学習", ByWord(text="学習")),
        ("queue:exp1", ByQueue(name="exp1")),
        ("name:train", ByName(name="train")),
        ("token:0a1b2c3d", ByToken(id="0a1b2c3d")),
        ("project:p1", ByProject("p1")),
        ("p1/lr", ByProject("p1", "lr")),
        ("p1/lr/12", ByProject("p1", "lr", 12)),
        ("state:failed", ByState(names=("failed",))),
        ("state:failed,cancelled", ByState(names=("failed", "cancelled"))),
        ("tag:team=a", ByTag("team", "a")),
        ("tag:team", ByTag("team")),
        ("tag:team=a b=c", ByTag("team", "a b=c")),
        ("sweep:12", BySweep(12)),
        ("since:2d", Since(2 * 86400.0)),
        ("since:1h30m", Since(5400.0)),
        ("1,@", AnyOf((ByIds(((1, 1),)), LastJob()))),
        ("state:failed+since:2d", AllOf((ByState(("failed",)), Since(2 * 86400.0)))),
        ("exp1+failed", AllOf((ByWord("exp1"), ByState(("failed",))))),
        ("exp1,1", AnyOf((ByIds(((1, 1),)), ByWord("exp1")))),
        ("lr,seed", AnyOf((ByWord("lr"), ByWord("seed")))),
        ("failed+failed", ByState(("failed",))),
        ("failed,3-7,@,cancelled,9", AnyOf((ByIds(((3, 7), (9, 9))), ByState(("failed", "cancelled")), LastJob()))),
        (
            "project:p+failed,tag:team=a",
            AnyOf((AllOf((ByProject("p"), ByState(("failed",)))), ByTag("team", "a"))),
        ),
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
        "failed,",
        "failed," * 10_000,
        "+",
        "failed+",
        "+failed",
        "failed,,cancelled",
        "state:",
        "state:exp1",
        "tag:",
        "tag:=v",
        "tag:k=",
        "tag:a b=c",
        "tag:k=\x1b[1m",
        "tag:k=" + "v" * 129,
        "sweep:",
        "sweep:x",
        "sweep:-1",
        "sweep:" + "9" * 17,
        "since:",
        "since:2",
        "since:2y",
        "since:-2d",
        "since:9999d",
        "failed+" * 40 + "failed+tag:",
        "+".join(f"tag:k{n}" for n in range(33)),
        ",".join(f"project:p{n}" for n in range(33)),
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
        "token:",
        "token:ann",
        "queue:a:b",
        "other:x",
        "ﬁt",
        "a/",
        "/b",
        "a/b/",
        "a/b/c",
        "a/b/1-2",
        "a/b/1/2",
        "a/../b",
        "project:",
        "1.5",
        "2026-11-16",
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
        assert isinstance(selector, Selector)


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)).map(sorted), min_size=1, max_size=20))
def test_ranges_come_back_as_typed(ranges: list[list[int]]) -> None:
    text = ",".join(f"{low}-{high}" for low, high in ranges)
    assert parse(text) == ByIds(ranges=tuple((low, high) for low, high in ranges))


@given(st.from_regex(NAME_PATTERN, fullmatch=True).filter(looks_like_name))
def test_a_name_selects_by_itself(name: str) -> None:
    if is_name(name):
        assert check_name(name) == name
        assert parse(name) == ByWord(text=name)
    assert parse(f"queue:{name}") == ByQueue(name=name)


@pytest.mark.parametrize("text", ["größe", "1116-lr", "7z", "x2", "Δt", "a.b-c_d"])
def test_a_name_has_letters_of_any_language_and_may_begin_with_a_digit(text: str) -> None:
    assert check_name(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("17", "it has no letter, so it would be read as job ids"),
        ("3-7", "it has no letter, so it would be read as job ids"),
        ("2026-11-16", "it has no letter, so it would be read as job ids"),
        ("a/b", "scripts use names as file names, so it has no '/'"),
        ("-x", "it begins with a letter or digit, then letters, digits, '_', '.' or '-', at most 64"),
        ("x" * 65, "it begins with a letter or digit, then letters, digits, '_', '.' or '-', at most 64"),
        ("failed", "it is the name of a job state"),
        ("kill", "it is the name of a command"),
    ],
)
def test_a_refused_name_says_what_is_wrong_with_it(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=re.escape(reason)):
        check_name(text)


@pytest.mark.parametrize(
    "text", ["", "1", "1-2", "-x", "a b", "ﬁt", "n\u0303x", "x" * 65, "a\n", "a/b", "..", "all", *STATES, *BY_NAME]
)
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
