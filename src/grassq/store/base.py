"""What a store is given to keep, and what it gives back."""

from __future__ import annotations

from array import array
from collections.abc import Sized
from copy import copy
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from grassq.core.model import Job, Outcome, Placement, QueueTemplate, State, WorkerInfo
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.request_classes import Shape
from grassq.core.resources.amounts import Allocation
from grassq.core.sweeps.sweep import Sweep
from grassq.core.waiting.conditions import Condition
from grassq.core.waiting.dependencies import Edge

SUBMISSION_KEPT_S = 7 * 86400.0
CODE_KEPT_S = 7 * 86400.0
INCARNATIONS_KEPT = 1000
PREDICTIONS_KEPT = 2000
Row = tuple[Any, ...]
#: By job: the worker that has an attempt, and the number of the attempt.
NewerAttempts = dict[int, tuple[str, int]]


class QueryResult(Protocol):
    """What a statement led to."""

    @property
    def rowcount(self) -> int:
        """Return how many rows it changed."""

    def fetchall(self) -> list[Row]:
        """Return its rows."""


class Submission(Struct, frozen=True):
    """What a client's key stands for: the request's digest, and the jobs it made or changed."""

    key: str
    digest: bytes
    first_id: int
    count: int
    at: float
    #: For an action on existing jobs: the jobs it changed.
    ids: tuple[int, ...] = ()


#: The kind of the first line of every story.
SUBMITTED = "submitted"


class Story(Struct, frozen=True):
    """One line of a job's story."""

    job: int
    at: float
    kind: str
    detail: str = ""


class Attempt(Struct, frozen=True, kw_only=True):
    """One try of a job, as stored."""

    job: int
    number: int
    placement: Placement
    pid: int | None = None
    started: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None


class PastRun(Struct, frozen=True):
    """One attempt of a job that has ended; number 0 and no worker for a job that was never placed."""

    job: int
    queue: str
    name: str | None
    token: str | None
    state: State
    created: float
    finished: float
    number: int
    #: Whether it is the last attempt of its job.
    is_last: bool
    worker: str | None
    allocation: Allocation
    started: float | None
    ended: float | None
    #: How the attempt ended.
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None

    @property
    def position(self) -> RunPosition:
        """Where this run is in the order of `runs_after`."""
        return self.finished, self.job, self.number


#: The time of the end of a job, its id, and the number of an attempt.
RunPosition = tuple[float, int, int]

Scope = Literal["read", "submit", "admin", "worker"]
#: In place of a token: the session was opened by the owner of the daemon, on its unix socket.
PAGE_OF_OWNER = "owner"


class Progress(Struct, frozen=True):
    """How far a store has come: the last incarnation of a broker on it, its last commit, and the highest id."""

    store_id: str
    incarnation: str
    commit: int
    highest_id: int


class Token(Struct, frozen=True, kw_only=True):
    """A right given to a person or a worker, or the one-time code exchanged for it. The secret is not stored."""

    id: str
    #: SHA-256 of the secret.
    digest: bytes
    scope: Scope
    #: The holder: a person's word for the token, or the worker's name.
    name: str
    created: float
    #: Exchanged once, by `join` or `login`, for a token of this scope.
    is_code: bool = False
    #: The only queues a submit token may use; None for every queue.
    queues: tuple[str, ...] | None = None
    #: The token may also use queues without a command of their own.
    bare: bool = False
    expires: float | None = None
    #: Revoked, or for a code: used.
    ended: float | None = None
    #: The token a code was exchanged for.
    became: str | None = None
    #: The highest priority a submit token may give to a job; None for the broker's setting.
    priority_max: int | None = None
    #: For the session of a browser: PAGE_OF_OWNER, or the token that it acts for.
    page_of: str | None = None


class BriefJob(NamedTuple):
    """What a job that others wait for is asked; reading whole jobs costs many times as much."""

    id: int
    state: str
    created: float
    queue: str


class TokenUsage(Struct):
    """How many unfinished jobs a token answers for, and how many bytes they take in the store."""

    jobs: int = 0
    bytes: int = 0


class Prediction(Struct, frozen=True, kw_only=True):
    """What was said about when a job starts or ends, in seconds since the epoch; there is one of each kind per job."""

    job: int
    kind: Literal["start", "end"]
    made: float
    low: float
    likely: float
    high: float
    basis: str
    #: When it really happened; None until then.
    actual: float | None = None


class WorkerRecord(Struct, frozen=True):
    """What the broker itself keeps about a worker, whatever the worker says."""

    drained: bool = False
    #: What the worker shows when it connects, and what it will show from then on.
    ticket: str = ""
    next_ticket: str = ""
    #: By queue: the last commit before the worker offered it. The first offer decides how lines for the queue are read.
    offered: dict[str, int] = {}


