"""The workers on other machines: which may connect, and that each is connected only once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from grassq.broker import worker_records
from grassq.broker.engine import Engine
from grassq.core import protocol
from grassq.core.messages import StorePosition
from grassq.core.protocol import PROTOCOL, LinkTimes
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput, GrassError, Refused
from grassq.link.socket_pair import SocketEnd
from grassq.web.access.principal import CALLER, Principal
from grassq.web.listen.abort import cut
from grassq.web.responses import Denied, refusal
from grassq.web.workers.connection import WorkerConnection

log = logging.getLogger(__name__)

Alarm = Callable[[str], None]

#: How long a worker of this process may be silent: it waits for its machine, and every such wait has an end of its own.
SILENCE_HERE_S = 60.0


class WorkerRegistry:
    """Every worker that is connected from another machine."""

    def __init__(self, engine: Engine, *, times: LinkTimes | None = None, alarm: Alarm = lambda words: None) -> None:
        """`alarm` is called when a second worker connects under one name."""
        self._engine = engine
        self._times = times or LinkTimes()
        self._alarm = alarm
        self._links: dict[str, WorkerConnection] = {}
        self._arriving: set[str] = set()
        #: Workers that this broker has admitted: a ticket newer than a restored store is accepted once only.
        self._admitted: set[str] = set()
        self._rung: dict[str, str] = {}
        #: Called with the name of each worker that has connected.
        self.on_welcome: Callable[[str], None] = lambda worker: None

    def get(self, worker: str) -> WorkerConnection | None:
        """Return the connection of a worker; None if it is not connected."""
        return self._links.get(worker)

    def all(self) -> list[WorkerConnection]:
        """Return the connections of all workers, by name."""
        return [self._links[name] for name in sorted(self._links)]

    async def close(self) -> None:
        """Close every connection; the workers dial again."""
        links = self.all()
        for link in links:
            link.end("the broker stops")
        await asyncio.gather(*(link.over.wait() for link in links))

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """GET /v1/worker: admit a worker and serve its connection, or answer with the reason of a refusal."""
        caller = request[CALLER]
        try:
            theirs = _checked(request, caller)
            link = await self._let_in(request, caller, theirs)
        except GrassError as error:
            log.info("worker_refused worker=%s why=%s", caller.name, error)
            return refusal(error)
        await self._serve(link)
        assert isinstance(link.ws, web.WebSocketResponse)
        return link.ws

    async def serve_here(self, name: str, end: SocketEnd) -> None:
        """Serve a worker of this process, whose machine is elsewhere, until its connection ends; close this end.

        Such a worker needs neither token nor ticket. What it says is checked like the words of any other worker:
        it repeats what its machine says.
        """
        try:
            await self._only_one(name)
            if name in self._arriving:
                raise Refused(f"worker {name} is being admitted over another connection")
            times = replace(self._times, silence_s=max(self._times.silence_s, SILENCE_HERE_S))
            link = WorkerConnection(self._engine, name, end, end.cut, "", times=times, newer=False)
            self._links[name] = link
            await self._serve(link)
        finally:
            await end.close()

    async def _serve(self, link: WorkerConnection) -> None:
        try:
            await link.serve(partial(self.on_welcome, link.name))
        finally:
            if self._links.get(link.name) is link:
                del self._links[link.name]

    async def _let_in(self, request: web.Request, caller: Principal, theirs: int) -> WorkerConnection:
        name = caller.name
        if name in self._arriving:
            raise Denied(503, f"worker {name} is being admitted over another connection")
        self._arriving.add(name)
        try:
            await self._only_one(name)
            ticket, seen = await self._admitted_with(request, name)
            ws = web.WebSocketResponse(timeout=1.0, compress=False, max_msg_size=protocol.FRAME_MAX + 64)
            ws.headers[protocol.PROTOCOL_HEADER] = str(PROTOCOL)
            try:
                await ws.prepare(request)
            except ConnectionError:
                raise Denied(400, f"worker {name} hung up while it was admitted") from None
            end = partial(cut, request.transport)
            link = WorkerConnection(
                self._engine, name, ws, end, ticket, times=self._times, newer=theirs > PROTOCOL, restored=seen
            )
            self._links[name] = link
            return link
        finally:
            self._arriving.discard(name)

    async def _only_one(self, name: str) -> None:
        """Refuse a second connection while the first one answers; end one that does not answer."""
        old = self._links.get(name)
        if old is None:
            return
        if await old.probe():
            words = (
                f"worker {name} is already connected and answers: its home was copied and runs twice; stop one of them,"
                " and `grass join --again` with a new code on that machine"
            )
            self._ring(name, words)
            raise Refused(words)
        old.end("replaced by a new connection")
        await old.over.wait()

    async def _admitted_with(self, request: web.Request, name: str) -> tuple[str, StorePosition | None]:
        """Return the next ticket of a worker, and the position by which the worker proves that the store was restored.

        Only such a proof stands for a ticket that the store does not know, and only once.
        """
        shown = request.headers.get(protocol.TICKET_HEADER, "")
        seen = protocol.position_of(request.headers.get(protocol.SEEN_HEADER, ""))
        restored = name not in self._admitted and self._engine.status.history.is_restored(seen)
        try:
            admit = partial(worker_records.admit, worker=name, shown=shown, restored=restored)
            ticket = await self._engine.change(admit)
        except worker_records.CopiedHome as error:
            self._ring(name, str(error))
            raise
        self._admitted.add(name)
        return ticket, seen if restored else None

    def _ring(self, name: str, words: str) -> None:
        """Raise the alarm once, not at every try: a refused worker tries for ever."""
        if self._rung.get(name) != words:
            self._rung[name] = words
            log.error("worker_copied %s", words)
            self._alarm(words)


def _checked(request: web.Request, caller: Principal) -> int:
    """Return the worker's protocol; raise if the request cannot be admitted."""
    if caller.scope != "worker":
        raise Refused("this needs the token of a worker; `grass join` makes one")
    text = request.headers.get(protocol.PROTOCOL_HEADER, "")
    if not is_number(text, 9):
        raise BadInput(f"a worker says its protocol in the header {protocol.PROTOCOL_HEADER}")
    theirs = int(text)
    if abs(theirs - PROTOCOL) > 1:
        older = "worker" if theirs < PROTOCOL else "broker"
        raise Refused(
            f"protocol mismatch: broker {PROTOCOL}, worker {theirs} (may differ by one);"
            f" update Grass on the {older}'s machine"
        )
    if not web.WebSocketResponse().can_prepare(request):
        raise BadInput("a worker connects by WebSocket")
    return theirs
