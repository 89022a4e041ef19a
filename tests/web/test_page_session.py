"""The page of a browser: a code is exchanged for a session once, a session has the rights of its scope, and ends."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

import pytest
from tests.web.broker_fixture import BrokerFixture, is_closed, key, play
from tests.web.browser import Browser, a_link, a_page

from grassq import atomic_files
from grassq.broker import tokens
from grassq.web import app
from grassq.web.page.codes import CODE_S, CODES_MAX, WRONG_PER_MINUTE
from grassq.web.page.headers import HEADERS


def test_a_code_opens_one_session_and_its_cookie_is_for_this_page_only() -> None:
    async def test(fixture: BrokerFixture) -> None:
        link = await a_link(fixture)
        assert link["port"] == fixture.page_port
        browser = Browser(fixture)
        assert (await browser.ask("GET", "/v1/session")).status == 401
        answer = await browser.log_in(link["code"])
        assert answer.status == 200 and answer.json["scope"] == "admin"
        name, *flags = answer.headers["set-cookie"].split("; ")
        assert name.startswith(f"grass-{fixture.page_port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags) and "Secure" not in flags
        assert not any(flag.startswith("Domain") for flag in flags)
        assert (await browser.ask("GET", "/v1/show")).status == 200
        assert (await Browser(fixture).log_in(link["code"])).status == 403  # a code works once
        listed = (await fixture.ask("GET", "/v1/tokens", local=True)).json["tokens"]
        assert [(each["name"], each["scope"], each["live"]) for each in listed] == [("owner.web", "admin", True)]

    play(test)


def test_over_tls_the_cookie_needs_tls_and_its_host() -> None:
    async def test(fixture: BrokerFixture) -> None:
        browser = Browser(fixture, tls=True)
        answer = await browser.log_in((await a_link(fixture, "read"))["code"])
        name, *flags = answer.headers["set-cookie"].split("; ")
        assert name.startswith("__Host-grass=") and {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
        assert (await browser.ask("GET", "/v1/show")).status == 200

    play(test)


def test_a_code_is_void_after_a_minute_and_when_the_clock_is_set_back() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for seconds in (CODE_S, -1.0):
            link = await a_link(fixture)
            fixture.clock.now += seconds
            assert (await Browser(fixture).log_in(link["code"])).status == 403

    play(test)


def test_wrong_codes_are_refused_and_counted_and_keep_no_right_one_out() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = (await a_link(fixture))["code"]
        browser = Browser(fixture)
        wrong = [code[:-1] + ("A" if code[-1] != "A" else "B"), code[:8], "", "x" * 5000, f"00000000{code[8:]}", "é.é"]
        statuses = [(await browser.ask("POST", "/v1/session", {"code": each})).status for each in wrong]
        assert statuses == [403] * len(wrong)
        for _ in range(WRONG_PER_MINUTE):
            last = await browser.ask("POST", "/v1/session", {"code": wrong[0]})
        assert last.status == 429
        assert (await browser.log_in(code)).status == 200
        entries = fixture.audit.read(1000)
        assert sum(entry.result == "403" for entry in entries) > 10
        assert code.partition(".")[2] not in str(entries)

    play(test)


@pytest.mark.parametrize("scope", ["read", "submit", "admin"])
def test_a_session_has_the_rights_of_its_scope_and_is_never_the_owner(scope: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture, scope)
        about = (await page.ask("GET", "/v1/session")).json
        assert about["scope"] == scope and (about["cwd"] is not None) == (scope == "admin")
        job = {"key": key(), "words": ["--hold", "--queue", "default", "true"]}
        assert (await page.ask("POST", "/v1/enqueue", job)).status == (403 if scope == "read" else 200)
        assert (await page.ask("GET", "/v1/tokens")).status == (200 if scope == "admin" else 403)
        for path in ("/v1/stop", "/v1/machines/add"):
            assert (await page.ask("POST", path, {"key": key()})).status == 403
        more = await page.ask("POST", "/v1/session/link", {"key": key()})
        assert more.status == 409
        assert not fixture.stopped

    play(test)


def test_a_session_ends_at_once_by_logout_by_logout_all_and_by_revocation() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page, other, third = [await a_page(fixture) for _ in range(3)]
        reader, writer = await page.connect()
        lines = "".join(f"{name}: {value}\r\n" for name, value in page.headers("GET").items())
        writer.write(f"GET /v1/events HTTP/1.1\r\n{lines}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        answer = await page.ask("POST", "/v1/session/end")
        assert answer.status == 200 and "Max-Age=0" in answer.headers["set-cookie"]
        assert await is_closed(reader)
        assert (await page.ask("GET", "/v1/session")).status == 401
        assert (await other.ask("GET", "/v1/session")).status == 200
        session = (await third.ask("GET", "/v1/session")).json["session"]
        revoked = {"key": key(), "id": session}
        assert (await fixture.ask("POST", "/v1/tokens/revoke", revoked, local=True)).status == 200
        assert (await third.ask("GET", "/v1/session")).status == 401
        code = (await a_link(fixture))["code"]
        ended = await fixture.ask("POST", "/v1/session/end-all", {"key": key()}, local=True)
        assert len(ended.json["ended"]) == 1
        assert (await other.ask("GET", "/v1/session")).status == 401
        assert (await Browser(fixture).log_in(code)).status == 403  # codes that wait are void too

    play(test)


def test_a_session_lasts_while_it_is_used() -> None:
    async def test(fixture: BrokerFixture) -> None:
        used, unused = await a_page(fixture), await a_page(fixture)
        for _ in range(3):
            fixture.clock.now += tokens.SESSION_S - tokens.RENEW_S
            assert (await used.ask("GET", "/v1/session")).headers["set-cookie"].startswith(used.cookie)
        assert (await unused.ask("GET", "/v1/session")).status == 401

    play(test)


def test_a_session_of_a_token_acts_for_it_and_ends_with_it() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        job = {"key": key(), "words": ["--hold", "--queue", "default", "true"]}
        done = await fixture.ask("POST", "/v1/enqueue", job, token)
        assert done.headers["grass-exit"] == "0", done
        assert (await fixture.ask("POST", "/v1/session/link", {"key": key(), "scope": "admin"}, token)).status == 403
        page = Browser(fixture, tls=True)
        await page.log_in((await a_link(fixture, token=token))["code"])
        held = await page.ask("POST", "/v1/jobs/release", {"key": key(), "selectors": ["1"]})
        assert held.status == 200 and held.json["ids"] == [1]  # the token's own job
        reader = Browser(fixture, tls=True)
        await reader.log_in((await a_link(fixture, "read", token))["code"])
        assert (await reader.ask("POST", "/v1/jobs/hold", {"key": key(), "selectors": ["1"]})).status == 403
        third = Browser(fixture, tls=True)
        await third.log_in((await a_link(fixture, token=token))["code"])
        assert (await third.ask("POST", "/v1/logout")).status == 200  # of the session, not of the token
        assert (await third.ask("GET", "/v1/session")).status == 401
        assert (await page.ask("GET", "/v1/session")).status == 200
        revoked = {"key": key(), "id": token.partition(".")[0]}
        assert (await fixture.ask("POST", "/v1/tokens/revoke", revoked, local=True)).status == 200
        for each in (page, reader):
            assert (await each.ask("GET", "/v1/session")).status == 401

    play(test)


def test_a_code_of_token_create_opens_the_page_with_the_rights_of_the_code() -> None:
    async def test(fixture: BrokerFixture) -> None:
        made = {"key": key(), "scope": "read", "name": "carla"}
        code = (await fixture.ask("POST", "/v1/tokens/create", made, local=True)).json["code"]
        page = Browser(fixture, tls=True)
        answer = await page.log_in(code)
        assert answer.status == 200 and (answer.json["scope"], answer.json["name"]) == ("read", "carla.web")
        assert (await page.ask("GET", "/v1/show")).status == 200
        assert (await page.ask("GET", "/v1/tokens")).status == 403
        assert (await Browser(fixture, tls=True).log_in(code)).status == 409
        listed = (await fixture.ask("GET", "/v1/tokens", local=True)).json["tokens"]
        holder = next(each["id"] for each in listed if each["name"] == "carla" and not each["is_code"])
        revoked = {"key": key(), "id": holder}
        assert (await fixture.ask("POST", "/v1/tokens/revoke", revoked, local=True)).status == 200
        assert (await page.ask("GET", "/v1/show")).status == 401
        worker = {"key": key(), "scope": "worker"}
        code = (await fixture.ask("POST", "/v1/tokens/create", worker, local=True)).json["code"]
        assert (await Browser(fixture, tls=True).log_in(code)).status == 409

    play(test)


def test_every_answer_tells_a_browser_what_it_may_do_with_it() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        for method, path in (("GET", "/"), ("GET", "/v1/show"), ("GET", "/v1/nosuch"), ("PUT", "/"), ("POST", "/v1/x")):
            answer = await page.ask(method, path)
            assert {name.lower(): value.lower() for name, value in HEADERS.items()}.items() <= answer.headers.items()
        assert "content-security-policy" not in (await fixture.ask("GET", "/v1/show", local=True)).headers

    play(test)


def test_a_token_of_small_scope_takes_neither_all_codes_nor_all_places_of_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "SESSIONS_PER_TOKEN_MAX", 3)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        mine = (await a_link(fixture))["code"]
        for _ in range(CODES_MAX + 1):
            last = (await a_link(fixture, token=token))["code"]
        assert (await Browser(fixture).log_in(mine)).status == 200
        statuses = [(await Browser(fixture, tls=True).log_in(last)).status]
        for _ in range(3):
            page = Browser(fixture, tls=True)
            statuses.append((await page.log_in((await a_link(fixture, token=token))["code"])).status)
        # A session that was left counts too, as long as the store keeps it.
        assert statuses == [200, 200, 200, 409]
        assert (await fixture.ask("POST", "/v1/session/end-all", {"key": key()}, token)).status == 200
        assert (await page.log_in((await a_link(fixture, token=token))["code"])).status == 409
        for _ in range(3):
            assert (await Browser(fixture).log_in((await a_link(fixture))["code"])).status == 200

    play(test)


def test_a_session_that_has_ended_is_not_brought_back_by_news_that_come_late() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        session = (await page.ask("GET", "/v1/session")).json["session"]
        renewed = fixture.guard.token(session)
        revoked = {"key": key(), "id": session}
        assert (await fixture.ask("POST", "/v1/tokens/revoke", revoked, local=True)).status == 200
        fixture.guard.put(renewed)  # the answer to a renewal that was committed before
        assert (await page.ask("GET", "/v1/session")).status == 401

    play(test)


def test_the_page_opens_where_its_port_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(fixture: BrokerFixture) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(atomic_files, "write_changed", full)
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]
        link = await a_link(fixture, port=port)
        assert link["port"] == port
        page = Browser(fixture)
        page.port, page.host, page.origin = port, f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"
        assert (await page.log_in(link["code"])).status == 200

    play(test)


def test_a_stream_ends_with_the_session_that_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "EXPIRED_S", 0.02)

    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        reader, writer = await page.connect()
        lines = "".join(f"{name}: {value}\r\n" for name, value in page.headers("GET").items())
        writer.write(f"GET /v1/events HTTP/1.1\r\n{lines}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        fixture.clock.now += tokens.SESSION_S
        assert await is_closed(reader)

    play(test)
