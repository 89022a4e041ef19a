"""Signals as something that can be waited for; one ctrl-C too many ends the process."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What has come asks for this much.
STOP = 1
END_ALL = 2
LEAVE = 3
READ_SIZE = 64


class Leave(BaseException):
    """Asked to go so often that nothing more is waited for."""


class Signals:
    """Collects the signals that ask us to stop.

    Only a ctrl-C means more when it comes again. A closed terminal sends SIGHUP twice, `timeout` SIGTERM twice and a
    supervisor one after the other: none of them knows what runs here, and whoever wants it ended says so.
    """

    def __init__(self) -> None:
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._interrupts = 0
        #: The first that came; 0 while there was none.
        self.first = 0
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in WATCHED:
            # Who started us with a signal ignored (nohup, a shell's background) wants it to stay so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)

    def fileno(self) -> int:
        """Readable when one has come."""
        return self._reading

    def take(self) -> int:
        """What they ask for in all: 0, STOP or END_ALL; LEAVE is raised and not waited for."""
        with suppress(BlockingIOError):
            os.read(self._reading, READ_SIZE)
        return max(self._interrupts, STOP) if self.first else 0

    def _heard(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or number
        self._interrupts += number == signal.SIGINT
        # Once: whoever holds ctrl-C down would interrupt the leaving itself.
        if number == signal.SIGINT and self._interrupts == LEAVE:
            raise Leave


def ignore() -> None:
    """Nothing is left that could be stopped: what comes now would only break the end."""
    # Of one that comes in this very moment Python would print a traceback that says it was ignored.
    sys.unraisablehook = _unraisable
    for number in WATCHED:
        signal.signal(number, signal.SIG_IGN)


def _unraisable(what: sys.UnraisableHookArgs, /) -> None:
    if not isinstance(what.exc_value, OSError):
        sys.__unraisablehook__(what)
