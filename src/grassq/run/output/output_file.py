"""Gives the log of an attempt the name that `--output` says, and never overwrites a foreign file."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from grassq import atomic_files
from grassq.run import attempt_notes, rundir

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from typing import Any

#: How long the copy of a log to another file system may take, and the bytes that are copied at a time.
COPY_S = 600.0
PIECE = 8 << 20
#: Characters of the path in a remark.
SHOWN_MAX = 300

# Another file system, or one without hard links.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def place(path: str, spec: rundir.RunSpec, log: int) -> None:
    """Make the output file of the attempt at `path`, whose open log is `log`; if there is none, note why."""
    umask = os.umask(spec.umask)
    try:
        _place(path, spec, log)
    except OSError as exc:
        with contextlib.suppress(OSError):
            attempt_notes.write_output(path, 0, 0, _remark(spec, exc.strerror or str(exc)))
    finally:
        os.umask(umask)


def complete(path: str, spec: rundir.RunSpec, record: dict[str, Any]) -> None:
    """Put a copy of the log in place of a symbolic link to it, now that the attempt has ended.

    Adds to the exit record why there is no output file.
    """
    target, error = os.fsdecode(spec.output), None
    umask = os.umask(spec.umask)
    try:
        if _is_link_to(target, path):
            _replace_by_copy(target, path, spec)
        elif (found := attempt_notes.read_output(path)) is not None:
            error = found[2]
    except OSError as exc:
        error = _remark(spec, exc.strerror or str(exc))
    finally:
        os.umask(umask)
    if error is not None and record["error"] is None:
        record["error"] = error


def _place(path: str, spec: rundir.RunSpec, log: int) -> None:
    target = os.fsdecode(spec.output)
    atomic_files.make_shared_dirs(os.path.dirname(target), spec.umask)
    is_new = not os.path.lexists(target)
    if not _is_free(target, path, spec):
        raise FileExistsError(errno.EEXIST, "a file with this name exists")
    aside = _aside(target, spec)
    try:
        os.link(rundir.log_path(path, "log"), aside, follow_symlinks=False)
        # The rights of any new file of the user; the run dir itself is for the user only.
        os.fchmod(log, 0o666 & ~spec.umask)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        os.symlink(rundir.log_path(path, "log"), aside)
    _move(aside, target, path, is_new=is_new)


def _is_free(target: str, path: str, spec: rundir.RunSpec) -> bool:
    """Tell whether the name may be taken.

    Nothing is there, or the empty file of the submission, or the output of an earlier attempt.
    """
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        return True
    if spec.output_made and stat.S_ISREG(found.st_mode) and found.st_size == 0:
        return True
    job = os.path.dirname(path)
    notes = (attempt_notes.read_output(f"{job}/{number}") for number in range(spec.attempt - 1, 0, -1))
    return next(filter(None, notes), (0, 0))[:2] == (found.st_dev, found.st_ino)


def _is_link_to(target: str, path: str) -> bool:
    try:
        return os.readlink(target) == rundir.log_path(path, "log")
    except OSError:
        return False


def _replace_by_copy(target: str, path: str, spec: rundir.RunSpec) -> None:
    aside = _aside(target, spec)
    log = atomic_files.open_read(rundir.log_path(path, "log"))
    if log is None:
        return
    try:
        copy = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | atomic_files.OURS, 0o666)
        try:
            _copy(log, copy)
        except OSError:
            os.unlink(aside)
            raise
        finally:
            os.close(copy)
    finally:
        os.close(log)
    _move(aside, target, path, is_new=False)


def _copy(source: int, target: int) -> None:
    until = time.monotonic() + COPY_S
    offset = 0
    while (copied := os.sendfile(target, source, offset, PIECE)) > 0:
        offset += copied
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, f"the copy took longer than {COPY_S:.0f} s")


def _move(aside: str, target: str, path: str, *, is_new: bool) -> None:
    """Give a new file its name, and note which file it is. One that `is_new` replaces none that came meanwhile."""
    try:
        made = os.lstat(aside)
        if not is_new or not _is_linked(aside, target):
            os.rename(aside, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
    attempt_notes.write_output(path, made.st_dev, made.st_ino)


def _is_linked(aside: str, target: str) -> bool:
    """Add the name to the file, unless another file has it; return False where files have one name only."""
    try:
        os.link(aside, target, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINK:
            raise
        return False
    return True


def _aside(target: str, spec: rundir.RunSpec) -> str:
    # Not the name of the target with more letters: that could be too long.
    return f"{os.path.dirname(target)}/.grass-{spec.job}-{spec.attempt}-{os.getpid()}"


def _remark(spec: rundir.RunSpec, why: str) -> str:
    shown = spec.output.decode("utf-8", "backslashreplace")[-SHOWN_MAX:]
    return f"--output {shown} was not written: {why}; `grass log {spec.job}` has the output"
