"""The times that jobs wait for: a time of day by the wall clock, a delay by the monotonic clock."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from grassq.core.model import ForTime

#: Seconds after which a changed wall clock is noticed at the latest.
LOOK_S = 30.0
#: Removed entries that may lie among the others before they are taken out.
_STALE_MIN = 64


class StartTimes:
    """The next jobs whose time has come.

    A delay counts from when it was first seen here, so a step of the wall clock neither shortens nor prolongs it. It
    is never longer than it was asked for, however the wall clock was set while no broker ran.
    """

    def __init__(self) -> None:
        self._waits: dict[int, ForTime] = {}
        #: When each of them is due, on its clock.
        self._due_at: dict[int, float] = {}
        #: By the wall clock, and by the monotonic clock.
        self._times: list[tuple[float, int]] = []
        self._delays: list[tuple[float, int]] = []
        #: The delays that were not seen with a clock yet.
        self._new: dict[int, ForTime] = {}

    def put(self, job: int, wait: ForTime) -> None:
        """Let a job wait, or wait for another time."""
        if self._waits.get(job) == wait:
            return
        self.remove(job)
        self._waits[job] = wait
        if wait.delay_s is None:
            self._due_at[job] = wait.at
            heappush(self._times, (wait.at, job))
        else:
            self._new[job] = wait
        self._tidy()

    def remove(self, job: int) -> None:
        """Forget a job."""
        self._waits.pop(job, None)
        self._due_at.pop(job, None)
        self._new.pop(job, None)

    def due(self, wall: float, mono: float) -> list[int]:
        """Return the jobs whose time has come, in order; they stay until they are removed."""
        self._see(wall, mono)
        found = [*self._until(self._times, wall, is_delay=False), *self._until(self._delays, mono, is_delay=True)]
        for at, job in dict.fromkeys(found):
            # Kept, because the caller may fail and ask again.
            heappush(self._times if self._waits[job].delay_s is None else self._delays, (at, job))
        return [job for _, job in dict.fromkeys(found)]

    def next_in_s(self, wall: float, mono: float) -> float | None:
        """Return the seconds until the next time, or until the wall clock is looked at again; None if no job waits."""
        self._see(wall, mono)
        if not self._waits:
            return None
        due = [LOOK_S] if self._times else []
        due += [at - wall for at, _ in self._times[:1]] + [at - mono for at, _ in self._delays[:1]]
        return min(due)

    def _see(self, wall: float, mono: float) -> None:
        for job, wait in self._new.items():
            left_s = max(0.0, wait.at - wall)
            self._due_at[job] = mono + (left_s if wait.delay_s is None else min(left_s, wait.delay_s))
            heappush(self._delays, (self._due_at[job], job))
        self._new.clear()

    def _until(self, heap: list[tuple[float, int]], now: float, *, is_delay: bool) -> list[tuple[float, int]]:
        found = []
        while heap and (heap[0][0] <= now or not self._is_current(*heap[0], is_delay=is_delay)):
            entry = heappop(heap)
            if self._is_current(*entry, is_delay=is_delay):
                found.append(entry)
        return found

    def _is_current(self, at: float, job: int, *, is_delay: bool) -> bool:
        return self._due_at.get(job) == at and (self._waits[job].delay_s is not None) == is_delay

    def _tidy(self) -> None:
        if len(self._times) + len(self._delays) <= 2 * len(self._waits) + _STALE_MIN:
            return
        for heap, is_delay in ((self._times, False), (self._delays, True)):
            heap[:] = {entry for entry in heap if self._is_current(*entry, is_delay=is_delay)}
            heapify(heap)
