"""Following logs over a real connection: silence costs next to nothing, and a line is pushed, not polled."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.link.harness import PATIENT, FrameLine, Worker, World, kind_of, play, until, world

from grassq.core import protocol
from grassq.errors import Refused
from grassq.web.logs import tail as tails
from grassq.web.logs.tail import LogTail
from grassq.worker import local_logs

SILENT = 100


@contextlib.asynccontextmanager
async def counted(folder: Path) -> AsyncIterator[tuple[World, Worker, Counter[str]]]:
    """A worker behind a line that counts frames."""
    frames: Counter[str] = Counter()

    def count(way: str, data: bytes) -> list[bytes]:
        frames[kind_of(data)] += 1
        return [data]

    async with world(folder, PATIENT) as one:
        line = await FrameLine(one.broker.address, count).open(one.stack)
        yield one, await one.joined(at=[line.address]), frames


def follow(one: World, job: int, into: list[bytes]) -> tuple[LogTail, asyncio.Task[None]]:
    tail = LogTail(one.broker.directory, "w", job, 1, "log")

    async def read() -> None:
        async for part in tail:
            into.append(part.data)

    return tail, asyncio.create_task(read())


async def asked(worker: Worker, count: int) -> None:
    await until(lambda: len(worker.logs._waiting) == count)


def test_following_silent_logs_asks_once_in_a_long_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the real LONG_POLL_S of 10 s that is 20 frames a second for 100 logs: a question and an answer each."""
    rounds, poll_s = 3, 1.0
    monkeypatch.setattr(tails, "LONG_POLL_S", poll_s)

    async def test() -> None:
        async with counted(tmp_path) as (one, worker, frames):
            following = [follow(one, job, []) for job in range(1, SILENT + 1)]
            await asked(worker, SILENT)
            frames.clear()
            began = asyncio.get_running_loop().time()
            await until(lambda: frames["answer"] >= SILENT * (rounds - 1))
            took_s = asyncio.get_running_loop().time() - began
            per_interval = SILENT * (took_s / poll_s + 1)
            assert frames["ask"] <= per_interval and frames["answer"] <= per_interval
            assert 2 * SILENT / protocol.LONG_POLL_S < 25
            for tail, _ in following:
                tail.end()
            await asyncio.gather(*(task for _, task in following))

    play(test)


def test_a_line_is_pushed_long_before_the_poll_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with counted(tmp_path) as (one, worker, frames):
            got: list[bytes] = []
            tail, task = follow(one, 1, got)
            await asked(worker, 1)
            frames.clear()
            for number in range(3):
                worker.write_log(1, b"line\n" * (number + 1))
                async with asyncio.timeout(protocol.LONG_POLL_S / 2):
                    await until(lambda: b"".join(got) == b"line\n" * (number + 1))  # noqa: B023
            assert frames["ask"] <= 4
            tail.end()
            await task

    play(test)


def test_a_log_that_shrinks_is_told_and_read_from_its_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with counted(tmp_path) as (one, worker, _):
            got: list[bytes] = []
            worker.write_log(1, b"before")
            tail, task = follow(one, 1, got)
            await until(lambda: got == [b"before"])
            worker.write_log(1, b"new")
            await until(lambda: got == [b"before", b"", b"new"])
            tail.end()
            await task

    play(test)


def test_after_the_end_of_an_attempt_nobody_waits_for_its_log(tmp_path: Path) -> None:
    async def test() -> None:
        async with counted(tmp_path) as (one, worker, frames):
            got: list[bytes] = []
            tail, task = follow(one, 1, got)
            await asked(worker, 1)
            worker.write_log(2, b"other")
            tail.end()
            await task
            await asked(worker, 0)
            assert frames["cancel_ask"] == 1

    play(test)


def test_logs_beyond_those_a_worker_waits_for_are_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_logs, "LONG_POLLS_MAX", 1)
    monkeypatch.setattr(tails, "RETRY_S", 0.05)

    async def test() -> None:
        async with counted(tmp_path) as (one, worker, _):
            first: list[bytes] = []
            second: list[bytes] = []
            follow(one, 1, first)
            await asked(worker, 1)
            follow(one, 2, second)
            with pytest.raises(Refused):
                await worker.logs.read(3, 1, "log", 0, 1.0)
            worker.write_log(2, b"seen")
            await until(lambda: second == [b"seen"])

    play(test)