class Changes(Struct):
    """Everything one batch changes; it is stored whole or not at all."""

    inserted: dict[int, Job] = field(default_factory=dict)
    #: Job id to (as stored, as it will be).
    updated: dict[int, tuple[Job, Job]] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    #: Without the line that a job was submitted: the job's row tells it.
    story: list[Story] = field(default_factory=list)
    environments: dict[bytes, bytes] = field(default_factory=dict)
    submissions: dict[str, Submission] = field(default_factory=dict)
    workers: dict[str, WorkerInfo] = field(default_factory=dict)
    worker_records: dict[str, WorkerRecord] = field(default_factory=dict)
    removed_workers: list[str] = field(default_factory=list)
    #: Queues defined at the broker; None deletes one.
    templates: dict[str, QueueTemplate | None] = field(default_factory=dict)
    #: What groups of jobs may hold at once; None removes a limit.
    group_limits: dict[str, GroupLimit | None] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    #: New sweeps, and those that were changed.
    sweeps: dict[int, Sweep] = field(default_factory=dict)
    #: All paused queues and the name of the user that paused each, if one of them changed.
    paused: dict[str, str] | None = None
    #: The workers that must connect before a restored broker starts anything, if this set changed.
    unreconciled: set[str] | None = None
    #: The highest id that the store may have given before it was restored from a backup, if that changed.
    restored_to: int | None = None
    #: Running jobs, and the worker and number of a newer attempt that the store has no record of, if that changed.
    newer: NewerAttempts | None = None
    #: How many jobs have a folder on the broker's machine and are not stored, if that was found out or accepted.
    lost_jobs: int | None = None
    removed: list[int] = field(default_factory=list)
    #: Those of them whose logs are kept.
    kept: set[int] = field(default_factory=set)
    #: Removed jobs whose folders are gone.
    cleared: list[int] = field(default_factory=list)
    #: New predictions, and those whose time has come; None for a prediction whose time will never come.
    predicted: list[Prediction] = field(default_factory=list)
    judged: dict[tuple[int, str], float | None] = field(default_factory=dict)
    #: Ends of jobs that are to be told, encoded; and the numbers of ends that were told.
    untold: list[bytes] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    #: Jobs that start after other jobs than before: what is stored of that is removed before `edges` are added.
    unlinked: list[int] = field(default_factory=list)
    #: What new jobs start after, and whether that was met before (0 or 1); jobs that have ended and that others waited
    #: for; jobs that wait for no job any more; and jobs for whose condition `fail` one failure was enough.
    edges: list[tuple[int, int, Condition, int]] = field(default_factory=list)
    met: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    failure_met: list[int] = field(default_factory=list)

    def put(self, before: Job, after: Job) -> None:
        """Note that a job is now `after`; several changes of one job become one write."""
        if after.id in self.inserted:
            self.inserted[after.id] = after
        else:
            stored, _ = self.updated.get(after.id, (before, after))
            self.updated[after.id] = (stored, after)

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing to commit."""
        return self == Changes()

    @property
    def of_machines(self) -> bool:
        """Tell whether workers, queues or pauses change."""
        some = self.workers or self.worker_records or self.removed_workers or self.templates
        return bool(some) or self.paused is not None or self.unreconciled is not None

    @property
    def outline(self) -> tuple[object, ...]:
        """Return a value that differs after every change, and costs next to nothing for many jobs.

        Of what can be large only the sizes are in it: whatever changes a job also adds to its story.
        """
        jobs: tuple[Sized, ...] = (self.inserted, self.updated, self.attempts, self.story, self.removed, self.cleared)
        small = (
            self.workers,
            self.worker_records,
            self.removed_workers,
            self.templates,
            self.tokens,
            self.group_limits,
            self.sweeps,
        )
        whole = (self.paused, self.unreconciled)
        # Mostly empty, and a copy takes longer than all the rest.
        copies = [copy(each) if each else each is None for each in (*small, *whole)]
        few: tuple[Sized, ...] = (
            self.environments,
            self.submissions,
            self.predicted,
            self.judged,
            self.told,
            self.freed,
            self.unlinked,
            self.failure_met,
        )
        sizes = (*map(len, jobs), *map(len, few))
        return (*sizes, *copies, self.restored_to, self.lost_jobs)


class WaitingGroup(Struct, gc=False):
    """Jobs of one shape that are queued, or that wait for their queue alone: their queue positions and nothing else."""

    #: Queued or waiting.
    state: State
    shape: Shape
    #: What `Job.order` of each is, ascending; 64-bit numbers.
    orders: array[int]


class Loaded(Struct, frozen=True):
    """What a broker starts from."""

    store_id: str
    #: The secret with which positions of this store are proved.
    position_key: str
    #: Unfinished jobs by id: every job that is placed, running or waits for a time, and the first few
    #: of the others.
    jobs: list[Job]
    workers: list[WorkerInfo]
    paused: dict[str, str]
    #: The highest id ever given, also to a job removed since.
    highest_id: int
    worker_records: dict[str, WorkerRecord] = {}
    unreconciled: set[str] = set()
    #: The queues defined at the broker.
    templates: dict[str, QueueTemplate] = {}
    #: What groups of jobs may hold at once.
    group_limits: dict[str, GroupLimit] = {}
    #: The highest id that the store may have given before it was restored from a backup; 0 if it never was.
    restored_to: int = 0
    newer: NewerAttempts = {}
    #: How many jobs have a folder on the broker's machine and are not stored; 0 once the user has accepted that.
    lost_jobs: int = 0
    #: The incarnations of brokers on this store, oldest first: which commit was the last before each.
    incarnations: dict[str, int] = {}
    #: Every queued job and every job that waits for its queue alone, also those in `jobs`, by state and shape.
    groups: list[WaitingGroup] = []
    #: The unfinished jobs that were moved, by rank.
    moved: dict[int, int] = {}
    #: The unmet edges, the queue of each job that waits, and the token of each that has one.
    edges: list[Edge] = []
    queues: dict[int, str] = {}
    tokens: dict[int, str] = {}


Sort = Literal["id", "finished"]
#: Later than every time.
TIME_MAX = 1e18


class JobScan(Struct, frozen=True):
    """Jobs in one order, from a position on, under one condition at most; each is answered from an index."""

    #: By id, or by the time of the end: then only jobs that have ended.
    sort: Sort = "id"
    descending: bool = False
    #: The time of the end and the id of the last job before; by id, only the id counts.
    after: tuple[float, int] | None = None
    #: Any but succeeded.
    state: State | None = None
    queue: str | None = None
    name: str | None = None
    project: str | None = None
    sweep: int | None = None
