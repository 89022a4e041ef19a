"""The frames of an attended queue: read whole, each told once, over connections that break."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.errors import NotFound, Unreachable
from grassq.net import attendance
from grassq.net.attendance import Attendance, Ended, Frame, Output, Place, Started, read_frames
from grassq.net.http import Broken, Connection

BEAT = b'{"beat": true}\n'


def started(job: int, attempt: int = 1) -> bytes:
    return json.dumps({"started": job, "attempt": attempt, "allocation": {"gpu": {"0": 1}}}).encode() + b"\n"


def output(job: int, data: bytes, offset: int = 0, attempt: int = 1) -> bytes:
    line = {"output": job, "attempt": attempt, "offset": offset, "size": len(data)}
    return json.dumps(line).encode() + b"\n" + data


def ended(job: int, state: str = "succeeded") -> bytes:
    how = {"exit_code": 0, "signal": None, "outcome": "exited", "error": None, "unread": None}
    return json.dumps({"ended": job, "state": state, **how}).encode() + b"\n"


class Wire:
    """A daemon that says these things, one after another; each connection breaks after what it said."""

    def __init__(self, *said: bytes) -> None:
        self.said = list(said)
        self.asked: list[tuple[int, dict[int, Place]]] = []
        self.closed = 0

    def __call__(self, first: int, offsets: Mapping[int, Place]) -> tuple[Iterator[bytes], Connection]:
        self.asked.append((first, dict(offsets)))
        if not self.said:
            raise NotFound("there is no queue any more")
        return self._parts(self.said.pop(0)), cast(Connection, self)

    def _parts(self, text: bytes) -> Iterator[bytes]:
        yield text
        raise Broken("the connection broke")

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        pass


def frames_of(wire: Wire, first: int = 1, offsets: Mapping[int, Place] | None = None) -> list[Frame]:
    """Every frame until the daemon is gone for good."""
    heard: list[Frame] = []
    with pytest.raises(NotFound):
        for frame in Attendance(wire, first, offsets or {}):
            heard.append(frame)
    return heard


def pieces(text: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for cut in [*sorted(cuts), len(text)]:
        if cut > at:
            yield text[at:cut]
            at = cut


@given(st.lists(st.integers(0, 200)), st.binary(max_size=60))
def test_frames_are_read_whole_however_they_arrive(cuts: list[int], data: bytes) -> None:
    text = started(7) + output(7, data) + BEAT + ended(7)
    found = list(read_frames(pieces(text, [cut for cut in cuts if cut < len(text)])))
    assert [next(iter(document)) for document, _ in found] == ["started", "output", "beat", "ended"]
    assert [held for _, held in found] == [b"", data, b"", b""]


def test_what_is_told_again_after_a_break_is_left_out() -> None:
    wire = Wire(
        started(7) + output(7, b"ab") + started(8) + ended(8) + BEAT,
        started(7) + output(7, b"cd", 2) + started(8) + output(8, b"old") + ended(8) + ended(7),
    )
    heard = frames_of(wire)
    gpu = {"gpu": {"0": 1}}
    assert heard[:4] == [Started(7, 1, gpu), Output(7, 1, 0, b"ab"), Started(8, 1, gpu), heard[3]]
    assert heard[4] == Output(7, 1, 2, b"cd")
    assert [frame.job for frame in heard if isinstance(frame, Ended)] == [8, 7]
    assert len(heard) == 6
    assert wire.asked == [(1, {}), (1, {7: (1, 2)}), (1, {})]
    assert wire.closed == 2


def test_output_of_a_job_whose_offset_was_not_told_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "OFFSETS_MAX", 0)
    wire = Wire(started(7) + output(7, b"abcd"), output(7, b"abc") + output(7, b"def", 3) + output(7, b"g", 6))
    assert frames_of(wire)[1:] == [Output(7, 1, 0, b"abcd"), Output(7, 1, 4, b"ef"), Output(7, 1, 6, b"g")]


def test_a_log_that_was_begun_anew_and_another_attempt_are_told_as_they_are() -> None:
    wire = Wire(started(7) + output(7, b"abcd") + output(7, b"x") + started(7, 2) + output(7, b"y", attempt=2))
    assert frames_of(wire)[2:] == [
        Output(7, 1, 0, b"x"),
        Started(7, 2, {"gpu": {"0": 1}}),
        Output(7, 2, 0, b"y"),
    ]
    assert wire.asked[1] == (1, {7: (2, 1)})


def test_settled_jobs_are_not_asked_for_again() -> None:
    wire = Wire(started(7) + ended(7) + started(8), b"")
    attended = Attendance(wire, 1, {})
    assert next(attended).job == next(attended).job == 7
    attended.settled(8)
    next(attended)
    with pytest.raises(NotFound):
        next(attended)
    assert wire.asked == [(1, {}), (8, {8: (1, 0)}), (8, {8: (1, 0)})]


def test_a_closed_attendance_is_at_its_end_and_asks_nobody() -> None:
    wire = Wire(started(7), started(8))
    attended = Attendance(wire, 1, {})
    next(attended)
    attended.close()
    assert list(attended) == []
    assert len(wire.asked) == 1


def test_a_daemon_that_goes_away_at_once_each_time_is_given_up() -> None:
    wire = Wire(*[b""] * 5)
    with pytest.raises(Unreachable, match="tried 3 times"):
        next(Attendance(wire, 1, {}))


@pytest.mark.parametrize(
    "text",
    [
        b"x" * 100,
        b"nonsense\n",
        b"[1]\n",
        b'{"started": 7}\n',
        b'{"output": 7, "attempt": 1, "offset": 0, "size": -1}\n',
        b'{"output": 7, "attempt": 1, "offset": 0, "size": 99999999999}\n',
        b'{"output": "x", "attempt": 1, "offset": 0, "size": 0}\n',
    ],
)
def test_what_is_no_frame_is_exit_4_and_read_no_further(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "LINE_MAX", 64)
    with pytest.raises(Unreachable, match="cannot be read"):
        next(Attendance(Wire(text, text, text), 1, {}))
