"""Counts runs in groups: jobs, results, hours of each resource, and how long jobs waited."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import ceil
from typing import TypedDict

from msgspec import Struct, field

from grassq.core.resources.amounts import ONE, Allocation

#: The most groups; what belongs to further ones is counted as OTHERS.
GROUPS_MAX = 1000
OTHERS = "(others)"
#: The group of a run that has no name, or no worker.
NONE = "(none)"
HOUR_S = 3600.0


class RunFacts(Struct, frozen=True):
    """What counts of one attempt."""

    #: How the job ended, for its last attempt; None for an earlier attempt.
    state: str | None
    #: The seconds that the attempt ran; None if it never started.
    ran_s: float | None
    #: The seconds between submission and start, for the first attempt.
    waited_s: float | None
    allocation: Allocation


class HistoryGroupDocument(TypedDict):
    """A group of runs, counted."""

    #: The day, queue, name, worker, user or project; null for the total.
    group: str | None
    #: Jobs that have ended.
    jobs: int
    #: Attempts that started.
    runs: int
    succeeded: int
    failed: int
    cancelled: int
    #: Of the jobs that succeeded or failed, the part that succeeded.
    success_rate: float | None
    run_hours: float
    #: By resource: amount times hours.
    hours: dict[str, float]
    #: How long jobs waited for their first start, in seconds.
    wait_median_s: float | None
    wait_p90_s: float | None


class GroupTally(Struct):
    """The sums of one group."""

    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    #: Attempts that started.
    runs: int = 0
    run_s: float = 0.0
    #: By resource: the sum of amount times seconds, in millionths.
    used: dict[str, float] = field(default_factory=dict)
    waits: array[float] = field(default_factory=lambda: array("d"))

    @property
    def jobs(self) -> int:
        """The jobs that have ended."""
        return self.succeeded + self.failed + self.cancelled

    def add(self, run: RunFacts) -> None:
        """Count one attempt."""
        if run.state is not None:
            setattr(self, run.state, getattr(self, run.state) + 1)
        if run.waited_s is not None:
            self.waits.append(max(0.0, run.waited_s))
        if run.ran_s is None:
            return
        ran_s = max(0.0, run.ran_s)
        self.runs += 1
        self.run_s += ran_s
        for name, held in run.allocation.items():
            amount = sum(held.values()) if isinstance(held, dict) else held
            self.used[name] = self.used.get(name, 0.0) + amount * ran_s

    def document(self, name: str | None) -> HistoryGroupDocument:
        """Return the sums for people and programs; None where there is nothing to divide by."""
        decided = self.succeeded + self.failed
        waits = sorted(self.waits)
        return {
            "group": name,
            "jobs": self.jobs,
            "runs": self.runs,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "success_rate": round(self.succeeded / decided, 4) if decided else None,
            "run_hours": _hours(self.run_s),
            "hours": {resource: _hours(used / ONE) for resource, used in sorted(self.used.items())},
            "wait_median_s": _rounded(median(waits)),
            "wait_p90_s": _rounded(percentile(waits, 90)),
        }


class HistoryTally:
    """All groups, and their total."""

    def __init__(self) -> None:
        self.total = GroupTally()
        self._groups: dict[str, GroupTally] = {}

    def add(self, group: str, run: RunFacts) -> None:
        """Count one attempt in its group and in the total."""
        found = self._groups.get(group)
        if found is None:
            group = group if len(self._groups) < GROUPS_MAX else OTHERS
            found = self._groups.setdefault(group, GroupTally())
        found.add(run)
        self.total.add(run)

    def rows(self, *, by_name: bool) -> list[HistoryGroupDocument]:
        """Return the groups: by their names, or the most run time first."""
        order = sorted(self._groups.items(), key=lambda item: item[0] if by_name else (-item[1].run_s, item[0]))
        return [tally.document(name) for name, tally in order]


def median(ordered: Sequence[float]) -> float | None:
    """Return the middle of sorted numbers, or the mean of the two in the middle."""
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest of sorted numbers that at least this part of them does not exceed."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else None


def _hours(seconds: float) -> float:
    return round(seconds / HOUR_S, 6)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
