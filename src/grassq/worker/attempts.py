"""The state that an agent keeps of each attempt."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

from msgspec import Struct

from grassq.core.messages import Start
from grassq.core.model import AttemptId, Outcome
from grassq.core.states import Exited, Lost, RefusedByWorker
from grassq.run import rundir
from grassq.run.rundir import Lease

log = logging.getLogger(__name__)

End = Exited | Lost | RefusedByWorker


class Phase(Enum):
    """The phases of an attempt on this worker."""

    PREFETCHED = "waits until its predecessor has ended"
    ORDERED = "told to a shim, not yet claimed"
    RUNNING = "runs under a shim"
    ORPHANED = "runs without a shim"
    ENDED = "ended, and the report is not acknowledged"


class HeldAttempt(Struct):
    """One attempt that this worker knows of."""

    id: AttemptId
    phase: Phase
    #: The monotonic time of the last order or report.
    at: float
    start: Start | None = None
    pid: int = 0
    shim: int = 0
    end: End | None = None
    #: The monotonic time when a stopped attempt is killed.
    stop_at: float = math.inf
    stuck: str | None = None
    looked_at: float = 0.0
    #: The launcher or a pidfd reports the end of the attempt's shim.
    watched: bool = False
    #: No run dir exists; the attempt is known only from the broker. Dropped when the worker connects again.
    traceless: bool = False
    #: The attempt has a run dir, so another attempt can be prefetched behind it.
    laid_out: bool = False
    #: The lease in the run dir, for an attempt that may be started elsewhere.
    lease: Lease | None = None

    @property
    def unclaimed(self) -> bool:
        """Whether no shim is known to have claimed the attempt."""
        return self.phase in (Phase.PREFETCHED, Phase.ORDERED)


def exited(attempt: int, record: dict[str, Any]) -> End:
    """Return the event that an exit record reports."""
    word, code, signal = record["outcome"], record["code"], record["signal"]
    if word == rundir.LEASE_ENDED:
        if code is None and signal is None:
            return RefusedByWorker(attempt, "its lease was over before it started")
        return Lost(attempt, Outcome.LOST, "its lease ended while the broker was out of reach", lease_ended=True)
    # A record says `exited` also for a command that a signal ended.
    outcome = Outcome.SIGNALLED if word == rundir.EXITED and code is None else Outcome(word)
    times = record["started"], record["ended"]
    return Exited(attempt, outcome, code, signal, record["error"], *times, record.get("result"))


def given_up(attempt: AttemptId) -> RefusedByWorker:
    """Return the event that an attempt was claimed by its worker, so that it never starts."""
    return RefusedByWorker(attempt[1], "given up before it started")


@contextlib.contextmanager
def one_alone(attempt: AttemptId) -> Iterator[None]:
    """Log an OSError of one attempt, so that the other attempts go on; a later tick tries again."""
    try:
        yield
    except OSError as error:
        log.error("attempt_put_off job=%s attempt=%s error=%s", *attempt, error)
