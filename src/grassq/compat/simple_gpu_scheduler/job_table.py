"""The submitted commands and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grassq.compat.simple_gpu_scheduler.command_reader import Command

SUCCEEDED = "succeeded"
CANCELLED = "cancelled"


class JobTable:
    """The commands of unfinished jobs by job id, and counts of the finished jobs."""

    def __init__(self) -> None:
        self._unfinished: dict[int, Command] = {}
        #: The announced attempt of each started job; a later attempt is announced again.
        self._started: dict[int, int] = {}
        #: The id of the last job; 0 before the first submission.
        self.last = 0
        self.succeeded = 0
        self.failed = 0
        #: Commands that were never started, and invalid input.
        self.unstarted = 0

    def __len__(self) -> int:
        return len(self._unfinished)

    def __contains__(self, job: int) -> bool:
        return job in self._unfinished

    @property
    def running(self) -> int:
        """The number of jobs that have started and not ended."""
        return len(self._started)

    @property
    def total(self) -> int:
        """The number of commands so far."""
        return self.done + len(self._unfinished)

    @property
    def done(self) -> int:
        """The number of commands that have ended or never start."""
        return self.succeeded + self.failed + self.unstarted

    def unfinished(self) -> list[int]:
        """Return the jobs that have not ended."""
        return list(self._unfinished)

    def waiting(self) -> Iterator[tuple[int, Command]]:
        """Yield the jobs that have not started, in input order."""
        return ((job, command) for job, command in self._unfinished.items() if job not in self._started)

    def add(self, first: int, commands: Iterable[Command]) -> None:
        """Add stored commands; their job ids are consecutive."""
        for job, command in enumerate(commands, first):
            # A replaced store assigns the same ids again: the job that had this id is lost.
            self.failed += job in self._unfinished
            self._started.pop(job, None)
            self._unfinished[job] = command
            self.last = job

    def start(self, job: int, attempt: int) -> Command | None:
        """Note that an attempt has started; return the command if this attempt was not announced yet."""
        command = self._unfinished.get(job)
        if command is None or self._started.get(job, 0) >= attempt:
            return None
        self._started[job] = attempt
        return command

    def end(self, job: int, state: str) -> Command | None:
        """Note that a job has ended; return its command if the end was not known yet."""
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
        """Return the counts as text."""
        return f"{self.succeeded} succeeded, {self.failed} failed, {self.unstarted} not started"
