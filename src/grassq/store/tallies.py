"""Counts of jobs that a store keeps up to date with each commit, so that asking for them costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct, field

from grassq.core.model import FINAL, Job, State
from grassq.store.base import Changes, Row, TokenUsage
from grassq.store.rows import stored_bytes

#: The names whose jobs are counted; a name beyond these is counted anew when it is asked for.
NAMES_MAX = 64

_state_of = attrgetter("state")


def counted(others: Iterable[Row], finished: int, used: Iterable[Row]) -> Tallies:
    """Return tallies from rows: jobs by state without succeeded ones, all finished jobs, and what each token uses."""
    totals = Counter({state: count for state, count in others})
    totals[State.SUCCEEDED.value] = finished - totals[State.FAILED.value] - totals[State.CANCELLED.value]
    return Tallies(totals, {token: TokenUsage(jobs, int(size)) for token, jobs, size in used})


class Tallies(Struct):
    """How many jobs are in each state, what the jobs of each token take, and counts of names asked for."""

    totals: Counter[str]
    usage: dict[str, TokenUsage]
    #: Of NAMES_MAX names at most: how many jobs of this name are in each state.
    names: dict[str, Counter[str]] = field(default_factory=dict)
    #: The same of as many sweeps.
    sweeps: dict[int, Counter[str]] = field(default_factory=dict)

    def of_token(self, token: str) -> TokenUsage:
        """Return what the unfinished jobs of a token take."""
        return self.usage.get(token) or TokenUsage()

    def count(self, changes: Changes, removed: Counter[str]) -> None:
        """Count what a commit changed; `removed` has the removed jobs by state."""
        # By their plain text: hashing a member of an enumeration takes five times longer.
        if changes.inserted:
            self.totals.update(map(str.__str__, map(_state_of, changes.inserted.values())))
        for job in changes.inserted.values():
            if job.token is not None:
                self._use(job, 1)
        for before, after in changes.updated.values():
            if before.state is not after.state:
                self.totals[str.__str__(before.state)] -= 1
                self.totals[str.__str__(after.state)] += 1
            if before.token is not None or after.token is not None:
                self._use(before, -1)
                self._use(after, 1)
        self.totals.subtract(removed)
        if self.names or self.sweeps:
            self._count_named(changes, removed)

    def keep_name(self, name: str, counts: Counter[str]) -> None:
        """Keep the counts of a name up to date from now on; the name that was asked for longest ago is forgotten."""
        self.names[name] = counts
        while len(self.names) > NAMES_MAX:
            del self.names[next(iter(self.names))]

    def keep_sweep(self, sweep: int, counts: Counter[str]) -> None:
        """Keep the counts of a sweep up to date from now on; of too many, the oldest is forgotten."""
        self.sweeps[sweep] = counts
        while len(self.sweeps) > NAMES_MAX:
            del self.sweeps[next(iter(self.sweeps))]

    def _count_named(self, changes: Changes, removed: Counter[str]) -> None:
        if removed:
            # The names of removed jobs are not known here: the next question counts anew.
            self.names.clear()
            self.sweeps.clear()
            return
        for job in changes.inserted.values():
            if job.name in self.names:
                self.names[job.name][str.__str__(job.state)] += 1
            if job.spec.sweep in self.sweeps:
                self.sweeps[job.spec.sweep][str.__str__(job.state)] += 1
        for before, after in changes.updated.values():
            if after.spec.sweep in self.sweeps:
                counts = self.sweeps[after.spec.sweep]
                counts[str.__str__(before.state)] -= 1
                counts[str.__str__(after.state)] += 1
            if before.name in self.names:
                self.names[before.name][str.__str__(before.state)] -= 1
            if after.name in self.names:
                self.names[after.name][str.__str__(after.state)] += 1

    def _use(self, job: Job, times: int) -> None:
        if job.token is None or job.state in FINAL:
            return
        used = self.usage.setdefault(job.token, TokenUsage())
        used.jobs += times
        used.bytes += times * stored_bytes(job.spec)
