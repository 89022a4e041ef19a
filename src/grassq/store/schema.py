"""The numbered steps from an empty store to this release's schema, for either engine."""

from __future__ import annotations

import re
from importlib import resources

from grassq.errors import StoreTooNew

# All in which the engines' schemas differ. Steps are written for SQLite, where an `integer primary key` counts by
# itself, and a table can be kept inside the index of its key.
_IN_POSTGRES = (
    (r"\bseq(\s+)integer primary key", r"seq\1bigint generated always as identity primary key"),
    (r"\binteger\b", "bigint"),
    (r"\breal\b", "double precision"),
    (r"\bblob\b", "bytea"),
    (r"\) without rowid\b", ")"),
)


def migrations() -> list[str]:
    """The steps, in SQLite's words."""
    folder = resources.files("grassq.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def in_postgres(step: str) -> str:
    """A step, in PostgreSQL's words."""
    for ours, theirs in _IN_POSTGRES:
        step = re.sub(ours, theirs, step)
    return step


def refuse_newer(version: int, where: str) -> None:
    """A store of a schema this release does not know is left as it is."""
    known = len(migrations())
    if version > known:
        raise StoreTooNew(f"{where} was written by a newer Grass (schema {version}, this one knows {known})")
