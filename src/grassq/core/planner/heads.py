"""Heads: the first job of each queue that did not fit, and how patient it is."""

from __future__ import annotations

from msgspec import Struct


class ReservationPolicy(Struct, frozen=True):
    """How many jobs may pass a head, and how long it waits, before it keeps room from jobs of equal priority too."""

    passes: int = 64
    wait_s: float = 600.0
    #: Whether a job may use what is kept for a head while the head cannot start anyway; off only to compare.
    backfills: bool = True


class Head(Struct, frozen=True):
    """The first job of a queue that did not fit: since when, and how many jobs have passed it."""

    job: int
    since: float
    passed: int = 0


class Kept(Struct, frozen=True):
    """The worker on which room is kept for a waiting job, and since when."""

    worker: str
    since: float


def is_ripe(head: Head, patience: ReservationPolicy, now: float) -> bool:
    """Tell whether a head has been passed often enough, or has waited long enough, to keep room from equals."""
    return head.passed >= patience.passes or now - head.since >= patience.wait_s
