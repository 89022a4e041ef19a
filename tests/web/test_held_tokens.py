"""Exchanging a code with a token in hand: the worker stays, the login is replaced, and neither side is fooled."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.broker_fixture import Answer, BrokerFixture, digest_of, key, new_secret, play
from tests.web.test_redeem_codes import exchange_of, made

from grassq import pins
from grassq.core.syntax.join_codes import Code


class Client:
    """A client that may hold a token already."""

    def __init__(self, fixture: BrokerFixture, kind: str) -> None:
        self.fixture, self.kind, self.id, self.secret = fixture, kind, "", ""

    async def redeem(self, code: Code, name: str = "node", *, pin: bytes | None = None, secret: str = "") -> Answer:
        """Show a code, and name the token in hand to a broker that shows this pin."""
        fresh = new_secret()
        body: dict[str, Any] = exchange_of(code, self.kind, fresh, name)
        if self.id:
            digest = digest_of(secret or self.secret)
            body["holds"] = {self.id: pins.proof(digest, "client", code.id, pin or code.fingerprint)}
        answer = await self.fixture.ask("POST", "/v1/redeem", body)
        if answer.status == 200 and answer.json["token"] != self.id:
            self.id, self.secret = answer.json["token"], fresh
        return answer

    def proof_of_broker(self, code: Code) -> str:
        """What a broker that knows the token answers."""
        return pins.proof(digest_of(self.secret), "broker", code.id, code.fingerprint)


def test_a_worker_that_joins_again_keeps_its_token_and_its_name() -> None:
    async def test(fixture: BrokerFixture) -> None:
        worker = Client(fixture, "worker")
        first = await worker.redeem(await made(fixture, "worker"))
        code = await made(fixture, "worker")
        for _ in range(2):  # also when the answer was lost
            again = await worker.redeem(code, "another")
            assert (again.json["token"], again.json["name"]) == (first.json["token"], "node")
            assert again.json["proofs"] == {worker.id: worker.proof_of_broker(code)}

    play(test)


def test_a_worker_whose_token_was_revoked_joins_as_a_new_one() -> None:
    async def test(fixture: BrokerFixture) -> None:
        worker = Client(fixture, "worker")
        first = await worker.redeem(await made(fixture, "worker"))
        await fixture.ask("POST", "/v1/tokens/revoke", {"id": first.json["token"], "key": key()}, local=True)
        again = await worker.redeem(await made(fixture, "worker"))
        assert again.status == 200 and again.json["token"] != first.json["token"]

    play(test)


def test_a_second_login_ends_the_first() -> None:
    async def test(fixture: BrokerFixture) -> None:
        client = Client(fixture, "login")
        await client.redeem(await made(fixture, "submit"))
        old = f"{client.id}.{client.secret}"
        await client.redeem(await made(fixture, "admin"))
        assert (await fixture.ask("GET", "/v1/show", token=old)).status == 401
        assert (await fixture.ask("GET", "/v1/show", token=f"{client.id}.{client.secret}")).status == 200

    play(test)


@pytest.mark.parametrize("lie", ["guessed secret", "relayed by a broker with another key"])
def test_who_does_not_hold_a_token_neither_keeps_nor_ends_it_and_gets_no_proof(lie: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        owner = Client(fixture, "login")
        await owner.redeem(await made(fixture, "submit"))
        held = f"{owner.id}.{owner.secret}"
        how: dict[str, Any] = {"secret": "guessed"} if lie == "guessed secret" else {"pin": b"\7" * 32}
        answer = await owner.redeem(await made(fixture, "submit"), **how)
        assert answer.status == 200 and answer.json["proofs"] == {}
        assert (await fixture.ask("GET", "/v1/show", token=held)).status == 200

    play(test)


def test_more_tokens_than_a_client_can_have_are_refused() -> None:
    async def test(fixture: BrokerFixture) -> None:
        body: dict[str, Any] = exchange_of(await made(fixture))
        body["holds"] = {f"{n:08x}": "0" * 64 for n in range(17)}
        assert (await fixture.ask("POST", "/v1/redeem", body)).status == 400

    play(test)


def test_a_code_made_while_the_clock_was_a_year_ahead_is_void() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.clock.now += 365 * 86400
        code = await made(fixture)
        fixture.clock.now -= 365 * 86400
        answer = await Client(fixture, "login").redeem(code)
        assert answer.status == 409 and "clock was ahead" in answer.words

    play(test)


def test_anybody_may_end_the_token_they_have_and_no_other() -> None:
    async def test(fixture: BrokerFixture) -> None:
        mine, other = await fixture.token("read"), await fixture.token("admin")
        answer = await fixture.ask("POST", "/v1/logout", {"key": key()}, token=mine)
        assert answer.status == 200, answer
        assert (await fixture.ask("GET", "/v1/show", token=mine)).status == 401
        assert (await fixture.ask("GET", "/v1/show", token=other)).status == 200

    play(test)
