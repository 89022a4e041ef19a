"""A new store has today's schema at once, on both engines; a store of a schema that nobody can migrate is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.archives import unpack
from tests.builders import a_job
from tests.postgres import shared
from tests.store.batches import MANY, ended, new

from grassq.core.model import ForTime, State
from grassq.core.syntax.selectors import parse
from grassq.core.waiting.retries import RETRY_DELAY_S
from grassq.errors import UnknownSchema
from grassq.store import schema, sql
from grassq.store.base import Changes
from grassq.store.relational import Store

Opened = Callable[[str], Store]


def schema_of(path: Path) -> dict[str, object]:
    """Return the columns, keys and indexes of every table of an SQLite file."""
    raw = sqlite3.connect(path)
    try:
        tables = [name for (name,) in raw.execute("select name from sqlite_master where type = 'table'").fetchall()]
        return {
            f"{table} {part}": sorted(raw.execute(f"pragma {part}({table})").fetchall())
            for table in tables
            for part in ("table_xinfo", "index_list", "foreign_key_list")
        }
    finally:
        raw.close()


def test_a_new_store_has_the_schema_of_the_store_of_an_earlier_release(tmp_path: Path, opened: Opened) -> None:
    unpack("home.tar.gz", tmp_path)
    opened(f"sqlite:{tmp_path / 'store.db'}")
    earlier = tmp_path / "home" / "store.db"
    assert len(opened(f"sqlite:{earlier}").jobs(parse("all"), MANY)) == 309
    assert schema_of(earlier) == schema_of(tmp_path / "store.db")


def test_a_new_store_has_the_number_of_the_last_migration(tmp_path: Path, opened: Opened, database: str) -> None:
    opened(f"sqlite:{tmp_path / 'store.db'}")
    raw = sqlite3.connect(tmp_path / "store.db")
    last = schema.migrations()[-1][0]
    assert raw.execute("pragma user_version").fetchone() == (last,)
    raw.close()
    assert opened(database)._all(sql.GET_META, "schema") == [(str(last),)]


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a new store that outlives its connection."""
    return shared().database() if request.param == "postgres" else f"sqlite:{tmp_path / 'store.db'}"


def set_back(url: str, version: int, *statements: str) -> None:
    """Make a closed store one of an earlier schema."""
    if url.startswith("sqlite:"):
        raw = sqlite3.connect(url.removeprefix("sqlite:"))
        for statement in (*statements, f"pragma user_version = {version}"):
            raw.execute(statement)
        raw.close()
    else:
        for statement in (*statements, f"update meta set value = '{version}' where key = 'schema'"):
            shared().sql(statement, url)


def test_what_a_job_waits_for_is_known_of_a_store_that_had_no_word_for_it(url: str, opened: Opened) -> None:
    store = opened(url)
    for_time = replace(a_job(2, state=State.WAITING), waits=(ForTime(7.5, RETRY_DELAY_S),))
    store.commit(new(a_job(1, state=State.WAITING), for_time, a_job(3)))
    before = store.jobs(parse("all"), MANY)
    store.close()
    columns = (
        ("job", "waits"),
        ("job", "result"),
        ("job", "token"),
        ("job", "rank"),
        ("job", "project"),
        ("job", "unique_key"),
        ("job", "sweep"),
        ("job", "suspension"),
        ("job", "suspended_s"),
        ("token", "priority_max"),
        ("token", "page_of"),
        ("standing", "offered"),
        ("pause", "pauser"),
    )
    indexes = ("job_token", "job_rank", "job_project", "job_project_name", "job_unique", "job_sweep")
    later = [f"drop index {name}" for name in indexes]
    later += [f"alter table {table} drop column {column}" for table, column in columns]
    tables = ("template", "removal", "prediction", "untold", "dependency", "tag", "group_limit", "sweep")
    later += [f"drop table {table}" for table in tables]
    set_back(url, 3, *later)
    assert opened(url).jobs(parse("all"), MANY) == before


def test_where_a_failure_was_enough_the_other_edges_are_met_in_a_store_of_an_earlier_release(
    url: str, opened: Opened
) -> None:
    store = opened(url)
    changes = new(*[a_job(id_) for id_ in (1, 2, 3)], *[a_job(id_, state=State.WAITING) for id_ in (4, 5)])
    changes.edges = [(1, 4, "fail", 0), (2, 4, "fail", 0), (3, 4, "ok", 0), (2, 5, "fail", 0)]
    store.commit(changes)
    ended(store, 1, code=1)
    store.commit(Changes(met=[1]))
    store.close()
    set_back(url, 23, "drop index sweep_file", "create index sweep_name on sweep (name, id)")
    assert sorted(opened(url).load(MANY).edges) == [(2, 5, "fail"), (3, 4, "ok")]


def test_a_store_from_before_the_first_release_is_refused(url: str, opened: Opened) -> None:
    opened(url).close()
    set_back(url, 2)
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
    assert {table for table, _ in mine} == sql.SELECT_ALL.keys()
