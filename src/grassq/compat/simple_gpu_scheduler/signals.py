"""Signals behind a descriptor that can be polled; the third ctrl-C ends the process."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What the signals so far ask for.
STOP = 1
END_ALL = 2
LEAVE = 3
READ_SIZE = 64


class Leave(BaseException):
    """The third ctrl-C: leave at once."""


class Signals:
    """Collects the signals that ask us to stop.

    Only a ctrl-C means more when it comes again. A closed terminal sends SIGHUP twice, `timeout` SIGTERM twice and a
    supervisor one after the other: none of them knows what runs here, and whoever wants it ended says so.
    """

    def __init__(self) -> None:
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._interrupts = 0
        #: The first signal; 0 before there is one.
        self.first = 0
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in WATCHED:
            # Who started us with a signal ignored (nohup, a shell's background) wants it to stay so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)

    def fileno(self) -> int:
        """Return a descriptor that is readable when a signal has come."""
        return self._reading

    def take(self) -> int:
        """Return what the signals ask for: 0, STOP or END_ALL. For LEAVE the handler raises."""
        with suppress(BlockingIOError):
            os.read(self._reading, READ_SIZE)
        return max(self._interrupts, STOP) if self.first else 0

    def _heard(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or number
        self._interrupts += number == signal.SIGINT
        # Raised once: a ctrl-C that is held down would interrupt the leaving itself.
        if number == signal.SIGINT and self._interrupts == LEAVE:
            raise Leave


def ignore() -> None:
    """Ignore all signals: nothing is left that could be stopped, and a signal would only break the end."""
    # For a signal in this very moment Python would print a traceback that says the exception was ignored.
    sys.unraisablehook = _unraisable
    for number in WATCHED:
        signal.signal(number, signal.SIG_IGN)


def _unraisable(what: sys.UnraisableHookArgs, /) -> None:
    if not isinstance(what.exc_value, OSError):
        sys.__unraisablehook__(what)
