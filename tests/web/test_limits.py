"""Requests that are odd on purpose: each gets a sentence, and costs others nothing."""

from __future__ import annotations

import asyncio

import pytest
from tests.web.broker_fixture import BrokerFixture, answer_from, key, play

from grassq.broker import tokens
from grassq.core.messages import LeftFolder
from grassq.web.access import bodies


@pytest.mark.parametrize("path", ["/v1/jobs/1/log?offset=", "/v1/jobs/1/log?attempt=", "/v1/audit?last="])
@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000])
def test_a_number_of_thousands_of_digits_is_refused_in_words(path: str, digits: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        made = await fixture.ask(
            "POST", "/v1/submit", {"jobs": [{"command": ["true"], "hold": True}], "key": key()}, local=True
        )
        assert made.json["ids"] == [1]
        answer = await fixture.ask("GET", path + digits, token=await fixture.token("admin"))
        assert answer.status == 400
        assert "is not a number from 0 to" in answer.words

    play(test)


async def half_sent(fixture: BrokerFixture, token: str | None, path: str, size: int) -> asyncio.StreamReader:
    """Begin a large request, send some bytes of its body and then nothing."""
    reader, writer = await fixture.connect()
    shown = "" if token is None else f"Authorization: Bearer {token}\r\n"
    length = "Transfer-Encoding: chunked" if token is None else "Content-Length: 3000000"
    writer.write(f"POST {path} HTTP/1.1\r\nHost: grass\r\n{shown}{length}\r\n\r\n".encode())
    writer.write(b"1\r\n{\r\n" if token is None else b"{" * size)
    await writer.drain()
    return reader


@pytest.mark.parametrize("size", [0, bodies.LARGE + 100_000], ids=["silent", "stalled"])
def test_large_bodies_that_do_not_come_delay_no_other_token(size: int) -> None:
    async def test(fixture: BrokerFixture) -> None:
        eve, ann = await fixture.token("submit", bare=True), await fixture.token("submit", bare=True)
        for _ in range(2 * bodies.LARGE_AT_ONCE):
            await half_sent(fixture, eve, "/v1/submit", size)
            await half_sent(fixture, None, "/v1/redeem", 1)
        # Behind those, on the same loop: by the time it is answered they have been heard.
        await fixture.ask("GET", "/v1/show", token=eve)
        jobs = {"jobs": [{"command": ["echo", "x" * 2_500_000], "hold": True}], "key": key()}
        async with asyncio.timeout(bodies.START_S):
            answer = await fixture.ask("POST", "/v1/submit", jobs, ann)
        assert answer.status == 400 and "no program can be given" in answer.words

    play(test)


def test_a_large_body_that_comes_too_slowly_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "START_S", 0.3)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        stalled = [await half_sent(fixture, token, "/v1/submit", bodies.LARGE + 100_000) for _ in range(3)]
        for reader in stalled:
            answer = await answer_from(reader)
            assert answer.status == 408 and "bytes a second" in answer.words

    play(test)


def test_a_key_that_held_jobs_does_not_clean_them() -> None:
    async def test(fixture: BrokerFixture) -> None:
        removed: list[int] = []

        async def remove(ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
            removed.extend(ids)
            return []

        fixture.directory.remove = remove  # type: ignore[method-assign]
        await fixture.ask(
            "POST", "/v1/submit", {"jobs": [{"command": ["true"], "hold": True}], "key": key()}, local=True
        )
        body = {"selectors": ["1"], "key": key()}
        assert (await fixture.ask("POST", "/v1/jobs/hold", body, local=True)).status == 200
        answer = await fixture.ask("POST", "/v1/jobs/clean", body, local=True)
        assert (answer.status, removed) == (409, [])

    play(test)


def test_a_broker_that_has_started_often_can_still_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 3)

    async def test(fixture: BrokerFixture) -> None:
        for _ in range(5):
            assert (await fixture.api.tokens.start_up_code("worker")).startswith("grass1.")
        answer = await fixture.ask("POST", "/v1/tokens/create", {"scope": "read", "key": key()}, local=True)
        assert answer.status == 409 and "tokens and codes already" in answer.words

    play(test)
