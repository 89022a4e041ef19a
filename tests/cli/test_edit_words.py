"""`grass edit`: the text in the editor, and what is typed after --set."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.cli.commands.jobs import edit, edit_text
from grassq.errors import BadInput

words = st.one_of(st.text(max_size=20), st.builds(lambda text: {"b64": text}, st.text("abc=", max_size=8)))
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    words,
    st.lists(words, max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(0, 100), max_size=3),
)


@given(st.dictionaries(st.text(min_size=1, max_size=10), values, max_size=6), st.lists(words, min_size=1))
def test_every_value_comes_back_from_the_text_as_it_was(given_: dict[str, Any], command: list[Any]) -> None:
    before = {**given_, "command": command}
    text = edit_text.write(7, "queued", before)
    assert edit_text.read(text.encode()) == {name: each for name, each in before.items() if each not in (None, [])}


def test_only_what_differs_is_sent_and_what_was_removed_is_sent_as_nothing() -> None:
    before = {"command": ["a"], "priority": 30, "name": "x", "split": False}
    after = {"command": ["a"], "priority": 40, "split": 0, "gpu": 1}
    assert edit_text.changes(before, after) == {"priority": 40, "split": 0, "gpu": 1, "name": None}


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"a = [", "this is not TOML"),
        (b"a = 1\na = 2", "this is not TOML"),
        (b"a = \xff", "the text is not UTF-8"),
        (b"a = 'x\0'", "this is not TOML"),
        (b"a = 2020-01-01", "a is a date or a time; put it into quotes"),
        (b"a = [[1979-05-27T07:32:00Z]]", "a is a date or a time"),
        (b"a = inf", "a needs a finite number"),
        (b"a = nan", "a needs a finite number"),
        (b"a = " + b"9" * 5000, "this is not TOML"),
        (b"a = " + b"[" * 5000, "this is not TOML"),
        (b"#" * (edit_text.TEXT_MAX + 1), "the text has more than 16 MiB"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_in_one_line(raw: bytes, told: str) -> None:
    with pytest.raises(BadInput) as error:
        edit_text.read(raw)
    assert told in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 300


def test_what_is_typed_after_set_is_sent_by_name() -> None:
    typed = [
        "gpu=0.5",
        "name=",
        "split",
        "env=A=1",
        "env=B=x=y",
        "label=a",
        "label=b",
        "command=python a.py",
        "x=\udcff",
    ]
    assert edit._typed(typed) == {
        "gpu": "0.5",
        "name": None,
        "split": True,
        "env": {"A": "1", "B": "x=y"},
        "label": ["a", "b"],
        "command": "python a.py",
        "x": {"b64": "/w=="},
    }


@pytest.mark.parametrize("typed", [["=1"], ["gpu=1", "gpu=2"], ["env=A"], ["env==1"], ["\udcff=1"]])
def test_a_set_that_is_none_is_refused(typed: list[str]) -> None:
    with pytest.raises(BadInput):
        edit._typed(typed)


def test_a_hostile_broker_forges_no_line_of_the_text() -> None:
    evil = "x\x1b[2J\u202e\x9b2J\nqueue = 'forged'"
    text = edit_text.write(5, evil, {"command": [evil], evil: evil, "name": evil})
    assert all(character.isprintable() or character == "\n" for character in text)
    assert edit_text.read(text.encode()) == {"command": [evil], evil: evil, "name": evil}
