"""Whole numbers as text, and job ids as ranges. Light to import, because every command may need it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: 2**63 - 1, the largest number that is stored, has this many digits.
DIGITS_MAX = 19


def is_number(text: str, digits: int = DIGITS_MAX) -> bool:
    """Return whether a text is a whole number in ASCII digits, and at most this many: `int` takes more than that."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def id_ranges(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return ids in ascending order as (first, last) of each run without a gap."""
    ranges: list[tuple[int, int]] = []
    first = last = -1
    for id_ in ids:
        if id_ != last + 1 or first < 0:
            if first >= 0:
                ranges.append((first, last))
            first = id_
        last = id_
    if first >= 0:
        ranges.append((first, last))
    return ranges
