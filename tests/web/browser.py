"""A browser on this machine, as far as requests go: it has one cookie, and sends what a browser sends for our page."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.web.broker_fixture import Answer, BrokerFixture, exchange, key


class Browser:
    """Asks at the loopback door, or at the TLS port."""

    def __init__(self, fixture: BrokerFixture, *, tls: bool = False, cookie: str = "") -> None:
        self.fixture, self.tls, self.cookie = fixture, tls, cookie
        self.port = fixture.port if tls else fixture.page_port
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"{'https' if tls else 'http'}://{self.host}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that stays open."""
        context = self.fixture.client_context() if self.tls else None
        streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        self.fixture.writers.append(streams[1])
        return streams

    def headers(self, method: str, **changed: str) -> dict[str, str]:
        """What the page sends, unless `changed` says otherwise; an empty header is left out."""
        sent = {"Host": self.host, "Sec-Fetch-Site": "same-origin", "Cookie": self.cookie}
        if method not in ("GET", "HEAD"):
            sent["Origin"] = self.origin
        return sent | {name.replace("_", "-"): value for name, value in changed.items()}

    async def ask(self, method: str, path: str, body: object = None, **changed: str) -> Answer:
        """One request on a connection of its own."""
        streams = await self.connect()
        try:
            return await exchange(*streams, method, path, body, None, self.headers(method, **changed))
        finally:
            streams[1].close()

    async def log_in(self, code: str) -> Answer:
        """Use a code, and keep the cookie."""
        answer = await self.ask("POST", "/v1/session", {"code": code})
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


async def a_link(fixture: BrokerFixture, scope: str | None = None, token: str | None = None, **more: object) -> Any:
    """What `grass web` is answered: by the owner, or with a token."""
    body = {"key": key(), **({"scope": scope} if scope else {}), **more}
    answer = await fixture.ask("POST", "/v1/session/link", body, token, local=token is None)
    assert answer.status == 200, answer
    return answer.json


async def a_page(fixture: BrokerFixture, scope: str = "admin", *, tls: bool = False) -> Browser:
    """A browser with a session of the owner."""
    browser = Browser(fixture, tls=tls)
    assert (await browser.log_in((await a_link(fixture, scope))["code"])).status == 200
    return browser
