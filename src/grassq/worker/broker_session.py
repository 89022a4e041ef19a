"""One connection of a worker to its broker, from the hello to its end."""

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
    ChangeDevices,
    DropOffer,
    FindCut,
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
from grassq.core.resources.device_changes import DeviceChange
from grassq.errors import GrassError
from grassq.link.connection import ConnectionEnded, FramedConnection
from grassq.link.socket_pair import SocketEnd
from grassq.run.lease_timer import boottime
from grassq.worker.machine import AttemptLogs

#: Questions of the broker that are answered at a time, without long polls; more get a refusal.
ANSWERING_MAX = 64
WORD_MAX = 200
CLOSE_S = 1.0


class Host(Protocol):
    """The worker that a link connects."""

    def hello(self, *, fresh: bool = True) -> None:
        """Send a hello through the link's `send`; for a fresh connection with the held attempts."""

    def deliver(self, order: Order) -> None:
        """Execute an order of the broker."""

    def confirmed(self, at: float) -> None:
        """Renew leases: the broker has answered a ping that was sent at this time of the boot clock."""

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue."""

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        """Add, remove, drain or undrain devices; return notes."""

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""

    @property
    def logs(self) -> AttemptLogs:
        """The logs of the worker's attempts."""


class TurnedAway(Exception):
    """The broker refuses this worker for a reason that a person must resolve."""


class BrokerSession:
    """One connection: frames in both directions, heartbeats, and answers to questions."""

    def __init__(
        self,
        ws: ClientWebSocketResponse | SocketEnd,
        host: Host,
        seen: StorePosition | None,
        welcome: Callable[[Welcome], Awaitable[bool]],
        remember: Callable[[StorePosition], None],
        *,
        times: LinkTimes,
    ) -> None:
        """`welcome` saves a new ticket and returns whether it could."""
        self._ws = ws
        self._host = host
        self._seen = seen
        self._welcome = welcome
        self._remember = remember
        self._times = times
        self._frames = FramedConnection(ws, protocol.to_worker, self._cut, peer="the broker", silence_s=times.silence_s)
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._polling: set[int] = set()
        self._pinged = self._confirmed = -1.0
        #: The worker's description changed between the hello and the welcome, so the hello is sent again.
        self._again = False
        self._greeted = False
        self.welcomed = False
        #: The broker sent its welcome; stays True after the connection has ended.
        self.met = False

    async def run(self) -> None:
        """Serve the connection until it ends; raise ConnectionEnded with the reason."""
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
        """Send a message. Before the welcome it is dropped: a report is repeated, and a hello is sent again."""
        if self.welcomed:
            self._frames.send(message)
        elif isinstance(message, Hello) and message.fresh and not self._greeted:
            self._greeted = True
            self._frames.send(replace(message, seen=self._seen), urgent=True)
        elif isinstance(message, Hello):
            self._again = True

    def _cut(self) -> None:
        # An orderly close would wait for ever on a stalled connection.
        if (sock := self._ws.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    async def _ping(self) -> None:
        while True:
            self._pinged = boottime()
            self._frames.send(Ping(self._pinged), urgent=True)
            await asyncio.sleep(self._times.heartbeat_s)

    async def _greet(self) -> None:
        body = await self._frames.first(self._times.greet_s)
        if not isinstance(body, Welcome):
            raise ConnectionEnded("the broker sent a frame before its welcome")
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
                # Accept only pings that were sent, in order: a wrong answer must not extend a lease.
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
            case FindCut(job, attempt, stream):
                cut = await self._host.logs.cut(job, attempt, stream)
                return Answer(number) if cut is None else Answer(number, data=cut.mark, amount=cut.end)
            case MakeOffer(offer):
                status, notes = await self._host.offer(offer)
                return Answer(number, words=(status, *notes))
            case ChangeDevices(asked):
                return Answer(number, words=tuple(await self._host.change_devices(asked)))
            case DropOffer(queue):
                await self._host.withdraw(queue)
                return Answer(number)
            case Probe():
                return Answer(number)


def _is_word(text: str) -> bool:
    """Return whether a text can be sent back in a header line of the next connection."""
    return len(text) <= WORD_MAX and text.isascii() and text.isprintable()
