"""Notes in a run dir beside its records: why a command did not start, what to fetch, and what came of it."""

from __future__ import annotations

import os

from grassq import atomic_files
from grassq.core.printable import printable
from grassq.run import exit_record, rundir

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The bytes of a sentence that says why a command was not started.
ERROR_LIMIT = 4 << 10
#: The exit code of a wrapper (grassq.run.wrapper) that has not started its command.
UNSTARTED_CODE = 127


def note_unstarted(path: str, why: str) -> None:
    """Write why the command cannot be started."""
    atomic_files.write_aside(path, "unstarted", why.encode(), sync=False)


def why_unstarted(path: str) -> str | None:
    """Return why the command was not started; None if it was, or if that is not known."""
    data = atomic_files.read(f"{path}/unstarted", ERROR_LIMIT)
    return None if data is None else " ".join(data.decode("utf-8", "backslashreplace").split())


def add_unstarted(path: str, record: dict[str, Any]) -> None:
    """Change the exit record of a wrapper that has not started its command: the attempt was never spawned."""
    if record["code"] == UNSTARTED_CODE and (why := why_unstarted(path)) is not None:
        record.update(outcome=exit_record.SPAWN_FAILED, code=None, error=why)


def write_fetch(path: str, root: bytes, to: bytes, patterns: Iterable[bytes], umask: int) -> None:
    """Write what to bring where when the job has ended, and the umask for it."""
    words = {
        "umask": umask,
        "root": rundir.encode_word(root),
        "to": rundir.encode_word(to),
        "patterns": [rundir.encode_word(each) for each in patterns],
    }
    atomic_files.write_aside(path, "fetch", atomic_files.line({"v": rundir.FORMAT, **words}), sync=False)


def read_fetch(path: str) -> tuple[bytes, bytes, tuple[bytes, ...], int] | None:
    """Return root, target, patterns and umask of what to bring; None if there is nothing to bring."""
    if not os.access(f"{path}/fetch", os.F_OK):
        return None  # nearly always, and quicker than a read that fails
    found = atomic_files.parse(atomic_files.read(f"{path}/fetch", rundir.SPEC_LIMIT) or b"") or {}
    try:
        patterns = tuple([rundir.decode_word(each) for each in found["patterns"]])
        return rundir.decode_word(found["root"]), rundir.decode_word(found["to"]), patterns, int(found["umask"])
    except (KeyError, TypeError, ValueError):
        return None


def write_fetched(path: str, error: str | None) -> None:
    """Write that everything was brought, or why something was not."""
    atomic_files.write_aside(path, "fetched", atomic_files.line({"v": rundir.FORMAT, "error": error}), sync=False)


def read_fetched(path: str) -> dict[str, Any] | None:
    """Return what came of bringing the files, with the key "error"; None if it has not been done."""
    if not os.access(f"{path}/fetched", os.F_OK):
        return None  # nearly always, as in `read_fetch`
    found = atomic_files.parse(atomic_files.read(f"{path}/fetched", rundir.RECORD_LIMIT) or b"")
    if found is None or not isinstance(found.get("error", ...), (str, type(None))):
        return None
    if found["error"] is not None:
        found["error"] = printable(found["error"])  # a job can write it, as its exit record
    return found


def write_sent(path: str, trees: Iterable[tuple[str, bytes]]) -> None:
    """Write of which manifests the tree was made, each with its place; called when the tree is whole."""
    words = [[manifest, rundir.encode_word(dest)] for manifest, dest in trees]
    atomic_files.write_aside(path, "sent", atomic_files.line({"v": rundir.FORMAT, "trees": words}), sync=False)


def read_sent(path: str) -> tuple[int, list[tuple[str, bytes]]] | None:
    """Return when the tree was whole, as a time of its file system, and its manifests; None without a whole tree."""
    if not os.access(f"{path}/sent", os.F_OK):
        return None
    found = atomic_files.parse(atomic_files.read(f"{path}/sent", rundir.SPEC_LIMIT) or b"") or {}
    try:
        trees = [(str(manifest), rundir.decode_word(dest)) for manifest, dest in found["trees"]]
        return os.lstat(f"{path}/sent").st_ctime_ns, trees
    except (KeyError, TypeError, ValueError):
        return None


def forget_sent(path: str) -> None:
    """Remove the note of the tree's manifests."""
    os.unlink(f"{path}/sent")
