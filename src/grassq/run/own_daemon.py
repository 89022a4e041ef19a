"""Find the daemon of a job's home below the job, when a `grass` command of the job started that daemon.

Such a daemon and everything it runs are descendants of the job's shim, but not part of the job. They are known by
sockets without a name: a daemon notes the numbers of its sockets in the home, its launcher and shims inherit them, and
no job does. So nothing that a job chooses (words, variables, names, files it opens) makes a process look like them.
"""

from __future__ import annotations

import contextlib
import errno
import os

from grassq import atomic_files
from grassq.run import processes

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

SOCKETS_NAME = "daemon.sockets"
#: Noted sockets, two for each start of the daemon; shims of still earlier daemons end with the job they are below.
SOCKETS_MAX = 256
_FILE_MAX = 64 << 10
# With these errors the answer is unknown and nothing may be killed; with any other nothing is noted.
_NOT_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def note(home: str, sock: socket.socket) -> None:
    """Note a socket that only the daemon of `home`, its launcher and its shims hold."""
    folder, name = os.path.split(os.path.realpath(f"{home}/{SOCKETS_NAME}"))
    boot = processes.boot_id()
    # Without a note, on a full disk for example, a daemon below a job ends with the job, as any process of the job.
    with contextlib.suppress(OSError):
        lines = list(dict.fromkeys([*_noted(home, boot), b"socket:[%d]" % os.fstat(sock.fileno()).st_ino]))
        data = b"".join(b"%s %s\n" % (boot.encode("ascii"), line) for line in lines[-SOCKETS_MAX:])
        atomic_files.write_aside(folder, name, data, sync=False)


def is_kept(pid: int, home: str) -> bool:
    """Tell whether a process is the daemon of `home`, its launcher or one of its shims; OSError if unknown."""
    noted = _noted(home, processes.boot_id())
    return bool(noted) and not processes.descriptors(pid).isdisjoint(noted)


def is_all_there_is(root: int, is_kept: Callable[[int], bool]) -> bool:
    """Tell whether only kept processes, with what they run, are below `root`."""
    seen = []

    def note_kept(pid: int) -> bool:
        if not is_kept(pid):
            return False
        seen.append(pid)
        return True

    try:
        left = processes.descendants(root, note_kept)
    except OSError:
        return False
    return bool(seen) and not left


def _noted(home: str, boot: str) -> list[bytes]:
    try:
        data = atomic_files.read(os.path.realpath(f"{home}/{SOCKETS_NAME}"), _FILE_MAX) or b""
    except OSError as exc:
        if exc.errno in _NOT_NOW:
            raise
        return []
    pairs = (line.split(b" ", 1) for line in data.splitlines() if b" " in line)
    return [name for stated, name in pairs if stated == boot.encode("ascii")]
