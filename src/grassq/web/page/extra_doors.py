"""GET /v1/session/door: the page at another port of loopback, as long as the request lasts. GPUPeasy's page is one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypedDict
from urllib.parse import quote

import msgspec
from aiohttp import web

from grassq.core.names import check_name
from grassq.core.syntax.addresses import PORT_MAX
from grassq.errors import BadInput, Refused
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.listen.abort import cut, write_until_hangup
from grassq.web.listen.loopback import LoopbackDoor
from grassq.web.page.sessions import Sessions
from grassq.web.requests import number

#: How many doors there may be beside the one of the home.
DOORS_MAX = 4
#: A line is sent this often, so that both ends notice a lost connection.
HEARTBEAT_S = 15.0
#: Where the page of GPUPeasy begins.
GPUPEASY = "/gpupeasy"


class DoorDocument(TypedDict):
    """The door is open at this port. The line is sent again from time to time."""

    port: int


class ExtraDoors:
    """The handler of the route."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def routes(self) -> list[Route]:
        """Return the routes."""
        about = Description(
            "web page",
            "Serve the page at another port of this machine's loopback, beginning with GPUPeasy's lists, until the "
            "request ends",
            DoorDocument,
            "json lines",
            (
                Parameter("port", "The port", int, is_required=True),
                Parameter("queue", "The queue that the page shows first", default="gpupeasy"),
            ),
        )
        return [Route("GET", "/v1/session/door", self.serve, "local", waits=True, about=about)]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Open the door, and close it when the reader has gone."""
        port = number(request, "port", 0, PORT_MAX)
        if port == 0:
            raise BadInput(f"port is a number from 1 to {PORT_MAX}")
        queue = request.query.get("queue")
        begins_at = GPUPEASY if queue is None else f"{GPUPEASY}?queue={quote(check_name(queue, 'queue name'))}"
        main = self._sessions.door
        if main is None:
            raise Refused("this daemon serves no page")
        if port in (main.port, *self._sessions.extra_ports) or len(self._sessions.extra_ports) >= DOORS_MAX:
            raise Refused(
                f"port {port} serves the page already, or {DOORS_MAX} other ports do; choose another: --port N"
            )
        self._sessions.extra_ports.add(port)
        door = main.beside(begins_at)
        try:
            await door.open(port)
            return await _hold(request, door)
        finally:
            self._sessions.extra_ports.discard(port)
            await door.close()


async def _hold(request: web.Request, door: LoopbackDoor) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    response.force_close()
    await response.prepare(request)

    async def beat() -> None:
        line = msgspec.json.encode({"port": door.port}) + b"\n"
        while True:
            async with asyncio.timeout(HEARTBEAT_S):
                await response.write(line)
            await asyncio.sleep(HEARTBEAT_S)

    try:
        with contextlib.suppress(OSError, TimeoutError):
            await write_until_hangup(request, beat())
    finally:
        cut(request.transport)
    return response
