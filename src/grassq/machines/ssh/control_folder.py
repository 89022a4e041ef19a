"""The place of a control socket: short enough for a unix address, private, and never left behind."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from grassq.errors import Refused
from grassq.machines.ssh.mux import MuxConnection

#: The longest path of a control socket: a unix address has 107 bytes, and ssh first binds the path and 17 more.
CONTROL_MAX = 90
#: A login looks at this many folders of ended daemons, and for this long.
LEFT_MAX = 64
LEFT_S = 3.0
TRIES_MAX = 10
#: What follows the path of the base folder: the name of one folder, and of the socket in it.
_PREFIX = "ssh-"
_BELOW = len(f"/{_PREFIX}12345678/s")
#: ssh expands the path of its control socket: these characters mean themselves.
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")


class ControlFolder:
    """A folder of one transport for its control socket. It is locked: an unlocked one is left from a killed daemon."""

    def __init__(self, base: str) -> None:
        wanted = str(Path(base).absolute())
        self._base = _short(wanted)
        self._is_stand_in = self._base != wanted
        _make_private(self._base)
        _end_left(self._base)
        for _ in range(TRIES_MAX):
            # Another transport may just take the new folder for one that is left, or remove the base.
            with suppress(FileNotFoundError):
                _make_private(self._base)
                self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=self._base)
                lock = _lock(self.path)
                if lock is not None:
                    self._lock = lock
                    return
        raise Refused(f"{self._base}: a folder that is made here vanishes at once")

    @property
    def socket(self) -> str:
        """The path of the control socket."""
        return f"{self.path}/s"

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        if self._is_stand_in:
            with suppress(OSError):
                Path(self._base).rmdir()


def end_ssh(control: str, within_s: float) -> None:
    """Ask the ssh process of a control socket to end, if there is one."""
    with suppress(OSError):
        connection = MuxConnection(control, within_s)
        try:
            connection.end_ssh(within_s)
        finally:
            connection.close()


def _short(base: str) -> str:
    """Return the base folder, or a short one that stands in for it."""
    if len(os.fsencode(base)) + _BELOW > CONTROL_MAX or not _PLAIN.fullmatch(base):
        user = os.getuid()
        runtime = f"/run/user/{user}"
        name = f"grass-ssh-{user}-{hashlib.sha256(os.fsencode(base)).hexdigest()[:12]}"
        return f"{runtime if _is_private(runtime) else '/tmp'}/{name}"
    return base


def _make_private(base: str) -> None:
    Path(base).mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(base):
        raise Refused(f"{base} is not a folder that only you can write to; remove it, or chmod go-w it")


def _is_private(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _lock(path: str) -> int | None:
    """Return a descriptor that holds the lock of a folder; None if another process has it, or it is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    if os.fstat(descriptor).st_nlink:
        return descriptor
    os.close(descriptor)
    return None


def _end_left(base: str) -> None:
    """End the ssh processes of daemons that were killed, and remove their folders."""
    deadline = time.monotonic() + LEFT_S
    for path in islice(Path(base).glob(f"{_PREFIX}*"), LEFT_MAX):
        left_s = deadline - time.monotonic()
        lock = _lock(str(path)) if left_s > 0 else None
        if lock is not None:
            end_ssh(f"{path}/s", left_s)
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
