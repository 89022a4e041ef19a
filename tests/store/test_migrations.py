"""A store written by an older release opens, keeps its jobs, and is as new afterwards."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import BOOT, T0, a_job, a_placement, a_worker
from tests.postgres import shared
from tests.store.batches import DIGEST, ENV, MANY, new, text

from grassq.core.model import Job, State, order_of
from grassq.core.planner.request_classes import Shape
from grassq.store import rows, schema, sql
from grassq.store.base import Attempt, Changes, Story, Submission, WaitingGroup, WorkerRecord
from grassq.store.relational import RelationalStore

Opened = Callable[[str], RelationalStore]

JOB = replace(a_job(7), spec=replace(a_job(7).spec, env_digest=DIGEST))
KEPT = Submission("k", b"d", 7, 1, 5.0)
WORKER = a_worker("w", cpu=2)

# What the first schema's broker wrote, as it did.
OLD_COLUMNS = "id, queue, state, priority, spec, env_digest, attempt, cancel_requested, tried, lost, created"
OLD_JOB = f"insert into job ({OLD_COLUMNS}) values ({', '.join('?' * 11)})"
OLD_ROW = (7, "default", "queued", 30, msgspec.msgpack.encode(JOB.spec), DIGEST, 0, 0, 0, 0, T0)
OLD_ATTEMPT = "insert into attempt (job, number, worker, boot, placement, ended) values (?, ?, ?, ?, ?, ?)"
OLD_EVENT = "insert into event (job, at, kind, detail) values (?, ?, ?, ?)"
WRITTEN: list[tuple[str, tuple[object, ...]]] = [
    (sql.PUT_META, ("store_id", "0123456789abcdef")),
    (sql.PUT_META, ("highest_id", "9")),
    (sql.INSERT_ENVIRONMENT, (DIGEST, ENV)),
    (OLD_JOB, OLD_ROW),
    (OLD_ATTEMPT, (7, 1, "w", BOOT, msgspec.msgpack.encode(a_placement()), 4.0)),
    (OLD_EVENT, (7, 1.0, "submitted", "")),
    (OLD_EVENT, (7, 3.0, "placed", "attempt 1 on w")),
    (OLD_EVENT, (7, 2.0, "lost", "")),
    (sql.INSERT_SUBMISSION, rows.submission_row(KEPT)),
    (sql.PUT_WORKER, ("w", msgspec.msgpack.encode(WORKER))),
    (sql.INSERT_PAUSE, ("q",)),
]


def shape_of(job: Job) -> Shape:
    """What the planner groups a job by."""
    return job.spec.queue, job.spec.request, job.spec.constraints


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
    loaded = store.load(MANY)
    assert (loaded.store_id, loaded.jobs, loaded.workers) == ("0123456789abcdef", [JOB], [WORKER])
    assert (loaded.paused, loaded.highest_id, store.number) == ({"q"}, 9, 0)
    assert (loaded.worker_records, loaded.unreconciled, loaded.lives, store.tokens()) == ({}, set(), {}, [])
    assert store.submission("k") == KEPT and store.environment(DIGEST) == ENV
    assert loaded.blocked == [WaitingGroup(State.QUEUED, shape_of(JOB), array("q", [JOB.order]))]
    assert store.totals() == {"queued": 1} and store.some([7]) == [JOB]
    assert store.attempts(7) == [Attempt(job=7, number=1, placement=a_placement(), ended=4.0)]
    assert [line.kind for line in store.story(7)] == ["submitted", "placed", "lost"]
    store.begin("life")
    changes = new(a_job(10))
    changes.worker_records = {"w": WorkerRecord(drained=True)}
    store.commit(changes)
    store.commit(Changes(story=[Story(7, 1.0, "released")]))
    assert [line.kind for line in store.story(7)] == ["submitted", "placed", "lost", "released"]
    assert [list(group.orders) for group in store.load(0).blocked] == [[JOB.order, order_of(30, 10)]]
    loaded = store.load(MANY)
    assert (text(store, "all"), loaded.worker_records, loaded.lives, store.number) == (
        [7, 10],
        {"w": WorkerRecord(drained=True)},
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
