"""A page as the live stream sees it: it keeps what it is told, by the rules of docs/reference/live.md."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from tests.web.broker_fixture import BrokerFixture

WAIT_S = 20.0


class Page:
    """An open page, and what it would show."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.hello: dict[str, Any] = {}
        self.frames: list[dict[str, Any]] = []
        self.resets = self.beats = self.moves = 0
        self.jobs: dict[int, Any] = {}
        self.parts: dict[str, Any] = {"totals": {}}
        self.log: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.lines_max = 200

    async def sub(self, **wanted: Any) -> None:
        """Say what the page shows now."""
        self.lines_max = wanted.get("log", {}).get("lines", 200)
        await self.ws.send_str(json.dumps({"sub": wanted}))

    async def hear(self) -> dict[str, Any]:
        """Take one message."""
        message = await self.ws.receive(WAIT_S)
        assert message.type is aiohttp.WSMsgType.TEXT, (message, self.ws.close_code)
        told: dict[str, Any] = json.loads(message.data)
        self.resets += "reset" in told
        self.beats += "beat" in told
        self.hello = told.get("hello", self.hello)
        if "seq" in told:
            self._take(told)
        return told

    def _take(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        self.moves += frame.get("moved", False)
        self.jobs |= {int(id_): job for id_, job in frame.get("jobs", {}).items()}
        for name in ("totals", "devices", "queues", "workers", "paused"):
            if name in frame:
                self.parts[name] = frame[name]
        if (log := frame.get("log")) is not None:
            kept = [] if log["is_new"] else [line for line in self.lines if line["begin"] < log["first"]]
            self.lines = (kept + log["lines"])[-self.lines_max :]
            self.log = log

    @property
    def text(self) -> list[str]:
        """The lines of the log that the page shows."""
        return ["".join(text for _, text in line["spans"]) for line in self.lines]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Hear until something is so."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await self.hear()

    async def closed(self) -> tuple[int | None, str]:
        """Hear until the connection is closed; return the code and the words."""
        async with asyncio.timeout(WAIT_S):
            while True:
                message = await self.ws.receive()
                if message.type is aiohttp.WSMsgType.CLOSE:
                    return message.data, message.extra or ""
                if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.ERROR):
                    return self.ws.close_code, ""


@contextlib.asynccontextmanager
async def page(
    fixture: BrokerFixture, query: str = "", *, token: str | None = None, **wanted: Any
) -> AsyncIterator[Page]:
    """Open a page: the owner's on the unix socket, or one with a token over TLS; it has heard the hello."""
    path = str(fixture.home / "grass.sock")
    connector = aiohttp.UnixConnector(path) if token is None else aiohttp.TCPConnector(ssl=fixture.client_context())
    url = f"http://grass/v1/live{query}" if token is None else f"https://127.0.0.1:{fixture.port}/v1/live{query}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.ws_connect(url, headers=headers) as ws,
    ):
        opened = Page(ws)
        await opened.until(lambda: bool(opened.hello))
        if wanted:
            await opened.sub(**wanted)
        yield opened
