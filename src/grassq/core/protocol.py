"""Messages of a worker's link besides orders and reports: greetings, heartbeats, questions and answers.

Every frame is numbered from 1 within its connection and direction. A repeated number is a duplicate, which is dropped.
A gap ends the connection, and the next one begins with a fresh hello. A release may add types of frames and fields, and
then increases the protocol number: a peer that is one older skips what it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, field

from grassq.core.messages import Order, StorePosition, WorkerMessage
from grassq.core.model import Offer
from grassq.core.resources.device_changes import DeviceChange
from grassq.core.syntax.numbers import is_number

#: The newest protocol of this release; it may differ by one from the peer's.
PROTOCOL = 1
#: The path of a worker's connection. The headers of its request: the worker's protocol, its ticket and the newest store
#: position it was told. The headers of the answer: the broker's protocol, or why the worker is refused.
PATH = "/v1/worker"
PROTOCOL_HEADER = "Grass-Protocol"
TICKET_HEADER = "Grass-Ticket"
SEEN_HEADER = "Grass-Seen"
ERROR_HEADER = "Grass-Error"
FRAME_MAX = 8 << 20
HEARTBEAT_S = 5.0
#: Seconds of silence after which a peer counts as gone.
SILENCE_S = 15.0
#: How much of a log one answer holds: a slow connection carries it well within the silence that ends a connection.
READ_MAX = 256 << 10
#: How long a worker waits with the answer for the next bytes of a log, and how many such questions wait at a time.
LONG_POLL_S = 10.0
LONG_POLLS_MAX = 1000


class LinkTimes(Struct, frozen=True):
    """The times of a link; tests make them short."""

    heartbeat_s: float = HEARTBEAT_S
    silence_s: float = SILENCE_S
    #: How long dialling may take at each address, and the greeting after it.
    dial_s: float = 10.0
    greet_s: float = 30.0
    #: How long an older connection of the same worker has to answer before a new one replaces it.
    probe_s: float = 5.0
    #: How long a question may wait for its answer; making a queue waits for devices to be found.
    ask_s: float = 60.0
    retry_min_s: float = 0.5
    #: Below the time that a new broker waits for the workers it knows.
    retry_max_s: float = 8.0
    #: How long to wait after a refusal: only a person can remove its cause.
    refused_s: float = 30.0
    #: After a connection that lasted this long, the next one is tried at once.
    stable_s: float = 30.0


class Welcome(Struct, frozen=True, tag="welcome"):
    """The broker accepted the worker's hello: the broker's store, and the worker's next ticket."""

    store_id: str
    position: StorePosition = field(name="moment")
    #: To be presented at the next connection; a copy of this worker's home cannot know it.
    ticket: str
    protocol: int = PROTOCOL


class TicketKept(Struct, frozen=True, tag="kept"):
    """The worker has its new ticket on disk: the old one is void."""

    ticket: str


class Ping(Struct, frozen=True, tag="ping"):
    """A worker's heartbeat; `at` is a time of its own clock, which the answer repeats."""

    at: float


#: The `at` of a pong that answers no ping.
NO_PING = -1.0


class Pong(Struct, frozen=True, tag="pong"):
    """The answer to a ping: leases count from its `at`. Before a start it tells the position alone, with NO_PING."""

    at: float
    position: StorePosition = field(name="moment")


class ReadLog(Struct, frozen=True, tag="read_log"):
    """Asks for the bytes of a stream from an offset on, up to a bound, and for its size.

    At the end of the stream the worker answers when the stream grows or shrinks, or after `wait_s` seconds.
    """

    job: int
    attempt: int
    stream: str
    offset: int
    wait_s: Annotated[float, Meta(ge=0.0, le=LONG_POLL_S)] = 0.0


class TailLog(Struct, frozen=True, tag="tail_log"):
    """Asks where the last lines of a stream begin."""

    job: int
    attempt: int
    stream: str
    lines: int


class LogCut(Struct, frozen=True):
    """What was cut out of a log above its limit, for a reader inside the cut: where it goes on, and what it shows."""

    end: int
    #: Takes the last bytes before `end`.
    mark: bytes


class FindCut(Struct, frozen=True, tag="find_cut"):
    """Asks where a reader goes on that is inside what was cut out of a stream, and for the mark of the cut."""

    job: int
    attempt: int
    stream: str


class MakeOffer(Struct, frozen=True, tag="make_offer"):
    """Make or replace a queue."""

    offer: Offer


class DropOffer(Struct, frozen=True, tag="drop_offer"):
    """Delete a queue."""

    queue: str


class ChangeDevices(Struct, frozen=True, tag="change_devices"):
    """Add, remove, drain or undrain devices; only asked of a worker that `changes_devices`."""

    change: DeviceChange


class Probe(Struct, frozen=True, tag="probe"):
    """Asks whether the worker is alive, when a second connection has the same name."""


Question = ReadLog | TailLog | FindCut | MakeOffer | DropOffer | ChangeDevices | Probe


class Ask(Struct, frozen=True, tag="ask"):
    """A question to the worker, answered under the same number."""

    number: int
    question: Question


class CancelAsk(Struct, frozen=True, tag="cancel_ask"):
    """The answer to a question is not needed any more."""

    number: int


class Answer(Struct, frozen=True, tag="answer"):
    """The worker's answer: data, an amount or words; or why there is none, and the exit code for that error."""

    number: int
    data: bytes = b""
    amount: int = 0
    words: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int = 0


#: Derived from the unions of `messages`, so that no order and no message can be left out.
ToWorker = Welcome | Pong | Ask | CancelAsk | Order
ToBroker = TicketKept | Ping | Answer | WorkerMessage


Body = TypeVar("Body")


class Frame(Struct, Generic[Body], frozen=True, array_like=True):
    """One message of a connection, and its number."""

    number: int
    body: Body


to_worker = msgspec.msgpack.Decoder(Frame[ToWorker])
to_broker = msgspec.msgpack.Decoder(Frame[ToBroker])
pack = msgspec.msgpack.Encoder().encode

_TAGS = {kind.__struct_config__.tag for kind in (*get_args(ToWorker), *get_args(ToBroker))}


class _Tagged(Struct):
    """A body as far as every release can read it."""

    type: str


def position_text(position: StorePosition) -> str:
    """Return a store position as the header SEEN_HEADER has it."""
    return f"{position.incarnation} {position.commit} {position.highest_id} {position.proof}"


def position_of(text: str) -> StorePosition | None:
    """Return the store position in a header; None if there is none, or one without a proof."""
    words = text.split(" ") if text.isascii() else []
    if len(words) != 4 or not all(is_number(word, 18) for word in words[1:3]):
        return None
    return StorePosition(words[0], int(words[1]), int(words[2]), words[3])


def read_frame(decoder: msgspec.msgpack.Decoder[Frame[Body]], data: bytes, *, newer: bool) -> tuple[int, Any]:
    """Return the number and the body of a frame, None if only a newer peer knows its tag; else raise ValueError."""
    try:
        frame = decoder.decode(data)
        return frame.number, frame.body
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if newer and (number := _unknown(data)) is not None:
            return number, None
        raise ValueError(f"a frame that cannot be read: {error}") from None


def _unknown(data: bytes) -> int | None:
    try:
        frame = msgspec.msgpack.decode(data, type=Frame[_Tagged])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return None if frame.body.type in _TAGS else frame.number
