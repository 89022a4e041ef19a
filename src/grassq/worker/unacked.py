"""Attempts of an earlier daemon whose end the broker may not know, or which still run."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping

from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.worker.attempts import HeldAttempt
from grassq.worker.machine import AttemptProcesses

log = logging.getLogger(__name__)

#: Run dirs that are considered, newest first. The broker asks about older attempts that it believes to run.
ATTEMPTS_MAX = 10_000
#: Ends that wait for an acknowledgement at a time, and run dirs that are looked at in one tick.
UNTOLD_MAX = 1000
LOOKS_MAX = 500


class UnackedReports:
    """Attempts to look at, a few at a time; filled once, at the first connection of a daemon."""

    def __init__(self, machine: AttemptProcesses) -> None:
        self._machine = machine
        self._left: deque[AttemptId] | None = None

    def __bool__(self) -> bool:
        return bool(self._left)

    def fill(self) -> None:
        """List the unacknowledged attempts, at the first call only."""
        if self._left is None:
            self._left = deque(self._machine.unacked(ATTEMPTS_MAX))

    def take(self, held: Mapping[AttemptId, HeldAttempt]) -> Iterator[tuple[AttemptId, RunState]]:
        """Yield the next attempts that have ended or still run, and are not held yet."""
        if not self._left:
            return
        untold = sum(each.end is not None for each in held.values())
        for _ in range(min(LOOKS_MAX, len(self._left), UNTOLD_MAX - untold)):
            attempt = self._left.popleft()
            if attempt in held:
                continue
            try:
                found = self._machine.look(attempt)
            except OSError as error:
                log.error("outbox_put_off job=%s attempt=%s error=%s", *attempt, error)
                self._left.append(attempt)
                continue
            # The broker asks about the others if it believes them to run: only it knows the boot in which they began.
            if found.exit is not None or found.shim_alive or found.command_alive:
                yield attempt, found
