"""Keeps the log of a running attempt within its limit: the middle is cut out of the file, head and tail stay.

The command writes straight into its log, so nothing here can block the command. While the shim waits, it looks at the
size of the log; above the limit it punches a hole into the file. The bytes after the hole keep their offsets, so every
reader keeps its place. What is cut is noted in the run dir before it is punched: a reader that finds zeros finds the
note too. Of the limit, the first half and between three eighths and a half at the end stay.

A command that truncates its log, or writes into the hole, begins with a log that has no cut. A log that the command
has removed or replaced is still kept within its limit while the command writes to it, but nothing is noted then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from grassq import atomic_files
from grassq.run import attempt_notes, processes, rundir

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Seconds until the first look at a log, and the bounds of the pauses between two looks.
FIRST_S, PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 0.01, 1.0
#: A look comes before the writer, at its fastest of late, has written 1/LEAD of the limit, and 1/LEAST near the limit.
LEAD, LEAST = 8, 64
#: Bytes that are cut at a time: while a hole is punched the writer waits for the file system, some milliseconds.
STEP = 32 << 20
#: Times that are enough for any cut: a huge log is one that was written with a hole, which costs nothing to cut.
STEPS_MAX = 16
#: A multiple of the block size of every file system.
BLOCK = 64 << 10
#: Seconds of cutting after which the shim looks at its other duties.
TURN_S = 0.2
#: Seconds of cutting when the attempt has ended; what is left then stays.
LAST_S = 10.0
#: The part of the time that may be spent on counting lines, the bytes counted at a time, and the first allowance.
COUNT_SHARE, COUNT_BYTES, COUNT_FIRST_S = 0.1, 256 << 10, 0.02
#: A cut begins and ends at the end of a line that is within these bytes, and within 1/16 of the limit.
LINE_BYTES = 64 << 10

_PUNCH_AND_KEEP_SIZE = 0x02 | 0x01
_CANNOT_PUNCH = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)


class LogCap:
    """One stream of the current attempt, and what was cut out of it."""

    __slots__ = ("_at", "_begin", "_budget_s", "_end", "_exact", "_fd", "_limit", "_lines", "_path", "_pause_s",
                 "_rate", "_size", "_stream", "_unnoted", "failure")  # fmt: skip

    def __init__(self, path: str, stream: str, limit: int) -> None:
        """Open the stream of the attempt at `path`. A file that is not ours alone is left as it is."""
        self.failure: str | None = None  # why the log cannot be cut
        self._path = path
        self._stream = stream
        self._limit = limit
        self._pause_s = FIRST_S
        self._at = time.monotonic()
        self._budget_s = COUNT_FIRST_S
        self._size = 0
        self._rate = 0.0
        self._forget()
        self._fd = -1
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | atomic_files.OURS
            self._fd = os.open(rundir.log_path(path, stream), flags)

    def close(self) -> None:
        """Close the log."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def look(self) -> float:
        """Cut the log if it is above its limit; return the seconds until the next look."""
        if self._fd < 0:
            return PAUSE_MAX_S
        now = time.monotonic()
        try:
            size = self._measure(now)
            if not self._cut(size, now + TURN_S):
                return 0.0
        except OSError as error:
            self._give_up(error)
            return PAUSE_MAX_S
        room = self._limit - (size - self._end + self._begin)
        ahead = max(self._limit // LEAST, min(room, self._limit // LEAD))
        fast = ahead / self._rate if self._rate else PAUSE_MAX_S
        self._pause_s = max(PAUSE_MIN_S, min(2 * self._pause_s, PAUSE_MAX_S, fast))
        return self._pause_s

    def last_look(self) -> None:
        """Cut the log of an attempt that has ended, and close it."""
        if self._fd < 0:
            return
        now = time.monotonic()
        try:
            self._cut(self._measure(now), now + LAST_S)
        except OSError as error:
            self._give_up(error)
        self.close()

    def _give_up(self, error: OSError) -> None:
        if error.errno in _CANNOT_PUNCH:
            self.failure = f"its log is above the limit, and the file system cannot cut it: {error.strerror}"
            self.close()

    def _forget(self) -> None:
        self._begin = self._end = self._lines = 0
        self._exact = True
        self._unnoted = False

    def _measure(self, now: float) -> int:
        """Return the size of the log; note how fast it grows, and whether it has begun again."""
        size = os.fstat(self._fd).st_size
        passed = max(now - self._at, 1e-3)
        self._rate = max((size - self._size) / passed, self._rate / 2)
        self._budget_s = min(self._budget_s + COUNT_SHARE * passed, 1.0)
        self._at, self._size = now, size
        # Text in the hole: the log was truncated and has grown past it again.
        if self._end and (size < self._end or os.pread(self._fd, 64, self._end - 64).strip(b"\0")):
            self._forget()
            attempt_notes.forget_cut(self._path, self._stream)
        return size

    def _cut(self, size: int, until: float) -> bool:
        """Cut the middle out of a log of this size; return False if the time was over before all of it was cut."""
        if self._unnoted:
            self._note()
        if size - (self._end - self._begin) <= self._limit:
            return True
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            return True  # another name of the file: it is not only a log
        if not self._end:
            self._begin = self._end = self._line_before(self._limit // 2)
        last = self._line_after(size - self._limit * 3 // 8)
        step = max(STEP, (last - self._end) // STEPS_MAX)
        while self._end < last:
            if time.monotonic() >= until:
                return False
            self._cut_step(min(last, self._end + step), is_named=status.st_nlink > 0)
        return True

    def _cut_step(self, end: int, *, is_named: bool) -> None:
        begin, lines = self._end, self._lines
        self._count(begin, end)
        self._end = end
        if is_named:
            self._note()
        try:
            # From the block on that the last step has left in part: only whole blocks are given back.
            first = max(self._begin, begin - begin % BLOCK)
            _punch(self._fd, first, end - first)
        except OSError:
            # Nothing more is gone than before: readers are to see it.
            self._end, self._lines = begin, lines
            if begin > self._begin:
                self._note()
            else:
                self._forget()
                attempt_notes.forget_cut(self._path, self._stream)
            raise
        if self._unnoted:  # on a full disk there is room for the note only now
            self._note()

    def _note(self) -> None:
        """Note the cut, unless the log has another file by now; a full disk puts the note off."""
        try:
            named = os.lstat(rundir.log_path(self._path, self._stream))
            if os.path.samestat(named, os.fstat(self._fd)):
                begins = self._ends_line()
                cut = attempt_notes.CutNote(self._begin, self._end, self._lines, self._exact, self._limit, begins)
                attempt_notes.note_cut(self._path, self._stream, cut)
            else:
                attempt_notes.forget_cut(self._path, self._stream)
            self._unnoted = False
        except FileNotFoundError:
            self._unnoted = False
        except OSError:
            self._unnoted = True

    def _ends_line(self) -> bool:
        """Tell whether the part before the cut ends with a whole line."""
        return self._begin == 0 or os.pread(self._fd, 1, self._begin - 1) == b"\n"

    def _count(self, begin: int, end: int) -> None:
        """Count the lines of a part that is cut, as long as there is time; the rest is estimated."""
        started = time.monotonic()
        counted = lines = 0
        for piece in self._pieces(begin, end):
            lines += piece.count(b"\n")
            counted += len(piece)
            if time.monotonic() - started > self._budget_s:
                break
        self._budget_s = max(0.0, self._budget_s - (time.monotonic() - started))
        if counted < end - begin:
            self._exact = False
            lines = lines * (end - begin) // max(1, counted)
        self._lines += lines

    def _pieces(self, begin: int, end: int) -> Iterator[bytes]:
        while begin < end and (piece := os.pread(self._fd, min(COUNT_BYTES, end - begin), begin)):
            yield piece
            begin += len(piece)

    def _line_before(self, at: int) -> int:
        first = max(0, at - self._window())
        found = os.pread(self._fd, at - first, first).rfind(b"\n")
        return at if found < 0 else first + found + 1

    def _line_after(self, at: int) -> int:
        found = os.pread(self._fd, self._window(), at).find(b"\n")
        return at if found < 0 else at + found + 1

    def _window(self) -> int:
        return min(LINE_BYTES, self._limit // 16)


class LogCaps:
    """The streams of the current attempt, and when they are looked at again."""

    __slots__ = ("_look_at", "streams")

    def __init__(self, path: str, streams: tuple[str, ...], limit: int) -> None:
        self.streams = [LogCap(path, stream, limit) for stream in streams]
        self._look_at = time.monotonic() + FIRST_S

    def look(self, timeout_s: float | None) -> float:
        """Cut the streams that are above their limit; return the seconds to wait, at most `timeout_s`."""
        now = time.monotonic()
        if now >= self._look_at:
            pause_s = min([cap.look() for cap in self.streams])
            now = time.monotonic()
            self._look_at = now + pause_s
        left_s = max(0.0, self._look_at - now)
        return left_s if timeout_s is None else min(timeout_s, left_s)


def of(path: str, spec: rundir.RunSpec) -> LogCaps | None:
    """Return what keeps the logs of an attempt within their limit; None if they have none."""
    return LogCaps(path, rundir.streams_of(spec.split), spec.log_max) if spec.log_max else None


def last_look(path: str, spec: rundir.RunSpec, caps: LogCaps | None, record: dict[str, Any]) -> None:
    """Cut the logs of an attempt that has ended, or complete its output file; add to its exit record what failed."""
    if spec.output:
        from grassq.run.output import output_file  # loaded only where the start has loaded it

        output_file.complete(path, spec, record)
    if caps is None:
        # A short command: its streams were not looked at yet.
        streams = rundir.streams_of(spec.split)
        if not spec.log_max or not any([_is_above(path, stream, spec.log_max) for stream in streams]):
            return
        caps = LogCaps(path, streams, spec.log_max)
    for cap in caps.streams:
        cap.last_look()
        if cap.failure is not None and record["error"] is None:
            record["error"] = cap.failure


def _is_above(path: str, stream: str, limit: int) -> bool:
    try:
        return atomic_files.size(rundir.log_path(path, stream)) > limit
    except OSError:
        return False


def _punch(fd: int, begin: int, size: int) -> None:
    import ctypes  # loaded by `processes` already

    call = getattr(processes.libc, "fallocate64", None) or processes.libc.fallocate
    processes.checked(call(fd, _PUNCH_AND_KEEP_SIZE, ctypes.c_int64(begin), ctypes.c_int64(size)))
