"""What a store in tables does, whatever the engine; an engine adds how to execute, begin, and say what is wrong."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from grassq.core import selectors
from grassq.core.model import Job
from grassq.core.selectors import Selector
from grassq.errors import Deposed, GuardFailed, Refused
from grassq.store import rows, sql
from grassq.store.base import (
    CODE_KEPT_S,
    LIVES_KEPT,
    SUBMISSION_KEPT_S,
    Attempt,
    Changes,
    Loaded,
    Story,
    Submission,
    Token,
)

Row = tuple[Any, ...]
#: A table, and some of its rows.
Part = tuple[str, list[Row]]

#: How many rows of a store are in memory at once while it is copied.
ROWS_AT_ONCE = 500


class Result(Protocol):
    """What a statement led to."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchall(self) -> list[Row]:
        """The rows it gave."""


#: How often a broker that stands by looks whether it may lead.
LEAD_TRY_S = 1.0


class RelationalStore(ABC):
    """A store in the tables of one database. Used by one thread at a time."""

    beat_s: float | None = None
    number = 0

    def __init__(self, where: str) -> None:
        #: What the store is called in messages; no password is in it.
        self.where = where

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object] = ()) -> Result:
        """Run one statement of `sql`."""

    @abstractmethod
    def _many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of the values."""

    def _counts(self, statement: str, values: Iterable[Sequence[object]]) -> list[int]:
        """Run one statement for each of the values; how many rows each changed."""
        return [self._execute(statement, one).rowcount for one in values]

    @abstractmethod
    def _stream(self, statement: str, count: int) -> Iterator[list[Row]]:
        """The rows of a question, so many at a time; inside a transaction."""

    def _patient(self) -> None:
        """Inside a transaction: what follows may take long."""
        return

    @abstractmethod
    def _writing(self) -> AbstractContextManager[None]:
        """One transaction: committed at its end, undone by an exception."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[None]:
        """One view of the store for several questions."""

    @abstractmethod
    def _foreign_errors(self) -> AbstractContextManager[None]:
        """The engine's errors become ours, in words."""

    @abstractmethod
    def _reopen(self) -> None:
        """Start afresh from what is stored, so nothing unsure is kept from before."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def try_lead(self) -> bool:
        """Whether this broker may use the store now; the daemon asks every LEAD_TRY_S until it may."""
        return True

    def beat(self) -> None:
        """Nobody else can take this store over, unless the engine says otherwise."""
        return

    def begin(self, life: str) -> None:
        """Note that a broker's life begins; saying it twice is saying it once."""
        with self._foreign_errors(), self._writing():
            self._execute(sql.INSERT_LIFE, (life, self.number))
            self._execute(sql.FORGET_LIVES, (LIVES_KEPT,))

    def load(self) -> Loaded:
        """Everything that is alive, as of the last commit."""
        self._reopen()
        with self._foreign_errors(), self._reading():
            number = self._number()
            if number < self.number:
                # A restored copy, or a stand-in that never had our last commits: only a new life may go on from here.
                raise Deposed(f"{self.where} went back from commit {self.number} to {number}; start the broker again")
            highest = [int(row[0]) for row in self._all(sql.SELECT_HIGHEST) if row[0] is not None]
            highest += [int(row[0]) for row in self._all(sql.GET_META, "highest_id")]
            loaded = Loaded(
                store_id=str(self._all(sql.GET_META, "store_id")[0][0]),
                seal_key=bytes.fromhex(self._all(sql.GET_META, "seal_key")[0][0]),
                jobs=[rows.job_from(row) for row in self._all(sql.SELECT_ALIVE)],
                workers=[rows.worker_from(row) for row in self._all(sql.SELECT_WORKERS)],
                paused={row[0] for row in self._all(sql.SELECT_PAUSES)},
                highest_id=max(highest, default=0),
                standings=dict(rows.standing_from(row) for row in self._all(sql.SELECT_STANDINGS)),
                doubts={row[0] for row in self._all(sql.SELECT_DOUBTS)},
                lives={row[0]: row[1] for row in self._all(sql.SELECT_LIVES)},
            )
        self.number = number
        return loaded

    def _identify(self) -> None:
        if not self._all(sql.GET_META, "store_id"):
            self._execute(sql.PUT_META, ("store_id", secrets.token_hex(8)))
        if not self._all(sql.GET_META, "seal_key"):
            self._execute(sql.PUT_META, ("seal_key", secrets.token_hex(32)))

    def _number(self) -> int:
        return int(self._all(sql.GET_META, "number")[0][0])

    def commit(self, changes: Changes) -> None:
        """Write one batch in one transaction."""
        with self._foreign_errors(), self._writing():
            counted = (str(self.number + 1), str(self.number))
            self._guarded(sql.NEXT_NUMBER, [counted], [f"commit {self.number} is not the last"])
            self._write_jobs(changes)
            self._write_broker(changes)
        self.number += 1

    def _write_jobs(self, changes: Changes) -> None:
        self._many(sql.INSERT_ENVIRONMENT, changes.environments.items())
        self._many(sql.INSERT_JOB, [rows.job_row(job) for job in changes.inserted.values()])
        updated = changes.updated.values()
        guards = [f"job {after.id} is not {before.state}" for before, after in updated]
        self._guarded(sql.UPDATE_JOB, [rows.job_update(before, after) for before, after in updated], guards)
        self._many(sql.INSERT_ATTEMPT, [rows.attempt_row(attempt) for attempt in changes.attempts.values()])
        self._many(sql.INSERT_EVENT, [(line.job, line.at, line.kind, line.detail) for line in changes.story])
        if changes.removed:
            self._remove(changes.removed)

    def _remove(self, jobs: list[int]) -> None:
        known = [int(row[0]) for row in self._all(sql.GET_META, "highest_id")]
        self._execute(sql.PUT_META, ("highest_id", str(max([*jobs, *known]))))
        ids = [(job,) for job in jobs]
        self._many(sql.REMOVE_ATTEMPTS, ids)
        self._many(sql.REMOVE_EVENTS, ids)
        self._guarded(sql.REMOVE_JOB, ids, [f"job {job} is not finished" for job in jobs])
        self._execute(sql.REMOVE_ENVIRONMENTS)

    def _write_broker(self, changes: Changes) -> None:
        if submissions := list(changes.submissions.values()):
            self._execute(sql.FORGET_SUBMISSIONS, (max(one.at for one in submissions) - SUBMISSION_KEPT_S,))
            self._many(sql.INSERT_SUBMISSION, [rows.submission_row(one) for one in submissions])
        if tokens := list(changes.tokens.values()):
            now = max(max(token.created, token.ended or 0.0) for token in tokens)
            self._execute(sql.FORGET_CODES, (now - CODE_KEPT_S,))
            self._many(sql.PUT_TOKEN, [rows.token_row(token) for token in tokens])
        self._many(sql.PUT_WORKER, [rows.worker_row(info) for info in changes.workers.values()])
        self._many(sql.PUT_STANDING, [rows.standing_row(*item) for item in changes.standings.items()])
        # Removed last: whatever else the same batch heard of a worker goes with it.
        gone = [(name,) for name in changes.removed_workers]
        self._many(sql.REMOVE_WORKER, gone)
        self._many(sql.REMOVE_STANDING, gone)
        if changes.paused is not None:
            self._execute(sql.CLEAR_PAUSES)
            self._many(sql.INSERT_PAUSE, [(queue,) for queue in sorted(changes.paused)])
        if changes.doubts is not None:
            self._execute(sql.CLEAR_DOUBTS)
            self._many(sql.INSERT_DOUBT, [(worker,) for worker in sorted(changes.doubts)])

    def _guarded(self, statement: str, values: Sequence[Sequence[object]], otherwise: list[str]) -> None:
        for count, words in zip(self._counts(statement, values), otherwise, strict=True):
            if count != 1:
                raise GuardFailed(f"{words} in the store")

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

    def _selected(self, selector: Selector, limit: int) -> list[Row]:
        match selector:
            case selectors.Ids(ranges):
                found: dict[int, Row] = {}
                for low, high in ranges:
                    found |= {row[0]: row for row in self._all(sql.SELECT_RANGE, low, high, limit)}
                return [found[id_] for id_ in sorted(found)][:limit]
            case selectors.Last(back):
                return self._all(sql.SELECT_LAST, back)
            case selectors.All():
                return self._all(sql.SELECT_RANGE, 0, selectors.MAX_NUMBER, limit)
            case selectors.State(name):
                return self._all(sql.SELECT_STATE, name, limit)
            case selectors.Queue(name):
                return self._all(sql.SELECT_QUEUE, name, limit)
            case selectors.Name(name) | selectors.Word(name):
                return self._all(sql.SELECT_NAME, name, limit)

    def recent(self, since: float, limit: int) -> list[Job]:
        """The last jobs finished after `since`, newest first."""
        with self._foreign_errors():
            return [rows.job_from(row) for row in self._all(sql.SELECT_RECENT, since, limit)]

    def totals(self) -> dict[str, int]:
        """How many jobs are in each state."""
        return {state: count for state, count in self._read(sql.SELECT_TOTALS)}

    def attempts(self, job: int) -> list[Attempt]:
        """Every try of a job, oldest first."""
        with self._foreign_errors():
            return [rows.attempt_from(row) for row in self._all(sql.SELECT_ATTEMPTS, job)]

    def story(self, job: int) -> list[Story]:
        """What happened to a job, oldest first."""
        return [Story(*row) for row in self._read(sql.SELECT_STORY, job)]

    def tokens(self) -> list[Token]:
        """Every token and code, oldest first."""
        with self._foreign_errors():
            return [rows.token_from(row) for row in self._all(sql.SELECT_TOKENS)]

    def rerun_jobs(self) -> set[int]:
        """The jobs that some kept job runs again."""
        return {row[0] for row in self._read(sql.SELECT_RERUNS)}

    def size(self) -> int:
        """How many rows all tables have."""
        with self._foreign_errors():
            return sum(self._all(statement)[0][0] for statement in sql.COUNT_ROWS.values())

    def dump(self) -> Generator[Part, None, None]:
        """Everything, as (table, rows), in an order in which it can be filled in; nobody writes meanwhile."""
        with self._foreign_errors(), self._writing():
            self._patient()
            for table, statement in sql.DUMP.items():
                for some in self._stream(statement, ROWS_AT_ONCE):
                    yield table, some

    def fill(self, parts: Iterable[Part]) -> None:
        """Become what another store dumped: all of it or nothing, and only where no job ever was."""
        with self._foreign_errors(), self._writing():
            self._patient()
            if self._all(sql.COUNT_ROWS["job"])[0][0] or self._all(sql.GET_META, "highest_id"):
                raise Refused(f"{self.where} has jobs already; name a store that was never used")
            for statement in sql.EMPTY.values():
                self._execute(statement)
            for table, some in parts:
                self._many(sql.FILL[table], some)
            number = self._number()
        self.number = number

    def _read(self, statement: str, *values: object) -> list[Row]:
        with self._foreign_errors():
            return self._all(statement, *values)

    def _all(self, statement: str, *values: object) -> list[Row]:
        return self._execute(statement, values).fetchall()
