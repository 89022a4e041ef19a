"""GET /v1/jobs/ID/log/lines: lines of a log as people see them, from any place of the log.

`line=N` counts from 1, `line=-N` from the end, `byte=B` takes the line at a byte, `since=T` the lines that were written
after a time. The answer has at most LINES_MAX lines and CHARACTERS_MAX characters.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from grassq.broker.engine import Engine
from grassq.core.model import FINAL
from grassq.core.syntax.numbers import is_number
from grassq.core.term.line import Line
from grassq.core.term.screen import Screen
from grassq.core.term.style import words
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.answers.logs import FoundLinesDocument, LogLineDocument, LogLinesDocument
from grassq.web.logs.index import Bound, LogBytes, LogChanged, LogIndex
from grassq.web.logs.index_file import IndexPlace
from grassq.web.logs.serve import LOG_CHOICE, LOG_PATH, chosen, find
from grassq.web.logs.tail import OFFSET_MAX
from grassq.web.requests import number
from grassq.web.responses import document
from grassq.web.workers.directory import WorkerDirectory

logger = logging.getLogger(__name__)

LINES_MAX = 5_000
LINES_DEFAULT = 100
CHARACTERS_MAX = 4 << 20
#: How long an answer waits until the index has come to the line; then it says how far the index is.
INDEX_WAIT_S = 8.0
#: Bytes of a log of another machine that a request brings here to index them.
FAR_BYTES_MAX = 64 << 20
#: The last lines of a log with more bytes than this behind its index are had without the index, and have no numbers.
TAIL_LAG_MAX = 32 << 20
#: Bytes that the background indexes before a request has a turn.
BUILD_STEP = 16 << 20
#: Bytes before the end that are read for such last lines: first few, then more until the lines are there.
TAIL_BYTES = (64 << 10, 512 << 10, 4 << 20)
NUMBER_MAX = 1 << 50


class LogLines:
    """The handler of the route."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory
        self._building: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """Return the route."""
        about = Description(
            "logs",
            "Lines of a log as people see them, from any place of the log",
            LogLinesDocument,
            query=(
                *LOG_CHOICE,
                Parameter("line", "The first line: 1, 2, ... or -1, -2, ... from the end", int, 1),
                Parameter("byte", "The line at this byte of the log", int),
                Parameter("since", "The lines that were written after this time, in seconds since the epoch", int),
                Parameter("count", f"How many lines, at most {LINES_MAX:,}", int, LINES_DEFAULT),
            ),
        )
        return [Route("GET", f"{LOG_PATH}/lines", self.serve, "read", waits=True, about=about)]

    async def serve(self, request: web.Request) -> web.Response:
        """Answer with lines."""
        place = AskedLines(request)
        found = await find(self._engine, int(request.match_info["id"]))
        attempt, stream = chosen(request, found.job)
        key = found.job.id, attempt, stream
        nothing: FoundLinesDocument = {"lines": [], "total": 0, "size": 0, "indexed": 0, "is_whole": True}
        answer: LogLinesDocument = {
            **nothing,
            "job": found.job.id,
            "attempt": attempt,
            "stream": stream,
            "is_final": found.job.state in FINAL or attempt < found.job.attempt,
        }
        worker = found.workers.get(attempt)
        if worker is None:
            return document(answer)
        if self._directory.indexes is None:
            raise Refused("this daemon keeps no indexes of logs")
        source = self._directory.source(worker, *key)
        if source.path is not None:
            answer["path"] = source.path
        index = await self._directory.indexes.of(key, is_cut=source.cut_at is not None)
        return document({**answer, **await self._answer(index, LogBytes(source, key), place)})

    async def close(self) -> None:
        """Stop the indexing in the background."""
        for task in self._building:
            task.cancel()
        await asyncio.gather(*self._building, return_exceptions=True)

    async def _answer(self, index: LogIndex, log: LogBytes, asked: AskedLines) -> FoundLinesDocument:
        if asked.is_from_end and not index.lock.locked():
            index.size = await log.size()
        if asked.is_from_end and (index.lock.locked() or index.size - index.screen.offset > TAIL_LAG_MAX):
            self._build(index, log)
            lines, size = await _last_lines(log, -asked.line)
            bare: list[LogLineDocument] = [{**line_document(line), "n": None} for line in lines[: asked.count]]
            return {"lines": bare, "total": None, "size": size, "indexed": index.screen.offset, "is_whole": False}
        deadline = asyncio.get_running_loop().time() + INDEX_WAIT_S
        try:
            async with asyncio.timeout_at(deadline):
                await index.lock.acquire()
        except TimeoutError:
            return {"lines": [], "total": None, "size": index.size, "indexed": index.screen.offset, "is_whole": False}
        try:
            for _ in range(2):
                try:
                    return await self._indexed(index, log, asked, deadline)
                except LogChanged:
                    await index.forget()
        finally:
            index.lock.release()
        raise Refused("the log changes while it is read; ask again")

    async def _indexed(self, index: LogIndex, log: LogBytes, asked: AskedLines, deadline: float) -> FoundLinesDocument:
        loop = asyncio.get_running_loop()
        enough = asked.enough()
        most = FAR_BYTES_MAX if log.is_far else OFFSET_MAX
        await index.extend(log, lambda index: enough(index) or loop.time() > deadline, most)
        place, first = asked.place(index)
        lines: list[Line] = []
        if enough(index) or index.is_whole:
            bound = Bound(asked.count, CHARACTERS_MAX, -1 if asked.byte is None else asked.byte)
            lines = await index.lines_from(log, place, first, bound)
        answer: FoundLinesDocument = {
            "lines": [line_document(line) for line in lines],
            "total": index.total if index.is_whole else None,
            "size": index.size,
            "indexed": index.screen.offset,
            "is_whole": index.is_whole,
        }
        if asked.since is not None:
            answer["seen"] = place.seen if place is not None else None
        return answer

    def _build(self, index: LogIndex, log: LogBytes) -> None:
        """Index the whole log in the background; one log at a time, and only of this machine."""
        if self._building or log.is_far or index.lock.locked():
            return
        task = asyncio.create_task(self._build_all(index, log))
        self._building.add(task)
        task.add_done_callback(self._building.discard)

    async def _build_all(self, index: LogIndex, log: LogBytes) -> None:
        indexed = -1
        try:
            while not index.is_whole and index.screen.offset > indexed:
                async with index.lock:
                    indexed = index.screen.offset
                    await index.extend(log, lambda index: False, BUILD_STEP)
        except (LogChanged, GrassError, OSError) as error:
            # The next request that needs the index says it to its client.
            logger.info("log_not_indexed job=%d error=%s", index.job, error or type(error).__name__)


