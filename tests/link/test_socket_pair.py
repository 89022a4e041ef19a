"""A worker of the broker's own process whose machine is elsewhere: the frames and checks of any other worker."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from aiohttp import WSMsgType
from msgspec.structs import replace
from tests.builders import a_worker
from tests.link.harness import PATIENT, QUICK, Line, play, until, world

from grassq.core import protocol
from grassq.core.messages import Hello
from grassq.errors import Refused
from grassq.link.socket_pair import socket_pair


def test_frames_cross_between_two_loops_on_two_threads() -> None:
    ours, theirs = socket_pair()
    frames = [bytes([n % 256]) * (n * 1000) for n in range(200)]
    got: list[bytes] = []

    async def read() -> None:
        while (message := await theirs.receive(10.0)).type is WSMsgType.BINARY:
            got.append(message.data)
        await theirs.close()

    async def write() -> None:
        for frame in frames:
            await ours.send_bytes(frame)
        await ours.close()

    reader = threading.Thread(target=lambda: asyncio.run(read()))
    reader.start()
    asyncio.run(write())
    reader.join(20)
    assert got == frames


def test_a_cut_from_another_thread_ends_a_read_at_once() -> None:
    ours, theirs = socket_pair()

    async def read() -> WSMsgType:
        asyncio.get_running_loop().call_later(0.05, lambda: threading.Thread(target=theirs.cut).start())
        kind = (await theirs.receive(30.0)).type
        await theirs.close()
        return kind

    assert asyncio.run(read()) is WSMsgType.CLOSED
    asyncio.run(ours.close())


def test_a_worker_of_this_process_needs_no_ticket_and_is_checked_like_any_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, PATIENT) as one:
            ours, theirs = socket_pair()
            serving = asyncio.create_task(one.broker.links.serve_here("m", theirs))
            hello = Hello(replace(a_worker("liar"), labels=("gpu\x1b[31m",)))
            await ours.send_bytes(protocol.pack((1, hello)))
            await serving
            await ours.close()
            assert not one.broker.online("m"), "no worker of ours has such a label"
            ours, theirs = socket_pair()
            serving = asyncio.create_task(one.broker.links.serve_here("m", theirs))
            await ours.send_bytes(protocol.pack((1, Hello(a_worker("liar")))))
            await until(lambda: one.broker.online("m"))
            assert not one.broker.online("liar"), "the broker decides the name"
            await ours.close()
            await until(lambda: not one.broker.online("m"))
            await serving

    play(test)


def test_a_worker_of_this_process_may_be_silent_longer_while_its_machine_is_asked(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            ours, theirs = socket_pair()
            serving = asyncio.create_task(one.broker.links.serve_here("m", theirs))
            await ours.send_bytes(protocol.pack((1, Hello(a_worker("m")))))
            await until(lambda: one.broker.online("m"))
            line = await Line(one.broker.address).open(one.stack)
            await one.joined(at=[line.address])
            line.flows.clear()
            await until(lambda: not one.broker.online("w"))
            assert one.broker.online("m"), "as silent as the other, and for longer"
            await ours.close()
            await serving

    play(test)


def test_a_name_that_is_connected_is_not_taken_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, PATIENT) as one:
            await one.joined("w")
            ours, theirs = socket_pair()
            with pytest.raises(Refused, match="already connected"):
                await one.broker.links.serve_here("w", theirs)
            await ours.close()

    play(test)
