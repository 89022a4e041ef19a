"""One conversation of a worker with its broker, from the hello to the end of the connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import ClientWebSocketResponse, WSMsgType
from msgspec.structs import replace

from grassq.core import protocol
from grassq.core.messages import Hello, Order, StorePosition, WorkerMessage
from grassq.core.model import Offer
from grassq.core.protocol import (
    Answer,
    Ask,
    DropOffer,
    LinkTimes,
    MakeOffer,
    Ping,
    Pong,
    Probe,
    Question,
    ReadLog,
    SizeLog,
    TailLog,
    TicketKept,
    Welcome,
)
from grassq.errors import GrassError

log = logging.getLogger(__name__)

#: Questions of the broker answered at a time; more are answered with a refusal.
ANSWERING_MAX = 64
WORD_MAX = 200
CLOSE_S = 1.0


class Host(Protocol):
    """The worker a link speaks for."""

    def hello(self, *, fresh: bool = True) -> None:
        """Say, through the link's `send`, who this is; for a fresh connection also what it holds."""

    def deliver(self, order: Order) -> None:
        """An order from the broker."""

    def confirmed(self, at: float) -> None:
        """The broker has heard a ping sent at this time of the boot clock: leases count from it."""

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue."""

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""

    async def read(self, job: int, attempt: int, stream: str, offset: int) -> bytes:
        """What a stream holds from an offset on, up to a bound."""

    async def size(self, job: int, attempt: int, stream: str) -> int:
        """How many bytes a stream holds."""

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Where the last lines of a stream begin."""


class SessionEnded(Exception):
    """The connection is over; the next one begins afresh."""


class TurnedAway(Exception):
    """The broker will not have this worker, for a reason a person must look at."""


