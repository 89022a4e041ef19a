"""A screen written as bytes, and read again."""

from __future__ import annotations

from itertools import groupby

import msgspec

from grassq.core.term.row import COLUMNS_MAX, MARKS_MAX, Row
from grassq.core.term.screen import WINDOW, Screen
from grassq.core.term.sequences import STRING_MAX
from grassq.core.term.style import is_style

#: Changes whenever a state means something else.
VERSION = 1
#: The longest unfinished sequence.
PENDING_MAX = 256
_NUMBER_MAX = 1 << 60


class _RowState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    text: str
    #: Style and count of columns, in turn.
    runs: list[int]
    marks: dict[int, str]
    begin: int
    end: int
    begin_style: int
    updates: int
    cut: int
    is_ended: bool


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    offset: int
    first: int
    row: int
    column: int
    style: int
    saved: tuple[int, int, int]
    has_moved: bool
    fresh: tuple[int, int]
    bent: int
    pending: bytes
    skipped: int
    rows: list[_RowState]


def encode(screen: Screen) -> bytes:
    """Return the state of a screen."""
    rows = [
        _RowState(
            row.text, _runs(row), row.marks, row.begin, row.end, row.begin_style, row.updates, row.cut, row.is_ended
        )
        for row in screen.rows
    ]
    bent = screen.bent if screen.rows and screen.bent >= screen.rows[0].begin else 0
    saved = _State(
        VERSION, screen.offset, screen.first, screen.row, screen.column, screen.style, screen.saved, screen.has_moved,
        screen.fresh, bent, screen.pending, screen.skipped, rows,
    )  # fmt: skip
    return msgspec.msgpack.encode(saved)


def decode(data: bytes) -> Screen:
    """Return the screen of a state; raise ValueError if it is damaged."""
    try:
        saved = msgspec.msgpack.decode(data, type=_State)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"no state of a screen: {error}") from None
    if saved.version != VERSION or not _is_sound(saved):
        raise ValueError("no state of a screen of this release")
    screen = Screen(offset=saved.offset, number=saved.first)
    screen.row, screen.column, screen.style, screen.saved = saved.row, saved.column, saved.style, saved.saved
    screen.has_moved, screen.fresh, screen.bent = saved.has_moved, saved.fresh, saved.bent
    screen.pending, screen.skipped = saved.pending, saved.skipped
    screen.rows = [_row(each) for each in saved.rows]
    return screen


def _runs(row: Row) -> list[int]:
    if isinstance(row.styles, int):
        return [row.styles, len(row.text)]
    return [part for style, run in groupby(row.styles) for part in (style, sum(1 for _ in run))]


def _row(saved: _RowState) -> Row:
    row = Row(saved.begin, saved.begin_style)
    row.text, row.marks, row.end = saved.text, saved.marks, saved.end
    row.updates, row.cut, row.is_ended = saved.updates, saved.cut, saved.is_ended
    styles, sizes = saved.runs[::2], saved.runs[1::2]
    if sum(sizes) != len(row.text):
        raise ValueError("no state of a screen: styles and text differ in length")
    if len(styles) == 1:
        row.styles = styles[0]
    else:
        row.styles = [style for style, size in zip(styles, sizes, strict=True) for _ in range(size)]
    return row


def _is_sound(saved: _State) -> bool:
    counts = [saved.offset, saved.first, saved.bent, saved.skipped, saved.fresh[0] + 1, *saved.saved]
    for row in saved.rows:
        counts += [row.begin, row.end, row.updates, row.cut, *row.runs[1::2]]
    columns = [saved.column, saved.saved[1], *(len(row.text) for row in saved.rows)]
    styles = [saved.style, saved.saved[2], saved.fresh[1]]
    styles += [style for row in saved.rows for style in (row.begin_style, *row.runs[::2])]
    marks = [mark for row in saved.rows for mark in row.marks.items()]
    return (
        all(0 <= count < _NUMBER_MAX for count in counts)
        and all(map(is_style, styles))
        and all(0 <= column <= COLUMNS_MAX for column in columns)
        and all(0 <= row < WINDOW for row in (saved.row, saved.saved[0]))
        and all(0 <= at <= COLUMNS_MAX and len(mark) <= MARKS_MAX for at, mark in marks)
        and all(len(row.runs) % 2 == 0 and len(row.runs) >= 2 for row in saved.rows)
        and len(saved.rows) <= WINDOW
        and len(saved.pending) <= PENDING_MAX
        and saved.skipped <= STRING_MAX + 1
    )
