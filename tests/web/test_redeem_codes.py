"""Codes and tokens: made, exchanged once, listed, revoked at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from tests.web.broker_fixture import (
    WAIT_S,
    Answer,
    BrokerFixture,
    answer_from,
    digest_of,
    exchange,
    is_closed,
    key,
    new_secret,
    play,
)

from grassq.broker import tokens
from grassq.broker.subscriptions import Filter, Position, Subscription
from grassq.core.model import FINAL
from grassq.core.syntax import join_codes
from grassq.store.base import Scope


async def made(fixture: BrokerFixture, scope: str = "submit", **more: Any) -> join_codes.Code:
    """A code as the owner gets it."""
    answer = await fixture.ask("POST", "/v1/tokens/create", {"scope": scope, "key": key(), **more}, local=True)
    assert answer.status == 200, answer
    return join_codes.decode(answer.json["code"])


def exchange_of(
    code: join_codes.Code, kind: str = "login", secret: str | None = None, name: str = "ann"
) -> dict[str, str]:
    """What `join` and `login` send."""
    digest = digest_of(secret or new_secret()).hex()
    return {"code": code.id, "secret": code.secret, "kind": kind, "name": name, "digest": digest}


async def redeem(fixture: BrokerFixture, code: join_codes.Code, kind: str = "login", **more: str) -> Answer:
    """Show a code over TCP."""
    return await fixture.ask("POST", "/v1/redeem", exchange_of(code, kind, **more))


def test_a_code_says_where_the_broker_is_and_how_it_is_known() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture)
        assert [str(address) for address in code.addresses] == [f"127.0.0.1:{fixture.port}"]
        assert code.fingerprint == fixture.identity.fingerprint

    play(test)


def test_a_code_is_exchanged_for_a_token_that_works() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code, secret = await made(fixture, "submit", queues=["fast"]), new_secret()
        given = await redeem(fixture, code, secret=secret)
        assert given.status == 200, given
        assert given.json["scope"] == "submit" and given.json["queues"] == ["fast"] and given.json["name"] == "ann"
        assert given.json["store_id"] == fixture.engine.status.store_id
        token = f"{given.json['token']}.{secret}"
        assert (await fixture.ask("GET", "/v1/show", token=token)).status == 200
        assert (await fixture.ask("GET", "/v1/info", token=token)).status == 403

    play(test)


def test_a_code_is_used_once_but_the_same_exchange_may_be_repeated() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code, secret = await made(fixture), new_secret()
        first = await redeem(fixture, code, secret=secret)
        again = await redeem(fixture, code, secret=secret)
        assert first.status == again.status == 200 and first.json == again.json
        other = await redeem(fixture, code, secret=new_secret())
        assert other.status == 409 and "used already" in other.words
        assert (await redeem(fixture, code, "worker", secret=secret)).status == 409

    play(test)


def test_a_code_itself_is_no_token() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture, "admin")
        assert (await fixture.ask("GET", "/v1/show", token=f"{code.id}.{code.secret}")).status == 401

    play(test)


def test_an_expired_code_is_refused() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture, ttl_s=60)
        fixture.clock.now += 61
        answer = await redeem(fixture, code)
        assert answer.status == 409 and "expired" in answer.words

    play(test)


@pytest.mark.parametrize("scope", ["read", "submit", "admin", "worker"])
def test_a_code_of_the_wrong_kind_is_refused_and_not_used_up(scope: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture, scope)
        right, wrong = ("worker", "login") if scope == "worker" else ("login", "worker")
        refused = await redeem(fixture, code, wrong)
        assert refused.status == 409 and ("grass join" if right == "worker" else "grass login") in refused.words
        assert (await redeem(fixture, code, right)).json["scope"] == scope

    play(test)


def test_the_start_gives_one_code_for_a_worker_and_one_for_a_person_and_only_the_newest_count() -> None:
    async def test(fixture: BrokerFixture) -> None:
        scopes: dict[str, Scope] = {"worker": "worker", "login": "submit"}
        old, new = [
            {kind: join_codes.decode(await fixture.api.tokens.start_up_code(scope)) for kind, scope in scopes.items()}
            for _ in range(2)
        ]
        for kind, scope in scopes.items():
            assert (await redeem(fixture, old[kind], kind)).status == 409
            given = await redeem(fixture, new[kind], kind, name="box")
            assert (given.json["scope"], given.json["name"]) == (scope, "box")

    play(test)


def test_workers_get_names_that_nobody_has() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await fixture.engine.read(lambda batch: None)
        names = []
        for wanted in ("w", "W", "box", "box", "box"):
            names.append((await redeem(fixture, await made(fixture, "worker"), "worker", name=wanted)).json["name"])
        assert names == ["w-2", "W-3", "box", "box-2", "box-3"]

    play(test)


def test_a_code_made_for_somebody_gives_that_name() -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert (await redeem(fixture, await made(fixture, name="bob"), name="mallory")).json["name"] == "bob"

    play(test)


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "x"}, {"secret": ""}, {"secret": "\u00e9"}, {"code": "00000000"}, {"code": ""}, {"digest": "00"},
        {"digest": "z" * 64}, {"kind": "admin"}, {"name": ""}, {"name": "a b"}, {"name": "../x"}, {"name": "x" * 65},
        {"scope": "admin"}, {"secret": "x" * 60_000},
    ],
    ids=lambda change: json.dumps(change)[:40],
)  # fmt: skip
def test_a_strange_exchange_is_refused_in_a_sentence(change: dict[str, str]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture)
        answer = await fixture.ask("POST", "/v1/redeem", exchange_of(code) | change)
        assert answer.status in (400, 409) and "\n" not in answer.words, answer
        assert (await redeem(fixture, code)).status == 200

    play(test)


def test_making_a_code_twice_with_one_key_makes_one() -> None:
    async def test(fixture: BrokerFixture) -> None:
        body = {"scope": "read", "key": key()}
        first, again = [await fixture.ask("POST", "/v1/tokens/create", body, local=True) for _ in range(2)]
        assert first.json == again.json
        assert len((await fixture.ask("GET", "/v1/tokens", local=True)).json["tokens"]) == 1

    play(test)


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "root"}, {"scope": "read", "queues": ["a"]}, {"scope": "worker", "bare": True},
        {"scope": "submit", "queues": []}, {"scope": "submit", "queues": ["no such\n"]}, {"scope": "read", "ttl_s": 1},
        {"scope": "read", "ttl_s": 1e12}, {"scope": "submit", "name": tokens.START_UP},
        {"scope": "read", "name": "a b"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_strange_code_is_refused_in_a_sentence(body: dict[str, object]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await fixture.ask("POST", "/v1/tokens/create", body | {"key": key()}, local=True)
        assert answer.status == 400 and "\n" not in answer.words
        assert (await fixture.ask("GET", "/v1/tokens", local=True)).json == {"tokens": []}

    play(test)


def test_a_daemon_nobody_can_reach_makes_no_codes() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.api.tokens.reach = None
        answer = await fixture.ask("POST", "/v1/tokens/create", {"scope": "read", "key": key()}, local=True)
        assert answer.status == 409 and "--bind" in answer.words

    play(test)


def test_the_list_shows_rights_and_nothing_that_opens() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code, secret = await made(fixture, "submit", queues=["fast"], bare=True), new_secret()
        await redeem(fixture, code, secret=secret)
        answer = await fixture.ask("GET", "/v1/tokens", local=True)
        token, used = sorted(answer.json["tokens"], key=lambda each: bool(each["is_code"]))
        assert used["is_code"] and not used["live"] and used["ended"]
        assert token == token | {"scope": "submit", "name": "ann", "queues": ["fast"], "bare": True, "live": True}
        for hidden in (secret, code.secret, digest_of(secret).hex(), digest_of(code.secret).hex()):
            assert hidden.encode() not in answer.body

    play(test)


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_revoked_token_opens_nothing_more(by: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin", name="eve")
        which = {"id": token.partition(".")[0], "name": "eve"}[by]
        answer = await fixture.ask("POST", "/v1/tokens/revoke", {"id": which, "key": key()}, local=True)
        assert (answer.json["id"], answer.json["name"]) == (token.partition(".")[0], "eve")
        assert (await fixture.ask("GET", "/v1/show", token=token)).status == 401
        if by == "id":
            again = await fixture.ask("POST", "/v1/tokens/revoke", {"id": which, "key": key()}, local=True)
            assert again.json == answer.json

    play(test)


def test_revoking_says_what_it_cannot_find_or_tell_apart() -> None:
    async def test(fixture: BrokerFixture) -> None:
        async def revoke(which: str) -> Answer:
            return await fixture.ask("POST", "/v1/tokens/revoke", {"id": which, "key": key()}, local=True)

        assert (await revoke("nobody")).status == 404
        for _ in range(2):
            await fixture.token("read", name="twin")
        assert "by its id" in (await revoke("twin")).words
        code = await made(fixture)
        given = await redeem(fixture, code)
        assert given.json["token"] in (await revoke(code.id)).words
        unused = await made(fixture)
        assert (await revoke(unused.id)).status == 200
        assert (await redeem(fixture, unused)).status == 409

    play(test)


def test_tokens_are_still_known_after_a_restart() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        fixture.guard.load([])
        assert (await fixture.ask("GET", "/v1/show", token=token)).status == 401
        await fixture.api.tokens.load()
        assert (await fixture.ask("GET", "/v1/show", token=token)).status == 200

    play(test)


async def revoke(fixture: BrokerFixture, token: str) -> None:
    body = {"id": token.partition(".")[0], "key": key()}
    assert (await fixture.ask("POST", "/v1/tokens/revoke", body, local=True)).status == 200


def test_revoking_closes_an_idle_connection_and_a_long_poll_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(fixture: BrokerFixture) -> None:
        waits = asyncio.Event()
        subscribe = fixture.engine.subscriptions.subscribe

        def noticed(wanted: Filter, since: Position) -> Subscription:
            waits.set()
            return subscribe(wanted, since)

        monkeypatch.setattr(fixture.engine.subscriptions, "subscribe", noticed)
        token, other = await fixture.token("admin"), await fixture.token("admin")
        ids = await submitted(fixture)
        idle, idle_out = await fixture.connect()
        assert (await exchange(idle, idle_out, "GET", "/v1/show", token=token)).status == 200
        poll, poll_out = await fixture.connect()
        path = f"/v1/wait?selector={ids[0]}&timeout_s=30"
        poll_out.write(f"GET {path} HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        kept, kept_out = await fixture.connect()
        assert (await exchange(kept, kept_out, "GET", "/v1/show", token=other)).status == 200
        async with asyncio.timeout(WAIT_S):
            await waits.wait()
        await revoke(fixture, token)
        assert await is_closed(idle, 5) and await is_closed(poll, 5)
        assert (await exchange(kept, kept_out, "GET", "/v1/show", token=other)).status == 200

    play(test)


def test_revoking_closes_a_workers_connection_at_once() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("worker")
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{fixture.port}/v1/worker"
            shown = {"Authorization": f"Bearer {token}", "Host": "grass"}
            async with session.ws_connect(url, ssl=fixture.client_context(), headers=shown) as ws:
                await fixture.linked.wait()
                await revoke(fixture, token)
                async with asyncio.timeout(5):
                    await fixture.unlinked.wait()
                    assert (await ws.receive()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)

    play(test)


def test_who_revokes_its_own_token_still_gets_the_answer_and_nothing_more() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin")
        reader, writer = await fixture.connect()
        body = {"id": token.partition(".")[0], "key": key()}
        assert (await exchange(reader, writer, "POST", "/v1/tokens/revoke", body, token)).status == 200
        assert await is_closed(reader, 5)

    play(test)


async def submitted(fixture: BrokerFixture, token: str | None = None, count: int = 1) -> list[int]:
    """Jobs that wait, held."""
    job = {"command": ["true"], "hold": True}
    body: dict[str, object] = {"jobs": [job] * count, "key": key()}
    if token is None:
        body |= {"cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
    answer = await fixture.ask("POST", "/v1/submit", body, token, local=token is None)
    assert answer.status == 200, answer
    ids = answer.json["ids"]
    assert isinstance(ids, list)
    return ids


async def act(fixture: BrokerFixture, verb: str, token: str | None, *selectors: object) -> Answer:
    body = {"selectors": [str(each) for each in selectors], "key": key()}
    return await fixture.ask("POST", f"/v1/jobs/{verb}", body, token, local=token is None)


@pytest.mark.parametrize("verb", ["kill", "rerun", "hold", "release", "priority", "clean"])
def test_a_submit_token_changes_its_own_jobs_only(verb: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        ann, bob = await fixture.token("submit", bare=True), await fixture.token("submit", bare=True)
        (owners,) = await submitted(fixture)
        (anns,), (bobs,) = await submitted(fixture, ann), await submitted(fixture, bob)
        if verb in ("rerun", "clean"):
            await act(fixture, "kill", None, "all")
        for foreign in (owners, bobs, f"{owners}-{bobs}"):
            refused = await act(fixture, verb, ann, foreign)
            assert refused.status == 409 and "another token" in refused.words, (foreign, refused)
        before = await states(fixture)
        assert (await act(fixture, verb, ann, anns)).status == 200
        after = await states(fixture)
        assert {id_: state for id_, state in after.items() if id_ in (owners, bobs)} == {
            id_: state for id_, state in before.items() if id_ in (owners, bobs)
        }

    play(test)


def test_a_set_means_ones_own_jobs_for_a_submit_token_and_every_job_for_an_admin() -> None:
    async def test(fixture: BrokerFixture) -> None:
        ann, admin = await fixture.token("submit", bare=True), await fixture.token("admin")
        (owners,), (anns,) = await submitted(fixture), await submitted(fixture, ann)
        assert [job["id"] for job in (await act(fixture, "kill", ann, "all")).json["jobs"]] == [anns]
        assert await states(fixture) == {owners: "held", anns: "cancelled"}
        assert (await act(fixture, "kill", admin, "all")).status == 200
        assert set((await states(fixture)).values()) <= {str(state) for state in FINAL}

    play(test)


async def states(fixture: BrokerFixture) -> dict[int, str]:
    answer = await fixture.ask("GET", "/v1/show?selector=all", local=True)
    return {job["id"]: job["state"] for job in answer.json["jobs"]}


def test_a_pipelined_second_request_is_checked_like_the_first() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        reader, writer = await fixture.connect()
        one = f"GET /v1/show HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write((one + "GET /v1/show HTTP/1.1\r\nHost: grass\r\n\r\n").encode())
        assert (await answer_from(reader)).status == 200
        assert (await answer_from(reader)).status == 401

    play(test)
