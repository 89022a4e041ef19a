"""The route table, walked: every route and every method, for everybody who may not."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import get_args

import pytest
from aiohttp import web
from tests.other_user import NOBODY, answer_to, as_user, unix_socket
from tests.web.broker_fixture import Answer, BrokerFixture, answer_from, exchange, key, play

from grassq.store.base import Scope
from grassq.web.access.auth import Guard, Need, Route
from grassq.web.listen.tcp import make_runner
from grassq.web.responses import document

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "post")


def paths(fixture: BrokerFixture) -> list[str]:
    """Every path the router knows, with a job or a queue where it wants one; from the router, so none is forgotten."""
    found = {route.resource.canonical for route in fixture.app.router.routes() if route.resource is not None}
    return sorted(map(filled, found))


def filled(path: str) -> str:
    """A path of the table, with something in the place of every variable."""
    path = (
        re.sub(r"\{page[^}]*\}", "jobs", path)
        .replace("{rest:.*}", "1")
        .replace("{rest}", "1")
        .replace(r"{id:\d{1,15}}", "1")
        .replace("{id}", "1")
    )
    return re.sub(r"\{(queue|name)[^}]*\}", "nosuch.svg" if "svg" in path else "no.such", path)


def need_of(fixture: BrokerFixture, method: str, path: str) -> Need | None:
    """What a route needs; None if there is no such route."""
    return next((r.need for r in fixture.api.routes() if (r.method, filled(r.path)) == (method, path)), None)


async def walk(
    fixture: BrokerFixture, send: Callable[[str, str], Awaitable[Answer]], open_too: bool, status: int = 0
) -> int:
    """Send every method to every path; all are refused, with one status if given, and how many were is given."""
    count = 0
    for path in [*paths(fixture), "/no.such", "/v1", "/v1/nosuch", "/v1/show/", "//v1/show", "/V1/show"]:
        for method in METHODS:
            if need_of(fixture, method, path) in ("open", "page") and not open_too:
                continue
            answer = await send(method, path)
            assert 400 <= answer.status < 500, (method, path, answer)
            # "post" is no method, so the answer comes before anything is looked up.
            assert not status or answer.status == (400 if method == "post" else status), (method, path, answer)
            count += 1
    return count


class Requester:
    """Sends requests over one connection as long as it stays open."""

    def __init__(self, fixture: BrokerFixture, token: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.fixture, self.token, self.headers = fixture, token, headers
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __call__(self, method: str, path: str) -> Answer:
        if self.streams is None:
            self.streams = await self.fixture.connect()
        body = {"key": key()} if method == "POST" else None
        if method == "HEAD":
            return await self._head(path)
        answer = await exchange(*self.streams, method, path, body, self.token, self.headers)
        if answer.headers.get("connection") == "close" or answer.status == 400:
            self.close()
        return answer

    async def _head(self, path: str) -> Answer:
        assert self.streams is not None
        reader, writer = self.streams
        shown = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        more = "".join(f"{name}: {value}\r\n" for name, value in (self.headers or {"Host": "grass"}).items())
        host = "" if "Host" in more else "Host: grass\r\n"
        writer.write(f"HEAD {path} HTTP/1.1\r\n{host}{shown}{more}\r\n".encode())
        async with asyncio.timeout(10):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.close()
        return Answer(int(head.split()[1]), {}, b"")

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


def nothing_happened(fixture: BrokerFixture) -> None:
    assert not fixture.stopped and not fixture.directory.made


@pytest.mark.parametrize("shown", [None, "", "x", "deadbeef.secret", "deadbeef." + "A" * 43, "." * 300])
def test_without_a_token_every_route_and_method_is_refused(shown: str | None) -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert await walk(fixture, Requester(fixture, shown), open_too=False, status=401) > 250
        nothing_happened(fixture)

    play(test)


@pytest.mark.parametrize("path", ["/v1/show", "/v1/nosuch", "/v1/redeem"])
def test_no_answer_before_a_token_names_a_program_or_a_version(path: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answers = [await fixture.ask(method, path) for method in ("GET", "POST", "DELETE")]
        reader, writer = await fixture.connect()
        writer.write(b"no HTTP at all\r\n\r\n")
        answers.append(await answer_from(reader))
        for answer in answers:
            assert answer.status >= 400 and "grass-version" not in answer.headers
            assert "aiohttp" not in str(answer.headers) and "python" not in str(answer.headers).lower()
            assert "allow" not in answer.headers
        known = await fixture.ask("GET", path, token=await fixture.token("read"))
        assert "grass-version" in known.headers

    play(test)


@pytest.mark.parametrize("scope", ["read", "submit", "admin"])
def test_every_answer_says_what_its_caller_may_do(scope: Scope) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token(scope)
        assert (await fixture.ask("GET", "/v1/show", token=token)).headers["grass-scope"] == scope
        assert (await fixture.ask("GET", "/v1/show", local=True)).headers["grass-scope"] == "admin"
        assert "grass-scope" not in (await fixture.ask("GET", "/v1/show")).headers

    play(test)


def test_control_characters_in_a_refusal_do_not_cut_the_connection() -> None:
    async def test(fixture: BrokerFixture) -> None:
        odd = "".join(map(chr, (*range(32), 127, 0x9B, 0x202E)))
        body = {"name": "q", "worker": f"a{odd}b", "key": key()}
        for local in (True, False):
            token = None if local else await fixture.token("admin")
            answer = await fixture.ask("POST", "/v1/delete-queue", body, token, local=local)
            assert 400 <= answer.status < 500 and answer.words
            assert answer.headers["grass-error"].isprintable() and answer.headers["grass-error"].isascii()

    play(test)


@pytest.mark.parametrize("what", ["revoked", "expired", "wrong secret", "id of another"])
def test_a_token_that_is_not_good_opens_nothing(what: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        now = fixture.clock.wall()
        more = {"revoked": {"ended": now}, "expired": {"expires": now}}.get(what, {})
        token = await fixture.token("admin", **more)
        if what == "wrong secret":
            token = token[:-1] + ("A" if token[-1] != "A" else "B")
        if what == "id of another":
            token = (await fixture.token("admin")).partition(".")[0] + "." + token.partition(".")[2]
        await walk(fixture, Requester(fixture, token), open_too=False)
        answer = await fixture.ask("GET", "/v1/show", token=token)
        assert answer.status == 401 and "grass login" in answer.words and "grass join" in answer.words
        nothing_happened(fixture)

    play(test)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://grass"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "grass.evil.example"},
        {"Host": "127.0.0.1.evil.example:7500"},
        {"Host": "a.b.lab.example"},
        {"Host": ""},
        {"Content-Encoding": "gzip"},
    ],
    ids=str,
)
def test_other_sites_and_other_names_are_refused_whatever_token_they_show(headers: dict[str, str]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        admin = await fixture.token("admin")
        await walk(fixture, Requester(fixture, admin, headers), open_too=True)
        worker = await fixture.token("worker")
        assert (await fixture.ask("GET", "/v1/worker", token=worker, headers=headers)).status in (400, 403, 415, 421)
        nothing_happened(fixture)

    play(test)


@pytest.mark.parametrize("scope", get_args(Scope))
def test_a_token_opens_what_its_scope_says_and_nothing_else(scope: Scope) -> None:
    opens = {
        "read": {"read"},
        "submit": {"read", "submit"},
        "admin": {"read", "submit", "admin"},
        "worker": {"worker"},
    }[scope]

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token(scope)
        request = Requester(fixture, token)
        for route in fixture.api.routes():
            if route.need in ("open", "page") or route.path == "/v1/logout":
                continue
            path = filled(route.path)
            answer = await request(route.method, path)
            if route.need in opens:
                assert answer.status not in (401, 403), (path, answer)
            else:
                assert answer.status == 403, (path, answer)
                assert "own machine" in answer.words if route.need in ("home", "local") else "scope" in answer.words
        nothing_happened(fixture)

    play(test)


@pytest.mark.parametrize(
    "host", ["grass", "127.0.0.1", "[::1]:7500", "localhost:7500", "broker.example", "x.lab.example."]
)
def test_our_own_names_and_addresses_are_taken(host: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        own = {"Host": host, "Origin": f"https://{host}"}
        assert (await fixture.ask("GET", "/v1/show", token=token, headers=own)).status == 200

    play(test)


def test_two_authorizations_or_two_hosts_are_none() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        for twice in ("Authorization: Bearer x.y\r\n", "Host: grass\r\n"):
            reader, writer = await fixture.connect()
            shown = f"Host: grass\r\nAuthorization: Bearer {token}\r\n"
            writer.write(f"GET /v1/show HTTP/1.1\r\n{shown}{twice}\r\n".encode())
            assert (await answer_from(reader)).status in (400, 401, 421)
            writer.close()

    play(test)


def test_a_token_in_the_address_or_a_cookie_is_none() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin")
        assert (await fixture.ask("GET", f"/v1/show?token={token}")).status == 401
        assert (await fixture.ask("GET", "/v1/show", headers={"Cookie": f"token={token}"})).status == 401
        assert (await fixture.ask("GET", "/v1/show", headers={"Authorization": f"Basic {token}"})).status == 401

    play(test)


def test_the_owner_needs_no_token_on_the_unix_socket_and_is_no_worker() -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert (await fixture.ask("GET", "/v1/show", local=True, headers={"Host": "x"})).status == 200
        assert (await fixture.ask("GET", "/v1/info", local=True)).json["read_only"] is None
        assert (await fixture.ask("GET", "/v1/worker", local=True)).status == 403
        assert (await fixture.ask("DELETE", "/v1/show", local=True)).status == 405
        assert (await fixture.ask("POST", "/v1/stop", {}, local=True)).json == {"running": 0}
        assert fixture.stopped

    play(test)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_refused_on_the_unix_socket_whatever_its_modes() -> None:
    async def test(fixture: BrokerFixture) -> None:
        path = fixture.home / "grass.sock"
        fixture.home.chmod(0o711)
        path.chmod(0o777)

        def ask() -> bytes:
            return answer_to(unix_socket(str(path)), b"GET /v1/show HTTP/1.0\r\n\r\n")

        answer = await asyncio.to_thread(as_user, NOBODY, ask)
        assert b" 403 " in answer and b"belongs to another user" in answer
        assert b" 200 " in await asyncio.to_thread(as_user, 0, ask)

    play(test)


def test_a_route_without_a_known_need_stops_the_daemon_before_anybody_asks() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return document({})

    app = web.Application()
    with pytest.raises(ValueError, match="not a known need"):
        Guard().protect(app, [Route("GET", "/v1/x", handler, "anybody")])  # type: ignore[arg-type]
    app = web.Application()
    app.router.add_get("/v1/forgotten", handler)
    with pytest.raises(ValueError, match="in no table"):
        Guard().protect(app, [])


def test_no_other_socket_is_served() -> None:
    async def test(fixture: BrokerFixture) -> None:
        runner = make_runner(fixture.app, 0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        token = await fixture.token("admin")
        assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 403
        writer.close()
        await runner.cleanup()

    play(test)
