"""The one place that prints: text, tables, JSON, ids, bytes and complaints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

#: Blanks between two columns, and how far the column that gives way does so before others join in.
GAP = 2
FLEXIBLE_LEAST = 24

_ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
#: Characters that reorder or hide what follows them on a terminal.
_TREACHEROUS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")


def text(content: str, *, fd: int = 1) -> int:
    """Print text as it is; returns 0, the exit code of having said something."""
    stream = sys.stderr if fd == 2 else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    write(content.encode(encoding, "backslashreplace"), fd=fd)
    return 0


def line(content: str) -> int:
    """Print one line of data, control characters made visible."""
    return text(clean(content) + "\n")


def lines(content: str) -> int:
    """Print several lines, control characters other than the line ends made visible."""
    return text("".join(clean(each) + "\n" for each in content.split("\n")))


def document(content: Any) -> int:
    """Print a JSON document."""
    return text(json.dumps(content, indent=2) + "\n")


def error(message: str) -> None:
    """Complain in one line on stderr."""
    with suppress(OSError):  # where nobody can read it, that is no failure of what was asked
        text(f"grass: {clean(message)}\n", fd=2)


def outcome(as_json: bool, answer: dict[str, object], sentence: str) -> int:
    """Say what an action did: the answer as a document, or a sentence; and what else there is to say."""
    if as_json:
        document(answer)
    else:
        line(sentence)
    others = answer.get("notes")
    notes([str(note) for note in others] if isinstance(others, list) else [])
    return 0


def notes(messages: Iterable[str]) -> None:
    """Print remarks on stderr, one line each."""
    for message in messages:
        error(message)


def write(data: bytes, *, fd: int = 1) -> None:
    """Write bytes as they are; an OSError says where they could not be written."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stderr" if fd == 2 else "stdout") from error


def reason(error: OSError) -> str:
    """What an OSError says, as a part of a line."""
    return f"{error.filename + ': ' if isinstance(error.filename, str) else ''}{error.strerror or error}"


def is_terminal(fd: int = 1) -> bool:
    """Whether a person is looking."""
    return os.isatty(fd)


def width() -> int:
    """Columns of the terminal."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def clean(content: str) -> str:
    """`content` with every character that could move the cursor or reorder the line written as an escape."""
    if content.isprintable():
        return content
    return "".join(_visible(each) for each in content)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: str = "") -> None:
    """Print a table: fitted to the screen on a terminal, plain aligned text in a pipe."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if is_terminal():
        _fitted(headers, cells, flexible)
    else:
        _plain(headers, cells)


def _visible(character: str) -> str:
    if character in _TREACHEROUS or not (character.isprintable() or _is_private(character)):
        return _ESCAPES.get(ord(character)) or character.encode("unicode_escape").decode("ascii")
    return character


def _is_private(character: str) -> bool:
    # Symbols of patched fonts: not "printable" to Python, harmless on a terminal.
    return "\ue000" <= character <= "\uf8ff"


def _plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    out = []
    for row in (headers, *rows):
        out.append("  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip())
    text("\n".join(out) + "\n")


_STYLES = {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "placed": "cyan",
    "held": "magenta",
    "unreachable": "red",
    "silent": "red",
}


def _fitted(headers: Sequence[str], rows: Sequence[Sequence[str]], flexible: str) -> None:
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for header, size in zip(headers, _widths(headers, rows, flexible), strict=True):
        drawn.add_column(header, no_wrap=True, overflow="ellipsis", width=size)
    for row in rows:
        # Text, not str: square brackets in a command are not rich's markup.
        drawn.add_row(*(Text(cell, style=_style(header, cell)) for header, cell in zip(headers, row, strict=True)))
    # Drawn aside and written at once, so that a closed pipe or a full disk shows up here and not at exit.
    buffer = io.StringIO()
    Console(file=buffer, force_terminal=True, width=width(), highlight=False).print(drawn)
    text(buffer.getvalue())


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], flexible: str) -> list[int]:
    from rich.cells import cell_len

    sizes = [max(cell_len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    excess = sum(sizes) + GAP * (len(sizes) - 1) - width()
    if excess > 0 and flexible in headers:
        column = headers.index(flexible)
        given = min(excess, max(0, sizes[column] - FLEXIBLE_LEAST))
        sizes[column] -= given
        excess -= given
    while excess > 0 and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
        excess -= 1
    return sizes


def _style(header: str, cell: str) -> str:
    return _STYLES.get(cell.split(" ")[0], "") if header == "STATE" else ""


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr that is gone at the end; call what it gives with done, total and a remark."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[remark]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, remark="")
        yield lambda done, total, remark: bar.update(task, completed=done, total=total, remark=remark)
