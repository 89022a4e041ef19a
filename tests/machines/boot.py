"""The first process of a machine of the site: it mounts what the machine sees, starts sshd, and reaps.

It runs as `python -I -S boot.py SCRIPT SSHD...`, as process 1 of a pid namespace. It mounts by SCRIPT, then starts
sshd for each line on stdin. When stdin ends, it ends, and every process of the machine ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def reap(_signal: int, _frame: object) -> None:
    """Take the codes of all that have ended, orphans among them."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main(script: str, sshd: list[str]) -> None:
    """Be the first process."""
    subprocess.run(["sh", "-eu", script], stdin=subprocess.DEVNULL, check=True)
    signal.signal(signal.SIGCHLD, reap)
    for _line in sys.stdin:
        if os.fork() == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.execv(sshd[0], sshd)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
