"""One log that pages show: followed once, however many pages show it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from grassq.broker.engine import Engine
from grassq.core.model import FINAL, HOLDING
from grassq.core.protocol import LONG_POLL_S
from grassq.core.term.screen import Screen
from grassq.errors import BadInput, GrassError, NotFound
from grassq.web.live.folded_log import FED_BYTES, FoldedLog, LinesDifference, ShownLine, difference
from grassq.web.live.messages import LINES_MAX, LogWish
from grassq.web.logs.cache import Key
from grassq.web.logs.index import LogBytes, LogChanged
from grassq.web.logs.serve import FoundLog, find
from grassq.web.logs.tail import Source
from grassq.web.workers.directory import WorkerDirectory

#: The least time between two states of a log, and the least multiple of the time that folding one has taken.
PACE_S, PACE_COSTS = 0.1, 8.0
#: Bytes that are counted for one state; beyond them the log is skipped, and from there on lines have no numbers. Then,
#: and of a log on another machine, only the second number of bytes is read.
READ_MAX, READ_UNCOUNTED_MAX = 8 << 20, 512 << 10
#: A log up to this size is read from its beginning, and counted.
WHOLE_MAX = 4 << 20
#: How long a view waits for the index of a log that others use.
INDEX_WAIT_S = 1.0
#: A longer one is read with its index, if not more bytes than these must be indexed first.
INDEX_LAG_MAX = 32 << 20
#: Lines before the last ones that are read with the index.
NEAR_LINES = LINES_MAX + 200
#: After this long a log is tried again that could not be read.
RETRY_S = 1.0

_T = TypeVar("_T")


class LogState(Struct, frozen=True):
    """What is known of a log at one moment."""

    attempt: int | None = None
    stream: str | None = None
    lines: tuple[ShownLine, ...] = ()
    total: int | None = 0
    size: int = 0
    is_final: bool = False
    error: str | None = None


class LogView:
    """Follows one log, and has its last lines in the form that pages are sent."""

    def __init__(self, engine: Engine, directory: WorkerDirectory, asked: LogWish, tell: Callable[[], None]) -> None:
        """`tell` is called when there is something new."""
        self.asked = asked
        #: How many pages show this log.
        self.shown = 0
        self._engine = engine
        self._directory = directory
        self._tell = tell
        self._changed = asyncio.Event()
        self._folded = FoldedLog()
        self._state = LogState()
        #: Grows with every state; a page with the state before this one is sent the difference only.
        self.version = 0
        #: How this state differs from the one before it; None if a page must forget all lines.
        self._difference: LinesDifference | None = None
        self._pieces: dict[tuple[bool, int], bytes] = {}
        #: What a wait for bytes has brought already: where they begin, the bytes, and the size of the log.
        self._ahead: tuple[int, bytes, int] | None = None
        #: Where the copy that is read leaves out a part; None for a whole log.
        self._cut_at: int | None = None
        #: How long the folding for one state took.
        self._cost_s = 0.0
        self._task = asyncio.create_task(self._run())

    def job_changed(self) -> None:
        """Look again whether the attempt is over, or another one has begun."""
        self._changed.set()

    async def close(self) -> None:
        """Follow no longer."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def piece(self, known: int, lines: int) -> bytes:
        """Return what a page is sent that was sent the version `known` last and shows this number of lines."""
        is_next = known == self.version - 1 and self._difference is not None
        if (found := self._pieces.get((is_next, lines))) is None:
            found = self._pieces[is_next, lines] = self._encoded(is_next, lines)
        return found

    def _encoded(self, is_next: bool, lines: int) -> bytes:
        state = self._state
        begin = max(0, len(state.lines) - lines)
        first = 0
        if is_next and self._difference is not None:
            begin, first = max(begin, self._difference.same), self._difference.first
        shown = state.lines[begin:]
        head = {"job": self.asked.job, "attempt": state.attempt, "stream": state.stream, "is_new": not is_next}
        head |= {"first": first, "total": state.total, "size": state.size}
        head |= {"is_final": state.is_final, "error": state.error}
        return msgspec.json.encode(head)[:-1] + b',"lines":[' + b",".join([line.raw for line in shown]) + b"]}"

    def _publish(self, state: LogState, *, is_new: bool) -> None:
        if state == self._state and self.version and not is_new:
            return
        self._difference = None if is_new else difference(self._state.lines, state.lines, is_full=self._folded.is_full)
        self._state = state
        self._pieces.clear()
        self.version += 1
        self._tell()

    def _fail(self, words: str) -> None:
        state = self._state
        told = LogState(state.attempt, state.stream, state.lines, state.total, state.size, state.is_final, words)
        self._publish(told, is_new=False)

    async def _run(self) -> None:
        """Follow the log until the view is closed."""
        while True:
            self._changed.clear()
            try:
                found = await find(self._engine, self.asked.job)
                await self._follow(found, *_chosen(self.asked, found))
            except (NotFound, BadInput) as error:
                self._fail(str(error))
                await self._changed.wait()
            except (LogChanged, GrassError, OSError) as error:
                self._fail(str(error) or "the log changes while it is read")
                await self._news(RETRY_S)

    async def _follow(self, found: FoundLog, attempt: int, stream: str) -> None:
        """Follow one attempt until something happens to its job."""
        is_over = attempt < found.job.attempt or found.job.state not in HOLDING
        worker = found.workers.get(attempt)
        is_new = (attempt or None, stream) != (self._state.attempt, self._state.stream) or not self.version
        if worker is None:
            self._folded = FoldedLog()
            self._publish(LogState(attempt or None, stream, is_final=found.job.state in FINAL), is_new=is_new)
            await self._changed.wait()
            return
        key = found.job.id, attempt, stream
        if is_new:
            source = self._directory.source(worker, *key)
            self._folded, self._cut_at = await self._begin(LogBytes(source, key), key), source.cut_at
        while True:
            source = self._directory.source(worker, *key)
            log = LogBytes(source, key)
            if source.cut_at != self._cut_at:
                # Offsets in a copy that leaves out the middle of a log are other ones than in the log.
                self._folded, self._ahead, is_new = await self._begin(log, key), None, True
                self._cut_at = source.cut_at
            try:
                size = await self._read(log)
            except LogChanged:
                self._folded, is_new = FoldedLog(), True
                size = await self._read(log)
            at, lines = time.monotonic(), tuple(await self._fold(self._folded.lines))
            at_end = self._folded.offset >= size
            state = LogState(attempt, stream, lines, self._folded.total, size, is_over and at_end)
            self._publish(state, is_new=is_new)
            is_new = False
            if is_over and at_end:
                await self._changed.wait()
            elif at_end:
                await self._growth(source, key, size)
            if self._changed.is_set():
                return
            pace_s, self._cost_s = max(PACE_S, PACE_COSTS * self._cost_s), 0.0
            await self._news(at + pace_s - time.monotonic())

    async def _fold(self, work: Callable[..., _T], *data: bytes) -> _T:
        """Do work on lines in a thread, and count how long it takes."""
        began = time.monotonic()
        try:
            return await asyncio.to_thread(work, *data)
        finally:
            self._cost_s += time.monotonic() - began

    async def _news(self, within_s: float) -> None:
        """Wait until something happens to the job, but only so long."""
        if within_s > 0.0:
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([waiting], timeout=within_s)
            waiting.cancel()

    async def _growth(self, source: Source, key: Key, size: int) -> None:
        """Wait until the log grows or shrinks, something happens to the job, or the reader waits no longer.

        The next reader may be another one: that of a worker which has come back.
        """
        growing = asyncio.ensure_future(source.reader.read(*key, size, LONG_POLL_S))
        news = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((growing, news), return_when=asyncio.FIRST_COMPLETED)
            if growing.done() and growing.result()[1] != size:
                self._ahead = size, *growing.result()
        finally:
            growing.cancel()
            news.cancel()

    async def _begin(self, log: LogBytes, key: Key) -> FoldedLog:
        """Return the log shortly before its end: with its index if that is near, so that its lines have numbers."""
        size, indexes = await log.size(), self._directory.indexes
        if size <= WHOLE_MAX:
            return FoldedLog()
        index = None if indexes is None or log.is_far else await indexes.of(key, is_cut=False)
        if index is None or size - index.screen.offset > INDEX_LAG_MAX:
            return await _near_end(log, size)
        try:
            async with asyncio.timeout(INDEX_WAIT_S):
                await index.lock.acquire()
        except TimeoutError:
            return await _near_end(log, size)
        try:
            await index.extend(log, lambda index: False, INDEX_LAG_MAX)
            place = index.places.before_line(max(1, index.total - NEAR_LINES))
            return FoldedLog(Screen() if place is None else await index.screen_at(log, place))
        except LogChanged:
            return await _near_end(log, size)
        finally:
            index.lock.release()

    async def _next(self, log: LogBytes) -> tuple[int, bytes, int]:
        """Return the next bytes of the log, where they begin, and its size; raise LogChanged if it is shorter now."""
        offset, ahead, self._ahead = self._folded.offset, self._ahead, None
        begin, data, size = ahead if ahead is not None and ahead[0] == offset and ahead[1] else await log.read(offset)
        if size < offset:
            raise LogChanged
        return begin, data, size

    async def _read(self, log: LogBytes) -> int:
        """Take what the log has more; return its size. Of very much only the end is taken."""
        begin, data, size = await self._next(log)
        end = size
        most = READ_MAX if self._folded.is_counted and not log.is_far else READ_UNCOUNTED_MAX
        if end - self._folded.offset > most:
            # The job writes faster than its log can be counted.
            self._folded = await _near_end(log, end)
            begin, data, size = await self._next(log)
        while data:
            self._folded.offset = begin
            is_near = begin + len(data) >= end - FED_BYTES
            await self._fold(self._folded.take if is_near else self._folded.count, data)
            if self._folded.offset >= end:
                break
            begin, data, size = await self._next(log)
        return size


async def _near_end(log: LogBytes, size: int) -> FoldedLog:
    """Return the log from the beginning of a line shortly before its end; its lines are not counted."""
    begin, data, _ = await log.read(max(0, size - FED_BYTES))
    newline = data.find(b"\n")
    return FoldedLog(Screen(offset=begin + newline + 1), is_counted=False)


def _chosen(asked: LogWish, found: FoundLog) -> tuple[int, str]:
    """Return the attempt and the stream to follow; raise BadInput if the job has no such stream."""
    job = found.job
    stream = asked.stream or ("out" if job.spec.split else "log")
    if (stream == "log") == job.spec.split:
        has = "out and err" if job.spec.split else "one log"
        raise BadInput(f"job {job.id} has {has}, no stream {stream!r}")
    return job.attempt if asked.attempt is None else asked.attempt, stream
