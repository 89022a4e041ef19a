"""What the routes ask of the workers, wherever those are."""

from __future__ import annotations

from typing import Protocol

from grassq.core.model import Offer
from grassq.web.logs.tail import Source


class QueueAdmin(Protocol):
    """Where the queues of one worker are made and deleted."""

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue; tells created, unchanged or replaced, and notes."""

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""


class LogSources(Protocol):
    """Every worker there is: this machine's own, if it has one, and those on other machines."""

    def queue_admin(self, worker: str | None = None) -> QueueAdmin:
        """The desk of a worker, or of this machine's own; a sentence when it cannot be asked."""

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        """Where the log of an attempt is read that was given to this worker."""

    async def remove(self, ids: list[int], spare: set[int]) -> None:
        """Delete what is kept of finished jobs, but not the checkpoints of those to spare."""

    def describe(self) -> dict[str, object]:
        """What `doctor` wants to know."""

    def folders(self) -> list[int]:
        """The ids that have a folder on this machine, newest first and bounded."""

    def strays(self, jobs: list[int]) -> list[dict[str, str]]:
        """Return how to submit these jobs again, which have a folder on this machine and no stored job."""
