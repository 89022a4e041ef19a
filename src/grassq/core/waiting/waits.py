"""What a waiting job waits for."""

from __future__ import annotations

from msgspec import Struct


class ForTime(Struct, frozen=True):
    """A job waits until this time: its start time, or the end of a delay."""

    at: float
    #: How long the delay was when it began; None for a time of day. A delay ignores steps of the wall clock.
    delay_s: float | None = None


class ForQueue(Struct, frozen=True):
    """A job waits until its queue exists and some worker there could run the job."""


class ForJobs(Struct, frozen=True):
    """A job waits for other jobs: those of `Spec.dependencies` that have not ended as asked."""


#: What a waiting job waits for. The job is queued when the last of its waits has been cleared.
Wait = ForTime | ForQueue | ForJobs
