"""Lines between worker and broker that double, lose, stall or garble what is said."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientResponse
from msgspec.structs import replace
from tests.link.harness import (
    QUICK,
    Broker,
    FrameLine,
    Line,
    Worker,
    World,
    kind_of,
    numbered,
    play,
    seen_by,
    until,
    world,
)

from grassq.core.messages import Check
from grassq.core.model import State
from grassq.core.syntax.addresses import Address
from grassq.link.connection import WAITING_MAX
from grassq.web.workers.connection import OutOfTouch


def test_doubled_frames_change_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, lambda way, data: [data, data, data]).open(one.stack)
            worker = await one.joined(at=[line.address])
            jobs = [await one.broker.submit() for _ in range(3)]
            await until(lambda: worker.started() == jobs)
            for job in jobs:
                worker.report(job)
            await until(lambda: not one.broker.engine.decider.board.jobs)
            assert worker.started() == jobs
            assert (line.dialled, worker.hellos) == (1, 1)

    play(test)


@asynccontextmanager
async def losing(directory: Path, way: str, kind: str) -> AsyncIterator[tuple[World, FrameLine, Worker, int]]:
    """A worker with a started job, behind a line that loses the first frame of a kind on its way."""
    lost: list[bytes] = []

    def swallow(going: str, data: bytes) -> list[bytes]:
        if going == way and kind_of(data) == kind and not lost:
            lost.append(data)
            return []
        return [data]

    async with world(directory) as one:
        line = await FrameLine(one.broker.address, swallow).open(one.stack)
        worker = await one.joined(at=[line.address])
        job = await one.broker.submit()
        await until(lambda: worker.started() == [job])
        yield one, line, worker, job
        assert len(lost) == 1


def test_a_missing_frame_ends_the_connection_and_the_next_says_all_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with losing(tmp_path, "down", "start") as (_, line, _, _):
            assert line.dialled == 2

    play(test)


def test_a_report_that_got_lost_on_the_way_ends_the_connection_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with losing(tmp_path, "up", "report") as (one, line, worker, job):
            worker.report(job)
            await until(lambda: line.dialled == 2 and worker.link.online)
            worker.report(job)
            await until(lambda: seen_by(one, job) is None)

    play(test)


def test_what_is_no_frame_ends_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        said: list[str] = []

        def spoil(way: str, data: bytes) -> list[bytes]:
            if kind_of(data) == "pong" and not said:
                said.append("x")
                return [msgspec.msgpack.encode([numbered(data), {"type": "no such thing"}])]
            return [data]

        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, spoil).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: line.dialled == 2 and worker.link.online)

    play(test)


def test_who_accepts_and_says_nothing_is_left_for_the_next_address(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, replace(QUICK, greet_s=0.5)) as one:
            mute = one.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            await one.joined(at=[Address("127.0.0.1", mute.getsockname()[1]), one.broker.address])

    play(test)


def test_a_half_open_connection_is_found_by_both_ends_within_three_heartbeats_and_some(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: worker.confirmations)
            line.flows.clear()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await until(lambda: not worker.link.online and not one.broker.online("w"))
            # Four heartbeats of silence are allowed here; the rest is for this machine.
            assert loop.time() - began < QUICK.silence_s + 3.0
            line.flows.set()
            await until(lambda: worker.link.online and one.broker.online("w"))

    play(test)


def test_the_broker_knows_when_a_worker_it_lost_was_last_heard(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            await one.joined(at=[line.address])
            line.flows.clear()
            frozen = asyncio.get_running_loop().time()
            await until(lambda: not one.broker.online("w"))
            heard = one.broker.engine.decider.board.workers["w"].heard
            assert frozen - 1.0 < heard < frozen + 0.3

    play(test)


def test_a_line_of_one_byte_at_a_time_disturbs_nobody_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            crawling = await Line(one.broker.address).open(one.stack)
            crawling.piece, crawling.pause_s = 1, 1.0
            slow = one.worker("slow", at=[crawling.address])
            await until(lambda: crawling.passed > 0)
            quick = await one.joined("quick")
            before = quick.hellos
            jobs = [await one.broker.submit("quick") for _ in range(4)]
            await until(lambda: quick.started() == jobs)
            assert not slow.link.online
            assert quick.hellos == before == 1

    play(test)


def test_a_worker_that_stops_reading_is_given_up_and_the_others_are_served(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            stalled_line = await Line(one.broker.address).open(one.stack)
            await one.joined("stalled", at=[stalled_line.address])
            fine = await one.joined("fine")
            stalled_line.flows.clear()
            link = one.broker.links.get("stalled")
            assert link is not None
            # More than may wait for one worker: the link is closed, not the broker's memory filled.
            for job in range(WAITING_MAX + 2000):
                link.send(Check(job, 1, "boot"))
            await until(lambda: one.broker.links.get("stalled") is None)
            job = await one.broker.submit("fine")
            await until(lambda: fine.started() == [job])

    play(test)


def test_a_report_that_makes_no_sense_ends_the_connection_and_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        nonsense = {"type": "lost", "attempt": 1, "outcome": "eaten", "why": ""}

        def spoil(way: str, data: bytes) -> list[bytes]:
            number, body = msgspec.msgpack.decode(data)
            if body["type"] == "report" and body["event"]["type"] == "exited":
                return [msgspec.msgpack.encode([number, {**body, "event": nonsense}])]
            return [data]

        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, spoil).open(one.stack)
            worker = await one.joined(at=[line.address])
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            worker.report(job)
            await until(lambda: worker.hellos == 2 and worker.link.online)
            assert seen_by(one, job) is State.PLACED

    play(test)


@pytest.mark.parametrize("kind", ["welcome", "pong"])
def test_words_of_a_broker_that_no_header_can_hold_end_that_connection_only(tmp_path: Path, kind: str) -> None:
    async def test() -> None:
        odd: list[str] = []

        def spoil(way: str, data: bytes) -> list[bytes]:
            if way != "down" or kind_of(data) != kind or odd:
                return [data]
            odd.append(kind)
            number, body = msgspec.msgpack.decode(data)
            body["moment"]["life"] = "a\r\nX: y"
            return [msgspec.msgpack.encode([number, body | ({"ticket": "a\r\nX: y"} if kind == "welcome" else {})])]

        async with world(tmp_path, QUICK) as one:
            line = await FrameLine(one.broker.address, spoil).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: odd == [kind] and line.dialled == 2 and worker.link.online)

    play(test)


class _SlowLogs:
    """Logs whose read does not end when it is cancelled first, only when it is cancelled twice."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.is_cancelled = asyncio.Event()

    async def read(self, *_: object) -> tuple[bytes, int]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled.set()
        await asyncio.Event().wait()
        return b"", 0


async def _read_until(begun: asyncio.Event, broker: Broker) -> None:
    """Ask a worker for a log until the read has begun: a connection with short times may be lost on a busy machine."""
    while not begun.is_set():
        with suppress(OutOfTouch):
            await broker.directory.source("w", 1, 1, "log").reader.read(1, 1, "log", 0)
        await asyncio.sleep(0.01)


def test_a_worker_that_is_stopped_while_it_closes_a_connection_leaves_none_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            logs = worker.logs = _SlowLogs()  # type: ignore[assignment]
            reading = asyncio.create_task(_read_until(logs.begun, one.broker))
            await logs.begun.wait()
            # Kept here, so that no finaliser closes the connection before the test looks.
            kept = [each for each in gc.get_objects() if isinstance(each, ClientResponse) and each.connection]
            line.flows.clear()
            await logs.is_cancelled.wait()
            await worker.stop()
            assert [each.connection for each in kept] == [None]
            await asyncio.gather(reading, return_exceptions=True)

    play(test)
