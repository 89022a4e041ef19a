"""Start the daemon in the background, and wait until it says that it is ready."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic, sleep

from grassq import home as homes
from grassq.errors import Refused, Unreachable
from grassq.net.http import ERRORS, answers

START_TIMEOUT_S = 10.0
REPORT_LIMIT = 64 << 10
#: Variables that describe a job. A daemon started from inside a job is not part of the job.
_OF_A_JOB = (b"JOB_ID", b"JOB_NAME", b"QUEUE", b"ATTEMPT", b"RUN_DIR", b"RESULT_FILE", b"CHECKPOINT_DIR")
#: Seconds another daemon may take until its socket answers, before starting one is tried again.
RIVAL_TIMEOUT_S = 3.0
READY_FD = 3
#: Seconds until the process that forks the daemon must have ended.
REAP_S = 1.0


def start(home: str, *, timeout_s: float = START_TIMEOUT_S, python: str = sys.executable) -> None:
    """Start a daemon for `home` and return once a daemon answers, this one or another that was faster."""
    if homes.prepare(home) and home == homes.stand_in():
        note = f"grass: the usual state directory is on a network file system; state is kept in {home}\n"
        os.write(2, note.encode("utf-8", "surrogateescape"))
    reading, writing = os.pipe()
    try:
        child = _spawn(home, writing, python)
    finally:
        os.close(writing)
    try:
        report = _read_report(reading, monotonic() + timeout_s)
    finally:
        os.close(reading)
        _reap(child)
    if report is None:
        raise Unreachable(f"the daemon did not start within {timeout_s:g} s; see {home}/{homes.LOG_NAME}")
    _check_report(home, report)


def _spawn(home: str, writing: int, python: str) -> int:
    import fcntl
    import signal

    # Above the number it will have in the child, so that dup2 always copies and clears close-on-exec.
    report = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, READY_FD + 1)
    log = f"{home}/{homes.LOG_NAME}"
    # -P: a directory `grassq` in the user's current directory is not this package.
    argv = [python, "-P", "-m", "grassq", "daemon", "--detach", "--ready-fd", str(READY_FD)]
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int] | tuple[int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_DUP2, report, READY_FD),
    ]
    # What the shell left open (a lock, a pipe) would stay open as long as the daemon lives.
    actions += [(os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inherited(above=READY_FD)]
    try:
        return os.posix_spawn(
            python,
            argv,
            _environment(home),
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}),
        )
    except OSError as error:
        raise Refused(f"cannot start the daemon ({python}, log {log}): {error.strerror}") from error
    finally:
        os.close(report)


def _environment(home: str) -> dict[bytes, bytes]:
    environment = homes.environment()
    for name in _OF_A_JOB:
        environment.pop(b"GRASS_" + name, None)
    environment[b"GRASS_HOME"] = os.fsencode(home)
    if (root := source_root()) is not None:
        known = environment.get(b"PYTHONPATH", b"")
        environment[b"PYTHONPATH"] = os.fsencode(root) + (b":" + known if known else b"")
    return environment


def source_root() -> str | None:
    """Return the folder that a new interpreter must be told of to find Grass; None where Grass is installed.

    It is a source tree, or a path added by the program that uses the SDK. Never site-packages: on PYTHONPATH it would
    come before the standard library.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return None if os.path.basename(root) in ("site-packages", "dist-packages") else root


def _inherited(*, above: int) -> list[int]:
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    found = []
    for number in numbers:
        try:
            if number > above and os.get_inheritable(number):
                found.append(number)
        except OSError:
            continue  # the listing's own descriptor, closed by now
    return found


def _read_report(reading: int, deadline: float) -> bytes | None:
    import select

    poll = select.poll()
    poll.register(reading, select.POLLIN)
    report = b""
    while b"\n" not in report and len(report) < REPORT_LIMIT:
        left = deadline - monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        part = os.read(reading, 4096)
        if not part:
            break
        report += part
    return report


def _reap(child: int) -> None:
    import select

    # The child only forks the daemon and exits, so that no program using the SDK is ever a daemon's parent.
    with suppress(OSError):  # this program ignores SIGCHLD, or has reaped it itself
        descriptor = os.pidfd_open(child)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            has_ended = poll.poll(REAP_S * 1000)
        finally:
            os.close(descriptor)
        os.waitpid(child, 0 if has_ended else os.WNOHANG)


def _check_report(home: str, report: bytes) -> None:
    line = report.split(b"\n", 1)[0].decode("utf-8", "backslashreplace")
    if line == "ready":
        return
    kind, _, rest = line.partition(" ")
    if kind == "taken":
        # Another daemon was faster, and serves the caller just as well.
        return _await_socket(home)
    if kind != "error":
        raise Unreachable(f"the daemon ended before it was ready; see {home}/{homes.LOG_NAME}")
    code, _, message = rest.partition(" ")
    error = ERRORS.get(int(code) if code.isdigit() else 1, Unreachable)
    raise error(message or f"the daemon could not start; see {home}/{homes.LOG_NAME}")


def _await_socket(home: str) -> None:
    deadline = monotonic() + RIVAL_TIMEOUT_S
    while not answers(home) and monotonic() < deadline:
        sleep(0.02)
