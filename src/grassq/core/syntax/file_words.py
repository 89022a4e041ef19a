"""How the folders, files and patterns of a job are written: --send, --fetch and their like."""

from __future__ import annotations

import re

from msgspec import Struct

from grassq.core.names import shown
from grassq.core.syntax.placeholders import JOB_PLACEHOLDERS, fill, placeholders
from grassq.errors import BadInput

#: The longest path that Linux takes.
PATH_BYTES_MAX = 4095
#: The placeholder of a job's id.
JOB_ID = b"job.id"
#: The id of a manifest: its SHA-256 in hex digits.
_MANIFEST = re.compile(r"[0-9a-f]{64}")


class SentTree(Struct, frozen=True):
    """A folder of the submitter, as a job gets it."""

    #: The id of the manifest, which says what the folder contained; "" until the client has made it.
    manifest: str
    #: Where it is in the job's own directory; b"" is this directory itself.
    dest: bytes = b""
    #: The folder of the submitter: absolute, except in what was typed.
    folder: bytes = b""


def read_send(value: bytes, what: str) -> SentTree:
    """Return a tree from DIR[:DEST]; the last colon counts."""
    folder, colon, dest = value.rpartition(b":")
    if not colon:
        folder, dest = value, b""
    return SentTree("", check_dest(dest, what), check_path(folder, what))


def check_manifest(id_: str) -> str:
    """Return the id of a manifest; raise BadInput for any other text."""
    if not _MANIFEST.fullmatch(id_):
        raise BadInput(f"{shown(id_)} is not the id of a manifest")
    return id_


def check_dest(dest: bytes, what: str) -> bytes:
    """Return a place in the job's directory, b"" for this directory; raise BadInput for a place outside of it."""
    return b"" if dest in (b"", b".", b"./") else check_inside(dest, f"DEST of {what}")


def check_inside(value: bytes, what: str) -> bytes:
    """Return a relative path or pattern without needless parts; raise BadInput if it is absolute or has `..`."""
    parts = [part for part in check_path(value, what).split(b"/") if part not in (b"", b".")]
    if value.startswith(b"/") or b".." in parts or not parts:
        raise BadInput(f"{what} names something inside of the job's directory, not {shown(value)}")
    return b"/".join(parts)


def check_path(value: bytes, what: str) -> bytes:
    """Return a path; raise BadInput if it is empty, too long, or no path at all."""
    if not value:
        raise BadInput(f"{what} needs a path")
    if b"\0" in value:
        raise BadInput(f"{what} holds a NUL byte")
    if len(value) > PATH_BYTES_MAX:
        raise BadInput(f"{what} has {len(value):,} bytes; no path has more than {PATH_BYTES_MAX:,}")
    return value


def parts_of(path: bytes) -> tuple[bytes, ...]:
    """Return the names in a path that `check_inside` or `check_dest` returned."""
    return tuple(path.split(b"/")) if path else ()


def output_of_rerun(output: bytes) -> bytes:
    """Return the output file of another run of a job: the same name with the id of the run before its suffix."""
    if JOB_ID in placeholders(output):
        return output
    folder, slash, name = output.rpartition(b"/")
    stem, _, suffix = name.rpartition(b".")
    scoped = b"%s.{%s}.%s" % (stem, JOB_ID, suffix) if stem.strip(b".") else b"%s.{%s}" % (name, JOB_ID)
    return folder + slash + scoped


def is_made_early(output: bytes) -> bool:
    """Tell whether an output file is made at the submission: its name does not depend on the job's id or name."""
    return not placeholders(output) & JOB_PLACEHOLDERS


def output_path(output: bytes, job: int, attempt: int, name: str | None) -> bytes:
    """Return the output file of an attempt of a job, with the id, the attempt and the name filled in."""
    values = {JOB_ID: b"%d" % job, b"job.attempt": b"%d" % attempt, b"job.name": (name or "").encode()}
    return fill(output, values)
