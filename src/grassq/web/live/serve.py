"""GET /v1/live, the WebSocket of a page, and GET /v1/devices."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import msgspec
from aiohttp import WSMsgType, web

from grassq import __version__
from grassq.broker.batch import Batch
from grassq.broker.documents.fleet import DeviceDocument
from grassq.broker.engine import Engine
from grassq.broker.subscriptions import Position, position_text
from grassq.broker.summary.devices import device_documents
from grassq.broker.views import SCHEMA, Document
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.access.auth import Guard, Route
from grassq.web.access.description import Description, Parameter
from grassq.web.access.principal import CALLER, Principal
from grassq.web.events.json_lines import position_in
from grassq.web.live.documents import DevicesDocument, LiveFrameDocument, LiveMessageDocument
from grassq.web.live.hub import Hub
from grassq.web.live.messages import MESSAGE_MAX, MessageRate, read_message
from grassq.web.live.page import OpenPage
from grassq.web.logs.last_lines import LastLines
from grassq.web.responses import document
from grassq.web.workers.directory import WorkerDirectory

#: The open pages of each token, of the owner, and of all together.
PAGES_PER_CALLER, PAGES_MAX = 100, 1000
#: The codes with which a connection is closed.
WRONG, TOO_MANY = 4400, 4429
#: Bytes that may wait in the buffer of a connection before its page counts as slow.
BUFFER_MAX = 1

RESET = b'{"reset":true}'


class Live:
    """The handlers."""

    def __init__(self, engine: Engine, directory: WorkerDirectory, last_lines: LastLines, guard: Guard) -> None:
        self._engine = engine
        self.hub = Hub(engine, directory, last_lines, guard.cut_expired)
        self._open: Counter[str | None] = Counter()

    def routes(self) -> list[Route]:
        """Return the routes."""
        position = Parameter("since", "Go on after this position, `EPOCH.SEQ`, of an earlier connection")
        live = Description(
            "changes",
            "Tell an open page what changes, as it happens",
            LiveFrameDocument,
            "websocket",
            (position,),
            LiveMessageDocument,
        )
        devices = Description("queues and workers", "Every device, and the jobs that hold it", DevicesDocument)
        return [
            Route("GET", "/v1/live", self.serve, "read", waits=True, about=live),
            Route("GET", "/v1/devices", self.devices, "read", about=devices),
        ]

    async def close(self) -> None:
        """Close every page."""
        await self.hub.close()

    async def devices(self, request: web.Request) -> web.Response:
        """Answer with every device of every worker, and the jobs that hold it."""
        found, seq = await self._engine.read(_devices)
        epoch, _ = self._engine.subscriptions.position
        return document({"schema": SCHEMA, "devices": found, "since": position_text((epoch, seq))})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Tell a page what changes, until it goes."""
        since, caller = position_in(request.query.get("since")), request[CALLER]
        ws = web.WebSocketResponse(max_msg_size=MESSAGE_MAX, autoping=False, compress=False, writer_limit=0)
        await ws.prepare(request)
        transport = request.transport
        if isinstance(transport, asyncio.WriteTransport):
            # A frame counts as taken when the kernel has all of it.
            transport.set_write_buffer_limits(BUFFER_MAX)
        page = OpenPage(ws, transport, self.hub.wake, caller)
        if self._open[caller.token] >= PAGES_PER_CALLER or self._open.total() >= PAGES_MAX:
            await page.close(TOO_MANY, f"{self._open[caller.token]} pages are open already; close some first")
            return ws
        self._open[caller.token] += 1
        try:
            await self._serve(ws, page, self._greeting(page, caller, since))
        finally:
            self._open[caller.token] -= 1
            page.is_over = True
            await self.hub.remove(page)
        return ws

    def _greeting(self, page: OpenPage, caller: Principal, since: Position | None) -> list[bytes]:
        """Return the first frames of a page, and begin to tell it what changes."""
        self.hub.add(page)
        epoch, seq = self._engine.subscriptions.position
        page.told_seq = seq
        hello: Document = {"position": position_text((epoch, seq)), "epoch": epoch}
        hello |= {"version": __version__, "scope": caller.scope}
        first = [msgspec.json.encode({"hello": hello})]
        if since is not None and self.hub.knows(since):
            page.since = page.told_seq = since[1]
        elif since is not None:
            first.append(RESET)
        return first

    async def _serve(self, ws: web.WebSocketResponse, page: OpenPage, first: list[bytes]) -> None:
        sending = asyncio.create_task(page.send(first))
        # A page whose frames cannot be sent is gone, whatever it still says.
        sending.add_done_callback(lambda _: page.cut())
        try:
            await self._hear(ws, page)
        except BadInput as error:
            await page.close(WRONG, str(error))
        except Refused as error:
            await page.close(TOO_MANY, str(error))
        except (GrassError, ConnectionError):
            page.cut()
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending

    async def _hear(self, ws: web.WebSocketResponse, page: OpenPage) -> None:
        """Do what a page says until it goes; raise BadInput or Refused for what it may not say."""
        loop = asyncio.get_running_loop()
        rate = MessageRate(loop.time())
        while True:
            message = await ws.receive()
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return
            rate.count(loop.time())
            if message.type is WSMsgType.PING:
                await ws.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                said = read_message(message.data)
                if said.sub is not None:
                    await self.hub.want(page, said.sub)
            elif message.type is not WSMsgType.PONG:
                raise BadInput("a message is text in JSON")


def _devices(batch: Batch) -> tuple[list[DeviceDocument], int]:
    return device_documents(batch), batch.seq
