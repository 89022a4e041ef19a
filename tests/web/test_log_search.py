"""The search in a log finds the lines that a reader would find, from any line, in either direction."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from grassq.core.protocol import LogCut
from grassq.core.term.screen import fold
from grassq.errors import Refused
from grassq.web.logs import search_parts
from grassq.web.logs.index import LogBytes, LogIndex
from grassq.web.logs.search_run import Question, SearchRun
from grassq.web.logs.tail import OFFSET_MAX, Source

KEY = (1, 1, "log")


class FileReader:
    """Reads one file as the log of every job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        data = self.path.read_bytes()
        return data[offset : offset + (1 << 20)], len(data)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        return 0


class Log:
    """A log with an index."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self.path = folder / "log"
        self.path.write_bytes(data)
        self.source = Source(FileReader(self.path), path=str(self.path))
        self.bytes = LogBytes(self.source, KEY)
        self.index = LogIndex(folder / "1.1.log")

    async def build(self, most: int = OFFSET_MAX) -> None:
        await self.index.extend(self.bytes, lambda index: False, most)

    async def search(self, q: str, **more: Any) -> list[dict[str, Any]]:
        """The lines of the answer."""
        asked: dict[str, Any] = {"is_regex": False, "ignores_case": False, "after": 0, "before": None}
        asked |= {"limit": 1_000_000, "stops": False, "within_s": None} | more
        found = b""
        async with SearchRun(Question(q, **asked), self.bytes, str(self.path), self.index) as run:
            async for lines in run.lines():
                found += lines
        return [json.loads(line) for line in found.splitlines()]


def play(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))


def numbers(answer: list[dict[str, Any]]) -> list[int]:
    assert answer[-1]["end"] and "error" not in answer[-1], answer[-1]
    return [each["n"] for each in answer if "n" in each]


def some_lines(dice: random.Random, kind: str, count: int) -> bytes:
    """Lines of one kind; the words in them are searched for."""
    word = dice.choice
    lines: list[str] = []
    for at in range(count):
        text = f"step {at} {word(('Loss', 'loss', 'ERROR', 'ok', 'ok', 'ok'))} {dice.randrange(10_000)} of a usual run"
        match kind:
            case "returns":
                text += "\r"
            case "letters":
                text += word((" größer Ähre", " naïve", " \u017ftep", " \u212aelvin", " \u202ehidden", " 日本"))
            case "colours":
                text = text.replace("step", "s\x1b[31mte\x1b[0mp").replace("ERROR", "\x1b[1mERR\x1b[mOR")
            case "bars":
                text = "".join(f"\repoch {percent}% ERR" for percent in range(0, 100, 25)) + f"\rEPO{at}"
            case "nested":
                text = f"outer {at}\ninner {at} lo\x1b[1A\rOUTER ok\x1b[1Bss"
            case "bytes":
                text = text.replace("o", word(("o\x07", "o", "\x00o")))
            case "long":
                text += "y" * word((10, 9_940, 12_000)) + " ERROR" + "\t" * word((0, 3, 1300)) + " loss"
        lines.append(text + "\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def a_log(seed: int) -> bytes:
    dice = random.Random(seed)
    kinds = ["plain"] * 2 + ["returns", "letters", "letters", "colours", "bars", "nested", "bytes", "long"]
    dice.shuffle(kinds)
    parts = [some_lines(dice, "bars", 9), some_lines(dice, "plain", 18_000)]
    for kind in kinds:
        size = {"plain": 7_000, "long": 30, "bars": 300}.get(kind, 900)
        parts.append(some_lines(dice, kind, dice.randrange(size // 3, size)))
    return b"".join(parts) + b"the last line has no end, loss"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_search_finds_exactly_the_lines_that_are_shown_with_the_text(tmp_path: Path, seed: int) -> None:
    data = a_log(seed)
    shown = fold(data)
    dice = random.Random(seed)
    questions = [("ERROR", False), ("loss", True), ("STEP 17", True), ("größer", False), ("kelvin", True)]
    questions += [("2 75% ERR", False), ("OUTER ok", False), ("\\u202e", False), ("ss", True), ("yy ERROR", False)]

    async def test() -> None:
        log = Log(tmp_path, data)
        # A part of the log is not indexed.
        await log.build(dice.randrange(len(data) // 2, len(data)))
        assert any(place.plain_from < place.offset for place in log.index.places.all), "some of the log is plain"
        for at, (text, ignores_case) in enumerate(questions[seed % 2 :: 2]):
            match = re.compile(re.escape(text), re.IGNORECASE if ignores_case else 0).search
            wanted = [line.number for line in shown if match(line.text)]
            assert wanted, text
            here = dice.randrange(1, len(shown))
            answer = await log.search(text, ignores_case=ignores_case, after=here)
            assert numbers(answer) == [number for number in wanted if number > here], text
            assert answer[-1]["total"] == len(answer) - sum("n" not in each for each in answer)
            by_number = {line.number: line.text for line in shown}
            for hit in answer[:-1]:
                if "n" in hit and "left_out" not in hit:
                    assert hit["text"] == by_number[hit["n"]]
                    assert match(hit["text"][hit["at"][0] : hit["at"][1]])
            if at == 2:
                await log.build()
            back = numbers(await log.search(text, ignores_case=ignores_case, before=here + 1))
            assert back == [number for number in reversed(wanted) if number <= here], text

    play(test)


def test_a_search_stops_with_its_hits_and_pauses_where_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_parts, "PART_MOST", 1 << 20)
    data = b"".join(b"line %d of many%s\n" % (at, b", needle" if at % 40_000 == 0 else b"") for at in range(1, 200_001))

    async def test() -> None:
        log = Log(tmp_path, data)
        await log.build()
        near = await log.search("NEEDLE", ignores_case=True, after=50_000, limit=1, stops=True)
        assert (numbers(near), near[-1]["total"]) == ([80_000], 1)
        assert numbers(await log.search("needle", before=80_000, limit=1, stops=True)) == [40_000]
        assert numbers(await log.search("needle", before=40_000)) == []
        for way in ("after", "before"):
            found, on, rounds = [], 0 if way == "after" else 200_001, 0
            while True:
                answer = await log.search("needle", within_s=0.0, **{way: on})
                found += numbers(answer)
                rounds += 1
                if "on" not in answer[-1]:
                    break
                on = answer[-1]["on"]
            assert sorted(found) == [40_000, 80_000, 120_000, 160_000, 200_000] and rounds > 2

    play(test)


def test_a_log_that_shrinks_or_is_another_one_is_not_searched_by_its_old_index(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(tmp_path, b"".join(b"line %d\n" % at for at in range(1, 200_001)))
        await log.build()
        log.path.write_bytes(b"".join(b"another text, line %d\n" % at for at in range(1, 200_001)))
        assert numbers(await log.search("line 190001", after=190_000)) == [190_001]
        log.path.write_bytes(b"short, line 190001\n")
        assert numbers(await log.search("line 190001")) == [1]

    play(test)


def test_a_damaged_state_of_the_index_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        log = Log(tmp_path, a_log(3))
        await log.build()
        places = log.index.places.all
        bent = next(at for at, place in enumerate(places) if not place.is_clean)
        from msgspec.structs import replace

        places[bent] = replace(places[bent], state=b"broken")
        answer = await log.search("loss", after=places[bent].line)
        assert "index of the log is damaged" in answer[-1]["error"]["message"]
        assert Refused("").exit_code == answer[-1]["error"]["exit"]

    play(test)
