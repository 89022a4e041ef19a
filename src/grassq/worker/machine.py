"""The interface between a worker and the computer whose processes it starts: this one, another one, or a test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, Protocol

from msgspec import Struct

from grassq.core.messages import LeftFolder, Start
from grassq.core.model import AttemptId, DiskShortage
from grassq.core.protocol import LogCut
from grassq.core.reconcile import RunState
from grassq.core.resources.amounts import Allocation
from grassq.core.resources.capacity import Capacity
from grassq.core.states import Exited
from grassq.run.rundir import Lease


class Inventory(Struct, frozen=True):
    """The attempts that have a run dir on a machine, newest first."""

    #: Every attempt without the marker UNRECORDED, and those of them without the marker ACKED.
    held: list[AttemptId] = []
    unacked: list[AttemptId] = []
    #: The attempts with the marker UNRECORDED: the broker's store, restored from a backup, has no record of them.
    unrecorded: list[AttemptId] = []


class AttemptProcesses(Protocol):
    """Starts, watches and stops the processes of attempts. OSError means: try again later."""

    boot: str

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Make the run dir, with the lease if there is one, then let a shim run the attempt, unless a shim did already.

        With a predecessor nothing is ordered: the predecessor's shim starts the attempt, unless it has ended before.
        """

    def look(self, attempt: AttemptId) -> RunState:
        """Return what the run dir and the process table say."""

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        """Bring the files back that an attempt which has ended leaves; return the end to report.

        While files are on their way return None; then `MachineEvents.shim_gone` follows. What could not be brought is
        the error of the end.
        """

    def watch(self, attempt: AttemptId) -> None:
        """Call `MachineEvents.shim_gone` when the attempt's shim is gone, also if it is gone already."""

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Tell the attempt's shim to end it, suspended or not; an attempt that no shim has claimed never starts.

        If the shim is gone, signal the processes that are left: TERM, or KILL without a grace.
        """

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        """Tell the attempt's shim to stop all processes of it, or to let them go on; return whether that is done.

        Repeat it until it is; `heard` may be told "suspended" first. An order with a lower number than an earlier one
        does nothing. Refused if the attempt's shim is of an earlier release. If the shim is gone, signal what is left.
        """

    def void(self, attempt: AttemptId) -> bool:
        """Claim the attempt so that it never starts; return False if a shim has claimed it."""

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Renew the attempt's lease: its shim ends the attempt when the lease is over."""

    def leased(self, attempt: AttemptId) -> Lease | None:
        """Return the lease in the attempt's run dir; None if it has none."""

    def inventory(self, most: int) -> Inventory:
        """Return the newest attempts that have a run dir here, at most `most`."""

    def mark(self, attempt: AttemptId, marker: str) -> None:
        """Mark an attempt as `rundir.ACKED` or `rundir.UNRECORDED`; do nothing without a run dir."""

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        """Remove the folders of jobs, except the checkpoints of the jobs in `spare`; without waiting.

        The folder of a job of which something runs is removed when that has ended. With `keep_logs`, the folders are
        put aside, by a machine that `keeps_logs`.
        """


class MachineEvents(Protocol):
    """The reports of a machine to its worker."""

    def heard(self, report: dict[str, Any]) -> None:
        """Handle a report of a launcher or shim (`run.shim` lists the reports).

        A machine that brings files says `delayed` while they are on their way, and `refused` if they cannot be brought:
        each with the reason as `why`.
        """

    def shim_gone(self, attempt: AttemptId) -> None:
        """Handle the end of a watched attempt's shim, or the end of what `AttemptProcesses.collect` began."""

    def watch_all(self) -> None:
        """Watch every running attempt again: the ends of shims are not reported any more."""


class Detected(Struct, frozen=True):
    """Resources that a machine has found, the names it still looks for, and what others use of the resources."""

    found: Capacity
    looked_for: frozenset[str]
    #: As in `WorkerInfo`.
    used_by_others: Allocation = {}
    disk_short: DiskShortage | None = None


class AttemptLogs(Protocol):
    """Reads the logs of a machine's attempts."""

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream from an offset on, up to a bound, and the stream's size, smaller if it shrank.

        At the end of the stream, wait up to `wait_s` seconds until the stream grows or shrinks. No bytes before the
        end of the stream mean that they were cut out: `cut` says where to go on.
        """

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return what was cut out of a stream that is above its limit; None if nothing was."""

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin."""


class Machine(AttemptProcesses, Protocol):
    """One computer, as a worker uses it."""

    #: `detect` may find more resources than `open` returns.
    detects: bool
    #: `start` takes a predecessor.
    follows: bool
    #: The files of the computer where jobs are submitted are here too, or the machine's owner has provided for them.
    shares_disk: bool
    #: Jobs can be sent files here, and files can be fetched from them.
    takes_files: bool
    #: Whether the folders of removed jobs can be put aside.
    keeps_logs: bool

    @property
    def logs(self) -> AttemptLogs:
        """The logs of the machine's attempts."""

    async def open(self, events: MachineEvents) -> Capacity:
        """Start, and return the resources that are known at once."""

    def detect(self) -> AsyncIterator[Detected]:
        """Look for the other resources, and measure what others use of them, if need be for ever; yield each result."""

    def check(self) -> None:
        """Restart what has died; called every few seconds."""

    async def remove(
        self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False
    ) -> list[LeftFolder]:
        """Try once to remove the folders of jobs, or to put them aside; return those that are still there."""

    async def size(self, jobs: Collection[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk."""

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first and bounded."""

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        """Return how to submit these jobs again; without jobs, the attempts that a restored broker has no record of."""

    def describe(self) -> dict[str, object]:
        """Return the state of the machine for `doctor`."""

    async def close(self) -> None:
        """Stop using the machine. Running attempts go on."""
