"""How a job was last suspended."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Suspension(Struct, frozen=True, array_like=True):
    """How the newest attempt of a job was last suspended, and whether it was resumed since."""

    #: The number of the last order to the worker: an order or a report with another number is outdated.
    number: int
    #: When the user asked for it.
    since: float
    #: The devices are given back while the processes are stopped.
    frees: bool = False
    #: A resume was asked, and when: of an attempt that `frees`, the resume waits until its devices have room again.
    resuming: bool = False
    resume_asked: float = 0.0
    #: The worker has confirmed the order of this number.
    confirmed: bool = False
    #: Since when the processes are stopped, as the worker has confirmed; None while they run.
    stopped_at: float | None = None

    @property
    def wants_stop(self) -> bool:
        """Whether the processes are to be stopped; else they are to run."""
        return self.frees or not self.resuming

    @property
    def is_freed(self) -> bool:
        """Whether the attempt holds nothing now: its processes are stopped, and its devices are given back."""
        return self.frees and self.confirmed

    @property
    def waits(self) -> bool:
        """Whether the attempt goes on as soon as its devices have room for it."""
        return self.is_freed and self.resuming

    @property
    def is_over(self) -> bool:
        """Whether the processes run again."""
        return self.confirmed and not self.wants_stop

    def stopped_s(self, until: float) -> float:
        """Return for how many seconds the processes have been stopped without a break; 0 if they run."""
        return 0.0 if self.stopped_at is None else max(0.0, until - self.stopped_at)

    @property
    def word(self) -> Literal["kept", "freed", "resuming"] | None:
        """What becomes of the devices, or that the attempt is about to go on; None when it runs again."""
        if self.resuming:
            return None if self.is_over else "resuming"
        return "freed" if self.is_freed else "kept"
