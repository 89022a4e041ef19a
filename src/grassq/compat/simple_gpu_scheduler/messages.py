"""Writes to stderr: messages, and a progress bar that is hidden while other text is written to the terminal."""

from __future__ import annotations

import os
from time import monotonic

from grassq.cli import render
from grassq.compat.simple_gpu_scheduler.arguments import PROGRAM
from grassq.compat.simple_gpu_scheduler.job_table import JobTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.cli.progress import ProgressBar

#: Seconds between two redraws of the bar.
DRAW_S = 0.2


class Messages:
    """Writes messages and the progress bar to stderr."""

    def __init__(self) -> None:
        self._is_watched = os.isatty(2)
        self._shares_terminal = os.isatty(1)
        self._bar: ProgressBar | None = None
        self._drawn = 0.0

    def say(self, message: str) -> None:
        """Write one line that begins with the program name."""
        self.write(f"{PROGRAM}: {render.clean(message)}\n".encode("utf-8", "backslashreplace"))

    def write(self, data: bytes) -> None:
        """Write bytes, on a terminal with control characters as escapes; ignore an unwritable stderr."""
        self.hide()
        try:
            render.write(data, fd=2)
        except OSError:
            return

    def draw(self, table: JobTable) -> float | None:
        """Draw the bar; return the seconds until the next redraw, or None if stderr is no terminal."""
        if not self._is_watched:
            return None
        now = monotonic()
        if now < self._drawn + DRAW_S:
            return self._drawn + DRAW_S - now
        if self._bar is None:
            from grassq.cli.progress import ProgressBar

            self._bar = ProgressBar("commands")
        remarks = [f"{table.running} running", f"{table.failed} failed" if table.failed else ""]
        try:
            self._bar.show(table.done, table.total, ", ".join(filter(None, remarks)))
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
