"""The answers about many jobs: the overview, lists, sweeps, and what an action has done."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.broker.documents.fleet import QueueDocument, WorkerDocument
from grassq.broker.documents.job import JobDocument


class SweepDocument(TypedDict):
    """The jobs of a sweep, or those that share a name, counted."""

    #: What its jobs are called; with `{NAME}` in it, each job has a name of its own.
    name: str
    #: The sweep, `sweep:ID` as a selector; null for jobs that only share a name.
    id: int | None
    #: The most jobs that run at once, and the failures after which nothing more starts.
    at_once: int | None
    max_fails: int | None
    #: Why it was stopped.
    stopped: str | None
    #: The queue of the newest job.
    queue: str
    jobs: int
    ended: int
    #: Running, or about to.
    running: int
    #: How many jobs are in each state.
    counts: dict[str, int]


class FleetDocument(TypedDict):
    """Queues and workers, and how many jobs there are: an overview without jobs."""

    #: The version of this format.
    schema: int
    #: The release of the daemon.
    version: str
    queues: list[QueueDocument]
    workers: list[WorkerDocument]
    #: How many jobs are in each state.
    totals: dict[str, int]
    #: The queues that are paused; an empty name for all.
    paused: list[str]
    #: The workers that a broker with a restored store waits for.
    restored: list[str]
    #: Whether there are jobs that are not in the answer.
    more: bool
    #: With `look` or `brief`: the sweeps that the jobs are part of.
    sweeps: NotRequired[list[SweepDocument]]
    #: With `brief`: when a job succeeded last.
    last_succeeded: NotRequired[str | None]


class OverviewDocument(FleetDocument):
    """Queues, workers and jobs."""

    jobs: list[JobDocument]


class PausedDocument(TypedDict):
    """What is paused."""

    #: Whether everything is.
    all: bool
    queues: list[str]
