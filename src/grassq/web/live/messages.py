"""What a page may say: one message, which replaces what it wants to be told. All of it is checked here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from grassq.core.model import JobId
from grassq.errors import BadInput, Refused

#: The bytes of one message of a page.
MESSAGE_MAX = 32 << 10
#: The jobs a page may show.
JOBS_MAX = 500
#: The lines of a log a page may show.
LINES_MAX = 500
ATTEMPT_MAX = 1 << 30
#: How many messages a page may send at once, and how many a second in the long run.
BURST_MAX, MESSAGES_PER_S = 60, 20.0

Stream = Literal["log", "out", "err"]


class LogWish(Struct, frozen=True, forbid_unknown_fields=True):
    """The log that a page shows: its last lines, as they grow."""

    job: JobId
    #: None for the newest attempt, also for one that comes later.
    attempt: Annotated[int, Meta(ge=1, le=ATTEMPT_MAX)] | None = None
    #: None for the log, or for stdout of a job that has both streams apart.
    stream: Stream | None = None
    lines: Annotated[int, Meta(ge=1, le=LINES_MAX)] = 200


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a page wants to be told."""

    totals: bool = False
    devices: bool = False
    queues: bool = False
    workers: bool = False
    jobs: Annotated[frozenset[JobId], Meta(max_length=JOBS_MAX)] = frozenset()
    #: Jobs are told with what the ends of their logs say.
    look: bool = False
    log: LogWish | None = None


class PageMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a page."""

    sub: Wish | None = None
    #: The page only says that it is there.
    beat: bool = False


_DECODER = msgspec.json.Decoder(PageMessage)


def read_message(text: str) -> PageMessage:
    """Return a message of a page; raise BadInput if it is wrong."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(f"invalid message: {error}") from None


class MessageRate:
    """Counts the messages of one page."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST_MAX)
        self._at = now

    def count(self, now: float) -> None:
        """Count one message; raise Refused if there were too many."""
        self._left = min(float(BURST_MAX), self._left + (now - self._at) * MESSAGES_PER_S) - 1.0
        self._at = now
        if self._left < 0.0:
            raise Refused(f"more than {MESSAGES_PER_S:.0f} messages a second; send the last one only")
