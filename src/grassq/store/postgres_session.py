"""A PostgreSQL connection whose every wait is bounded, and its errors in words."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from grassq.core.syntax.store_urls import shown_url
from grassq.errors import BadInput
from grassq.store import sql

#: Seconds to make a connection; libpq takes no less than two.
CONNECT_S = 5
#: Seconds the server may say nothing at all while we wait for it.
ANSWER_S = 10.0
#: What the server itself is told: how long a statement may take, how long it may wait for another's lock, and after
#: how long it gives up a transaction of a silent broker. Each is shorter than our own timeout.
STATEMENT_S = 8.0
LOCK_S = 4.0
SILENT_S = 3.0
#: The same two while a whole store is copied.
COPY_S = 300.0

# The kernel notices a dead host, too. What the URL says itself wins.
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": CONNECT_S,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # Of several hosts the one that accepts writes.
    "target_session_attrs": "read-write",
}

T = TypeVar("T")


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait is bounded: a server that hangs counts as gone."""

    answer_s = ANSWER_S

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server, but at most `answer_s` seconds of silence."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    heard = now
                elif now - heard > self.answer_s:
                    self.pgconn.finish()
                    gen.throw(psycopg.OperationalError(f"no answer for {self.answer_s:g} s"))
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def parameters(url: str) -> dict[str, Any]:
    """Return the connection parameters of a URL, with our defaults."""
    try:
        said = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        said = {"port": "none"}
    # A password with a / or @ in it would be read as a port, a host or a database, and libpq's message would repeat it.
    port, *others = (str(said.get(key, "")) for key in ("port", "host", "dbname"))
    if not set(port) <= set("0123456789,") or any("@" in other for other in others):
        raise BadInput(
            f"{shown_url(url)} is not a PostgreSQL address; write postgresql://USER@HOST/DATABASE, "
            "and in a password %2F for / and %40 for @"
        )
    return {**_DEFAULTS, **said}


def connect(settings: dict[str, Any], answer_s: float) -> Session:
    """Return a new connection with its timeouts set."""
    session = Session.connect(**settings, autocommit=True)
    session.answer_s = answer_s
    try:
        limits = [f"{int(limit * 1000)}ms" for limit in (STATEMENT_S, LOCK_S, SILENT_S)]
        session.execute(sql.SET_SESSION.replace("?", "%s").encode(), limits)
    except BaseException:
        session.close()
        raise
    return session


# What to say by SQLSTATE, or without one (a connection that was never made) by libpq's message.
_SENTENCES = (
    (("53100", "No space left"), "the disk of {where} is full; free some space and try again"),
    (("28P01", "password authentication failed", "no password supplied"), "{where} refuses the password ({why})"),
    (("3D000", 'database "'), "{where}: there is no such database ({why}); make it with createdb"),
    (("28000", 'role "', "no pg_hba.conf entry"), "{where} does not let this user in ({why})"),
    (("42501",), "{where}: this user may not do that ({why}); it must own the database"),
    (("42P07",), "{where} has tables of another program ({why}); give Grass a database of its own"),
    (("25006", "session is read-only"), "{where} is a copy that cannot be written; name the primary"),
    (("55P03", "57014"), "{where} is too slow or locked by another session ({why})"),
    (("could not translate host name", "failed to resolve host"), "{where}: no host of that name ({why})"),
)


def in_words(error: psycopg.Error, where: str) -> str:
    """Return what went wrong, in one line that says what to do."""
    why = (error.diag.message_primary or str(error)).strip().partition("\n")[0]
    for signs, sentence in _SENTENCES:
        if error.sqlstate in signs or (error.sqlstate is None and any(sign in why for sign in signs)):
            return sentence.format(where=where, why=why)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return f"{where} does not answer ({why}); what was stored is safe, check that the server runs"
    return f"{where}: {why}"
