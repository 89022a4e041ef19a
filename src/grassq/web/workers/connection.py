"""One worker's connection, as the broker sees it: frames in and out, and questions with their answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import WSMsgType, web
from msgspec.structs import replace

from grassq.broker import worker_tickets
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.core import protocol
from grassq.core.messages import Hello, Order, Recalled, Report, Start, WorkerMessage
from grassq.core.protocol import Answer, Ask, LinkTimes, Ping, Pong, Probe, Question, TicketKept, Welcome
from grassq.core.states import RefusedByWorker as RefusedEvent
from grassq.errors import BadInput, GrassError, NotFound, Refused, StoreUnavailable

log = logging.getLogger(__name__)

#: Questions to one worker: under way at a time, and waiting for their turn.
ASKING_MAX = 8
ASKS_WAIT_MAX = 1000
#: After so many messages a link waits until the engine has taken them in: then its socket fills, and the worker waits.
AHEAD_MAX = 256


class OutOfTouch(Refused):
    """A worker that would have to be asked is not connected."""


class _Ended(Exception):
    """A connection is over, for this reason."""


class WorkerConnection:
    """One worker's connection, as the broker sees it."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        ws: web.WebSocketResponse,
        cut: Callable[[], None],
        ticket: str,
        *,
        times: LinkTimes,
        newer: bool,
    ) -> None:
        """`cut` ends the connection under the WebSocket, whatever waits in its buffers."""
        self.name = name
        self.ws = ws
        self.heard = time.monotonic()
        self._engine = engine
        self._cut = cut
        self._ticket = ticket
        self._times = times
        self._newer = newer
        self._out = protocol.FrameQueue()
        self._more = asyncio.Event()
        self._count = protocol.FrameCounter()
        self._reason: str | None = None
        self._asks: dict[int, asyncio.Future[Answer]] = {}
        self._asked = 0
        self._waiting = 0
        self._turns = asyncio.Semaphore(ASKING_MAX)
        self._ahead = 0
        self.over = asyncio.Event()

    async def serve(self, welcomed: Callable[[], None]) -> None:
        """Talk until the connection is over; `welcomed` is called once the worker may be asked things."""
        writing = asyncio.create_task(self._write())
        try:
            await self._greet()
            welcomed()
            log.info("worker_in_touch worker=%s", self.name)
            while True:
                await self._hear(await self._next())
        except TimeoutError:
            self._reason = self._reason or f"silent for {self._times.silence_s:g} s"
        except (_Ended, GrassError, ConnectionError, ValueError) as error:
            self._reason = self._reason or str(error)
        finally:
            self._engine.disconnect(self.name, self.send, self.heard)
            log.warning("worker_out_of_touch worker=%s why=%s", self.name, self._reason or "closed here")
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            for future in self._asks.values():
                if not future.done():
                    future.set_exception(self._out_of_touch())
            self._asks.clear()
            self.over.set()
            self._cut()

    def end(self, reason: str) -> None:
        """Give the connection up."""
        self._reason = self._reason or reason
        self._cut()

    def send(self, order: Order) -> None:
        """Give the worker an order; a connection that cannot take it is closed, and the next begins afresh."""
        packed = protocol.pack(order)
        if len(packed) <= protocol.FRAME_MAX:
            self._put(packed)
            return
        log.error("order_too_large worker=%s order=%s bytes=%s", self.name, type(order).__name__, len(packed))
        if isinstance(order, Start):
            why = (
                f"the job with its environment is {len(packed) >> 20} MiB; at most {protocol.FRAME_MAX >> 20} are sent"
            )
            self._engine.post(FromWorker(self.name, Report(order.job, RefusedEvent(order.attempt, why, final=True))))

    async def ask(self, question: Question, timeout_s: float | None = None) -> Answer:
        """The worker's answer; what it refuses is raised here, and so is that it is out of touch."""
        if self._waiting >= ASKS_WAIT_MAX:
            raise Refused(f"worker {self.name} has {ASKS_WAIT_MAX} questions to answer already; ask again in a moment")
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s or self._times.ask_s), self._turns:
                answer = await self._asking(question)
        except TimeoutError:
            raise OutOfTouch(f"worker {self.name} does not answer") from None
        finally:
            self._waiting -= 1
        if answer.error is not None:
            raise _ERRORS.get(answer.exit_code, GrassError)(answer.error)
        return answer

    async def probe(self) -> bool:
        """Whether the worker still answers; not behind other questions."""
        try:
            async with asyncio.timeout(self._times.probe_s):
                await self._asking(Probe())
        except (TimeoutError, OutOfTouch):
            return False
        return True

    async def _asking(self, question: Question) -> Answer:
        if self.over.is_set():
            raise self._out_of_touch()
        self._asked += 1
        number = self._asked
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asks[number] = future
        try:
            self._put(protocol.pack(Ask(number, question)), urgent=isinstance(question, Probe))
            return await future
        finally:
            self._asks.pop(number, None)

    def _out_of_touch(self) -> OutOfTouch:
        return OutOfTouch(f"worker {self.name} is out of touch")

    def _put(self, packed: bytes, *, urgent: bool = False) -> None:
        if self._out.put(packed, urgent=urgent):
            self._more.set()
        else:
            self.end("it takes what it is sent too slowly")

    async def _write(self) -> None:
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                while (frame := self._out.take()) is not None:
                    await self.ws.send_bytes(frame)
        except ConnectionError as error:
            self.end(str(error))

    async def _greet(self) -> None:
        async with asyncio.timeout(self._times.greet_s):
            hello = await self._next()
        if not isinstance(hello, Hello):
            raise _Ended("it did not begin with a hello")
        self._engine.connect(self.name, self.send)
        self._say(replace(hello, fresh=True))
        # A changing call, for it is refused while nothing can be stored: then the hello is on disk when it is answered.
        await self._engine.change(lambda batch: None)
        decider = self._engine.decider
        self._put(protocol.pack(Welcome(decider.store_id, decider.moment, self._ticket)), urgent=True)
        self._out.open()
        self._more.set()

    async def _next(self) -> Any:
        """The body of the next frame that is new and known."""
        while True:
            message = await self.ws.receive(timeout=self._times.silence_s)
            if message.type is not WSMsgType.BINARY:
                raise _Ended("the connection was closed")
            number, body = protocol.read_frame(protocol.to_broker, message.data, newer=self._newer)
            self.heard = time.monotonic()
            if not self._count.is_new(number):
                continue
            if body is not None:
                return body
            log.warning("frame_skipped worker=%s number=%s why=it is newer", self.name, number)

    async def _hear(self, body: Any) -> None:
        match body:
            case Ping(at):
                if self._engine.leads:
                    # Else no word: what a broker says that may have been replaced must not prolong a lease.
                    self._put(protocol.pack(Pong(at, self._engine.decider.moment)), urgent=True)
            case Answer(number):
                if (future := self._asks.get(number)) is not None and not future.done():
                    future.set_result(body)
            case TicketKept(ticket):
                await self._kept(ticket)
            case Hello() | Report() | Recalled():
                self._say(body)
                await self._not_too_far_ahead()

    async def _kept(self, ticket: str) -> None:
        try:
            await self._engine.change(partial(worker_tickets.kept, worker=self.name, ticket=ticket))
        except StoreUnavailable as error:
            # The old ticket and the new one are both good until this can be stored, at a later welcome.
            log.warning("ticket_not_stored worker=%s error=%s", self.name, error)

    def _say(self, message: WorkerMessage) -> None:
        if isinstance(message, Hello):
            # The name is the token's, whatever the worker believes.
            message = replace(message, info=replace(message.info, name=self.name))
        if not self._engine.post(FromWorker(self.name, message)):
            raise _Ended("too much waits to be decided")

    async def _not_too_far_ahead(self) -> None:
        self._ahead += 1
        if self._ahead >= AHEAD_MAX:
            self._ahead = 0
            await self._engine.read(lambda batch: None)


_ERRORS: dict[int, type[GrassError]] = {kind.exit_code: kind for kind in (BadInput, NotFound, Refused)}
