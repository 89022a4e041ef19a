"""The workers of a board, and the queues that they offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grassq.core.model import Constraints, QueueTemplate
from grassq.core.planner.workers import WorkerState

#: Among the paused queues: every queue.
EVERYTHING = ""


class Fleet:
    """All workers, queues and pauses."""

    def __init__(self, paused: Mapping[str, str] | None = None) -> None:
        """Begin without a worker."""
        self.workers: dict[str, WorkerState] = {}
        self._offering: dict[str, list[WorkerState]] = {}  # by queue, each in the order of names
        #: The queues defined at the broker, by name.
        self.templates: dict[str, QueueTemplate] = {}
        #: The queues that are paused, EVERYTHING for all of them, and the name of the user that paused each.
        self.paused: dict[str, str] = dict(paused or {})
        #: Workers not heard since the broker began, and until when nothing is started without them: one of them may
        #: know that the store was restored.
        self.awaited: set[str] = set()
        self.awaited_until = 0.0

    def offering(self, queue: str) -> Iterator[WorkerState]:
        """Yield the workers that offer a queue, by name."""
        return iter(self._offering.get(queue, ()))

    def takers(self, queue: str, constraints: Constraints) -> Iterator[WorkerState]:
        """Yield the workers where a job with these constraints may be placed now, by name."""
        for worker in self.offering(queue):
            if worker.takes and worker.refuses(queue, constraints) is None:
                yield worker

    def queue_names(self) -> set[str]:
        """Return every queue that exists."""
        return {*self._offering, *self.templates}

    def resource_names(self) -> set[str]:
        """Return every resource that some machine has."""
        return {name for worker in self.workers.values() for name in worker.resource_names()}

    def is_paused(self, queue: str) -> bool:
        """Tell whether a queue, or everything, is paused."""
        return EVERYTHING in self.paused or queue in self.paused

    def awaits(self, now: float) -> set[str]:
        """Return the workers that a new broker still waits for before it starts anything."""
        return self.awaited if now < self.awaited_until else set()

    def _note_offers(self) -> None:
        self._offering = {}
        for name in sorted(self.workers):
            for queue in self.workers[name].offers:
                self._offering.setdefault(queue, []).append(self.workers[name])

    def lose_touch(self, worker: str, heard: float, now: float) -> None:
        """Note that a worker is offline: it keeps what it holds, and nothing more is placed there."""
        state = self.workers[worker]
        if state.online:
            state.online, state.since = False, now
        # The later time counts: a lease must never seem to be over too early.
        state.heard = max(state.heard, heard)
