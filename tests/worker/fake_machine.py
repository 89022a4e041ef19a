"""A machine without processes: its programs are `true`, `echo WORDS` and `sleep`, and its run dirs a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

from msgspec import Struct
from tests.builders import BOOT, a_capacity

from grassq.core.messages import LeftFolder, Start
from grassq.core.model import AttemptId
from grassq.core.protocol import LogCut
from grassq.core.reconcile import RunState
from grassq.core.resources.capacity import Capacity
from grassq.core.states import Exited
from grassq.run.rundir import UNRECORDED, Lease
from grassq.worker.attempts import exited
from grassq.worker.machine import Detected, Inventory, MachineEvents


class Dir(Struct):
    """What is known of one attempt."""

    start: Start | None = None
    claimed: bool = False
    void: bool = False
    record: dict[str, Any] | None = None
    lease: Lease | None = None
    log: bytes = b""
    next: AttemptId | None = None
    marks: set[str] = set()
    #: The newest order to suspend it, or to let it go on.
    suspend: tuple[int, bool] = (0, False)


class FakeMachine:
    """Runs its programs at once, on the event loop."""

    boot, detects, follows, takes_files, shares_disk, keeps_logs = BOOT, True, True, False, True, False
    events: MachineEvents

    def __init__(self) -> None:
        self.dirs: dict[AttemptId, Dir] = {}
        self.logs = self

    async def open(self, events: MachineEvents) -> Capacity:
        self.events = events
        return a_capacity(cpu=2)

    async def detect(self) -> AsyncIterator[Detected]:
        yield Detected({}, frozenset({"gpu"}))
        yield Detected(a_capacity(gpu=1), frozenset())

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        found = self.dirs.setdefault(start.id, Dir(start))
        found.start, found.lease = start, lease
        if after is not None and after in self.dirs and self.dirs[after].record is None:
            self.dirs[after].next = start.id
        else:
            asyncio.get_running_loop().call_soon(self._run, start.id)

    def _run(self, attempt: AttemptId) -> None:
        found = self.dirs[attempt]
        if found.claimed or found.start is None:
            return self._report("duplicate", attempt)
        found.claimed = True
        program, *words = found.start.spec.command
        self._report("started", attempt, pid=7)
        found.log = b" ".join(words) + b"\n" if program == b"echo" else b""
        if program != b"sleep":
            self._end(attempt, "exited", code=0)
        elif (limit_s := found.start.placement.time_limit_s) is not None:
            asyncio.get_running_loop().call_later(limit_s, self._end, attempt, "timed_out")

    def _end(self, attempt: AttemptId, outcome: str, **more: Any) -> None:
        found = self.dirs[attempt]
        empty = dict.fromkeys(("code", "signal", "error", "started", "ended"))
        found.record = {**empty, "outcome": outcome, **more}
        self._report("exited", attempt, record=found.record, next=found.next is not None)
        if found.next is not None:
            self._run(found.next)

    def _report(self, event: str, attempt: AttemptId, **more: Any) -> None:
        self.events.heard({"event": event, "job": attempt[0], "attempt": attempt[1], "shim": 50, **more})

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        return end

    def look(self, attempt: AttemptId) -> RunState:
        found = self.dirs.get(attempt, Dir())
        runs = found.claimed and found.record is None and not found.void
        end = None if found.record is None else exited(attempt[1], found.record)
        pid = 7 if found.claimed and not found.void else None
        return RunState(end, found.void, found.claimed, runs, runs, pid, found.suspend)

    def watch(self, attempt: AttemptId) -> None:
        if not self.look(attempt).shim_alive:
            asyncio.get_running_loop().call_soon(self.events.shim_gone, attempt)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        if self.look(attempt).shim_alive:
            self._end(attempt, "cancelled", signal=15)

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        if not self.look(attempt).shim_alive or self.dirs[attempt].suspend[0] > number:
            return False
        self.dirs[attempt].suspend = (number, stop)
        return True

    def void(self, attempt: AttemptId) -> bool:
        if self.look(attempt).claimed:
            return False
        self.dirs[attempt] = Dir(claimed=True, void=True)
        return True

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        self.dirs[attempt].lease = lease

    def leased(self, attempt: AttemptId) -> Lease | None:
        return self.dirs.get(attempt, Dir()).lease

    def inventory(self, most: int) -> Inventory:
        newest = [(each, self.dirs[each].marks) for each in sorted(self.dirs, reverse=True)[:most]]
        unacked = [each for each, marks in newest if not marks]
        unrecorded = [each for each, marks in newest if UNRECORDED in marks]
        return Inventory([each for each, _ in newest if each not in unrecorded], unacked, unrecorded)

    def mark(self, attempt: AttemptId, marker: str) -> None:
        self.dirs.get(attempt, Dir()).marks.add(marker)

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        alive = {job for job, attempt in self.dirs if self.look((job, attempt)).shim_alive}
        self.dirs = {each: found for each, found in self.dirs.items() if each[0] not in set(jobs) - alive}

    async def remove(
        self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False
    ) -> list[LeftFolder]:
        self.forget(jobs, spare)
        return [LeftFolder(job, 0, "it runs") for job, _ in self.dirs if job in jobs]

    async def size(self, jobs: Collection[int]) -> int:
        return 0

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        log = self.dirs.get((job, attempt), Dir()).log
        return log[offset:], len(log)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        kept = self.dirs[job, attempt].log.splitlines(keepends=True)
        return sum(map(len, kept[: max(0, len(kept) - lines)]))

    def folders(self) -> list[int]:
        return sorted({job for job, _ in self.dirs}, reverse=True)

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        return []

    def check(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}

    async def close(self) -> None: ...
