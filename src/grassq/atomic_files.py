"""Small files that exist whole or not at all, and are never reached through a link.

This module writes, reads and checks files; its callers know the contents. Every shim and many commands load it, so it
imports only light modules of the standard library.
"""

# pathlib would cost 13 ms.
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH112, PTH120

from __future__ import annotations

import errno
import os
import stat
import time
import zlib

from grassq.descriptors import write_all

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from typing import Any

#: The flags of every open: never through a link, never inherited by a job.
OURS = os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a job may have replaced the file by a fifo, and opening a fifo would block for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | OURS
# No such file, a link, or a socket. Any other error is raised: unreadable now does not mean absent.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


def is_there(path: str) -> bool:
    """Tell whether anything has this name; raise OSError if unknown."""
    return _status(path) is not None


def size(path: str) -> int:
    """Return the size of a file in bytes; 0 if no plain file has this name."""
    found = _status(path)
    return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else 0


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return None
        raise


def open_read(path: str) -> int | None:
    """Return a descriptor to read a file; None if no plain file has this name."""
    try:
        fd = os.open(path, _READ)
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def write_new(path: str, name: str, data: bytes) -> bool:
    """Write a file that has no reader yet; return False if the name exists."""
    try:
        fd = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, 0o600)
    except FileExistsError:
        return False
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
    return True


def create(path: str, name: str, data: bytes) -> int | None:
    """Make a file that must not exist yet, and return a descriptor to write to it; None if it exists."""
    # Written under another name and then linked: a link fails if the name exists, as O_EXCL does, and the file has its
    # line from the first moment it can be seen. It is never empty and never torn.
    aside = _unique(path, name)
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, 0o600)
    try:
        write_all(fd, data)
        os.link(aside, f"{path}/{name}")
    except OSError as exc:
        os.close(fd)
        if isinstance(exc, FileExistsError):
            return None
        raise
    finally:
        os.unlink(aside)
    return fd


def write_aside(path: str, name: str, data: bytes, sync: bool) -> None:
    """Write a file for its owner only under another name, and rename it: a reader sees the old or the new file, whole.

    With `sync` the file and its directory are on the disk when this returns.
    """
    aside = _unique(path, name)
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, 0o600)
    try:
        try:
            write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(aside, f"{path}/{name}")
    except OSError:
        os.unlink(aside)
        raise
    if sync:
        _sync_dir(path)


def write_changed(path: str, name: str, data: bytes) -> None:
    """Write a file as `write_aside` does with `sync`, unless it has these contents: a full disk is no obstacle then."""
    if read(f"{path}/{name}", len(data) + 1) != data:
        write_aside(path, name, data, sync=True)


def _unique(path: str, name: str) -> str:
    return f"{path}/.{name}.{os.getpid()}.{time.monotonic_ns()}"


def _sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | OURS)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_dirs(path: str) -> None:
    """Make a directory and its parents, for this user only."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_dirs(os.path.dirname(path))
        make_dirs(path)


def make_shared_dirs(path: str, umask: int) -> None:
    """Make a directory and its parents, with the rights that a user with this umask gives."""
    missing = []
    while not os.path.isdir(path):
        if os.path.lexists(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            continue
        # Not by the umask of this process, which may be the daemon.
        os.chmod(each, 0o777 & ~umask)


def touch(path: str, name: str) -> None:
    """Make an empty file if it does not exist."""
    os.close(os.open(f"{path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | OURS, 0o600))


def read(path: str, limit: int) -> bytes | None:
    """Return the contents of a file, up to a limit; None if no plain file has this name."""
    fd = open_read(path)
    if fd is None:
        return None
    try:
        data = b""
        while len(data) < limit:
            # Ask for no more than the file holds: `os.read` allocates as much as it is asked for.
            wanted = min(limit - len(data), max(1, os.fstat(fd).st_size + 1 - len(data)))
            block = os.read(fd, wanted)
            data += block
            if len(block) < wanted:
                break
        return data
    finally:
        os.close(fd)


def line(content: dict[str, Any]) -> bytes:
    """Return one JSON object as a line."""
    import json  # here, as in `parse`: a command to a broker writes and reads no such file

    return json.dumps(content).encode("ascii") + b"\n"


def with_checksum(body: bytes) -> bytes:
    """Return a line with a body and its checksum."""
    return b"%s %08x\n" % (body, zlib.crc32(body))


def verify_checksum(data: bytes) -> bytes | None:
    """Return the body of a line with a checksum; None if the line is torn or damaged."""
    body = data[: -len(b" 01234567\n")]
    # Compared as bytes, not as numbers: no bit of the line may differ.
    return body if data == with_checksum(body) else None


def parse(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None if the bytes are no JSON object."""
    import json

    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def numbers(folder: str) -> list[int]:
    """Return the entries of a folder that are numbers, largest first."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)
