"""The audit: who did what from where, one line each. Every line carries a hash over all before it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

log = logging.getLogger(__name__)

FILE_NAME = "audit.log"
#: Where a full file goes; the one before it is dropped, so there are at most two.
OLD_NAME = "audit.log.1"
BYTES_MAX = 16 << 20
LINE_MAX = 4096
#: No word of a line is longer; paths and names come from outside.
TEXT_MAX = 200
SHOWN_MAX = 10_000
FIRST = "0" * 64


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: nothing in it is secret, and no body ever."""

    n: int
    at: float
    #: `token 1a2b3c4d` or `uid 1000`; `nobody` before a code is redeemed.
    who: str
    name: str
    #: The peer's address, or `local`.
    peer: str
    method: str
    path: str
    #: What it was done to: a token, a worker, a queue.
    about: str = ""
    #: The HTTP status, and the exit code where the answer has one.
    result: str
    #: Lines like this one that were left out before it, to keep within bounds.
    missed: int = 0
    #: The hash of the line before, and of this one with it.
    prev: str
    hash: str = ""


class AuditCheck(Struct, frozen=True):
    """Whether the chain is whole, and the newest lines."""

    whole: bool
    #: The number of the first line that does not follow from the one before.
    broken_at: int | None
    entries: list[AuditEntry]


class Audit:
    """Appends to the audit of one home. Several threads may write."""

    def __init__(self, home: str, *, bytes_max: int = BYTES_MAX) -> None:
        self._path = Path(home) / FILE_NAME
        self._old = Path(home) / OLD_NAME
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._fd = self._open()
        self._n, self._last = self._end()

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _end(self) -> tuple[int, str]:
        """The number and hash to go on from. A line cut short by a crash is taken away: it was never told as done."""
        size = os.fstat(self._fd).st_size
        tail = os.pread(self._fd, 2 * LINE_MAX, max(0, size - 2 * LINE_MAX))
        whole = tail[: tail.rfind(b"\n") + 1]
        if len(whole) < len(tail):
            log.warning("audit_line_cut bytes=%s", len(tail) - len(whole))
            os.ftruncate(self._fd, size - len(tail) + len(whole))
        lines = whole.splitlines()
        if not lines and size == 0 and self._old.exists():
            # The file was full, and a crash came before the first line of the new one.
            with self._old.open("rb") as file:
                file.seek(max(0, self._old.stat().st_size - LINE_MAX))
                lines = file.read(LINE_MAX).splitlines()
        if not lines:
            return 0, FIRST
        last = _parse(lines[-1])
        # Of a damaged end nothing can be made good: `verify` names the place.
        return (last.n, last.hash) if last is not None else (0, FIRST)

    def write(
        self,
        at: float,
        who: str,
        name: str,
        peer: str,
        method: str,
        path: str,
        result: str,
        *,
        about: str = "",
        missed: int = 0,
        sync: bool = False,
    ) -> None:
        """Append a line, on disk at once if asked. A disk that refuses is logged: what was done is done."""
        words = [_plain(text) for text in (who, name, peer, method, path, result, about)]
        with self._lock:
            entry = _chained(AuditEntry(
                n=self._n + 1, at=at, who=words[0], name=words[1], peer=words[2], method=words[3], path=words[4],
                result=words[5], about=words[6], missed=missed, prev=self._last,
            ))  # fmt: skip
            line = msgspec.json.encode(entry) + b"\n"
            try:
                self._make_room(len(line))
                _write_whole(self._fd, line)
                if sync:
                    os.fsync(self._fd)
            except OSError as error:
                log.error("audit_failed error=%s who=%s path=%s", error, words[0], words[4])
                return
            self._n, self._last = entry.n, entry.hash

    def _make_room(self, more: int) -> None:
        if os.fstat(self._fd).st_size + more <= self._bytes_max:
            return
        os.fsync(self._fd)
        # Missing when the new file could not be opened the last time: the old one has its place already.
        with contextlib.suppress(FileNotFoundError):
            self._path.rename(self._old)
        before, self._fd = self._fd, self._open()
        os.close(before)

    def read(self, last: int) -> AuditCheck:
        """Follow the whole chain, and give the newest lines."""
        entries: deque[AuditEntry] = deque(maxlen=min(last, SHOWN_MAX))
        with self._lock:
            broken = self._follow(entries)
        return AuditCheck(broken is None, broken, list(entries))

    def _follow(self, entries: deque[AuditEntry]) -> int | None:
        number, prev = 0, FIRST
        # Lines older than the old file are gone: only there the first line may follow one that is not seen.
        started = not self._old.exists()
        broken = None
        for line in self._lines():
            entry = _parse(line)
            if entry is not None:
                entries.append(entry)
                if not started:
                    number, prev = entry.n - 1, entry.prev
            started = True
            if entry is None or (entry.n, entry.prev) != (number + 1, prev) or _chained(entry).hash != entry.hash:
                broken = broken or (number + 1 if entry is None else entry.n)
            number, prev = (number + 1, "") if entry is None else (entry.n, entry.hash)
        return broken

    def _lines(self) -> Iterator[bytes]:
        for path in (self._old, self._path):
            if path.exists():
                with path.open("rb") as file:
                    while line := file.readline(LINE_MAX):
                        yield line

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def _plain(text: str) -> str:
    """A word of a line, short and printable whatever a stranger sent: a line stays below LINE_MAX."""
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text[:TEXT_MAX])


def _parse(line: bytes) -> AuditEntry | None:
    try:
        entry = msgspec.json.decode(line, type=AuditEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    # Only what we would write ourselves counts: a changed blank or an added field is a change too.
    return entry if msgspec.json.encode(entry) == line.rstrip(b"\n") else None


def _chained(entry: AuditEntry) -> AuditEntry:
    bare = msgspec.structs.replace(entry, hash="")
    return msgspec.structs.replace(entry, hash=hashlib.sha256(msgspec.json.encode(bare)).hexdigest())


def _write_whole(fd: int, line: bytes) -> None:
    """All of a line or nothing: a disk may take only the beginning."""
    size = os.fstat(fd).st_size
    try:
        written = os.write(fd, line)
        if written != len(line):
            raise OSError(28, "the disk took only a part of a line")
    except OSError:
        os.ftruncate(fd, size)
        raise
