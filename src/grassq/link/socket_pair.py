"""A connection within one process: two event loops on two threads talk as a worker and its broker do over a network."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from aiohttp import WSMessage, WSMsgType

from grassq.core.protocol import FRAME_MAX

_LENGTH = struct.Struct("!I")
#: What a frame may have beyond the body that `FRAME_MAX` bounds.
_OVERHEAD = 64


class SocketEnd:
    """One end of the connection, shaped like the part of a WebSocket that a link uses.

    Made on any thread; used on the event loop that first reads or writes.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._opening = asyncio.Lock()

    async def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._opening:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await asyncio.open_connection(sock=self._sock)
                # A frame counts as sent when the kernel has it: `close` would lose what is kept here.
                self._writer.transport.set_write_buffer_limits(high=0)
        return self._reader, self._writer

    async def send_bytes(self, frame: bytes) -> None:
        """Send a frame; wait while the other end is behind."""
        _, writer = await self._streams()
        writer.write(_LENGTH.pack(len(frame)) + frame)
        await writer.drain()

    async def receive(self, timeout: float | None = None) -> WSMessage:  # noqa: ASYNC109  # as a WebSocket has it
        """Return the next frame, or that the connection is closed."""
        reader, _ = await self._streams()
        try:
            async with asyncio.timeout(timeout):
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                if length > FRAME_MAX + _OVERHEAD:
                    raise ConnectionError(f"a frame of {length:,} bytes; at most {FRAME_MAX:,} are sent")
                return WSMessage(WSMsgType.BINARY, await reader.readexactly(length), None)
        except asyncio.IncompleteReadError:
            return WSMessage(WSMsgType.CLOSED, None, None)

    async def close(self, *, code: int = 1000, message: bytes = b"") -> bool:
        """Close the connection; the other end learns no reason, because both ends are this process."""
        self.cut()
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
        else:
            self._sock.close()
        return True

    def cut(self) -> None:
        """End the connection at once, from any thread."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def get_extra_info(self, name: str) -> socket.socket | None:
        """Return the socket, as a WebSocket does."""
        return self._sock if name == "socket" else None


def socket_pair() -> tuple[SocketEnd, SocketEnd]:
    """Return the two ends of a new connection."""
    ours, theirs = socket.socketpair()
    return SocketEnd(ours), SocketEnd(theirs)
