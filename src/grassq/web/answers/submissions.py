"""What the routes that submit and edit jobs answer."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.broker.actions.dry_run import DryRunDocument
from grassq.core.model import State
from grassq.web.responses import BulkDocument


class SubmittedDocument(TypedDict):
    """Jobs that were submitted."""

    #: In the order in which the jobs were sent.
    ids: list[int]
    warnings: list[str]
    #: True if nothing was queued: this is the unfinished job that has the same unique key.
    existing: NotRequired[bool]


class ManySubmittedDocument(TypedDict):
    """Many jobs that were submitted; their ids are consecutive."""

    #: The first id.
    first: int
    count: int
    warnings: list[str]
    #: True if nothing was queued: this is the unfinished job that has the same unique key.
    existing: NotRequired[bool]


class TriedDocument(DryRunDocument):
    """What jobs of a program would do; nothing was stored."""

    warnings: list[str]


class EditableJobDocument(TypedDict):
    """Everything that can be changed of a job."""

    id: int
    state: State
    #: Sent back with an edit, it refuses the edit if the job was changed meanwhile.
    version: str
    #: By name: the command, and the options of `grass enqueue`. Words that are no text are `{"b64": ...}`.
    values: dict[str, object]


class EditableDocument(TypedDict):
    """Jobs that can be edited."""

    jobs: list[EditableJobDocument]
    #: How many of the selected jobs have started or ended, so that they cannot be edited.
    started: int


class EditedDocument(BulkDocument):
    """What an edit has done."""

    #: By job: what changed, in words; empty for many jobs and for a repeated request.
    changed: dict[str, str]
