"""Shows text with a pager if it is longer than the screen."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from types import TracebackType

from grassq import home as homes
from grassq.cli import render

#: The pager if none is set, and the environment it gets: show colours, and end at once if all fits.
PAGER = "less -R"
LESS = "FRX"
#: Characters that are held back until it is known whether all fits on the screen.
HELD_MAX = 1 << 20


def pager_words() -> list[str]:
    """Return the command of the pager that the user wants: $GRASS_PAGER, $PAGER or `less`; no words for no pager."""
    environ = homes.environment_text()
    try:
        words = shlex.split(environ.get("GRASS_PAGER", environ.get("PAGER", PAGER)))
    except ValueError:
        return []  # a quote is not closed
    return [] if words == ["cat"] else words


class PagedOutput:
    """Takes lines; the first screen of them is held back until it is known whether they need a pager."""

    def __init__(self, *, allowed: bool) -> None:
        self._words = pager_words() if allowed and os.isatty(1) else []
        self._held: list[str] = []
        self._held_size = 0
        self._pager: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PagedOutput:
        return self

    def line(self, text: str) -> None:
        """Take a line without its newline."""
        if not self._words:
            render.write_unchanged(_encoded(text + "\n"))
            return
        if self._pager is None:
            self._held.append(text + "\n")
            self._held_size += len(text)
            if len(self._held) < render.height() and self._held_size < HELD_MAX:
                return
            if not self._start():
                return
            data, self._held = "".join(self._held), []
        else:
            data = text + "\n"
        assert self._pager is not None and self._pager.stdin is not None
        self._pager.stdin.write(_encoded(data))

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Write what was held back, or wait for the pager. A pager that ends early is no error."""
        if self._pager is None:
            render.write_unchanged(_encoded("".join(self._held)))
            return False
        assert self._pager.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._pager.stdin.close()
        while True:
            try:
                self._pager.wait()
                break
            except KeyboardInterrupt:
                continue  # the key is the pager's
        return isinstance(problem, BrokenPipeError | KeyboardInterrupt)

    def _start(self) -> bool:
        """Start the pager; without it the text is printed as it is."""
        environ = {**homes.environment_text()}
        environ.setdefault("LESS", LESS)
        try:
            self._pager = subprocess.Popen(self._words, stdin=subprocess.PIPE, env=environ)
        except OSError:
            self._words = []
            render.write_unchanged(_encoded("".join(self._held)))
            self._held = []
            return False
        return True


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
