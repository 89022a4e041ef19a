"""The user's own socket: one connection carries any requests, in any pieces, until the daemon ends."""

from __future__ import annotations

import asyncio
import json

from tests.web.broker_fixture import BrokerFixture, answer_from, exchange, key, play

from grassq.web.submit.storing import LARGE


async def connect(fixture: BrokerFixture) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(fixture.home / "grass.sock"))
    fixture.writers.append(writer)
    return reader, writer


def submit_request(**more: object) -> bytes:
    """Return the bytes of a request that submits one held job."""
    raw = json.dumps({"jobs": [{"command": ["true"], "hold": True, **more}], "key": key()}).encode()
    return b"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw


def test_one_connection_carries_every_kind_of_request() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        for expected in (1, 2):
            writer.write(submit_request())
            assert (await answer_from(reader)).json["ids"] == [expected]
        assert len((await exchange(reader, writer, "GET", "/v1/show?selector=all")).json["jobs"]) == 2
        writer.write(submit_request() + submit_request())
        assert [(await answer_from(reader)).json["ids"] for _ in range(2)] == [[3], [4]]

    play(test)


def test_a_request_in_pieces_or_with_a_long_body_is_taken_all_the_same() -> None:
    async def test(fixture: BrokerFixture) -> None:
        whole = submit_request()
        for cut in (1, 20, len(whole) - 5):
            reader, writer = await connect(fixture)
            writer.write(whole[:cut])
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(whole[cut:])
            assert (await answer_from(reader)).json["ids"] == [1], "the same key, the same job"
        reader, writer = await connect(fixture)
        writer.write(submit_request(env=[[f"A{number}", "x" * LARGE] for number in range(4)]))
        assert (await answer_from(reader)).json["ids"] == [2]

    play(test)
