"""Hashes of files that have not changed since they were last read, known by what the kernel says of them.

As git does, a file that changed at about the time it was read is not believed: a later change in the same tick of
the file system's clock would not show.
"""

from __future__ import annotations

import os

from grassq import atomic_files

#: The coarsest clock of a file system: FAT counts in two seconds.
TICK_NS = 2_000_000_000
#: The longest file of hashes that is read; a longer one is forgotten.
BYTES_MAX = 128 << 20

_HEAD = b"grass stat cache 1\n"


class StatCache:
    """The known hashes of one folder's files; `save` writes those that were asked for or added."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known = _load(file)
        self._seen: dict[bytes, bytes] = {}

    def get(self, path: bytes, status: os.stat_result) -> str | None:
        """Return the hash of a file that is as it was when it was read."""
        line = self._known.get(path)
        stamp = _stamp(status)
        if line is None or line[65:] != stamp:
            return None
        self._seen[path] = line
        return line[:64].decode("ascii")

    def add(self, path: bytes, status: os.stat_result, hash_: str, read_at_ns: int) -> None:
        """Note a file's hash, unless the file may change again without a trace; `read_at_ns`: when reading began."""
        if max(status.st_mtime_ns, status.st_ctime_ns) + TICK_NS < read_at_ns:
            self._seen[path] = hash_.encode("ascii") + b" " + _stamp(status)

    def save(self) -> None:
        """Write the file, if it is not as it was."""
        if self._seen == self._known:
            return
        folder, _, name = self._file.rpartition("/")
        atomic_files.make_dirs(folder)
        body = b"\0".join(b"%s %s" % (line, path) for path, line in self._seen.items())
        atomic_files.write_aside(folder, name, _HEAD + body, sync=False)


def _stamp(status: os.stat_result) -> bytes:
    return b"%d,%d,%d,%d,%d" % (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_dev,
    )


def _load(file: str) -> dict[bytes, bytes]:
    data = atomic_files.read(file, BYTES_MAX + 1)
    if data is None or len(data) > BYTES_MAX or not data.startswith(_HEAD):
        return {}
    known = {}
    for record in data[len(_HEAD) :].split(b"\0"):
        words = record.split(b" ", 2)
        if len(words) == 3 and len(words[0]) == 64:
            known[words[2]] = words[0] + b" " + words[1]
    return known
