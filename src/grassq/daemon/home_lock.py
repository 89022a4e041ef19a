"""The home a daemon serves: its lock, its log, its socket, and the directory its run dirs go to."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import logging.handlers
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from grassq import home as homes
from grassq.core.syntax.numbers import is_number
from grassq.errors import HomeTaken, Refused
from grassq.run import processes
from grassq.run.own_daemon import LOCK_NAME

MEMORY_PREFIX = "memory."
MEMORY_MARK = "daemon"  # in a directory we made: pid and start ticks of its daemon
LOG_BYTES_MAX = 5 << 20
PLACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


def log_to(home: str, *, background: bool) -> None:
    """Send the log to the terminal, or to the home's daemon.log."""
    handler: logging.Handler = logging.StreamHandler()
    if background:
        path = f"{home}/{homes.LOG_NAME}"
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


@contextlib.contextmanager
def errors_in_words(home: str) -> Iterator[None]:
    """Say in a sentence that the home's disk is full, read-only or closed to us."""
    try:
        yield
    except OSError as error:
        if error.errno not in PLACE_ERRORS:
            raise
        raise Refused(f"the daemon cannot work in {home}: {error.strerror}") from error


@contextlib.contextmanager
def only_one(home: str) -> Iterator[None]:
    """Hold the home's lock: taken before socket, store or clean-up, released by the kernel whatever happens."""
    fd = os.open(f"{home}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            raise HomeTaken(f"a daemon serves {home} already (pid {first}); `grass stop` ends it") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def working_place(home: str, keeps: bool) -> Iterator[str]:
    """Where run dirs go: the home, or for a store in memory a directory that ends with this process."""
    for left in Path(home).glob(f"{MEMORY_PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    if keeps:
        yield home
        return
    pid = os.getpid()
    place = Path(home) / f"{MEMORY_PREFIX}{pid}"
    try:
        place.mkdir(0o700)
    except FileExistsError:
        raise Refused(f"{place} is in the way; move it away") from None
    (place / MEMORY_MARK).write_text(f"{pid} {processes.start_ticks(pid)}\n", encoding="ascii")
    try:
        yield str(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_left(place: Path) -> bool:
    """Whether this is what a daemon with its store in memory left: ours by name, owner and mark, and it is gone."""
    number = place.name.removeprefix(MEMORY_PREFIX)
    try:
        status = place.lstat()
        pid, ticks = (int(word) for word in (place / MEMORY_MARK).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_number(number)
    return ours and not processes.is_alive(pid, ticks)


@contextlib.contextmanager
def user_socket(home: str) -> Iterator[socket.socket]:
    """The user's own socket, bound through the opened directory: its path may be longer than a socket's may."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    path = Path(f"/proc/self/fd/{folder}/{homes.SOCKET_NAME}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Stale by construction: we hold the home's lock.
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        yield sock
    finally:
        sock.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(folder)
