"""A store that fails on demand: before it writes, after it wrote, or when it is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grassq.errors import Deposed
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
        #: Which broker leads; an earlier one finds out at its next commit.
        self.term = 0
        super().__init__(path)

    def image(self) -> bytes:
        """A backup: all that is stored."""
        return self._connection.serialize()

    def restore(self, image: bytes) -> None:
        """Go back to a backup; only a broker that is started after it may use the store."""
        self._connection.deserialize(image)
        self.number = self._number()

    def load(self, whole: int) -> Loaded:
        self.trouble("load")
        return super().load(whole)

    def commit(self, changes: Changes) -> None:
        self.trouble("before commit")
        super().commit(changes)
        self.commits += 1
        self.trouble("after commit")

    def environment(self, digest: bytes) -> bytes | None:
        self.trouble("environment")
        return super().environment(digest)


class Led:
    """A store as one broker has it, until another takes it over."""

    beat_s = 1.0

    def __init__(self, store: TouchyStore) -> None:
        self._store = store
        self._term = store.term

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _prove(self) -> None:
        if self._term != self._store.term:
            raise Deposed("another broker has taken the store over")

    def begin(self, life: str) -> None:
        self._prove()
        self._store.begin(life)

    def beat(self) -> None:
        self._prove()

    def load(self, whole: int) -> Loaded:
        self._prove()
        return self._store.load(whole)

    def commit(self, changes: Changes) -> None:
        self._prove()
        self._store.commit(changes)
