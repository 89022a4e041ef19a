"""The records of jobs, of what was asked for, and of where an attempt runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from grassq.core.job_options import NEUTRAL_PRIORITY, Pairs, SpecOptions
from grassq.core.resources.amounts import Allocation, Request
from grassq.core.resources.capacity import Capacity, Limits
from grassq.core.resources.device_changes import DeviceChanges
from grassq.core.resources.slots import Slot, SlotOrder
from grassq.core.result import RESULT_MAX
from grassq.core.suspension.record import Suspension as Suspension
from grassq.core.syntax.resource_names import VRAM_OF
from grassq.core.syntax.slots import SLOTS_MAX
from grassq.core.waiting.conditions import Dependency
from grassq.core.waiting.waits import ForJobs as ForJobs
from grassq.core.waiting.waits import ForQueue as ForQueue
from grassq.core.waiting.waits import ForTime as ForTime
from grassq.core.waiting.waits import Wait as Wait

#: An attempt of a job: (job id, attempt number).
AttemptId = tuple[int, int]
#: A queue position is one number of 64 bits: the priority above this many bits, the rank below. The rank of a job is
#: its id above this many spare bits. A job that was moved has a rank of its own, with a spare bit set: between two ids
#: there are 2,047 such ranks.
ORDER_BITS, SPARE_BITS = 43, 11
#: The largest job id and the largest attempt number. Input from other machines is refused outside of these bounds and
#: the ones below, so that no number reaches a store that cannot hold it.
ID_MAX = (1 << (ORDER_BITS - SPARE_BITS)) - 1
RANK_MAX = (1 << ORDER_BITS) - 1
ATTEMPT_MAX = 10**9
JobId = Annotated[int, Meta(ge=1, le=ID_MAX)]
AttemptNumber = Annotated[int, Meta(ge=1, le=ATTEMPT_MAX)]
#: What a kernel says of a process: its pid, its exit code, a signal.
KernelNumber = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
#: The last second of the year 9999, after which no date can be written.
CLOCK_MAX = 253402300799.0
#: A time on some machine's clock.
ClockTime = Annotated[float, Meta(ge=0.0, le=CLOCK_MAX)]
#: The number of an order to suspend or to resume: at first the time in milliseconds.
SuspensionNumber = Annotated[int, Meta(ge=1, le=2**53)]
#: A text from a worker: no longer than a record in a run dir can be.
Words = Annotated[str, Meta(max_length=64 << 10)]
#: A result as JSON; a worker's text is also read once when it comes in.
ResultText = Annotated[str, Meta(max_length=RESULT_MAX)]
OFFERS_MAX = 1000
ResourceName = Annotated[str, Meta(max_length=64)]
RESOURCES_MAX = 64


class State(StrEnum):
    """The state of a job."""

    HELD = "held"
    WAITING = "waiting"
    QUEUED = "queued"
    PLACED = "placed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
#: States in which an attempt holds devices.
HOLDING = frozenset({State.PLACED, State.RUNNING})


class Outcome(StrEnum):
    """How an attempt ended; `grassq.core.outcome` has the words and the exit code of each."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    SPAWN_FAILED = "spawn_failed"
    LOST = "lost"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    #: Of a job that never ran: a job that it was to start after did not end as asked.
    DEPENDENCY_FAILED = "dependency_failed"
    TIMED_OUT = "timed_out"


class RemoteSubmitter(Struct, frozen=True):
    """What the sender of a job from another machine chose: only an offer that admits all of it takes the job."""

    #: The sender's token lets it use queues that have no command of their own.
    bare: bool = False
    #: The variables the job sets.
    env: tuple[bytes, ...] = ()
    #: The job names a directory.
    own_cwd: bool = False
    #: The command is a line for a shell.
    shell: bool = False
    #: The job names a file for its output. Left out of the stored form otherwise, as are `files` and `wraps` below.
    output: Literal[True] | UnsetType = UNSET


