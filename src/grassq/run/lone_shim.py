"""A shim without a daemon: it runs one attempt on a machine where nothing else of Grass is, and leaves.

`machines.far.shim_bundle` sends it, with the modules it needs, as one file, which runs with Python 3.8 or later. It
is told a run dir, and adds a line to a journal when the command has started and when the attempt has ended.
"""

from __future__ import annotations

import contextlib
import os
import socket

from grassq.run import launcher, lease_timer, processes
from grassq.run.shim import Shim

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from typing import Any


def main(argv: list[str]) -> None:
    """Run the attempt at a run dir (`run DIR JOURNAL`), or exit with 0 if this Python is able to (`check`)."""
    if argv == ["check"]:
        _check()
        return
    _, path, journal = argv
    launcher.start_clean(None)
    launcher.keep_only()
    with contextlib.suppress(PermissionError):  # it has a session of its own already
        os.setsid()
    processes.set_subreaper()
    LoneShim(journal).run(os.fsencode(path))


class LoneShim(Shim):
    """A shim without a daemon: what it would report goes into a journal, and each record is synced."""

    def __init__(self, journal: str) -> None:
        ours, theirs = socket.socketpair()
        theirs.close()
        super().__init__(-1, ours.detach())
        self.deaf = True
        self._journal = journal

    def report(self, message: dict[str, Any]) -> None:
        """Add a line to the journal: it is only a hint, so a full disk is no failure."""
        if message["event"] not in ("started", "suspended", "exited"):
            return
        words = [message["job"], message["attempt"], message["event"]]
        if message["event"] == "started":
            words.append(message["pid"])
        line = " ".join(map(str, words)) + "\n"
        with contextlib.suppress(OSError), open(self._journal, "ab", buffering=0) as file:
            file.write(line.encode("ascii"))


def _check() -> None:
    """Use what not every Python or kernel has; whatever is missing raises."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)], setsid=True)
    os.waitpid(pid, 0)
    processes.set_subreaper()
    lease_timer.LeaseTimer("/", processes.boot_id()).close()
