"""What the stream of changes sends."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.core.model import Outcome, State


class ChangeDocument(TypedDict):
    """A change of a job; or `subscribed`, `heartbeat` or `reread` (changes are lost), which have no job."""

    #: `submitted`, `placed`, `started`, `exited`, `held`, `removed`, ...: the words of a job's story.
    event: str
    #: The run of the broker, and the number of the change in it: `since=EPOCH.SEQ` goes on here.
    epoch: str
    seq: int
    at: str
    #: The first and the last job concerned. They differ only for `submitted` and `removed`.
    job: NotRequired[int]
    last: NotRequired[int]
    queue: NotRequired[str]
    name: NotRequired[str | None]
    state: NotRequired[State]
    detail: NotRequired[str]
    attempt: NotRequired[int]
    worker: NotRequired[str | None]
    reason: NotRequired[str | None]
    outcome: NotRequired[Outcome | None]
    exit_code: NotRequired[int | None]
    signal: NotRequired[int | None]
    error: NotRequired[str | None]
