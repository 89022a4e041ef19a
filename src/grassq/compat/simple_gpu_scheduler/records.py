"""A note in the home about a call that lives, so that the next one can tell what became of it if it ended abruptly."""

# The paths are made of text, and pathlib costs more than all of this.
# ruff: noqa: PTH103, PTH104, PTH108, PTH208

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

FOLDER = "doors"
ENDING = ".json"
#: Notes looked at by one call, and bytes read of one; it has what is being handed over in it, which one read brought.
RECORDS_MAX = 100
RECORD_MAX = 8 << 20


class Note(NamedTuple):
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


class Record:
    """The note about this call: locked as long as the process lives, gone after a clean end."""

    def __init__(self, home: str, note: Note) -> None:
        folder = f"{home}/{FOLDER}"
        os.makedirs(folder, 0o700, exist_ok=True)
        self._path = f"{folder}/{note.queue}{ENDING}"
        made = f"{folder}/.{note.queue}.new"
        self._descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self.write(note)
        # Locked before it has its name: nobody takes it for one that was left behind.
        os.rename(made, self._path)

    def write(self, note: Note) -> None:
        """Note this instead."""
        content = json.dumps(note._asdict()).encode() + b"\n"
        os.pwrite(self._descriptor, content, 0)
        # What is longer from before goes last: whoever reads takes the first line.
        os.ftruncate(self._descriptor, len(content))

    def remove(self) -> None:
        """A clean end: there is nothing to tell."""
        os.unlink(self._path)
        os.close(self._descriptor)


class Left:
    """A note of a call that is gone; nobody else tells of it meanwhile."""

    def __init__(self, path: str, descriptor: int, note: Note | None) -> None:
        self._path = path
        self._descriptor = descriptor
        #: None if it cannot be read.
        self.note = note

    def remove(self) -> None:
        """All of it is told."""
        os.unlink(self._path)


def left_behind(home: str) -> Iterator[Left]:
    """The notes of calls that ended abruptly, oldest first."""
    folder = f"{home}/{FOLDER}"
    try:
        names = [name for name in os.listdir(folder) if name.endswith(ENDING) and not name.startswith(".")]
    except FileNotFoundError:
        return
    for name in sorted(names)[:RECORDS_MAX]:
        path = f"{folder}/{name}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # another call has told of it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                yield Left(path, descriptor, _read(descriptor))
        except BlockingIOError:
            continue  # that call lives
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> Note | None:
    content = os.pread(descriptor, RECORD_MAX, 0).partition(b"\n")[0]
    try:
        document: dict[str, Any] = json.loads(content)
        note = Note(**document)
        numbers = (note.pid, note.began, note.first, note.last)
        is_sound = all(type(each) is int for each in numbers) and isinstance(note.queue, str)
        return note if is_sound and isinstance(note.handing, str) else None
    except (ValueError, TypeError, RecursionError):
        return None
