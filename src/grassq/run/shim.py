"""The shim: takes an order, runs this one attempt, records how it ended, and takes the next.

A shim does not need the daemon: when the daemon is gone, the shim finishes the attempt, writes its end to disk and
exits. Between two attempts it holds no child, no log and no claim, so that a stream of short jobs pays one spawn each
and no start of a Python process.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import select
import signal
import socket
import time

from grassq.run import attempt_notes, exit_record, lease_timer, log_cap, own_daemon, processes, rundir, spawn
from grassq.run.limits import time_limits
from grassq.run.suspension import stopped_tree

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

# An order is a path; after a NUL the packed spec may follow, so that the shim need not read the file.
ORDER_MAX = 64 << 10
LEAVE = b"\0"  # an order that cannot be a path: one idle shim may exit
REPORT_MAX = 128 << 10  # a path and two sentences
# How both are packed: the oldest form that every Python 3 reads and writes, and the fastest one.
WIRE = 2
# The start and the end of a shorter command are told in one report.
BRIEF_S = 0.005
STUCK_AFTER_S = 60.0
# Seconds between two looks at a tree that is being killed; a SIGCHLD ends the wait earlier.
KILL_PAUSE_MIN_S, KILL_PAUSE_MAX_S = 0.01, 1.0
RETRY_S = 1.0

_QUIET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD)
_CHILD = (signal.SIGCHLD,)
_DEAF = (errno.EPIPE, errno.ECONNRESET, errno.ECONNREFUSED, errno.ENOTCONN)


def serve(orders_fd: int, reports_fd: int) -> None:
    """Run attempts until the daemon is gone, says so, or a job leaves something behind on purpose."""
    os.setsid()
    processes.set_subreaper()
    shim = Shim(orders_fd, reports_fd)
    shim.report({"event": "idle"})
    while True:
        try:
            order = os.read(orders_fd, ORDER_MAX)
        except ConnectionResetError:
            return
        if not order:
            return
        if order == LEAVE:
            shim.report({"event": "gone", "told": True})
            return
        if not shim.run(order):
            return
        while shim.prefetched is not None:
            if not shim.run(shim.prefetched, followed=True):
                return


def order_of(path: str, spec: tuple[Any, ...]) -> bytes:
    """Return the order of the attempt at `path`, with the values of its `rundir.RunSpec` if they fit."""
    word = os.fsencode(path)
    order = b"%s\0%s" % (word, pack(spec))
    return order if len(order) <= ORDER_MAX else word


def pack(message: Any) -> bytes:
    """Pack a message between a daemon and its own launcher and shims, which are of one release and trust each other."""
    return marshal.dumps(message, WIRE)


class _Attempt:
    """The attempt a shim runs."""

    pid = ticks = 0
    begun = deadline = 0.0  # on the monotonic clock: the start of the command, and the end of the grace
    told = False  # the daemon knows that it runs
    ended = False  # the command itself has been waited for
    none_left = True  # wait says there is no child at all
    terminated = False  # everything below the shim got TERM, and has until `deadline`
    killed_at: float | None = None
    kill_pause_s = KILL_PAUSE_MIN_S
    cancelled = lease_ended = stuck = False
    guard: lease_timer.LeaseTimer | None = None  # of an attempt that may run only under a lease
    limits: time_limits.TimeLimits | None = None  # of an attempt that lasts
    timed_out: str | None = None  # the limit that ended it
    caps: log_cap.LogCaps | None = None  # of an attempt that lasts

    def __init__(self, path: str, spec: rundir.RunSpec) -> None:
        self.path = path
        self.spec = spec
        self.suspension = stopped_tree.StoppedTree(path, self.ids())
        now = time.time()
        self.record: dict[str, Any] = {
            "code": None, "signal": None, "outcome": exit_record.EXITED, "error": None, "user_s": 0.0, "system_s": 0.0,
            "max_rss_kb": 0, "started": now, "ended": now,
        }  # fmt: skip

    def ids(self) -> dict[str, Any]:
        return {"job": self.spec.job, "attempt": self.spec.attempt}

    def is_kept(self, pid: int) -> bool:
        """Tell whether a process below the shim is the daemon of our home or a part of it, and not the job's."""
        return pid != self.pid and own_daemon.is_kept(pid, rundir.home_of(self.path))


