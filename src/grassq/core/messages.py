"""Messages between broker and worker: orders one way, reports the other. Any message may arrive twice, or late."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from msgspec import Struct, field

from grassq.core import states
from grassq.core.job_options import Pairs
from grassq.core.model import AttemptId, AttemptNumber, JobId, Placement, Spec, SuspensionNumber, WorkerInfo


class _AboutAttempt(Struct, frozen=True):
    job: JobId
    attempt: AttemptNumber

    @property
    def id(self) -> AttemptId:
        """The attempt of this message."""
        return (self.job, self.attempt)


class Start(_AboutAttempt, frozen=True, tag="start"):
    """Run this attempt, unless it was started before; report its state."""

    spec: Spec
    placement: Placement
    env: Pairs
    name: str | None = None
    #: A rerun shares the checkpoint directory of the first job.
    checkpoint_of: JobId | None = None


class Check(_AboutAttempt, frozen=True, tag="check"):
    """Report the state of this attempt, which the broker believes to run here; never start it."""

    boot: str
    #: The attempt is suspended, or is to be; else it must not be stopped.
    suspended: bool = False


class Stop(_AboutAttempt, frozen=True, tag="stop"):
    """End this attempt: SIGTERM, grace, SIGKILL; if it has not started, it must never start."""

    grace_s: float
    boot: str


class Withdraw(_AboutAttempt, frozen=True, tag="withdraw"):
    """Give this attempt up, unless it has been started."""

    boot: str
    #: The store has no record of the attempt, because it was restored from a backup: keep its run dir for `doctor`.
    unrecorded: bool = False


class SuspendOrder(_AboutAttempt, frozen=True, tag="suspend"):
    """Stop every process of this attempt, which runs, and report it; only for a worker that `suspends`.

    With `stop` False, let the processes run again. An order with a lower number than an earlier one is outdated.
    """

    number: SuspensionNumber
    stop: bool
    boot: str


class Ack(_AboutAttempt, frozen=True, tag="ack"):
    """The report of this attempt's end is on disk; the worker need not repeat it."""


class Forget(Struct, frozen=True, tag="forget"):
    """These jobs were removed: delete their folders, but keep the checkpoints of the jobs in `spare`.

    With `keep_logs`, put the folders aside instead; only for a worker that `keeps_logs`.
    """

    jobs: tuple[JobId, ...]
    spare: tuple[JobId, ...] = ()
    keep_logs: bool = False


class LeftFolder(Struct, frozen=True):
    """The folder of a removed job that could not be removed yet."""

    job: int
    #: What it takes of the disk.
    bytes: int
    why: str


class StorePosition(Struct, frozen=True):
    """A point in a store's history: a broker's incarnation (one run of it), and the number of its last commit."""

    incarnation: str = field(name="life")
    commit: int
    #: The highest job id given by then, so that a broker restored from a backup gives none of these ids again.
    highest_id: int = 0
    #: Made from the fields above with a key of the store: a worker can claim no position that it was not told.
    proof: str = ""

    def proved(self, key: str) -> StorePosition:
        """Return this position with its proof."""
        return StorePosition(self.incarnation, self.commit, self.highest_id, self._proof(key))

    def is_proved(self, key: str) -> bool:
        """Tell whether a broker with this key has made the position."""
        return self.proof.isascii() and hmac.compare_digest(self.proof, self._proof(key))

    def is_before(self, other: StorePosition | None) -> bool:
        """Return whether another position is a later one of the same incarnation."""
        return other is not None and self.incarnation == other.incarnation and self.commit < other.commit

    def _proof(self, key: str) -> str:
        text = f"{self.commit} {self.highest_id} {self.incarnation}"
        return hmac.digest(key.encode(), text.encode(), "sha256").hex()


class StoreHistory(Struct, frozen=True):
    """The history of a store up to its present position."""

    #: With the proof that only a holder of `key` can make.
    position: StorePosition
    key: str
    #: The incarnations of brokers on the store, oldest first, each with the last commit before it.
    incarnations: Mapping[str, int]

    def is_restored(self, seen: StorePosition | None) -> bool:
        """Return whether a worker proves to have seen more than this history holds."""
        return seen is not None and seen.is_proved(self.key) and self.is_behind(seen)

    def is_behind(self, seen: StorePosition | None) -> bool:
        """Return whether a position is later than this history: if proved, the store was restored from a backup."""
        if seen is None:
            return False
        if seen.incarnation not in self.incarnations:
            # Only the newest incarnations are kept: one from before them is merely old.
            return seen.commit > min(self.incarnations.values(), default=0)
        incarnations = list(self.incarnations)
        following = incarnations[incarnations.index(seen.incarnation) + 1 :]
        return seen.commit > (self.incarnations[following[0]] if following else self.position.commit)


class Hello(Struct, frozen=True, tag="hello"):
    """A worker connected, or its info changed."""

    info: WorkerInfo
    #: A fresh connection: the broker repeats what it believes this worker holds.
    fresh: bool = True
    #: The attempts that have a run dir here, newest first and bounded; only in a fresh hello.
    held: tuple[AttemptId, ...] = ()
    #: The latest position this worker was told; a store that does not know this position was restored from a backup.
    seen: StorePosition | None = None
    #: Attempts that have a run dir here, that a broker had no record of, and whose end no broker has acknowledged.
    unrecorded: tuple[AttemptId, ...] = ()


class Silent(Struct, frozen=True, tag="silent"):
    """A worker's connection has ended; made by the broker's end of the link."""

    #: When the worker was last heard, on the broker's monotonic clock.
    heard: float


class Report(Struct, frozen=True, tag="report"):
    """What happened to an attempt."""

    job: JobId
    event: states.Report


Order = Start | Check | Stop | Withdraw | SuspendOrder | Ack | Forget
#: What a worker sends without being asked.
WorkerMessage = Hello | Report
