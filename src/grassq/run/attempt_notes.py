"""Notes in a run dir beside its records: why a command did not start, what was cut out of its log, what to fetch."""

from __future__ import annotations

import contextlib
import os
import time

from grassq import atomic_files
from grassq.core.printable import printable, size_text
from grassq.run import exit_record, rundir

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The bytes of a sentence that says why a command was not started.
ERROR_LIMIT = 4 << 10
#: The exit code of a wrapper (grassq.run.wrapper) that has not started its command.
UNSTARTED_CODE = 127
#: Above the size of every log.
OFFSET_MAX = 1 << 60
CUT_LIMIT = 1 << 10
#: Without a daemon, or on a full disk, the exit record is all there is: room for it is waited for, for a day.
RECORD_PAUSE_S, RECORD_TRIES = 5.0, 17_280


class CutNote:
    """The part of a log that is not there any more, because the log was above its limit."""

    __slots__ = ("begin", "begins_line", "end", "exact", "limit", "lines")

    def __init__(self, begin: int, end: int, lines: int, exact: bool, limit: int, begins_line: bool) -> None:
        self.begin = begin
        self.end = end
        self.lines = lines
        self.exact = exact  # the lines were counted, not estimated
        self.limit = limit
        self.begins_line = begins_line  # what is before the cut ends with a whole line

    @property
    def mark(self) -> bytes:
        """The line that readers see in place of the part; shorter than the part."""
        lines = f"{'' if self.exact else 'about '}{self.lines:,} line{'' if self.lines == 1 else 's'}"
        limit = size_text(self.limit)
        words = f"{self.end - self.begin:,} bytes ({lines}) of the log were cut here; the limit is {limit} (--log-max)"
        return f"{'' if self.begins_line else chr(10)}[grass: {words}]\n".encode("ascii")


def note_cut(path: str, stream: str, cut: CutNote) -> None:
    """Write what is cut out of a stream."""
    words = {
        "from": cut.begin,
        "to": cut.end,
        "lines": cut.lines,
        "exact": cut.exact,
        "limit": cut.limit,
        "begins_line": cut.begins_line,
    }
    name = os.path.basename(rundir.cut_path(path, stream))
    atomic_files.write_aside(path, name, atomic_files.line({"v": rundir.FORMAT, **words}), sync=False)


def forget_cut(path: str, stream: str) -> None:
    """Remove the note of a cut: the log has begun again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(rundir.cut_path(path, stream))


def read_cut(path: str, stream: str, size: int) -> CutNote | None:
    """Return what was cut out of a stream of this size; None if nothing was."""
    name = rundir.cut_path(path, stream)
    if not os.access(name, os.F_OK):
        return None  # nearly always, and quicker than a read that fails
    return parse_cut(atomic_files.read(name, CUT_LIMIT) or b"", size)


def parse_cut(data: bytes, size: int) -> CutNote | None:
    """Return the cut in the contents of a note; None if it is invalid: a job can write it."""
    found = atomic_files.parse(data) or {}
    begin, end, lines, limit = (found.get(name) for name in ("from", "to", "lines", "limit"))
    for number in (begin, end, lines, limit):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= OFFSET_MAX:
            return None
    cut = CutNote(begin, end, lines, found.get("exact") is True, limit, found.get("begins_line") is True)  # type: ignore[arg-type]
    if found.get("v") != rundir.FORMAT or not cut.begin + len(cut.mark) <= cut.end <= size:
        return None
    return cut


def write_end(path: str, record: dict[str, Any], *, sync: bool) -> bool:
    """Write the exit record; False if there is no room for it now."""
    try:
        rundir.write_exit(path, record, sync)
    except OSError:
        return False
    return True


def write_end_for_sure(path: str, record: dict[str, Any]) -> None:
    """Write and sync the exit record, however long there is no room for it; unless its run dir is removed."""
    for _ in range(RECORD_TRIES):
        if write_end(path, record, sync=True) or not os.path.isdir(path):
            return
        time.sleep(RECORD_PAUSE_S)


def add_result(path: str, record: dict[str, Any]) -> None:
    """Add the result that the job wrote to its exit record; an unusable result is the error of a job that succeeded."""
    file = rundir.result_file(path)
    if not os.access(file, os.F_OK):
        return  # nearly always, and quicker than a read that fails
    try:
        exit_record.take_result(record, atomic_files.read(file, exit_record.RESULT_LIMIT))
    except OSError as error:
        exit_record.no_result(record, error)


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


def write_output(path: str, device: int, inode: int, error: str | None = None) -> None:
    """Write which file is at the path of --output, or why there is none: {"v", "dev", "ino", "error"} in `output`."""
    words = {"v": rundir.FORMAT, "dev": device, "ino": inode, "error": error}
    atomic_files.write_aside(path, "output", atomic_files.line(words), sync=False)


def read_output(path: str) -> tuple[int, int, str | None] | None:
    """Return device and inode of the file at the path of --output, or why it was not made; None without a note."""
    found = atomic_files.parse(atomic_files.read(f"{path}/output", rundir.RECORD_LIMIT) or b"") or {}
    device, inode, error = found.get("dev"), found.get("ino"), found.get("error")
    if not isinstance(device, int) or not isinstance(inode, int):
        return None
    return device, inode, error if isinstance(error, str) else None
