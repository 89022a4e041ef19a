"""Floods of connections without a token: whoever has one is answered, from any address, also from the attacker's."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.web.broker_fixture import BrokerFixture, exchange, is_closed, play

from grassq.web.listen import admission

#: Seconds that bytes take between a distant client and the broker.
HALF_TRIP_S = 0.15

#: Opens connections from one address at a rate, and says nothing on them or begins TLS and stops.
FLOOD = """
import socket, sys, time
port, address, rate, speaks = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4] == "speaks"
# The head of a ClientHello, whose rest never comes.
hello, held, began = bytes.fromhex("16030101fc010001f80303"), [], time.monotonic()
print("begins", flush=True)
for number in range(1_000_000):
    time.sleep(max(0.0, began + number / rate - time.monotonic()))
    opened = socket.socket()
    opened.settimeout(5)
    opened.bind((address, 0))
    try:
        opened.connect(("127.0.0.1", port))
        if speaks:
            opened.sendall(hello)
    except OSError:
        pass
    held.append(opened)
    if len(held) > 800:
        held.pop(0).close()
"""


@contextlib.contextmanager
def flood(port: int, address: str, rate: float, *, speaks: bool) -> Iterator[None]:
    words = [sys.executable, "-c", FLOOD, str(port), address, str(rate), "speaks" if speaks else "silent"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begins\n"
        try:
            yield
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def far_away(port: int, address: str) -> AsyncIterator[int]:
    """A way to the broker from one address that takes HALF_TRIP_S in each direction; its port."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1 << 16)
        await asyncio.sleep(HALF_TRIP_S)
        far = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        far[1].write(first)
        await asyncio.gather(delayed(reader, far[1]), delayed(far[0], writer))

    async def delayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(HALF_TRIP_S)
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize(
    ("attackers", "client", "speaks"),
    [
        (["127.0.0.2", "127.0.0.3"], "127.0.0.4", False),
        (["127.0.0.2", "127.0.0.3"], "127.0.0.4", True),
        (["127.0.0.2"], "127.0.0.2", False),
    ],
    ids=["silent, elsewhere", "half a ClientHello, elsewhere", "silent, at the same address"],
)
def test_a_flood_keeps_nobody_with_a_token_out(attackers: list[str], client: str, speaks: bool) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        with contextlib.ExitStack() as floods:
            for address in attackers:
                floods.enter_context(flood(fixture.port, address, 600 / len(attackers), speaks=speaks))
            await asyncio.sleep(1.5)  # as many connections as the attack can have at a time
            async with far_away(fixture.port, client) as port:
                took = sorted([await asked(fixture, port, token) for _ in range(5)])
        assert took[2] < 8 * HALF_TRIP_S + 0.5, took

    play(test)


async def asked(fixture: BrokerFixture, port: int, token: str) -> float:
    """Seconds from connecting to the answer."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=fixture.client_context())
    fixture.writers.append(writer)
    assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200
    return time.monotonic() - began


def test_a_connection_that_says_nothing_is_closed_after_a_second() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", fixture.port)
        fixture.writers.append(writer)
        assert await is_closed(reader, admission.HELLO_S / 2)

    play(test)


def test_silent_connections_are_bounded_and_cost_another_address_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UNSPOKEN_MAX", 4)
    monkeypatch.setattr(admission, "SILENT_S", 60.0)

    async def test(fixture: BrokerFixture) -> None:
        async def silent(address: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", fixture.port, local_addr=(address, 0))
            fixture.writers.append(writer)
            return reader

        other = await silent("127.0.0.2")
        many = [await silent("127.0.0.3") for _ in range(20)]
        for reader in many[:-3]:
            assert await is_closed(reader)
        assert not await is_closed(other, 0.1) and not await is_closed(many[-1], 0.1)
        assert (await fixture.ask("GET", "/v1/show", token=await fixture.token("read"))).status == 200

    play(test)
