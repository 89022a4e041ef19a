"""The broker's side of one worker's connection: frames in and out, and questions with their answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import WSCloseCode, web
from msgspec.structs import replace

from grassq.broker import worker_records
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.core import protocol, worker_checks
from grassq.core.messages import Hello, Order, Report, Start, StorePosition, WorkerMessage
from grassq.core.model import Offer
from grassq.core.protocol import (
    LONG_POLLS_MAX,
    NO_PING,
    Answer,
    ChangeDevices,
    DropOffer,
    FindCut,
    LinkTimes,
    LogCut,
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
from grassq.core.states import RefusedByWorker as RefusedEvent
from grassq.errors import BadInput, GrassError, NotFound, Refused, StoreUnavailable
from grassq.link.connection import ConnectionEnded, FramedConnection, FrameRefused
from grassq.link.socket_pair import SocketEnd

log = logging.getLogger(__name__)

#: Questions to one worker: under way at a time, and waiting for their turn. Long polls are counted separately.
ASKING_MAX = 8
ASKS_WAIT_MAX = 1000
#: After this many messages the engine must have taken them before more are read: the socket fills, the worker waits.
AHEAD_MAX = 256
#: How long a refused worker has to take the reason, and the most bytes that a close frame holds of it.
CLOSE_S = 2.0
CLOSE_BYTES_MAX = 123


class OutOfTouch(Refused):
    """The worker to ask is not connected."""


class WorkerConnection:
    """The broker's side of one worker's connection."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        ws: web.WebSocketResponse | SocketEnd,
        cut: Callable[[], None],
        ticket: str,
        *,
        times: LinkTimes,
        newer: bool,
        restored: StorePosition | None = None,
    ) -> None:
        """`cut` ends the connection under the WebSocket, whatever its buffers hold.

        `restored` is the position by which the worker was admitted, although its ticket is unknown.
        """
        self.name = name
        self.ws = ws
        self._engine = engine
        self._ticket = ticket
        self._restored = restored
        self._times = times
        self._frames = FramedConnection(
            ws,
            protocol.to_broker,
            cut,
            peer=f"worker {name}",
            silence_s=times.silence_s,
            newer=newer,
            check=worker_checks.checked,
        )
        self._waiting = 0
        self._turns = asyncio.Semaphore(ASKING_MAX)
        self._polls = asyncio.Semaphore(LONG_POLLS_MAX)
        #: The worker can be asked what was cut out of a log, and a read of a log has shown that it leaves out bytes.
        self._cuts_logs = self._has_cut = False
        self._wraps = self._keeps_limits = self._changes_devices = False
        #: Whether the worker can leave the logs of a removed job.
        self.keeps_logs = False
        self._ahead = 0
        #: The position that was sent with the last start.
        self._told: StorePosition | None = None
        self.over = asyncio.Event()

    async def serve(self, welcomed: Callable[[], None]) -> None:
        """Serve the connection until it ends; call `welcomed` as soon as the worker can be asked."""
        reason = "closed here"
        try:
            await self._greet()
            welcomed()
            log.info("worker_in_touch worker=%s", self.name)
            while True:
                await self._hear(await self._frames.next())
        except FrameRefused as error:
            reason = str(error)
            await self._refuse(f"refused: {error}")
        except (ConnectionEnded, GrassError) as error:
            reason = str(error)
        finally:
            self._engine.disconnect(self.name, self.send, self._frames.heard)
            log.warning("worker_out_of_touch worker=%s why=%s", self.name, self._frames.reason or reason)
            await self._frames.close(reason)
            self.over.set()

    async def _refuse(self, words: str) -> None:
        """Tell the worker why its connection ends, if it takes the words soon."""
        short = words.encode("ascii", "backslashreplace")[:CLOSE_BYTES_MAX]
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(CLOSE_S):
                await self.ws.close(code=WSCloseCode.POLICY_VIOLATION, message=short)

    def end(self, reason: str) -> None:
        """End the connection."""
        self._frames.end(reason)

    def send(self, order: Order) -> None:
        """Send the worker an order; a connection whose queue is full is closed, and the worker dials again."""
        position = self._engine.status.history.position
        if isinstance(order, Start) and position != self._told:
            # So that a worker that has the attempt can prove it to a broker whose store was restored from a backup.
            self._told = position
            self._frames.send(Pong(NO_PING, position))
        if not self._frames.send(order) and isinstance(order, Start):
            size, most = len(protocol.pack(order)) >> 20, protocol.FRAME_MAX >> 20
            why = f"the job with its environment is {size} MiB; at most {most} are sent"
            self._engine.post(FromWorker(self.name, Report(order.job, RefusedEvent(order.attempt, why, final=True))))

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue of the worker."""
        if offer.wrap is not None and not self._wraps:
            raise Refused(f"worker {self.name} is of an earlier release, which has no --wrap; upgrade it first")
        if offer.has_limit and not self._keeps_limits:
            raise Refused(f"worker {self.name} is of an earlier release, which keeps no time limits; upgrade it first")
        status, *notes = (await self.ask(MakeOffer(offer))).words or ("created",)
        return status, notes

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        """Add, remove, drain or undrain devices of the worker; return notes."""
        if not self._changes_devices:
            raise Refused(f"worker {self.name} is of an earlier release, whose devices cannot be changed; upgrade it")
        return [*(await self.ask(ChangeDevices(asked))).words]

    async def withdraw(self, queue: str) -> None:
        """Delete a queue of the worker."""
        await self.ask(DropOffer(queue))

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a log and its size; at its end wait up to `wait_s` seconds for a change."""
        question = ReadLog(job, attempt, stream, offset, wait_s)
        if not wait_s:
            answer = await self.ask(question)
        elif self._polls.locked():
            raise Refused(f"too many logs of worker {self.name} are followed (limit {LONG_POLLS_MAX:,})")
        else:
            answer = await self._ask(question, self._polls, wait_s + self._times.ask_s)
        self._has_cut |= not answer.data and answer.amount > offset
        return answer.data, answer.amount

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return what was cut out of a log; None if nothing was.

        Only a worker is asked that has left out bytes, and never one of an earlier release: it does not know the
        question.
        """
        if not (self._cuts_logs and self._has_cut):
            return None
        answer = await self.ask(FindCut(job, attempt, stream))
        return LogCut(answer.amount, answer.data) if answer.data else None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a log begin."""
        return (await self.ask(TailLog(job, attempt, stream, lines))).amount

    async def ask(self, question: Question) -> Answer:
        """Return the worker's answer; raise its refusal, or OutOfTouch when it does not answer."""
        if self._waiting >= ASKS_WAIT_MAX:
            raise Refused(f"worker {self.name} has {ASKS_WAIT_MAX} questions to answer already; ask again in a moment")
        self._waiting += 1
        try:
            return await self._ask(question, self._turns, self._times.ask_s)
        finally:
            self._waiting -= 1

    async def _ask(self, question: Question, turns: asyncio.Semaphore, timeout_s: float) -> Answer:
        try:
            async with asyncio.timeout(timeout_s), turns:
                answer = await self._frames.ask(question)
        except TimeoutError:
            raise OutOfTouch(f"worker {self.name} does not answer") from None
        except ConnectionEnded:
            raise OutOfTouch(f"worker {self.name} is out of touch") from None
        if answer.error is not None:
            raise _ERRORS.get(answer.exit_code, GrassError)(answer.error)
        return answer

    async def probe(self) -> bool:
        """Return whether the worker answers; this question overtakes the others."""
        try:
            async with asyncio.timeout(self._times.probe_s):
                await self._frames.ask(Probe(), urgent=True)
        except (TimeoutError, ConnectionEnded):
            return False
        return True

    async def _greet(self) -> None:
        hello = await self._frames.first(self._times.greet_s)
        if not isinstance(hello, Hello):
            raise ConnectionEnded("the first frame is not a hello")
        self._cuts_logs, self._wraps = hello.info.cuts_logs, hello.info.wraps
        self._keeps_limits = hello.info.keeps_limits
        self._changes_devices, self.keeps_logs = hello.info.changes_devices, hello.info.keeps_logs
        self._engine.connect(self.name, self.send)
        # A worker that was admitted because the store was restored must not claim otherwise now.
        self._say(replace(hello, fresh=True, seen=self._restored or hello.seen))
        # A changing call is refused while nothing can be stored, so the hello is stored before it is answered.
        await self._engine.change(lambda batch: None, short=True)
        status = self._engine.status
        self._frames.send(Welcome(status.store_id, status.history.position, self._ticket), urgent=True)
        self._frames.open()

    async def _hear(self, body: Any) -> None:
        match body:
            case Ping(at):
                if self._engine.leads:
                    # Without the lead there is no answer: a broker that may have been replaced must not extend leases.
                    self._frames.send(Pong(at, self._engine.status.history.position), urgent=True)
            case TicketKept(ticket):
                await self._kept(ticket)
            case Hello() | Report():
                self._say(body)
                # A hello costs the engine much more than a report.
                await self._not_too_far_ahead(AHEAD_MAX if isinstance(body, Hello) else 1)

    async def _kept(self, ticket: str) -> None:
        try:
            await self._engine.change(partial(worker_records.kept, worker=self.name, ticket=ticket))
        except StoreUnavailable as error:
            # Both tickets stay valid until this is stored, at a later welcome.
            log.warning("ticket_not_stored worker=%s error=%s", self.name, error)

    def _say(self, message: WorkerMessage) -> None:
        if isinstance(message, Hello):
            # The token decides the name, whatever the worker believes.
            message = replace(message, info=replace(message.info, name=self.name))
        if not self._engine.post(FromWorker(self.name, message)):
            raise ConnectionEnded("the broker's inbox is full")

    async def _not_too_far_ahead(self, more: int) -> None:
        self._ahead += more
        if self._ahead >= AHEAD_MAX:
            self._ahead = 0
            await self._engine.read(lambda batch: None, short=True)


_ERRORS: dict[int, type[GrassError]] = {kind.exit_code: kind for kind in (BadInput, NotFound, Refused)}
