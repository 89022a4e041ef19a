"""Ids and ranges of ids, cut into what one statement asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grassq.store import sql


def next_ranges(
    ranges: Sequence[tuple[int, int]], low: int, high: int, count: int
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return ranges from the id `low` on that hold about `count` ids, and the id up to which they are complete."""
    chosen: list[tuple[int, int]] = []
    held, reached = 0, low - 1
    for first, last in sorted((max(first, low), min(last, high)) for first, last in ranges):
        if first > last:
            continue
        if held and held + last - first >= count:
            return tuple(chosen), reached
        chosen.append((first, last))
        held += last - first + 1
        reached = max(reached, last)
    return tuple(chosen), high


def portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ids, as many at a time as one statement names; the last is repeated, so that few statements serve any number."""
    for start in range(0, len(ids), sql.IDS_AT_ONCE):
        some = ids[start : start + sql.IDS_AT_ONCE]
        length = min(1 << (len(some) - 1).bit_length(), sql.IDS_AT_ONCE)
        yield [*some, *[some[-1]] * (length - len(some))]
