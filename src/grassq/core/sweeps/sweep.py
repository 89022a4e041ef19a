"""A sweep: jobs that were submitted together, how many may run at once, and after how many failures it stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

#: What made the jobs: `--array`, `--each`, `grass sweep`, or `grass sweep --file`.
SweepKind = Literal["array", "each", "sweep", "file"]
#: The characters of a definition that are kept.
DEFINITION_CHARS_MAX = 4000


class Sweep(Struct, frozen=True, kw_only=True):
    """A sweep as it is stored."""

    #: The id of its first job.
    id: int
    #: What its jobs are called; with `{NAME}` in it, each job has a name of its own.
    name: str
    kind: SweepKind
    #: What was typed, for people to read.
    definition: str
    created: float
    #: The most jobs that run at once.
    at_once: int | None = None
    #: The failures after which nothing more of it starts.
    max_fails: int | None = None
    #: Why it was stopped; None if it was not.
    stopped: str | None = None
    #: Failures count of the jobs from this id on; a sweep that was stopped counts those of its later jobs only.
    counted_from: int = 0
    #: The token it was submitted with; None for the owner.
    token: str | None = None
    #: Whether it has a limit and a job that has not ended.
    is_open: bool = False

    @property
    def is_limited(self) -> bool:
        """Whether it has a limit that the broker keeps."""
        return self.at_once is not None or self.max_fails is not None

    @property
    def group(self) -> str:
        """The group of its jobs."""
        return f"sweep:{self.id}"


class LiveSweep(Struct):
    """A sweep with a limit and unfinished jobs, as the board has it."""

    sweep: Sweep
    unfinished: int = 0
    #: Its failed jobs from `counted_from` on.
    failed: int = 0
    #: While it stops: its jobs up to this id were looked at; None before and after.
    stopping: int | None = None

    def has_stopped(self, job: int) -> bool:
        """Tell whether a job of the sweep must not start any more, because the sweep was stopped."""
        return self.sweep.stopped is not None and job < self.sweep.counted_from


def is_stopped(sweeps: Mapping[int, LiveSweep], sweep: int | None, job: int) -> bool:
    """Tell whether a job must not start any more, because the sweep that it is part of was stopped."""
    live = None if sweep is None else sweeps.get(sweep)
    return live is not None and live.has_stopped(job)


def stop_reason(name: str, failed: int) -> str:
    """Return why the jobs of a sweep are cancelled that have not started."""
    return f"sweep {name} stopped: {failed} of its jobs failed"
