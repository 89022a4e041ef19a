"""Queries: what each word means, what is refused and with which words, and that no text takes the reader down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.names import STATES
from grassq.core.query.parse import parse_query
from grassq.core.query.query import Columns, Comparison, JobFacts, Query, fits_any
from grassq.errors import BadInput

NOW = 1_000_000.0


def a_job(**given: object) -> JobFacts:
    """A failed job of one GPU that ran for an hour and ended a minute ago."""
    usual: dict[str, object] = {
        "state": "failed", "queue": "q", "name": "lr0.1", "priority": 30, "created": NOW - 7200.0,
        "started": NOW - 3660.0, "finished": NOW - 60.0, "attempt": 2, "exit_code": 137, "worker": "box",
        "request": (("gpu", 1_000_000), ("mem", 2048_000_000)), "command": "python train.py --LR=0.1",
    }  # fmt: skip
    return JobFacts(7, **{**usual, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all",
        "7",
        "3-7",
        "id:1,7",
        "failed",
        "state:running,failed",
        "state:running state:failed",
        "queue:q",
        "queue:x queue:q*",
        "name:lr*",
        "name:l?0.*",
        'name:"lr0.1"',
        "worker:b*",
        "gpu>0",
        "gpu=1",
        "gpu:1 gpus>=1",
        "mem>1G memory<3G",
        "cpu<1",
        "priority>29 priority<31",
        "attempt>1",
        "exit:137",
        "duration>59m duration<=1h",
        "age>1h age<3h",
        "since:2m",
        "train",
        "TRAIN lr=0.1",
        '"train.py --lr"',
        "text:train",
        "lr0",
    ],
)
def test_a_job_matches(text: str) -> None:
    assert parse_query(text).matches(a_job(), NOW)


@pytest.mark.parametrize(
    "text",
    [
        "8",
        "running",
        "failed queue:x",
        "name:lr",
        "name:lr?",
        "worker:other",
        "gpu>1",
        "foo>0",
        "priority<30",
        "exit:0",
        "duration>1h",
        "age>1d",
        "since:30s",
        "test",
        '"py train"',
        "project:p",
    ],
)
def test_a_job_does_not_match(text: str) -> None:
    assert not parse_query(text).matches(a_job(), NOW)


@pytest.mark.parametrize(
    ("text", "word", "known"),
    [
        ("ok stat:failed", "stat", "did you mean state:?"),
        ("state:faild", "faild", "did you mean failed?"),
        ("state:x", "'x'", "held, waiting"),
        ("nosuch:1", "nosuch", "queue:"),
        ("priorty>3", "priorty", "did you mean priority?"),
        ("name>3", "name>3", "priority, attempt"),
        ("id:x", "id:x", "3-7"),
        ("id:9-3", "9-3", "3-9"),
        ("since:yesterday", "yesterday", "1h30m"),
        ("gpu>many", "many", "such as 1"),
        ("priority>1.5", "priority>1.5", "whole number"),
        ("queue:", "queue:", "a queue"),
        ('say "open', "open", 'close it with "'),
        ('a"b"', "'a'", "name:"),
        ("x " * 300, "200", "at most"),
        ("x" * 5000, "4,000", "at most"),
        (" ".join(f"@~{at}" for at in range(100)), "20", "at most"),
    ],
)
def test_an_error_is_one_line_with_the_word_and_what_is_known(text: str, word: str, known: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_query(text)
    told = str(refused.value)
    assert word in told and known in told and "\n" not in told


def test_a_query_says_which_columns_it_needs() -> None:
    few = JobFacts.__struct_fields__.index
    assert parse_query("state:failed queue:q").columns == Columns(few("name"))
    assert parse_query("name:x priority>3").columns == Columns(few("created"))
    assert parse_query("since:1d age>1d").columns == Columns(few("suspended_s"))
    assert parse_query("duration>1d").columns == Columns(few("attempt"))
    assert parse_query("exit:3").columns == Columns(few("project")) and parse_query("project:p").columns == Columns()
    assert parse_query("worker:x").columns == Columns(few("name"), worker=True)
    assert parse_query("gpu>0").columns == Columns(few("name"), request=True)
    assert parse_query("train.py").columns == Columns(few("name"), spec=True)
    assert parse_query("@~2").back == (2,) and parse_query("since:1d").depends_on_time


def test_a_jobs_time_of_not_having_ended_is_always_recent() -> None:
    assert parse_query("since:1s").matches(a_job(state="running", finished=None), NOW)
    assert not parse_query("duration>0s").matches(a_job(state="queued", started=None, finished=None), NOW)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_or_refused_with_one_line(text: str) -> None:
    try:
        query = parse_query(text)
    except BadInput as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(query, Query) and isinstance(query.matches(a_job(), NOW), bool)


@given(
    st.lists(st.sampled_from(STATES), max_size=3),
    st.lists(st.sampled_from(["q", "r"]), max_size=2),
    st.sampled_from(STATES),
    st.sampled_from(["q", "r", "s"]),
)
def test_words_of_one_key_are_alternatives_and_keys_are_conditions(
    states: list[str], queues: list[str], state: str, queue: str
) -> None:
    words = [*(f"state:{each}" for each in states), *(f"queue:{each}" for each in queues)]
    wanted = (not states or state in states) and (not queues or queue in queues)
    assert parse_query(" ".join(words)).matches(a_job(state=state, queue=queue), NOW) == wanted


@given(st.text(alphabet="ab*?", max_size=12), st.text(alphabet="ab", max_size=12))
def test_a_pattern_fits_what_a_plain_search_fits(pattern: str, text: str) -> None:
    def fits(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return fits(pattern[1:], text) or (bool(text) and fits(pattern, text[1:]))
        return bool(text) and pattern[0] in ("?", text[0]) and fits(pattern[1:], text[1:])

    assert fits_any(frozenset({pattern}), text) == fits(pattern, text)


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    assert not fits_any(frozenset({"*a" * 500 + "b"}), "a" * 5000)


def test_the_same_words_in_another_order_are_the_same_query() -> None:
    assert parse_query("gpu>0 failed queue:q priority<3") == parse_query("priority<3 queue:q gpu>0 state:failed")
    assert Comparison("gpu", ">", 0) in parse_query("gpu>0").bounds
