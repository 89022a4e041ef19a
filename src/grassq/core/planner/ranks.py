"""Ranks: the places of jobs among jobs of equal priority.

The rank of a job is its id with spare bits below. A job that was moved has a rank between those of two others, and the
ids of such jobs are kept here by rank; of all other jobs the rank tells the id, so nothing is kept of them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from msgspec import Struct

from grassq.core.model import FINAL, RANK_MAX, SPARE_BITS, Job, id_in, is_moved, priority_in, rank_in
from grassq.core.planner.sorted_orders import SortedOrders

#: The ranks of neighbouring ids lie this far apart.
STEP = 1 << SPARE_BITS


class Ranks:
    """The unfinished jobs that were moved, by rank."""

    def __init__(self) -> None:
        self.moved: dict[int, int] = {}

    def put(self, old: Job | None, job: Job) -> None:
        """Replace a job by its new version."""
        if old is not None and old.rank is not None:
            self.moved.pop(old.rank, None)
        if job.rank is not None and job.state not in FINAL:
            self.moved[job.rank] = job.id

    def add(self, jobs: Iterable[Job]) -> None:
        """Add jobs."""
        self.moved.update({job.rank: job.id for job in jobs if job.rank is not None})

    def id_at(self, order: int) -> int:
        """Return the id of the unfinished job at a queue position; KeyError if no job was moved there."""
        rank = rank_in(order)
        return self.moved[rank] if is_moved(rank) else id_in(order)


class LineOfOthers:
    """The positions of all queued jobs except some, which are passed over where a neighbour is asked for."""

    def __init__(self, line: SortedOrders, left_out: Collection[int] = ()) -> None:
        self._line = line
        self._left_out = {*left_out}

    def after(self, order: int) -> int | None:
        """Return the first position after `order`."""
        found = self._line.after(order)
        while found is not None and found in self._left_out:
            found = self._line.after(found)
        return found

    def preceding(self, order: int) -> int | None:
        """Return the last position before `order`."""
        found = self._line.preceding(order)
        while found is not None and found in self._left_out:
            found = self._line.preceding(found)
        return found


class Places(Struct, frozen=True):
    """Where jobs go that are moved."""

    #: The rank of each moved job, ascending.
    ranks: list[int]
    #: The new ranks of jobs that were moved there before and make room, by their positions; their order stays.
    shifted: dict[int, int] = {}


def beside(line: LineOfOthers, order: int, count: int, taken: Container[int], *, before: bool) -> Places | None:
    """Return ranks for jobs that go directly before or after a position; None if there is no room.

    `taken` has the ranks of all jobs that were moved. Ranks next to the position are preferred to ranks beyond the next
    id, which may be the id of a held job. Where no rank is free, the jobs that were moved there are spread anew.
    """
    rank, neighbour = rank_in(order), _neighbour(line, order, before=before)
    if before:
        low, high = (0 if neighbour is None else rank_in(neighbour)), rank
        near = max(low, (high - 1) // STEP * STEP), high
    else:
        low, high = rank, (RANK_MAX if neighbour is None else rank_in(neighbour))
        near = low, min(high, (low // STEP + 1) * STEP)
    ranks = between(*near, count, taken) or between(low, high, count, taken)
    return _spread(line, order, count, taken, before=before) if ranks is None else Places(ranks)


def _neighbour(line: LineOfOthers, order: int, *, before: bool) -> int | None:
    """Return the position before or after another one, if it has the same priority."""
    found = line.preceding(order) if before else line.after(order)
    return found if found is not None and priority_in(found) == priority_in(order) else None


def _spread(line: LineOfOthers, order: int, count: int, taken: Container[int], *, before: bool) -> Places | None:
    """Return ranks for all moved jobs around a position and for those that join them."""
    ahead, low = _run(line, order, before=True)
    behind, high = _run(line, order, before=False)
    here = [order] if is_moved(rank_in(order)) else []
    low, high = (low, high) if here else (low, rank_in(order)) if before else (rank_in(order), high)
    ahead, behind = (ahead, behind) if here else (ahead, []) if before else ([], behind)
    first, last = ([*ahead[::-1]], [*here, *behind]) if before else ([*ahead[::-1], *here], behind)
    ranks = between(low, high, len(first) + count + len(last), taken)
    if ranks is None:
        return None
    at = len(first)
    shifted = dict(zip([*first, *last], [*ranks[:at], *ranks[at + count :]], strict=True))
    return Places(ranks[at : at + count], shifted)


def _run(line: LineOfOthers, order: int, *, before: bool) -> tuple[list[int], int]:
    """Return the positions of moved jobs next to another position, and the rank at which they end."""
    found: list[int] = []
    at = _neighbour(line, order, before=before)
    while at is not None and is_moved(rank_in(at)) and len(found) <= STEP:
        found.append(at)
        at = _neighbour(line, at, before=before)
    if at is not None:
        return found, rank_in(at)
    return found, 0 if before else min(RANK_MAX, (rank_in(found[-1] if found else order) // STEP + 2) * STEP)


def between(low: int, high: int, count: int, taken: Container[int]) -> list[int] | None:
    """Return free ranks between two ranks, ascending and far from each other; None if there are too few."""
    if high - low <= count:
        return None
    found: list[int] = []
    at = low + 1
    for number in range(1, count + 1):
        at = max(at, low + number * (high - low) // (count + 1))
        while at < high and (at in taken or not is_moved(at)):
            at += 1
        if at >= high:
            return _closely(low, high, count, taken)
        found.append(at)
        at += 1
    return found


def _closely(low: int, high: int, count: int, taken: Container[int]) -> list[int] | None:
    """Return the first free ranks between two ranks that lie close together."""
    free = [rank for rank in range(low + 1, min(high, low + 2 * STEP)) if is_moved(rank) and rank not in taken]
    return free[:count] if len(free) >= count else None
