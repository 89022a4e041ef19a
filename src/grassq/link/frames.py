"""The frames of one connection: the count of received ones, and the queue of those to send."""

from __future__ import annotations

from collections import deque

from msgspec import Raw

from grassq.core.protocol import pack

#: Frames that wait to be sent over one connection, in number and in bytes; with more, the connection is cut.
WAITING_MAX = 20_000
WAITING_BYTES_MAX = 64 << 20


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
        return pack((self._number, Raw(packed)))
