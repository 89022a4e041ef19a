"""One search in a log: its process, its time, and the lines of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from grassq import atomic_files
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.logs import search_process
from grassq.web.logs.index import LogBytes, LogChanged, LogIndex
from grassq.web.logs.index_file import IndexPlace
from grassq.web.logs.search_parts import Reply, SearchParts
from grassq.web.responses import error_document

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
_REPLY = b'{"searched"'
_GOES_ON = b'{"goes_on"'


class Question(Struct, frozen=True):
    """What is searched for, and where."""

    q: str
    is_regex: bool
    ignores_case: bool
    #: Forwards from behind this line.
    after: int
    #: Backwards from the line before this one; None for a search forwards.
    before: int | None
    #: How many hits are told, and whether the search ends then.
    limit: int
    stops: bool
    #: How long the search may take; None for as long as it takes.
    within_s: float | None


class SearchRun:
    """A search: enter it, and read its lines."""

    def __init__(self, asked: Question, log: LogBytes | None, path: str | None, index: LogIndex | None) -> None:
        """`path` is the file of the log, if it is on this machine."""
        self._asked = asked
        self._log = log
        self._path = path
        self._index = index
        self._process: asyncio.subprocess.Process | None = None
        self._is_raw = False

    async def __aenter__(self) -> SearchRun:
        """Start the process; raise BadInput if the expression does not compile."""
        file = None if self._path is None else atomic_files.open_read(self._path)
        files = () if file is None else (file,)
        command = [sys.executable, "-I", str(Path(search_process.__file__)), *map(str, files)]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=-1, stdout=-1, stderr=-3, env={}, cwd="/", limit=1 << 20, start_new_session=True,
                pass_fds=files,
            )  # fmt: skip
        finally:
            for each in files:
                os.close(each)
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
        asked = self._asked
        question = {"q": asked.q, "regex": asked.is_regex, "ignore_case": asked.ignores_case}
        self._write({**question, "limit": asked.limit, "stops": asked.stops})
        try:
            answer = json.loads(await asyncio.wait_for(self._answer(), PIECE_S))
        except TimeoutError:
            raise BadInput(f"the expression takes more than {PIECE_S:g} s to compile; use a simpler one") from None
        if "bad" in answer:
            raise BadInput(f"{asked.q!r} is not a regular expression: {answer['bad']}")
        self._is_raw = answer["is_raw"]

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield lines of the answer."""
        if self._log is None:
            yield _line({"total": 0, "searched": 0, "begin": 0, "size": 0, "end": True})
            return
        size = await self._log.size()
        parts = SearchParts(self._log, size, await self._places(self._log), is_raw=self._is_raw, give=self._search)
        try:
            async for lines in self._told(parts):
                yield lines
        except GrassError as error:
            yield _line({"end": True, **error_document(error)})
        except TimeoutError:
            words = (
                f"the expression takes more than {PIECE_S:g} s on one megabyte of the log, behind line {parts.line:,}"
            )
            yield _line({"end": True, **error_document(BadInput(f"{words}; use a simpler one"))})

    async def _told(self, parts: SearchParts) -> AsyncIterator[bytes]:
        """Yield hits while they are found, the progress now and then, and the end."""
        loop, asked = asyncio.get_running_loop(), self._asked
        told_at = begun_at = loop.time()
        ends_at = None if asked.within_s is None else begun_at + asked.within_s
        found = parts.forwards(asked.after) if asked.before is None else parts.backwards(asked.before)
        more: dict[str, object] = {}
        async for hits in found:
            if hits:
                yield hits
            if asked.stops and parts.reply.total >= asked.limit:
                break
            if more := self._pause(parts, is_late=ends_at is not None and loop.time() >= ends_at):
                break
            if loop.time() - told_at >= PROGRESS_S:
                told_at = loop.time()
                yield _line(_progress(parts))
        yield _line(_progress(parts) | more | {"end": True})

    def _pause(self, parts: SearchParts, *, is_late: bool) -> dict[str, object]:
        """Return how to go on, if the search is to pause here and has come any further; else nothing."""
        assert self._log is not None
        asked = self._asked
        on = parts.line - 1 if asked.before is None else parts.line
        if on <= asked.after if asked.before is None else on >= asked.before:
            return {}
        if is_late:
            return {"on": on}
        if not self._log.is_far or parts.given < FAR_BYTES_MAX or parts.reply.searched >= parts.size:
            return {}
        words = f"searched {FAR_BYTES_MAX >> 20} MiB of it, up to line {parts.line:,}; search on with "
        words += f"after={on}" if asked.before is None else f"before={on}"
        return {"on": on, **error_document(Refused(f"the log is on another machine: {words}"))}

    async def _places(self, log: LogBytes) -> list[IndexPlace]:
        """Return the places of the index; none if the log is not the one that was indexed."""
        index = self._index
        if index is None or not index.places.all:
            return []
        places = list(index.places.all)
        try:
            await index.screen_at(log, places[-1])
        except LogChanged:
            return []
        return places

    async def _search(self, part: dict[str, object], data: bytes) -> tuple[bytes, Reply]:
        """Let the process search a part; return the hits, and the reply behind them."""
        loop = asyncio.get_running_loop()
        self._write(part, data)
        hits: list[bytes] = []
        async with asyncio.timeout(PIECE_S) as limit:
            while not (line := await self._answer()).startswith(_REPLY):
                if not line.startswith(_GOES_ON):
                    hits.append(line)
                    if len(hits) % TURN_HITS == 0:
                        await asyncio.sleep(0)  # lines that are here already are read without a wait
                if (restarts_at := loop.time() + PIECE_S) - (limit.when() or 0.0) > RESTART_S:
                    limit.reschedule(restarts_at)
        return b"".join(hits), msgspec.json.decode(line, type=Reply)

    async def _answer(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise BadInput("the search ended by itself, perhaps because the expression takes too much memory")
        return line

    def _write(self, content: dict[str, object], data: bytes = b"") -> None:
        assert self._process is not None and self._process.stdin is not None
        # Never waits: one part is given at a time, and the process reads all of it before it answers.
        self._process.stdin.write(json.dumps(content).encode("ascii") + b"\n" + data)


def _progress(parts: SearchParts) -> dict[str, object]:
    progress = {"total": parts.reply.total, "searched": parts.reply.searched}
    return {**progress, "begin": parts.begin, "size": parts.size}


def _line(content: dict[str, object]) -> bytes:
    return msgspec.json.encode(content) + b"\n"
