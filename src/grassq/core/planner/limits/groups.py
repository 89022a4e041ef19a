"""Groups with a limit: what the jobs of each may hold at once, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from grassq.core.model import Constraints, Job
from grassq.core.resources.amounts import Request, amount_text

if TYPE_CHECKING:
    from grassq.core.planner.board import Board


class GroupLimit(Struct, frozen=True):
    """The most that the jobs of a group hold at once."""

    #: By resource, in millionths; a job counts with what it asks for. Other resources have no limit.
    amounts: Mapping[str, int] = field(default_factory=dict)
    #: How many jobs hold devices at once; 0 stops the group, None is no limit.
    jobs: int | None = None

    def text(self) -> str:
        """Return the limit as people write it."""
        words = [f"{name}={amount_text(amount)}" for name, amount in sorted(self.amounts.items())]
        return " ".join(words if self.jobs is None else [*words, f"jobs={self.jobs}"])

    def could_hold(self, request: Request) -> bool:
        """Tell whether a job that asks for this could hold it, if no other job of the group held anything."""
        return self.jobs != 0 and self.too_little_for(request) is None

    def too_little_for(self, request: Request) -> tuple[str, int] | None:
        """Return the first resource of which a request asks for more than the limit, and how much; None if none."""
        return next(((name, amount) for name, amount in request if amount > self.amounts.get(name, amount)), None)


class GroupUse(Struct):
    """What the jobs of a group hold."""

    jobs: int = 0
    amounts: dict[str, int] = field(default_factory=dict)

    def add(self, request: Request, sign: int) -> None:
        """Count a job that begins to hold what it asked for, or ends."""
        self.jobs += sign
        for name, amount in request:
            self.amounts[name] = self.amounts.get(name, 0) + sign * amount

    def lacks(self, limit: GroupLimit, request: Request) -> str | None:
        """Return in words what a limit has too little left of for one more job; None if it has room."""
        for name, amount in request:
            most = limit.amounts.get(name)
            if most is not None and amount > (left := max(0, most - self.amounts.get(name, 0))):
                return f"{amount_text(amount)} {name} needed, {amount_text(left)} left"
        if limit.jobs is not None and self.jobs >= limit.jobs:
            return f"{self.jobs} of its jobs have started" if limit.jobs else "no job of it starts"
        return None

    def exceeds(self, limit: GroupLimit) -> bool:
        """Tell whether the group holds more than its limit, which was set lower meanwhile."""
        if limit.jobs is not None and self.jobs > limit.jobs:
            return True
        return any(self.amounts.get(name, 0) > amount for name, amount in limit.amounts.items())

    def copy(self) -> GroupUse:
        """Return a copy that a plan may change."""
        return GroupUse(self.jobs, dict(self.amounts))


class Groups:
    """The limits of groups, and what the jobs of these groups hold; of other groups nothing is counted."""

    def __init__(self) -> None:
        self.limits: dict[str, GroupLimit] = {}
        self.use: dict[str, GroupUse] = {}

    def set(self, name: str, limit: GroupLimit | None, holding: Iterable[Job]) -> None:
        """Set or remove the limit of a group; `holding` are the jobs that hold devices now."""
        self.limits.pop(name, None)
        self.use.pop(name, None)
        if limit is None:
            return
        self.limits[name], self.use[name] = limit, GroupUse()
        for job in holding:
            if name in names_in(job.spec.constraints):
                self.use[name].add(job.spec.request, 1)

    def count(self, job: Job, *, taking: bool) -> None:
        """Count a job that begins to hold devices, or ends."""
        for name in self.limited(job.spec.constraints):
            self.use[name].add(job.spec.request, 1 if taking else -1)

    def limited(self, constraints: Constraints) -> tuple[str, ...]:
        """Return the groups of a job that have a limit."""
        if not self.limits or constraints.groups is UNSET:
            return ()
        return tuple(name for name in constraints.groups if name in self.limits)

    def only_limited(self, constraints: Constraints) -> Constraints:
        """Return constraints without the groups that have no limit, which do not matter to a plan."""
        if constraints.groups is UNSET:
            return constraints
        limited = self.limited(constraints)
        return constraints if limited == constraints.groups else replace(constraints, groups=limited or UNSET)

    def is_exceeded(self, constraints: Constraints) -> bool:
        """Tell whether a group of a job holds more than its limit already."""
        return any(self.use[name].exceeds(self.limits[name]) for name in self.limited(constraints))


def names_in(constraints: Constraints) -> tuple[str, ...]:
    """Return the groups of a job."""
    return () if constraints.groups is UNSET else constraints.groups


def never_within(board: Board, groups: Iterable[str], request: Request) -> str | None:
    """Return why a job of these groups can never start: it asks for more than a limit; None if it can.

    A group that is stopped (jobs=0) is no such reason: it may go on.
    """
    for name in groups:
        limit = board.group_limits.get(name)
        above = None if limit is None else limit.too_little_for(request)
        if limit is not None and above is not None:
            what = "" if len(limit.amounts) == 1 else f" {above[0]}"
            return f"limit {name} {limit.text()}: job asks for {amount_text(above[1])}{what}"
    return None
