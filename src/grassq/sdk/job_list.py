"""Several jobs: a list that a notebook shows as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import SupportsIndex, overload

from grassq.sdk import display
from grassq.sdk.job import Job

#: A handle, an id, or a selector.
Which = Job | int | str


class JobList(list[Job]):
    """A list of jobs. To show it asks the daemon once for all of them."""

    def __repr__(self) -> str:
        display.glance(self)
        return f"[{', '.join(display.lines(self))}]"

    def _repr_html_(self) -> str:
        display.glance(self)
        return display.table(self)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Job: ...
    @overload
    def __getitem__(self, at: slice) -> JobList: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Job | JobList:
        return JobList(super().__getitem__(at)) if isinstance(at, slice) else super().__getitem__(at)


def flat(which: Iterable[Which | Iterable[Which]]) -> Iterator[Which]:
    """Yield the handles, ids and selectors of arguments that may be lists of them."""
    for each in which:
        if isinstance(each, Job | int | str):
            yield each
        elif isinstance(each, Iterable) and not isinstance(each, bytes):
            yield from flat(each)
        else:
            raise TypeError(f"{each!r} is not a job: give handles, ids, or selectors such as '3-7' and 'failed'")