class BrokerSession:
    """One connection: frames out and in, heartbeats, and the answers to questions."""

    def __init__(
        self,
        ws: ClientWebSocketResponse,
        host: Host,
        seen: StorePosition | None,
        welcome: Callable[[Welcome], Awaitable[bool]],
        remember: Callable[[StorePosition], None],
        *,
        times: LinkTimes,
        boottime: Callable[[], float],
    ) -> None:
        """`welcome` puts a new ticket on disk and tells whether it could."""
        self._ws = ws
        self._host = host
        self._seen = seen
        self._welcome = welcome
        self._remember = remember
        self._times = times
        self._boottime = boottime
        self._newer = False
        self._out = protocol.FrameQueue()
        self._more = asyncio.Event()
        self._count = protocol.FrameCounter()
        self._answering: set[asyncio.Task[None]] = set()
        self._reason: str | None = None
        self._pinged = self._confirmed = -1.0
        #: Something changed between our hello and the welcome: it is said again then.
        self._again = False
        self._greeted = False
        self.welcomed = False
        #: It was welcomed, though the connection may be over by now.
        self.met = False

    async def run(self) -> None:
        """Talk until the connection is over; Ended says why."""
        tasks = [asyncio.create_task(self._write())]
        try:
            self._host.hello()
            await self._greeting()
            tasks.append(asyncio.create_task(self._ping()))
            while True:
                await self._hear(await self._next())
        except (ConnectionError, ValueError) as error:
            raise SessionEnded(self._reason or str(error)) from error
        except TimeoutError:
            raise SessionEnded(self._reason or f"the broker has been silent for {self._times.silence_s:g} s") from None
        finally:
            self.welcomed = False
            for task in (*tasks, *self._answering):
                task.cancel()
            await asyncio.gather(*tasks, *self._answering, return_exceptions=True)
            self._cut()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._ws.close()

    def send(self, message: WorkerMessage) -> None:
        """Say something to the broker; before the welcome it is dropped: a report is repeated, a hello said again."""
        if self.welcomed:
            self._put(message)
        elif isinstance(message, Hello) and message.fresh and not self._greeted:
            self._greeted = True
            self._put(replace(message, seen=self._seen), urgent=True)
        elif isinstance(message, Hello):
            self._again = True

    def end(self, reason: str) -> None:
        """Give the connection up; `run` ends with this reason."""
        self._reason = self._reason or reason
        self._cut()

    def _cut(self) -> None:
        # Not a close in good order: on a stalled line that would wait for ever.
        if (sock := self._ws.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _put(self, body: object, *, urgent: bool = False) -> None:
        packed = protocol.pack(body)
        if len(packed) > protocol.FRAME_MAX:
            log.error("frame_too_large kind=%s bytes=%s", type(body).__name__, len(packed))
        elif self._out.put(packed, urgent=urgent):
            self._more.set()
        else:
            self.end("the line is too slow for what is to be said")

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await self._more.wait()
                self._more.clear()
                while (frame := self._out.take()) is not None:
                    await self._ws.send_bytes(frame)

    async def _ping(self) -> None:
        while True:
            self._pinged = self._boottime()
            self._put(Ping(self._pinged), urgent=True)
            await asyncio.sleep(self._times.heartbeat_s)

    async def _next(self) -> Any:
        """The body of the next frame that is new and known."""
        while True:
            message = await self._ws.receive(timeout=self._times.silence_s)
            if message.type is not WSMsgType.BINARY:
                words = str(message.extra or "") if message.type is WSMsgType.CLOSE else ""
                raise SessionEnded(self._reason or words or "the broker closed the connection")
            number, body = protocol.read_frame(protocol.to_worker, message.data, newer=self._newer)
            if not self._count.is_new(number):
                continue
            if body is not None:
                return body
            log.warning("frame_skipped number=%s why=the broker is newer", number)

    async def _greeting(self) -> None:
        async with asyncio.timeout(self._times.greet_s):
            body = await self._next()
        if not isinstance(body, Welcome):
            raise SessionEnded("the broker spoke before its welcome")
        if not _is_word(body.ticket) or not _is_word(body.moment.life):
            raise SessionEnded("the broker's welcome makes no sense")
        self._newer = body.protocol > protocol.PROTOCOL
        kept = await self._welcome(body)
        self.welcomed = self.met = True
        self._out.open()
        if kept:
            self._put(TicketKept(body.ticket))
        if self._again:
            self._host.hello(fresh=False)

    async def _hear(self, body: Any) -> None:
        match body:
            case Pong(at, moment):
                if not _is_word(moment.life):
                    raise SessionEnded("the broker's heartbeat makes no sense")
                self._remember(moment)
                # Only what was really sent, and never back: a lease must not be stretched by a strange answer.
                if self._confirmed < at <= self._pinged:
                    self._confirmed = at
                    self._host.confirmed(at)
            case Ask(number, question):
                self._asked(number, question)
            case Welcome():
                raise SessionEnded("the broker welcomed this worker twice")
            case _:
                self._host.deliver(body)

    def _asked(self, number: int, question: Question) -> None:
        if len(self._answering) >= ANSWERING_MAX:
            self._put(Answer(number, error="the worker has too many questions to answer; ask again", exit_code=5))
            return
        task = asyncio.create_task(self._reply(number, question))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _reply(self, number: int, question: Question) -> None:
        try:
            answer = await self._answer(number, question)
        except GrassError as error:
            answer = Answer(number, error=str(error), exit_code=error.exit_code)
        except (OSError, ValueError) as error:
            answer = Answer(number, error=f"the worker could not answer: {error}", exit_code=1)
        self._put(answer)

    async def _answer(self, number: int, question: Question) -> Answer:
        match question:
            case ReadLog(job, attempt, stream, offset):
                data = await self._host.read(job, attempt, stream, offset)
                return Answer(number, data=data[: protocol.READ_MAX])
            case SizeLog(job, attempt, stream):
                return Answer(number, amount=await self._host.size(job, attempt, stream))
            case TailLog(job, attempt, stream, lines):
                return Answer(number, amount=await self._host.tail_offset(job, attempt, stream, lines))
            case MakeOffer(offer):
                status, notes = await self._host.offer(offer)
                return Answer(number, words=(status, *notes))
            case DropOffer(queue):
                await self._host.withdraw(queue)
                return Answer(number)
            case Probe():
                return Answer(number)


def _is_word(text: str) -> bool:
    """Whether this can be said again in a header line, at the next connection."""
    return len(text) <= WORD_MAX and text.isascii() and text.isprintable()
