"""Work on files, on threads beside the event loop."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from grassq.core.printable import printable
from grassq.errors import GrassError

log = logging.getLogger(__name__)

#: Pieces of work that are done at a time: more would only share the disk. The others wait, at most one per attempt.
AT_ONCE = 2

Work = Callable[[], object]
#: Takes the result of the work, or its error.
Done = Callable[[Any], None]


class WorkFailed(GrassError):
    """A piece of work has ended by an unexpected error (a bug); trying again would not help."""


class BackgroundWork:
    """Does each piece of work once, a few at a time, and tells the event loop."""

    def __init__(self) -> None:
        self._call_soon: Callable[..., object] | None = None
        self._asked: set[Hashable] = set()
        self._waiting: deque[tuple[Hashable, Work, Done]] = deque()
        self._running = 0

    def open(self, call_soon: Callable[..., object]) -> None:
        """Report results with `call_soon`, which any thread may call."""
        self._call_soon = call_soon

    def ask(self, key: Hashable, work: Work, done: Done) -> None:
        """Do the work and call `done` with its result, or with its OSError or GrassError; not twice at a time.

        Any other error is logged, and comes as WorkFailed.
        """
        if key not in self._asked:
            self._asked.add(key)
            self._waiting.append((key, work, done))
            self._begin()

    def _begin(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            self._running += 1
            # The end of the process does not wait for it: the next daemon does what is left.
            threading.Thread(target=self._do, args=self._waiting.popleft(), daemon=True).start()

    def _do(self, key: Hashable, work: Work, done: Done) -> None:
        try:
            result = work()
        except (OSError, GrassError) as error:
            result = error
        # Whatever it is: the slot and the key have to be given back, or no file of any job would move again.
        except Exception as error:
            log.exception("background_work_failed key=%s", key)
            result = WorkFailed(f"an error in Grass itself: {printable(f'{type(error).__name__}: {error}')}")
        assert self._call_soon is not None
        try:
            self._call_soon(self._end, key, done, result)
        except RuntimeError:
            return  # the event loop is closed

    def _end(self, key: Hashable, done: Done, result: object) -> None:
        self._asked.discard(key)
        self._running -= 1
        self._begin()
        done(result)
