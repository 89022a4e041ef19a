"""The parts of a log in the order of a search, each told to the process of the search.

Where the index says that lines are shown as they were written, the process searches the bytes of the file; elsewhere,
and in a log of another machine, it is given the bytes and folds them. Every part begins at a place of the index, so the
number of a line is known without counting the lines before it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from grassq.errors import Refused
from grassq.web.logs.index import LogBytes
from grassq.web.logs.index_file import IndexPlace
from grassq.web.logs.tail import OFFSET_MAX

#: Bytes of the file in one part: first few, so that a near hit is told soon, then more.
PART_LEAST, PART_MOST = 1 << 20, 32 << 20
#: Above the number of every line.
LINE_MAX = 1 << 50
SHRANK = "the log shrank during the search; search again"


class Reply(Struct, frozen=True):
    """What the process says behind a part."""

    #: The bytes before this one were searched, and the line that begins there.
    searched: int
    line: int
    #: Lines that match so far.
    total: int
    #: The file cannot be searched as bytes from here on.
    stuck: bool = False
    shrank: bool = False


#: Gives a part to the process; returns the hits as lines of JSON, and the reply.
Give = Callable[[dict[str, object], bytes], Awaitable[tuple[bytes, Reply]]]


class SearchParts:
    """The parts of one search. Iterate over `forwards` or `backwards`: hits, after every part."""

    def __init__(self, log: LogBytes, size: int, places: Sequence[IndexPlace], *, is_raw: bool, give: Give) -> None:
        """`is_raw` says whether the process may search the file; `places` are of this log as it is."""
        self._log = log
        self._places = places
        self._is_raw = is_raw
        self._give = give
        self._low, self._high, self._goes_back = 1, LINE_MAX, False
        self._part_bytes = PART_LEAST
        self.size = size
        #: Where the search began.
        self.begin = 0
        #: Forwards, all lines before this one were searched; backwards, this one and all behind it.
        self.line = 1
        self.reply = Reply(0, 1, 0)
        #: Bytes that went to the process.
        self.given = 0

    async def forwards(self, after: int) -> AsyncIterator[bytes]:
        """Search from behind a line to the end of the log."""
        place: IndexPlace | None = self._before_line(after + 1)
        assert place is not None
        self._low, self.begin = after + 1, place.offset
        while place is not None:
            run = self._run_from(place)
            if len(run) > 1:
                hits = await self._search_known(run)
                place = run[-1]
                stuck_at = _clean_place(self.reply) if self.reply.stuck else None
                self.line = place.line if stuck_at is None else stuck_at.line
                yield hits
                if stuck_at is not None:
                    async for hits in self._fold(stuck_at, place):
                        yield hits
                continue
            following = self._next_run(place)
            if self._is_raw and place.is_clean and following is None:
                async for hits in self._search_unknown(place):
                    yield hits
                place = _clean_place(self.reply)
            async for hits in self._fold(place, following):
                yield hits
            place = following

    async def backwards(self, before: int) -> AsyncIterator[bytes]:
        """Search from the line before a line to the first line of the log."""
        place = self._before_line(max(1, before - 1))
        following = self._behind(place)
        self.line, self._goes_back = before, True
        self.begin = self.size if following is None else following.offset
        while True:
            run = [place] if following is None else self._run_to(place, following)
            self._low, self._high = run[0].line, min(before, LINE_MAX if following is None else following.line)
            hits = b""
            is_searched = following is not None and self._is_plain(run[-1], following)
            if following is not None and is_searched:
                hits = await self._search_known([*run, following])
                is_searched = not self.reply.stuck
            if not is_searched:
                # Hits are told with the end of the part.
                hits = b"".join([some async for some in self._fold(run[0], following)])
            self.line = run[0].line
            self.reply = replace(self.reply, searched=run[0].offset)
            yield hits
            if run[0].offset == 0:
                return
            following, place = run[0], self._before(run[0])

    def _before_line(self, line: int) -> IndexPlace:
        at = bisect_right(self._places, line, key=lambda place: place.line)
        return self._places[at - 1] if at else START

    def _before(self, place: IndexPlace) -> IndexPlace:
        at = bisect_left(self._places, place.offset, key=lambda place: place.offset)
        return self._places[at - 1] if at else START

    def _behind(self, place: IndexPlace) -> IndexPlace | None:
        at = bisect_right(self._places, place.offset, key=lambda place: place.offset)
        return self._places[at] if at < len(self._places) else None

    def _run_from(self, place: IndexPlace) -> list[IndexPlace]:
        """Return places from this one on with nothing but plain lines between them, as many as one part may have."""
        run = [place]
        while run[-1].offset - place.offset < self._part_bytes:
            following = self._behind(run[-1])
            if following is None or not self._is_plain(run[-1], following):
                break
            run.append(following)
        return run

    def _run_to(self, place: IndexPlace, end: IndexPlace) -> list[IndexPlace]:
        """Return places up to this one with nothing but plain lines between them and up to `end`."""
        run = [place]
        is_plain = self._is_plain(place, end)
        while is_plain and run[-1].offset and end.offset - run[-1].offset < self._part_bytes:
            before = self._before(run[-1])
            if not self._is_plain(before, run[-1]):
                break
            run.append(before)
        return run[::-1]

    def _next_run(self, place: IndexPlace) -> IndexPlace | None:
        """Return the next place that is followed by plain lines; None if there is none."""
        following = self._behind(place) if self._is_raw else None
        while following is not None:
            behind = self._behind(following)
            if behind is not None and self._is_plain(following, behind):
                return following
            following = behind
        return None

    def _is_plain(self, place: IndexPlace, following: IndexPlace) -> bool:
        """Tell whether the process may search the file between two places that follow each other."""
        return self._is_raw and following.plain_from <= place.offset

    async def _search_known(self, run: list[IndexPlace]) -> bytes:
        """Search the file between the first and the last place."""
        places = [(place.offset, place.line) for place in run[:-1]]
        self._part_bytes = min(2 * self._part_bytes, PART_MOST)
        hits = await self._ask({"places": places, "end": run[-1].offset, "is_whole": True})
        if self.reply.shrank:
            raise Refused(SHRANK)
        return hits

    async def _search_unknown(self, place: IndexPlace) -> AsyncIterator[bytes]:
        """Search the file behind the index as long as lines are plain; the reply says where that ends."""
        begin, line = place.offset, place.line
        self.reply = Reply(begin, line, self.reply.total)
        while begin < self.size and not self.reply.stuck:
            end = min(self.size, begin + self._part_bytes)
            self._part_bytes = min(2 * self._part_bytes, PART_MOST)
            hits = await self._ask({"begin": begin, "line": line, "end": end, "is_whole": True})
            begin, line = self.reply.searched, self.reply.line
            self.line = line
            yield hits

    async def _fold(self, place: IndexPlace, until: IndexPlace | None) -> AsyncIterator[bytes]:
        """Give the bytes between two places, or up to the end of the log, to the process, which folds them."""
        stop = OFFSET_MAX if until is None else until.offset
        first = {"state": await asyncio.to_thread(_state_of, place), "number": place.line}
        reading = asyncio.ensure_future(self._log.read(place.offset))
        offset = place.offset
        try:
            while True:
                begin, data, self.size = await reading
                if self.size < offset:
                    raise Refused(SHRANK)
                data = data[: stop - begin]
                offset = begin + len(data)
                is_end = not data or offset >= stop
                if not is_end:
                    # The next piece is read while this one is searched.
                    reading = asyncio.ensure_future(self._log.read(offset))
                part: dict[str, object] = {"begin": begin, "size": len(data), "is_whole": is_end}
                # Lines that can still change at the end of the part belong to the next one, which `high` leaves out.
                part["finish"] = is_end
                self.given += len(data)
                hits = await self._ask(part | first, data)
                first = {}
                if not self._goes_back:
                    self.line = self.reply.line
                yield hits
                if is_end:
                    return
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, Refused, OSError):
                await reading

    async def _ask(self, part: dict[str, object], data: bytes = b"") -> bytes:
        bounds = {"low": self._low, "high": self._high, "goes_back": self._goes_back}
        hits, self.reply = await self._give(bounds | part, data)
        return hits


START = IndexPlace(0, 1, 0.0, 0, b"", 0)


def _clean_place(reply: Reply) -> IndexPlace:
    """Return a place at which a line begins that nothing before it changes."""
    return IndexPlace(reply.searched, reply.line, 0.0, 0, b"", reply.searched)


def _state_of(place: IndexPlace) -> str:
    """Return the state of the screen at a place; empty where a line begins and nothing else is to be known."""
    try:
        return base64.b64encode(place.screen().state()).decode("ascii") if place.state else ""
    except ValueError:
        raise Refused(
            "the index of the log is damaged; delete the folder log-index of the home, and search again"
        ) from None
