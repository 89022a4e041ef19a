"""GET /v1/live: the log that a page shows, and what the logs say of the jobs in a table."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.web.broker_fixture import until
from tests.web.live_page import Page, page
from tests.web.subscribed import Rig, with_rig

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Report
from grassq.core.model import Outcome
from grassq.core.states import Exited, Started
from grassq.web.live import log_view, looks
from grassq.web.logs.index import LogIndexes
from grassq.web.logs.tail import Source

ALL: dict[str, Any] = {"totals": True, "devices": True, "queues": True, "workers": True}


async def log_page(rig: Rig, job: int, seen: Page, **more: Any) -> None:
    await seen.sub(log={"job": job, **more})
    await seen.until(lambda: seen.log.get("job") == job)


def test_a_log_is_followed_over_a_retry_to_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        job = await rig.submit(tries=2)
        logs: dict[int, bytes] = {1: b"one\ntwo 10%", 2: b""}

        async def read(job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
            if wait_s:
                await until(lambda: len(logs[attempt]) != offset)
            return logs[attempt][offset : offset + 5], len(logs[attempt])

        monkeypatch.setattr(rig, "read", read)
        async with page(rig.fixture) as seen, page(rig.fixture) as few:
            await log_page(rig, job, seen)
            await log_page(rig, job, few, lines=1)
            assert seen.text == ["one", "two 10%"] and few.text == ["two 10%"]
            logs[1] += b"\rtwo 20%\x1b[31m\nred"
            await seen.until(lambda: seen.text == ["one", "two 20%", "red"])
            assert (seen.lines[1]["updates"], seen.lines[2]["n"]) == (1, 3)
            assert not seen.log["is_new"] and seen.log["first"] == 4
            await few.until(lambda: few.text[-1:] == ["red"])
            rig.fixture.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 1))))
            await seen.until(lambda: seen.log["is_final"])
            rig.fixture.clock.now += 3600
            logs[2] = b"again\n"
            await rig.fixture.engine.read(lambda batch: None)
            rig.fixture.engine.post(FromWorker("w", Report(job, Started(2, 77))))
            await seen.until(lambda: seen.log["attempt"] == 2 and seen.text == ["again"])
            await seen.sub(log={"job": job, "attempt": 1, "lines": 2})
            await seen.until(lambda: seen.log["attempt"] == 1)
            assert seen.text == ["two 20%", "red"] and seen.log["is_final"]
            await seen.sub(log={"job": job, "stream": "err"})
            await seen.until(lambda: seen.log["error"] is not None)
            assert "no stream 'err'" in seen.log["error"]
            await seen.sub(log={"job": 12345})
            await seen.until(lambda: seen.log["job"] == 12345 and seen.log["error"] is not None)
            assert len(rig.fixture.api.live.hub._logs) == 2, "a log that no page shows is not followed"

    with_rig(test, monkeypatch)


def test_a_log_is_read_where_it_is_now_and_a_worker_that_answers_at_once_is_not_asked_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        job, log = await rig.submit(), b"begin\nmiddle\nend\n"
        asked: list[float] = []

        class Copy(Rig):
            """A copy without the middle; it does not wait."""

            def __init__(self) -> None:
                self.logs, self.reads = {job: b"begin\nend\n"}, []

            async def read(
                self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0
            ) -> tuple[bytes, int]:
                asked.append(wait_s)
                return await super().read(job, attempt, stream, offset)

        source = Source(Copy(), cut_at=6)
        monkeypatch.setattr(rig.fixture.directory, "source", lambda *_: source)
        async with page(rig.fixture, log={"job": job}) as seen:
            await seen.until(lambda: seen.text == ["begin", "end"])
            began = time.monotonic()
            await until(lambda: len(asked) > 20)
            assert len(asked) < 20 + 40 * (time.monotonic() - began)
            rig.logs[job], source = log, Source(rig)
            await seen.until(lambda: seen.text == ["begin", "middle", "end"])
            rig.logs[job] += b"more\n"
            await seen.until(lambda: seen.text[-1] == "more")

    with_rig(test, monkeypatch)


def test_a_log_that_grows_too_fast_is_skipped_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_view, "READ_MAX", 64 << 10)

    async def test(rig: Rig) -> None:
        job = await rig.submit()
        rig.logs[job] = b"begin\n"
        async with page(rig.fixture, log={"job": job, "lines": 500}) as seen:
            await seen.until(lambda: seen.text == ["begin"])
            rig.logs[job] += b"".join(b"line %d\n" % at for at in range(200_000)) + b"the end"
            await seen.until(lambda: seen.text[-1:] == ["the end"])
            assert len(seen.text) == 500 and seen.text[-2] == "line 199999"
            assert seen.lines[-1]["n"] is None and seen.log["total"] is None
            rig.logs[job] += b"\nmore"
            await rig.end(job)
            await seen.until(lambda: bool(seen.log["is_final"]))
            assert seen.text[-2:] == ["the end", "more"]
            rig.logs[job] = b"anew\n"
        async with page(rig.fixture, log={"job": job}) as later:
            await later.until(lambda: later.text == ["anew"])

    with_rig(test, monkeypatch)


def test_the_end_of_a_long_log_has_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_view, "INDEX_WAIT_S", 0.1)

    async def test(rig: Rig) -> None:
        indexes = rig.fixture.directory.indexes = LogIndexes(tmp_path)
        job = await rig.submit()
        rig.logs[job] = b"".join(b"\x1b[32mline %d\x1b[0m of a long log\n" % at for at in range(1, 200_001))
        index = await indexes.of((job, 1, "log"), is_cut=False)
        async with page(rig.fixture) as seen, index.lock:
            await log_page(rig, job, seen)
            assert seen.text[-1] == "line 200000 of a long log" and seen.lines[-1]["n"] is None, "no wait for others"
            assert seen.lines[-1]["spans"] == [["fg2", "line 200000"], ["", " of a long log"]]
        async with page(rig.fixture) as seen:
            await log_page(rig, job, seen)
            assert (seen.lines[-1]["n"], seen.log["total"], len(seen.lines)) == (200_000, 200_000, 200)
            rig.logs[job] += b"the end"
            await seen.until(lambda: seen.text[-1] == "the end")
            assert (seen.lines[-1]["n"], len(seen.log["lines"])) == (200_001, 1), "only what is new is sent"

    with_rig(test, monkeypatch)


def test_jobs_are_told_with_what_their_logs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOK_S", 0.1)

    async def test(rig: Rig) -> None:
        job = await rig.submit()
        rig.logs[job] = b"hello\n 42%|####      | 42/100 [00:10<00:14,  4.20it/s]"
        async with page(rig.fixture, jobs=[job], look=True) as seen, page(rig.fixture, jobs=[job]) as plain:
            await seen.until(lambda: (seen.jobs.get(job, {}).get("progress") or {}).get("fraction") == 0.42)
            rig.logs[job] += b"\r 43%|####      | 43/100 [00:10<00:14,  4.20it/s]"
            await seen.until(lambda: seen.jobs[job]["progress"]["fraction"] == 0.43)
            rig.logs[job] += b"\nTraceback (most recent call last):\nMemoryError\n"
            rig.fixture.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 1))))
            await seen.until(lambda: "cause" in seen.jobs[job])
            assert seen.jobs[job]["last_line"] == "MemoryError" and "progress" not in seen.jobs[job]
            await plain.until(lambda: plain.jobs.get(job, {}).get("state") == "failed")
            reads = len(rig.reads)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(seen.hear(), 0.4)
            assert len(rig.reads) == reads, "the log of a job that has ended is not looked at again"

    with_rig(test, monkeypatch)
