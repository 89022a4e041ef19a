"""Frames by themselves: numbers, kinds that are not known, and how much may wait."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import BOOT, a_placement, a_spec, a_worker, an_offer

from grassq.core import messages, protocol, states
from grassq.core.messages import (
    Ack,
    Check,
    Forget,
    Hello,
    Report,
    Start,
    Stop,
    StorePosition,
    SuspendOrder,
    Withdraw,
)
from grassq.core.model import OFFERS_MAX, Offer, Outcome, WorkerInfo
from grassq.core.protocol import (
    Answer,
    Ask,
    CancelAsk,
    ChangeDevices,
    DropOffer,
    FindCut,
    MakeOffer,
    Ping,
    Pong,
    Probe,
    ReadLog,
    TailLog,
    TicketKept,
    Welcome,
)
from grassq.core.resources.capacity import DeviceCount as CountLimit
from grassq.core.resources.device_changes import DeviceChange
from grassq.core.states import Exited, Lost, RefusedByWorker, Started, Stuck
from grassq.core.suspension.events import Resumed, Suspended, SuspendRefused, SuspensionOutdated
from grassq.link.connection import FrameCounter, FrameQueue

START = Start(1, 2, a_spec(), a_placement(allocation={"cpu": 1, "gpu": {"0": 5}}), ((b"PATH", b"/bin"),), "name", 3)
QUESTIONS: tuple[protocol.Question, ...] = (
    ReadLog(1, 2, "log", 3, 10.0),
    TailLog(1, 2, "log", 10),
    FindCut(1, 2, "log"),
    MakeOffer(an_offer("q", gpu=[0, 1], cpu=4)),
    ChangeDevices(DeviceChange("remove", ("0", "a"), "printer")),
    DropOffer("q"),
    Probe(),
)
EVENTS: tuple[states.Report, ...] = (
    Started(1, 7),
    Exited(1, Outcome.EXITED, 0, started=1.0, ended=2.0),
    Lost(1, Outcome.LOST, "the machine was restarted"),
    RefusedByWorker(1, "given up", final=True),
    Stuck(1, "its disk is full"),
    Suspended(1, 2**40),
    Resumed(1, 2**40),
    SuspendRefused(1, 2**40, "its supervisor is of an earlier release"),
    SuspensionOutdated(1, 2**40),
)
ORDERS: tuple[messages.Order, ...] = (
    START,
    Check(1, 2, BOOT),
    Stop(1, 2, 3.0, BOOT),
    Withdraw(1, 2, BOOT, unrecorded=True),
    SuspendOrder(1, 2, 2**40, True, BOOT),
    Ack(1, 2),
    Forget((1,), (2,)),
)
#: One of each kind of frame at least, as each end sends it.
TO_WORKER = (
    Welcome("store", StorePosition("life", 3, 4), "ticket"),
    Pong(1.5, StorePosition("life", 3)),
    *(Ask(number, question) for number, question in enumerate(QUESTIONS)),
    CancelAsk(1),
    *ORDERS,
)
TO_BROKER = (
    Hello(a_worker("w", cpu=4, gpu=2), held=((1, 2),), seen=StorePosition("life", 3)),
    TicketKept("ticket"),
    Ping(1.5),
    Answer(1, b"data", 2, ("created",), "why not", 5),
    *(Report(1, event) for event in EVENTS),
)


def a_frame(body: object, number: int = 1) -> bytes:
    """A frame as it is sent."""
    return msgspec.msgpack.encode([number, body])


@pytest.mark.parametrize(
    ("union", "examples"),
    [
        (protocol.ToWorker, TO_WORKER),
        (protocol.ToBroker, TO_BROKER),
        (messages.Order, ORDERS),
        (protocol.Question, QUESTIONS),
        (states.Report, EVENTS),
    ],
)
def test_every_kind_of_frame_has_an_example_here(union: object, examples: tuple[object, ...]) -> None:
    assert {type(example) for example in examples} == set(get_args(union))


@pytest.mark.parametrize("body", TO_WORKER, ids=lambda body: type(body).__name__)
def test_a_worker_reads_every_frame_as_the_broker_packed_it(body: object) -> None:
    box = FrameQueue()
    box.put(protocol.pack(body), urgent=True)
    assert protocol.read_frame(protocol.to_worker, box.take() or b"", newer=False) == (1, body)


@pytest.mark.parametrize("body", TO_BROKER, ids=lambda body: type(body).__name__)
def test_a_broker_reads_every_frame_as_the_worker_packed_it(body: object) -> None:
    box = FrameQueue()
    box.put(protocol.pack(body), urgent=True)
    assert protocol.read_frame(protocol.to_broker, box.take() or b"", newer=False) == (1, body)


def test_what_is_put_in_comes_out_numbered_in_order_and_can_be_read() -> None:
    box = FrameQueue()
    box.open()
    for at in (1.0, 2.0):
        assert box.put(protocol.pack(Ping(at)))
    sent = [box.take(), box.take(), box.take()]
    assert sent[2] is None
    read = [protocol.read_frame(protocol.to_broker, frame, newer=False) for frame in sent[:2] if frame]
    assert read == [(1, Ping(1.0)), (2, Ping(2.0))]


def test_before_the_greeting_only_what_is_urgent_goes_and_later_it_still_overtakes() -> None:
    box = FrameQueue()
    box.put(protocol.pack(Ping(1.0)))
    assert box.take() is None
    box.put(protocol.pack(Ping(2.0)), urgent=True)
    first = box.take()
    assert first is not None and protocol.read_frame(protocol.to_broker, first, newer=False) == (1, Ping(2.0))
    assert box.take() is None
    box.open()
    second = box.take()
    assert second is not None and protocol.read_frame(protocol.to_broker, second, newer=False) == (2, Ping(1.0))


def test_only_so_many_frames_and_bytes_may_wait() -> None:
    few = FrameQueue(most=2)
    assert [few.put(b"x"), few.put(b"x", urgent=True), few.put(b"x")] == [True, True, False]
    small = FrameQueue(most_bytes=5)
    small.open()
    assert [small.put(b"123"), small.put(b"456")] == [True, False]
    small.take()
    assert small.put(b"456")


@given(st.lists(st.integers(1, 6), max_size=30))
def test_each_number_counts_once_and_a_gap_is_never_passed(numbers: list[int]) -> None:
    count, taken = FrameCounter(), []
    for number in numbers:
        try:
            if count.is_new(number):
                taken.append(number)
        except ValueError:
            assert number > len(taken) + 1
            break
    assert taken == list(range(1, len(taken) + 1))


def test_an_unknown_kind_is_skipped_of_a_newer_peer_only() -> None:
    unknown = a_frame({"type": "weather", "degrees": 21}, 7)
    assert protocol.read_frame(protocol.to_worker, unknown, newer=True) == (7, None)
    with pytest.raises(ValueError, match="cannot be read"):
        protocol.read_frame(protocol.to_worker, unknown, newer=False)


def test_a_known_kind_that_makes_no_sense_is_not_skipped_even_of_a_newer_peer() -> None:
    for body in ({"type": "pong", "at": "noon"}, {"type": "ping", "at": 1.0}, {"no": "type"}, 3, None):
        with pytest.raises(ValueError, match="cannot be read"):
            protocol.read_frame(protocol.to_worker, a_frame(body), newer=True)


def test_fields_that_a_newer_peer_adds_are_ignored() -> None:
    moment = {"life": "a", "commit": 3, "colour": "green"}
    frame = msgspec.msgpack.encode([4, {"type": "pong", "at": 1.0, "moment": moment, "extra": [1]}, "more"])
    assert protocol.read_frame(protocol.to_worker, frame, newer=True) == (4, Pong(1.0, StorePosition("a", 3)))


@given(st.binary(max_size=200))
def test_no_bytes_at_all_do_more_than_fail_to_be_a_frame(data: bytes) -> None:
    for newer in (True, False):
        try:
            number, _ = protocol.read_frame(protocol.to_broker, data, newer=newer)
        except ValueError:
            continue
        assert isinstance(number, int)


def test_a_frame_nested_without_end_is_no_frame() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        protocol.read_frame(protocol.to_broker, b"\x92\x01" + b"\x91" * 100_000 + b"\xc0", newer=True)


@pytest.mark.parametrize(
    "body",
    [
        Report(2**63, Started(1, 7)),
        Report(0, Started(1, 7)),
        Report(1, Started(2**63, 7)),
        Report(1, Started(1, 2**63)),
        Report(1, Exited(1, Outcome.EXITED, 2**63)),
        Report(1, Exited(1, Outcome.EXITED, 0, ended=float("nan"))),
        Report(1, Exited(1, Outcome.EXITED, 0, started=float("inf"))),
        Report(1, Stuck(1, "x" * (1 << 20))),
        Hello(WorkerInfo("w", "boot", {}, (Offer("q", {"gpu": CountLimit(10**9)}),))),
        Hello(WorkerInfo("w", "boot", {}, tuple(Offer(f"q{i}") for i in range(OFFERS_MAX + 2)))),
    ],
)
def test_what_no_store_or_planner_could_take_is_not_read_at_all(body: object) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        protocol.read_frame(protocol.to_broker, a_frame(body), newer=True)
