"""What an agent knows of one attempt, and what it needs of whoever makes processes of attempts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct

from grassq.core.messages import Start
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import RunState
from grassq.core.states import Exited, Lost, RefusedByWorker
from grassq.run import rundir
from grassq.worker.leases import Lease

log = logging.getLogger(__name__)

FORGOTTEN_MAX = 20_000

End = Exited | Lost | RefusedByWorker


class Machine(Protocol):
    """How attempts become processes: real ones, or a simulator's. OSError means: not now."""

    boot: str

    def begin(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Lay out the run dir, with the lease if there is one, and then order the attempt.

        One that comes after another is not ordered: the shim of that one begins it, if it has not ended before.
        """

    def look(self, attempt: AttemptId) -> RunState:
        """What the run dir and the process table say."""

    def watch(self, attempt: AttemptId) -> None:
        """Say so (`Agent.shim_gone`) when the attempt's shim is gone."""

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Have the attempt's shim end it."""

    def void(self, attempt: AttemptId, boot: str) -> bool:
        """Give the attempt up unless a shim claimed it."""

    def end_orphan(self, attempt: AttemptId, *, kill: bool) -> None:
        """Signal what is left of an attempt whose shim is gone."""

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Renew the attempt's lease: its shim ends it when that is over."""

    def leased(self, attempt: AttemptId) -> Lease | None:
        """The lease in the attempt's run dir; None if it has none."""

    def inventory(self, most: int) -> list[AttemptId]:
        """The attempts that have a run dir here, newest first, at most so many; without those marked unrecorded."""

    def unrecorded(self, most: int) -> list[AttemptId]:
        """Return the attempts marked unrecorded whose end nobody has acknowledged, newest first, at most `most`."""

    def unacked(self, most: int) -> list[AttemptId]:
        """Those of the inventory whose end nobody is known to have acknowledged."""

    def acked(self, attempt: AttemptId) -> None:
        """Mark that the broker has the attempt's end; nothing if there is no run dir."""

    def mark_unrecorded(self, attempt: AttemptId) -> None:
        """Mark that the broker's store has no record of the attempt, for `doctor`; nothing if there is no run dir."""

    def forget(self, jobs: Collection[int], spare: Collection[int]) -> None:
        """Remove the folders of jobs, except what is alive, and except the checkpoints of those to spare."""


class Phase(Enum):
    """How far an attempt has come here."""

    ORDERED = "told to a shim, not yet claimed"
    RUNNING = "runs under a shim"
    ORPHANED = "runs without a shim"
    ENDED = "ended, and the report is not acknowledged"


class HeldAttempt(Struct):
    """One attempt this worker knows of."""

    id: AttemptId
    phase: Phase
    #: When something was last done about it, and when it was last looked at.
    at: float
    start: Start | None = None
    pid: int = 0
    shim: int = 0
    end: End | None = None
    stop_grace_s: float | None = None
    stop_at: float | None = None
    stuck: str | None = None
    looked_at: float = 0.0
    #: Somebody tells when its shim is gone: the launcher, or the shim's pidfd.
    watched: bool = False
    #: There is nothing of it here: only the broker's word for it, which counts as long as the connection.
    traceless: bool = False
    #: It has a run dir, so that another may be told to come after it.
    laid_out: bool = False
    #: What is in its run dir, for an attempt that may be started elsewhere.
    lease: Lease | None = None

    @property
    def waits_behind(self) -> bool:
        """Whether it begins by itself when another has ended."""
        return self.phase is Phase.ORDERED and self.start is not None and self.start.placement.after is not None


class Forgotten:
    """Jobs that were removed: a start that comes late makes none of them again. The oldest are let go first."""

    def __init__(self) -> None:
        self._jobs: dict[int, None] = {}

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    def add(self, jobs: Collection[int]) -> None:
        """These were removed."""
        self._jobs |= dict.fromkeys(jobs)
        for job in list(self._jobs)[: max(0, len(self._jobs) - FORGOTTEN_MAX)]:
            del self._jobs[job]


def exited(attempt: int, record: dict[str, Any]) -> End:
    """Return the event that an exit record reports."""
    word, code, signal = record["outcome"], record["code"], record["signal"]
    if word == rundir.LEASE_ENDED:
        if code is None and signal is None:
            return RefusedByWorker(attempt, "its lease was over before it started")
        return Lost(attempt, Outcome.LOST, "its lease ended while the broker was out of reach")
    # A record says `exited` also of a command that a signal ended.
    outcome = Outcome.SIGNALLED if word == rundir.EXITED and code is None else Outcome(word)
    return Exited(attempt, outcome, code, signal, record["error"], record["started"], record["ended"])


@contextlib.contextmanager
def one_alone(attempt: AttemptId) -> Iterator[None]:
    """What fails for one attempt now is tried again later, and keeps no other from its turn."""
    try:
        yield
    except OSError as error:
        log.error("attempt_put_off job=%s attempt=%s error=%s", *attempt, error)
