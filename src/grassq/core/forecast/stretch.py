"""How much wider or narrower intervals must be than the plays say, learned from intervals whose time has come.

Plays know nothing of jobs that will be submitted, killed or held. So each side of an interval has a factor: when a job
comes later than the high end, the high side grows by a step, and it shrinks by a smaller step each time it held. The
steps balance when one in ten comes too late, whatever the cause is (adaptive conformal inference).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

#: The share of times that may fall outside of each side.
OUTSIDE = 0.1
#: How much one miss changes a side; the bounds of a factor.
STEP = 0.15
LEAST, MOST = 0.5, 8.0


class SideFactors(Struct):
    """The factors of both sides of one kind of interval."""

    low: float = 1.0
    high: float = 1.0

    def applied(self, low: float, likely: float, high: float, now: float) -> tuple[float, float, float]:
        """Return an interval with both sides stretched; no end comes before now."""
        stretched = likely - (likely - low) * self.low
        return max(min(stretched, likely), min(now, likely)), likely, likely + (high - likely) * self.high

    def note(self, low: float, high: float, actual: float) -> None:
        """Learn from an interval and what came."""
        self.low = _stepped(self.low, actual < low)
        self.high = _stepped(self.high, actual > high)


class Stretch(Struct):
    """The factors of starts and of ends."""

    starts: SideFactors = field(default_factory=SideFactors)
    ends: SideFactors = field(default_factory=SideFactors)

    def learn(self, kind: str, judged: Iterable[tuple[float, float, float]]) -> None:
        """Learn from (low, high, actual) of intervals of a kind, oldest first."""
        side = self.starts if kind == "start" else self.ends
        for low, high, actual in judged:
            side.note(low, high, actual)


def _stepped(factor: float, missed: bool) -> float:
    factor *= 1.0 + STEP * (1.0 - OUTSIDE if missed else -OUTSIDE)
    return min(max(factor, LEAST), MOST)
