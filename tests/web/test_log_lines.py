"""Lines of a log and the search in it, while the log is indexed, changes, or has very many hits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.web.broker_fixture import answer_from
from tests.web.subscribed import Rig, with_rig

from grassq.web.logs import lines as lines_module
from grassq.web.logs import search_run as search_module
from grassq.web.logs.index import LogIndexes

PLAIN = b"".join(b"line %d\n" % at for at in range(1, 100_001))
PIECE = b"a line of an endless log\n" * 40_000


async def lines(rig: Rig, job: int, asked: str) -> dict[str, Any]:
    answer = await rig.fixture.ask("GET", f"/v1/jobs/{job}/log/lines?{asked}", local=True)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


async def search(rig: Rig, job: int, asked: str) -> list[dict[str, Any]]:
    reader, writer = await asyncio.open_unix_connection(str(rig.fixture.home / "grass.sock"))
    writer.write(f"GET /v1/jobs/{job}/log/search?{asked} HTTP/1.0\r\nHost: grass\r\n\r\n".encode())
    assert (await answer_from(reader)).status == 200
    async with asyncio.timeout(60):
        body = await reader.read()
    writer.close()
    return [json.loads(line) for line in body.splitlines()]


def test_a_request_waits_no_longer_for_the_index_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "INDEX_WAIT_S", 0.05)

    async def test(rig: Rig) -> None:
        indexes = rig.fixture.directory.indexes = LogIndexes(tmp_path)
        job = await rig.submit()
        rig.logs[job] = PLAIN
        index = await indexes.of((job, 1, "log"), is_cut=False)
        async with index.lock:
            answer = await asyncio.wait_for(lines(rig, job, "line=1"), 20.0)
            assert (answer["lines"], answer["total"], answer["is_whole"]) == ([], None, False)
        assert (await lines(rig, job, "line=1&count=1"))["lines"][0]["spans"] == [["", "line 1"]]

    with_rig(test, monkeypatch)


def test_requests_have_a_turn_while_a_long_log_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BUILD_STEP", 1 << 20, raising=False)

    async def endless(job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        begin = offset % len(PIECE)
        return (PIECE[begin:] if offset < 1 << 40 else b""), 1 << 40

    async def test(rig: Rig) -> None:
        rig.fixture.directory.indexes = LogIndexes(tmp_path)
        monkeypatch.setattr(rig, "read", endless)
        job = await rig.submit()
        assert not (await lines(rig, job, "line=-3"))["is_whole"]
        answer = await asyncio.wait_for(lines(rig, job, "line=2000&count=2"), 20.0)
        assert [line["n"] for line in answer["lines"]] == [2000, 2001]

    with_rig(test, monkeypatch)


def test_a_search_behind_a_line_begins_at_the_start_of_a_log_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(rig: Rig) -> None:
        rig.fixture.directory.indexes = LogIndexes(tmp_path)
        job = await rig.submit()
        rig.logs[job] = PLAIN
        await lines(rig, job, "line=-1")
        assert (await search(rig, job, "q=line+90001&after=90000"))[0]["n"] == 90_001
        rig.logs[job] = b"".join(b"another text, line %d\n" % at for at in range(1, 100_001))
        assert (await search(rig, job, "q=line+90001&after=90000"))[0]["n"] == 90_001

    with_rig(test, monkeypatch)


def test_a_text_with_very_many_hits_is_not_taken_for_a_slow_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "PIECE_S", 1.0)

    async def test(rig: Rig) -> None:
        job = await rig.submit()
        rig.logs[job] = b"x\n" * 150_000
        found = await search(rig, job, "q=x&limit=1000000")
        assert "error" not in found[-1] and found[-1]["total"] == 150_000 == sum("n" in each for each in found)

    with_rig(test, monkeypatch)
