"""One conversation of a worker with its broker, from the hello to the end of the connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import ClientWebSocketResponse
from msgspec.structs import replace

from grassq.core import protocol
from grassq.core.messages import Hello, Order, StorePosition, WorkerMessage
from grassq.core.model import Offer
from grassq.core.protocol import (
    LONG_POLLS_MAX,
    Answer,
    Ask,
    CancelAsk,
    DropOffer,
    LinkTimes,
    MakeOffer,
    Ping,
    Pong,
    Probe,
    Question,
    ReadLog,
    TailLog,
    TicketKept,
    Welcome,
)
from grassq.errors import GrassError
from grassq.link.connection import ConnectionEnded, FramedConnection
from grassq.worker.machine import AttemptLogs

#: Questions of the broker answered at a time, beside long polls; more are answered with a refusal.
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

    @property
    def logs(self) -> AttemptLogs:
        """The logs of its attempts."""


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
        self._frames = FramedConnection(ws, protocol.to_worker, self._cut, peer="the broker", silence_s=times.silence_s)
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._polling: set[int] = set()
        self._pinged = self._confirmed = -1.0
        #: Something changed between our hello and the welcome: the hello is sent again then.
        self._again = False
        self._greeted = False
        self.welcomed = False
        #: The broker sent its welcome, though the connection may be over by now.
        self.met = False

    async def run(self) -> None:
        """Talk until the connection is over; ConnectionEnded says why."""
        pinging = None
        try:
            self._host.hello()
            await self._greet()
            pinging = asyncio.create_task(self._ping())
            while True:
                await self._hear(await self._frames.next())
        finally:
            self.welcomed = False
            tasks = [*self._answering.values(), *([] if pinging is None else [pinging])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._frames.close("closed here")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._ws.close()

    def send(self, message: WorkerMessage) -> None:
        """Say something to the broker; before the welcome it is dropped: a report is repeated, a hello said again."""
        if self.welcomed:
            self._frames.send(message)
        elif isinstance(message, Hello) and message.fresh and not self._greeted:
            self._greeted = True
            self._frames.send(replace(message, seen=self._seen), urgent=True)
        elif isinstance(message, Hello):
            self._again = True

    def _cut(self) -> None:
        # Not a close in good order: on a stalled line that would wait for ever.
        if (sock := self._ws.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    async def _ping(self) -> None:
        while True:
            self._pinged = self._boottime()
            self._frames.send(Ping(self._pinged), urgent=True)
            await asyncio.sleep(self._times.heartbeat_s)

    async def _greet(self) -> None:
        body = await self._frames.first(self._times.greet_s)
        if not isinstance(body, Welcome):
            raise ConnectionEnded("the broker spoke before its welcome")
        if not _is_word(body.ticket) or not _is_word(body.position.incarnation):
            raise ConnectionEnded("the broker sent an invalid welcome")
        self._frames.newer = body.protocol > protocol.PROTOCOL
        kept = await self._welcome(body)
        self.welcomed = self.met = True
        self._frames.open()
        if kept:
            self._frames.send(TicketKept(body.ticket))
        if self._again:
            self._host.hello(fresh=False)

    async def _hear(self, body: Any) -> None:
        match body:
            case Pong(at, position):
                if not _is_word(position.incarnation):
                    raise ConnectionEnded("the broker sent an invalid heartbeat")
                self._remember(position)
                # Only what was really sent, and never back: a lease must not be stretched by a strange answer.
                if self._confirmed < at <= self._pinged:
                    self._confirmed = at
                    self._host.confirmed(at)
            case Ask(number, question):
                self._asked(number, question)
            case CancelAsk(number):
                if (task := self._answering.get(number)) is not None:
                    task.cancel()
            case Welcome():
                raise ConnectionEnded("the broker welcomed this worker twice")
            case _:
                self._host.deliver(body)

    def _asked(self, number: int, question: Question) -> None:
        is_poll = isinstance(question, ReadLog) and question.wait_s > 0
        count, most = len(self._polling), LONG_POLLS_MAX
        if not is_poll:
            count, most = len(self._answering) - count, ANSWERING_MAX
        if count >= most:
            self._frames.send(Answer(number, error="the worker answers too many questions; ask again", exit_code=5))
            return
        task = asyncio.create_task(self._reply(number, question))
        self._answering[number] = task
        if is_poll:
            self._polling.add(number)
        task.add_done_callback(lambda _: self._answered(number))

    def _answered(self, number: int) -> None:
        del self._answering[number]
        self._polling.discard(number)

    async def _reply(self, number: int, question: Question) -> None:
        try:
            answer = await self._answer(number, question)
        except GrassError as error:
            answer = Answer(number, error=str(error), exit_code=error.exit_code)
        except (OSError, ValueError) as error:
            answer = Answer(number, error=f"the worker could not answer: {error}", exit_code=1)
        self._frames.send(answer)

    async def _answer(self, number: int, question: Question) -> Answer:
        match question:
            case ReadLog(job, attempt, stream, offset, wait_s):
                data, size = await self._host.logs.read(job, attempt, stream, offset, wait_s)
                return Answer(number, data=data[: protocol.READ_MAX], amount=size)
            case TailLog(job, attempt, stream, lines):
                return Answer(number, amount=await self._host.logs.tail_offset(job, attempt, stream, lines))
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
