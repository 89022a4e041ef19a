"""What others can do with the page's port: other sites in the same browser, other names for it, other users.

Every route and method is tried in each way; only the files of the page answer, and nothing changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket

import pytest
from tests.other_user import NOBODY, answer_to, as_user
from tests.web.broker_fixture import Answer, BrokerFixture, exchange, is_closed, key, play
from tests.web.browser import Browser, a_link, a_page
from tests.web.test_routes import filled

from grassq.store.base import Scope
from grassq.web.listen import admission
from grassq.web.listen.loopback import LoopbackDoor

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: What a browser sends when a link on another site is followed.
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": ""}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}

#: How a request differs from one of our own page, with the cookie of an admin session.
FOREIGN: dict[str, dict[str, str]] = {
    "foreign Origin": {"Origin": "https://evil.example", "Sec-Fetch-Site": ""},
    "Origin of another port": {"Origin": "http://127.0.0.1:8888", "Sec-Fetch-Site": ""},
    "Origin with another scheme": {"Origin": "https://{host}", "Sec-Fetch-Site": ""},
    "Origin null": {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    "cross-site": {"Sec-Fetch-Site": "cross-site", "Origin": ""},
    "another port of this host": {"Sec-Fetch-Site": "same-site", "Origin": ""},
    "DNS rebinding": {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
    "a name that looks like ours": {"Host": "127.0.0.1.evil.example:{port}", "Origin": ""},
    "another port in Host": {"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1"},
    "no Host": {"Host": "", "Origin": ""},
    "a cookie without proof": {"Sec-Fetch-Site": "", "Origin": ""},
    "typed by the user": {"Sec-Fetch-Site": "none", "Origin": ""},
    "a link on another site": NAVIGATION,
}


class Walker:
    """Sends requests over one connection as long as that stays open."""

    def __init__(self, browser: Browser, changed: dict[str, str]) -> None:
        self.browser = browser
        self.changed = {
            name: value.format(host=browser.host, port=browser.port) if "{" in value else value
            for name, value in changed.items()
        }
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __call__(self, method: str, path: str) -> Answer:
        if self.streams is None:
            self.streams = await self.browser.connect()
        body = {"key": key()} if method in ("POST", "PUT", "PATCH") else None
        headers = self.browser.headers(method) | self.changed
        if method == "HEAD":
            # The answer names a length and has no body.
            reader, writer = self.streams
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
            writer.write(f"HEAD {path} HTTP/1.1\r\n{lines}\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.close()
            return Answer(int(head.split()[1]), {}, b"")
        answer = await exchange(*self.streams, method, path, body, None, headers)
        if answer.headers.get("connection") == "close" or answer.status == 400:
            self.close()
        return answer

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


async def walk(fixture: BrokerFixture, browser: Browser, changed: dict[str, str], opens: tuple[str, ...]) -> None:
    """Try every method of every path; routes with a need in `opens` may answer, all others refuse."""
    needs = {(route.method, filled(route.path)): route.need for route in fixture.api.routes()}
    send = Walker(browser, changed)
    for path in sorted({path for _, path in needs} | {"/nosuch", "/v1", "/v1/nosuch", "//v1/show", "/assets/"}):
        for method in METHODS:
            answer = await send(method, path)
            if needs.get((method, path)) in opens:
                assert answer.status not in (401, 403, 421), (method, path, answer)
            else:
                assert 400 <= answer.status < 500, (method, path, answer)
    send.close()


async def nothing_changed(fixture: BrokerFixture) -> None:
    assert not fixture.stopped and not fixture.directory.made
    shown = (await fixture.ask("GET", "/v1/jobs", local=True)).json
    assert shown["jobs"] == []
    done = [entry for entry in fixture.audit.read(10_000) if entry.result == "200" and entry.peer != "local"]
    assert [entry.path for entry in done] == ["/v1/session"] * len(done)


def test_with_the_cookie_of_an_admin_no_other_sender_gets_anything_but_the_files_of_the_page() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        for what, changed in FOREIGN.items():
            opens = {
                "a cookie without proof": ("page", "open"),
                "typed by the user": ("page", "open"),
                "a link on another site": ("page",),
            }.get(what, ())
            try:
                await walk(fixture, page, changed, opens)
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from None
            assert (await page.ask("GET", "/v1/session")).status == 200
        await nothing_changed(fixture)

    play(test)


def test_without_a_good_session_nothing_answers_but_the_files_of_the_page() -> None:
    async def test(fixture: BrokerFixture) -> None:
        ended = await a_page(fixture)
        assert (await ended.ask("POST", "/v1/session/end")).status == 200
        other = await a_page(fixture)
        forged = other.cookie[:-1] + ("A" if other.cookie[-1] != "A" else "B")
        token = await fixture.token("admin")
        two = f"{other.cookie}; {(await a_page(fixture, 'read')).cookie}"
        for cookie in ("", ended.cookie, forged, f"grass-{fixture.page_port}={token}", f"__Host-{other.cookie}", two):
            await walk(fixture, Browser(fixture, cookie=cookie), {}, ("page", "open"))
        entries = fixture.audit.read(10_000)
        assert not [each for each in entries if each.result == "200" and not each.path.startswith("/v1/session")]
        assert (await other.ask("GET", "/v1/session")).status == 200

    play(test)


def test_a_read_session_changes_nothing_whatever_it_asks_for() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture, "read")
        needs = {route.path: route.need for route in fixture.api.routes() if route.method == "POST"}
        for path, need in needs.items():
            if path.startswith(("/v1/session/end", "/v1/logout")):
                continue
            answer = await page.ask("POST", filled(path), {"key": key()})
            if need in ("submit", "admin", "local", "worker"):
                assert answer.status == 403, (path, answer)
        assert not fixture.stopped and not fixture.directory.made

    play(test)


def test_a_web_socket_needs_the_origin_of_our_page_and_ends_with_the_session() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)

        async def status(cookie: str | None = None, **changed: str) -> int:
            sent = page.headers("GET") | {"Origin": page.origin, **UPGRADE}
            sent |= {"Cookie": page.cookie if cookie is None else cookie, **changed}
            reader, writer = await page.connect()
            head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
            writer.write(f"GET /v1/live HTTP/1.1\r\n{head}\r\n".encode())
            line = await reader.readuntil(b"\r\n\r\n")
            streams.append((reader, writer))
            return int(line.split()[1])

        streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        assert await status(cookie="") == 401
        assert await status(Origin="") == 401
        for wrong in ("https://evil.example", "null", "http://127.0.0.1:8888", f"https://{page.host}"):
            assert await status(Origin=wrong) == 401
        assert await status(**{"Sec-Fetch-Site": "cross-site"}) == 401
        assert await status(Host=f"evil.example:{page.port}", Origin=f"http://evil.example:{page.port}") == 401
        assert await status(**{"Sec-Fetch-Site": ""}) == 101  # not every browser sends it with a WebSocket
        live = streams[-1][0]
        assert (await page.ask("POST", "/v1/session/end")).status == 200
        assert await is_closed(live)
        assert await status() == 401

    play(test)


def test_the_loopback_door_is_never_the_owner_and_only_this_machine_reaches_it() -> None:
    async def test(fixture: BrokerFixture) -> None:
        door = fixture.api.sessions.door
        assert isinstance(door, LoopbackDoor)
        hosts = {sock.getsockname()[0] for sock in door.sockets}
        assert "127.0.0.1" in hosts and hosts <= {"127.0.0.1", "::1"}
        scopes: tuple[Scope, ...] = ("read", "submit", "admin")
        for scope in scopes:
            token = await fixture.token(scope)
            headers = {"Host": f"127.0.0.1:{fixture.page_port}", "Authorization": f"Bearer {token}"}
            streams = await Browser(fixture).connect()
            for method, path in (("POST", "/v1/stop"), ("POST", "/v1/machines/add"), ("GET", "/v1/machines")):
                answer = await exchange(*streams, method, path, None, None, headers)
                assert answer.status == 403, (scope, path, answer)
            streams[1].close()
        assert not fixture.stopped

    play(test)


def test_a_stolen_cookie_is_no_token_and_opens_no_other_door() -> None:
    async def test(fixture: BrokerFixture) -> None:
        here, there = await a_page(fixture), await a_page(fixture, "admin", tls=True)
        for stolen in (here.cookie, there.cookie):
            secret = stolen.partition("=")[2]
            assert (await fixture.ask("GET", "/v1/show", token=secret)).status == 401
            assert (await Browser(fixture).ask("GET", "/v1/show", Authorization=f"Bearer {secret}")).status == 401
        swapped = f"{there.cookie.partition('=')[0]}={here.cookie.partition('=')[2]}"
        assert (await Browser(fixture, tls=True, cookie=swapped).ask("GET", "/v1/show")).status == 401
        swapped = f"{here.cookie.partition('=')[0]}={there.cookie.partition('=')[2]}"
        assert (await Browser(fixture, cookie=swapped).ask("GET", "/v1/show")).status == 401

    play(test)


def test_a_connection_without_a_session_is_cut_soon_and_one_with_a_session_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "SILENT_S", 1.0)
    monkeypatch.setattr(admission, "HELLO_S", 5.0)

    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        host = {"Host": page.host}
        known = await page.connect()
        assert (await exchange(*known, "GET", "/v1/session", None, None, page.headers("GET"))).status == 200
        stranger = await page.connect()
        assert (await exchange(*stranger, "GET", "/v1/session", None, None, host)).status == 401
        silent = await page.connect()
        assert await is_closed(silent[0]) and await is_closed(stranger[0])
        assert (await exchange(*known, "GET", "/v1/session", None, None, page.headers("GET"))).status == 200

    play(test)


def test_a_name_of_loopback_reaches_the_page() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        for name in ("127.0.0.1", "localhost", "[::1]", "LOCALHOST"):
            host = f"{name}:{fixture.page_port}"
            assert (await page.ask("GET", "/v1/session", Host=host)).status == 200
        tunnel = await page.ask("GET", "/", Host="localhost:9999")
        assert tunnel.status == 421 and "same port" in tunnel.words

    play(test)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_machine_can_use_neither_an_admin_code_nor_the_cookie_of_an_admin() -> None:
    async def test(fixture: BrokerFixture) -> None:
        async def as_other(method: str, path: str, body: object, cookie: str = "", half: bool = False) -> int:
            sent = Browser(fixture, cookie=cookie).headers(method)
            raw = b"" if body is None else json.dumps(body).encode()
            lines = {**sent, "Content-Length": str(len(raw)), "Connection": "close"}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
            request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + raw

            def ask() -> bytes:
                return answer_to(socket.create_connection(("127.0.0.1", fixture.page_port)), request, half)

            said = await asyncio.to_thread(as_user, NOBODY, ask)
            return int(said.split()[1]) if said else 0

        code = (await a_link(fixture))["code"]
        for half in (True, False):
            assert await as_other("POST", "/v1/session", {"code": code}, half=half) in (0, 403)
        page = Browser(fixture)
        assert (await page.log_in(code)).status == 200  # the other user has not spoilt it
        for mine in (page, await a_page(fixture, "read")):
            assert await as_other("GET", "/v1/session", None, mine.cookie) == 401
            assert (await mine.ask("GET", "/v1/session")).status == 200
        shown = (await a_link(fixture, "read", own=True))["code"]  # opened in a browser, so all users see it
        assert await as_other("POST", "/v1/session", {"code": shown}) == 403
        assert (await Browser(fixture, tls=True).log_in(shown)).status == 403  # nor from elsewhere
        given = (await a_link(fixture, "read"))["code"]  # a link that the owner gives away
        assert await as_other("POST", "/v1/session", {"code": given}) == 200

    play(test)
