"""SQLite: the store of one machine. WAL and synchronous FULL, so what is acknowledged is on disk."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import msgspec

from grassq.core import selectors
from grassq.core.model import Job
from grassq.core.selectors import Selector
from grassq.errors import GuardFailed, StoreTooNew, StoreUnavailable
from grassq.store import rows, sql
from grassq.store.base import SUBMISSION_KEPT_S, Attempt, Changes, Loaded, Story, Submission

MEMORY = ":memory:"
BUSY_TIMEOUT_S = 5.0


class SqliteStore:
    """A store in one SQLite file, or in memory. Used by one thread only."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        with self._foreign_errors():
            connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            try:
                _refuse_newer(connection, self.path)
                for pragma in ("journal_mode = wal", "synchronous = full", "foreign_keys = on"):
                    connection.execute(f"pragma {pragma}").fetchall()
                _migrate(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def load(self) -> Loaded:
        """Everything that is alive; reopens the file, so nothing unsure is kept from before."""
        if self.path != MEMORY:
            self._connection.close()
            self._connection = self._open()
        with self._foreign_errors():
            highest = [int(row[0]) for row in self._all(sql.SELECT_HIGHEST) if row[0] is not None]
            highest += [int(row[0]) for row in self._all(sql.GET_META, "highest_id")]
            return Loaded(
                store_id=str(self._all(sql.GET_META, "store_id")[0][0]),
                jobs=[rows.job_from(row) for row in self._all(sql.SELECT_ALIVE)],
                workers=[rows.worker_from(row) for row in self._all(sql.SELECT_WORKERS)],
                paused={row[0] for row in self._all(sql.SELECT_PAUSES)},
                highest_id=max(highest, default=0),
            )

    def commit(self, changes: Changes) -> None:
        """Write one batch in one transaction."""
        with self._foreign_errors():
            self._connection.execute("begin immediate")
            try:
                self._write(changes)
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    def _write(self, changes: Changes) -> None:
        many = self._connection.executemany
        many(sql.INSERT_ENVIRONMENT, changes.environments.items())
        many(sql.INSERT_JOB, [rows.job_row(job) for job in changes.inserted.values()])
        for before, after in changes.updated.values():
            self._guarded(sql.UPDATE_JOB, rows.job_update(before, after), f"job {after.id} is not {before.state}")
        many(sql.INSERT_ATTEMPT, [rows.attempt_row(attempt) for attempt in changes.attempts.values()])
        many(sql.INSERT_EVENT, [(line.job, line.at, line.kind, line.detail) for line in changes.story])
        for one in changes.submissions.values():
            self._connection.execute(sql.FORGET_SUBMISSIONS, (one.at - SUBMISSION_KEPT_S,))
            self._connection.execute(sql.INSERT_SUBMISSION, rows.submission_row(one))
        many(sql.PUT_WORKER, [rows.worker_row(info) for info in changes.workers.values()])
        if changes.paused is not None:
            self._connection.execute(sql.CLEAR_PAUSES)
            many(sql.INSERT_PAUSE, [(queue,) for queue in sorted(changes.paused)])
        if changes.removed:
            self._remove(changes.removed)

    def _remove(self, jobs: list[int]) -> None:
        known = [int(row[0]) for row in self._all(sql.GET_META, "highest_id")]
        self._connection.execute(sql.PUT_META, ("highest_id", str(max([*jobs, *known]))))
        for job in jobs:
            self._connection.execute(sql.REMOVE_ATTEMPTS, (job,))
            self._connection.execute(sql.REMOVE_EVENTS, (job,))
            self._guarded(sql.REMOVE_JOB, (job,), f"job {job} is not finished")
        self._connection.execute(sql.REMOVE_ENVIRONMENTS)

    def _guarded(self, statement: str, values: tuple[object, ...], otherwise: str) -> None:
        if self._connection.execute(statement, values).rowcount != 1:
            raise GuardFailed(f"{otherwise} in the store")

    def submission(self, key: str) -> Submission | None:
        """What a key was used for."""
        found = self._read(sql.SELECT_SUBMISSION, key)
        return rows.submission_from(found[0]) if found else None

    def environment(self, digest: bytes) -> bytes | None:
        """The content stored under a digest."""
        found = self._read(sql.SELECT_ENVIRONMENT, digest)
        return found[0][0] if found else None

    def jobs(self, selector: Selector, limit: int) -> list[Job]:
        """The jobs a selector names, by id."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._selected(selector, limit)]

    def _selected(self, selector: Selector, limit: int) -> list[tuple[Any, ...]]:
        match selector:
            case selectors.Ids(ranges):
                found: dict[int, tuple[Any, ...]] = {}
                for low, high in ranges:
                    found |= {row[0]: row for row in self._read(sql.SELECT_RANGE, low, high, limit)}
                return [found[id_] for id_ in sorted(found)][:limit]
            case selectors.Last(back):
                return self._read(sql.SELECT_LAST, back)
            case selectors.All():
                return self._read(sql.SELECT_RANGE, 0, selectors.MAX_NUMBER, limit)
            case selectors.State(name):
                return self._read(sql.SELECT_STATE, name, limit)
            case selectors.Queue(name):
                return self._read(sql.SELECT_QUEUE, name, limit)
            case selectors.Name(name) | selectors.Word(name):
                return self._read(sql.SELECT_NAME, name, limit)

    def recent(self, since: float, limit: int) -> list[Job]:
        """The last jobs finished after `since`, newest first."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._read(sql.SELECT_RECENT, since, limit)]

    def totals(self) -> dict[str, int]:
        """How many jobs are in each state."""
        return {state: count for state, count in self._read(sql.SELECT_TOTALS)}

    def attempts(self, job: int) -> list[Attempt]:
        """Every try of a job, oldest first."""
        with self._foreign_errors():
            return [rows.attempt_from(row) for row in self._read(sql.SELECT_ATTEMPTS, job)]

    def story(self, job: int) -> list[Story]:
        """What happened to a job, oldest first."""
        return [Story(*row) for row in self._read(sql.SELECT_STORY, job)]

    def rerun_jobs(self) -> set[int]:
        """The jobs that some kept job runs again."""
        return {row[0] for row in self._read(sql.SELECT_RERUNS)}

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._foreign_errors():
            return self._all(statement, *values)

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _foreign_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(_in_words(error, self.path)) from error
        except msgspec.MsgspecError as error:
            raise StoreUnavailable(_damaged(error, self.path)) from error


def _in_words(error: sqlite3.Error, path: str) -> str:
    if "full" in str(error):
        return f"the disk that holds {path} is full; free some space and try again"
    if isinstance(error, sqlite3.DatabaseError) and ("malformed" in str(error) or "not a database" in str(error)):
        return _damaged(error, path)
    if "readonly" in str(error) or "unable to open" in str(error):
        return f"{path} cannot be written ({error}); check the owner and mode of its folder"
    return f"{path}: {error}"


def _damaged(error: Exception, path: str) -> str:
    return f"{path} is damaged ({error}); keep it and the jobs folder, and start on another GRASS_HOME"


def migrations() -> list[str]:
    """The numbered steps from an empty file to this release's schema."""
    folder = resources.files("grassq.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _refuse_newer(connection: sqlite3.Connection, path: str) -> None:
    """Asked before anything else: also a change of the journal's mode would touch the file."""
    known = len(migrations())
    if (version := _version(connection)) > known:
        raise StoreTooNew(f"{path} was written by a newer Grass (schema {version}, this one knows {known})")


def _migrate(connection: sqlite3.Connection) -> None:
    steps = migrations()
    version = _version(connection)
    for number, step in enumerate(steps[version:], start=version + 1):
        connection.executescript(f"begin immediate; {step}; pragma user_version = {number}; commit;")
    if not connection.execute(sql.GET_META, ("store_id",)).fetchall():
        connection.execute(sql.PUT_META, ("store_id", secrets.token_hex(8)))