class Shim:
    """The process: its sockets, its signals and the current attempt."""

    def __init__(self, orders_fd: int, reports_fd: int) -> None:
        self.pid = os.getpid()
        self.ticks = processes.birth_ticks(self.pid) or 0
        self.orders_fd = orders_fd
        self.reports = socket.socket(fileno=reports_fd)
        self.unsent: list[bytes] = []
        self.deaf = False  # no daemon reads our reports any more
        self.asked = False  # a SIGTERM came: there may be a `stop`
        self.prefetched: bytes | None = None  # the attempt that takes over from the one that has just ended
        self.followed = False  # the current attempt was not ordered: it took over
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.wake, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        # Handlers, never SIG_IGN: an ignored signal stays ignored in the job.
        signal.signal(signal.SIGTERM, self._on_term)
        for number in _QUIET:
            signal.signal(number, lambda number, frame: None)  # the pipe wakes the shim
        # Blocked, so that the end of a short command can be waited for without pipe and handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD)

    def run(self, order: bytes, *, followed: bool = False) -> bool:
        """Run what is ordered; tell whether this shim may take another order."""
        self.followed = followed
        self.prefetched = None
        word, _, packed = order.partition(b"\0")
        path = os.fsdecode(word)
        try:
            spec = _unpacked(packed) or rundir.read_spec(path)
        except (OSError, ValueError) as exc:
            self.report({"event": "bad_spec", "path": path, "error": str(exc)[: spawn.ERROR_MAX], "idle": True})
            return True
        attempt = _Attempt(path, spec)
        try:
            claim = rundir.claim(path, spec, self.pid, self.ticks)
        except OSError as exc:
            self.report({"event": "claim_failed", **attempt.ids(), "error": str(exc), "idle": True})
            return True
        if claim is None:
            self.report({"event": "duplicate", **attempt.ids(), "idle": True})
            return True
        # From here on the attempt is ours and ends with a record whatever happens. An earlier SIGTERM was for an
        # earlier attempt; a SIGTERM for this attempt comes after its `stop`, which is looked for next.
        self.asked = False
        try:
            lasts = self._start(attempt) and not self._is_short(attempt)
            if lasts:
                self._tell_started(attempt, claim)
        finally:
            os.close(claim)
        if lasts:
            attempt.caps = log_cap.of(attempt.path, attempt.spec)
            attempt.limits = time_limits.of(attempt.path, attempt.spec, attempt.begun)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _CHILD)
            self._wait(attempt)
            signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD)
        return self._finish(attempt)

    def report(self, message: dict[str, Any]) -> None:
        """Send a report if a daemon listens; never wait."""
        message["shim"] = self.pid
        if self.followed:
            message["followed"] = True
        self.unsent.append(pack(message))
        self._flush()

    def _start(self, attempt: _Attempt) -> bool:
        try:
            if rundir.read_stop(attempt.path) is not None:
                attempt.cancelled = True
                return False
            if attempt.spec.lease:
                attempt.guard = lease_timer.LeaseTimer(attempt.path, attempt.spec.boot)
                attempt.lease_ended = not attempt.guard.holds()
                if attempt.lease_ended:
                    return False
            # Noted before the start, so that no command seems to have run shorter than it did.
            attempt.record["started"], attempt.begun = time.time(), time.monotonic()
            attempt.pid = spawn.spawn(attempt.spec, attempt.path, self.null)
        except (OSError, ValueError) as exc:
            attempt.record["outcome"] = exit_record.SPAWN_FAILED
            attempt.record["error"] = attempt_notes.why_unstarted(attempt.path) or spawn.reason(exc, attempt.spec)
            return False
        attempt.none_left = False
        return True

    def _is_short(self, attempt: _Attempt) -> bool:
        """Wait a moment; tell whether everything has ended by then."""
        deadline = time.monotonic() + BRIEF_S
        left_s = BRIEF_S
        while left_s > 0 and signal.sigtimedwait(_CHILD, left_s) is not None:
            self._reap(attempt)
            if attempt.ended:
                break
            left_s = deadline - time.monotonic()
        return attempt.none_left

    def _tell_started(self, attempt: _Attempt, claim: int) -> None:
        # A command that ends at once needs no note. A full disk must not end the job: without the note its processes
        # are still found by their environment.
        try:
            attempt.ticks = processes.birth_ticks(attempt.pid) or 0
            rundir.note_spawn(claim, attempt.pid, attempt.ticks, attempt.pid)
        except OSError as exc:
            attempt.record["error"] = f"the claim has no note of the command: {exc.strerror}"
        attempt.told = True
        self.report({"event": "started", **attempt.ids(), **self._identity(attempt), "parent": os.getppid()})

    def _identity(self, attempt: _Attempt) -> dict[str, int]:
        return {"pid": attempt.pid, "ticks": attempt.ticks, "shim_ticks": self.ticks}

    def _wait(self, attempt: _Attempt) -> None:
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if attempt.guard is not None:
            poll.register(attempt.guard.timer, select.POLLIN)
        if attempt.spec.with_daemon:
            poll.register(self.orders_fd, 0)  # only its hang-up: orders are for idle shims
        while True:
            self._reap(attempt)
            kept = attempt.ended and attempt.spec.keep_children and not attempt.terminated
            if attempt.none_left or kept:
                return
            timeout_s = self._press(attempt)
            if attempt.ended and self._only_kept(attempt):
                return
            timeout_s = timeout_s if attempt.caps is None else attempt.caps.look(timeout_s)
            if self.unsent:
                poll.register(self.reports, select.POLLOUT)
            for fd, event in poll.poll(None if timeout_s is None else max(0, timeout_s) * 1000 + 1):
                if fd == self.wake:
                    os.read(self.wake, 4096)
                elif fd == self.orders_fd and event & (select.POLLHUP | select.POLLERR):
                    poll.unregister(self.orders_fd)
                    self._stop(attempt, attempt.spec.grace_s)
                elif fd == self.reports.fileno():
                    poll.unregister(fd)
                    self._flush()
                elif attempt.guard is not None and not attempt.guard.holds():
                    poll.unregister(fd)
                    self._end_lease(attempt, attempt.guard.grace_s)

    def _reap(self, attempt: _Attempt) -> bool:
        """Reap ended children; tell whether there were any."""
        reaped = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                attempt.none_left = True
                return reaped
            if pid == 0:
                return reaped
            reaped = True
            if pid != attempt.pid or attempt.ended:
                continue
            attempt.ended = True
            code = processes.exit_code(status)
            attempt.record.update(
                code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                user_s=usage.ru_utime,
                system_s=usage.ru_stime,
                max_rss_kb=usage.ru_maxrss,
                ended=time.time(),
            )

    def _press(self, attempt: _Attempt) -> float | None:
        """Do what is due to end the tree; return seconds until the next step, or None."""
        if self.asked and not self._heed(attempt):
            return RETRY_S
        if attempt.ended and not attempt.terminated:
            self._terminate(attempt, attempt.spec.leave_grace_s)
        now = time.monotonic()
        if not attempt.terminated:
            pause_s = attempt.suspension.press(self.pid, attempt.is_kept, self.report)
            limit_s = self._keep_limits(attempt, now - attempt.suspension.seconds())
            if not attempt.terminated:
                return limit_s if pause_s is None else pause_s if limit_s is None else min(pause_s, limit_s)
        if attempt.killed_at is None and now < attempt.deadline:
            return attempt.deadline - now
        return self._kill(attempt, now)

    def _keep_limits(self, attempt: _Attempt, now: float) -> float | None:
        """End the attempt if one of its limits is over, warn its processes if that is due; return when to look again.

        `now` does not go on while the attempt is suspended.
        """
        limits = attempt.limits
        if limits is None or attempt.suspension.is_stopped:
            return None
        attempt.timed_out = limits.passed(now)
        if attempt.timed_out is not None:
            self._terminate(attempt, attempt.spec.grace_s)
        elif limits.is_warning_due(now):
            with contextlib.suppress(OSError):
                processes.warn_descendants(self.pid, attempt.spec.warn_signal, attempt.is_kept)
        return limits.wait_s(now)

    def _heed(self, attempt: _Attempt) -> bool:
        """Look for a `stop` or a `suspend` after a SIGTERM; False if it cannot be read now."""
        self.asked = False  # cleared before the look: a SIGTERM that comes during the look asks for another look
        try:
            stop = rundir.read_stop(attempt.path)
            attempt.suspension.look()
        except OSError:
            self.asked = True
            return False
        if stop is not None:
            self._stop(attempt, attempt.spec.grace_s if stop["grace_s"] is None else stop["grace_s"])
        return True

    def _stop(self, attempt: _Attempt, grace_s: float) -> None:
        # A command that had already ended by itself, or was being ended by a limit, keeps that outcome.
        attempt.cancelled = attempt.cancelled or not (attempt.ended or attempt.timed_out)
        self._terminate(attempt, grace_s)

    def _end_lease(self, attempt: _Attempt, grace_s: float) -> None:
        """End the attempt: the lease is over, and the broker may soon start another attempt elsewhere."""
        attempt.lease_ended = not (attempt.ended or attempt.timed_out)
        self._terminate(attempt, min(attempt.spec.grace_s, grace_s))

    def _terminate(self, attempt: _Attempt, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        if attempt.terminated:
            # A later request may shorten the grace, never extend it.
            attempt.deadline = min(attempt.deadline, deadline)
            return
        attempt.terminated = True
        attempt.deadline = deadline
        # Without a grace, what is suspended does not go on. Where the process table cannot be read, the kill has to do.
        with contextlib.suppress(OSError):
            processes.terminate_descendants(self.pid, attempt.is_kept, wakes=grace_s > 0)

    def _kill(self, attempt: _Attempt, now: float) -> float:
        if attempt.killed_at is None:
            attempt.killed_at = now
        with contextlib.suppress(OSError):
            processes.kill_descendants(self.pid, attempt.is_kept)
        if now - attempt.killed_at >= STUCK_AFTER_S and not attempt.stuck:
            attempt.stuck = True
            self.report({"event": "stuck", **attempt.ids(), "pid": attempt.pid})
        attempt.kill_pause_s = min(attempt.kill_pause_s * 2, KILL_PAUSE_MAX_S)
        return attempt.kill_pause_s

    def _only_kept(self, attempt: _Attempt) -> bool:
        """Tell whether only a daemon that the job started is left, with what it runs: the shim leaves it to init."""
        # A process born while the table is read may be missing in it. Its parent was there; if the parent is gone
        # too, it has ended, and there is a child to wait for now.
        return own_daemon.is_all_there_is(self.pid, attempt.is_kept) and not self._reap(attempt)

    def _finish(self, attempt: _Attempt) -> bool:
        if attempt.cancelled:
            attempt.record["outcome"] = exit_record.CANCELLED
        elif attempt.lease_ended:
            attempt.record["outcome"] = exit_record.LEASE_ENDED
        elif attempt.timed_out is not None:
            attempt.record.update(outcome=exit_record.TIMED_OUT, error=attempt.timed_out)
        if attempt.limits is not None:
            attempt.limits.close()
        if attempt.guard is not None:
            attempt.guard.close()
        if attempt.pid == 0:
            attempt.record["ended"] = time.time()
        else:
            log_cap.last_look(attempt.path, attempt.spec, attempt.caps, attempt.record)
            if attempt.record["outcome"] == exit_record.EXITED:
                attempt_notes.add_unstarted(attempt.path, attempt.record)
            attempt_notes.add_result(attempt.path, attempt.record)
        # While a daemon listens, its store is the durable record, and a sync here would cost every job a disk flush.
        synced = self.deaf
        recorded = attempt_notes.write_end(attempt.path, attempt.record, sync=synced)
        # Nothing new is begun without a daemon, nor before the record is written: only this shim knows the end.
        is_free = attempt.none_left and recorded
        self.prefetched = rundir.prefetched(attempt.path) if is_free and not self.deaf else None
        goes_on = self.prefetched is not None
        message = {"event": "exited", **attempt.ids(), "record": attempt.record, "next": goes_on}
        message["idle"] = is_free and not goes_on
        if attempt.pid and not attempt.told:
            message.update(self._identity(attempt))
        self.report(message)
        if self.unsent:
            self._drain()
        if not recorded or (self.deaf and not synced):
            attempt_notes.write_end_for_sure(attempt.path, attempt.record)
        return is_free and not self.deaf

    def _flush(self) -> None:
        while self.unsent and not self.deaf:
            try:
                # Per message, because the flags of the shared description belong to every shim.
                self.reports.send(self.unsent[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as exc:
                if exc.errno not in _DEAF:
                    raise
                self.deaf = True
            else:
                del self.unsent[0]
        if self.deaf:
            self.unsent.clear()

    def _drain(self) -> None:
        """Send every report, however long the daemon takes to read."""
        poll = select.poll()
        poll.register(self.reports, select.POLLOUT)
        while self.unsent:
            poll.poll()
            self._flush()

    def _on_term(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def _unpacked(packed: bytes) -> rundir.RunSpec | None:
    """Return the spec that came with an order; None if there is none, or one of another release."""
    if not packed:
        return None
    try:
        return rundir.RunSpec.unpacked(marshal.loads(packed))
    except (EOFError, TypeError, ValueError):
        return None
