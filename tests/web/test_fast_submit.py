"""The short way in: submissions of our own clients on the user's socket, and everything else handed on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.web.broker_fixture import BrokerFixture, answer_from, exchange, is_closed, key, play

from grassq import __version__
from grassq.errors import BadInput, Gone
from grassq.net.http import Connection
from grassq.web.access.principal import OWNER, Principal
from grassq.web.listen import fast_submit
from grassq.web.responses import Reply

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(fixture: BrokerFixture) -> Streams:
    reader, writer = await asyncio.open_unix_connection(str(fixture.home / "grass.sock"))
    fixture.writers.append(writer)
    return reader, writer


def request(path: str, body: object, keep: str = "keep-alive") -> bytes:
    """As net/http.py writes it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: grass", f"Connection: {keep}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(raw)}"]).encode() + b"\r\n\r\n" + raw


def a_job(**more: object) -> dict[str, object]:
    return {"jobs": [{"command": ["true"], "hold": True, **more}], "key": key()}


def test_our_client_spells_requests_so_that_they_come_by_the_short_way() -> None:
    """Were it to change its spelling, nothing would break but the time a submit takes."""
    met: list[tuple[bytes, Principal]] = []

    async def probe(body: bytes, caller: Principal) -> Reply:
        met.append((body, caller))
        return Reply(b"{}")

    async def test(fixture: BrokerFixture) -> None:
        def ask() -> None:
            connection = Connection(str(fixture.home))
            for _ in range(2):
                answer = connection.request("POST", "/v1/probe", b"{}", keep=True)
                assert (answer.status, answer.body) == (200, b"{}")
                assert answer.headers["grass-version"] == __version__
                assert connection.reusable
            assert connection.request("POST", "/v1/probe", b"{}").headers["connection"] == "close"
            connection.close()

        await asyncio.to_thread(ask)
        assert met == [(b"{}", OWNER)] * 3

    play(test, {b"/v1/probe": probe})


@pytest.mark.parametrize("path", ["/v1/submit", "/v1/submit-many", "/v1/enqueue"])
def test_the_short_way_and_the_web_server_answer_alike(path: str) -> None:
    bodies: dict[str, Callable[[], dict[str, object]]] = {
        "/v1/submit": a_job,
        "/v1/submit-many": lambda: {"job": {"hold": True}, "commands": ["true"], "key": key()},
        "/v1/enqueue": lambda: {"words": ["--hold", "--", "true"], "key": key(), "env": [["PATH", "/bin"]]},
    }

    async def test(fixture: BrokerFixture) -> None:
        for body in (bodies[path](), {"key": "x"}, {**bodies[path](), "strange": 1}):
            reader, writer = await connect(fixture)
            writer.write(request(path, body))
            short = await answer_from(reader)
            long = await fixture.ask("POST", path, body, local=True)
            assert (short.status, short.body) == (long.status, long.body)
            for name in ("content-type", "grass-version", "grass-exit", "grass-stdout", "grass-error"):
                assert short.headers.get(name) == long.headers.get(name), name

    play(test)


def test_one_connection_goes_from_submissions_to_anything_else() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        for expected in (1, 2):
            writer.write(request("/v1/submit", a_job()))
            assert (await answer_from(reader)).json["ids"] == [expected]
        assert len((await exchange(reader, writer, "GET", "/v1/show?selector=all")).json["jobs"]) == 2
        writer.write(request("/v1/submit", a_job()))
        assert (await answer_from(reader)).json["ids"] == [3]

    play(test)


def test_a_request_in_pieces_or_with_a_long_body_is_taken_all_the_same() -> None:
    async def test(fixture: BrokerFixture) -> None:
        whole = request("/v1/submit", a_job())
        for cut in (1, 20, len(whole) - 5):
            reader, writer = await connect(fixture)
            writer.write(whole[:cut])
            await asyncio.sleep(0.05)
            writer.write(whole[cut:])
            assert (await answer_from(reader)).json["ids"] == [1], "the same key, the same job"
        reader, writer = await connect(fixture)
        writer.write(request("/v1/submit", a_job(env=[["A", "x" * (2 * fast_submit.BODY_MAX)]])))
        assert (await answer_from(reader)).json["ids"] == [2]

    play(test)


@pytest.mark.parametrize("keep", ["keep-alive", "close"])
def test_a_connection_stays_or_ends_as_it_was_asked(keep: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        writer.write(request("/v1/submit", a_job(), keep))
        answer = await answer_from(reader)
        assert answer.headers["connection"] == keep
        assert await is_closed(reader, 0.2) == (keep == "close")

    play(test)


def _raising(error: BaseException) -> Callable[[bytes, Principal], Awaitable[Reply]]:
    async def handler(body: bytes, caller: Principal) -> Reply:
        raise error

    return handler


def test_a_refusal_is_told_and_an_ended_daemon_cuts_off() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        writer.write(request("/v1/wrong", b"{}"))
        answer = await answer_from(reader)
        assert (answer.status, answer.words, answer.json["error"]["exit"]) == (400, "not so", 2)
        writer.write(request("/v1/wrong", b"{}"))
        assert (await answer_from(reader)).status == 400, "the connection is still good"
        for path in ("/v1/gone", "/v1/bug"):
            reader, writer = await connect(fixture)
            writer.write(request(path, b"{}"))
            assert await is_closed(reader, 5.0), "then the client asks again"

    play(
        test,
        {
            b"/v1/wrong": _raising(BadInput("not so")),
            b"/v1/gone": _raising(Gone("bye")),
            b"/v1/bug": _raising(KeyError()),
        },
    )


def test_a_second_request_before_the_first_answer_ends_the_connection() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        writer.write(request("/v1/slow", b"{}"))
        await asyncio.wait_for(begun.wait(), 5)
        writer.write(request("/v1/slow", b"{}"))
        assert await is_closed(reader, 5.0)

    async def slow(body: bytes, caller: Principal) -> Reply:
        begun.set()
        await asyncio.sleep(0.3)
        return Reply(b"{}")

    begun = asyncio.Event()
    play(test, {b"/v1/slow": slow})


def test_who_sends_no_more_is_still_answered() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        writer.write(request("/v1/submit", a_job()))
        writer.write_eof()
        assert (await answer_from(reader)).json["ids"] == [1]
        assert await is_closed(reader, 5.0)

    play(test)


def test_two_requests_sent_as_one_are_both_answered() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await connect(fixture)
        writer.write(request("/v1/submit", a_job()) + request("/v1/submit", a_job()))
        assert [(await answer_from(reader)).json["ids"] for _ in range(2)] == [[1], [2]]

    play(test)


def test_what_is_under_way_when_the_daemon_ends_is_answered(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(body: bytes, caller: Principal) -> Reply:
        begun.set()
        await asyncio.sleep(0.2)
        return Reply(b'{"late": true}')

    async def test() -> None:
        fixture = BrokerFixture(tmp_path)
        fixture.by_hatch[b"/v1/slow"] = slow
        async with fixture.open():
            reader, writer = await asyncio.open_unix_connection(str(fixture.home / "grass.sock"))
            writer.write(request("/v1/slow", b"{}"))
            await asyncio.wait_for(begun.wait(), 5)
        assert (await answer_from(reader)).json == {"late": True}
        assert await is_closed(reader, 5.0)
        writer.close()

    asyncio.run(test())
