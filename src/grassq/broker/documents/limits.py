"""The limit of a group as a document."""

from __future__ import annotations

from typing import TypedDict


class LimitDocument(TypedDict):
    """What the jobs of a group may hold at once, and what they hold."""

    #: `project:NAME` or `tag:KEY=VALUE`.
    group: str
    #: By resource: the most that its jobs hold at once; memory in MiB.
    amounts: dict[str, float]
    #: How many of its jobs may run at once; null for any number.
    jobs: int | None
    #: By resource of `amounts`: what its running jobs asked for.
    held: dict[str, float]
    #: How many of its jobs run now.
    running: int
