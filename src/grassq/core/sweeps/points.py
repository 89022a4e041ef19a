"""Points of a sweep in a file: rows of a CSV with a header, objects of JSON lines, or lines of text."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from grassq.core.names import shown
from grassq.core.sweeps.parameters import NAME_CHARS_MAX, PARAMETERS_MAX, VALUE_CHARS_MAX
from grassq.errors import BadInput

#: The bytes of a file of points, and its rows.
FILE_BYTES_MAX = 16 << 20
ROWS_MAX = 100_000
#: The only column of a text.
LINE = "line"

FileKind = Literal["csv", "jsonl", "txt"]
_KINDS: dict[str, FileKind] = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "txt": "txt"}


class Points(Struct, frozen=True):
    """The rows of a file: the values of each column, and the line on which each row begins."""

    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    lines: list[int]

    def columns(self) -> dict[str, list[str]]:
        """Return the values of each column, row by row."""
        return {name: [row[place] for row in self.rows] for place, name in enumerate(self.names)}


def kind_of(typed: str) -> tuple[FileKind, str]:
    """Return what a file is, and its path: by `csv:FILE`, or by the end of its name; `-` is a text."""
    prefix, colon, path = typed.partition(":")
    if colon and path and prefix in _KINDS:
        return _KINDS[prefix], path
    if typed == "-":
        return "txt", typed
    kind = _KINDS.get(typed.rpartition(".")[2].lower()) if "." in typed else None
    if kind is None:
        raise BadInput(
            f"{shown(typed)} is not a file of points: its name ends in .csv, .jsonl or .txt, or write csv:FILE"
        )
    return kind, typed


def read_points(content: bytes, kind: FileKind, file: str) -> Points:
    """Return the points of a file; raise BadInput with the file and the line for whatever is wrong."""
    if len(content) > FILE_BYTES_MAX:
        raise BadInput(f"{file}: more than {FILE_BYTES_MAX >> 20} MiB; put the points into several files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _fault(file, line, "it is not text in UTF-8") from None
    if "\0" in text:
        raise _fault(file, text.count("\n", 0, text.index("\0")) + 1, "it has a NUL, which no program can be given")
    points = _READERS[kind](text, file)
    if not points.rows:
        raise BadInput(f"{file}: it has no row, so there is nothing to run")
    return points


def _fault(file: str, line: int, why: str) -> BadInput:
    return BadInput(f"{file}, line {line}: {why}")


def _collected(names: tuple[str, ...], rows: Iterator[tuple[int, tuple[str, ...]]], file: str) -> Points:
    found: list[tuple[str, ...]] = []
    lines: list[int] = []
    for line, row in rows:
        if len(found) >= ROWS_MAX:
            raise _fault(file, line, f"more than {ROWS_MAX:,} rows")
        for name, value in zip(names, row, strict=True):
            if len(value) > VALUE_CHARS_MAX:
                raise _fault(file, line, f"the value of {shown(name)} has more than {VALUE_CHARS_MAX:,} characters")
        found.append(row)
        lines.append(line)
    return Points(names, found, lines)


def _check_names(names: tuple[str, ...], file: str, line: int) -> None:
    if len(names) > PARAMETERS_MAX:
        raise _fault(file, line, f"{len(names)} columns, and {PARAMETERS_MAX} are the most")
    for place, name in enumerate(names):
        if not 1 <= len(name) <= NAME_CHARS_MAX or "{" in name or "}" in name:
            raise _fault(
                file, line, f"{shown(name)} is not a name of a column: 1 to {NAME_CHARS_MAX} characters, no brace"
            )
        if name in names[:place]:
            raise _fault(file, line, f"two columns are called {shown(name)}")


def _of_csv(text: str, file: str) -> Points:
    # Not by `splitlines`: other line breaks than these are part of a value.
    reader = csv.reader((f"{each}\n" for each in text.removesuffix("\n").split("\n")), strict=True)

    def rows() -> Iterator[tuple[int, tuple[str, ...]]]:
        while True:
            # The line on which the row begins: a value in quotes may go on over several lines.
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise _fault(file, line, f"it is not CSV: {error}") from None
            if row is None:
                return
            if row:
                yield line, tuple(row)

    every = rows()
    line, header = next(every, (1, ()))
    names = tuple(name.strip() for name in header)
    if not names:
        raise BadInput(f"{file}: it is empty; the first line of a CSV has the names of its columns")
    _check_names(names, file, line)

    def checked() -> Iterator[tuple[int, tuple[str, ...]]]:
        for line, row in every:
            if len(row) != len(names):
                raise _fault(file, line, f"it has {len(row)} values, and the header has {len(names)} columns")
            yield line, row

    return _collected(names, checked(), file)


def _of_jsonl(text: str, file: str) -> Points:
    names: tuple[str, ...] = ()

    def rows() -> Iterator[tuple[int, tuple[str, ...]]]:
        nonlocal names
        for line, each in enumerate(text.split("\n"), 1):
            if not each.strip():
                continue
            row = _object(each, file, line)
            if not names:
                names = tuple(row)
                _check_names(names, file, line)
            if missing := next((name for name in names if name not in row), None):
                raise _fault(file, line, f"it has no {shown(missing)}, which the first line has")
            if strange := next((name for name in row if name not in names), None):
                raise _fault(file, line, f"it has {shown(strange)}, which the first line does not have")
            yield line, tuple(_scalar(row[name], name, file, line) for name in names)

    found: list[tuple[str, ...]] = []
    lines: list[int] = []
    for line, row in rows():
        if len(found) >= ROWS_MAX:
            raise _fault(file, line, f"more than {ROWS_MAX:,} rows")
        found.append(row)
        lines.append(line)
    return _collected(names, iter(zip(lines, found, strict=True)), file)


def _object(each: str, file: str, line: int) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise _fault(file, line, "a name is in it twice")
        return dict(pairs)

    try:
        # Numbers stay as they are written.
        row = json.loads(each, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise _fault(file, line, f"it is not JSON: {str(error).partition(':')[0].lower()}") from None
    if not isinstance(row, dict) or not row:
        raise _fault(file, line, 'it is not an object such as {"lr": 0.1}')
    return row


def _scalar(value: Any, name: str, file: str, line: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise _fault(file, line, f"the value of {shown(name)} is neither a text, a number nor a truth value")
    if "\0" in value:
        raise _fault(file, line, f"the value of {shown(name)} has a NUL, which no program can be given")
    return value


def _of_txt(text: str, file: str) -> Points:
    lines = enumerate((each.removesuffix("\r") for each in text.split("\n")), 1)
    return _collected((LINE,), ((line, (each,)) for line, each in lines if each.strip()), file)


_READERS = {"csv": _of_csv, "jsonl": _of_jsonl, "txt": _of_txt}
