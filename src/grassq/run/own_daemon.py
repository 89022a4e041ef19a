"""Find the daemon of a job's home below the job, when a `grass` command of the job started that daemon.

Such a daemon and everything it runs are descendants of the job's shim, but not part of the job. The daemon is known
by the home's lock, which holds its pid and which it alone holds open; its launcher and shims, also those that outlived
it, are known by their command line.
"""

from __future__ import annotations

import errno
import os

from grassq.run import processes

LOCK_NAME = "daemon.lock"

_LAUNCHER = b"/run/launcher.py"
_PID_MAX = 32
# With these errors the answer is unknown and nothing may be killed; with any other there is no lock to hold.
_NOT_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_kept(pid: int, home: str) -> bool:
    """Tell whether a process is the daemon of `home`, its launcher or one of its shims; OSError if unknown."""
    return _holds_lock(pid, f"{home}/{LOCK_NAME}") or _is_launcher(processes.words(pid), os.fsencode(home))


def _is_launcher(words: list[bytes], home: bytes) -> bool:
    # A shim is a fork of its launcher, so both have the same command line.
    of_home = any(words[at : at + 2] == [b"--home", home] for at in range(len(words)))
    return of_home and any(word.endswith(_LAUNCHER) for word in words)


def _holds_lock(pid: int, lock: str) -> bool:
    """Tell whether the lock holds this pid and the process has the lock open: the pid alone may be a dead daemon's."""
    fd = -1
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        text = os.read(fd, _PID_MAX).strip()
        return text == b"%d" % pid and processes.has_open(pid, os.fstat(fd))
    except OSError as exc:
        if exc.errno in _NOT_NOW:
            raise
        return False
    finally:
        if fd >= 0:
            os.close(fd)
