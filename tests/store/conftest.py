"""Every engine: SQLite in a file and in memory, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgres import Server, fresh, shared

from grassq.store.open import open_store
from grassq.store.relational import Store

ENGINES = ["file", "memory", "postgres"]


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store on each engine."""
    if request.param == "postgres":
        return shared().database()
    return "memory" if request.param == "memory" else f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def database() -> str:
    """A new PostgreSQL database."""
    return shared().database()


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A PostgreSQL server that may be killed."""
    server = fresh()
    yield server
    server.stop()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Open a store and lead it; closed at the end."""
    stores: list[Store] = []

    def open_one(url: str) -> Store:
        stores.append(open_store(url))
        assert stores[-1].try_lead()
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    """A new store on each engine, led by us."""
    return opened(url)
