"""What a job wrote to its result file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core import result

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_a_result_is_kept_as_it_was_written(value: object) -> None:
    text = result.read(json.dumps(value, indent=2, ensure_ascii=False).encode())
    assert json.loads(text) == value
    assert result.read(text.encode()) == text, "a result that was read is read again unchanged"


@given(st.binary(max_size=200))
def test_bytes_are_a_result_or_a_value_error(data: bytes) -> None:
    try:
        text = result.read(data)
    except ValueError:
        return
    assert text.isascii() and result.read(text.encode()) == text


def test_numbers_that_json_lacks_become_null() -> None:
    assert result.read(b'{"loss": NaN, "best": -Infinity}') == '{"loss":null,"best":null}'


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "Expecting value"),
        (b"0.5 0.6", "Extra data"),
        (b"1e999", "Out of range"),
        (b"\xff", "codec"),
        (b"[" * 40 + b"]" * 40, "more than 32 levels"),
        (b"[" * 8000 + b"]" * 8000, "more than 32 levels"),
        (b'"' + b"x" * result.RESULT_MAX + b'"', "larger than"),
        ('"' + "ä" * (result.RESULT_MAX // 4) + '"', "larger than"),
        (b"1" * 5000, "digit"),
    ],
)
def test_what_is_no_result_says_why(data: bytes | str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        result.read(data.encode() if isinstance(data, str) else data)
