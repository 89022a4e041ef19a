"""What a job says about other jobs: it starts after they succeeded, ended or failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

#: `ok`: all of them succeeded; `any`: all of them ended; `fail`: one of them failed or was cancelled.
Condition = Literal["ok", "any", "fail"]
#: The option that asks for each condition.
OPTION_OF: dict[Condition, str] = {"ok": "--after", "any": "--after-any", "fail": "--after-fail"}
#: The most ranges of ids in a condition of a job.
RANGES_MAX = 100_000
#: How many ranges are named in a reason.
_SHOWN = 3

_WORDS: dict[Condition, str] = {"ok": "after", "any": "after the end of", "fail": "after a failure of"}


class Dependency(Struct, frozen=True, array_like=True):
    """One condition of a job, and the jobs that it is about: inclusive ranges of ids, in order."""

    condition: Condition
    ranges: Annotated[tuple[tuple[int, int], ...], Meta(max_length=RANGES_MAX)]

    @property
    def ids(self) -> Iterator[int]:
        """The ids of the jobs, in order."""
        return (id_ for first, last in self.ranges for id_ in range(first, last + 1))

    @property
    def count(self) -> int:
        """How many jobs the condition is about."""
        return sum(last - first + 1 for first, last in self.ranges)


def in_words(dependencies: Iterable[Dependency]) -> str:
    """Return what a job waits for: `after job 12`, `after the end of jobs 3-7, 9`."""
    return " and ".join(f"{_WORDS[each.condition]} {_jobs(each)}" for each in dependencies)


def _jobs(dependency: Dependency) -> str:
    ranges = [str(first) if first == last else f"{first}-{last}" for first, last in dependency.ranges]
    more = [f"and {len(ranges) - _SHOWN} more"] if len(ranges) > _SHOWN else []
    return f"{'job' if dependency.count == 1 else 'jobs'} {', '.join([*ranges[:_SHOWN], *more])}"
