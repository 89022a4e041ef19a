"""Tables as Slurm writes them: `%.18i %.9P`, and for sacct columns by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from grassq.core.names import shown
from grassq.errors import BadInput

T = TypeVar("T")
#: The most columns of a table, and the widest.
COLUMNS_MAX, WIDTH_MAX = 200, 10_000
_FIELD = re.compile(r"%(?P<right>\.?)(?P<width>#|\d{0,5})(?P<letter>[A-Za-z])")


class FormatColumn(NamedTuple):
    """A column of a format, or text between columns."""

    letter: str
    width: int | None
    right: bool
    #: Text that stands for itself.
    text: str = ""
    #: As wide as its longest value.
    fitted: bool = False


def read_format(text: str, letters: Mapping[str, object], what: str) -> list[FormatColumn]:
    """Return the columns of a format such as "%.18i %R"; raise BadInput for a letter that is not known."""
    columns: list[FormatColumn] = []
    end = 0
    for match in _FIELD.finditer(text):
        if match["letter"] not in letters:
            known = " ".join(f"%{letter}" for letter in letters)
            raise BadInput(f"{what} {shown(text)}: there is no {shown(match[0])} here; there are {known}")
        if match.start() > end:
            columns.append(FormatColumn("", None, False, text[end : match.start()]))
        width = int(match["width"]) if match["width"] and match["width"] != "#" else None
        if width is not None and width > WIDTH_MAX:
            raise BadInput(f"{what} {shown(text)}: a column is at most {WIDTH_MAX:,} wide")
        columns.append(FormatColumn(match["letter"], width, bool(match["right"]), fitted=match["width"] == "#"))
        end = match.end()
    if end < len(text):
        columns.append(FormatColumn("", None, False, text[end:]))
    if len(columns) > COLUMNS_MAX:
        raise BadInput(f"{what} has more than {COLUMNS_MAX} columns")
    return columns


def table(
    columns: Sequence[FormatColumn],
    fields: Mapping[str, tuple[str, Callable[[T], str]]],
    rows: Sequence[T],
    *,
    header: bool = True,
) -> list[str]:
    """Return the lines of a table; `fields` has the heading and the value of each letter."""
    lines: list[list[str]] = (
        [[fields[each.letter][0] if each.letter else each.text for each in columns]] if header else []
    )
    lines += [[fields[each.letter][1](row) if each.letter else each.text for each in columns] for row in rows]
    widths = [max((len(line[place]) for line in lines), default=0) for place in range(len(columns))]
    return [
        "".join(
            _cell(text, column, widths[place]) for place, (text, column) in enumerate(zip(line, columns, strict=True))
        )
        for line in lines
    ]


def _cell(text: str, column: FormatColumn, longest: int) -> str:
    width = longest if column.fitted else column.width
    if width is None:
        return text
    return text[:width].rjust(width) if column.right else text[:width].ljust(width)


class NamedColumn(NamedTuple):
    """A column of sacct."""

    name: str
    width: int
    right: bool


def read_names(text: str, known: Mapping[str, tuple[str, int]], what: str) -> list[NamedColumn]:
    """Return the columns of a list such as JobID,State%20; `known` has small letters."""
    columns = []
    for part in filter(None, text.split(",")):
        name, percent, width = part.strip().partition("%")
        found = known.get(name.lower())
        if found is None:
            names = ", ".join(spelled for spelled, _ in known.values())
            raise BadInput(f"{what}: Invalid field requested: {shown(name)}; there are {names}")
        wide = int(width) if percent and width.lstrip("-").isdigit() and len(width) <= 5 else found[1]
        columns.append(NamedColumn(found[0], abs(wide), wide > 0))
    if not columns or len(columns) > COLUMNS_MAX:
        raise BadInput(f"{what} has 1 to {COLUMNS_MAX} columns")
    return columns


def named_table(columns: Sequence[NamedColumn], rows: Sequence[Mapping[str, str]], *, header: bool) -> list[str]:
    """Return the lines of a table as sacct writes it, with a line below the headings."""
    lines = [[column.name for column in columns], ["-" * column.width for column in columns]] if header else []
    lines += [[row[column.name] for column in columns] for row in rows]
    return [
        " ".join(_named_cell(text, column) for text, column in zip(line, columns, strict=True)) + " " for line in lines
    ]


def _named_cell(text: str, column: NamedColumn) -> str:
    # A text that was cut ends with a plus sign.
    cut = text if len(text) <= column.width else text[: column.width - 1] + "+"
    return cut.rjust(column.width) if column.right else cut.ljust(column.width)
