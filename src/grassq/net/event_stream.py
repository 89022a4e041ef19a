"""A subscription to a queue: starts, output and ends of its jobs as they happen, over connections that may break."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from time import monotonic, sleep
from typing import Any, NamedTuple

from grassq.errors import NotFound, Unreachable
from grassq.net.http import Connection
from grassq.net.retry import TRIES, TRIES_WITHIN_S

#: A daemon says something every 15 s at least: one that is silent for so long is gone, or its machine is.
SILENT_S = 45.0
#: The line that begins a frame, and the output that may follow one.
LINE_MAX = 1 << 20
OUTPUT_MAX = 4 << 20
#: How many offsets one request tells; of more jobs the output comes again, and what is known of it is left out here.
OFFSETS_MAX = 200
#: How many ranges of jobs that are over one request tells; of the others everything comes again, and is left out here.
#: With that many offsets beside them a request line stays below the 8,190 bytes that a daemon takes.
OVER_MAX = 40
#: So many jobs that have ended are remembered; then those that the reader has dealt with are forgotten.
ENDED_MAX = 20_000

#: Which attempt of a job was read last, and how far.
Place = tuple[int, int]
#: The first and the last of some ids.
Range = tuple[int, int]


class JobStarted(NamedTuple):
    """An attempt of a job has begun."""

    job: int
    attempt: int
    #: As in `show --json`; None if nothing is known of it.
    allocation: dict[str, Any] | None


class JobOutput(NamedTuple):
    """What a job wrote, from `offset` of its log on. An offset below what was read before: the log was begun anew."""

    job: int
    attempt: int
    offset: int
    data: bytes


class JobEnded(NamedTuple):
    """A job is final; one that never started has no `Started` before it."""

    job: int
    state: str
    exit_code: int | None
    signal: int | None
    outcome: str | None
    error: str | None
    #: Why the rest of its output cannot be read; None when all of it was told.
    unread: str | None = None


class JobShown(NamedTuple):
    """All that there was has been told, once for each connection: what has not ended is among `ids`, or gone."""

    #: This concerns jobs up to here: later ones may have been submitted meanwhile.
    upto: int
    #: The first and the last of ids that follow one another, in ascending order.
    ids: Sequence[Range]

    def gone(self, jobs: Iterable[int]) -> list[int]:
        """Those of some jobs, none of which was told to have ended, that exist no more."""
        firsts = [first for first, _ in self.ids]
        found = []
        for job in jobs:
            at = bisect_right(firsts, job)
            if job <= self.upto and not (at and job <= self.ids[at - 1][1]):
                found.append(job)
        return found


Frame = JobStarted | JobOutput | JobEnded | JobShown

#: Opens the stream: from this job on, of these no output before their offsets, and nothing of those that are over.
Ask = Callable[[int, Mapping[int, Place], Sequence[Range]], tuple[Iterator[bytes], Connection]]
#: What the reader waits for: the last job that it knows of, and all jobs up to it whose end it has not dealt with.
#: Called by the thread that reads.
Known = Callable[[], tuple[int, Collection[int]]]


class EventStream:
    """The frames of one queue, each told once; a daemon that dies meanwhile is no end: the next one is asked.

    It never ends by itself: close it. As long as it is open, a temporary queue is kept. NotFound says
    that the queue was deleted under jobs that wait for it.
    """

    def __init__(self, ask: Ask, first_id: int, offsets: Mapping[int, Place], known: Known | None = None) -> None:
        """Jobs that `known` says were dealt with may be told again, but are mostly not even asked for.

        Without it everything is asked for again, and `Shown` concerns no job.
        """
        self._ask = ask
        self._known = known
        #: The last job that was known when this connection was opened: what is told now concerns it.
        self._last = 0
        self._first = first_id
        #: Jobs that have started: what was read of them.
        self._open: dict[int, Place] = dict(offsets)
        #: Jobs that have ended; without those that the reader has dealt with.
        self._ended: set[int] = set()
        #: Jobs whose output comes again from its start on, up to what is known of it.
        self._again: dict[int, int] = {}
        self._connection: Connection | None = None
        self._is_closed = False
        self._frames = self._forever()

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def offsets(self) -> dict[int, Place]:
        """Which attempt of each job that has not ended was read last, and how far: for the next subscription."""
        return dict(self._open)

    def close(self) -> None:
        """End the subscription; a temporary queue may be deleted when its last job has ended."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _forever(self) -> Iterator[Frame]:
        breaks = 0
        while not self._is_closed:
            parts = self._begin()
            opened, told = monotonic(), False
            try:
                if self._is_closed:
                    return  # while it was opened, when there was nothing to interrupt
                for document, data in read_frames(parts):
                    frame = self._news(document, data)
                    if frame is not None:
                        told = True
                        yield frame
                why = Unreachable("the daemon ended its answer")
            except Unreachable as error:
                why = error
            finally:
                self._drop()
            breaks = 1 if told or monotonic() - opened > TRIES_WITHIN_S else breaks + 1
            if breaks >= TRIES and not self._is_closed:
                raise Unreachable(f"{why}; tried {breaks} times") from why
            sleep(0.2 * (breaks - 1))

    def _begin(self) -> Iterator[bytes]:
        told = dict(list(self._open.items())[:OFFSETS_MAX])
        self._again = {job: upto for job, (_, upto) in self._open.items() if job not in told}
        parts, self._connection = self._ask(self._first, told, self._settle())
        return parts

    def _settle(self) -> list[Range]:
        """Forget what the reader has dealt with; the jobs that need not be told again."""
        if self._known is None:
            return []
        self._last, unfinished = self._known()
        self._forget(self._last, unfinished)
        return _gaps(sorted(unfinished), self._last)

    def _forget(self, last: int, unfinished: Collection[int]) -> None:
        self._ended = {job for job in self._ended if job > last} | self._ended.intersection(unfinished)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _news(self, document: dict[str, Any], data: bytes) -> Frame | None:
        """A frame that says something new: after a break much is told again."""
        try:
            if "output" in document:
                return self._output(int(document["output"]), int(document["attempt"]), int(document["offset"]), data)
            if "started" in document:
                return self._started(int(document["started"]), int(document["attempt"]), document["allocation"])
            if "ended" in document:
                return self._end(int(document["ended"]), document)
            if "shown" in document:
                return self._shown([(int(first), int(last)) for first, last in document["shown"]], document["upto"])
            if "gone" in document:
                raise NotFound("the queue was deleted")
        except (KeyError, TypeError, ValueError):
            raise _strange() from None
        return None

    def _started(self, job: int, attempt: int, allocation: dict[str, Any] | None) -> Frame | None:
        if job in self._ended or self._open.get(job, (0, 0))[0] >= attempt:
            return None
        self._again.pop(job, None)
        self._open[job] = (attempt, 0)
        return JobStarted(job, attempt, allocation)

    def _output(self, job: int, attempt: int, offset: int, data: bytes) -> Frame | None:
        if job in self._ended or attempt < self._open.get(job, (0, 0))[0]:
            return None
        known = self._again.get(job, 0)
        if known > offset:
            data, offset = data[known - offset :], min(known, offset + len(data))
            if not data:
                return None
        self._again.pop(job, None)
        self._open[job] = (attempt, offset + len(data))
        return JobOutput(job, attempt, offset, data)

    def _end(self, job: int, document: dict[str, Any]) -> Frame | None:
        if job in self._ended:
            return None
        if len(self._ended) >= ENDED_MAX:
            # If nobody says what he has dealt with, the lowest half: they may be told again.
            self._forget(*(self._known() if self._known else (sorted(self._ended)[ENDED_MAX // 2], ())))
        self._ended.add(job)
        self._open.pop(job, None)
        how = {name: document[name] for name in ("state", "exit_code", "signal", "outcome", "error")}
        return JobEnded(job, **how, unread=document.get("unread"))

    def _shown(self, ids: list[Range], upto: int) -> Frame:
        shown = JobShown(min(self._last, int(upto)), ids)
        for job in shown.gone(self._open):
            del self._open[job]
        return shown


def _gaps(ids: Sequence[int], last: int) -> list[Range]:
    """The largest ranges between ids in ascending order, before them, and from them to the last one; bounded."""
    edges = [0, *ids, last + 1]
    found = [(edge + 1, after - 1) for edge, after in pairwise(edges) if after > edge + 1]
    if len(found) > OVER_MAX:
        found = sorted(sorted(found, key=lambda gap: gap[0] - gap[1])[:OVER_MAX])
    return found


def read_frames(parts: Iterator[bytes]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Each frame of a stream: its line as a document, and the bytes that belong to it."""
    buffer = b""
    while True:
        while (end := buffer.find(b"\n")) < 0:
            if len(buffer) > LINE_MAX:
                raise _strange()
            part = next(parts, b"")
            if not part:
                return
            buffer += part
        document, buffer = _read_line(buffer[:end]), buffer[end + 1 :]
        size = document.get("size", 0) if "output" in document else 0
        if not isinstance(size, int) or not 0 <= size <= OUTPUT_MAX:
            raise _strange()
        pieces = [buffer]
        missing = size - len(buffer)
        while missing > 0:
            part = next(parts, b"")
            if not part:
                return
            pieces.append(part)
            missing -= len(part)
        buffer = b"".join(pieces)
        data, buffer = buffer[:size], buffer[size:]
        yield document, data


def _read_line(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise _strange() from None
    if not isinstance(document, dict):
        raise _strange()
    return document


def _strange() -> Unreachable:
    return Unreachable("what the daemon tells of the queue cannot be read; is it another version? try `grass restart`")
