"""Queues and workers as documents."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.core.resources.amounts import Amounts


class SlotDocument(TypedDict):
    """A slot of a queue."""

    name: str
    #: The devices of the slot.
    gpu: list[str]
    #: The job that holds the slot.
    job: int | None


class QueueDocument(TypedDict):
    """A queue on one worker, or a queue of the broker that no worker offers yet."""

    name: str
    #: Null: no worker offers it yet.
    worker: str | None
    #: Whether the queue is defined at the broker, for all workers that have its labels.
    at_broker: bool
    #: Of a queue that no worker offers: the labels that a worker needs to offer it.
    labels: NotRequired[list[str]]
    paused: bool
    #: The most that jobs of the queue may hold together.
    limits: Amounts
    free: Amounts
    slots: list[SlotDocument]
    #: Which free slot is taken next.
    order: str | None
    #: The command of the queue, before the words of a job.
    prefix: list[str]
    #: The directory of its jobs.
    cwd: str | None
    #: What is put before the commands of its jobs, such as a container.
    wrap: str | None
    #: The time limit of a job that names none, in seconds.
    time_limit_s: float | None
    #: The longest time limit of a job; without a default, also the limit of a job that names none.
    max_time_limit_s: float | None
    #: Jobs that run here.
    running: int
    #: Jobs that wait for this queue, on any worker.
    queued: int


class DiskShortDocument(TypedDict):
    """A disk that is short of space, so that its worker starts no job."""

    path: str
    #: Bytes that are free.
    free: int
    #: Bytes that have to be free.
    floor: int
    #: The same in words.
    text: str | None


class WorkerDocument(TypedDict):
    """A worker."""

    name: str
    online: bool
    #: Whether it gets no more jobs.
    drained: bool
    #: The devices that get no more jobs, by resource.
    drained_devices: dict[str, list[str]]
    #: The devices that were removed while jobs held them, by resource: each is gone when its jobs end.
    leaving_devices: dict[str, list[str]]
    labels: list[str]
    version: str | None
    #: Seconds since it was last heard; null if it is online.
    silent_s: float | None
    #: Jobs that hold something here.
    jobs: int
    #: What it has: sums, and devices with their worth.
    capacity: Amounts
    free: Amounts
    #: What programs outside of Grass use.
    used_by_others: Amounts | None
    #: Since when it is online; of another, when it was last heard.
    since: str | None
    #: Whether it still looks for its devices.
    detecting: bool
    disk_short: DiskShortDocument | None


class HolderDocument(TypedDict):
    """A job that holds a part of a device."""

    job: int
    #: The part of the device.
    amount: float
    #: MiB of the device's memory.
    vram: float


class DeviceDocument(TypedDict):
    """A device of a worker."""

    worker: str
    #: The name of the resource: `gpu`.
    resource: str
    id: str
    #: What the whole device counts, mostly 1.
    worth: float
    free: float
    #: MiB of memory; null if not known.
    vram: float | None
    vram_free: float | None
    holders: list[HolderDocument]
    #: The part that programs outside of Grass use.
    others: float
    #: Whether its worker is connected.
    online: bool
    #: Whether it gets no more jobs: the device is drained, or its whole worker.
    drained: bool
    #: Whether it was removed: it is gone when the jobs that hold it end.
    leaving: bool
