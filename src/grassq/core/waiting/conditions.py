"""What a job says about other jobs: it starts after they succeeded, ended or failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from grassq.core.syntax.numbers import id_ranges
from grassq.errors import Refused

#: `ok`: all of them succeeded; `any`: all of them ended; `fail`: one of them failed or was cancelled.
Condition = Literal["ok", "any", "fail"]
#: The option that asks for each condition.
OPTION_OF: dict[Condition, str] = {"ok": "--after", "any": "--after-any", "fail": "--after-fail"}
#: The most ranges of ids in a condition of a job. A stored job may have more, from an earlier release.
RANGES_MAX = 100_000
#: How many ranges are named in a reason.
_SHOWN = 3

_WORDS: dict[Condition, str] = {"ok": "after", "any": "after the end of", "fail": "after a failure of"}


class Dependency(Struct, frozen=True, array_like=True):
    """One condition of a job, and the jobs that it is about: inclusive ranges of ids, in order."""

    condition: Condition
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def on(cls, condition: Condition, ids: Iterable[int]) -> Dependency:
        """Return the condition on these jobs; raise Refused for more than RANGES_MAX ranges of ids."""
        ranges = tuple(id_ranges(sorted(ids)))
        if len(ranges) > RANGES_MAX:
            raise Refused(
                f"{OPTION_OF[condition]} names jobs in {len(ranges):,} ranges of ids; {RANGES_MAX:,} is the most: let "
                "several jobs wait for some of them each, and this job for those"
            )
        return cls(condition, ranges)

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
    shown, left = dependency.ranges[:_SHOWN], len(dependency.ranges) - _SHOWN
    ranges = [str(first) if first == last else f"{first}-{last}" for first, last in shown]
    is_one = len(dependency.ranges) == 1 and shown[0][0] == shown[0][1]
    return f"{'job' if is_one else 'jobs'} {', '.join([*ranges, *([f'and {left} more'] if left > 0 else [])])}"
