"""A bad line: TCP proxies on the near host that cut, stall, slow or swallow what passes, now or at a byte."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import struct
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal, TypeVar

#: What a direction does with bytes. A direction that swallows has broken its connection for ever.
Mode = Literal["pass", "stall", "swallow", "cut"]
CHUNK = 64 << 10
#: A slow direction passes its bytes in so many pieces a second.
SLOW_PIECES = 20
ANSWER_S = 10.0
_CLONE_NEWNET = 0x40000000
_RESET = struct.pack("ii", 1, 0)
T = TypeVar("T")


class Direction:
    """What happens to the bytes of all connections of a proxy in one direction. Used on the proxies' thread."""

    def __init__(self) -> None:
        self.mode: Mode = "pass"
        self.bytes_s: float | None = None
        self.passed = 0
        self._at: tuple[int, Mode] | None = None
        self._changed = asyncio.Event()

    def set(self, mode: Mode, bytes_s: float | None, at: int) -> None:
        """Change what happens once `at` more bytes have passed."""
        self.bytes_s = bytes_s
        if at:
            self._at = (at, mode)
        else:
            self.mode, self._at = mode, None
            self._changed.set()

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Split off what passes before the next change, and make that change."""
        if self._at is None:
            self.passed += len(data)
            return data, b""
        left, mode = self._at
        first, rest = data[:left], data[left:]
        self.passed += len(first)
        self._at = (left - len(first), mode)
        if len(first) == left:
            self.mode, self._at = mode, None
        return first, rest

    async def stalled(self) -> None:
        """Wait while nothing passes."""
        while self.mode == "stall":
            self._changed.clear()
            await self._changed.wait()


class Proxy:
    """One way to one sshd. The methods may be called on any thread, and have taken effect when they return."""

    def __init__(self, proxies: Proxies, address: str, port: int) -> None:
        self._proxies = proxies
        self._to = (address, port)
        self._there, self._back = Direction(), Direction()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address, self.port = "127.0.0.1", 0
        #: Connections that were taken so far.
        self.taken = 0

    def fault(self, mode: Mode, *, there: bool = True, back: bool = True, at: int = 0) -> None:
        """Do this to the bytes on their way there, back, or both, once `at` more bytes have passed."""
        self._proxies.call(self._fault(mode, there, back, at))

    def slow(self, bytes_s: float) -> None:
        """Pass so many bytes a second in each direction."""
        self._proxies.call(self._fault("pass", True, True, 0, bytes_s))

    def heal(self) -> None:
        """Pass everything again. What was swallowed stays lost."""
        self._proxies.call(self._fault("pass", True, True, 0))

    @property
    def passed(self) -> tuple[int, int]:
        """The bytes that passed there and back, over all connections."""
        return self._there.passed, self._back.passed

    async def listen(self) -> None:
        """Begin to take connections."""
        self._server = await asyncio.start_server(self._take, self.address, 0, backlog=100)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut everything and take no more."""
        self._server.close()
        await self._fault("cut", True, True, 0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _fault(self, mode: Mode, there: bool, back: bool, at: int, bytes_s: float | None = None) -> None:
        for direction, is_meant in ((self._there, there), (self._back, back)):
            if is_meant:
                # A cut is for the connections of now: the next ones pass.
                direction.set("pass" if mode == "cut" and not at else mode, bytes_s, at)
        if mode == "cut" and not at:
            self._cut()

    def _cut(self) -> None:
        for writer in list(self._open):
            sock: socket.socket | None = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.taken += 1
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._to)
            self._open.add(far_writer)
            try:
                await asyncio.gather(
                    self._pump(reader, far_writer, self._there), self._pump(far_reader, writer, self._back)
                )
            finally:
                self._open.discard(far_writer)
                far_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            # A connection that ends badly is what this is for; cancelled is: the proxy is closed.
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        while data := await reader.read(CHUNK):
            while data:
                await direction.stalled()
                if direction.mode == "swallow":
                    break
                if direction.mode == "cut":
                    direction.mode = "pass"
                    self._cut()
                    return
                if direction.bytes_s is not None:
                    piece = max(1, int(direction.bytes_s / SLOW_PIECES))
                    await asyncio.sleep(1 / SLOW_PIECES)
                    first, rest = direction.take(data[:piece])
                    data = rest + data[piece:]
                else:
                    first, data = direction.take(data)
                writer.write(first)
                await writer.drain()
        # As a real line: the end of one direction passes too.
        await direction.stalled()
        if direction.mode == "pass" and writer.can_write_eof():
            writer.write_eof()


class Proxies:
    """All proxies of a test, on one thread that lives in a network namespace."""

    def __init__(self, space: str | None) -> None:
        """`space` is the namespace of the near host; None means: this computer's own network."""
        self._space = space
        self._loop = asyncio.new_event_loop()
        self._all: list[Proxy] = []
        started = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(started,), name="proxies", daemon=True)
        self._thread.start()
        assert started.wait(ANSWER_S), "the proxies did not start"

    def _main(self, started: threading.Event) -> None:
        if self._space is not None:
            space = os.open(Path("/run/netns", self._space), os.O_RDONLY)
            # Only this thread moves there.
            assert ctypes.CDLL(None, use_errno=True).setns(space, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            os.close(space)
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(started.set)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the thread, and return what it returned."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S)

    def proxy(self, address: str, port: int = 22) -> Proxy:
        """Open another way to an sshd."""
        proxy = Proxy(self, address, port)
        self.call(proxy.listen())
        self._all.append(proxy)
        return proxy

    def close(self) -> None:
        """Cut everything, and end the thread."""
        for proxy in self._all:
            self.call(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        self._loop.close()
