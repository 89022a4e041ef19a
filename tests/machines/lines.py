"""Lines to a far side that count what goes over them, or are cut."""

from __future__ import annotations

from typing import Any, cast

from grassq.machines.transport import LinkLost, LocalTransport, Stream


class CountingTransport:
    """Counts what goes over the line."""

    def __init__(self, inner: LocalTransport) -> None:
        self.inner = inner
        self.sent = 0
        self.received = 0
        #: The commands that were started.
        self.commands: list[str] = []

    def open(self, command: str) -> Stream:
        """Start a command."""
        self.commands.append(command)
        return cast(Stream, _Watched(self, self.inner.open(command)))

    def on_sent(self, data: bytes) -> bytes:
        """Note what is about to be sent, and return how much of it may be."""
        self.sent += len(data)
        return data

    def on_received(self, size: int) -> None:
        """Note what has come."""
        self.received += size


class CutTransport(CountingTransport):
    """A line that is cut after a number of bytes, for good, in both directions."""

    def __init__(self, inner: LocalTransport, budget: int) -> None:
        super().__init__(inner)
        self._budget = budget

    def on_sent(self, data: bytes) -> bytes:
        """Let the first bytes pass only."""
        allowed = data[: max(0, self._budget)]
        self._budget -= len(data)
        return super().on_sent(allowed)

    def on_received(self, size: int) -> None:
        """Cut the line when everything is used up."""
        self._budget -= size
        if self._budget < 0:
            raise LinkLost(0, "cut")


class _Watched:
    """A stream whose bytes are counted."""

    def __init__(self, owner: CountingTransport, stream: Stream) -> None:
        self._owner = owner
        self._stream = stream
        self._is_cut = False

    def write(self, data: bytes, within_s: float) -> None:
        self._check()
        allowed = self._owner.on_sent(data)
        self._stream.write(allowed, within_s)
        self._is_cut = len(allowed) < len(data)
        self._check()

    def _check(self) -> None:
        if self._is_cut:
            raise LinkLost(0, "cut")

    def read_line(self, most: int, within_s: float) -> bytes:
        self._check()
        return self._counted(self._stream.read_line(most, within_s))

    def read_exactly(self, size: int, within_s: float) -> bytes:
        self._check()
        return self._counted(self._stream.read_exactly(size, within_s))

    def read_some(self, most: int, within_s: float) -> bytes:
        self._check()
        return self._counted(self._stream.read_some(most, within_s))

    def _counted(self, data: bytes) -> bytes:
        try:
            self._owner.on_received(len(data))
        except LinkLost:
            self._is_cut = True
            raise
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
