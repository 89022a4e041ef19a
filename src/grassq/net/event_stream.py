"""Events over connections that may break: changes of any jobs, and starts, output and ends of one queue's jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from time import monotonic, sleep
from typing import Any, NamedTuple

from grassq import atomic_files
from grassq.errors import NotFound, Unreachable
from grassq.net.http import Connection
from grassq.net.retry import TRIES, TRIES_WITHIN_S

#: A daemon sends something every 15 s at least. After this long without data it counts as gone.
SILENT_S = 45.0
#: Seconds until a daemon that is away is asked again for changes: at first, and at most.
AWAY_S, AWAY_MAX_S = 0.2, 2.0
#: The largest line of a frame, and the largest output after a line.
LINE_MAX = 1 << 20
OUTPUT_MAX = 4 << 20
#: Offsets in one request; the output of other jobs comes again, and its known part is dropped here.
OFFSETS_MAX = 200
#: Ranges of ended jobs in one request; the other ended jobs come again and are dropped here.
#: With OFFSETS_MAX offsets, the request line stays below the 8,190 bytes that a daemon accepts.
OVER_MAX = 40
#: Ended jobs that are remembered; with more, those that the reader has dealt with are forgotten.
ENDED_MAX = 20_000

#: The attempt of a job that was read last, and the offset after the last byte read.
Place = tuple[int, int]
#: The first and the last of consecutive ids.
Range = tuple[int, int]


class JobStarted(NamedTuple):
    """An attempt of a job has begun."""

    job: int
    attempt: int
    #: As in `show --json`; None if it is not known.
    allocation: dict[str, Any] | None


class JobOutput(NamedTuple):
    """Bytes of a job's log from `offset` on. An offset below the bytes read before means that the log was truncated."""

    job: int
    attempt: int
    offset: int
    data: bytes


class JobEnded(NamedTuple):
    """A job has ended; a job that never started has no `JobStarted` before."""

    job: int
    state: str
    exit_code: int | None
    signal: int | None
    outcome: str | None
    error: str | None
    #: Why the rest of the output cannot be read; None if all of it was sent.
    unread: str | None = None


class JobShown(NamedTuple):
    """All jobs that existed were sent, once per connection: an unfinished job is in `ids`, or was removed."""

    #: The largest id that `ids` covers: later jobs may have been submitted meanwhile.
    upto: int
    #: Ranges of unfinished jobs, in ascending order.
    ids: Sequence[Range]

    def gone(self, jobs: Iterable[int]) -> list[int]:
        """Return the jobs that were removed, of jobs whose end was not received."""
        firsts = [first for first, _ in self.ids]
        found = []
        for job in jobs:
            at = bisect_right(firsts, job)
            if job <= self.upto and not (at and job <= self.ids[at - 1][1]):
                found.append(job)
        return found


Frame = JobStarted | JobOutput | JobEnded | JobShown

#: Opens the stream: the offsets of known output, and the ranges of jobs known to have ended.
Ask = Callable[[Mapping[int, Place], Sequence[Range]], tuple[Iterator[bytes], Connection]]
#: Returns the last job that the reader knows, and the jobs up to it whose end it has not dealt with.
#: Called by the thread that reads.
Known = Callable[[], tuple[int, Collection[int]]]


