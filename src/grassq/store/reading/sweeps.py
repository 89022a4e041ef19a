"""Sweeps, and how many of their jobs are in each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

import msgspec

from grassq.core.sweeps.sweep import Sweep
from grassq.store import sql
from grassq.store.base import Row
from grassq.store.reading.jobs import JobReader

#: The columns of the table `sweep`, which are the fields of a sweep.
_COLUMNS = ("id", "name", "kind", "definition", "created", "at_once", "max_fails", "stopped", "counted_from", "token")


def sweep_row(sweep: Sweep) -> tuple[object, ...]:
    """Return the columns of a sweep."""
    return (*(getattr(sweep, name) for name in _COLUMNS), int(sweep.is_open))


def _sweep_from(row: Row) -> Sweep:
    fields = dict(zip(_COLUMNS, row, strict=False))
    return msgspec.convert({**fields, "is_open": bool(row[-1])}, Sweep)


class SweepReader(JobReader):
    """The part of a store that reads sweeps."""

    def sweeps(self, ids: Sequence[int]) -> dict[int, Sweep]:
        """Return the sweeps of these ids; an id without a sweep is left out."""
        with self._foreign_errors():
            rows = self._of_ids(sql.SELECT_SWEEPS_OF_IDS, sorted(set(ids))) if ids else []
            return {row[0]: _sweep_from(row) for row in rows}

    def open_sweeps(self) -> list[Sweep]:
        """Return the sweeps that have a limit and an unfinished job, oldest first."""
        return self._read(_sweep_from, sql.SELECT_OPEN_SWEEPS)

    def newest_sweeps(self, limit: int) -> list[Sweep]:
        """Return the newest sweeps, newest first, at most `limit`."""
        return self._read(_sweep_from, sql.SELECT_NEWEST_SWEEPS, limit)

    def sweep_file(self, name: str, token: str | None) -> Sweep | None:
        """Return the newest sweep in a file of this name and this token; None for a token is the owner."""
        found = self._read(_sweep_from, sql.SELECT_SWEEP_FILE, name, token or "")
        return found[0] if found else None

    def sweeps_below(self, id_: int, limit: int) -> list[Sweep]:
        """Return the sweeps with ids below `id_`, newest first, at most `limit`."""
        return self._read(_sweep_from, sql.SELECT_SWEEPS_BELOW, id_, limit)

    def in_sweep(self, sweep: int) -> Counter[str]:
        """Return how many jobs of a sweep are in each state; looks at each of its jobs."""
        return Counter(dict(self._read(itemgetter(0, 1), sql.COUNT_IN_SWEEP, sweep)))

    def failed_in_sweep(self, sweep: int, first: int) -> int:
        """Return how many jobs of a sweep with ids from `first` on have failed."""
        return int(self._read(itemgetter(0), sql.COUNT_FAILED_IN_SWEEP, sweep, first)[0])

    def last_of_sweep(self, sweep: int) -> int:
        """Return the newest job of a sweep; 0 if it has none."""
        return int(self._read(itemgetter(0), sql.SELECT_LAST_OF_SWEEP, sweep)[0] or 0)
