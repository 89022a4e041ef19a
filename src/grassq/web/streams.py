"""Answers that are written bit by bit: long documents, and answers that take long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec
from aiohttp import web

from grassq.errors import Gone, GrassError
from grassq.web.listen.abort import cut
from grassq.web.responses import document, error_document

#: A client whose answer is not ready gets a blank this often, so that it knows that the daemon is at work.
BLANK_S = 1.0

_encode = msgspec.json.encode


class DocumentStream:
    """A JSON document whose last field is a list too long for memory. Each item is on a line of its own."""

    def __init__(self, request: web.Request, head: dict[str, object], name: str) -> None:
        self._request = request
        self._head = _encode({**head, name: []})[:-2] + b"\n"
        self._response = web.StreamResponse()
        self._response.content_type = "application/json"

    async def add(self, items: Sequence[object]) -> None:
        """Write items; a client that reads slowly makes the caller wait."""
        lines = b",\n".join(map(_encode, items))
        if self._response.prepared:
            await self._response.write(b",\n" + lines if lines else b"")
        else:
            await self._response.prepare(self._request)
            await self._response.write(self._head + lines)

    async def end(self) -> web.StreamResponse:
        """Write the end of the document."""
        await self._response.write(b"\n]}\n")
        await self._response.write_eof()
        return self._response

    def cut(self) -> web.StreamResponse:
        """Break the connection off: the client sees that the document is not whole."""
        cut(self._request.transport)
        return self._response


class SlowAnswer:
    """An answer that may take long: while it is made, blanks before the document keep the client waiting.

    A client that has gone changes nothing: what it asked for is done all the same.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._told_at = self._loop.time()
        self._response: web.StreamResponse | None = None

    async def keep_alive(self) -> None:
        """Write a blank if the client has heard nothing for BLANK_S."""
        if self._loop.time() - self._told_at < BLANK_S:
            return
        self._told_at = self._loop.time()
        with contextlib.suppress(ConnectionError):
            if self._response is None:
                self._response = web.StreamResponse()
                self._response.content_type = "application/json"
                await self._response.prepare(self._request)
            await self._response.write(b" ")

    async def end(self, content: dict[str, object]) -> web.StreamResponse:
        """Answer with a document."""
        if self._response is None:
            return document(content)
        with contextlib.suppress(ConnectionError):
            await self._response.write(_encode(content))
            await self._response.write_eof()
        return self._response

    async def refuse(self, error: GrassError) -> web.StreamResponse:
        """Answer with an error; after the first blank its status is in the document only."""
        if self._response is None:
            raise error
        if isinstance(error, Gone):
            cut(self._request.transport)
            return self._response
        return await self.end(error_document(error))
