"""Signals as something that can be waited for; one too many ends the process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: The first stops, the second ends what runs, and this one leaves at once.
LEAVE_AT = 3
READ_SIZE = 64


class Leave(BaseException):
    """Asked to go so often that nothing more is waited for."""


class Signals:
    """Collects the signals that ask us to stop."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._count = 0
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
        """How many have come in all."""
        with suppress(BlockingIOError):
            os.read(self._reading, READ_SIZE)
        return self._count

    def _heard(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or number
        self._count += 1
        if self._count >= LEAVE_AT:
            raise Leave
