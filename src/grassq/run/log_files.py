"""Read what a job wrote, a bounded piece at a time."""

from __future__ import annotations

import os

from grassq import atomic_files
from grassq.run import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ_LIMIT = 1 << 20
TAIL_BLOCK = 64 << 10


def read(path: str, stream: str, offset: int, limit: int = READ_LIMIT) -> bytes:
    """Return bytes of a stream of the attempt at `path` from `offset` on, at most READ_LIMIT; empty at its end."""
    fd = atomic_files.open_read(rundir.log_path(path, stream))
    if fd is None:
        return b""
    with open(fd, "rb", buffering=0):
        return os.pread(fd, max(0, min(limit, READ_LIMIT)), max(0, offset))


def size(path: str, stream: str) -> int:
    """Return how many bytes the stream has; 0 if there is none yet."""
    return atomic_files.size(rundir.log_path(path, stream))


def tail_offset(path: str, stream: str, lines: int) -> int:
    """Return the offset where the last `lines` lines of the stream begin; a last line without its newline counts."""
    return last_lines(rundir.log_path(path, stream), lines)


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
    if lines <= 0 or end == 0:
        return end
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
                return start + cut + 1
        position = start
    return first
