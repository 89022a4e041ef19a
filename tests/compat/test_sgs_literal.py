from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.syntax.placeholders import fill, literal

VALUES = {b"gpu": b"3", b"job.id": b"7"}


@given(st.lists(st.sampled_from([b"{", b"}", b"gpu", b"lr", b"job.id", b" "])).map(b"".join))
def test_a_command_with_braces_is_run_as_it_was_typed(text: bytes) -> None:
    assert fill(literal(text, VALUES), VALUES) == text
