"""What broker and worker say to each other: orders one way, reports the other. Any may arrive twice, or late."""

from __future__ import annotations

from msgspec import Struct

from grassq.core import states
from grassq.core.model import AttemptId, Pairs, Placement, Spec, WorkerInfo


class _AboutAttempt(Struct, frozen=True):
    job: int
    attempt: int

    @property
    def id(self) -> AttemptId:
        """The attempt this order is about."""
        return (self.job, self.attempt)


class Start(_AboutAttempt, frozen=True, tag="start"):
    """Run this attempt, unless it was started before: then say how it stands."""

    spec: Spec
    placement: Placement
    env: Pairs
    name: str | None = None
    #: A rerun shares the checkpoint folder of the first job.
    checkpoint_of: int | None = None


class Check(_AboutAttempt, frozen=True, tag="check"):
    """The broker believes this attempt runs here: say how it stands, and never start it."""

    boot: str


class Stop(_AboutAttempt, frozen=True, tag="stop"):
    """End this attempt: TERM, grace, KILL; if it has not started, it never will."""

    grace_s: float
    boot: str


class Ack(_AboutAttempt, frozen=True, tag="ack"):
    """The report of this attempt's end is on disk; it need not be repeated."""


class Hello(Struct, frozen=True, tag="hello"):
    """A worker connected, or has something new to say of itself."""

    info: WorkerInfo
    #: A fresh connection: the broker says again what it believes this worker holds.
    fresh: bool = True


class Report(Struct, frozen=True, tag="report"):
    """What became of an attempt."""

    job: int
    event: states.Report


Order = Start | Check | Stop | Ack
