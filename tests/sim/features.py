"""What is played in the world of a seed besides the plain; no seed that `test_sim` tells of has much of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Features:
    """What there is in one world."""

    seed: int

    @property
    def has_slots(self) -> bool:
        """Whether a queue has slots."""
        return self.seed % 11 in (3, 8)

    @property
    def has_device_changes(self) -> bool:
        """Whether devices come, go and are drained."""
        return self.seed % 13 in (7, 9, 12)

    @property
    def has_suspensions(self) -> bool:
        """Whether jobs are suspended and go on."""
        return self.seed % 12 in (6, 8, 11)

    @property
    def has_limits(self) -> bool:
        """Whether jobs and queues have time limits."""
        return self.seed % 17 in (6, 10, 12, 13, 15)

    @property
    def has_start_times(self) -> bool:
        """Whether jobs wait for a time of day, and the wall clock is set by little, too."""
        return self.seed % 18 in (6, 7, 12, 14, 15, 17)

    @property
    def has_caps(self) -> bool:
        """Whether groups of jobs have limits."""
        return self.seed % 19 in (6, 8, 10, 11, 12, 14)
