"""Reads GET /v1/events in a thread: whether the daemon is there, and that something changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import time
from typing import NamedTuple

from grassq.cli.top.feeds.asker import RETRY_MAX_S, RETRY_S, Background, Daemon
from grassq.errors import GrassError, NotFound, Refused
from grassq.net.event_stream import SILENT_S, read_frames
from grassq.net.http import Connection


class News(NamedTuple):
    """Whether the daemon is there; and whether jobs changed, so that what is shown must be read again."""

    is_live: bool
    has_changed: bool
    #: Seconds since the epoch: when the daemon went away.
    lost_at: float | None = None
    #: Why it is not there.
    why: str = ""


class LiveEvents(Background):
    """The thread. It goes on for ever: with the next daemon from the position after the last change."""

    def __init__(self, daemon: Daemon, tell: Callable[[News], None], failed: Callable[[Exception], None]) -> None:
        super().__init__("top-events", failed)
        self._daemon = daemon
        self._tell = tell
        self._since: str | None = None
        self._lost_at: float | None = None
        self._connection: Connection | None = None
        #: A change was told and not taken yet.
        self._is_told = False
        self._stopped = threading.Event()
        self._soon = threading.Event()

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._soon.set()
        if (connection := self._connection) is not None:
            connection.interrupt()

    def retry(self) -> None:
        """Ask a daemon that is away now."""
        self._soon.set()

    def work(self) -> None:
        """Read changes; wait for a daemon that is away."""
        pause_s = RETRY_S
        while not self._stopped.is_set():
            why = "the daemon ended its answer"
            try:
                if self._read():
                    pause_s = RETRY_S
            except (Refused, NotFound):
                raise
            except GrassError as error:
                why = str(error)
            if self._stopped.is_set():
                return
            self._lost_at = self._lost_at or time()
            self._tell(News(False, False, self._lost_at, why))
            self._soon.wait(pause_s)
            self._soon.clear()
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    def _read(self) -> bool:
        """Read one connection to its end; return whether there was one."""
        _, parts, connection = self._daemon.stream("/v1/events", [("since", self._since)], SILENT_S)
        self._connection = connection
        try:
            for document, _ in read_frames(parts):
                if self._stopped.is_set():
                    return True
                self._since = f"{document.get('epoch')}.{document.get('seq')}"
                was_lost, self._lost_at = self._lost_at is not None, None
                if document.get("event") != "heartbeat" or was_lost:
                    self._change()
        finally:
            self._connection = None
            connection.close()
        return True

    def _change(self) -> None:
        # A flood of changes is one message: the next one is told after the screen has taken this one.
        if not self._is_told:
            self._is_told = True
            self._tell(News(True, True))

    def take(self) -> None:
        """Say that what changed so far is about to be read; the next change is told again."""
        self._is_told = False
