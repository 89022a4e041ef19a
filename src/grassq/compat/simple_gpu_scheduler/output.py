"""Our stdout: what commands write, in whole lines, whoever else writes at the same time."""

from __future__ import annotations

import os
import select
import stat

#: Of a line without end so much is kept back; a longer one is passed on in pieces.
HELD_MAX = 64 << 10
#: Bytes that wait for a reader; with more, nothing is taken from the daemon until there is room.
PENDING_MAX = 1 << 20
#: A pipe that is ready takes so much at once; more could make us wait.
PIPE_TAKES = select.PIPE_BUF
FILE_TAKES = 1 << 20

#: Who wrote last, if it was not a command.
_OURSELVES = 0


class Output:
    """Collects what several commands write and passes it on as far as the reader takes it."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._takes = FILE_TAKES if is_file(descriptor) else PIPE_TAKES
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        #: The beginning of a line whose end has not come, by job.
        self._held: dict[int, bytes] = {}
        self._pending = bytearray()
        #: Who has passed on the beginning of a line without its end.
        self._open: int | None = None
        #: Why nothing can be written any more.
        self.trouble = ""

    @property
    def is_waiting(self) -> bool:
        """Whether there is something the reader has not taken."""
        return bool(self._pending)

    @property
    def is_midline(self) -> bool:
        """Whether what was passed on last has no end of line."""
        return self._open is not None

    @property
    def has_room(self) -> bool:
        """Whether more may be put in."""
        return len(self._pending) < PENDING_MAX

    def line(self, content: bytes) -> None:
        """A line of our own."""
        self._put(_OURSELVES, content + b"\n")

    def write(self, job: int, data: bytes) -> None:
        """Bytes of a command: passed on up to the last end of a line."""
        data = self._held.pop(job, b"") + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > HELD_MAX:
            end = len(data)
        if end:
            self._put(job, data[:end])
        if end < len(data):
            self._held[job] = data[end:]

    def end(self, job: int) -> None:
        """A command has ended: what it wrote last is passed on as it is."""
        rest = self._held.pop(job, b"")
        if rest:
            self._put(job, rest)
        if self._open == job:
            # Nothing that follows is of this line, not even what a later attempt writes.
            self._open = -1

    def flush(self) -> None:
        """Write as much as the reader takes without making us wait."""
        while self._pending and self._ready.poll(0):
            try:
                written = os.write(self._descriptor, memoryview(self._pending)[: self._takes])
            except BlockingIOError:
                return
            except OSError as error:
                self.trouble = error.strerror or str(error)
                self._pending.clear()
                return
            del self._pending[:written]

    def _put(self, who: int, data: bytes) -> None:
        if self.trouble:
            return
        if self._open is not None and self._open != who:
            self._pending += b"\n"
        self._pending += data
        self._open = None if data.endswith(b"\n") else who


def is_file(descriptor: int) -> bool:
    """Whether what is open there is a plain file."""
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False
