"""The daemon's side of launcher and shims: sends orders, receives reports, keeps enough shims waiting.

Nothing here blocks, and nothing that matters can be lost here: orders may be repeated at any time, because only one
shim can claim a run dir, and every end is in its run dir as well.
"""

from __future__ import annotations

import collections
import fcntl
import marshal
import os
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import Any

from grassq.run import own_daemon, shim

READ_BATCH = 256
IDLE_SHIMS_MAX = 16
# Forks under way at once. Repeated orders need few shims: each answers and takes the next order.
FORKING_MAX = 8
# After a quiet time this many shims stay, so that the next job still meets a warm one.
IDLE_SHIMS_KEPT = 2
BACKLOG_MAX = 10_000
RESTART_PAUSE_S = 1.0
CLOSE_WAIT_S = 2.0
SOCKET_BUFFER = 1 << 20

_LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")


class ShimPool:
    """A launcher, its shims, and the three sockets to them."""

    def __init__(
        self,
        python: str,
        home: str,
        *,
        nofile: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`nofile` is the soft limit of open files for jobs."""
        self._command = [python, "-I", "-S", _LAUNCHER]
        self._home = home
        self._options = ["--home", home] + ([] if nofile is None else ["--nofile", str(nofile)])
        self._clock = clock
        self._launcher: subprocess.Popen[bytes] | None = None
        self._wanted = False
        self._started_at = 0.0
        self._control: socket.socket | None = None
        self._orders, self._shims_orders = _pair()
        self._reports, self._shims_reports = _pair()
        self._backlog: collections.deque[bytes] = collections.deque()
        self._idle: set[int] = set()  # shims that said they wait for an order
        self._forking = 0  # shims asked for that have not said anything yet
        self._unanswered = 0  # orders sent that no shim has answered yet
        self._leaving = 0  # idle shims told to exit that have not exited yet
        self._seen = (-1, -1)  # what the last check saw: answers so far, and bytes no shim had taken
        self._answers = 0
        self._forks_fail = False  # the launcher could not fork; asked again at the next check
        self.trouble: str | None = None  # why there is no launcher, or no fork; shown by `info`

    @property
    def launcher_pid(self) -> int | None:
        """Return the launcher's pid, None if it is not running."""
        return None if self._launcher is None or self._launcher.poll() is not None else self._launcher.pid

    @property
    def idle(self) -> int:
        """Return how many shims are known to wait for an order."""
        return len(self._idle)

    def start(self) -> None:
        """Start the launcher; OSError if there is no such Python."""
        self._wanted = True
        self._started_at = self._clock()
        own_daemon.note(self._home, self._shims_reports)
        control, theirs = _pair()
        fds = (theirs.fileno(), self._shims_orders.fileno(), self._shims_reports.fileno())
        try:
            self._launcher = subprocess.Popen(
                [*self._command, "--fds", ",".join(map(str, fds)), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                pass_fds=fds,
                start_new_session=True,
            )
        except OSError:
            control.close()
            raise
        finally:
            theirs.close()
        if self._control is not None:
            self._control.close()
        self._control = control
        self._forking = 0
        self._forks_fail = False
        self.trouble = None

    def order(self, path: str | bytes, spec: tuple[Any, ...] | None = None) -> bool:
        """Have the attempt at `path` run; False if too many orders wait already (repeat it later).

        `spec` is what its spec.json says, as `rundir.RunSpec.unpacked` takes it: the shim need not read the file.
        """
        if len(self._backlog) >= BACKLOG_MAX:
            return False
        if spec is not None and not self._backlog and self._send(shim.order_of(os.fsdecode(path), spec)):
            self._unanswered += 1
        else:
            # What has to wait is kept short.
            self._backlog.append(os.fsencode(path))
        self._push()
        return True

    def _send(self, order: bytes) -> bool:
        try:
            self._orders.send(order)
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are reports."""
        return self._reports.fileno()

    def read(self) -> list[dict[str, Any]]:
        """Return reports that have come in, at most READ_BATCH; the rest keeps the descriptor readable."""
        found = []
        for _ in range(READ_BATCH):
            try:
                data = self._reports.recv(shim.REPORT_MAX)
            except (BlockingIOError, ConnectionResetError):
                break
            if not data:
                break
            report: dict[str, Any] = marshal.loads(data)
            self._count(report)
            if report["event"] == "started":
                # When the launcher is gone, the end of a shim is not reported.
                report["stray"] = self._launcher is None or report["parent"] != self._launcher.pid
            if report["event"] != "idle":
                found.append(report)
        self._push()
        return found

    def check(self) -> None:
        """Repair what went wrong unseen; call it every few seconds."""
        self._revive()
        self._forks_fail = False
        seen = (self._answers, self._untaken())
        if seen == self._seen:
            self._settle(untaken=seen[1] > 0)
        self._seen = seen
        self._push()

    def close(self) -> None:
        """Close: idle shims and the launcher exit, busy shims finish their attempt on their own."""
        for end in (self._control, self._orders, self._shims_orders, self._reports, self._shims_reports):
            if end is not None:
                end.close()
        self._control = None
        self._wanted = False
        if self._launcher is not None:
            try:
                self._launcher.wait(CLOSE_WAIT_S)
            except subprocess.TimeoutExpired:
                self._launcher.returncode = 0  # it exits when it gets to run; nothing of ours depends on it

    def _revive(self) -> None:
        """Start the launcher again if it died, but not more than once in RESTART_PAUSE_S."""
        if not self._wanted or self.launcher_pid is not None:
            return
        if self._clock() - self._started_at < RESTART_PAUSE_S:
            return
        self._forget_dead()
        # The new launcher gets the same orders and reports sockets: shims of the old one are not touched.
        try:
            self.start()
        except OSError as exc:
            self.trouble = f"the launcher cannot be started: {exc}"

    def _forget_dead(self) -> None:
        """Drop idle shims whose end was not reported, as after the death of their launcher."""
        self._idle = {pid for pid in self._idle if os.path.exists(f"/proc/{pid}")}

    def _settle(self, untaken: bool) -> None:
        """Correct the counts: nothing moved since the last check, so they are wrong."""
        self._forking = self._leaving = 0
        self._forget_dead()
        if untaken:
            # Orders lie in the socket and no shim takes them: the shims counted as idle are gone.
            self._ask_for_shim()
        else:
            # Every order was taken; orders without an answer died with their shim, and the daemon repeats them.
            self._unanswered = len(self._backlog)
            if not self._backlog and len(self._idle) > IDLE_SHIMS_KEPT:
                self._leaving += self._send(shim.LEAVE)

    def _count(self, report: dict[str, Any]) -> None:
        event, pid = report["event"], report.get("shim", 0)
        if event in ("idle", "fork_failed"):
            self._forking = max(0, self._forking - 1)
        if event == "fork_failed":
            self._forks_fail = True
            self.trouble = f"no shim could be forked: {report['error']}"
        # A shim counted as idle whose attempt has ended never started the command: the end is its first answer.
        ended_unstarted = event == "exited" and pid in self._idle
        answers = ended_unstarted or event in ("started", "duplicate", "bad_spec", "claim_failed")
        # A shim that took over from another attempt answers no order.
        if answers and not report.get("followed"):
            self._unanswered = max(0, self._unanswered - 1)
            self._answers += 1
        if event == "gone" and report.get("told"):
            self._leaving = max(0, self._leaving - 1)
        if event == "idle" or report.get("idle"):
            self._idle.add(pid)
        else:
            self._idle.discard(pid)

    def _push(self) -> None:
        """Send what waits, and make sure that a shim is there to take it."""
        while self._backlog and self._send(self._backlog[0]):
            self._backlog.popleft()
            self._unanswered += 1
        lacking = self._unanswered + len(self._backlog) - len(self._idle) - self._forking
        if lacking > 0:
            self._revive()
        while lacking > 0 and self._ask_for_shim():
            lacking -= 1
        if len(self._idle) - self._unanswered - self._leaving > IDLE_SHIMS_MAX:
            self._leaving += self._send(shim.LEAVE)

    def _ask_for_shim(self) -> bool:
        if self._control is None or self._forks_fail or self._forking >= FORKING_MAX:
            return False
        try:
            self._control.send(b"F")
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return False  # dead or overloaded; `check` finds out which
        self._forking += 1
        return True

    def _untaken(self) -> int:
        """Return the bytes of orders no shim has taken yet, as the kernel counts them."""
        answer = fcntl.ioctl(self._orders, termios.TIOCOUTQ, b"\0\0\0\0")
        return int(struct.unpack("i", answer)[0])


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return our end, which never blocks, and theirs, which does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
    return ours, theirs
