"""The records everything else is about: jobs, what was asked, and where an attempt runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from grassq.core.job_options import NEUTRAL_PRIORITY, Pairs, SpecOptions
from grassq.core.resources.amounts import Allocation, Request
from grassq.core.resources.capacity import Capacity, Limits
from grassq.core.resources.slots import Slot, SlotOrder
from grassq.core.syntax.resource_names import VRAM_OF
from grassq.core.syntax.slots import SLOTS_MAX

#: An attempt of a job: (job id, attempt number).
AttemptId = tuple[int, int]
#: A place in line is one number of 64 bits: the priority above this many bits, the id below.
ORDER_BITS = 42
#: The largest id there can be, and the largest number of an attempt. What comes from another machine is read within
#: these and the bounds below, or not at all: a number no store can hold must not get as far as one.
ID_MAX = (1 << ORDER_BITS) - 1
ATTEMPT_MAX = 10**9
JobId = Annotated[int, Meta(ge=1, le=ID_MAX)]
AttemptNumber = Annotated[int, Meta(ge=1, le=ATTEMPT_MAX)]
#: What a kernel says of a process: its number, its exit code, a signal.
KernelNumber = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
#: A moment on some machine's clock.
ClockTime = Annotated[float, Meta(ge=0.0, le=1e12)]
#: A sentence of a worker: no longer than what a run dir's record can hold.
Words = Annotated[str, Meta(max_length=64 << 10)]
OFFERS_MAX = 1000
ResourceName = Annotated[str, Meta(max_length=64)]
RESOURCES_MAX = 64


class State(StrEnum):
    """Where a job is in its life."""

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


class RemoteSubmitter(Struct, frozen=True):
    """What the sender of a job from another machine chose itself: only an offer that admits all of it takes the job."""

    #: The sender's token lets it use queues that have no command of their own.
    bare: bool = False
    #: The variables it sets.
    env: tuple[bytes, ...] = ()
    #: It names a directory.
    own_cwd: bool = False
    #: It sends a line for a shell.
    shell: bool = False


class Constraints(Struct, frozen=True):
    """What a job demands of whoever takes it, beyond amounts; jobs of one shape have the same."""

    worker: str | None = None
    labels: tuple[str, ...] = ()
    #: Set for a job sent from another machine; its environment, umask and directory are then the worker's.
    remote: RemoteSubmitter | None = field(default=None, name="guest")  # the name in stores and run dirs


ANYWHERE = Constraints()


class Spec(SpecOptions, frozen=True):
    """What was asked for, with the options of `SpecOptions`; it never changes after the submit."""

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
    #: The job named its own directory, which then wins over its queue's.
    own_cwd: bool = False
    constraints: Constraints = ANYWHERE
    #: The token it was submitted with; None on the user's own socket.
    by: str | None = None


class Placement(Struct, frozen=True):
    """Where one attempt runs, and what the queue there adds to it."""

    worker: str
    boot: str
    allocation: Allocation
    prefix: tuple[bytes, ...] = ()
    cwd: bytes | None = None
    env: Pairs = ()
    #: The worker ends this attempt when it has not heard from the broker for so long, so another may be started then.
    lease_s: float | None = None
    #: The attempt whose devices this one takes over when that has ended; until then it holds nothing itself.
    after: tuple[int, int] | None = None
    #: The name of the slot the attempt runs in: its devices, in the order in which the slot lists them.
    slot: str | None = None


class ForTime(Struct, frozen=True):
    """A job waits until this time: the delay before a retry."""

    at: float


class ForQueue(Struct, frozen=True):
    """A job waits until its queue exists and some worker there could run the job."""


#: What a waiting job waits for. The job is queued when the last of its waits has been cleared.
Wait = ForTime | ForQueue


class Job(Struct, frozen=True, kw_only=True):
    """One command and its story so far."""

    id: int
    spec: Spec
    state: State
    created: float
    name: str | None = None
    priority: int = NEUTRAL_PRIORITY
    #: Why a job waits, in words.
    reason: str | None = None
    #: The newest try, numbered from 1; 0 before the first. It fences off reports of older tries.
    attempt: int = 0
    placement: Placement | None = None
    cancel_requested: bool = False
    #: The grace asked for with the cancel, if another than the spec's.
    stop_grace_s: float | None = None
    pid: int | None = None
    #: Tries that really ran, and tries lost to the machine.
    tried: int = 0
    lost: int = 0
    #: Every thing a waiting job waits for; empty in every other state.
    waits: tuple[Wait, ...] = ()
    started: float | None = None
    finished: float | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    rerun_of: int | None = None

    @property
    def attempt_id(self) -> AttemptId:
        """The newest attempt of this job."""
        return (self.id, self.attempt)

    @property
    def ready_at(self) -> float | None:
        """Return the time this job waits for; None if it waits for no time."""
        for wait in self.waits:
            if isinstance(wait, ForTime):
                return wait.at
        return None

    @property
    def waits_for_queue(self) -> bool:
        """Return whether this job waits for its queue."""
        return bool(self.waits) and ForQueue() in self.waits

    @property
    def order(self) -> int:
        """The place in line: larger priority first, then submission."""
        return order_of(self.priority, self.id)


def order_of(priority: int, id_: int) -> int:
    """A place in line as one number that fits into 64 bits: smaller goes first."""
    return (-priority << ORDER_BITS) + id_


def id_in(order: int) -> int:
    """The job at a place in line."""
    return order & ID_MAX


def priority_in(order: int) -> int:
    """The priority of the job at a place in line."""
    return -(order >> ORDER_BITS)


class Offer(Struct, frozen=True):
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
    #: Places that jobs take one of, whatever they ask for, and the order in which they get them.
    slots: Annotated[tuple[Slot, ...], Meta(max_length=SLOTS_MAX)] = ()
    order: SlotOrder = "stack"
    #: The queue is deleted when all its jobs have ended and it has no subscriber.
    temporary: bool = False


class QueueTemplate(Struct, frozen=True):
    """A queue defined at the broker: every worker that has all these labels offers it."""

    offer: Offer
    labels: tuple[str, ...] = ()


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
    #: It can let one attempt take over from another; a worker of the first releases cannot.
    follows: bool = False

    @property
    def detecting(self) -> frozenset[str]:
        """Return the resources whose devices are still being looked for, as far as their names are known."""
        if isinstance(self.looked_for, bool):
            return frozenset({VRAM_OF}) if self.looked_for else frozenset()
        return self.looked_for

    def may_appear(self, resource: str) -> bool:
        """Tell whether a device that this worker does not have may yet be found."""
        return self.looked_for is True or resource in self.detecting
