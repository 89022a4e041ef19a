"""Prints text, tables, JSON, bytes and error messages.

Every command except `enqueue` loads this module, so rarely needed imports are inside functions.
"""

from __future__ import annotations

import os
import sys

from grassq import home as homes
from grassq.descriptors import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

#: Blanks between two columns, and the width to which the flexible column shrinks before other columns shrink.
GAP = 2
FLEXIBLE_LEAST = 24
#: The width and the height of a terminal that does not report them.
COLUMNS = 80
LINES = 24

_ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
#: Printable ASCII and the characters that bars and trees are drawn with: each takes one column. Asking for the width
#: of any other character loads a large table.
_NARROW = frozenset(map(chr, range(32, 127))) | frozenset("…█▉▊▋▌▍▎▏░└├│─━")


def text(content: str, *, fd: int = 1) -> int:
    """Print text, on a terminal with control characters as escapes; return 0, the exit code."""
    return _print(clean_lines(content) if os.isatty(fd) else content, fd)


def line(content: str) -> int:
    """Print one line, with control characters as escapes."""
    return text(clean(content) + "\n")


def lines(content: Iterable[str]) -> int:
    """Print lines that are clean already and may hold colours of this program."""
    return _print("\n".join(content) + "\n")


def document(content: Any) -> int:
    """Print a JSON document."""
    import json

    return text(json.dumps(content, indent=2) + "\n")


def error(message: str) -> None:
    """Print one line on stderr; ignore an unwritable stderr."""
    try:
        text(f"grass: {clean(message)}\n", fd=2)
    except OSError:
        return


def outcome(as_json: bool, answer: dict[str, object], sentence: str) -> int:
    """Print the result of an action as a JSON document or as a sentence, if any, then the notes of the answer."""
    if as_json:
        document(answer)
    elif sentence:
        line(sentence)
    others = answer.get("notes")
    notes([str(note) for note in others] if isinstance(others, list) else [])
    return 0


def notes(messages: Iterable[str]) -> None:
    """Print remarks on stderr, one line each."""
    for message in messages:
        error(message)


def write(data: bytes, *, fd: int = 1) -> None:
    """Write bytes, on a terminal with control characters as escapes; an OSError names stdout or stderr as its file."""
    if os.isatty(fd):
        data = clean_bytes(data)
    write_unchanged(data, fd=fd)


