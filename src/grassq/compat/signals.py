"""Turns signals into a descriptor that can be polled; the last of several ctrl-C ends the process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What the signals so far request.
STOP = 1
END_ALL = 2
LEAVE = 3
READ_SIZE = 64


class Leave(BaseException):
    """The last ctrl-C: leave at once."""


class Signals:
    """Collects SIGINT, SIGTERM and SIGHUP.

    Only a repeated ctrl-C has a further effect. A closed terminal sends SIGHUP twice, `timeout` sends SIGTERM twice,
    and a supervisor sends both; none of them means that running commands should be ended.
    """

    def __init__(self, leave_at: int = LEAVE, on_first: Callable[[int], None] = lambda number: None) -> None:
        """`leave_at` is the ctrl-C that ends the process, counted from 1; `on_first` is called in the first handler."""
        self._leave_at = leave_at
        self._on_first = on_first
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._interrupts = 0
        #: The first signal; 0 if there was none.
        self.first = 0
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in WATCHED:
            # A signal that was ignored at start (nohup, a background job of a shell) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def fileno(self) -> int:
        """Return a descriptor that is readable after a signal."""
        return self._reading

    def take(self) -> int:
        """Return 0, STOP or END_ALL. For LEAVE the signal handler raises `Leave`."""
        with suppress(BlockingIOError):
            os.read(self._reading, READ_SIZE)
        return max(self._interrupts, STOP) if self.first else 0

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.first:
            self.first = number
            self._on_first(number)
        self._interrupts += number == signal.SIGINT
        # Raised once: a ctrl-C that is held down would interrupt the exit itself.
        if number == signal.SIGINT and self._interrupts == self._leave_at:
            raise Leave


def ignore() -> None:
    """Ignore all three signals at exit: a signal could only interrupt the exit itself."""
    # A signal at this moment would make Python print a traceback about an ignored exception.
    sys.unraisablehook = _unraisable
    for number in WATCHED:
        signal.signal(number, signal.SIG_IGN)


def _unraisable(what: sys.UnraisableHookArgs, /) -> None:
    if not isinstance(what.exc_value, OSError):
        sys.__unraisablehook__(what)
