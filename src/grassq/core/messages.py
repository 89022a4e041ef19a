"""What broker and worker say to each other: orders one way, reports the other. Any may arrive twice, or late."""

from __future__ import annotations

from msgspec import Struct

from grassq.core import states
from grassq.core.model import AttemptId, Pairs, Placement, Spec, WorkerInfo


class Start(Struct, frozen=True, tag="start"):
    """Run this attempt, unless it was started before: then say how it stands."""

    job: int
    attempt: int
    spec: Spec
    placement: Placement
    env: Pairs
    name: str | None = None
    #: A rerun shares the checkpoint folder of the first job.
    checkpoint_of: int | None = None

    @property
    def id(self) -> AttemptId:
        """The attempt this order is about."""
        return (self.job, self.attempt)


class Check(Struct, frozen=True, tag="check"):
    """The broker believes this attempt runs here: say how it stands, and never start it."""

    job: int
    attempt: int
    boot: str

    @property
    def id(self) -> AttemptId:
        """The attempt this order is about."""
        return (self.job, self.attempt)


class Stop(Struct, frozen=True, tag="stop"):
    """End this attempt: TERM, grace, KILL; if it has not started, it never will."""

    job: int
    attempt: int
    grace_s: float
    boot: str

    @property
    def id(self) -> AttemptId:
        """The attempt this order is about."""
        return (self.job, self.attempt)


class Ack(Struct, frozen=True, tag="ack"):
    """The report of this attempt's end is on disk; it need not be repeated."""

    job: int
    attempt: int


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
FromWorker = Hello | Report