def write_unchanged(data: bytes, *, fd: int = 1) -> None:
    """Write bytes that hold only control sequences of this program, or lines of a log as `core.term` shows them."""
    try:
        write_all(fd, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stderr" if fd == 2 else "stdout") from error


def reason(error: OSError) -> str:
    """Return the file and the reason of an OSError as text."""
    return f"{error.filename + ': ' if isinstance(error.filename, str) else ''}{error.strerror or error}"


def width() -> int:
    """Return the columns of the terminal."""
    stated = homes.environment_text().get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and 0 < len(stated) < 6 and int(stated):
        return int(stated)
    return terminal_size(1)[0]


def height() -> int:
    """Return the lines of the terminal."""
    stated = homes.environment_text().get("LINES", "")
    if stated.isascii() and stated.isdigit() and 0 < len(stated) < 6 and int(stated):
        return int(stated)
    return terminal_size(1)[1]


def terminal_size(fd: int) -> tuple[int, int]:
    """Return the columns and lines that a terminal reports, whatever the environment states."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return COLUMNS, LINES
    return size.columns or COLUMNS, size.lines or LINES


def has_colours() -> bool:
    """Tell whether to print colours: TERM allows them and NO_COLOR is not set."""
    environ = homes.environment_text()
    return not environ.get("NO_COLOR") and environ.get("TERM", "") not in ("", "dumb", "unknown")


def clean(content: str) -> str:
    """Return the text with every character that could move the cursor or reorder the line as an escape."""
    if content.isprintable():
        return content
    return "".join(visible(each) for each in content)


def clean_lines(content: str) -> str:
    """Return the text of several lines with every other control character as an escape."""
    return "\n".join(map(clean, content.split("\n")))


def clean_bytes(data: bytes) -> bytes:
    """Return the UTF-8 text of several lines with every other control character, and every other byte, as an escape."""
    return clean_lines(data.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")


class Table:
    """A table that prints its rows at once: cut to the width of a terminal, or plain aligned text in a pipe.

    The first rows decide the width of the columns. A longer cell of a later row is cut on a terminal; in a pipe it
    moves the cells behind it.
    """

    def __init__(self, headers: Sequence[str], flexible: str = "", whole: str = "") -> None:
        """Cut the column `flexible` first, and the column `whole` last: people type what it says."""
        self._headers = headers
        self._flexible = flexible
        self._whole = whole
        self._fitted = os.isatty(1)
        self._coloured = self._fitted and has_colours()
        self._sizes: list[int] | None = None

    def add(self, rows: Iterable[Sequence[str]]) -> None:
        """Print rows; the first call prints the headers too."""
        cells = [[clean(cell) for cell in row] for row in rows]
        drawn = []
        if self._sizes is None:
            screen = width() if self._fitted else 0
            self._sizes = _widths(self._headers, cells, self._flexible, self._whole, screen)
            drawn.append(self._row(self._headers, [BOLD if self._coloured else ""] * len(self._headers)))
        for row in cells:
            pairs = zip(self._headers, row, strict=True)
            drawn.append(self._row(row, [style_of(*pair) if self._coloured else "" for pair in pairs]))
        _print("\n".join(drawn) + "\n" if drawn else "")

    def _row(self, cells: Sequence[str], styles: Sequence[str]) -> str:
        assert self._sizes is not None
        drawn = []
        for cell, size, style in zip(cells, self._sizes, styles, strict=True):
            shown, used = cut(cell, size) if self._fitted else (cell, len(cell))
            drawn.append((f"{style}{shown}{PLAIN}" if style else shown) + " " * (size - used))
        return (" " * GAP).join(drawn).rstrip()


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, flexible: str = "", whole: str = "") -> None:
    """Print a table."""
    Table(headers, flexible, whole).add(rows)


def visible(character: str) -> str:
    """Return the character, or an escape if it could move the cursor or reorder the line."""
    # Icons of patched fonts: Python calls them unprintable, but they are harmless on a terminal.
    is_icon = "\ue000" <= character <= "\uf8ff"
    if not (character.isprintable() or is_icon):
        return _ESCAPES.get(ord(character)) or character.encode("unicode_escape").decode("ascii")
    return character


def _print(content: str, fd: int = 1) -> int:
    encoding = getattr(sys.stderr if fd == 2 else sys.stdout, "encoding", None) or "utf-8"
    write_unchanged(content.encode(encoding, "backslashreplace"), fd=fd)
    return 0


#: Colours by the first word of a STATE cell: green, red, yellow, cyan, magenta.
#: By the first word of a state: its colour.
STATE_COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "ending": "yellow",
    "running": "cyan",
    "placed": "cyan",
    "held": "magenta",
    "unreachable": "red",
    "silent": "red",
}
_CODES = {
    "": "",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
    "magenta": "\x1b[35m",
    "cyan": "\x1b[36m",
}
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def cut(cell: str, size: int) -> tuple[str, int]:
    """Return the cell cut to `size` columns, with an ellipsis if it was cut, and the columns it takes."""
    used = columns(cell)
    if used <= size:
        return cell, used
    mark = "…" if is_utf8() else "~"
    # A character takes two columns at most.
    cell = cell[: 2 * size + 2]
    while cell and columns(cell) >= size:
        cell = cell[: -max(1, (columns(cell) - size) // 2)]
    return (cell + mark, columns(cell) + 1) if size > 0 else ("", 0)


def is_utf8(fd: int = 1) -> bool:
    """Tell whether what is printed may hold characters beyond ASCII."""
    encoding = getattr(sys.stderr if fd == 2 else sys.stdout, "encoding", None) or "utf-8"
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def columns(content: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if content.isascii() or _NARROW.issuperset(content):
        return len(content)
    import unicodedata

    taken = 0
    for character in content:
        if unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            taken += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return taken


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], flexible: str, whole: str, screen: int) -> list[int]:
    """Return the widths of the columns on a screen of `screen` columns; with 0 no cell is cut."""
    measure = columns if screen else len
    sizes = [max(measure(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    excess = sum(sizes) + GAP * (len(sizes) - 1) - screen if screen else 0
    if excess > 0 and flexible in headers:
        column = headers.index(flexible)
        given = min(excess, max(0, sizes[column] - FLEXIBLE_LEAST))
        sizes[column] -= given
        excess -= given
    for cut in ([column for column, header in enumerate(headers) if header != whole], range(len(headers))):
        while excess > 0 and (largest := max(cut, key=sizes.__getitem__, default=None)) is not None:
            if sizes[largest] <= 1:
                break
            sizes[largest] -= 1
            excess -= 1
    return sizes


def style_of(header: str, cell: str) -> str:
    """Return the colour of a cell, or ""."""
    return _CODES[STATE_COLOURS.get(cell.split(" ")[0], "")] if header == "STATE" else ""
