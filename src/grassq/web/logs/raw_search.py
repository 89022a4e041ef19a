"""The search for a text in the bytes of a log where each line is shown as it was written: no line is folded.

A text is looked for by its *probe*, a part of it that is in the bytes of every line that shows the text. A line with
the probe is then folded and searched like any other, so a hit is a hit. Used by the process of a search only.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Callable, Iterator

from grassq.core.term.linear import is_plain
from grassq.core.term.row import COLUMNS_MAX, REORDERING
from grassq.core.term.screen import WINDOW, fold

#: Bytes that are read and searched at a time: they stay in the cache of a core.
PIECE = 1 << 20
#: A line with more bytes is not searched here.
LINE_MAX = 4 << 20
#: Characters other than small and large ASCII letters that are equal to one of these when case is ignored.
_ODD_CASE = "isk"
_ODD = re.compile(f"[{_ODD_CASE}]")
_RUN = re.compile("[\x20-\x7e]+")
_META = re.compile(r"[.^$*+?{}\[\]\\|()]")
_REORDERING = re.compile(f"[{REORDERING}\ufffd\\\\\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]")

#: Finds a text in a line: where it begins and ends.
Match = Callable[[str], tuple[int, int] | None]


def is_text(expression: str) -> bool:
    """Tell whether a regular expression is a text that means itself."""
    return _META.search(expression) is None


class RawText:
    """A text to be found in bytes."""

    def __init__(self, text: str, match: Match, *, ignore_case: bool) -> None:
        self._match = match
        self._ignores = ignore_case
        is_odd = _REORDERING.search(text) or any(unicodedata.category(each) in ("Mn", "Me", "Cf") for each in text)
        self._is_whole = not is_odd and (text.isascii() or not ignore_case)
        #: What is looked for in ASCII, and in any other text; empty where nothing is good enough.
        self._ascii = self._other = b""
        if is_odd:
            return
        if not ignore_case:
            self._ascii = self._other = text.encode("utf-8", "surrogatepass")
            return
        small = text.lower() if text.isascii() else ""
        self._ascii = small.encode("ascii")
        runs = [run for part in _RUN.findall(text) for run in _ODD.split(part.lower())]
        self._other = max(runs, key=len, default="").encode("ascii")

    @property
    def is_usable(self) -> bool:
        """Whether the text can be looked for in bytes at all."""
        return bool(self._other or self._ascii)

    def lines(self, data: bytes) -> Iterator[tuple[int, str, int, int]] | None:
        """Yield the lines that match in whole plain lines: number from 0, line, and where; None if that is unknown."""
        is_ascii = data.isascii()
        probe = self._ascii if is_ascii else self._other
        return self._found(data, probe, is_ascii and self._is_whole) if probe else None

    def _found(self, data: bytes, probe: bytes, is_exact: bool) -> Iterator[tuple[int, str, int, int]]:
        searched = data.lower() if self._ignores else data
        number = counted = at = 0
        while (at := find(searched, probe, at)) >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            line = data[begin:end]
            hit: tuple[int, int] | None
            if is_exact and len(line) <= COLUMNS_MAX and b"\t" not in line:
                text, hit = line.decode("ascii").removesuffix("\r"), (at - begin, at - begin + len(probe))
            else:
                folded = fold(line)
                text = folded[0].text if folded else ""
                hit = self._match(text)
            if hit is not None:
                number += data.count(b"\n", counted, begin)
                counted = begin
                yield number, text, *hit
            at = end + 1


def whole_lines(data: bytes) -> int:
    """Return how many bytes of a log are lines that can be searched here: those that nothing behind can change.

    0 if the bytes are not plain, or have too few lines.
    """
    if not is_plain(data):
        return 0
    stop = data.rfind(b"\n") + 1
    for _ in range(WINDOW):
        stop = data.rfind(b"\n", 0, max(0, stop - 1)) + 1
    return stop


def _from_libc() -> Callable[[bytes, bytes, int], int]:
    search = ctypes.CDLL(None).memmem
    search.restype = ctypes.c_void_p
    search.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def found(data: bytes, part: bytes, at: int) -> int:
        base: int = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        place = search(base + at, len(data) - at, part, len(part)) if at < len(data) else None
        return -1 if place is None else int(place) - base

    return found


try:
    #: Return where a part begins in bytes from a place on, or -1. The one of the C library is three times faster.
    find = _from_libc()
except (OSError, AttributeError):
    find = bytes.find
