"""Writes to stderr: messages, and a progress bar that is hidden while other text is written to the terminal."""

from __future__ import annotations

import os
from time import monotonic

from grassq.cli import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.cli.progress import ProgressBar

#: Seconds between two redraws of the bar.
DRAW_S = 0.2


class Messages:
    """Writes messages and the progress bar to stderr."""

    def __init__(self, program: str, unit: str = "commands") -> None:
        """`unit` is what the bar counts."""
        self._program = program
        self._unit = unit
        self._is_watched = os.isatty(2)
        self._shares_terminal = os.isatty(1)
        self._bar: ProgressBar | None = None
        self._drawn = 0.0

    def say(self, message: str) -> None:
        """Write one line that begins with the program name."""
        self.write(f"{self._program}: {render.clean(message)}\n".encode("utf-8", "backslashreplace"))

    def write(self, data: bytes) -> None:
        """Write bytes, on a terminal with control characters as escapes; ignore an unwritable stderr."""
        self.hide()
        try:
            render.write(data, fd=2)
        except OSError:
            return

    @property
    def is_watched(self) -> bool:
        """Whether stderr is a terminal, so that a bar is drawn."""
        return self._is_watched

    def draw(self, done: int, total: int, running: int, failed: int, remark: str = "") -> float | None:
        """Draw the bar; return the seconds until the next redraw, or None if stderr is no terminal."""
        if not self._is_watched:
            return None
        now = monotonic()
        if now < self._drawn + DRAW_S:
            return self._drawn + DRAW_S - now
        if self._bar is None:
            from grassq.cli.progress import ProgressBar

            self._bar = ProgressBar(self._unit)
        remarks = [f"{running} running", f"{failed} failed" if failed else "", remark]
        try:
            self._bar.show(done, total, ", ".join(filter(None, remarks)))
        except OSError:
            self._drop()
            return None
        self._drawn = now
        return DRAW_S

    def step_aside(self) -> None:
        """Hide the bar before a write to stdout, if stdout is the same terminal."""
        if self._shares_terminal:
            self.hide()

    def hide(self) -> None:
        """Hide the bar."""
        try:
            if self._bar is not None:
                self._bar.hide()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        """Stop drawing: the terminal is gone, as after a logout."""
        self._bar = None
        self._is_watched = False
        # Python flushes stderr at exit; a second failure there would change the exit code.
        silence = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(silence, 2)
        os.close(silence)
