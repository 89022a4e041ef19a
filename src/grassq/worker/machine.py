"""The seam between a worker and the computer whose processes it starts: this one, another one, or a test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, Protocol

from msgspec import Struct

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.core.resources.capacity import Capacity
from grassq.worker.leases import Lease


class AttemptProcesses(Protocol):
    """How attempts become processes. OSError means: not now."""

    boot: str

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Make the run dir, with the lease if there is one, and then have a shim run the attempt, unless one did.

        An attempt with a predecessor is not ordered: the predecessor's shim begins it, if it has not ended before.
        """

    def look(self, attempt: AttemptId) -> RunState:
        """Return what the run dir and the process table say."""

    def watch(self, attempt: AttemptId) -> None:
        """Call `MachineEvents.shim_gone` when the attempt's shim is gone, also if it is gone already."""

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Have the attempt's shim end it; an attempt that no shim has claimed never starts."""

    def void(self, attempt: AttemptId, boot: str) -> bool:
        """Give the attempt up unless a shim claimed it; return whether it was given up."""

    def end_orphan(self, attempt: AttemptId, *, kill: bool) -> None:
        """Signal what is left of an attempt whose shim is gone."""

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Renew the attempt's lease: its shim ends the attempt when the lease is over."""

    def leased(self, attempt: AttemptId) -> Lease | None:
        """Return the lease in the attempt's run dir; None if it has none."""

    def inventory(self, most: int) -> list[AttemptId]:
        """Return the attempts that have a run dir here, newest first, at most `most`; without those unrecorded."""

    def unrecorded(self, most: int) -> list[AttemptId]:
        """Return the attempts marked unrecorded, newest first, at most `most`; acknowledged ones too."""

    def unacked(self, most: int) -> list[AttemptId]:
        """Return those of the inventory whose end nobody is known to have acknowledged."""

    def acked(self, attempt: AttemptId) -> None:
        """Mark that the broker has the attempt's end; do nothing if there is no run dir."""

    def mark_unrecorded(self, attempt: AttemptId) -> None:
        """Mark that the broker's store has no record of the attempt, for `doctor`; nothing if there is no run dir."""

    def forget(self, jobs: Collection[int], spare: Collection[int]) -> None:
        """Remove the folders of jobs, except what is alive, and except the checkpoints of those to spare."""


class MachineEvents(Protocol):
    """What a machine tells its worker."""

    def heard(self, report: dict[str, Any]) -> None:
        """A launcher or shim reported something (`run.shim` lists the reports)."""

    def shim_gone(self, attempt: AttemptId) -> None:
        """The shim of a watched attempt ended."""

    def watch_all(self) -> None:
        """Nobody reports any more when shims end: every running attempt must be watched again."""


class Detected(Struct, frozen=True):
    """What a machine has found, and what it still looks for."""

    found: Capacity
    looked_for: frozenset[str]


class AttemptLogs(Protocol):
    """Reads the logs of a machine's attempts."""

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream from an offset on, up to a bound, and the stream's size, smaller if it shrank.

        At the end of the stream, wait up to `wait_s` seconds until the stream grows or shrinks.
        """

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin."""


class Machine(AttemptProcesses, Protocol):
    """One computer, as a worker uses it."""

    #: More resources may be found than `open` returns.
    detects: bool

    @property
    def logs(self) -> AttemptLogs:
        """The logs of its attempts."""

    async def open(self, events: MachineEvents) -> Capacity:
        """Begin, and return the resources that are known at once."""

    def detect(self) -> AsyncIterator[Detected]:
        """Look for the other resources; the last answer looks for nothing more."""

    def check(self) -> None:
        """Put right what went wrong unseen; called every few seconds."""

    async def remove(self, jobs: Collection[int], spare: Collection[int]) -> None:
        """Remove the folders of jobs as `forget` does, and wait until it is done."""

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first and bounded."""

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, str]]:
        """Return how to submit these jobs again; without jobs, what a restored broker has no record of."""

    def describe(self) -> dict[str, object]:
        """Return what `doctor` wants to know."""

    async def close(self) -> None:
        """Let go; what runs, runs on."""
