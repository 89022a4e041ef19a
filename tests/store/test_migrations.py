"""A new store has today's schema at once, on both engines; a store of a schema that nobody can migrate is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgres import shared

from grassq.errors import UnknownSchema
from grassq.store import schema, sql
from grassq.store.relational import RelationalStore

Opened = Callable[[str], RelationalStore]


def test_a_new_store_has_the_number_of_the_last_migration(tmp_path: Path, opened: Opened, database: str) -> None:
    opened(f"sqlite:{tmp_path / 'store.db'}")
    raw = sqlite3.connect(tmp_path / "store.db")
    last = schema.migrations()[-1][0]
    assert raw.execute("pragma user_version").fetchone() == (last,)
    raw.close()
    assert opened(database)._all(sql.GET_META, "schema") == [(str(last),)]


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_a_store_from_before_the_first_release_is_refused(engine: str, tmp_path: Path, opened: Opened) -> None:
    url = shared().database() if engine == "postgres" else f"sqlite:{tmp_path / 'store.db'}"
    opened(url).close()
    if engine == "postgres":
        shared().sql("update meta set value = '2' where key = 'schema'", url)
    else:
        raw = sqlite3.connect(tmp_path / "store.db")
        raw.execute("pragma user_version = 2")
        raw.close()
    with pytest.raises(UnknownSchema, match=r"older than the first release of Grass \(schema 2, this one reads 3\)"):
        opened(url)


def test_both_engines_have_the_same_tables_and_columns(tmp_path: Path, opened: Opened, database: str) -> None:
    lite, big = opened(f"sqlite:{tmp_path / 'store.db'}"), opened(database)
    mine = lite._all(
        "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' order by 1, 2"
    )
    theirs = big._all(
        "select table_name, column_name from information_schema.columns "
        "where table_schema = 'public' and table_name <> 'leader' order by table_name, column_name"
    )
    assert mine == theirs
    assert {table for table, _ in mine} == sql.DUMP.keys()
