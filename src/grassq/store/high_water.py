"""The high-water mark: a small file beside the store that says how far the store has come.

A store that is restored from a backup forgets which ids it gave. The mark does not go back with it. The mark holds an
id that no given id is above, and the position of the last commit. The id is written ahead in steps, and synced before
any id of a step is given. So a broker notices at its start that its store went back in time, before any worker speaks.

The mark also holds the time of its own creation. A copy of the file has another one: then the whole home was copied or
restored, and the mark is as old as the store. A broker on such a home gives no id until its workers have spoken.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq import atomic_files
from grassq.core.messages import StoreHistory, StorePosition
from grassq.errors import StoreUnavailable
from grassq.store.base import Progress

log = logging.getLogger(__name__)

#: Ids are reserved in steps: one sync of the mark for this many ids.
STEP = 1000
#: The whole file: one sector, which a disk writes whole or not at all.
SIZE = 512
_EMPTY_PATH, _BIRTH_TIME = 0x1000, 0x800


class Mark(Struct, frozen=True):
    """What the file holds."""

    store_id: str
    #: When the file was created, in nanoseconds; 0 if the file system does not know.
    born: int
    #: No id above this was given.
    ids_to: int
    position: StorePosition | None = None


class Restore(Struct, frozen=True):
    """A store that is, or may be, older than what its broker has done."""

    #: The highest id that may have been given, as far as the mark knows.
    ids_to: int
    #: Whether no higher id was given for certain.
    is_certain: bool
    why: str


class HighWater:
    """The mark of one store, in a file that is written in place."""

    def __init__(self, path: str, *, beside_store: bool) -> None:
        """`beside_store` says that a backup of the store's folder has the mark too, so that a copy means a restore."""
        self._path = path
        self._beside_store = beside_store
        self._fd = -1
        self._store_id = ""
        self._mark: Mark | None = None

    def compare(self, store_id: str, history: StoreHistory, *, was_kept: bool) -> Restore | None:
        """Return what the mark tells of the store at a broker's start; `was_kept`: the store has had a mark before."""
        self._store_id = store_id
        found = self._read()
        if isinstance(found, Mark) and found.store_id != store_id:
            if self._beside_store:
                why = "it is another store than the one whose mark is beside it"
                return Restore(found.ids_to, not was_kept, why)
            found = "absent"
        if found == "damaged":
            return Restore(0, False, f"{self._path} is damaged")
        if found == "absent":
            if was_kept and self._beside_store:
                return Restore(0, False, "the store was moved here without its mark")
            return None
        if self._beside_store and found.born and found.born != _born(self._fd):
            return Restore(found.ids_to, False, "the folder of the store was copied, or restored from a backup")
        self._mark = found
        if history.is_behind(found.position):
            return Restore(found.ids_to, True, "the store was restored from a backup")
        return None

    def follow(self, progress: Progress) -> None:
        """Note how far another broker has brought the store, while this broker stands by; never go back."""
        if self._mark is None:
            self._store_id, found = progress.store_id, self._read()
            self._mark = found if isinstance(found, Mark) and found.store_id == progress.store_id else None
        before = None if self._mark is None else self._mark.position
        if before is None or before.commit <= progress.commit:
            self.reserve(progress.highest_id)
            self.note(progress.incarnation, progress.commit)

    def reserve(self, highest_id: int) -> None:
        """Raise the mark above an id that is about to be given; raise StoreUnavailable if that is not possible."""
        if self._mark is not None and highest_id <= self._mark.ids_to:
            return
        try:
            if self._mark is None:
                self._create(Mark(self._store_id, 0, highest_id + STEP))
            else:
                self._write(replace(self._mark, ids_to=highest_id + STEP))
                os.fdatasync(self._fd)
        except OSError as error:
            self._mark = None
            raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror}") from error

    def note(self, incarnation: str, commit: int) -> None:
        """Note a commit that is on disk. Not synced: after a power cut the mark may only be older than the store."""
        if self._mark is None:
            return
        try:
            self._write(replace(self._mark, position=StorePosition(incarnation, commit)))
        except OSError as error:
            log.warning("mark_not_written path=%s error=%s", self._path, error)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> Mark | Literal["absent", "damaged"]:
        self.close()
        try:
            self._fd = os.open(self._path, os.O_RDWR | atomic_files.OURS)
        except FileNotFoundError:
            return "absent"
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be opened: {error.strerror}") from error
        line = atomic_files.verify_checksum(os.read(self._fd, SIZE).rstrip(b"\0"))
        try:
            return msgspec.json.decode(line or b"", type=Mark)
        except msgspec.MsgspecError:
            return "damaged"

    def _create(self, mark: Mark) -> None:
        """Create the file anew, so that it has a time of creation of its own."""
        self.close()
        path = Path(self._path)
        atomic_files.write_aside(str(path.parent), path.name, _sector(mark), sync=True)
        self._fd = os.open(self._path, os.O_RDWR | atomic_files.OURS)
        self._write(replace(mark, born=_born(self._fd)))

    def _write(self, mark: Mark) -> None:
        self._mark = mark
        os.pwrite(self._fd, _sector(mark), 0)


def _sector(mark: Mark) -> bytes:
    return atomic_files.with_checksum(msgspec.json.encode(mark)).ljust(SIZE, b"\0")


def _born(fd: int) -> int:
    """Return when an open file was created, in nanoseconds; 0 if the file system does not know."""
    found = ctypes.create_string_buffer(256)
    # `os.stat` has no time of creation.
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "statx") or libc.statx(fd, b"", _EMPTY_PATH, _BIRTH_TIME, found) != 0:
        return 0
    (known,) = struct.unpack_from("I", found, 0)
    seconds, nanoseconds = struct.unpack_from("qI", found, 80)
    return int(seconds * 1_000_000_000 + nanoseconds) if known & _BIRTH_TIME else 0
