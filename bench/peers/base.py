"""What every contestant can be asked."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

from bench.limit import Programs

SLOTS = 2
NOTHING = "/bin/true"
#: How long a contestant may take to be ready, and how long so many jobs may take.
READY_S = 90.0
PER_JOB_S = 0.1
#: A stamp is looked for only after a while and seldom: whoever looks takes a core from what is measured.
FIRST_LOOK_S = 0.005
LOOK_S = 0.002
#: Between two jobs on an idle queue: whatever the last one left to do is done by then.
IDLE_S = 0.05


class Trouble(Exception):
    """A contestant did not do what it should; its figures are left out."""


class Latency(NamedTuple):
    """One job handed to an idle queue, in milliseconds from the call."""

    #: Until the call returns; None where nobody answers.
    submit: float | None
    #: Until the job's first instruction.
    start: float


class Contestant(ABC):
    """One way to run many programs, so many at a time. Started and stopped for each turn."""

    name: ClassVar[str]
    #: How it is used here.
    how: ClassVar[str]
    #: More than this many jobs it is not given at once.
    most: ClassVar[int | None] = None
    #: Whether its jobs are programs; else a rate and gaps would not mean what they mean elsewhere.
    starts_programs: ClassVar[bool] = True

    folder: Path
    programs: Programs

    def available(self) -> str | None:
        """Why it cannot be measured here; None where it can."""
        return None

    def start(self, folder: Path, programs: Programs) -> None:
        """Make it ready, with nothing of it outside of the folder."""
        self.folder = folder
        self.programs = programs
        self._files = 0
        self.set_up()

    def set_up(self) -> None:
        """Start what has to run."""
        return

    def stop(self) -> None:
        """End what runs."""
        return

    @abstractmethod
    def throughput(self, count: int) -> float:
        """Seconds from handing over so many programs that do nothing, to the last known end."""

    @abstractmethod
    def latency(self) -> Latency:
        """One job on an idle queue."""

    @abstractmethod
    def gaps(self, count: int) -> list[float]:
        """Milliseconds between the starts of so many jobs, one at a time."""

    def new_file(self) -> Path:
        """A place for stamps that nobody has used."""
        self._files += 1
        return self.folder / f"stamps.{self._files}"

    def stamp(self, file: Path) -> list[str]:
        """The command that stamps its first instruction."""
        return [*self.programs.stamp, str(file)]


def limit_s(count: int) -> float:
    """How long so many jobs may take."""
    return READY_S + count * PER_JOB_S


def stamps(file: Path, count: int) -> list[int]:
    """Wait for so many stamps; their times in order."""
    deadline = time.monotonic() + limit_s(count)
    time.sleep(FIRST_LOOK_S)
    # A line is written at once, whole.
    while not file.exists() or (text := file.read_bytes()).count(b"\n") < count:
        if time.monotonic() > deadline:
            raise Trouble(f"fewer than {count} jobs have started after {limit_s(count):g} s")
        time.sleep(LOOK_S)
    return sorted(map(int, text.split()))


def gaps_between(times: list[int]) -> list[float]:
    """Nanoseconds as milliseconds from one to the next."""
    return [(later - earlier) / 1e6 for earlier, later in pairwise(times)]
