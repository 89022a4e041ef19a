"""The types of what a page is told, of which the document of the API is made."""

from __future__ import annotations

from typing import TypedDict

from grassq.broker.documents.fleet import DeviceDocument, QueueDocument, WorkerDocument
from grassq.broker.documents.job import JobDocument
from grassq.web.answers.logs import LogLineDocument
from grassq.web.live.messages import Wish


class DevicesDocument(TypedDict):
    """Every device of every worker."""

    schema: int
    devices: list[DeviceDocument]
    #: The position in the changes at which the devices were read.
    since: str


class HelloDocument(TypedDict):
    """The first thing a page hears."""

    position: str
    #: The run of the daemon; the number in a frame belongs to it.
    epoch: str
    version: str
    scope: str


class LiveLogDocument(TypedDict):
    """The last lines of a log; they replace all lines from the byte `first` on."""

    job: int
    attempt: int | None
    stream: str | None
    #: All lines that were sent before are to be forgotten.
    is_new: bool
    first: int
    lines: list[LogLineDocument]
    total: int | None
    size: int
    #: The attempt has ended, and these are its last lines.
    is_final: bool
    #: Why the log cannot be read now.
    error: str | None


class LiveFrameDocument(TypedDict, total=False):
    """What a page hears: a hello, a beat, a reset, or a frame with the parts that changed."""

    hello: HelloDocument
    beat: bool
    #: The changes since the position of the page are not known any more: all must be asked for again.
    reset: bool
    #: The number of the last change in this frame.
    seq: int
    totals: dict[str, int]
    #: Jobs were added, removed or changed.
    moved: bool
    #: By id; null for a job that does not exist any more.
    jobs: dict[str, JobDocument | None]
    devices: list[DeviceDocument]
    queues: list[QueueDocument]
    #: The queues that are paused, an empty name for all, and the name of the user that paused each.
    paused: dict[str, str]
    workers: list[WorkerDocument]
    log: LiveLogDocument


class LiveMessageDocument(TypedDict, total=False):
    """What a page says."""

    sub: Wish
    beat: bool