class Constraints(Struct, frozen=True):
    """What a job demands of its worker, beyond amounts; jobs of one shape have equal constraints."""

    worker: str | None = None
    labels: tuple[str, ...] = ()
    #: Set for a job sent from another machine; its environment, umask and directory are then the worker's.
    remote: RemoteSubmitter | None = field(default=None, name="guest")  # the name in stores and run dirs
    #: Set for a job without words of its own: only a queue with a command can run it.
    needs_command: bool = False
    #: Set for a job with options of `FILE_FIELDS`: only a worker that takes files can run it. Left out of the stored
    #: form otherwise, so that jobs of earlier releases have the same form.
    files: Literal[True] | UnsetType = UNSET
    #: Set for a job with `--wrap`: a worker of an earlier release would run its command without the wrapper.
    wraps: Literal[True] | UnsetType = UNSET
    #: The time limit that the job names.
    limit_s: float | UnsetType = UNSET
    #: The same with the grace: an attempt has ended by then, so the planner may let the job pass where it ends in time.
    lasts_s: float | UnsetType = UNSET
    #: The groups of the job that may have a limit, sorted: `project:P`, `tag:k=v`, `sweep:12`.
    groups: tuple[str, ...] | UnsetType = UNSET
    #: Set for a job with `--idle-limit`: a worker of an earlier release would let its command hang.
    idle_limit: Literal[True] | UnsetType = UNSET


ANYWHERE = Constraints()


class Spec(SpecOptions, frozen=True, omit_defaults=True):
    """What was asked for, with the options of `SpecOptions`; changes only by the event `Edit`, before a start."""

    command: tuple[bytes, ...]
    queue: str
    request: Request
    cwd: bytes
    env_digest: bytes
    umask: int = 0o022
    #: The shell that reads a one-word command as a line; None runs the words as they are.
    shell: bytes | None = None
    #: Set by --env and leading NAME=value words, on top of the submitter's environment.
    env: Pairs = ()
    #: The job named its own directory, which is used instead of its queue's.
    own_cwd: bool = False
    constraints: Constraints = ANYWHERE
    #: The id of the token the job was submitted with; None on the user's own socket.
    by: str | None = None
    #: The jobs that this one starts after. Kept by the broker: no worker is told.
    dependencies: tuple[Dependency, ...] = ()
    #: The index of a job of an array; and of the whole array how many indexes there are, the smallest and the largest.
    array_index: int | None = None
    array_of: tuple[int, int, int] | None = None
    #: The sweep of the job, set by the broker; and for `grass sweep --file` what names its command and options.
    sweep: int | None = None
    point: str | None = None
    #: Set by the broker while an attempt is told to end: the job is not cancelled then, but queued again.
    put_back: bool = False


class Placement(Struct, frozen=True, omit_defaults=True):
    """Where one attempt runs, and what the queue there adds to it."""

    worker: str
    boot: str
    allocation: Allocation
    prefix: tuple[bytes, ...] = ()
    cwd: bytes | None = None
    env: Pairs = ()
    #: Seconds without a word from the broker after which the worker ends this attempt, so that another can be started.
    lease_s: float | None = None
    #: The predecessor, whose devices this attempt takes over; it holds no devices until the predecessor ends.
    after: tuple[int, int] | None = None
    #: The name of the slot the attempt runs in.
    slot: str | None = None
    #: The queue's words before everything else of the command, as one line.
    wrap: bytes | None = None
    #: After how many seconds this attempt is ended: the limit of the job, else the one of its queue.
    time_limit_s: float | None = None


