"""The frames of a subscribed queue: read whole, each told once, over connections that break."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.errors import NotFound, Unreachable
from grassq.net import event_stream
from grassq.net.event_stream import (
    EventStream,
    Frame,
    JobEnded,
    JobOutput,
    JobShown,
    JobStarted,
    Known,
    Place,
    Range,
    read_frames,
)
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
        self.asked: list[dict[int, Place]] = []
        self.over: list[list[Range]] = []
        self.closed = 0

    def __call__(self, offsets: Mapping[int, Place], over: Sequence[Range]) -> tuple[Iterator[bytes], Connection]:
        self.asked.append(dict(offsets))
        self.over.append(list(over))
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


def shown(*ids: Range, upto: int = 1 << 40) -> bytes:
    return json.dumps({"shown": ids, "upto": upto}).encode() + b"\n"


def nothing_known() -> tuple[int, list[int]]:
    return 0, []


def frames_of(wire: Wire, known: Known = nothing_known) -> list[Frame]:
    """Every frame until the daemon is gone for good."""
    heard: list[Frame] = []
    with pytest.raises(NotFound):
        for frame in EventStream(wire, known):
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
    assert heard[:4] == [JobStarted(7, 1, gpu), JobOutput(7, 1, 0, b"ab"), JobStarted(8, 1, gpu), heard[3]]
    assert heard[4] == JobOutput(7, 1, 2, b"cd")
    assert [frame.job for frame in heard if isinstance(frame, JobEnded)] == [8, 7]
    assert len(heard) == 6
    assert wire.asked == [{}, {7: (1, 2)}, {}]
    assert wire.closed == 2


def test_output_of_a_job_whose_offset_was_not_told_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "OFFSETS_MAX", 0)
    wire = Wire(started(7) + output(7, b"abcd"), output(7, b"abc") + output(7, b"def", 3) + output(7, b"g", 6))
    assert frames_of(wire)[1:] == [JobOutput(7, 1, 0, b"abcd"), JobOutput(7, 1, 4, b"ef"), JobOutput(7, 1, 6, b"g")]


def test_a_log_that_was_begun_anew_and_another_attempt_are_told_as_they_are() -> None:
    wire = Wire(started(7) + output(7, b"abcd") + output(7, b"x") + started(7, 2) + output(7, b"y", attempt=2))
    assert frames_of(wire)[2:] == [
        JobOutput(7, 1, 0, b"x"),
        JobStarted(7, 2, {"gpu": {"0": 1}}),
        JobOutput(7, 2, 0, b"y"),
    ]
    assert wire.asked[1] == {7: (2, 1)}


def test_the_first_bytes_of_a_second_attempt_are_told_however_much_was_read_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "OFFSETS_MAX", 0)
    wire = Wire(started(7) + output(7, b"abcd"), started(7) + started(7, 2) + output(7, b"xy", attempt=2))
    assert frames_of(wire)[2:] == [JobStarted(7, 2, {"gpu": {"0": 1}}), JobOutput(7, 2, 0, b"xy")]


def test_jobs_that_were_dealt_with_are_not_asked_for_again_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "OVER_MAX", 2)
    unfinished = [5, 7, 8, 100]
    wire = Wire(started(5) + ended(6), b"")
    assert len(frames_of(wire, lambda: (200, unfinished))) == 2
    assert wire.over == [[(9, 99), (101, 200)]] * 3, "the largest"
    unfinished.clear()
    wire = Wire(b"")
    frames_of(wire, lambda: (200, unfinished))
    assert wire.over[0] == [(1, 200)]
    wire = Wire(b"")
    frames_of(wire, lambda: (0, unfinished))
    assert wire.over[0] == []


def test_of_jobs_that_ended_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "ENDED_MAX", 10)
    ends = b"".join(ended(job) for job in range(1, 101))
    undone = [95, 100]
    # Whoever has not dealt with an end yet is not told of it twice.
    heard = frames_of(Wire(ends, ended(95) + ended(100)), lambda: (100, undone))
    assert len(heard) == 100


def test_what_exists_no_more_is_found_out_but_not_of_what_was_submitted_meanwhile() -> None:
    last = [0]

    def known() -> tuple[int, list[int]]:
        return last[0], [5, 7, 9]

    wire = Wire(shown(), started(5) + shown((6, 7), (20, 20), upto=50), shown((5, 9), upto=8))
    subscribed = iter(EventStream(wire, known))
    first = next(subscribed)
    assert isinstance(first, JobShown) and first.gone([5, 7, 9]) == []
    last[0] = 9
    assert next(subscribed) == JobStarted(5, 1, {"gpu": {"0": 1}})
    second = next(subscribed)
    assert isinstance(second, JobShown) and second.gone([5, 6, 7, 9, 10, 20]) == [5, 9]
    third = next(subscribed)
    assert wire.asked[-1] == {}, "nothing is remembered of what is gone"
    assert isinstance(third, JobShown) and third.gone([4, 9]) == [4]


def test_a_queue_that_was_deleted_is_said_and_not_asked_for_again() -> None:
    wire = Wire(started(7) + b'{"gone": true}\n', started(8))
    frames = iter(EventStream(wire, nothing_known))
    next(frames)
    with pytest.raises(NotFound, match="deleted"):
        next(frames)
    assert (len(wire.asked), wire.closed) == (1, 1)


def test_iterated_again_after_an_error_it_goes_on_where_it_was() -> None:
    wire = Wire(started(7) + output(7, b"ab"), b"", b"", started(7) + output(7, b"cd", 2))
    subscribed = EventStream(wire, nothing_known)
    with pytest.raises(Unreachable, match="tried 3 times"):
        list(subscribed)
    assert next(iter(subscribed)) == JobOutput(7, 1, 2, b"cd")
    assert wire.asked[-1] == {7: (1, 2)}


def test_closed_while_it_is_opened_it_reads_nothing() -> None:
    wire = Wire(started(7))

    def known() -> tuple[int, list[int]]:
        subscribed.close()  # as another thread may, just before the daemon is asked
        return 0, []

    subscribed = EventStream(wire, known)
    assert list(subscribed) == []
    assert (len(wire.asked), wire.closed) == (1, 1)


def test_a_closed_subscription_is_at_its_end_and_asks_nobody() -> None:
    wire = Wire(started(7), started(8))
    subscribed = EventStream(wire, nothing_known)
    frames = iter(subscribed)
    next(frames)
    subscribed.close()
    assert list(frames) == []
    assert len(wire.asked) == 1


def test_a_daemon_that_goes_away_at_once_each_time_is_given_up() -> None:
    wire = Wire(*[b""] * 5)
    with pytest.raises(Unreachable, match="tried 3 times"):
        next(iter(EventStream(wire, nothing_known)))


@pytest.mark.parametrize(
    "text",
    [
        b"x" * 100,
        b"nonsense\n",
        b"[1]\n",
        b'{"started": 7}\n',
        b'{"shown": 7, "upto": 1}\n',
        b'{"shown": [[1, 2]]}\n',
        b'{"output": 7, "attempt": 1, "offset": 0, "size": -1}\n',
        b'{"output": 7, "attempt": 1, "offset": 0, "size": 99999999999}\n',
        b'{"output": "x", "attempt": 1, "offset": 0, "size": 0}\n',
    ],
)
def test_what_is_no_frame_is_exit_4_and_read_no_further(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LINE_MAX", 64)
    with pytest.raises(Unreachable, match="cannot be read"):
        next(iter(EventStream(Wire(text, text, text), nothing_known)))
