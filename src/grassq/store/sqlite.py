"""SQLite: the store of one machine. WAL and synchronous FULL, so what is acknowledged is on disk."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec

from grassq.store import schema, sql
from grassq.store.base import Changes, QueryResult, Row
from grassq.store.relational import Store
from grassq.store.rows import Write

MEMORY = ":memory:"
BUSY_TIMEOUT_S = 5.0
#: After this many pages the log is checkpointed into the database, and written from its start again. Syncing a growing
#: log costs three times as much as one that is overwritten, so a longer log is no gain; a shorter one interrupts the
#: work more often to checkpoint.
LOG_PAGES = 1000
#: The initial length of the log: this many pages of the usual size, each with its header.
LOG_LAID_OUT = LOG_PAGES * (4096 + 24)
#: What the log is cut back to when a large submit has made it longer.
LOG_KEPT_BYTES = 64 << 20
#: A commit of this many new jobs gets more memory (KiB) while it lasts: otherwise its pages go to the disk and back.
MANY_JOBS = 10_000
CACHE_KIB, LARGE_CACHE_KIB = 2000, 64_000

_PRAGMAS = (
    # What is deleted is overwritten: environments may hold secrets.
    "secure_delete = on",
    "journal_mode = wal",
    "synchronous = full",
    "foreign_keys = on",
    f"cache_size = -{CACHE_KIB}",
    f"wal_autocheckpoint = {LOG_PAGES}",
    f"journal_size_limit = {LOG_KEPT_BYTES}",
)


class SqliteStore(Store):
    """A store in one SQLite file, or in memory. Used by one thread at a time."""

    driver_error = sqlite3.Error

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path
        #: Whether an environment was removed whose text may still be in the log.
        self._has_remains = False
        self._connection = self._open()
        with self._foreign_errors():
            self._identify()
            self.number = self._number()

    def _open(self) -> sqlite3.Connection:
        with self._foreign_errors():
            if self.path != MEMORY:
                _keep_log_without_database(Path(self.path))
            # The caller makes sure that only one thread uses the store at a time; any thread may.
            connection = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                # Checked before anything else: even a change of the journal's mode would touch the file.
                pending = schema.pending(_version(connection), self.path)
                for pragma in _PRAGMAS:
                    connection.execute(f"pragma {pragma}").fetchall()
                for number, statements in pending:
                    connection.executescript(f"begin immediate; {statements}; pragma user_version = {number}; commit;")
                if self.path != MEMORY:
                    _lay_out(connection, Path(f"{self.path}-wal"))
            except BaseException:
                connection.close()
                raise
            return connection

    def _reopen(self) -> None:
        if self.path != MEMORY:
            self._connection.close()
            self._connection = self._open()

    def commit(self, changes: Changes) -> None:
        self._commit(changes)
        if self._has_remains and self.path != MEMORY:
            self._empty_log()

    def _commit(self, changes: Changes) -> None:
        if len(changes.inserted) < MANY_JOBS:
            super().commit(changes)
            return
        with self._foreign_errors():
            self._connection.execute(f"pragma cache_size = -{LARGE_CACHE_KIB}")
        try:
            super().commit(changes)
        finally:
            with self._foreign_errors():
                self._connection.execute(f"pragma cache_size = -{CACHE_KIB}")
                self._connection.execute("pragma shrink_memory")

    def _empty_log(self) -> None:
        """Empty the log, which still holds the environments that were removed; while another reads it, do so later."""
        with suppress(sqlite3.Error):  # the commit is done; the next one tries again
            self._connection.execute("pragma busy_timeout = 0")
            try:
                is_busy, *_ = self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            finally:
                self._connection.execute(f"pragma busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
            if not is_busy:
                self._has_remains = False
                _lay_out(self._connection, Path(f"{self.path}-wal"))

    def _execute(self, statement: str, values: Sequence[object] = ()) -> QueryResult:
        return self._connection.execute(statement, values)

    def _many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        count = self._connection.executemany(statement, values).rowcount
        if count > 0 and statement is sql.REMOVE_ENVIRONMENT:
            self._has_remains = True

    def _counts(self, writes: Iterable[Write]) -> list[int]:
        execute = self._connection.execute
        return [execute(statement, values).rowcount for statement, values in writes]

    def _stream(self, statement: str, count: int) -> Iterator[list[Row]]:
        cursor = self._connection.execute(statement)
        while some := cursor.fetchmany(count):
            yield some

    @contextmanager
    def _writing(self, begin: str = "begin immediate") -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("commit")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise

    def _reading(self) -> AbstractContextManager[None]:
        return self._writing("begin")

    def close(self) -> None:
        self._connection.close()

    def _is_full(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL

    def _in_words(self, error: Exception) -> str:
        why = str(error)
        if isinstance(error, msgspec.MsgspecError) or "malformed" in why or "not a database" in why:
            return f"{self.path} is damaged ({why}); keep it and the jobs folder, and start on another GRASS_HOME"
        if self._is_full(error):
            return f"the disk that holds {self.path} is full; free some space and try again"
        if "readonly" in why or "unable to open" in why:
            return f"{self.path} cannot be written ({why}); check the owner and mode of its folder"
        return f"{self.path}: {why}"


def _keep_log_without_database(path: Path) -> None:
    """Rename a log whose database is gone: SQLite would delete the log, and with it the last commits."""
    log = path.with_name(f"{path.name}-wal")
    if (path.exists() and path.stat().st_size) or not log.exists() or not log.stat().st_size:
        return
    with suppress(OSError):
        log.rename(log.with_name(f"{log.name}.{time.time_ns()}"))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _lay_out(connection: sqlite3.Connection, log: Path) -> None:
    """Make the log as long as it will get, so that no commit waits for the file to grow.

    SQLite does not read what follows the last record: old records, as after every checkpoint, or zeros.
    """
    if log.exists() and log.stat().st_size >= LOG_LAID_OUT:
        return
    # No other connection writes a record meanwhile: this one holds the write lock.
    connection.execute("begin immediate")
    try:
        with (
            suppress(OSError),
            log.open("r+b") as file,
        ):  # on a full disk the log grows as needed, and reports the error then
            file.write(bytes(max(0, LOG_LAID_OUT - file.seek(0, os.SEEK_END))))
            file.flush()
            os.fsync(file.fileno())
    finally:
        connection.execute("rollback")
