"""The table of a sweep: what differs between commands, results as columns, and values that stay what they are."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.sweeps import parameters as found
from grassq.core.sweeps.parameters import GIVEN, PARAMETERS_MAX, check_parameters, differing, told_by, words_of
from grassq.core.sweeps.table import (
    NUMBER_NAME_CHARS_MAX,
    NUMBERS_MAX,
    TEXT_CHARS_MAX,
    SweepColumn,
    SweepJob,
    numbers_of,
    table_of,
)
from grassq.errors import BadInput

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x00"


def a_job(id_: int, line: str = "", *, given: dict[str, str] | None = None, **numbers: float) -> SweepJob:
    return SweepJob(
        id_, "succeeded", "q", 0.0, words=(*line.split(),), parameters=(*(given or {}).items(),), numbers=numbers
    )


@pytest.mark.parametrize(
    ("one", "other", "names", "values"),
    [
        ("python t.py --lr 0.1", "python t.py --lr 0.01", ["lr"], [[0.1], [0.01]]),
        ("python t.py --lr=0.1 -b 2", "python t.py -b 2 --lr=0.2", ["lr"], [[0.1], [0.2]]),
        ("t lr=0.1 opt=adam", "t lr=0.1 opt=sgd", ["opt"], [["adam"], ["sgd"]]),
        ("t +model/size@x=1", "t +model/size@x=2", ["model/size@x"], [[1], [2]]),
        ("t a 3", "t b 4", ["word 2", "word 3"], [["a", 3], ["b", 4]]),
        ("t --shift -0.5", "t --shift -1e3", ["shift"], [[-0.5], [-1000]]),
        ("t --fast", "t", ["fast"], [[GIVEN], [None]]),
        ("t --l 1 --l 2", "t --l 1 --l 3", ["l"], [["1 2"], ["1 3"]]),
        ("same --x 1", "same --x 1", [], [[], []]),
    ],
)
def test_parameters_are_what_differs(one: str, other: str, names: list[str], values: list[list[object]]) -> None:
    columns, rows = table_of([a_job(1, one), a_job(2, other)])
    assert [column.name for column in columns] == names and rows == values


def test_given_parameters_count_more_than_words_and_fill_up_from_words() -> None:
    jobs = [a_job(1, "t --lr 5 --x 1", given={"lr": "0.1"}), a_job(2, "t --lr 7 --x 2")]
    columns, rows = table_of(jobs)
    assert columns == [SweepColumn("lr", "parameter", "number", False)] and rows == [[0.1], [7]]


def test_results_are_columns_of_numbers_with_dotted_names() -> None:
    result = {"loss": 0.5, "val": {"acc": 0.9, "at": {"n": 3}}, "ok": True, "note": "x", "list": [1], "inf": None}
    assert numbers_of(json.dumps(result)) == {"loss": 0.5, "val.acc": 0.9, "val.at.n": 3}
    assert numbers_of("3.5") == {"result": 3.5} and numbers_of(None) == {} == numbers_of('"text"')
    assert numbers_of(json.dumps({"huge": 10**400})) == {}
    assert len(numbers_of(json.dumps({str(n): n for n in range(1000)}))) == NUMBERS_MAX
    columns, rows = table_of([a_job(1, loss=0.001), a_job(2, loss=1), a_job(3, loss=20), a_job(4)])
    assert columns == [SweepColumn("loss", "result", "number", True)] and rows == [[0.001], [1], [20], [None]]


def test_hostile_values_stay_texts_and_numbers_in_words_stay_exact() -> None:
    columns, rows = table_of(
        [a_job(1, given={HOSTILE: HOSTILE, "nan": "nan"}), a_job(2, given={HOSTILE: "1", "nan": "inf"})]
    )
    assert [column.kind for column in columns] == ["text", "text"] and rows[0] == [HOSTILE, "nan"]
    assert words_of(["a 'b c' d"], is_line=True) == ["a", "b c", "d"]
    assert words_of(["it's open"], is_line=True) == ["it's", "open"]


def test_too_many_parameters_are_refused() -> None:
    assert check_parameters({"lr": "0.1"}) == (("lr", "0.1"),)
    for wrong in ({str(n): "" for n in range(PARAMETERS_MAX + 1)}, {"": "x"}, {"x" * 65: ""}, {"x": "y" * 1001}):
        with pytest.raises(BadInput):
            check_parameters(wrong)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.lists(words, max_size=8), max_size=6))
def test_any_commands_make_a_table_whose_columns_differ(commands: list[list[str]]) -> None:
    jobs = [SweepJob(n, "queued", "q", 0.0, words=(*each,)) for n, each in enumerate(commands)]
    columns, rows = table_of(jobs)
    assert len(rows) == len(jobs) and all(len(row) == len(columns) for row in rows)
    for at, column in enumerate(columns):
        told = [told_by(each).get(column.name) for each in commands]
        assert len({*told}) > 1
        assert all((row[at] is None) == (value is None) for row, value in zip(rows, told, strict=True))
    assert len({column.name for column in columns}) == len(columns)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.from_regex(r"[a-z0-9.]{1,6}", fullmatch=True)))
def test_every_spelling_tells_the_same(values: dict[str, str]) -> None:
    spelled = [
        [word for name, value in values.items() for word in (f"--{name}", value)],
        [f"--{name}={value}" for name, value in values.items()],
        [f"{name}={value}" for name, value in values.items()],
    ]
    assert [told_by(each) for each in spelled] == [values] * 3 and not differing([values, values])
    assert found.WORDS_MAX > PARAMETERS_MAX


def test_jobs_with_names_of_their_own_make_no_table_without_end() -> None:
    jobs = [a_job(id_, given={f"p{id_}-{at}": "x" for at in range(PARAMETERS_MAX)}) for id_ in range(100)]
    columns, rows = table_of(jobs)
    assert len(columns) == PARAMETERS_MAX and {len(row) for row in rows} == {PARAMETERS_MAX}


def test_the_text_of_a_whole_table_is_bounded() -> None:
    jobs = [a_job(id_, given={f"p{at}": f"v{id_}" * 200 for at in range(20)}) for id_ in range(1000, 2000)]
    columns, rows = table_of(jobs)
    texts = [value for row in rows for value in row if isinstance(value, str)]
    assert len(texts) == 20_000 and len(columns) == 20
    assert sum(map(len, texts)) <= TEXT_CHARS_MAX
    assert texts[0].startswith("v1000") and texts[0].endswith("…")


def test_the_names_of_the_numbers_of_a_result_are_short() -> None:
    inner = {f"{at}": at for at in range(150)}
    numbers = numbers_of(json.dumps({"x" * 8000: inner, "loss": {"val": 0.5}}))
    assert numbers["loss.val"] == 0.5
    assert max(map(len, numbers)) <= NUMBER_NAME_CHARS_MAX


def test_only_the_beginning_of_a_long_command_is_looked_at() -> None:
    line = "train 'a b' " + "'x' " * 500_000
    began = time.process_time()
    assert words_of([line], is_line=True)[:2] == ["train", "a b"]
    assert words_of(["a" * 2_000_000, "b"], is_line=False)[1] == "b"
    assert sum(map(len, words_of(["a" * 2_000_000, "b"], is_line=False))) < 10_000
    assert time.process_time() - began < 0.5
