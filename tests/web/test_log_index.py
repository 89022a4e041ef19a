"""The index of a log: any line is found, as the log grows, over restarts, and whatever happens to log and index."""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path

import pytest

from grassq.core.protocol import LogCut
from grassq.core.term.line import Line
from grassq.core.term.screen import fold
from grassq.web.logs import index as log_index
from grassq.web.logs import index_file
from grassq.web.logs.index import Bound, LogBytes, LogChanged, LogIndex, LogIndexes
from grassq.web.logs.index_file import IndexPlace, IndexPlaces
from grassq.web.logs.tail import Source

PLAIN = b"".join(b"line %d of a log that has some length\n" % at for at in range(1, 30_001))
BARS = b"".join(
    b"epoch %d\n" % epoch + b"".join(b"\r%d/50\n\r inner %d\x1b[A" % (at, at) for at in range(50)) + b"\n\n"
    for epoch in range(700)
)
COLOURS = b"".join(b"\x1b[3%dmline %d\x1b[0m and more\r\n" % (at % 8, at) for at in range(20_000))
LONG = b"x" * 1_500_000 + b"\nshort\n" + b"y" * 700_000 + b"\rz\n" + PLAIN[:600_000]


class Log:
    """A log in memory, read as a worker reads it."""

    def __init__(self, data: bytes, piece: int = 1 << 20) -> None:
        self.data, self.piece, self.read_bytes = data, piece, 0
        #: Begin and end of what was cut out.
        self.hole: tuple[int, int] | None = None

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        found = self.data[offset : offset + self.piece]
        if self.hole is not None and offset < self.hole[1]:
            found = found[: max(0, self.hole[0] - offset)]
        self.read_bytes += len(found)
        return found, len(self.data)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None if self.hole is None else LogCut(self.hole[1], b"\n[cut]\n")

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        raise NotImplementedError


def bytes_of(log: Log) -> LogBytes:
    return LogBytes(Source(log), (1, 1, "log"))


async def whole(index: LogIndex, log: Log) -> None:
    await index.extend(bytes_of(log), lambda index: False, 1 << 60)


