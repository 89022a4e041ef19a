"""The time limits of the current attempt: when its processes are warned, when it is ended, and why.

All times are on the monotonic clock, so a machine that sleeps, and a clock that is set, change nothing. The limits are
counted from the start of the command and kept in the shim alone: no restart of a daemon or a worker extends them.
"""

from __future__ import annotations

import os

from grassq import atomic_files
from grassq.core.printable import exact_span
from grassq.run import rundir

#: The seconds between two looks at the logs; of a short idle limit, a part of it.
LOOK_S = 5.0
LOOK_PARTS = 8

_NEVER = float("inf")


class TimeLimits:
    """The limits of one attempt."""

    __slots__ = ("_ends_at", "_idle_s", "_limit_s", "_logs", "_look_at", "_quiet_since", "_sizes", "_warn_at")

    def __init__(self, path: str, spec: rundir.RunSpec, begun: float) -> None:
        """Keep the limits of the attempt at `path`, whose command began at this time."""
        self._limit_s = spec.time_limit_s
        self._idle_s = spec.idle_limit_s
        self._ends_at = begun + spec.time_limit_s if spec.time_limit_s else _NEVER
        self._warn_at = self._ends_at - spec.warn_s if spec.warn_s else _NEVER
        #: The descriptor of each log; -1 while it is not open.
        self._logs = {rundir.log_path(path, stream): -1 for stream in rundir.streams_of(spec.split)}
        self._sizes: list[int] | None = []
        self._quiet_since = begun
        self._look_at = begun if spec.idle_limit_s else _NEVER

    def close(self) -> None:
        """Close the logs."""
        for fd in self._logs.values():
            if fd >= 0:
                os.close(fd)
        self._logs = {}

    def passed(self, now: float) -> str | None:
        """Return which limit is over, in words; None while none is."""
        if now >= self._ends_at:
            return reached(self._limit_s)
        if now >= self._look_at and self._is_quiet(now):
            return quiet(self._idle_s)
        return None

    def is_warning_due(self, now: float) -> bool:
        """Tell, once, whether the processes have to be warned now."""
        if now < self._warn_at:
            return False
        self._warn_at = _NEVER
        return True

    def wait_s(self, now: float) -> float | None:
        """Return the seconds until something is due; None if nothing is."""
        due = min(self._ends_at, self._warn_at, self._look_at)
        return None if due == _NEVER else max(0.0, due - now)

    def _is_quiet(self, now: float) -> bool:
        """Look at the logs, and tell whether nothing was written for too long."""
        sizes = self._measure()
        if sizes is None or sizes != self._sizes:
            self._sizes, self._quiet_since = sizes, now
        over_at = self._quiet_since + self._idle_s
        self._look_at = min(over_at, now + min(LOOK_S, self._idle_s / LOOK_PARTS))
        return now >= over_at

    def _measure(self) -> list[int] | None:
        """Return the sizes of the logs; None if one cannot be looked at now."""
        try:
            for path, fd in self._logs.items():
                if fd < 0:
                    self._logs[path] = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | atomic_files.OURS)
            # By the descriptor: a command that removes or replaces its log goes on writing to this file.
            return [os.fstat(fd).st_size for fd in self._logs.values()]
        except OSError:
            return None


def reached(limit_s: float) -> str:
    """Return that an attempt was ended by its time limit."""
    return f"the time limit of {exact_span(limit_s)} was reached"


def quiet(idle_s: float) -> str:
    """Return that an attempt was ended because it wrote nothing."""
    return f"no output for {exact_span(idle_s)}"


def of(path: str, spec: rundir.RunSpec, begun: float) -> TimeLimits | None:
    """Return what keeps the limits of an attempt; None if it has none."""
    return TimeLimits(path, spec, begun) if spec.time_limit_s or spec.idle_limit_s else None
