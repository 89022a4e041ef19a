"""What the routes about queues and workers answer."""

from __future__ import annotations

from typing import TypedDict

from grassq.broker.documents.overview import PausedDocument


class PrintDocument(TypedDict):
    """How a command was asked to print its answer."""

    json: bool
    quiet: bool


class QueueMadeDocument(TypedDict):
    """A queue that was made or replaced."""

    name: str
    #: `created`, `replaced` or `unchanged`.
    status: str
    notes: list[str]
    #: What the words said of the output.
    print: PrintDocument


class QueueDeletedDocument(TypedDict):
    """A queue that was deleted."""

    name: str
    notes: list[str]


class PausedNotesDocument(PausedDocument):
    """What is paused after a pause or a resume."""

    notes: list[str]


class DrainDocument(TypedDict):
    """A worker that gets no more jobs, or jobs again."""

    worker: str
    drained: bool
    notes: list[str]


class WorkerRemovedDocument(TypedDict):
    """A worker that was removed."""

    worker: str
    notes: list[str]
