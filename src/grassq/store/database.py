"""How a store reads and writes its tables; each engine says how to execute, and how to explain errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import msgspec

from grassq.core.model import ID_MAX
from grassq.errors import StoreFull, StoreUnavailable
from grassq.store import rows, sql
from grassq.store.base import QueryResult, Row

T = TypeVar("T")


class Database(ABC):
    """The tables of one database. Used by one thread at a time."""

    #: The errors of the engine's driver.
    driver_error: type[Exception]

    def __init__(self, where: str) -> None:
        #: The store's name in messages, without a password.
        self.where = where

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object] = ()) -> QueryResult:
        """Run one statement of `sql`."""

    @abstractmethod
    def _many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of the values."""

    @abstractmethod
    def _counts(self, writes: Iterable[rows.Write]) -> list[int]:
        """Run statements; return how many rows each changed."""

    @abstractmethod
    def _stream(self, statement: str, count: int) -> Iterator[list[Row]]:
        """Yield the rows of a question, a bounded number at a time; inside a transaction."""

    def _replace(self, table: str, new: Iterable[Sequence[object]]) -> None:
        """Write all rows of a small table anew; inside a transaction."""
        self._execute(sql.EMPTY[table])
        self._many(sql.INSERT[table], new)

    def _patient(self) -> None:
        """Allow a long statement; inside a transaction."""
        return

    @abstractmethod
    def _writing(self) -> AbstractContextManager[None]:
        """Open one transaction: committed at its end, undone by an exception."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[None]:
        """Open one view of the store for several questions."""

    @abstractmethod
    def _in_words(self, error: Exception) -> str:
        """Return what a driver's error, or data that cannot be decoded, means and what to do."""

    @contextmanager
    def _foreign_errors(self) -> Iterator[None]:
        """Turn the driver's errors, and errors of decoding, into ours."""
        try:
            yield
        except (self.driver_error, msgspec.MsgspecError) as error:
            kind = StoreFull if self._is_full(error) else StoreUnavailable
            raise kind(self._in_words(error)) from error

    def _is_full(self, error: Exception) -> bool:
        """Tell whether a driver's error means that this machine's disk is full."""
        return False

    @abstractmethod
    def _reopen(self) -> None:
        """Reconnect, so that nothing uncertain is kept from before."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    def _read(self, from_row: Callable[[Row], T], statement: str, *values: object) -> list[T]:
        with self._foreign_errors():
            return [from_row(row) for row in self._all(statement, *values)]

    def _all(self, statement: str, *values: object) -> list[Row]:
        return self._execute(statement, values).fetchall()

    def _of_ids(self, statement: str, ids: Sequence[int], limit: int = ID_MAX) -> list[Row]:
        """Return the rows of some ids, in their order, at most `limit`."""
        found: list[Row] = []
        for some in sql.portions(ids):
            found += self._execute(sql.of_ids(statement, len(some)), some).fetchall()
            if len(found) >= limit:
                break
        return found
