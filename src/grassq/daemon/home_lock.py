"""The home of a daemon: its lock, its socket, and the directory of its run dirs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from grassq import home as homes
from grassq.core.syntax.numbers import is_number
from grassq.errors import HomeTaken, Refused
from grassq.run import own_daemon, processes

LOCK_NAME = "daemon.lock"
MEMORY_PREFIX = "memory."
MEMORY_MARK = "daemon"  # a file with the pid and start ticks of the daemon that made the directory
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


@contextlib.contextmanager
def errors_in_words(home: str) -> Iterator[None]:
    """Raise Refused if the home's disk is full, read-only or not accessible."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        raise Refused(f"the daemon cannot work in {home}: {error.strerror}") from error


@contextlib.contextmanager
def hold_lock(home: str) -> Iterator[None]:
    """Hold the home's lock; raise HomeTaken if another daemon holds it. The kernel releases it after a crash."""
    fd = os.open(f"{home}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            raise HomeTaken(f"a daemon serves {home} already (pid {first}); `grass stop` ends it") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        with socket.socket(socket.AF_UNIX) as mark:
            own_daemon.note(home, mark)
            yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def open_run_root(home: str, durable: bool) -> Iterator[str]:
    """Yield the directory of the run dirs: the home, or for a store in memory one that ends with this process."""
    for stale in Path(home).glob(f"{MEMORY_PREFIX}*"):
        if _is_stale(stale):
            shutil.rmtree(stale, ignore_errors=True)
    if durable:
        yield home
        return
    pid = os.getpid()
    directory = Path(home) / f"{MEMORY_PREFIX}{pid}"
    try:
        directory.mkdir(0o700)
    except FileExistsError:
        raise Refused(f"{directory} exists already; move it away") from None
    (directory / MEMORY_MARK).write_text(f"{pid} {processes.start_ticks(pid)}\n", encoding="ascii")
    try:
        yield str(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_stale(directory: Path) -> bool:
    """Tell whether a daemon with its store in memory, which has ended, left this directory."""
    number = directory.name.removeprefix(MEMORY_PREFIX)
    try:
        status = directory.lstat()
        pid, ticks = (int(word) for word in (directory / MEMORY_MARK).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_number(number)
    return ours and not processes.is_alive(pid, ticks)


@contextlib.contextmanager
def user_socket(home: str) -> Iterator[socket.socket]:
    """Yield the unix socket, bound through the opened directory: the path may be longer than a socket address."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    path = Path(f"/proc/self/fd/{folder}/{homes.SOCKET_NAME}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # No daemon listens there: this process holds the home's lock.
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        yield sock
    finally:
        sock.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(folder)
