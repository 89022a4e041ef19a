"""How an attempt ended: the same words and exit codes wherever they are shown."""

from __future__ import annotations

import pytest

from grassq.core.model import Outcome
from grassq.core.outcome import EXIT_CODES, exit_code, in_words
from grassq.run import exit_record


def test_every_outcome_has_an_exit_code() -> None:
    assert list(EXIT_CODES) == list(Outcome)


def test_the_shim_writes_outcomes_of_the_core_or_that_its_lease_ended() -> None:
    assert set(exit_record.OUTCOMES) - set(Outcome) == {exit_record.LEASE_ENDED}


@pytest.mark.parametrize(
    ("outcome", "code", "signal", "words", "exits"),
    [
        ("exited", 0, None, "exit code 0", 0),
        ("exited", 42, None, "exit code 42", 42),
        ("signalled", None, 9, "signal 9", 137),
        ("spawn_failed", None, None, "spawn failed", 127),
        ("lost", None, None, "lost", 1),
        ("unknown", None, None, "unknown", 1),
        ("cancelled", None, 15, "signal 15", 1),
        ("cancelled", None, None, "cancelled", 1),
        ("timed_out", 0, None, "timed out", 124),
        ("timed_out", None, 9, "timed out", 124),
        (None, None, None, "", 1),
    ],
)
def test_words_and_exit_code(outcome: str | None, code: int | None, signal: int | None, words: str, exits: int) -> None:
    assert in_words(outcome, code, signal) == words
    assert exit_code(outcome, code, signal) == exits
    assert in_words(outcome, code, signal, short=True) == words.replace("exit code", "exit")
