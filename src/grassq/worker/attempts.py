"""What an agent knows of one attempt."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any

from msgspec import Struct

from grassq.core.messages import Start
from grassq.core.model import AttemptId, Outcome
from grassq.core.states import Exited, Lost, RefusedByWorker
from grassq.run import rundir
from grassq.worker.leases import Lease

log = logging.getLogger(__name__)

FORGOTTEN_MAX = 20_000

End = Exited | Lost | RefusedByWorker


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
