"""The launcher: a program of its own that stays warm and forks shims when the daemon asks.

Run as `python -I -S launcher.py --fds C,O,R [--nofile SOFT] [--home DIR]` by `run.shim_pool`. Each byte on the control
socket C asks for one shim. When C ends, the daemon is gone, and only the launcher exits: the shims go on without it. O
and R are the orders and reports sockets that all shims share. --home only tells a reader of `ps` which home it serves.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource  # wait4 imports it on first use: imported here once for all shims
import select
import signal
import socket
import sys

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL_MAX = 64
WIRE = 2  # as in `grassq.run.shim`, which a launcher is passed and does not import

# Python ignores these two signals for itself; the spawn restores them for the job.
_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)


def main(argv: list[str], serve: Callable[[int, int], None]) -> None:
    """Fork shims, each running `serve(orders, reports)`, until the daemon is gone."""
    options = dict(zip(argv[::2], argv[1::2], strict=True))
    control_fd, orders_fd, reports_fd = (int(word) for word in options["--fds"].split(","))
    keep_only(control_fd, orders_fd, reports_fd)
    start_clean(options.get("--nofile"))
    wake = _watch_children()
    control = socket.socket(fileno=control_fd)
    reports = socket.socket(fileno=reports_fd)
    # Shims share the memory that is in use now: the garbage collector would otherwise write into every page of it.
    gc.collect()
    gc.freeze()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake[0], select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake[0] in ready:
            os.read(wake[0], 4096)
            _reap(reports)
        if control_fd in ready:
            try:
                asked = control.recv(CONTROL_MAX)
            except ConnectionResetError:
                return
            if not asked:
                return
            for _ in asked:
                if not _fork(reports):
                    continue
                for fd in (control_fd, *wake):
                    os.close(fd)
                serve(orders_fd, reports.detach())
                os._exit(0)


def keep_only(*fds: int) -> None:
    """Close descriptors that were passed by mistake: no job may inherit them."""
    for fd in fds:
        os.set_inheritable(fd, False)
    for fd in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *fds}:
        os.closerange(fd, fd + 1)  # unlike `close` it does not mind that the list's own descriptor is closed by now


def start_clean(nofile: str | None) -> None:
    """Undo what the daemon or its shell left behind: a job must start as if from a fresh login."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *_PYTHONS_OWN}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o077)
    os.chdir("/")
    if nofile is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(nofile), hard))


def _watch_children() -> tuple[int, int]:
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the pipe wakes the loop
    return read_end, write_end


def _reap(reports: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _report(reports, {"event": "gone", "shim": pid, "code": os.waitstatus_to_exitcode(status)})


def _report(reports: socket.socket, message: dict[str, object]) -> None:
    try:
        reports.send(marshal.dumps(message, WIRE))
    except (BrokenPipeError, ConnectionResetError):
        return  # the daemon is gone; the control socket says so too


def _fork(reports: socket.socket) -> bool:
    """Fork; tell whether this is the new process."""
    try:
        pid = os.fork()
    except OSError as exc:
        _report(reports, {"event": "fork_failed", "error": exc.strerror})
        return False
    if pid == 0:
        signal.set_wakeup_fd(-1)
    return pid == 0


if __name__ == "__main__":
    # -I -S leaves only the standard library on the path. Our folder goes last, so that nothing installed beside the
    # package can replace a standard module.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from grassq.run import shim

    main(sys.argv[1:], shim.serve)
