"""The shim's side of a lease: until when an attempt that may be started elsewhere may run here.

The worker renews the lease in the run dir while the broker answers it. The broker counts the whole length of a lease
from the last message it received; everything here fits into this length, counted from when the message was sent:

    0.75   `until`: the worker writes no later time than this (grassq.worker.leases)
    0.80   a lease file that could not be read until now counts as not renewed
    0.90   the grace after TERM is over, and everything left is killed
"""

from __future__ import annotations

import ctypes
import os
import time

from grassq.run import processes, rundir

UNREADABLE_PART = 0.05
GRACE_PART = 0.1
# How often a file that cannot be read is tried again within its part.
UNREADABLE_TRIES = 5

_CLOCK_BOOTTIME = 7
_ABSOLUTE = 1


def boottime() -> float:
    """Return seconds since boot, including time the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseTimer:
    """The lease of the current attempt, and a timer that becomes readable when the lease must be read again."""

    __slots__ = ("_boot", "_lease", "_path", "timer")

    def __init__(self, path: str, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._lease = rundir.Lease(0.0, 0.0)
        # A timer on this clock fires on waking up; the timeout of a poll would first wait out the rest of its time.
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self.timer = processes.checked(processes.libc.timerfd_create(_CLOCK_BOOTTIME, flags))

    def holds(self) -> bool:
        """Tell whether the attempt may run now; if so, set the timer for the next check."""
        now = boottime()
        try:
            lease = rundir.read_lease(self._path, self._boot)
        except OSError:
            margin = self._lease.length_s * UNREADABLE_PART
            if now >= self._lease.until + margin:
                return False
            return self._ask_again(now + margin / UNREADABLE_TRIES)
        if lease is None or lease.until <= now:
            return False
        self._lease = lease
        return self._ask_again(lease.until)

    @property
    def grace_s(self) -> float:
        """Return the longest grace there is time for once the lease is over."""
        return self._lease.length_s * GRACE_PART

    def close(self) -> None:
        """Close the timer."""
        os.close(self.timer)

    def _ask_again(self, at: float) -> bool:
        seconds = int(at)
        # Interval (none), then the time; a time of 0 would switch the timer off.
        setting = (ctypes.c_long * 4)(0, 0, seconds, max(1, int((at - seconds) * 1e9)))
        processes.checked(processes.libc.timerfd_settime(self.timer, _ABSOLUTE, setting, None))
        return True
