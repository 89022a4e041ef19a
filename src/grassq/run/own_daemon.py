"""What below a job is not the job's: the daemon of its home, when a `grass` command of the job started it.

Such a daemon is a descendant of the job's shim, and so is all it runs. It is known by the home's lock, which has its
pid and which it alone holds open; its launcher and shims, also those that outlived it, by their command line.
"""

from __future__ import annotations

import errno
import os

from grassq.run import processes

LOCK_NAME = "daemon.lock"

_LAUNCHER = b"/run/launcher.py"
_PID_MAX = 32
# With these the answer is not known, and nothing may be killed; with any other there is no lock to hold.
_NOT_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_spared(pid: int, home: str) -> bool:
    """Whether a process is the daemon of `home`, its launcher or one of its shims; OSError if that cannot be told."""
    return _holds_lock(pid, f"{home}/{LOCK_NAME}") or _is_launcher(processes.words(pid), os.fsencode(home))


def _is_launcher(words: list[bytes], home: bytes) -> bool:
    # A shim is a fork of its launcher, and so has the same words.
    of_home = any(words[at : at + 2] == [b"--home", home] for at in range(len(words)))
    return of_home and any(word.endswith(_LAUNCHER) for word in words)


def _holds_lock(pid: int, lock: str) -> bool:
    """Whether the lock has this pid, and that process has it open: the number alone may be a dead daemon's."""
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
