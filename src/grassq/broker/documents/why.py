"""Why a job is where it is, as a document."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.broker.documents.when import WhenDocument
from grassq.core.model import State


class StoryLineDocument(TypedDict):
    """Something that happened to a job."""

    at: str
    kind: str
    detail: str


class BlockerDocument(TypedDict):
    """What a job lacks on one worker."""

    worker: str
    resource: str
    needed: float
    free: float
    #: The jobs that hold it.
    holders: list[int]
    #: What programs outside of Grass use, in words.
    used_by_others: str | None
    #: The devices of the resource that are drained.
    drained: list[str]


class TurnDocument(TypedDict):
    """Where a queued job is in line."""

    #: Jobs before it with a higher priority.
    higher: int
    #: Jobs before it of the same priority.
    earlier: int
    #: Of the first job in line: how many jobs behind it have started before it.
    passed: int | None
    #: How many may do so before devices are kept free for it.
    passes: int
    #: The worker on which devices are kept free for it.
    kept_on: str | None
    kept_since: str | None
    #: Whether jobs of the same priority may not pass it any more.
    kept_from_equals: bool
    kept_from_equals_at: str | None
    #: When it starts at the latest, if every job in its way has a time limit.
    starts_by: str | None


class WhyJobDocument(TypedDict):
    """Why a job waits, or runs where it does."""

    id: int
    state: State
    reason: str | None
    #: What happened to it, the newest last.
    story: list[StoryLineDocument]
    #: The answer in words.
    text: str
    blocked: list[BlockerDocument]
    turn: TurnDocument | None
    #: Of few jobs that have not ended: when they start and end.
    when: NotRequired[WhenDocument]
    #: Of the first of them: changes with which they would start now.
    hints: NotRequired[list[str]]


class WhyDocument(TypedDict):
    """Why jobs wait, or run where they do."""

    jobs: list[WhyJobDocument]
