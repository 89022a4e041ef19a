"""Placeholders are filled once, and only where they are ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax.placeholders import fill, placeholders

VALUES = {b"gpu": b"0,1", b"mem": b"2048", b"job.id": b"17"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        (b"CUDA_VISIBLE_DEVICES={gpu}", b"CUDA_VISIBLE_DEVICES=0,1"),
        (b"{gpu}{mem}", b"0,12048"),
        (b"run-{job.id}.log", b"run-17.log"),
        (b"{{gpu}}", b"{gpu}"),
        (b"{{gpu}", b"{0,1"),
        (b"{gpu}}", b"0,1}"),
        (b'{"a":1}', b'{"a":1}'),
        (b'{"gpu":{gpu}}', b'{"gpu":0,1}'),
        (b"{{x}}", b"{{x}}"),
        (b"{x}", b"{x}"),
        (b"{ gpu }", b"{ gpu }"),
        (b"{GPU}", b"{GPU}"),
        (b"{}{{}}{", b"{}{{}}{"),
        (b"{job.name}", b"{job.name}"),
        (b"\xff{gpu}\xfe", b"\xff0,1\xfe"),
        (b"", b""),
    ],
)
def test_only_known_names_are_filled(text: bytes, filled: bytes) -> None:
    assert fill(text, VALUES) == filled


def test_a_value_is_not_looked_at_again() -> None:
    assert fill(b"{a}{b}", {b"a": b"{b}", b"b": b"{{a}}"}) == b"{b}{{a}}"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"{gpu} {printer_2} {job.id}", {b"gpu", b"printer_2", b"job.id"}),
        (b"{job.name} {job.attempt}", {b"job.name", b"job.attempt"}),
        (b"{{gpu}}", set()),
        (b"{{gpu}} {gpu}", {b"gpu"}),
        (b'{"a":1} {job.pid} {A} {1} {} {a b}', set()),
        (b"${HOME} {x}", {b"x"}),
    ],
)
def test_placeholders_are_the_names_used(text: bytes, names: set[bytes]) -> None:
    assert placeholders(text) == names


PIECES = st.lists(
    st.sampled_from([b"{", b"}", b"{{", b"}}", b"gpu", b"mem", b"job.id", b"x", b'"a":1', b" ", b"\xff"])
).map(b"".join)


@given(PIECES)
def test_with_nothing_known_nothing_changes(text: bytes) -> None:
    assert fill(text, {}) == text


@given(PIECES)
def test_a_text_that_names_nothing_known_is_left_alone(text: bytes) -> None:
    if not any(name in text for name in VALUES):
        assert fill(text, VALUES) == text


@given(PIECES)
def test_a_text_without_placeholders_loses_only_doubled_braces(text: bytes) -> None:
    if not placeholders(text):
        undoubled = text
        for name in VALUES:
            undoubled = undoubled.replace(b"{{" + name + b"}}", b"{" + name + b"}")
        assert fill(text, VALUES) == undoubled


@given(st.lists(st.sampled_from(sorted(VALUES))), st.lists(st.binary(max_size=5)))
def test_filling_is_joining_the_values(names: list[bytes], between: list[bytes]) -> None:
    gaps = [part.replace(b"{", b"").replace(b"}", b"") for part in between]
    pairs = [(name, gaps[at] if at < len(gaps) else b"") for at, name in enumerate(names)]
    text = b"".join(b"{" + name + b"}" + gap for name, gap in pairs)
    assert fill(text, VALUES) == b"".join(VALUES[name] + gap for name, gap in pairs)
    assert placeholders(text) == set(names)


@given(PIECES, st.binary(max_size=8))
def test_a_doubled_name_survives_any_value(text: bytes, value: bytes) -> None:
    assert fill(b"|{{gpu}}|" + text.replace(b"gpu", b""), {b"gpu": value}).startswith(b"|{gpu}|")