class Job(Struct, frozen=True, kw_only=True):
    """One command and its history."""

    id: int
    spec: Spec
    state: State
    created: float
    name: str | None = None
    priority: int = NEUTRAL_PRIORITY
    #: Why a job waits, in words.
    reason: str | None = None
    #: The newest attempt, numbered from 1; 0 before the first. Reports of older attempts are ignored.
    attempt: int = 0
    placement: Placement | None = None
    cancel_requested: bool = False
    #: The grace given with the cancel; None is the grace of the spec.
    stop_grace_s: float | None = None
    pid: int | None = None
    #: Attempts that really ran, and attempts lost with their machine.
    tried: int = 0
    lost: int = 0
    #: Every thing a waiting job waits for. A held job keeps what it will wait for when it is released; any other job
    #: has none.
    waits: tuple[Wait, ...] = ()
    started: float | None = None
    finished: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    #: What the last attempt wrote to its result file, as compact JSON.
    result: str | None = None
    rerun_of: int | None = None
    #: The token that answers for this job; None for the owner. The job counts for the limits of the token, and starts
    #: only while the token has not ended.
    token: str | None = None
    #: The place among jobs of equal priority, if the job was moved; None: the place by its id.
    rank: int | None = None
    #: Set when the newest attempt was suspended for the first time; it stays when the attempt runs again.
    suspension: Suspension | None = None
    #: For how many seconds the newest attempt was suspended, without a suspension that lasts; `stopped_s` has both.
    suspended_s: float = 0.0

    def stopped_s(self, until: float) -> float:
        """Return for how many seconds of its newest attempt this job was suspended, until a time."""
        return self.suspended_s + (0.0 if self.suspension is None else self.suspension.stopped_s(until))

    def ran_s(self, now: float) -> float | None:
        """Return for how many seconds the newest attempt ran, or has run by now, without the time it was suspended."""
        if self.started is None:
            return None
        until = now if self.finished is None else self.finished
        # A clock that was set back makes no run shorter than nothing.
        return max(0.0, until - self.started - self.stopped_s(until))

    @property
    def is_suspended(self) -> bool:
        """Whether the processes of this job are stopped, or are to be stopped or to go on."""
        return self.suspension is not None and not self.suspension.is_over

    @property
    def is_freed(self) -> bool:
        """Whether this job is suspended and holds none of its devices."""
        return self.suspension is not None and self.suspension.is_freed

    @property
    def project(self) -> str | None:
        """The project of this job."""
        return self.spec.project

    @property
    def unique_key(self) -> str | None:
        """The unique key of this job, within the jobs of its token; None if it has none."""
        return None if self.spec.unique is None else scoped_key(self.token, self.spec.unique)

    @property
    def sweep(self) -> int | None:
        """The sweep of this job."""
        return self.spec.sweep

    @property
    def attempt_id(self) -> AttemptId:
        """The newest attempt of this job."""
        return (self.id, self.attempt)

    @property
    def grace_s(self) -> float:
        """The seconds between SIGTERM and SIGKILL when this job is cancelled."""
        return self.spec.grace_s if self.stop_grace_s is None else self.stop_grace_s

    @property
    def for_time(self) -> ForTime | None:
        """The time this job waits for, or will wait for when it is released."""
        for wait in self.waits:
            if isinstance(wait, ForTime):
                return wait
        return None

    @property
    def ready_at(self) -> float | None:
        """The time this job waits for; None if it waits for no time."""
        wait = self.for_time
        return None if wait is None else wait.at

    @property
    def waits_for_jobs(self) -> bool:
        """Whether this job waits for other jobs."""
        return bool(self.waits) and ForJobs() in self.waits

    @property
    def waits_for_queue(self) -> bool:
        """Whether this job waits for its queue."""
        return bool(self.waits) and ForQueue() in self.waits

    @property
    def order(self) -> int:
        """The queue position: larger priority first, then submission, unless the job was moved."""
        if self.rank is not None:
            return (-self.priority << ORDER_BITS) + self.rank
        return order_of(self.priority, self.id)


def scoped_key(token: str | None, key: str) -> str:
    """Return a unique key as it is stored: jobs of one token never meet the keys of another."""
    return f"{token or ''}/{key}"


def order_of(priority: int, id_: int) -> int:
    """Return the queue position of a job that was not moved: a number of 64 bits; smaller goes first."""
    return (-priority << ORDER_BITS) + (id_ << SPARE_BITS)


def id_in(order: int) -> int:
    """Return the id of the job at a queue position, if it was not moved; `Board.id_at` knows all jobs."""
    return (order & RANK_MAX) >> SPARE_BITS


def rank_in(order: int) -> int:
    """Return the rank of the job at a queue position."""
    return order & RANK_MAX


def is_moved(rank: int) -> bool:
    """Tell whether only a job that was moved can have a rank."""
    return rank & ((1 << SPARE_BITS) - 1) != 0


def priority_in(order: int) -> int:
    """Return the priority of the job at a queue position."""
    return -(order >> ORDER_BITS)


