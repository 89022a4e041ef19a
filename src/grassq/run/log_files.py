"""Read what a job wrote, a bounded piece at a time.

A log above its limit has a hole: `log_cap.py` has cut its middle out, and a note in the run dir says where. Offsets are
those of the file. No byte inside the cut is read; a reader there goes on at the end of the cut, after the mark. The
mark takes the last bytes of the cut, so that a reader within the mark has an offset too.
"""

from __future__ import annotations

import os

from grassq import atomic_files
from grassq.run import attempt_notes, rundir
from grassq.run.attempt_notes import CutNote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ_LIMIT = 1 << 20
TAIL_BLOCK = 64 << 10


def kept_dir(home: str) -> str:
    """Return the folder for the folders of removed jobs whose logs are kept."""
    return f"{home}/kept"


def read(path: str, stream: str, offset: int, limit: int = READ_LIMIT) -> bytes:
    """Return bytes of a stream of the attempt at `path` from `offset` on, at most READ_LIMIT; empty at its end.

    Empty too inside what was cut out of the stream: `cut` says where to go on.
    """
    fd = atomic_files.open_read(rundir.log_path(path, stream))
    if fd is None:
        return b""
    offset = max(0, offset)
    with open(fd, "rb", buffering=0):
        data = os.pread(fd, max(0, min(limit, READ_LIMIT)), offset)
        # Looked for after the read: the note is written before the bytes are gone.
        return without(attempt_notes.read_cut(path, stream, os.fstat(fd).st_size), offset, data)


def without(cut: CutNote | None, offset: int, data: bytes) -> bytes:
    """Return the bytes that were read at an offset, up to what is cut out; empty inside the cut."""
    if cut is None or offset >= cut.end or offset + len(data) <= cut.begin:
        return data
    return data[: max(0, cut.begin - offset)]


def cut(path: str, stream: str) -> CutNote | None:
    """Return what was cut out of the stream; None if nothing was."""
    return attempt_notes.read_cut(path, stream, size(path, stream))


def size(path: str, stream: str) -> int:
    """Return how many bytes the stream has, also those that were cut out; 0 if there is none yet."""
    return atomic_files.size(rundir.log_path(path, stream))


def tail_offset(path: str, stream: str, lines: int) -> int:
    """Return the offset where the last `lines` lines of the stream begin; a last line without its newline counts."""
    fd = atomic_files.open_read(rundir.log_path(path, stream))
    if fd is None:
        return 0
    with open(fd, "rb", buffering=0):
        end = os.fstat(fd).st_size
        found = attempt_notes.read_cut(path, stream, end)
        return begin_around(found, lines, end, lambda size, start: os.pread(fd, size, start))


def begin_around(cut: CutNote | None, lines: int, end: int, pread: Callable[[int, int], bytes], first: int = 0) -> int:
    """Return the same as `begin_of_last`; the mark of a cut is one of the lines."""
    if cut is None or cut.end <= first:
        return begin_of_last(lines, end, pread, first)
    at, left = _seek_back(lines, end, pread, cut.end)
    if left <= 1:
        return at
    mark = cut.end - len(cut.mark.lstrip(b"\n"))
    # One of the lines begins at the end of the cut, and one is the mark; the others are before the cut.
    return mark if left == 2 else begin_of_last(left - 2, cut.begin, pread, first)


def last_lines(file: str, lines: int) -> int:
    """Return the offset where the last `lines` lines of a file begin; 0 when there is no file."""
    fd = atomic_files.open_read(file)
    if fd is None:
        return 0
    with open(fd, "rb", buffering=0):
        return begin_of_last(lines, os.fstat(fd).st_size, lambda size, start: os.pread(fd, size, start))


def begin_of_last(lines: int, end: int, pread: Callable[[int, int], bytes], first: int = 0) -> int:
    """Return the offset where the last `lines` lines begin in what `pread(size, start)` reads, up to `end`.

    Nothing before `first` is read; it is returned if the lines begin before it.
    """
    return _seek_back(lines, end, pread, first)[0]


def _seek_back(lines: int, end: int, pread: Callable[[int, int], bytes], first: int) -> tuple[int, int]:
    """Return the offset, and how many more lines there would have to be before `first`."""
    if lines <= 0 or end == 0:
        return end, 0
    # The newline that ends the last line begins no further line.
    position, size = end - 1, TAIL_BLOCK
    while position > first:
        start = max(first, position - size)
        size = min(2 * size, READ_LIMIT)
        block = pread(position - start, start)
        cut = len(block)
        while (cut := block.rfind(b"\n", 0, cut)) >= 0:
            lines -= 1
            if lines == 0:
                return start + cut + 1, 0
        position = start
    return first, lines