async def lines(index: LogIndex, log: Log, first: int, count: int) -> list[Line]:
    place = index.places.before_line(first)
    return await index.lines_from(bytes_of(log), place, first, Bound(count, 1 << 30))


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("data", [PLAIN, BARS, COLOURS, LONG], ids=["plain", "bars", "colours", "long"])
def test_every_line_is_found_from_the_place_before_it(tmp_path: Path, data: bytes) -> None:
    expected = fold(data)

    async def test() -> None:
        log = Log(data)
        index = LogIndex(tmp_path / "1.1.log")
        await whole(index, log)
        assert index.total == len(expected) and len(index.places.all) > len(data) >> 20
        for first in (1, 2, len(expected) // 3, len(expected) // 2, len(expected) - 150, len(expected) - 1):
            log.read_bytes = 0
            first = max(1, first)
            assert await lines(index, log, first, 20) == expected[first - 1 : first + 19]
            assert log.read_bytes < 5 << 20

    asyncio.run(test())


def test_an_index_grows_with_its_log_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(b"")
        index = LogIndex(tmp_path / "1.1.log")
        for size in (1, 700_000, 700_001, 1_000_000):
            log.data = COLOURS[:size]
            await whole(index, log)
            assert index.total == len(fold(log.data))
        log.read_bytes, log.data = 0, COLOURS[:1_050_000]
        other = LogIndex(tmp_path / "1.1.log")
        await whole(other, log)
        assert log.read_bytes < 700_000, "the part in the file is not read again"
        assert (other.total, other.screen.state()) == (len(fold(log.data)), _skimmed(log.data))

    asyncio.run(test())


def _skimmed(data: bytes) -> bytes:
    from grassq.core.term.screen import Screen

    screen = Screen()
    screen.feed(data)
    return screen.state()


@pytest.mark.parametrize("after", [b"", b"new\n" * 10, PLAIN[:500_000] + b"x" * 3_000_000, COLOURS])
def test_a_log_that_was_truncated_or_replaced_is_indexed_again(tmp_path: Path, after: bytes) -> None:
    async def test() -> None:
        log = Log(PLAIN)
        for index in (LogIndex(tmp_path / "1.1.log"), LogIndex(tmp_path / "1.1.log")):
            log.data = PLAIN
            await whole(index, log)
            log.data = after
            await whole(index, log)
            assert index.total == len(fold(after))

    asyncio.run(test())


def test_a_log_that_changes_between_two_requests_is_noticed_where_it_is_read(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(PLAIN)
        index = LogIndex(tmp_path / "1.1.log")
        await whole(index, log)
        log.data = PLAIN.replace(b"has", b"HAS")
        with pytest.raises(LogChanged):
            await lines(index, log, 20_000, 5)

    asyncio.run(test())


def test_a_log_that_is_cut_while_it_grows_has_the_lines_that_are_left(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(PLAIN)
        index = LogIndex(tmp_path / "1.1.log")
        for hole in (None, (400_000, 700_000), (400_000, 900_000), (400_000, 900_000)):
            log.hole = hole
            await whole(index, log)
            left = PLAIN if hole is None else PLAIN[: hole[0]] + b"\n[cut]\n" + PLAIN[hole[1] :]
            expected = [line.text for line in fold(left)]
            assert index.total == len(expected)
            for first in (5, 9_000, 12_000, len(expected) - 5):
                assert [line.text for line in await lines(index, log, first, 3)] == expected[first - 1 : first + 2]

    asyncio.run(test())


@pytest.mark.parametrize("at", [0, 5, 30, 200, -1])
def test_a_damaged_index_is_not_believed(tmp_path: Path, at: int) -> None:
    async def test() -> None:
        path = tmp_path / "1.1.log"
        log = Log(PLAIN)
        await whole(LogIndex(path), log)
        damaged = bytearray(path.read_bytes())
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        index = LogIndex(path)
        await whole(index, log)
        assert index.total == 30_000
        assert (await lines(index, log, 25_000, 1))[0].text.startswith("line 25000 ")

    asyncio.run(test())


def test_two_readers_that_write_one_file_leave_an_index_that_works(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "1.1.log"
        log = Log(PLAIN, piece=300_000)
        await asyncio.gather(whole(LogIndex(path), log), whole(LogIndex(path), log))
        places = index_file.load(path)
        assert [place.offset for place in places] == sorted({place.offset for place in places})
        index = LogIndex(path)
        await whole(index, log)
        assert (await lines(index, log, 22_222, 1))[0].text.startswith("line 22222 ")

    asyncio.run(test())


def test_the_places_of_an_endless_log_are_bounded() -> None:
    places = IndexPlaces()
    for at in range(index_file.PLACES_MAX + 10):
        places.add(IndexPlace(at, at, 0.0, 0, b""))
    assert len(places.all) < index_file.PLACES_MAX and places.step == 512 << 10
    assert (found := places.before_line(1000)) is not None and 998 <= found.line <= 1000


def test_the_indexes_of_removed_jobs_are_deleted_and_not_written_again(tmp_path: Path) -> None:
    async def test() -> None:
        indexes = LogIndexes(tmp_path)
        for job in (1, 2):
            await whole(await indexes.of((job, 1, "log"), is_cut=False), Log(PLAIN))
        assert len(names(tmp_path)) == 2
        # Somebody still reads the log of job 1, although other logs were read after it.
        reading = await indexes.of((1, 1, "log"), is_cut=False)
        for job in range(3, 3 + log_index.KEPT):
            await indexes.of((job, 1, "log"), is_cut=False)
        await indexes.remove([1])
        await whole(reading, Log(PLAIN + PLAIN))
        assert names(tmp_path) == ["2.1.log"]

    asyncio.run(test())


def test_a_state_of_a_screen_that_is_too_large_is_not_unpacked() -> None:
    place = IndexPlace(1, 1, 0.0, 0, zlib.compress(bytes(64 << 20)))
    with pytest.raises(ValueError, match="too large"):
        place.screen()


def test_a_place_behind_a_cut_that_has_moved_is_not_believed(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(PLAIN)
        log.hole = (400_000, 500_000)
        index = LogIndex(tmp_path / "1.1.log")
        await whole(index, log)
        before, behind = index.places.all[0], index.places.all[-1]
        assert before.offset <= 400_000 and behind.offset > 800_000
        log.hole = (400_000, 600_000)
        assert (await index.screen_at(bytes_of(log), before)).offset == before.offset
        with pytest.raises(LogChanged):
            await index.screen_at(bytes_of(log), behind)

    asyncio.run(test())


def test_a_daemon_that_reads_log_after_log_deletes_the_oldest_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = LogIndexes(tmp_path)

    async def test() -> None:
        for job in range(1, 2 * log_index.KEPT + 2):
            await whole(await indexes.of((job, 1, "log"), is_cut=False), Log(PLAIN[:600_000]))
            os.utime(tmp_path / f"{job}.1.log", (job, job))

    monkeypatch.setattr(log_index, "FILES_MAX", 1)
    asyncio.run(test())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{job}.1.log" for job in range(log_index.KEPT + 1, 2 * log_index.KEPT + 2)}