class Offer(Struct, frozen=True, omit_defaults=True):
    """A queue on one worker: what it may use of the machine and what it adds to a job."""

    queue: str
    limits: Limits = field(default_factory=dict)
    prefix: tuple[bytes, ...] = ()
    cwd: bytes | None = None
    env: Pairs = ()
    #: A queue without a command of its own takes jobs from other machines.
    unsecure: bool = False
    #: The variables a sender from another machine may set.
    allow_env: tuple[bytes, ...] = ()
    #: A job takes one slot, whatever it asks for; `order` says which free slot comes next.
    slots: Annotated[tuple[Slot, ...], Meta(max_length=SLOTS_MAX)] = ()
    order: SlotOrder = "stack"
    #: The queue is deleted when all its jobs have ended and it has no subscriber.
    temporary: bool = False
    #: Words before everything else of the command of every job, as one line; a job from elsewhere cannot change them.
    wrap: bytes | None = None
    #: The time limit of a job that names none, and the longest that a job may name, in seconds.
    time_limit_s: float | None = None
    max_time_limit_s: float | None = None

    @property
    def has_limit(self) -> bool:
        """Whether every job of this queue has a time limit."""
        return self.usual_limit_s is not None

    @property
    def usual_limit_s(self) -> float | None:
        """The time limit of a job that names none: the default, else the maximum; None if there is neither."""
        return self.max_time_limit_s if self.time_limit_s is None else self.time_limit_s


class QueueTemplate(Struct, frozen=True):
    """A queue defined at the broker: every worker that has all these labels offers it."""

    offer: Offer
    labels: tuple[str, ...] = ()


class DiskShortage(Struct, frozen=True):
    """A worker's disk has less free space than its floor: the worker starts no new job."""

    path: str
    #: In bytes.
    free: int
    floor: int


class WorkerInfo(Struct, frozen=True):
    """What a worker says of itself when it connects."""

    name: str
    boot: str
    #: Detected or given on the command line; what offers declare comes on top.
    given: Capacity
    offers: Annotated[tuple[Offer, ...], Meta(max_length=OFFERS_MAX + 1)] = ()
    #: The resources whose devices are still being looked for; True while not even their names are known.
    looked_for: Annotated[frozenset[ResourceName], Meta(max_length=RESOURCES_MAX)] | bool = field(
        default=frozenset(), name="detecting"
    )
    labels: tuple[str, ...] = ()
    #: Whether the worker can prefetch attempts; a worker of the first releases cannot.
    follows: bool = False
    #: The release of Grass; "" if the worker does not say it.
    version: str = ""
    #: What programs outside of Grass use there now: amounts of pools, whole devices, and memory of devices. It is still
    #: part of the capacity, so a job that needs it waits.
    used_by_others: Allocation = field(default_factory=dict)
    #: Whether the worker can send files to its jobs and fetch files from them.
    takes_files: bool = False
    #: Whether the machine was added by its address and has no files of the submitter: it takes only jobs meant for it.
    apart: bool = False
    #: Why the worker starts no new job now; None while its disk has room.
    disk_short: DiskShortage | None = None
    #: Whether the worker cuts logs and can be asked what was cut out; a worker of an earlier release cannot.
    cuts_logs: bool = False
    #: What people have changed of the devices, on top of `given` and of what offers declare.
    devices: DeviceChanges = field(default_factory=dict)
    #: Whether the devices of the worker can be changed; those of a worker of an earlier release cannot.
    changes_devices: bool = False
    #: Whether the worker can leave the logs of a removed job.
    keeps_logs: bool = False
    #: Whether the worker puts wrappers before commands; a worker of an earlier release does not.
    wraps: bool = False
    #: Whether the worker keeps time limits and idle limits; a worker of an earlier release does not.
    keeps_limits: bool = False
    #: Whether the worker can suspend jobs; a worker of an earlier release cannot.
    suspends: bool = False

    @property
    def detecting(self) -> frozenset[str]:
        """The resources whose devices are still being looked for, as far as their names are known."""
        if isinstance(self.looked_for, bool):
            return frozenset({VRAM_OF}) if self.looked_for else frozenset()
        return self.looked_for

    @property
    def lasting(self) -> WorkerInfo:
        """This description without what others use and the shortage of disk, which change often: so it is stored."""
        if not self.used_by_others and self.disk_short is None:
            return self
        return replace(self, used_by_others={}, disk_short=None)

    def may_appear(self, resource: str) -> bool:
        """Tell whether a device that this worker does not have may yet be found."""
        return self.looked_for is True or resource in self.detecting
