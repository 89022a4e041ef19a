"""One log as it grows: bytes from an offset on, on whichever machine the log is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from grassq.core.protocol import LONG_POLL_S, LogCut
from grassq.errors import GrassError

#: While an attempt runs, a worker that cannot be asked is asked again after this long.
RETRY_S = 0.5
#: Above the size of every log.
OFFSET_MAX = 1 << 60
#: Bytes of the mark that stands for what was cut out of a log.
MARK_MAX = 1000


class LogReader(Protocol):
    """Reads logs where they are: on this machine, through a worker's connection, or from a copy."""

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream from an offset on, up to a bound, and the size of the stream.

        At the end of the stream, wait up to `wait_s` seconds until the stream grows or shrinks. No bytes before the
        end of the stream mean that they were cut out: `cut` says where to go on.
        """

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return what was cut out of a stream that is above its limit; None if nothing was."""

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines begin."""


class Source(Struct, frozen=True):
    """Where one log is read."""

    reader: LogReader
    #: A copy that leaves out the middle of a long log equals the log only up to here.
    cut_at: int | None = None
    #: Every byte comes from another machine.
    is_far: bool = False
    #: The file of the log, if it is on this machine.
    path: str | None = None


class Sources(Protocol):
    """Knows where logs are."""

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Return where the log of an attempt on a worker is read; raise Refused if it cannot be read now."""


class LogPart(Struct, frozen=True):
    """The next bytes of a log. No bytes: the log is shorter than `offset`, and is read from its start again."""

    offset: int
    data: bytes
    #: The log had no more bytes when this part was read.
    is_last: bool = False


class LogTail:
    """Iterates over one stream of one attempt from `offset` on; after `end`, up to the last byte and no further."""

    def __init__(self, sources: Sources, worker: str, job: int, attempt: int, stream: str, offset: int = 0) -> None:
        self._sources = sources
        self._worker = worker
        self._log = job, attempt, stream
        self.job, self.attempt = job, attempt
        #: The parts before this offset were returned.
        self.offset = offset
        #: The offset was counted in a copy that leaves out the middle of the log.
        self._in_copy = False
        self._over = asyncio.Event()

    def end(self) -> None:
        """Follow no longer: the attempt has ended, and its log is whole."""
        self._over.set()

    async def seek_last_lines(self, lines: int) -> None:
        """Go to where the last lines begin."""
        source = self._sources.source(self._worker, *self._log)
        self.offset = await source.reader.tail_offset(*self._log, lines)
        self._in_copy = source.cut_at is not None

    async def read(self, wait_s: float = 0.0) -> LogPart | None:
        """Return the next part; None at the end of the log. At the end, wait up to `wait_s` seconds for more."""
        source = self._sources.source(self._worker, *self._log)
        if source.cut_at is not None and not self._in_copy and self.offset > source.cut_at:
            return self._restart()
        data, size = await source.reader.read(*self._log, self.offset, wait_s)
        self._in_copy = source.cut_at is not None
        if size < self.offset:
            return self._restart()
        if not data:
            cut = await source.reader.cut(*self._log) if size > self.offset else None
            return None if cut is None else self._skip(cut, size)
        part = LogPart(self.offset, data, self.offset + len(data) >= size)
        self.offset += len(data)
        return part

    def _skip(self, cut: LogCut, size: int) -> LogPart | None:
        """Go to the end of what was cut out of the log; return the mark, or what is left of it after the offset."""
        mark = cut.mark[:MARK_MAX]
        begin = max(self.offset, cut.end - len(mark))
        if not begin < cut.end <= size:
            return None  # the log has changed since it was read, or its worker says what cannot be
        self.offset = cut.end
        return LogPart(begin, mark[begin - cut.end :])

    def _restart(self) -> LogPart:
        part = LogPart(self.offset, b"")
        self.offset = 0
        return part

    async def __aiter__(self) -> AsyncIterator[LogPart]:
        wait_s = LONG_POLL_S
        while True:
            is_over = self._over.is_set()
            try:
                part = await (self.read() if is_over else self._read_long(wait_s))
            except (GrassError, OSError):
                if is_over:
                    raise
                # The worker may come back; one that has too many logs to wait for is asked without waiting.
                wait_s = 0.0
                await self._pause()
                continue
            if part is not None:
                yield part
            if is_over and (part is None or part.is_last):
                return
            if part is None and wait_s == 0.0:
                await self._pause()
            wait_s = LONG_POLL_S

    async def _read_long(self, wait_s: float) -> LogPart | None:
        """Read, and wait for bytes if there are none; None as soon as the attempt is over."""
        tasks = asyncio.ensure_future(self.read(wait_s)), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return tasks[0].result() if tasks[0].done() else None
        finally:
            for task in tasks:
                task.cancel()

    async def _pause(self) -> None:
        over = asyncio.ensure_future(self._over.wait())
        await asyncio.wait([over], timeout=RETRY_S)
        over.cancel()
