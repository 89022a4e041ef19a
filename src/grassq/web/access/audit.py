"""The audit: one JSON line for each change (caller, address, request, result), in two files of bounded size."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

log = logging.getLogger(__name__)

FILE_NAME = "audit.log"
#: A full file is renamed to this name. The file that had the name before is gone: the audit has at most two files.
OLD_NAME = "audit.log.1"
BYTES_MAX = 16 << 20
LINE_MAX = 4096
#: Characters of one field; paths and names come from outside.
TEXT_MAX = 200
SHOWN_MAX = 10_000
NO_CALLER = "nobody"
_ODD = re.compile(r'[^ -~]|["\\]')


class AuditEntry(Struct, kw_only=True, omit_defaults=True):
    """One line. A line holds no secret and no body."""

    at: float
    #: `token 1a2b3c4d` or `uid 1000`; NO_CALLER before a code is redeemed.
    who: str
    name: str
    #: The peer's address, or `local`.
    peer: str
    method: str
    path: str
    #: The token, the worker, the queue or the jobs that the request was about; `write` keeps TEXT_MAX of it.
    about: str = ""
    #: The HTTP status, and the exit code if the answer has one.
    result: str
    #: The number of failures left out before this one (see FAILURES_PER_MINUTE).
    missed: int = 0


class Audit:
    """Appends to the audit of one home. Several threads may write."""

    def __init__(self, home: str, *, bytes_max: int = BYTES_MAX) -> None:
        self._path = Path(home) / FILE_NAME
        self._old = Path(home) / OLD_NAME
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._fd = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, entry: AuditEntry, *, sync: bool = False) -> None:
        """Append a line, and sync the file if asked. A disk error is only logged: the request is already done."""
        texts = ("who", "name", "peer", "method", "path", "result", "about")
        entry = msgspec.structs.replace(entry, **{name: _printable(getattr(entry, name)) for name in texts})
        with self._lock:
            try:
                self._append(msgspec.json.encode(entry) + b"\n")
                if sync:
                    os.fsync(self._fd)
            except OSError as error:
                log.error("audit_failed error=%s who=%s path=%s", error, entry.who, entry.path)

    def _append(self, line: bytes) -> None:
        size = os.fstat(self._fd).st_size
        if size + len(line) >= self._bytes_max:
            os.fsync(self._fd)
            # Missing if the rename was done before and the new file could not be opened.
            with contextlib.suppress(FileNotFoundError):
                self._path.rename(self._old)
            full, self._fd = self._fd, self._open()
            os.close(full)
        elif size and os.pread(self._fd, 1, size - 1) != b"\n":
            # A crash or a full disk has cut the last line short.
            line = b"\n" + line
        if os.write(self._fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read(self, last: int) -> list[AuditEntry]:
        """Return the newest entries, at most SHOWN_MAX, oldest first. Lines that are no entries are left out."""
        with self._lock:
            return list(deque(self._entries(), maxlen=min(last, SHOWN_MAX)))

    def _entries(self) -> Iterator[AuditEntry]:
        for path in (self._old, self._path):
            if path.exists():
                with path.open("rb") as file:
                    while line := file.readline(LINE_MAX):
                        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                            yield msgspec.json.decode(line, type=AuditEntry)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def _printable(text: str) -> str:
    """Return at most TEXT_MAX printable characters of a text from outside, so that a line stays below LINE_MAX."""
    return _ODD.sub("?", text[:TEXT_MAX])