class AskedLines:
    """What a request asks for."""

    def __init__(self, request: web.Request) -> None:
        if sum(name in request.query for name in ("line", "byte", "since")) > 1:
            raise BadInput("line=, byte= and since= cannot go together")
        text = request.query.get("line", "1")
        digits = text.removeprefix("-")
        if not is_number(digits) or not 0 < int(digits) <= NUMBER_MAX:
            raise BadInput(f"line={text[:20]!r} is not a number of a line: 1, 2, ... or -1, -2, ... from the end")
        self.line = int(text)
        self.byte = number(request, "byte", 0, OFFSET_MAX) if "byte" in request.query else None
        self.since = number(request, "since", 0, NUMBER_MAX) if "since" in request.query else None
        default = min(LINES_DEFAULT, -self.line) if self.line < 0 else LINES_DEFAULT
        self.count = min(number(request, "count", default, NUMBER_MAX), LINES_MAX)

    @property
    def is_from_end(self) -> bool:
        """Whether the lines are counted from the end."""
        return self.line < 0

    def enough(self) -> Callable[[LogIndex], bool]:
        """Return what tells whether an index has come far enough."""
        if self.byte is not None:
            # The lines behind the byte are wanted too: a little more of the log.
            return lambda index: bool(index.screen.rows) and index.screen.rows[0].begin > (self.byte or 0)
        if self.line < 0 or self.since is not None:
            return lambda index: False
        return lambda index: index.screen.first >= self.line + self.count

    def place(self, index: LogIndex) -> tuple[IndexPlace | None, int]:
        """Return from where the lines are read, and the number of the first line."""
        if self.byte is not None:
            return index.places.before_byte(self.byte), 1
        if self.since is not None:
            place = index.places.seen_before(self.since)
            return place, place.line if place else 1
        first = self.line if self.line > 0 else max(1, index.total + 1 + self.line)
        return index.places.before_line(first), first


def line_document(line: Line) -> LogLineDocument:
    """Return a line as data."""
    spans = [(words(style), text) for style, text in line.spans]
    found: LogLineDocument = {"n": line.number, "begin": line.begin, "end": line.end, "spans": spans}
    if line.updates:
        found["updates"] = line.updates
    if line.cut:
        found["cut"] = line.cut
    return found


async def _last_lines(log: LogBytes, count: int) -> tuple[list[Line], int]:
    """Return the last lines of a log, read from shortly before its end, and its size."""
    size = await log.size()
    lines: list[Line] = []
    for tail in TAIL_BYTES:
        lines = await _lines_behind(log, max(0, size - tail), size)
        if len(lines) >= count or tail >= size:
            break
    return lines[-count:], size


async def _lines_behind(log: LogBytes, begin: int, size: int) -> list[Line]:
    """Return the whole lines between a byte and the end of the log."""
    data, at = b"", begin
    while at < size:
        at, more, _ = await log.read(at)
        if not more:
            break
        data += more
        at += len(more)
    if begin:
        # The first line is not whole, and what is left of it is none of the log's lines.
        cut = data.find(b"\n") + 1
        data, begin = data[cut:], begin + cut
    screen = Screen(offset=begin)
    return await asyncio.to_thread(lambda: screen.feed(data) + screen.finish())
