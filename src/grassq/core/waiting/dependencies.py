"""The unmet dependencies of waiting jobs: an end of a job costs as much as the jobs that wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from msgspec import Struct

from grassq.core.waiting.conditions import Condition

#: A job that others wait for, the job that waits, and for what.
Edge = tuple[int, int, Condition]


class Verdict(Enum):
    """What follows for a job from the end of another one."""

    WAITS = "something is still unmet"
    READY = "all its conditions hold"
    NEVER = "one of its conditions can no longer come true"
    FAILURE = "a failure was enough for that condition; another condition is unmet"


class Unmet(Struct):
    """How many jobs each condition of a waiting job still waits for."""

    queue: str
    ok: int = 0
    any: int = 0
    fail: int = 0
    #: It is decided that the job never starts.
    never: bool = False
    #: The token that answers for the job.
    token: str | None = None

    @property
    def left(self) -> int:
        """How many ends the job still waits for."""
        return self.ok + self.any + self.fail

    def add(self, condition: Condition) -> None:
        """Wait for one more job."""
        setattr(self, condition, getattr(self, condition) + 1)

    def end(self, condition: Condition, *, succeeded: bool) -> Verdict:
        """Note the end of a job of a condition; a verdict is given once."""
        if self.never:
            return Verdict.WAITS
        if condition == "ok":
            self.ok -= 1
            self.never = not succeeded
        elif condition == "any":
            self.any -= 1
        elif self.fail:
            # One failure is enough, so the others do not matter any more.
            self.fail = self.fail - 1 if succeeded else 0
            self.never = succeeded and not self.fail
        else:
            return Verdict.WAITS
        if self.never:
            return Verdict.NEVER
        if not self.left:
            return Verdict.READY
        return Verdict.FAILURE if condition == "fail" and not succeeded else Verdict.WAITS


class Dependencies:
    """Which jobs wait for which others, as far as that is not decided yet."""

    def __init__(
        self,
        edges: Iterable[Edge] = (),
        queues: Mapping[int, str] | None = None,
        tokens: Mapping[int, str] | None = None,
    ) -> None:
        """Take the unmet edges of a store; `queues` has the queue of each waiting job, `tokens` the token of some."""
        self._waiting: dict[int, list[tuple[int, Condition]]] = {}
        self._unmet: dict[int, Unmet] = {}
        self._in_queue: Counter[str] = Counter()
        #: The unmet edges of the jobs of each token; None for the jobs of no token.
        self._edges: Counter[str | None] = Counter()
        for parent, child, condition in edges:
            self.add(child, (queues or {}).get(child, ""), [(parent, condition)], (tokens or {}).get(child))

    def __contains__(self, job: int) -> bool:
        """Tell whether a job waits for another one."""
        return job in self._unmet

    def __len__(self) -> int:
        """Return how many jobs wait for other jobs."""
        return len(self._unmet)

    @property
    def edges(self) -> int:
        """How many ends all jobs together wait for."""
        return self._edges.total()

    def edges_of(self, token: str) -> int:
        """Return how many ends the jobs of a token wait for."""
        return self._edges[token]

    def add(self, job: int, queue: str, on: Iterable[tuple[int, Condition]], token: str | None = None) -> None:
        """Let a job wait for others."""
        unmet = self._unmet.get(job)
        if unmet is None:
            unmet = self._unmet[job] = Unmet(queue, token=token)
            self._in_queue[queue] += 1
        before = unmet.left
        for parent, condition in on:
            unmet.add(condition)
            self._waiting.setdefault(parent, []).append((job, condition))
        self._edges[unmet.token] += unmet.left - before

    def move(self, job: int, queue: str, token: str | None) -> None:
        """Note that a job that waits is in another queue now, or that another token answers for it."""
        unmet = self._unmet.get(job)
        if unmet is None:
            return
        self._in_queue[unmet.queue] -= 1
        self._in_queue[queue] += 1
        self._edges[unmet.token] -= unmet.left
        self._edges[token] += unmet.left
        unmet.queue, unmet.token = queue, token

    def concerns(self, job: int) -> bool:
        """Tell whether the end of a job matters here: it waits, or others wait for it."""
        return job in self._waiting or job in self._unmet

    def end(self, job: int, *, succeeded: bool) -> list[tuple[int, Verdict]]:
        """Note that a job has ended; return the jobs for which this decides something, which wait until `drop`.

        A job of which only the condition `fail` is decided is returned as well.
        """
        found: list[tuple[int, Verdict]] = []
        for child, condition in self._waiting.pop(job, ()):
            unmet = self._unmet.get(child)
            if unmet is None:
                continue
            before = unmet.left
            verdict = unmet.end(condition, succeeded=succeeded)
            self._edges[unmet.token] += unmet.left - before
            if verdict is not Verdict.WAITS:
                found.append((child, verdict))
        return found

    def drop(self, job: int) -> None:
        """Forget that a job waits."""
        unmet = self._unmet.pop(job, None)
        if unmet is not None:
            self._in_queue[unmet.queue] -= 1
            self._edges[unmet.token] -= unmet.left

    def forget(self, jobs: Collection[int], parents: Iterable[int]) -> None:
        """Forget that the ends of these others matter to some jobs, which wait until `drop`."""
        for parent in parents:
            if (known := self._waiting.pop(parent, None)) and (kept := [each for each in known if each[0] not in jobs]):
                self._waiting[parent] = kept

    def left(self, job: int) -> int:
        """Return how many ends a job still waits for."""
        unmet = self._unmet.get(job)
        return 0 if unmet is None else unmet.left

    def dependents(self, job: int) -> list[int]:
        """Return the jobs that wait for a job."""
        return [child for child, _ in self._waiting.get(job, ()) if child in self._unmet]

    def in_queue(self, queue: str) -> int:
        """Return how many jobs of a queue wait for other jobs."""
        return self._in_queue[queue]


def decided(on: Iterable[tuple[int, Condition]], ended: Mapping[int, bool]) -> tuple[Verdict, int | None]:
    """Return what the jobs that have ended by now mean for a new job, and the first that decides against it.

    `ended` has, by id, whether an ended job succeeded.
    """
    on = list(on)
    unmet = Unmet("")
    for _, condition in on:
        unmet.add(condition)
    verdict = Verdict.WAITS if on else Verdict.READY
    for parent, condition in on:
        if parent in ended:
            verdict = unmet.end(condition, succeeded=ended[parent])
            if verdict in (Verdict.READY, Verdict.NEVER):
                return verdict, parent if verdict is Verdict.NEVER else None
    return Verdict.READY if verdict is Verdict.READY else Verdict.WAITS, None


def unmet_of(on: Iterable[tuple[int, Condition]], ended: Mapping[int, bool]) -> list[tuple[int, Condition]]:
    """Return what a new job still waits for: where one failure is enough and there is one, no other end matters."""
    on = list(on)
    has_failure = any(condition == "fail" and not ended.get(parent, True) for parent, condition in on)
    return [each for each in on if each[0] not in ended and not (has_failure and each[1] == "fail")]
