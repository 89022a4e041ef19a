"""A note in the home about a call that lives, so that the next one can tell what became of it if it ended abruptly."""

# The paths are made of text, and pathlib costs more than all of this.
# ruff: noqa: PTH103, PTH104, PTH108, PTH116, PTH208

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from time import time
from typing import Any, NamedTuple

FOLDER = "doors"
ENDING = ".json"
#: What a note is called while it is made; one of that age was never finished.
UNFINISHED = ".new"
UNFINISHED_S = 3600.0
#: What a note is called that nobody can read.
ASIDE = ".unreadable"
#: Notes looked at by one call, and bytes read of one; it has what is being handed over in it, which one read brought.
RECORDS_MAX = 100
RECORD_MAX = 8 << 20


class RunNote(NamedTuple):
    """What is known of a call."""

    queue: str
    pid: int
    #: When it began, in seconds since 1970.
    began: int
    #: Its first and last job; 0 while there is none.
    first: int = 0
    last: int = 0
    #: Lines that are being handed over: nobody knows yet whether they are stored.
    handing: str = ""


class RunRecord:
    """The note about this call: locked as long as the process lives, gone after a clean end."""

    def __init__(self, home: str, note: RunNote) -> None:
        folder = f"{home}/{FOLDER}"
        os.makedirs(folder, 0o700, exist_ok=True)
        self._path = f"{folder}/{note.queue}{ENDING}"
        made = f"{folder}/.{note.queue}{UNFINISHED}"
        self._descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._content = b""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            self.write(note)
            # Locked before it has its name: nobody takes it for one that was left behind.
            os.rename(made, self._path)
        except OSError:
            os.close(self._descriptor)
            os.unlink(made)
            raise

    def write(self, note: RunNote) -> None:
        """Note this instead; where it cannot be written, the one before stays."""
        content = json.dumps(note._asdict()).encode() + b"\n"
        try:
            self._put(content)
        except OSError:
            # It may be half written. What stood there before has its room already.
            with suppress(OSError):
                self._put(self._content)
            raise
        self._content = content

    def remove(self) -> None:
        """A clean end: there is nothing to tell."""
        with suppress(FileNotFoundError):  # whoever removed it has done it for us
            os.unlink(self._path)
        os.close(self._descriptor)

    def _put(self, content: bytes) -> None:
        written = 0
        while written < len(content):
            # Of what does not fit, a part is written at first; then the next part says why.
            written += os.pwrite(self._descriptor, content[written:], written)
        # What is longer from before goes last: whoever reads takes the first line.
        os.ftruncate(self._descriptor, len(content))


class KilledRun:
    """A note of a call that is gone; nobody else tells of it meanwhile."""

    def __init__(self, path: str, note: RunNote | None) -> None:
        self.path = path
        #: None if it cannot be read.
        self.note = note

    def remove(self) -> None:
        """All of it is told."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def put_aside(self) -> str:
        """Nobody can tell what it says: it is kept under another name, which is returned."""
        os.rename(self.path, self.path + ASIDE)
        return self.path + ASIDE


def left_behind(home: str) -> Iterator[KilledRun]:
    """The notes of calls that ended abruptly, oldest first."""
    folder = f"{home}/{FOLDER}"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    _remove_unfinished(f"{folder}/{name}" for name in names if name.startswith(".") and name.endswith(UNFINISHED))
    paths = sorted(f"{folder}/{name}" for name in names if name.endswith(ENDING) and not name.startswith("."))
    with ExitStack() as until_told:
        found = [left for path in paths[:RECORDS_MAX] if (left := _locked(path, until_told)) is not None]
        yield from sorted(found, key=lambda left: left.note.began if left.note else 0)


def _remove_unfinished(paths: Iterator[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            if os.stat(path).st_mtime < time() - UNFINISHED_S:
                os.unlink(path)


def _locked(path: str, until_told: ExitStack) -> KilledRun | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None  # another call has told of it
    except OSError:
        return KilledRun(path, None)
    until_told.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None  # that call lives
    return KilledRun(path, _read(descriptor)) if os.fstat(descriptor).st_nlink else None


def _read(descriptor: int) -> RunNote | None:
    content = os.pread(descriptor, RECORD_MAX, 0).partition(b"\n")[0]
    try:
        document: dict[str, Any] = json.loads(content)
        note = RunNote(**document)
        numbers = (note.pid, note.began, note.first, note.last)
        is_sound = all(type(each) is int for each in numbers) and isinstance(note.queue, str)
        return note if is_sound and isinstance(note.handing, str) else None
    except (ValueError, TypeError, RecursionError):
        return None
