"""Text that is written from top to bottom: its lines are counted without looking at each of them."""

from __future__ import annotations

import re

from grassq.core.term.style import apply

#: Everything but control characters. To leave all of these out is faster than a search for any control character.
_SHOWN = bytes(byte for byte in range(256) if (byte >= 32 and byte != 127) or byte in b"\t\n\r")
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
#: Sequences that change colours, erase within a line, or move the cursor within it.
_WITHIN_LINE = re.compile(rb"\x1b\[[0-9;:]{0,128}[mKGCD]")
#: Sequences that change colours, or erase what is behind the end of the text.
_LOOKS = re.compile(rb"\x1b\[(?:[0-9;:]{0,128}m|0?K)")
_COLOUR = re.compile(rb"\x1b\[([0-9;:]{0,128})m")


def is_plain(data: bytes) -> bool:
    """Tell whether bytes are text, newlines and tabs only, so that every newline ends a line."""
    if b"\x1b" in data or data.translate(None, _SHOWN):
        return False
    return _has_whole_returns(data) and not _has_c1(data)


def is_linear(data: bytes) -> bool:
    """Tell whether only newlines move the cursor to another line: true of bars and colours, not of nested bars."""
    if b"\x0b" in data or b"\x0c" in data or _has_c1(data):
        return False
    escapes = data.count(b"\x1b")
    return not escapes or escapes == len(_WITHIN_LINE.findall(data))


def plain_text(data: bytes) -> bytes | None:
    """Return whole lines without their colours; None if they have anything else than text and colours."""
    if b"\x1b" not in data:
        return data if is_plain(data) else None
    bare = _LOOKS.sub(b"", data)
    return bare if is_plain(bare) else None


def style_after(style: int, data: bytes) -> int:
    """Return the style behind linear data."""
    sequences = _COLOUR.findall(data)
    begin = len(sequences)
    while begin and sequences[begin - 1] not in (b"", b"0"):
        begin -= 1
    style = 0 if begin else style
    for parameters in sequences[begin:]:
        style = apply(style, parameters)
    return style


def _has_whole_returns(data: bytes) -> bool:
    return b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")


def _has_c1(data: bytes) -> bool:
    return b"\xc2" in data and _C1.search(data) is not None
