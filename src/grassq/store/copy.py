"""Move a home's store: copy everything from one store into another that was never used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from grassq.core.syntax.store_urls import is_postgres
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.open import IN_MEMORY, open_store, sqlite_path
from grassq.store.relational import Store
from grassq.store.rows import Part

#: Called after each part: how many rows are copied, and how many there are.
Progress = Callable[[int, int], None]


def copy(source: str, target: str, progress: Progress) -> int:
    """Copy everything, identity and numbers too, in one transaction; return how many jobs there were.

    The caller makes sure that no daemon holds a source in a file; a broker on PostgreSQL is noticed here.
    """
    if IN_MEMORY in (source, target):
        raise BadInput("a store in memory is gone with its daemon; name a file or a database")
    if source == target:
        raise BadInput("both are the same store")
    if not is_postgres(source) and not Path(sqlite_path(source)).is_file():
        raise NotFound(f"there is no store in {sqlite_path(source)}")
    with closing(_held(source)) as old, closing(_held(target)) as new:
        total = old.size()
        with closing(old.dump()) as parts:
            new.fill(_counted(parts, total, progress))
        return sum(new.totals().values())


def _held(url: str) -> Store:
    """Open the store and make sure that no broker uses it."""
    store = open_store(url)
    try:
        if store.try_lead():
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    raise Refused(f"a broker uses {store.where}; stop it first")


def _counted(parts: Iterable[Part], total: int, progress: Progress) -> Iterator[Part]:
    done = 0
    for table, rows in parts:
        yield table, rows
        done += len(rows)
        progress(done, total)
