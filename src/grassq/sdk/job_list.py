"""Several jobs: a list that a notebook shows as a table."""

from __future__ import annotations

from typing import SupportsIndex, overload

from grassq.sdk import display
from grassq.sdk.job import Job


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
