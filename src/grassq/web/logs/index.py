"""The index of a log: any line of a long log without reading what is before it.

Made by the readers of logs, never beside the job. Bytes come through the `LogReader` of the log, so logs of other
machines are indexed too. The counting runs in threads, a piece at a time; one log has one index, and one caller at a
time extends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time
from weakref import WeakSet

from grassq.core.term.line import Line
from grassq.core.term.linear import is_linear, is_plain
from grassq.core.term.screen import WINDOW, Screen
from grassq.web.logs import index_file
from grassq.web.logs.cache import Key
from grassq.web.logs.index_file import SAMPLE, STATE_MAX, IndexPlace, IndexPlaces
from grassq.web.logs.tail import MARK_MAX, OFFSET_MAX, Source

#: Indexes that are in memory; the one that was not used for the longest time is dropped. All are in files.
KEPT = 16
#: Bytes of all index files, checked when every KEPT-th index is opened; the oldest are deleted.
FILES_MAX = 256 << 20
#: Bytes that are counted before others have a turn.
PIECE = 256 << 10
#: Bytes of the log that are read line by line before a line that is wanted, and lines that may be in the window.
NEAR, NEAR_LINES = 16 << 10, 3 * WINDOW
#: The index is written to its file after this many bytes of the log, and at the end.
WRITE_STEP = 256 << 20
#: A state of the screen may take this share of the log: a large one is saved rarely.
STATE_SHARE = 16
#: How often a log is read from its beginning again because its index did not match it.
REBUILDS = 2
_NAME = re.compile(r"(\d{1,15})\.(\d{1,9})\.(log|out|err)(?:\.cut)?")


class LogChanged(Exception):
    """The log is not the one that was indexed: it was truncated or replaced."""


class LogBytes:
    """One log, read by offset wherever it is."""

    def __init__(self, source: Source, key: Key) -> None:
        self._reader = source.reader
        self._key = key
        self.is_far = source.is_far

    async def read(self, offset: int) -> tuple[int, bytes, int]:
        """Return where the next bytes begin, the bytes up to a bound, and the size of the log; no bytes at its end.

        The bytes begin behind the offset where the middle of a log was cut out: there they are the mark of the cut.
        """
        data, size = await self._reader.read(*self._key, offset)
        if data or size <= offset or (cut := await self._reader.cut(*self._key)) is None:
            return offset, data, size
        mark = cut.mark[:MARK_MAX]
        begin = max(offset, cut.end - len(mark))
        if not begin < cut.end <= size:
            return offset, b"", size  # the log has changed since it was read, or its worker says what cannot be
        return begin, mark[begin - cut.end :], size

    async def size(self) -> int:
        """Return the size of the log."""
        return (await self._reader.read(*self._key, OFFSET_MAX))[1]

    async def cut_end(self) -> int:
        """Return up to where the middle of the log was cut out; 0 if nothing was."""
        cut = await self._reader.cut(*self._key)
        return 0 if cut is None else cut.end


class LogIndex:
    """The index of one log. Used from the event loop; one caller at a time, within `lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job = int(match[1]) if (match := _NAME.fullmatch(path.name)) else 0
        self.lock = asyncio.Lock()
        #: Held by the thread that writes the file, and while the index is retired.
        self._file_lock = threading.Lock()
        self._is_retired = False
        self._is_loaded = False
        self._reset()

    def _reset(self) -> None:
        self.places = IndexPlaces()
        #: Counts the lines; everything before `screen.offset` is indexed.
        self.screen = Screen()
        self._tail = b""
        self._unwritten: list[IndexPlace] = []
        self._written_at = 0
        self._thinned = False
        #: No place is remembered before this byte: the state of the screen was too large.
        self._remember_at = 0
        #: From this byte on there was nothing but text.
        self._plain_from = 0
        #: What was cut out of the log when it was indexed.
        self._cut_begin = self._cut_end = 0
        #: The size of the log when it was read last.
        self.size = 0

    @property
    def is_whole(self) -> bool:
        """Whether all bytes that the log had are indexed."""
        return self.screen.offset >= self.size

    @property
    def total(self) -> int:
        """How many lines are known."""
        return self.screen.first - 1 + len(self.screen.lines())

    async def extend(self, log: LogBytes, is_enough: Callable[[LogIndex], bool], most_bytes: int) -> None:
        """Index the log until it is enough, the log ends, or `most_bytes` were read."""
        for _ in range(REBUILDS):
            try:
                await self._load(log)
                await self._extend(log, is_enough, most_bytes)
                return
            except LogChanged:
                await self.forget()
        await self._extend(log, is_enough, most_bytes)

    async def forget(self) -> None:
        """Forget everything about the log, also in the file."""
        self._reset()
        await asyncio.to_thread(self._to_file, index_file.replace, [])

    def retire(self) -> None:
        """Write nothing to the file any more: the job was removed. Called from a thread."""
        with self._file_lock:
            self._is_retired = True

    def _to_file(self, write: Callable[[Path, list[IndexPlace]], None], places: list[IndexPlace]) -> None:
        with self._file_lock:
            if not self._is_retired:
                write(self.path, places)

    async def _load(self, log: LogBytes) -> None:
        """Begin where the file ends, and compare what it says with the log."""
        if not self._is_loaded:
            self._is_loaded = True
            self.places = IndexPlaces(await asyncio.to_thread(index_file.load, self.path))
            await self._go_to_last_place()
        if (cut_end := await log.cut_end()) != self._cut_end:
            # More of the middle was cut out: only what is before the cut is as it was.
            self.places.all = [place for place in self.places.all if place.offset <= self._cut_begin]
            kept, is_known = self.places, self._cut_begin
            await self.forget()
            self.places = kept if is_known else IndexPlaces()
            self._cut_end = cut_end
            await self._go_to_last_place()
        if self.screen.offset:
            self._tail = await self._checked(
                log, self.screen.offset, index_file.sample(self._tail) if self._tail else None
            )

    async def _go_to_last_place(self) -> None:
        while self.places.all:
            try:
                self.screen = await asyncio.to_thread(self.places.all[-1].screen)
            except ValueError:
                self.places.all.pop()
                continue
            self._written_at = self.screen.offset
            self._plain_from = self.places.all[-1].plain_from
            return

    async def _checked(self, log: LogBytes, offset: int, expected: int | None) -> bytes:
        """Return the bytes before an offset; raise LogChanged if they are others than they were."""
        begin = max(0, offset - SAMPLE)
        _, data, self.size = await log.read(begin)
        before = data[: offset - begin]
        if expected is None and self.places.all:
            expected = self.places.all[-1].sample
        if self.size < offset or len(before) < offset - begin or expected != index_file.sample(before):
            raise LogChanged
        return before

    async def _extend(self, log: LogBytes, is_enough: Callable[[LogIndex], bool], most_bytes: int) -> None:
        end = self.screen.offset + most_bytes
        try:
            while not is_enough(self) and self.screen.offset < end:
                begin, data, self.size = await log.read(self.screen.offset)
                if self.size < self.screen.offset:
                    raise LogChanged
                if not data:
                    return
                if begin > self.screen.offset:
                    self._cut_begin, self._cut_end = self.screen.offset, begin + len(data)
                    self.screen.offset = begin
                    self._plain_from = begin + len(data)
                await asyncio.to_thread(self._take, data, time())
                if self.screen.offset - self._written_at >= WRITE_STEP:
                    await self._write()
        finally:
            await self._write()

    def _take(self, data: bytes, seen: float) -> None:
        """Count the lines of a piece of the log, and remember places in it."""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self.screen.skim(piece)
            # The byte before the piece may be the first half of a control character.
            if not is_plain(self._tail[-1:] + piece):
                self._plain_from = self.screen.offset
            self._tail = (self._tail + piece)[-SAMPLE:] if len(piece) < SAMPLE else piece[-SAMPLE:]
            last = self.places.all[-1] if self.places.all else None
            step = max(self.places.step, STATE_SHARE * len(last.state) if last else 0)
            if self.screen.offset - (last.offset if last else 0) >= step and self.screen.offset >= self._remember_at:
                self._remember(data, at + len(piece), seen)

    def _remember(self, data: bytes, at: int, seen: float) -> None:
        offset, state = self.screen.checkpoint()
        if len(state) > STATE_MAX:
            self._remember_at = self.screen.offset + STATE_MAX
            return
        last = self.places.all[-1] if self.places.all else None
        begin = at - (self.screen.offset - offset)
        if begin < SAMPLE or (last is not None and (offset <= last.offset or self.screen.first < last.line)):
            return  # the bytes before this place are not in this piece: the next place will do
        sample = index_file.sample(data[begin - SAMPLE : begin])
        if offset == self.screen.offset:
            # The state has lines that may still change: what follows is not to be read without it.
            self._plain_from = max(self._plain_from, offset + 1)
        place = IndexPlace(offset, self.screen.first, seen, sample, zlib.compress(state, 1), self._plain_from)
        self._thinned |= self.places.add(place)
        self._unwritten.append(place)

    async def _write(self) -> None:
        places, self._unwritten = self._unwritten, []
        self._written_at = self.screen.offset
        # An index that cannot be written is made again by the next daemon.
        with contextlib.suppress(OSError):
            if self._thinned:
                self._thinned = False
                await asyncio.to_thread(self._to_file, index_file.replace, list(self.places.all))
            elif places:
                await asyncio.to_thread(self._to_file, index_file.append, places)

    async def lines_from(self, log: LogBytes, place: IndexPlace | None, first: int, most: Bound) -> list[Line]:
        """Return lines from number `first` on, read from a place on; the bytes must be indexed."""
        screen = Screen() if place is None else await self.screen_at(log, place)
        found: list[Line] = []
        while screen.offset < self.screen.offset and not most.is_reached:
            screen.offset, data, size = await log.read(screen.offset)
            if not data or size < screen.offset:
                raise LogChanged
            data = data[: min(PIECE, self.screen.offset - screen.offset)]
            found += most.taken(await asyncio.to_thread(_lines_near, screen, data, first, most), first)
        if not most.is_reached:
            found += most.taken(screen.lines(), first)
        return found

    async def screen_at(self, log: LogBytes, place: IndexPlace) -> Screen:
        """Return the screen at a place; raise LogChanged if the log up to there is not the one that was indexed."""
        if place.offset > self._cut_begin and await log.cut_end() != self._cut_end:
            raise LogChanged
        await self._checked(log, place.offset, place.sample)
        try:
            return await asyncio.to_thread(place.screen)
        except ValueError:
            raise LogChanged from None


def _lines_near(screen: Screen, data: bytes, first: int, most: Bound) -> list[Line]:
    """Feed bytes to a screen until all wanted lines are final; return lines that became final."""
    found: list[Line] = []
    for at in range(0, len(data), NEAR):
        piece = data[at : at + NEAR]
        # Every line that ends here is far before the first that is wanted: it is enough to count it.
        if screen.first + NEAR_LINES + piece.count(b"\n") < first and screen.is_between and is_linear(piece):
            screen.skim(piece)
        else:
            found += screen.feed(piece)
        if found and most.would_be_reached(found, first):
            break
    return found


class Bound:
    """Counts lines and their characters up to a bound."""

    def __init__(self, lines: int, characters: int, byte: int = -1) -> None:
        """Begin with the line that a byte is in."""
        self._byte = byte
        self._lines = lines
        self._characters = characters
        self.is_reached = lines <= 0

    def would_be_reached(self, lines: list[Line], first: int) -> bool:
        """Tell whether these lines are surely enough."""
        return lines[-1].number - max(first, lines[0].number) >= self._lines and lines[-self._lines].begin > self._byte

    def taken(self, lines: Iterable[Line], first: int) -> list[Line]:
        """Return the lines from number `first` on that are within the bound."""
        found = []
        for line in lines:
            if line.number < first or line.end <= self._byte or self.is_reached:
                continue
            self._byte = -1
            found.append(line)
            self._lines -= 1
            self._characters -= sum(len(span.text) for span in line.spans)
            self.is_reached = self._lines <= 0 or self._characters <= 0
        return found


class LogIndexes:
    """The indexes of the logs that were read lately, and the folder with the files of all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[tuple[Key, bool], LogIndex] = OrderedDict()
        #: All indexes that a request or the background still uses, also those that are not kept any more.
        self._used: WeakSet[LogIndex] = WeakSet()
        self._opened = 0

    async def of(self, key: Key, *, is_cut: bool) -> LogIndex:
        """Return the index of a log; a copy that leaves out the middle of a log has an index of its own."""
        if (key, is_cut) not in self._kept:
            if self._opened % KEPT == 0:
                await asyncio.to_thread(self._bound_files, {each.path for each in self._kept.values()})
            self._opened += 1
        index = self._kept.get((key, is_cut))
        if index is None:
            job, attempt, stream = key
            name = f"{job}.{attempt}.{stream}{'.cut' if is_cut else ''}"
            self._kept[key, is_cut] = index = LogIndex(self._folder / name)
            self._used.add(index)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end((key, is_cut))
        return index

    async def remove(self, jobs: Iterable[int]) -> None:
        """Delete the indexes of these jobs; what still reads their logs writes no file any more."""
        gone = set(jobs)
        for key in [key for key in self._kept if key[0][0] in gone]:
            del self._kept[key]
        await asyncio.to_thread(self._delete, gone, [index for index in self._used if index.job in gone])

    def _delete(self, gone: set[int], indexes: list[LogIndex]) -> None:
        for index in indexes:
            index.retire()
        with contextlib.suppress(OSError):
            for path in list(self._folder.iterdir()):
                if (match := _NAME.fullmatch(path.name)) and int(match[1]) in gone:
                    path.unlink(missing_ok=True)

    def _bound_files(self, used: set[Path]) -> None:
        """Delete the oldest files beyond the bound, but none that is in use."""
        with contextlib.suppress(OSError):
            found = [(path.stat().st_mtime, path.stat().st_size, path) for path in self._folder.iterdir()]
            left = sum(size for _, size, _ in found)
            for _, size, path in sorted(found):
                if left <= FILES_MAX:
                    return
                if path not in used:
                    path.unlink(missing_ok=True)
                    left -= size
