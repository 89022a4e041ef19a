"""The reference emulator: pyte as a terminal of the size of our window, with everything that left its top."""

from __future__ import annotations

import unicodedata

import pyte
import pyte.graphics
import pyte.modes

from grassq.core.term.line import Line
from grassq.core.term.row import COLUMNS_MAX
from grassq.core.term.screen import WINDOW
from grassq.core.term.style import BOLD, ITALIC, REVERSE, STRIKE, TRUE_COLOUR, UNDERLINE, background, foreground

#: A character that is no blank, with its style: column, character, foreground, background, attributes.
Cell = tuple[int, str, str, str, frozenset[str]]

_NAMES = ["black", "red", "green", "brown", "blue", "magenta", "cyan", "white"]


def pyte_lines(data: bytes) -> list[list[Cell]]:
    """The lines that pyte shows, without empty ones at the end."""
    screen = pyte.HistoryScreen(COLUMNS_MAX, WINDOW, history=1_000_000)
    # A file has bare newlines; a terminal's driver adds the carriage returns.
    screen.set_mode(pyte.modes.LNM)
    pyte.ByteStream(screen).feed(data)
    rows = [*screen.history.top, *(screen.buffer[y] for y in range(WINDOW))]
    found = []
    for row in rows:
        cells: list[Cell] = []
        for x in sorted(row):
            char = row[x]
            if char.data.strip():
                on = {
                    name
                    for name in ("bold", "italics", "underscore", "strikethrough", "reverse")
                    if getattr(char, name)
                }
                cells.append((x, char.data, char.fg, char.bg, frozenset(on)))
        found.append(cells)
    while found and not found[-1]:
        found.pop()
    return found


def our_lines(lines: list[Line]) -> list[list[Cell]]:
    """Our lines in the same form."""
    found = []
    for line in lines:
        cells: list[Cell] = []
        column = 0
        for style, text in line.spans:
            for char in text:
                if char == "\t":
                    column += 8 - column % 8
                    continue
                if unicodedata.combining(char):
                    at, before, *_ = cells[-1]
                    cells[-1] = (at, unicodedata.normalize("NFC", before + char), *cells[-1][2:])
                    continue
                if char.strip():
                    cells.append((column, char, *_look(style)))
                column += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        found.append(cells)
    while found and not found[-1]:
        found.pop()
    return found


def _look(style: int) -> tuple[str, str, frozenset[str]]:
    names = {BOLD: "bold", ITALIC: "italics", UNDERLINE: "underscore", STRIKE: "strikethrough", REVERSE: "reverse"}
    return (
        _colour(foreground(style)),
        _colour(background(style)),
        frozenset(name for bit, name in names.items() if style & bit),
    )


def _colour(colour: int) -> str:
    if not colour:
        return "default"
    if colour & TRUE_COLOUR:
        return f"{colour & 0xFFFFFF:06x}"
    if colour <= 8:
        return _NAMES[colour - 1]
    if colour <= 16:
        return "bright" + _NAMES[colour - 9]
    return str(pyte.graphics.FG_BG_256[colour - 1])
