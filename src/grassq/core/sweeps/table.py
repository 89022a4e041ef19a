"""The columns and rows of a sweep."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from grassq.core.sweeps.parameters import PARAMETERS_MAX, Parameters, differing, is_numeric, told_by, words_of

#: The numbers of one result that are looked at, and the columns of results; and the characters of the name of each.
NUMBERS_MAX, NUMBER_NAME_CHARS_MAX = 200, 100
#: The characters of all texts of a table; with more, each text is cut.
TEXT_CHARS_MAX = 8 << 20
#: At the end of a text that was cut.
CUT = "…"
#: The largest value is this many times the smallest where a logarithmic axis shows more.
LOG_RATIO = 50.0

Value = float | str | None


class SweepJob(Struct, frozen=True):
    """What a sweep shows of a job."""

    id: int
    state: str
    queue: str
    #: Seconds since the epoch.
    created: float
    started: float | None = None
    finished: float | None = None
    words: tuple[str, ...] = ()
    parameters: Parameters = ()
    #: The numbers of its result by dotted name.
    numbers: dict[str, float] = {}
    #: Whether the one word is a line for a shell.
    is_line: bool = False
    #: The seconds for which its last attempt was suspended.
    suspended_s: float = 0.0


class SweepColumn(Struct, frozen=True):
    """One column; the values of a column of numbers are numbers or missing."""

    name: str
    group: Literal["parameter", "result"]
    kind: Literal["number", "text"]
    #: Whether the values are spread so far that a logarithmic axis shows more.
    is_log: bool


_Column = tuple[SweepColumn, Sequence[Value]]


def numbers_of(result: str | None) -> dict[str, float]:
    """Return the numbers of a result by dotted name, at most NUMBERS_MAX; a bare number is called `result`."""
    if result is None:
        return {}
    found: dict[str, float] = {}
    _collect(json.loads(result), "", found)
    return found


def _collect(value: object, name: str, found: dict[str, float]) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            _collect(each, (f"{name}.{key}" if name else str(key))[:NUMBER_NAME_CHARS_MAX], found)
    elif isinstance(value, int | float) and not isinstance(value, bool) and len(found) < NUMBERS_MAX:
        number = _number(value)
        if number is not None:
            found[name or "result"] = number


def _number(value: float | str) -> float | None:
    """Return a number as a finite one; None if it is none. A whole number stays whole if it is exact as a float."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def table_of(jobs: Sequence[SweepJob]) -> tuple[list[SweepColumn], list[list[Value]]]:
    """Return the columns of a sweep, and for each job its values in the order of the columns."""
    names, given = _parameters(jobs)
    parameters = [_column(name, "parameter", [row.get(name) for row in given]) for name in names]
    keys = list(dict.fromkeys(name for job in jobs for name in job.numbers))[:NUMBERS_MAX]
    results = [_column(name, "result", [job.numbers.get(name) for job in jobs]) for name in keys]
    both = _cut([*parameters, *results])
    return [column for column, _ in both], [list(row) for row in zip(*(values for _, values in both), strict=True)] or [
        [] for _ in jobs
    ]


def _parameters(jobs: Sequence[SweepJob]) -> tuple[list[str], list[dict[str, str]]]:
    """Return the names of the parameters, and for each job its values: the given ones, else those of its words."""
    names = list(dict.fromkeys(name for job in jobs for name, _ in job.parameters))[:PARAMETERS_MAX]
    if names:
        return names, [dict(job.parameters) if job.parameters else _told(job) for job in jobs]
    told = [_told(job) for job in jobs]
    return differing(told), told


def _told(job: SweepJob) -> dict[str, str]:
    return told_by(words_of(job.words, is_line=job.is_line))


def _cut(columns: list[_Column]) -> list[_Column]:
    """Cut all texts to the same length if they are too long together."""
    texts = [column for column, _ in columns if column.kind == "text"]
    size = sum(len(value) for _, values in columns for value in values if isinstance(value, str))
    if size <= TEXT_CHARS_MAX:
        return columns
    most = max(1, TEXT_CHARS_MAX // (len(texts) * max(1, len(columns[0][1]))))
    return [(column, [_short(value, most) for value in values]) for column, values in columns]


def _short(value: Value, most: int) -> Value:
    return value[: most - 1] + CUT if isinstance(value, str) and len(value) > most else value


def _column(name: str, group: Literal["parameter", "result"], values: Sequence[Value]) -> _Column:
    present = [value for value in values if value is not None]
    if not present or any(isinstance(value, str) and not is_numeric(value) for value in present):
        return SweepColumn(name, group, "text", False), values
    numbers = [None if value is None else _number(value) for value in values]
    return SweepColumn(name, group, "number", _is_log(numbers)), numbers


def _is_log(numbers: Iterable[float | None]) -> bool:
    different = {number for number in numbers if number is not None}
    return len(different) > 2 and min(different) > 0 and max(different) >= LOG_RATIO * min(different)
