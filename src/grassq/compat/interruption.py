"""Ends jobs after a signal, on a thread of its own: the call may be busy with results or with stdout."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from time import sleep

from grassq.errors import GrassError, StoreUnavailable, Unreachable
from grassq.net.client import ApiClient, compact

#: Seconds until a daemon that did not answer is told again to end the jobs.
AGAIN_S = 1.0
#: Seconds that a call which leaves waits until the daemon was told to end the jobs.
TOLD_S = 5.0


class Interruption:
    """Ends all jobs of a call in one request, as soon as `begin` is called."""

    def __init__(self, home: str, jobs: Collection[int]) -> None:
        """`jobs` are those that have not ended; another thread may remove some of them."""
        self._home = home
        self._jobs = jobs
        # Not an Event: a signal's handler would wait for ever for a lock that the interrupted code has.
        self._begun = os.eventfd(0, os.EFD_CLOEXEC)
        self._told = threading.Event()
        # The end of the process does not wait for this thread: another ctrl-C leaves at once.
        threading.Thread(target=self._run, name="interruption", daemon=True).start()

    def begin(self) -> None:
        """End the jobs. May be called by a signal's handler, and more than once."""
        os.eventfd_write(self._begun, 1)

    def is_told(self, limit_s: float = TOLD_S) -> bool:
        """Return whether the daemon was told to end the jobs, after waiting for it. Call it after `begin`."""
        return self._told.wait(limit_s)

    def _run(self) -> None:
        os.eventfd_read(self._begun)
        with ApiClient(self._home) as client:
            self._tell(client)
        self._told.set()

    def _tell(self, client: ApiClient) -> None:
        while jobs := compact(list(self._jobs)):
            try:
                client.kill(jobs)
                return
            except (Unreachable, StoreUnavailable):
                sleep(AGAIN_S)  # the daemon restarts, or cannot write now
            except GrassError:
                return  # all of them have ended
