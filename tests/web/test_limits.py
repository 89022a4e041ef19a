"""Requests that are odd on purpose: each gets a sentence, and costs others nothing."""

from __future__ import annotations

import pytest
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker import tokens
from grassq.web.access import auth


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
        assert "is no number from 0 to" in answer.words

    play(test)


def test_strangers_with_slow_bodies_do_not_take_the_turns_of_those_with_a_token() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for _ in range(2 * auth.LARGE_AT_ONCE):
            _, writer = await fixture.connect()
            writer.write(b"POST /v1/redeem HTTP/1.1\r\nHost: grass\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
            await writer.drain()
        # Behind those, on the same loop: by the time it is answered they have been heard.
        await fixture.ask("GET", "/v1/show", token=await fixture.token("read"))
        assert not fixture.guard._large.locked()

    play(test)


def test_a_key_that_held_jobs_does_not_clean_them() -> None:
    async def test(fixture: BrokerFixture) -> None:
        removed: list[int] = []

        async def remove(ids: list[int], spare: set[int]) -> None:
            removed.extend(ids)

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
