"""PostgreSQL: a store that a second broker can take over. Every commit first proves that this broker still leads.

Every commit locks the `leader` row until it ends. So a commit whose fate is unknown is decided before the next commit,
or a reload, gets the row; and no broker can take over in the middle of a commit.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache

import psycopg
from psycopg.pq import TransactionStatus

from grassq.core.syntax.store_urls import shown_url
from grassq.errors import Deposed, StoreUnavailable
from grassq.store import postgres_session, schema, sql
from grassq.store.database import QueryResult, Row
from grassq.store.relational import Store
from grassq.store.rows import Write

#: How often a leader confirms that it lives, and after what silence a standby takes over.
BEAT_S = 1.0
LEAD_LOST_S = 4.0
#: Seconds one commit of a leader may delay standbys.
LEAD_STUCK_S = 30.0
#: From this many rows on they are sent as a stream, which the server takes five times faster than statements;
#: and how many rows one stream has at most, so that no stream takes long.
COPY_MIN = 200
COPY_ROWS = 5000
# Any number, as long as every release uses the same.
_LOCK = 7_236_171_500
_SCHEMA = "schema"


class PostgresStore(Store):
    """A store in one PostgreSQL database. Call `try_lead` until it says yes before anything else."""

    beat_s: float | None = BEAT_S
    driver_error = psycopg.Error

    def __init__(self, url: str, *, answer_s: float = postgres_session.ANSWER_S) -> None:
        super().__init__(shown_url(url))
        # Also the name of our sessions on the server, so that a session left behind can be told from others.
        self._holder = f"{socket.gethostname()[:24]} {os.getpid()} {secrets.token_hex(8)}"
        self._settings = {**postgres_session.parameters(url), "application_name": f"grass {self._holder}"}
        self._answer_s = answer_s
        self._session: postgres_session.Session | None = None
        self._term: int | None = None
        #: The machine whose broker leads, as of the last `try_lead`.
        self.leader = ""

    # Leading.

    def try_lead(self) -> bool:
        """Take the store over if no broker leads; otherwise return False at once and remember which machine leads."""
        with self._foreign_errors():
            if self._session is None or self._session.closed:
                self._connect()
            with self._transaction():
                if not self._all(sql.TRY_LOCK, _LOCK)[0][0] or not self._is_free():
                    return False
                self._migrate()
                self._identify()
                term = int(self._all(sql.TAKE_LEAD, self._holder)[0][0])
                number = self._number()
            self._term, self.number, self.leader = term, number, self._holder.partition(" ")[0]
            self._totals = None
            return True

    def _is_free(self) -> bool:
        if not self._all(sql.LEADER_EXISTS)[0][0]:
            self._execute(sql.CREATE_LEADER)
            self._execute(sql.INSERT_LEADER)
        schema.pending(self._version(), self.where)  # raises before a store of another schema is touched
        found = self._all(sql.SELECT_LEADER, LEAD_LOST_S)
        if not found:
            self._end_stuck()
            return False
        holder, stale = found[0]
        self.leader = holder.partition(" ")[0]
        return not holder or stale or holder == self._holder

    def _end_stuck(self) -> None:
        """Tell whether the leader is stuck: it holds its row. The server notices a dead host, not a stopped one."""
        for (holder,) in self._all(sql.SELECT_STUCK_LEADER, LEAD_STUCK_S):
            self._execute(sql.END_SESSIONS, (f"grass {holder}",))

    def _version(self) -> int:
        if not self._all(sql.META_EXISTS)[0][0]:
            return 0
        return int(next(iter(self._all(sql.GET_META, _SCHEMA)), ("0",))[0])

    def _migrate(self) -> None:
        pending = schema.pending(self._version(), self.where)
        if pending:
            self._patient()
        for number, statements in pending:
            self._execute(schema.in_postgres(statements))
            self._execute(sql.PUT["meta"], (_SCHEMA, str(number)))

    def beat(self) -> None:
        with self._foreign_errors():
            if self._session is None or self._session.closed:
                self._connect()
            self._prove()

    def _prove(self) -> None:
        """Confirm that this broker leads: the row is locked until the transaction ends."""
        if self._term is None or self._execute(sql.BEAT, (self._term,)).rowcount != 1:
            raise Deposed(f"another broker has taken {self.where} over")

    def close(self) -> None:
        """Resign, so that another broker need not wait, and close."""
        if self._session is None:
            return
        if self._term is not None and not self._session.closed:
            with suppress(psycopg.Error):
                self._execute(sql.RESIGN, (self._term,))
        self._term = None
        self._session.close()

    # Statements.

    def _connect(self) -> None:
        again = self._session is not None
        if self._session is not None:
            self._session.close()
        self._session = postgres_session.connect(self._settings, self._answer_s)
        if again:
            # The server may not have noticed yet that the old session is lost; what it was doing ends now.
            self._execute(sql.END_SESSIONS, (self._settings["application_name"],))

    def _reopen(self) -> None:
        with self._foreign_errors():
            self._connect()

    def _open_session(self) -> postgres_session.Session:
        if self._session is None:
            raise Deposed(f"this broker does not lead {self.where}")
        return self._session

    def _execute(self, statement: str, values: Sequence[object] = ()) -> QueryResult:
        return self._open_session().execute(_translated(statement), _storable(values) if values else None)

    def _many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        if not (rows := [_storable(one) for one in values]):
            return
        cursor = self._open_session().cursor()
        if len(rows) < COPY_MIN or not _is_plain_insert(statement):
            cursor.executemany(_translated(statement), rows)
            return
        command, constants = _as_copy(statement)
        for start in range(0, len(rows), COPY_ROWS):
            with cursor.copy(command) as copy:
                for row in rows[start : start + COPY_ROWS]:
                    copy.write_row(row + constants)

    def _counts(self, writes: Iterable[Write]) -> list[int]:
        with self._open_session().pipeline():
            results = [self._execute(statement, values) for statement, values in writes]
        return [result.rowcount for result in results]

    def _stream(self, statement: str, count: int) -> Iterator[list[Row]]:
        self._execute(f"declare every no scroll cursor for {statement}")
        while some := self._all(f"fetch {count} from every"):
            yield some
        self._execute("close every")

    def _patient(self) -> None:
        self._execute(sql.SET_PATIENCE, [f"{int(postgres_session.COPY_S * 1000)}ms"] * 2)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._transaction():
            self._prove()
            yield

    #: Reading locks the leader's row as well: after a lost connection it waits until the last commit's fate is known.
    _reading = _writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        connection = self._open_session()
        connection.execute(b"begin isolation level read committed")
        try:
            yield
            if (said := connection.execute(b"commit").statusmessage) != "COMMIT":
                raise StoreUnavailable(f"{self.where} answered {said} to a commit")
        finally:
            _undo(connection)

    def _in_words(self, error: Exception) -> str:
        if isinstance(error, psycopg.Error):
            return postgres_session.in_words(error, self.where)
        return f"{self.where} is damaged ({error}); restore it from a backup"


def _undo(connection: postgres_session.Session) -> None:
    """Leave no transaction open, whatever happened in it."""
    if connection.closed or connection.info.transaction_status == TransactionStatus.IDLE:
        return
    try:
        connection.execute(b"rollback")
    except psycopg.Error:
        connection.close()


def _is_plain_insert(statement: str) -> bool:
    """Tell whether rows can be streamed instead of executed."""
    return statement.startswith("insert") and "on conflict" not in statement


@lru_cache(sql.STATEMENTS_MAX)
def _as_copy(statement: str) -> tuple[bytes, list[object]]:
    """Return the statement as a COPY, and the constants that end each row."""
    head, _, values = statement.partition(" values ")
    constants: list[object] = [0] * values.count("0")
    return f"copy {head.removeprefix('insert into ')} from stdin".encode(), constants


@lru_cache(2 * sql.STATEMENTS_MAX)
def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _storable(values: Sequence[object]) -> list[object]:
    """Replace NUL, which PostgreSQL cannot store in a text; a worker's words may contain it."""
    return [one.replace("\0", "\ufffd") if type(one) is str and "\0" in one else one for one in values]
