"""The numbered migrations that bring a store to the schema of this release, for either engine."""

from __future__ import annotations

import re
from importlib import resources

from grassq.errors import UnknownSchema

#: (number, statements in SQLite's SQL).
Migration = tuple[int, str]

# Every difference between the engines' schemas. Migrations are written for SQLite, where an `integer primary key`
# counts by itself, and where a table can be kept inside the index of its primary key.
_IN_POSTGRES = (
    (r"\bseq(\s+)integer primary key", r"seq\1bigint generated always as identity primary key"),
    (r"\binteger\b", "bigint"),
    (r"\breal\b", "double precision"),
    (r"\bblob\b", "bytea"),
    (r"\) without rowid\b", ")"),
)


def migrations() -> list[Migration]:
    """Return every migration by number: the first fills an empty store, each other one needs the one before it."""
    folder = resources.files("grassq.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in names]


def pending(version: int, where: str) -> list[Migration]:
    """Return the migrations that a store of this version lacks (0: an empty store), or raise UnknownSchema."""
    known = migrations()
    first, last = known[0][0], known[-1][0]
    if version > last:
        raise UnknownSchema(f"{where} was written by a newer Grass (schema {version}, this one knows {last})")
    if 0 < version < first:
        raise UnknownSchema(
            f"{where} is older than the first release of Grass (schema {version}, this one reads {first})"
        )
    return [migration for migration in known if migration[0] > version]


def in_postgres(statements: str) -> str:
    """Return a migration's statements in PostgreSQL's SQL."""
    for ours, theirs in _IN_POSTGRES:
        statements = re.sub(ours, theirs, statements)
    return statements
