"""Open the store that a setting names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grassq.core.syntax.store_urls import is_postgres, shown_url
from grassq.errors import BadInput, Refused
from grassq.store.relational import Store
from grassq.store.sqlite import MEMORY, SqliteStore

if TYPE_CHECKING:
    from grassq.store.postgres import PostgresStore

IN_MEMORY = "memory"
_SQLITE = "sqlite:"


def open_store(url: str) -> Store:
    """Return the store of this name. Call its `try_lead` until it says yes before anything else."""
    if is_postgres(url):
        return open_postgres(url)
    if url == IN_MEMORY:
        return SqliteStore(MEMORY)
    return SqliteStore(sqlite_path(url))


def sqlite_path(url: str) -> str:
    """Return the file that a name of a store in a file means."""
    path = url.removeprefix(_SQLITE)
    if path == url or not path.startswith("/"):
        raise BadInput(
            f"--store {shown_url(url)}: write memory, sqlite:/absolute/path, or postgresql://USER@HOST/DATABASE"
        )
    return path


def open_postgres(url: str) -> PostgresStore:
    """Return the store in this PostgreSQL database."""
    try:
        from grassq.store.postgres import PostgresStore
    except ImportError as error:
        raise Refused(f"a store in PostgreSQL needs psycopg ({error}): pip install 'grassq[postgres]'") from error
    return PostgresStore(url)
