"""A store written by an older release opens, keeps its jobs, and is as new afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import a_job, a_worker
from tests.postgres import shared
from tests.store.batches import DIGEST, ENV, new, text

from grassq.store import rows, schema, sql
from grassq.store.base import Changes, Standing, Submission
from grassq.store.relational import RelationalStore

Opened = Callable[[str], RelationalStore]

JOB = replace(a_job(7), spec=replace(a_job(7).spec, env_digest=DIGEST))
KEPT = Submission("k", b"d", 7, 1, 5.0)
WORKER = a_worker("w", cpu=2)

# What the first schema's broker wrote.
WRITTEN: list[tuple[str, tuple[object, ...]]] = [
    (sql.PUT_META, ("store_id", "0123456789abcdef")),
    (sql.PUT_META, ("highest_id", "9")),
    (sql.INSERT_ENVIRONMENT, (DIGEST, ENV)),
    (sql.INSERT_JOB, rows.job_row(JOB)),
    (sql.INSERT_EVENT, (7, 1.0, "submitted", "")),
    (sql.INSERT_SUBMISSION, rows.submission_row(KEPT)),
    (sql.PUT_WORKER, ("w", msgspec.msgpack.encode(WORKER))),
    (sql.INSERT_PAUSE, ("q",)),
]


def first_schema(engine: str, folder: Path) -> str:
    """A store as the first release left it."""
    if engine == "postgres":
        import psycopg

        url = shared().database()
        with psycopg.connect(url) as connection:
            connection.execute(schema.in_postgres(schema.migrations()[0]).encode())
            for statement, values in [*WRITTEN, (sql.PUT_META, ("schema", "1"))]:
                connection.execute(statement.replace("?", "%s").encode(), values)
        return url
    raw = sqlite3.connect(folder / "store.db")
    raw.executescript(schema.migrations()[0])
    for statement, values in WRITTEN:
        raw.execute(statement, values)
    raw.execute("pragma user_version = 1")
    raw.commit()
    raw.close()
    return f"sqlite:{folder / 'store.db'}"


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_a_store_of_the_first_schema_keeps_everything(engine: str, tmp_path: Path, opened: Opened) -> None:
    store = opened(first_schema(engine, tmp_path))
    loaded = store.load()
    assert (loaded.store_id, loaded.jobs, loaded.workers) == ("0123456789abcdef", [JOB], [WORKER])
    assert (loaded.paused, loaded.highest_id, store.number) == ({"q"}, 9, 0)
    assert (loaded.standings, loaded.doubts, loaded.lives, store.tokens()) == ({}, set(), {}, [])
    assert store.submission("k") == KEPT and store.environment(DIGEST) == ENV
    assert [line.kind for line in store.story(7)] == ["submitted"]
    store.begin("life")
    changes = new(a_job(10))
    changes.standings = {"w": Standing(drained=True)}
    store.commit(changes)
    store.commit(Changes(story=[]))
    loaded = store.load()
    assert (text(store, "all"), loaded.standings, loaded.lives, store.number) == (
        [7, 10],
        {"w": Standing(drained=True)},
        {"life": 0},
        2,
    )


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
