"""The tar format, as far as every tar program has it: headers are written and read here, and nothing is extracted."""

from __future__ import annotations

import struct
from typing import NamedTuple

BLOCK = 512
#: What follows the last entry. Some programs read in units of twenty blocks only.
END = bytes(20 * BLOCK)
#: The longest name that a header of its own may carry (GNU's `L` and `K`, or pax): longer than any path that is used.
LONG_NAME_MAX = 16 << 10
#: The digits of the length of a pax record, and of a size: Python refuses to read thousands of them.
LENGTH_DIGITS_MAX = len(str(LONG_NAME_MAX))
SIZE_DIGITS_MAX = 19

REGULAR, HARD_LINK, SYMLINK, FOLDER = b"0", b"1", b"2", b"5"

_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"x", b"g"
_HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")


class BadTar(ValueError):
    """The bytes are not an archive that can be read."""


class Header(NamedTuple):
    """One entry of an archive: its name, and how many bytes follow."""

    name: bytes
    kind: bytes
    size: int = 0
    link: bytes = b""
    mode: int = 0o600


def padding(size: int) -> bytes:
    """Return the zeros that follow a content of this size."""
    return bytes(-size % BLOCK)


def encode(header: Header) -> bytes:
    """Return the blocks of a header, with those of long names before it."""
    blocks = b""
    for kind, text in ((_LONG_LINK, header.link), (_LONG_NAME, header.name)):
        if len(text) > 100:
            blocks += _block(Header(b"././@LongLink", kind, len(text) + 1)) + text + b"\0" + padding(len(text) + 1)
    return blocks + _block(header)


def _block(header: Header) -> bytes:
    size = b"%011o\0" % header.size
    if header.size >= 8**11:
        size = b"\x80" + header.size.to_bytes(11, "big")
    fields = [header.name[:100], b"%07o\0" % header.mode, b"0000000\0", b"0000000\0", size, b"00000000000\0"]
    fields += [b" " * 8, header.kind, header.link[:100], b"ustar  \0", b"", b"", b"", b"", b""]
    block = _HEADER.pack(*fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


class Decoder:
    """Reads the headers of a hostile archive, block by block; the caller reads the contents."""

    def __init__(self) -> None:
        self._name = self._link = b""
        self._size: int | None = None
        #: How many bytes the last block announced for a header of its own; pass them to `extend`.
        self.more = 0
        self._kind = b""

    def block(self, block: bytes) -> Header | None:
        """Return the entry that a block begins; None for zeros, and for a block that announces `more`."""
        if not block.strip(b"\0"):
            return None
        if sum(block[:148]) + sum(block[156:]) + 8 * 0x20 != _number(block[148:156]):
            raise BadTar("a header has a wrong checksum")
        kind, size = block[156:157], _number(block[124:136])
        if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL):
            if size > LONG_NAME_MAX:
                raise BadTar("a name is too long")
            self._kind, self.more = kind, size
            return None
        name = self._name or _path(block)
        link = self._link or block[157:257].split(b"\0")[0]
        if self._size is not None:
            size = self._size
        self._name, self._link, self._size = b"", b"", None
        kind = REGULAR if kind in (b"\0", b"7") else kind
        return Header(name, kind, size if kind == REGULAR else 0, link)

    def extend(self, data: bytes) -> None:
        """Take the bytes that the last block announced: a long name, or pax fields."""
        self.more = 0
        if self._kind == _LONG_NAME:
            self._name = data.split(b"\0")[0]
        elif self._kind == _LONG_LINK:
            self._link = data.split(b"\0")[0]
        elif self._kind == _PAX:
            self._take_pax(data)

    def _take_pax(self, data: bytes) -> None:
        while data:
            length, _, _ = data.partition(b" ")
            end = _decimal(length, LENGTH_DIGITS_MAX)
            if not len(length) < end <= len(data):
                raise BadTar("a pax header is not understood")
            record, data = data[len(length) + 1 : end - 1], data[end:]
            key, _, value = record.partition(b"=")
            if key == b"path":
                self._name = value
            elif key == b"linkpath":
                self._link = value
            elif key == b"size":
                self._size = _decimal(value, SIZE_DIGITS_MAX)
            elif key.startswith(b"GNU.sparse"):
                raise BadTar("a file is sent with holes")


def _decimal(text: bytes, digits_max: int) -> int:
    if not text.isdigit() or len(text) > digits_max:
        raise BadTar("a size is not understood")
    return int(text)


def _number(field: bytes) -> int:
    """Return a number of a header: octal, or binary if the first bit is set."""
    if field[0] & 0x80:
        number = int.from_bytes(field, "big") & ((1 << (len(field) * 8 - 1)) - 1)
        if number > 1 << 62:
            raise BadTar("a size is not understood")
        return number
    text = field.strip(b"\0 ")
    if text.strip(b"01234567"):
        raise BadTar("a number is not understood")
    return int(text or b"0", 8)


def _path(block: bytes) -> bytes:
    name = block[:100].split(b"\0")[0]
    prefix = block[345:500].split(b"\0")[0]
    # The old GNU format has other things in place of the prefix.
    return prefix + b"/" + name if prefix and block[257:265] == b"ustar\x0000" else name
