"""Runs `grass top`: one frame of text, or the screen; leaves the terminal as it was, however it ends."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from grassq import home as homes
from grassq.cli import render
from grassq.cli.fast import current_home
from grassq.cli.top.feeds.asker import Daemon
from grassq.cli.top.frame import ASCII, Glyphs
from grassq.errors import GrassError

if TYPE_CHECKING:
    from grassq.cli.top.app import TopApp

#: The details of a failure of `top` itself, in the home. Each failure replaces the one before.
CRASH_NAME = "top-crash.log"


def run(
    broker: str | None,
    *,
    once: bool,
    read_only: bool,
    as_ascii: bool,
    filter_: str,
    columns: tuple[str, ...],
    mouse: bool,
) -> int:
    """Run `grass top` and return its exit code."""
    home = current_home()
    daemon = Daemon(home, homes.broker(home, broker))
    glyphs = ASCII if as_ascii or not render.is_utf8() else Glyphs()
    if once or not (os.isatty(0) and os.isatty(1)):
        from grassq.cli.top.once import print_frame

        return print_frame(daemon, glyphs, filter_, columns)
    from grassq.cli.top.app import TopApp

    app = TopApp(daemon, glyphs, read_only=read_only, filter_=filter_, columns=columns)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave(app))
    code = app.run(mouse=mouse)
    if (error := app.failure) is not None:
        raise _crash(home, error)
    return code or 0


def _leave(app: TopApp) -> signal.Handlers:
    """Return a handler of a signal that ends the screen in order: the terminal is restored, then the process ends."""

    def handler(number: int, frame: FrameType | None) -> None:
        # From another thread, because a message from this one would not wake the loop.
        threading.Thread(target=app.call_from_thread, args=(app.exit, 128 + number), daemon=True).start()

    return handler  # type: ignore[return-value]


def _crash(home: str, error: BaseException) -> GrassError:
    """Return the message about a failure of `top` itself, whose details are in a file."""
    if isinstance(error, GrassError):
        return error
    path = Path(home) / CRASH_NAME
    try:
        path.write_text("".join(traceback.format_exception(error)))
        details = f"the details are in {path}"
    except OSError as failed:
        details = f"the details cannot be written to {path}: {failed.strerror}"
    return GrassError(f"top failed ({type(error).__name__}: {error}); {details}; jobs keep running")
