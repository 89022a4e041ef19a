"""The commands that were handed over, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grassq.compat.simple_gpu_scheduler.command_reader import Command

SUCCEEDED = "succeeded"
CANCELLED = "cancelled"


class JobTable:
    """Commands by the id of their job, as long as they have not ended; of those that have, how many ended how."""

    def __init__(self) -> None:
        self._unfinished: dict[int, Command] = {}
        #: Which attempt of a job was announced.
        self._started: dict[int, int] = {}
        #: The ids of the first and of the last job; 0 before there is one.
        self.first = 0
        self.last = 0
        self.succeeded = 0
        self.failed = 0
        #: Ended without having been started, and what was no command at all.
        self.unstarted = 0

    def __len__(self) -> int:
        return len(self._unfinished)

    def __contains__(self, job: int) -> bool:
        return job in self._unfinished

    @property
    def running(self) -> int:
        """How many have started and not ended."""
        return len(self._started)

    @property
    def total(self) -> int:
        """How many there were so far."""
        return self.done + len(self._unfinished)

    @property
    def done(self) -> int:
        """How many will do nothing more."""
        return self.succeeded + self.failed + self.unstarted

    def unfinished(self) -> list[int]:
        """The jobs that have not ended."""
        return list(self._unfinished)

    def waiting(self) -> Iterator[tuple[int, Command]]:
        """The jobs that have not started, in the order they were read."""
        return ((job, command) for job, command in self._unfinished.items() if job not in self._started)

    def add(self, first: int, commands: Iterable[Command]) -> None:
        """These were stored; their ids follow one another."""
        if not self.first:
            self.first = first
        for job, command in enumerate(commands, first):
            # A store that was replaced gives ids again: what had this one before is lost with the old store.
            self.failed += job in self._unfinished
            self._started.pop(job, None)
            self._unfinished[job] = command
            self.last = job

    def start(self, job: int, attempt: int) -> Command | None:
        """A job has started; its command if that is news."""
        command = self._unfinished.get(job)
        if command is None or self._started.get(job, 0) >= attempt:
            return None
        self._started[job] = attempt
        return command

    def end(self, job: int, state: str) -> Command | None:
        """A job has ended; its command if that is news."""
        command = self._unfinished.pop(job, None)
        if command is None:
            return None
        has_started = self._started.pop(job, None) is not None
        if state == SUCCEEDED:
            self.succeeded += 1
        elif state == CANCELLED and not has_started:
            self.unstarted += 1
        else:
            self.failed += 1
        return command

    def summary(self) -> str:
        """How many ended how, in words."""
        return f"{self.succeeded} succeeded, {self.failed} failed, {self.unstarted} not started"
