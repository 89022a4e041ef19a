"""A store that fails on demand: before it writes, after it wrote, or when it is read again."""

from __future__ import annotations

from collections.abc import Callable

from grassq.store.base import Changes, Loaded
from grassq.store.sqlite import MEMORY, SqliteStore


def steady(moment: str) -> None:
    """No trouble at all."""


class TouchyStore(SqliteStore):
    """A real store whose `trouble` is asked at each moment, and may raise."""

    def __init__(self, path: str = MEMORY, trouble: Callable[[str], None] = steady) -> None:
        self.trouble = trouble
        #: How many commits really happened.
        self.commits = 0
        super().__init__(path)

    def load(self) -> Loaded:
        self.trouble("load")
        return super().load()

    def commit(self, changes: Changes) -> None:
        self.trouble("before commit")
        super().commit(changes)
        self.commits += 1
        self.trouble("after commit")

    def environment(self, digest: bytes) -> bytes | None:
        self.trouble("environment")
        return super().environment(digest)