class EventStream:
    """The frames of one queue, each returned once. When a daemon dies, the stream goes on with the next one.

    The stream never ends by itself: close it. While it is open, a temporary queue is kept. NotFound means that the
    queue was deleted while jobs waited for it. Iterated again after an error, it goes on where it was.
    """

    def __init__(self, ask: Ask, known: Known) -> None:
        """Jobs that `known` says were dealt with may come again, but are mostly not even asked for."""
        self._ask = ask
        self._known = known
        #: The last known job when this connection was opened.
        self._last = 0
        #: Started jobs: the attempt and offset read.
        self._open: dict[int, Place] = {}
        #: Ended jobs, without those that the reader has dealt with.
        self._ended: set[int] = set()
        #: Jobs whose output comes again from its start on, and the offset up to which it is known.
        self._again: dict[int, int] = {}
        self._connection: Connection | None = None
        self._is_closed = False

    def close(self) -> None:
        """End the subscription; a temporary queue may be deleted when its last job has ended."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def __iter__(self) -> Iterator[Frame]:
        breaks = 0
        while not self._is_closed:
            parts = self._begin()
            opened, told = monotonic(), False
            try:
                if self._is_closed:
                    return  # closed while the connection was opened, when there was nothing to interrupt
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
        self._last, unfinished = self._forget()
        parts, self._connection = self._ask(told, _gaps(sorted(unfinished), self._last))
        return parts

    def _forget(self) -> tuple[int, Collection[int]]:
        """Forget jobs that the reader has dealt with; return what it knows."""
        last, unfinished = self._known()
        self._ended = {job for job in self._ended if job > last} | self._ended.intersection(unfinished)
        return last, unfinished

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _news(self, document: dict[str, Any], data: bytes) -> Frame | None:
        """Return a frame with news, else None: after a break much comes again."""
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
            raise _unreadable() from None
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
            self._forget()
        self._ended.add(job)
        self._open.pop(job, None)
        how = {name: document[name] for name in ("state", "exit_code", "signal", "outcome", "error")}
        return JobEnded(job, **how, unread=document.get("unread"))

    def _shown(self, ids: list[Range], upto: int) -> Frame:
        shown = JobShown(min(self._last, int(upto)), ids)
        for job in shown.gone(self._open):
            del self._open[job]
        return shown


def event_lines(
    ask: Callable[[str | None, bool], tuple[Iterator[bytes], Connection]], tell: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield changes as documents, each once and in order, for ever: wait for a daemon that goes away.

    `ask` opens the stream after a position, or from now on, and starts a daemon only if the flag is set. `tell` gets a
    message each time the daemon goes away. `reread` says that changes were missed: read the jobs again. Heartbeats are
    left out, and so is `subscribed` after the first connection.
    """
    since: str | None = None
    pause_s = AWAY_S
    parts, connection = ask(None, True)
    while True:
        try:
            for document, _ in read_frames(parts):
                pause_s = AWAY_S
                is_resumed = since is not None and document.get("event") == "subscribed"
                since = f"{document.get('epoch')}.{document.get('seq')}"
                if document.get("event") != "heartbeat" and not is_resumed:
                    yield document
            why = "the daemon ended its answer"
        except Unreachable as error:
            why = str(error)
        finally:
            connection.close()
        tell(f"{why}; waiting for the daemon to come back")
        is_away = True
        while is_away:
            sleep(pause_s)
            pause_s = min(2 * pause_s, AWAY_MAX_S)
            with suppress(Unreachable):
                parts, connection = ask(since, False)
                is_away = False


def _gaps(ids: Sequence[int], last: int) -> list[Range]:
    """Return the largest ranges before, between and after ids in ascending order, up to `last`; at most OVER_MAX."""
    edges = [0, *ids, last + 1]
    found = [(edge + 1, after - 1) for edge, after in pairwise(edges) if after > edge + 1]
    if len(found) > OVER_MAX:
        found = sorted(sorted(found, key=lambda gap: gap[0] - gap[1])[:OVER_MAX])
    return found


def read_frames(parts: Iterator[bytes]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield each frame of a stream: its line as a document, and the bytes after the line."""
    buffer = b""
    while True:
        while (end := buffer.find(b"\n")) < 0:
            if len(buffer) > LINE_MAX:
                raise _unreadable()
            part = next(parts, b"")
            if not part:
                return
            buffer += part
        document, buffer = atomic_files.parse(buffer[:end]), buffer[end + 1 :]
        if document is None:
            raise _unreadable()
        size = document.get("size", 0) if "output" in document else 0
        if not isinstance(size, int) or not 0 <= size <= OUTPUT_MAX:
            raise _unreadable()
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


def _unreadable() -> Unreachable:
    return Unreachable("the daemon's event stream cannot be read; is its version another one? try `grass restart`")
