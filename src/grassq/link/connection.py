"""One connection between a broker and a worker, seen from either end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from aiohttp import ClientWebSocketResponse, WSMsgType, web
from msgspec import Raw
from msgspec.msgpack import Decoder

from grassq.core import protocol
from grassq.core.protocol import Answer, Ask, CancelAsk, Question
from grassq.errors import GrassError
from grassq.link.socket_pair import SocketEnd

log = logging.getLogger(__name__)

#: Frames that wait to be sent over one connection, in number and in bytes; with more, the connection is cut.
WAITING_MAX = 20_000
WAITING_BYTES_MAX = 64 << 20


class ConnectionEnded(Exception):
    """The connection is over; the message says why."""


class FrameRefused(ConnectionEnded):
    """The peer sent what no peer of ours sends; the connection is over, and the peer is told why."""


class FramedConnection:
    """Sends and receives numbered frames, and matches answers with questions."""

    def __init__(
        self,
        ws: ClientWebSocketResponse | web.WebSocketResponse | SocketEnd,
        decoder: Decoder[Any],
        cut: Callable[[], None],
        *,
        peer: str,
        silence_s: float,
        newer: bool = False,
        check: Callable[[Any], Any] = lambda body: body,
    ) -> None:
        """`cut` ends the connection under the WebSocket, whatever its buffers hold.

        `check` sees every body that comes in, answers too: it returns the body to use, or raises GrassError.

        `peer` names the other end in messages. With `newer`, the peer may send frames that this release does not know.
        After `silence_s` without a frame the peer counts as gone.
        """
        self._ws = ws
        self._decoder = decoder
        self._cut = cut
        self._peer = peer
        self._silence_s = silence_s
        self.newer = newer
        self._check = check
        #: When the last frame came, on the monotonic clock.
        self.heard = time.monotonic()
        #: Why the connection is over; None while it lasts.
        self.reason: str | None = None
        self._out = FrameQueue()
        self._more = asyncio.Event()
        self._count = FrameCounter()
        self._asks: dict[int, asyncio.Future[Answer]] = {}
        self._asked = 0
        self._writing = asyncio.create_task(self._write())

    def open(self) -> None:
        """Allow frames that are not urgent: the greeting is over."""
        self._out.open()
        self._more.set()

    def send(self, body: object, *, urgent: bool = False) -> bool:
        """Queue a frame; return False for a frame above FRAME_MAX, which is not sent.

        An urgent frame overtakes the others. A connection whose queue is full is ended.
        """
        packed = protocol.pack(body)
        if len(packed) > protocol.FRAME_MAX:
            log.error("frame_too_large to=%s frame=%s bytes=%s", self._peer, type(body).__name__, len(packed))
            return False
        if self._out.put(packed, urgent=urgent):
            self._more.set()
        else:
            self.end(f"{self._peer} takes frames too slowly")
        return True

    async def ask(self, question: Question, *, urgent: bool = False) -> Answer:
        """Return the peer's answer to a question; raise ConnectionEnded when the connection ends before.

        When the caller is cancelled, the peer is told that the answer is not needed.
        """
        if self.reason is not None:
            raise ConnectionEnded(self.reason)
        self._asked += 1
        number = self._asked
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asks[number] = future
        try:
            self.send(Ask(number, question), urgent=urgent)
            return await future
        except asyncio.CancelledError:
            if self.reason is None:
                self.send(CancelAsk(number))
            raise
        finally:
            self._asks.pop(number, None)

    async def first(self, within_s: float) -> Any:
        """Return the body of the first frame; raise ConnectionEnded if it does not come within this time."""
        try:
            async with asyncio.timeout(within_s):
                return await self.next()
        except TimeoutError:
            raise self._ended(f"{self._peer} did not greet within {within_s:g} s") from None

    async def next(self) -> Any:
        """Return the body of the next frame that is new and known; raise ConnectionEnded at the end.

        An answer is not returned here: it goes to the `ask` that waits for it.
        """
        while True:
            body = await self._receive()
            if not isinstance(body, Answer):
                return body
            if (future := self._asks.get(body.number)) is not None and not future.done():
                future.set_result(body)

    async def _receive(self) -> Any:
        while True:
            try:
                message = await self._ws.receive(timeout=self._silence_s)
                if message.type is not WSMsgType.BINARY:
                    words = str(message.extra or "") if message.type is WSMsgType.CLOSE else ""
                    raise ValueError(words or f"{self._peer} closed the connection")
                number, body = protocol.read_frame(self._decoder, message.data, newer=self.newer)
                self.heard = time.monotonic()
                is_new = self._count.is_new(number)
            except TimeoutError:
                raise self._ended(f"{self._peer} has been silent for {self._silence_s:g} s") from None
            except (ConnectionError, ValueError) as error:
                raise self._ended(str(error)) from error
            if is_new and body is not None:
                return self._checked(body)
            if is_new:
                log.warning("frame_skipped from=%s number=%s why=it is newer", self._peer, number)

    def _checked(self, body: Any) -> Any:
        try:
            return self._check(body)
        except GrassError as error:
            self._ended(str(error))
            raise FrameRefused(self.reason) from None

    async def _write(self) -> None:
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                while (frame := self._out.take()) is not None:
                    await self._ws.send_bytes(frame)
        except ConnectionError as error:
            self.end(str(error))

    def _ended(self, reason: str) -> ConnectionEnded:
        self.reason = self.reason or reason
        return ConnectionEnded(self.reason)

    def end(self, reason: str) -> None:
        """End the connection: `next` and `ask` raise ConnectionEnded with the first reason given."""
        self._ended(reason)
        self._cut()

    async def close(self, reason: str) -> None:
        """End the connection, stop writing, and fail the questions without an answer."""
        self.end(reason)
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)
        for future in self._asks.values():
            if not future.done():
                future.set_exception(ConnectionEnded(self.reason))
        self._asks.clear()


class FrameCounter:
    """Counts the frames received over one connection."""

    def __init__(self) -> None:
        self._last = 0

    def is_new(self, number: int) -> bool:
        """Return True for the next frame and False for a repeated one; raise ValueError when a frame is missing."""
        if number <= self._last:
            return False
        if number != self._last + 1:
            raise ValueError(f"frame {number} came after frame {self._last}")
        self._last = number
        return True


class FrameQueue:
    """The frames that wait to be sent over one connection, bounded; urgent frames overtake the others."""

    def __init__(self, *, most: int = WAITING_MAX, most_bytes: int = WAITING_BYTES_MAX) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._urgent: deque[bytes] = deque()
        self._rest: deque[bytes] = deque()
        self._bytes = 0
        self._number = 0
        self._open = False

    def put(self, packed: bytes, *, urgent: bool = False) -> bool:
        """Add a packed body; return False when the queue is full, and the connection must end."""
        if len(self._urgent) + len(self._rest) >= self._most or self._bytes + len(packed) > self._most_bytes:
            return False
        (self._urgent if urgent else self._rest).append(packed)
        self._bytes += len(packed)
        return True

    def open(self) -> None:
        """Allow frames that are not urgent: the greeting is over."""
        self._open = True

    def take(self) -> bytes | None:
        """Return the next frame to send, numbered; None when no frame waits."""
        if not self._urgent and not (self._open and self._rest):
            return None
        packed = (self._urgent or self._rest).popleft()
        self._bytes -= len(packed)
        self._number += 1
        return protocol.pack((self._number, Raw(packed)))
