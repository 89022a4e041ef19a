"""What a plan may still give to groups with a limit.

The first waiting job of a group, in order, keeps its part of the limit: another job of the group starts only if both
fit. So a large job drains the limit and starts, however many small jobs of its group come. A job that could not start
at all (its queue is paused, no worker could run it, a limit is less than it asks for) keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from msgspec import Struct

from grassq.core.model import Constraints, Job
from grassq.core.planner.board import Board
from grassq.core.planner.limits.groups import GroupUse, never_within
from grassq.core.planner.request_classes import RequestClass
from grassq.core.resources.amounts import Request
from grassq.core.suspension.room import counted

#: How many of the jobs that hold what a group may are named.
HOLDERS_SHOWN = 8


class _First(Struct, frozen=True):
    """The first waiting job of a group."""

    order: int
    request_class: RequestClass
    key: int
    request: Request


class GroupRoom:
    """The rests of all limits in one plan."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._limits = board.group_limits
        #: What groups hold, where the plan has changed it.
        self._changed: dict[str, GroupUse] = {}
        self._firsts: dict[str, _First | None] = {}
        #: The request classes with queued jobs of each group that has a limit.
        self._classes: dict[str, list[RequestClass]] | None = None
        #: The suspended jobs that are to go on: their part of the limits is kept for them.
        self._returning = counted(board)
        for job in self._returning:
            for name in self.limited(job.spec.constraints):
                self._changing(name).add(job.spec.request, 1)

    def limited(self, constraints: Constraints) -> tuple[str, ...]:
        """Return the groups of a job that have a limit."""
        return self._board.groups.limited(constraints) if self._limits else ()

    def fitting(self, request_class: RequestClass, most: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Iterate over the jobs of a class that ask for no more than `most` and than its groups may have, in order."""
        names = self.limited(request_class.constraints)
        if not names:
            return request_class.index.fitting(most)
        own = sorted(
            (first.order, first.key)
            for first in {self._first(name) for name in names}
            if first is not None
            and first.request_class is request_class
            and self._holds(names, first.order, first.request)
            and all(amount <= limit for (_, amount), limit in zip(first.request, most, strict=True))
        )
        bounds = [min(each) for each in zip(most, self._bounds(names, request_class.names), strict=True)]
        if self._jobs_left(names, None) < 1:
            return iter(own)
        return merge(own, request_class.index.fitting(bounds))

    def allows(self, constraints: Constraints, order: int, request: Request) -> bool:
        """Tell whether the groups of a queued job let it start."""
        names = self.limited(constraints)
        return not names or self._holds(names, order, request)

    def take(self, names: Sequence[str], order: int, request: Request) -> None:
        """Count a job of groups with a limit that starts."""
        for name in names:
            self._changing(name).add(request, 1)
            first = self._firsts.get(name)
            if first is not None and first.order == order:
                del self._firsts[name]

    def give(self, job: Job) -> None:
        """Count a job as if it had ended."""
        for name in self.limited(job.spec.constraints):
            self._changing(name).add(job.spec.request, -1)

    def uses(self) -> dict[str, GroupUse]:
        """Return a copy of what the plan has changed, for `restore`."""
        return {name: use.copy() for name, use in self._changed.items()}

    def restore(self, uses: dict[str, GroupUse]) -> None:
        """Count what was counted before."""
        self._changed = uses
        self._firsts.clear()

    def settle(self) -> None:
        """Find the first waiting job of every group while the indexes are without the jobs that this plan starts."""
        for name in self._by_group():
            self._first(name)

    def refusal(self, job: Job) -> tuple[str, tuple[int, ...]] | None:
        """Return in words why the groups of a queued job do not let it start, and the jobs that hold what it lacks."""
        names = self.limited(job.spec.constraints)
        if (never := never_within(self._board, names, job.spec.request)) is not None:
            return never, ()
        for name in names:
            if self._holds((name,), job.order, job.spec.request):
                continue
            held = [each for each in self._board.holding.values() if self._board.counts(each)]
            in_group = [each for each in (*held, *self._returning) if name in self.limited(each.spec.constraints)]
            holders = sorted(each.id for each in in_group)
            return f"limit {name} {self._limits[name].text()}: {self._why(name, job, holders)}", tuple(holders)
        return None

    def _used(self, name: str) -> GroupUse:
        """Return what a group holds; not to be changed."""
        return self._changed.get(name) or self._board.groups.use[name]

    def _changing(self, name: str) -> GroupUse:
        """Return what a group holds, to be changed in this plan."""
        if name not in self._changed:
            self._changed[name] = self._board.groups.use[name].copy()
        return self._changed[name]

    def _by_group(self) -> dict[str, list[RequestClass]]:
        """Return the request classes of each group: one look at all classes serves all groups."""
        if self._classes is None:
            self._classes = {}
            for request_class in self._board.request_classes() if self._limits else ():
                if request_class.count and not self._board.is_paused(request_class.queue):
                    for name in self.limited(request_class.constraints):
                        self._classes.setdefault(name, []).append(request_class)
        return self._classes

    def _why(self, name: str, job: Job, holders: Sequence[int]) -> str:
        limit, first = self._limits[name], self._first(name)
        lacks = self._used(name).lacks(limit, job.spec.request)
        if limit.jobs == 0:
            return "no job of it starts"
        shown = ", ".join(map(str, holders[:HOLDERS_SHOWN]))
        more = f" and {len(holders) - HOLDERS_SHOWN} more" if len(holders) > HOLDERS_SHOWN else ""
        held = f"; held by job {shown}{more}" if holders else ""
        if lacks is not None:
            return f"{lacks}{held}"
        assert first is not None, "something keeps the job from starting"
        return f"what is left is kept for job {self._board.id_at(first.order)}, the next of the group{held}"

    def _holds(self, names: Sequence[str], order: int, request: Request) -> bool:
        """Tell whether the job at a position fits into what is left of these limits beside the first of each group."""
        if self._jobs_left(names, order) < 1:
            return False
        bounds = self._bounds(names, [name for name, _ in request], order)
        return all(amount <= bound for (_, amount), bound in zip(request, bounds, strict=True))

    def _jobs_left(self, names: Sequence[str], order: int | None) -> int:
        """Return how many more jobs these limits allow, beside the first of each group; 1 stands for any number."""
        left = 1
        for name in names:
            if (most := self._limits[name].jobs) is not None:
                left = min(left, most - self._used(name).jobs - (self._kept_by(name, order) is not None))
        return left

    def _bounds(self, names: Sequence[str], resources: Sequence[str], order: int | None = None) -> list[int]:
        """Return the most of each resource that these limits leave, beside the first of each group."""
        bounds = []
        for resource in resources:
            bound = (1 << 63) - 1
            for name in names:
                if (most := self._limits[name].amounts.get(resource)) is not None:
                    kept = dict(self._kept_by(name, order) or ()).get(resource, 0)
                    bound = min(bound, most - self._used(name).amounts.get(resource, 0) - kept)
            bounds.append(bound)
        return bounds

    def _kept_by(self, name: str, order: int | None) -> Request | None:
        """Return what the first job of a group asks for; None if that is the job at this position, or there is none."""
        first = self._first(name)
        return None if first is None or first.order == order else first.request

    def _first(self, name: str) -> _First | None:
        """Return the first waiting job of a group that could start once others have ended."""
        if name not in self._firsts:
            self._firsts[name] = min(self._candidates(name), key=lambda first: first.order, default=None)
        return self._firsts[name]

    def _candidates(self, name: str) -> Iterator[_First]:
        for request_class in self._by_group().get(name, ()):
            limits = [self._limits[each] for each in self.limited(request_class.constraints)]
            if any(limit.jobs == 0 for limit in limits):
                continue
            for worker in self._board.takers(request_class.queue, request_class.constraints):
                max_fit = worker.max_fit(request_class.queue, request_class.names)
                bounds = [
                    min([most, *(limit.amounts.get(resource, most) for limit in limits)])
                    for resource, most in zip(request_class.names, max_fit.most, strict=True)
                ]
                for order, key in request_class.index.fitting(bounds):
                    if max_fit.holds(request := request_class.request(key)):
                        yield _First(order, request_class, key, request)
                        break
