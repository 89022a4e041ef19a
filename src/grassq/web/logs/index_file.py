"""The file with the index of a log: places from which the log can be read without reading what is before them.

The file belongs to the readers of logs. Jobs run as the same user and could write to it, so every record has a
checksum, and a record that does not fit to the log is not believed: the index is then made again.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from pathlib import Path

import msgspec
from msgspec import Struct

from grassq.core.term.screen import Screen
from grassq.web.logs.tail import OFFSET_MAX

#: Bytes of the log before a place that are compared with the log before the place is believed.
SAMPLE = 256
#: Places of one log; above this limit every second one is left out.
PLACES_MAX = 1 << 16
#: The largest index file that is read.
FILE_MAX = 256 << 20
#: The largest state of a screen, not compressed; a place with a larger one is not kept.
STATE_MAX = 4 << 20
VERSION = b"grass-log-index 2\n"
_HEAD = struct.Struct("<II")


class IndexPlace(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A byte of the log from which it can be read on."""

    offset: int
    #: The number of the first line that a reader gets from here.
    line: int
    #: When a reader first saw the bytes before the offset, in seconds since 1970.
    seen: float
    #: A checksum of the SAMPLE bytes before the offset.
    sample: int
    #: The state of the screen here, compressed.
    state: bytes
    #: From this byte up to here every byte is text that is shown as it was written, and every newline ends a line.
    #: Not before the offset where a line does not begin here, or where lines before it could still change.
    plain_from: int = OFFSET_MAX

    @property
    def is_clean(self) -> bool:
        """Whether a line begins here, and all lines before it are final."""
        return self.plain_from <= self.offset

    def screen(self) -> Screen:
        """Return the screen as it was here; raise ValueError if the state is damaged."""
        unpacker = zlib.decompressobj()
        try:
            state = unpacker.decompress(self.state, STATE_MAX)
        except zlib.error as error:
            raise ValueError(f"the state of a screen is damaged: {error}") from None
        if not unpacker.eof:
            raise ValueError("the state of a screen is too large or not whole")
        return Screen.restore(state)


class IndexPlaces:
    """The places of one log, in order. The first is the beginning of the log."""

    def __init__(self, found: list[IndexPlace] | None = None) -> None:
        self.all: list[IndexPlace] = found or []
        #: Bytes of the log between two places.
        self.step = 256 << 10
        while len(self.all) > PLACES_MAX:
            self._thin()

    def add(self, place: IndexPlace) -> bool:
        """Add a place behind the last; return whether others were left out for it."""
        self.all.append(place)
        if len(self.all) <= PLACES_MAX:
            return False
        self._thin()
        return True

    def before_line(self, line: int) -> IndexPlace | None:
        """Return the last place from which this line can be read; None for the beginning of the log."""
        return self._before(bisect_right(self.all, line, key=lambda place: place.line))

    def before_byte(self, offset: int) -> IndexPlace | None:
        """Return the last place not behind this byte; None for the beginning of the log."""
        return self._before(bisect_right(self.all, offset, key=lambda place: place.offset))

    def seen_before(self, time: float) -> IndexPlace | None:
        """Return the last place whose bytes were seen up to this time; None if there is none."""
        return self._before(bisect_right(self.all, time, key=lambda place: place.seen))

    def _before(self, at: int) -> IndexPlace | None:
        return self.all[at - 1] if at else None

    def _thin(self) -> None:
        del self.all[::2]
        self.step *= 2


def load(path: Path) -> list[IndexPlace]:
    """Return the places in a file, up to the first that is damaged or out of order."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX)
    except OSError:
        return []
    found: list[IndexPlace] = []
    at = len(VERSION)
    if data[:at] != VERSION:
        return []
    decoder = msgspec.msgpack.Decoder(IndexPlace)
    while at + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        body = data[at : at + size]
        at += size
        if len(body) != size or zlib.crc32(body) != checksum:
            break
        try:
            place = decoder.decode(body)
        except msgspec.MsgspecError:
            break
        if found and (place.offset <= found[-1].offset or place.line < found[-1].line):
            continue  # another reader wrote the same
        found.append(place)
    return found


def append(path: Path, places: list[IndexPlace]) -> None:
    """Write places behind those in the file; make the file if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        begin = VERSION if os.fstat(descriptor).st_size == 0 else b""
        # One write: what another reader appends meanwhile goes before or behind it.
        os.write(descriptor, begin + b"".join(map(_record, places)))
    finally:
        os.close(descriptor)


def replace(path: Path, places: list[IndexPlace]) -> None:
    """Write places instead of those in the file."""
    path.unlink(missing_ok=True)
    if places:
        append(path, places)


def sample(data: bytes) -> int:
    """Return the checksum of the last SAMPLE bytes of some data."""
    return zlib.crc32(data[-SAMPLE:])


def _record(place: IndexPlace) -> bytes:
    body = msgspec.msgpack.encode(place)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body
