"""The files of simulated jobs: what some are sent before they start, and what some leave to be brought back.

Both are work of the worker's process, as in `grassq.worker.local_files`: it takes a random time, ends with the process,
may fail, and is then asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO
from typing import TYPE_CHECKING

from grassq.core.model import AttemptId
from grassq.worker.agent import Agent

if TYPE_CHECKING:
    from tests.sim.world import Machine

#: How likely a transfer fails while faults go on.
FAILS = 0.15


class FileWork:
    """The transfers of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: The attempts that files are sent to, and whether each is ordered when they are there.
        self._sending: dict[AttemptId, bool] = {}
        self._bringing: set[AttemptId] = set()
        self._failed: set[AttemptId] = set()

    def end(self) -> None:
        """The worker's process ends, and every transfer with it."""
        self._sending.clear()
        self._bringing.clear()
        self._failed.clear()

    def send(self, attempt: AttemptId, *, at_once: bool) -> bool:
        """Whether an attempt has its files; else they are sent, and with `at_once` it is ordered then."""
        if attempt[0] % 5 not in (1, 3) or self._machine.dirs[attempt].sent:
            return True
        if attempt in self._failed:
            self._failed.remove(attempt)
            raise OSError(EIO, "its files cannot be sent")
        if attempt not in self._sending:
            self._later(lambda: self._sent(attempt))
            self._tell_delay(attempt)
        self._sending[attempt] = at_once or self._sending.get(attempt, False)
        return False

    def stop(self, attempt: AttemptId) -> None:
        """An attempt that is sent files is ordered without them: its shim finds that it must not start."""
        if self._sending.get(attempt):
            self._sending[attempt] = False
            self._machine.order(attempt)

    def bring(self, attempt: AttemptId) -> bool:
        """Whether what an attempt leaves is there; else it is brought, and the agent is told."""
        folder = self._machine.dirs.get(attempt)
        if folder is None or attempt[0] % 3 or folder.collected:
            return True
        if attempt not in self._bringing:
            self._bringing.add(attempt)
            self._later(lambda: self._brought(attempt))
        return False

    def _sent(self, attempt: AttemptId) -> None:
        is_due, folder = self._sending.pop(attempt), self._machine.dirs.get(attempt)
        if self._fails():
            # Of a disk that is full the agent hears when it tries again, of a line that broke it does not.
            if self._machine.time.rng.random() < 0.5:
                self._failed.add(attempt)
        elif folder is not None:
            folder.sent = True
            if is_due:
                self._machine.order(attempt)

    def _brought(self, attempt: AttemptId) -> None:
        self._bringing.remove(attempt)
        folder = self._machine.dirs.get(attempt)
        if folder is not None and not self._fails():
            folder.collected = True
            self._later(lambda: self._agent.shim_gone(attempt), 0.1)

    def _fails(self) -> bool:
        return self._machine.time.faulty and self._machine.time.rng.random() < FAILS

    def _tell_delay(self, attempt: AttemptId) -> None:
        """A person is told of some transfers how far they are."""
        words = {"event": "delayed", "job": attempt[0], "attempt": attempt[1], "shim": 0, "why": "sending its files"}
        if self._machine.time.rng.random() < 0.3:
            self._later(lambda: self._agent.heard(words), 1.0)

    @property
    def _agent(self) -> Agent:
        assert self._machine.agent is not None
        return self._machine.agent

    def _later(self, action: Callable[[], None], most_s: float | None = None) -> None:
        """Do something after a random time, unless the worker's process has ended by then."""
        machine, rng = self._machine, self._machine.time.rng
        shim_pool = machine.shim_pool

        def act() -> None:
            if machine.shim_pool == shim_pool:
                action()

        machine.time.after(rng.uniform(0, most_s or rng.choice((0.1, 1.0, 8.0))), act)
