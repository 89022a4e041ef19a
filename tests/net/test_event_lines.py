"""Lines of events over connections that break: each change once, from the position that was heard last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import pytest

from grassq.errors import NotFound, Unreachable
from grassq.net import event_stream
from grassq.net.http import Broken, Connection


class Wire:
    """Answers one after the other; an exception in an answer breaks its connection."""

    def __init__(self, *answers: list[bytes | Exception] | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str | None, bool]] = []
        self.closed = 0

    def __call__(self, since: str | None, autostart: bool) -> tuple[Iterator[bytes], Connection]:
        self.asked.append((since, autostart))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return self._parts(answer), cast(Connection, self)

    def _parts(self, answer: list[bytes | Exception]) -> Iterator[bytes]:
        for part in answer:
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self) -> None:
        self.closed += 1


def line(event: str, seq: int, epoch: str = "e") -> bytes:
    return json.dumps({"event": event, "epoch": epoch, "seq": seq}).encode() + b"\n"


def heard(wire: Wire, count: int) -> tuple[list[tuple[str, int]], list[str]]:
    told: list[str] = []
    documents: list[dict[str, Any]] = list(islice(event_stream.event_lines(wire, told.append), count))
    return [(document["event"], document["seq"]) for document in documents], told


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "AWAY_S", 0.001)


def test_after_a_break_the_rest_is_asked_for_and_the_daemon_not_started() -> None:
    first = line("subscribed", 3) + line("placed", 4)
    wire = Wire(
        [first[:30], first[30:], line("heartbeat", 6), Broken("gone")],
        Unreachable("no daemon"),
        [line("subscribed", 6) + line("exited", 7)],
        [line("reread", 0, "f"), line("placed", 1, "f")],
        [],
    )
    events, told = heard(wire, 5)
    assert events == [("subscribed", 3), ("placed", 4), ("exited", 7), ("reread", 0), ("placed", 1)]
    assert wire.asked == [(None, True), ("e.6", False), ("e.6", False), ("e.7", False)]
    assert [words.partition(";")[0] for words in told] == ["gone", "the daemon ended its answer"]
    assert wire.closed >= 2


def test_a_refusal_is_raised() -> None:
    with pytest.raises(NotFound):
        heard(Wire(NotFound("no job matches 7")), 1)


@pytest.mark.parametrize("strange", [b"nonsense\n", b"[]\n", b"x" * (event_stream.LINE_MAX + 1)])
def test_what_cannot_be_read_ends_a_connection(strange: bytes) -> None:
    wire = Wire([line("subscribed", 1), strange], [line("placed", 2)])
    events, told = heard(wire, 2)
    assert events == [("subscribed", 1), ("placed", 2)]
    assert "cannot be read" in told[0]
