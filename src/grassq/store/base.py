"""What a store promises. Each method states its guarantee; one conformance suite checks every implementation."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from grassq.core.model import Job, Outcome, Placement, WorkerInfo
from grassq.core.selectors import Selector


class Submission(Struct, frozen=True):
    """What a client's key stands for: the request's digest, and the jobs it made or changed."""

    key: str
    digest: bytes
    first_id: int
    count: int
    at: float
    #: Of an action on jobs that existed: which ones it was done to.
    ids: tuple[int, ...] = ()


class Story(Struct, frozen=True):
    """One line of a job's story."""

    job: int
    at: float
    kind: str
    detail: str = ""


class Attempt(Struct, frozen=True, kw_only=True):
    """One try of a job, as kept."""

    job: int
    number: int
    placement: Placement
    pid: int | None = None
    started: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None


class Changes(Struct):
    """Everything one batch changes; it is stored whole or not at all."""

    inserted: dict[int, Job] = field(default_factory=dict)
    #: Job id to (as stored, as it shall be).
    updated: dict[int, tuple[Job, Job]] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    story: list[Story] = field(default_factory=list)
    environments: dict[bytes, bytes] = field(default_factory=dict)
    submissions: dict[str, Submission] = field(default_factory=dict)
    workers: dict[str, WorkerInfo] = field(default_factory=dict)
    #: The new set of paused queues, if it changed.
    paused: set[str] | None = None
    removed: list[int] = field(default_factory=list)

    def put(self, before: Job | None, after: Job) -> None:
        """Note that a job is now `after`; several moves of one job become one write."""
        if before is None or after.id in self.inserted:
            self.inserted[after.id] = after
        elif after.id in self.updated:
            self.updated[after.id] = (self.updated[after.id][0], after)
        else:
            self.updated[after.id] = (before, after)

    @property
    def empty(self) -> bool:
        """Nothing to commit."""
        lists = (self.inserted, self.updated, self.attempts, self.story, self.submissions, self.workers, self.removed)
        return not any(lists) and self.paused is None


class Loaded(Struct, frozen=True):
    """What a broker starts from."""

    store_id: str
    #: Every job that is not finished.
    jobs: list[Job]
    workers: list[WorkerInfo]
    paused: set[str]
    #: The highest id ever given, also to a job removed since.
    highest_id: int


class Store(Protocol):
    """One broker's memory. A single thread calls it."""

    def load(self) -> Loaded:
        """Everything that is alive, as of the last commit."""

    def commit(self, changes: Changes) -> None:
        """All of it durable, or none of it and an exception.

        A job row that is not as `updated` expects raises GuardFailed; what the disk refuses raises StoreUnavailable.
        """

    def submission(self, key: str) -> Submission | None:
        """What a key was used for, kept SUBMISSION_KEPT_S."""

    def environment(self, digest: bytes) -> bytes | None:
        """The content stored under a digest."""

    def jobs(self, selector: Selector, limit: int) -> list[Job]:
        """The jobs a selector names, by id, at most `limit`."""

    def recent(self, since: float, limit: int) -> list[Job]:
        """The last jobs finished after `since`, newest first."""

    def totals(self) -> dict[str, int]:
        """How many jobs are in each state."""

    def attempts(self, job: int) -> list[Attempt]:
        """Every try of a job, oldest first."""

    def story(self, job: int) -> list[Story]:
        """What happened to a job, oldest first."""

    def rerun_jobs(self) -> set[int]:
        """The jobs that some kept job runs again."""

    def close(self) -> None:
        """Let go of the store."""


SUBMISSION_KEPT_S = 7 * 86400.0
