"""The lines of terminal output for a search: plain text comes as blocks of many lines, which is many times faster."""

from __future__ import annotations

from typing import NamedTuple

from grassq.core.term.line import Line
from grassq.core.term.linear import is_linear, plain_text
from grassq.core.term.row import COLUMNS_MAX, escaped
from grassq.core.term.screen import WINDOW, Screen

#: Data with fewer newlines is read line by line.
NEWLINES_LEAST = 4 * WINDOW


class Block(NamedTuple):
    """Whole lines that can no longer change."""

    #: The number of the first line.
    number: int
    #: The lines with a newline between two of them.
    text: str


def scan(screen: Screen, data: bytes) -> list[Block]:
    """Feed bytes to a screen; return the lines that became final as blocks."""
    found: list[Block] = []
    if screen.is_between and data.count(b"\n") > NEWLINES_LEAST:
        first = data.index(b"\n") + 1
        found += _blocks(screen.feed(data[:first]))
        stop = data.rfind(b"\n") + 1
        for _ in range(WINDOW):
            stop = data.rfind(b"\n", 0, stop - 1) + 1
        plain = plain_text(data[first:stop]) if screen.is_below and is_linear(data[first:]) else None
        if plain and _is_short(plain):
            found += _blocks([row.line(screen.first + at) for at, row in enumerate(screen.rows)])
            if b"\r" in plain:
                plain = plain.replace(b"\r\n", b"\n")
            text = escaped(plain[:-1].decode("utf-8", "replace"))
            found.append(Block(screen.first + len(screen.rows), text))
            screen.skip(data[first:stop])
            first = stop
        data = data[first:]
    return found + _blocks(screen.feed(data))


def _is_short(plain: bytes) -> bool:
    """Tell whether no line has more bytes than a line shows columns; looks at few places of short lines."""
    at = 0
    while len(plain) - at > COLUMNS_MAX:
        at = plain.rfind(b"\n", at, at + COLUMNS_MAX + 1) + 1
        if not at:
            return False
    return True


def _blocks(lines: list[Line]) -> list[Block]:
    return [Block(line.number, line.text) for line in lines]
