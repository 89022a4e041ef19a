"""What PostgreSQL refuses is said in a sentence, and a password is never in it."""

from __future__ import annotations

import sys
import time

import pytest
from tests.builders import a_job
from tests.postgres import LOCKED, PASSWORD, shared
from tests.store.batches import MANY, new, text

from grassq.core.syntax.store_urls import shown_url
from grassq.errors import BadInput, GrassError, Refused, StoreUnavailable, UnknownSchema
from grassq.store import schema
from grassq.store.open import open_store
from grassq.store.postgres import PostgresStore


def refusal(url: str) -> str:
    """What is said when the store of that name cannot be led."""
    store = open_store(url)
    with pytest.raises(GrassError) as caught:
        store.try_lead()
    store.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_is_not_there() -> None:
    began = time.monotonic()
    said = refusal("postgresql://ann:hush@127.0.0.1:9/jobs")
    assert said.startswith("postgresql://ann:***@127.0.0.1:9/jobs does not answer (")
    assert "Connection refused" in said and said.endswith("check that the server runs") and "hush" not in said
    assert time.monotonic() - began < 5


def test_a_wrong_password_and_none() -> None:
    shared().sql(f"drop role if exists {LOCKED}")
    shared().sql(f"create role {LOCKED} login password '{PASSWORD}'")
    wrong = refusal(shared().url("postgres", LOCKED, "hush"))
    assert f"://{LOCKED}:***@/postgres?host=" in wrong and "refuses the password" in wrong and "hush" not in wrong
    assert "refuses the password" in refusal(shared().url("postgres", LOCKED))
    owned = shared().database()
    name = owned.partition("@/")[2].partition("?")[0]
    shared().sql(f"alter database {name} owner to {LOCKED}")
    store = PostgresStore(shared().url(name, LOCKED, PASSWORD))
    assert store.try_lead()
    assert PASSWORD not in store.where
    store.close()


def test_no_such_database_and_no_such_user() -> None:
    said = refusal(shared().url("nowhere"))
    assert "there is no such database" in said and said.endswith("make it with createdb")
    assert "does not let this user in" in refusal(shared().url("postgres", "nobody_knows"))


def test_a_user_who_may_not_make_tables(database: str) -> None:
    shared().sql("drop role if exists guest")
    shared().sql("create role guest login")
    assert "this user may not do that (permission denied" in refusal(database.replace("grass@", "guest@"))


def test_a_database_that_another_program_uses(database: str) -> None:
    shared().sql("create table job (x int)", database)
    assert "has tables of another program" in refusal(database)
    shared().sql("drop table job", database)
    store = PostgresStore(database)
    assert store.try_lead()
    store.close()


def test_a_copy_that_cannot_be_written(database: str) -> None:
    name = database.partition("@/")[2].partition("?")[0]
    shared().sql(f"alter database {name} set default_transaction_read_only = on")
    assert "is a copy that cannot be written" in refusal(database)


def test_a_store_of_a_newer_release_is_refused_and_not_touched(database: str) -> None:
    store = PostgresStore(database)
    assert store.try_lead()
    store.close()
    known = schema.migrations()[-1][0]
    shared().sql(f"update meta set value = '{known + 1}' where key = 'schema'", database)
    newer = PostgresStore(database)
    with pytest.raises(UnknownSchema, match=rf"newer Grass \(schema {known + 1}, this one knows {known}\)"):
        newer.try_lead()
    newer.close()
    shared().sql(f"update meta set value = '{known}' where key = 'schema'", database)
    assert store.try_lead()
    assert store._term == 2
    store.close()


def test_a_row_that_makes_no_sense_is_damage(database: str) -> None:
    store = PostgresStore(database)
    assert store.try_lead()
    store.commit(new(a_job(1)))
    shared().sql(r"update job set spec = '\xff00ff'", database)
    for read in (lambda: store.load(MANY), lambda: text(store, "all")):
        with pytest.raises(StoreUnavailable, match=r"is damaged .*restore it from a backup"):
            read()
    store.close()


def test_a_table_locked_by_somebody_else_does_not_hang_a_commit(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr("grassq.store.postgres_session.LOCK_S", 0.2)
    store = PostgresStore(database)
    assert store.try_lead()
    with psycopg.connect(database) as other:
        other.execute("lock table job")
        with pytest.raises(StoreUnavailable, match="is too slow or locked by another session"):
            store.commit(new(a_job(1)))
    store.commit(new(a_job(1)))
    assert store.number == 1
    store.close()


def test_commits_are_synced_even_where_the_server_would_not(database: str) -> None:
    name = database.partition("@/")[2].partition("?")[0]
    for theirs, ours in (("off", "on"), ("remote_apply", "remote_apply"), ("on", "on")):
        shared().sql(f"alter database {name} set synchronous_commit = {theirs}")
        store = PostgresStore(database)
        assert store.try_lead()
        assert store._all("show synchronous_commit") == [(ours,)]
        store.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hu/sh@h:port/x",
        "postgresql://ann:12/hush@h/x",
        "postgresql://ann:hu@sh@h/x",
        "postgresql://ann:hush@[h/x",
        "postgres://ann:hush@h/%",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadInput, match="is not a PostgreSQL address; write postgresql://USER@HOST/DATABASE") as caught:
        open_store(url)
    assert "hu" not in str(caught.value) and "sh" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql:///db?host=/run", "postgresql:///db?host=/run"),
        ("postgresql://ann@h:5432/db", "postgresql://ann@h:5432/db"),
        ("postgres://ann:pw@h:5432/db?sslmode=require", "postgres://ann:***@h:5432/db?sslmode=require"),
        ("postgresql://ann:p/w?x@y#z@h/db", "postgresql://ann:***@h/db"),
        ("postgresql://:pw@h/db", "postgresql://:***@h/db"),
        ("postgresql://h/db?user=ann&password=pw&x=1", "postgresql://h/db?user=ann&password=***&x=1"),
        ("postgresql://h/db?pass%77ord=pw&sslpassword=pw2", "postgresql://h/db?pass%77ord=***&sslpassword=***"),
        ("postgresql://ann:p\nw@h1:1,h2:2/db", "postgresql://ann:***@h1:1,h2:2/db"),
        ("host=h password=pw dbname=db", "host=h password=*** dbname=db"),
        (r"sslpassword = 'p w\' x'  PASSWORD= pw user=ann", "sslpassword = ***  PASSWORD= *** user=ann"),
        ("user=ann password='p w", "user=ann password=***"),
        ("postgresql:ann:p:w@h/db", "postgresql:***@h/db"),
        ("ann:p@w@h/db", "ann:***@h/db"),
        ("sqlite:/home/ann/a.db", "sqlite:/home/ann/a.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_both_spellings_are_taken_and_a_password_in_the_query_too(database: str) -> None:
    store = open_store(database.replace("postgresql://", "postgres://") + "&password=hush")
    assert store.try_lead() and "hush" not in store.where
    store.close()


def test_without_psycopg_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grassq.store.postgres", "grassq.store.postgres_session"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Refused, match=r"needs psycopg .*: pip install 'grassq\[postgres\]'"):
        open_store("postgresql://h/db")


@pytest.mark.parametrize("url", ["", "store.db", "sqlite:store.db", "mysql://ann:hush@h/db"])
def test_a_store_of_no_known_kind_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="write memory, sqlite:/absolute/path, or postgresql://") as caught:
        open_store(url)
    assert "hush" not in str(caught.value)
