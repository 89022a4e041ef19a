"""Writes to stdout: the output of several commands, mixed in whole lines, as text and colours if it is a terminal."""

from __future__ import annotations

import os
import select
import stat

from grassq.cli.logs.live_view import LineView
from grassq.cli.render import clean_bytes

#: Bytes of an unfinished line that are kept back; a longer line is written in pieces.
HELD_MAX = 64 << 10
#: Bytes that wait for the reader of stdout; above this limit no event is taken.
PENDING_MAX = 1 << 20
#: Bytes per write to a pipe; a longer write could block.
PIPE_TAKES = select.PIPE_BUF
FILE_TAKES = 1 << 20

#: Used as the job id of lines that this program writes.
_OURSELVES = 0


class Output:
    """Collects the output of commands and writes it without blocking."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._takes = FILE_TAKES if is_file(descriptor) else PIPE_TAKES
        #: For a terminal, what is shown of each job that has written.
        self._views: dict[int, LineView] | None = {} if os.isatty(descriptor) else None
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        #: The unfinished line of each job.
        self._held: dict[int, bytes] = {}
        self._pending = bytearray()
        #: The job whose unfinished line was written last; None after a whole line.
        self._open: int | None = None
        #: The reason why stdout cannot be written.
        self.trouble = ""

    @property
    def is_waiting(self) -> bool:
        """Whether bytes wait for the reader."""
        return bool(self._pending)

    @property
    def is_midline(self) -> bool:
        """Whether the last line written is unfinished."""
        return self._open is not None

    @property
    def has_room(self) -> bool:
        """Whether fewer than PENDING_MAX bytes wait."""
        return len(self._pending) < PENDING_MAX

    def line(self, content: bytes) -> None:
        """Write a line of this program."""
        self._put(_OURSELVES, (content if self._views is None else clean_bytes(content)) + b"\n")

    def write(self, job: int, data: bytes) -> None:
        """Take bytes of a command; write them up to the last line end."""
        if self._views is not None:
            if data:
                self._view(job).feed(data)
            return
        data = self._held.pop(job, b"") + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > HELD_MAX:
            end = len(data)
        if end:
            self._put(job, data[:end])
        if end < len(data):
            self._held[job] = data[end:]

    def end(self, job: int) -> None:
        """Write the unfinished line of a command that has ended."""
        rest = self._held.pop(job, b"")
        if self._views and (view := self._views.pop(job, None)):
            view.feed(b"")
        if rest:
            self._put(job, rest)
        if self._open == job:
            # Even the output of a later attempt starts on a new line.
            self._open = -1

    def flush(self) -> None:
        """Write as much as the reader takes without blocking."""
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

    def _view(self, job: int) -> LineView:
        assert self._views is not None
        if job not in self._views:

            def write(line: str) -> None:
                self._put(job, line.encode("utf-8", "backslashreplace") + b"\n")

            self._views[job] = LineView(write, coloured=True)
        return self._views[job]

    def _put(self, job: int, data: bytes) -> None:
        if self.trouble:
            return
        if self._open is not None and self._open != job:
            self._pending += b"\n"
        self._pending += data
        self._open = None if data.endswith(b"\n") else job


def is_file(descriptor: int) -> bool:
    """Return whether the descriptor is a plain file."""
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False
