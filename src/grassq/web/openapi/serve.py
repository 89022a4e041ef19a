"""GET /openapi.json: the document about the API itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from grassq.web.access.auth import Route
from grassq.web.access.description import Description
from grassq.web.openapi.document import openapi_document


class ApiDocument:
    """The handler. The document is made once, when it is asked for first."""

    def __init__(self, routes: Callable[[], Iterable[Route]]) -> None:
        self._routes = routes
        self._made: asyncio.Future[bytes] | None = None

    def routes(self) -> list[Route]:
        """Return the route; the document holds nothing of this broker."""
        about = Description("daemon", "The OpenAPI document of this API", dict[str, object])
        return [Route("GET", "/openapi.json", self.serve, "open", about=about)]

    async def serve(self, request: web.Request) -> web.Response:
        """Answer with the document."""
        if self._made is None:
            self._made = asyncio.ensure_future(asyncio.to_thread(lambda: openapi_bytes(self._routes())))
        return web.Response(body=await asyncio.shield(self._made), content_type="application/json")


def openapi_bytes(routes: Iterable[Route]) -> bytes:
    """Return the document as it is served, and as it is kept in docs/reference."""
    return msgspec.json.format(msgspec.json.encode(openapi_document(routes)), indent=1) + b"\n"
