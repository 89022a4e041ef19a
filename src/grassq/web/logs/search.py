"""GET /v1/jobs/ID/log/search: the lines of a log that match, as JSON lines while they are found.

`q` is a text, or a regular expression of Python with `regex=1`; `i=1` ignores case. Lines are searched as people see
them. Every line of the answer is a hit (`n`, `text`, `at`), the progress (`total`, `searched`, `size`), or the end
(`end`, perhaps with an `error`). `after=N` begins behind line N; `limit` hits are told, and all are counted. The search
ends when the client hangs up.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from aiohttp import web

from grassq.broker.engine import Engine
from grassq.core.term.screen import Screen
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.listen.abort import cut, write_until_hangup
from grassq.web.logs import search_process
from grassq.web.logs.index import LogBytes, LogChanged, LogIndex
from grassq.web.logs.serve import chosen, find
from grassq.web.requests import number
from grassq.web.responses import error_document
from grassq.web.workers.directory import WorkerDirectory

QUERY_MAX = 1_000
#: Searches that run at once; another is refused.
SEARCHES_MAX = 4
HITS_DEFAULT, HITS_MAX = 1_000, 1_000_000
#: How long a search may take to the next hit in a piece of a log, or to the end of the piece, which is at most a
#: megabyte; and for the expression itself.
PIECE_S = 5.0
#: The time begins again with a hit, unless it began less than this many seconds ago.
RESTART_S = 0.1
#: Hits after which others have a turn on the event loop.
TURN_HITS = 200
#: Bytes of a log of another machine that a search brings here.
FAR_BYTES_MAX = 256 << 20
#: Bytes that are on their way to the process.
PIPE_BYTES = 1 << 20
#: The progress is told this often.
PROGRESS_S = 0.5
LINE_MAX = 1 << 50
_SIZE = struct.Struct("<I")


class LogSearch:
    """The handler of the route."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory
        self._running = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer with the lines that match."""
        asked = _asked(request)
        found = await find(self._engine, int(request.match_info["id"]))
        attempt, stream = chosen(request, found.job)
        key = found.job.id, attempt, stream
        worker = found.workers.get(attempt)
        source = None if worker is None else self._directory.source(worker, *key)
        if self._running >= SEARCHES_MAX:
            raise Refused(f"{SEARCHES_MAX} searches run already; try again when one has ended")
        index = None
        if source is not None and self._directory.indexes is not None:
            index = await self._directory.indexes.of(key, is_cut=source.cut_at is not None)
        log = None if source is None else LogBytes(source, key)
        most = FAR_BYTES_MAX if log is not None and log.is_far else None
        self._running += 1
        try:
            search = _Search(asked, log, most, index)
            async with search:
                return await self._stream(request, search)
        finally:
            self._running -= 1

    async def _stream(self, request: web.Request, search: _Search) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.force_close()
        await response.prepare(request)

        async def write() -> None:
            async for lines in search.lines():
                await response.write(lines)

        try:
            if await write_until_hangup(request, write()):
                await response.write_eof()
        except OSError:
            cut(request.transport)
        return response


class _Search:
    """One search: a process, and the pieces of the log that it is given."""

    def __init__(
        self, asked: dict[str, object], log: LogBytes | None, most: int | None, index: LogIndex | None
    ) -> None:
        self._asked = asked
        self._log = log
        self._most = most
        self._index = index
        self._process: asyncio.subprocess.Process | None = None
        self._offset = self._size = 0
        self._line = 1

    async def __aenter__(self) -> _Search:
        """Start the process; raise BadInput if the expression does not compile."""
        command = [sys.executable, "-I", str(Path(search_process.__file__))]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=-1, stdout=-1, stderr=-3, env={}, cwd="/", limit=1 << 20, start_new_session=True
        )
        assert self._process.stdin is not None
        pipe = self._process.stdin.transport.get_extra_info("pipe")
        with contextlib.suppress(OSError):
            # A piece of the log goes through the pipe at once.
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            await self._begin()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *problem: object) -> None:
        """End the process, whatever it does."""
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())

    async def _begin(self) -> None:
        after = int(str(self._asked["after"]))
        screen = None
        if self._index is not None and self._log is not None and after:
            place = self._index.places.before_line(after + 1)
            # A log that is not the one that was indexed is searched from its start.
            with contextlib.suppress(LogChanged):
                screen = None if place is None else await self._index.screen_at(self._log, place)
        self._offset = 0 if screen is None else screen.offset
        self._give(await asyncio.to_thread(_question, self._asked, screen))
        try:
            answer = await asyncio.wait_for(self._message(), PIECE_S)
        except TimeoutError:
            raise BadInput(f"the expression takes more than {PIECE_S:g} s to compile; use a simpler one") from None
        if "bad" in answer:
            raise BadInput(f"{self._asked['q']!r} is not a regular expression: {answer['bad']}")

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield lines of the answer."""
        try:
            async for lines in self._pieces():
                yield lines
        except GrassError as error:
            yield _line({"end": True, **error_document(error)})
        except TimeoutError:
            words = (
                f"the expression takes more than {PIECE_S:g} s on one megabyte of the log, behind line {self._line:,}"
            )
            yield _line({"end": True, **error_document(BadInput(f"{words}; use a simpler one"))})

    async def _pieces(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        told_at, begun_at = loop.time(), self._offset
        given = 0
        is_over = self._log is None
        last: dict[str, object] = {"total": 0, "searched": self._offset}
        while True:
            # Two pieces are on their way, so that the process need not wait for the next one.
            while given < 2 and not is_over:
                data = await self._next()
                is_over = not data or (self._most is not None and self._offset - begun_at >= self._most)
                if data:
                    self._give(_SIZE.pack(len(data)) + data)
                    given += 1
                if is_over:
                    self._give(_SIZE.pack(0))
                    given += 1
            if not given:
                break
            hits, last = await self._hits()
            given -= 1
            if hits:
                yield hits
            if loop.time() - told_at >= PROGRESS_S:
                told_at = loop.time()
                yield _line({**last, "size": self._size})
        end: dict[str, object] = {**last, "size": self._size, "end": True}
        if self._most is not None and self._offset < self._size:
            end["error"] = error_document(
                Refused(
                    f"the log is on another machine: searched {self._most >> 20} MiB of it, up to line {self._line:,}; "
                    f"search on with after={self._line - 1}"
                )
            )["error"]
        yield _line(end)

    async def _next(self) -> bytes:
        assert self._log is not None
        begin, data, self._size = await self._log.read(self._offset)
        if self._size < self._offset:
            raise Refused("the log shrank during the search; search again")
        self._offset = begin + len(data)
        return data

    async def _hits(self) -> tuple[bytes, dict[str, object]]:
        """Return the hits in the oldest piece, and the progress behind it."""
        loop = asyncio.get_running_loop()
        hits: list[bytes] = []
        async with asyncio.timeout(PIECE_S) as limit:
            while not (line := await self._answer()).startswith(b'{"searched"'):
                hits.append(line)
                if (restarts_at := loop.time() + PIECE_S) - (limit.when() or 0.0) > RESTART_S:
                    limit.reschedule(restarts_at)
                if len(hits) % TURN_HITS == 0:
                    await asyncio.sleep(0)  # lines that are here already are read without a wait
        progress: dict[str, object] = json.loads(line)
        self._line = int(str(progress.pop("line")))
        return b"".join(hits), progress

    async def _message(self) -> dict[str, object]:
        message: dict[str, object] = json.loads(await self._answer())
        return message

    async def _answer(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise BadInput("the search ended by itself, perhaps because the expression takes too much memory")
        return line

    def _give(self, data: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        # Never waits: at most two pieces are given that the process has not read.
        self._process.stdin.write(data)


def _asked(request: web.Request) -> dict[str, object]:
    query = request.query.get("q", "")
    if not query or len(query) > QUERY_MAX:
        raise BadInput(f"q= is what to search for: 1 to {QUERY_MAX:,} characters")
    return {
        "q": query,
        "regex": request.query.get("regex") == "1",
        "ignore_case": request.query.get("i") == "1",
        "after": number(request, "after", 0, LINE_MAX),
        "limit": number(request, "limit", HITS_DEFAULT, HITS_MAX),
    }


def _question(asked: dict[str, object], screen: Screen | None) -> bytes:
    state = b"" if screen is None else screen.state()
    return json.dumps({**asked, "state": base64.b64encode(state).decode("ascii")}).encode("ascii") + b"\n"


def _line(content: dict[str, object]) -> bytes:
    return msgspec.json.encode(content) + b"\n"
