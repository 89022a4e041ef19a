"""When attempts were placed and started, as far as this broker saw it itself."""

from __future__ import annotations

from collections.abc import Callable

from grassq.core.model import AttemptId


class AttemptTimes:
    """The times of all attempts that hold devices, on the broker's monotonic clock.

    Nothing is known of an attempt that was placed before the broker began: nothing then relies on its time limit.
    """

    def __init__(self) -> None:
        self.placed: dict[AttemptId, float] = {}
        self.started: dict[AttemptId, float] = {}
        #: The attempts that use what was kept for a head, because they end before the head could start.
        self.backfilled: set[AttemptId] = set()

    def note(self, gone: AttemptId | None, come: AttemptId | None, at: float | None, *, is_running: bool) -> None:
        """Note that a job had one attempt that holds devices and has another, or the same, at a time if it is known."""
        if gone is None and come is None:
            return
        if gone != come:
            for attempt in (gone, come):
                if attempt is not None:
                    self.placed.pop(attempt, None)
                    self.started.pop(attempt, None)
                    self.backfilled.discard(attempt)
            if come is not None and at is not None:
                self.placed[come] = at
        if is_running and at is not None and come is not None and come in self.placed:
            self.started.setdefault(come, at)

    def carry_over(self, other: AttemptTimes, is_held: Callable[[AttemptId], bool]) -> None:
        """Take over what another board knew of these attempts, when the board is read again from the store."""
        self.placed = {attempt: at for attempt, at in other.placed.items() if is_held(attempt)}
        self.started = {attempt: at for attempt, at in other.started.items() if is_held(attempt)}
        self.backfilled = {attempt for attempt in other.backfilled if is_held(attempt)}

    def copy(self) -> AttemptTimes:
        """Return the same times, which do not change with these."""
        other = AttemptTimes()
        other.carry_over(self, lambda _: True)
        return other
