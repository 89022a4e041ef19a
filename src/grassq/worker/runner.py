"""Attempts as real processes: run dirs below the home, a crew of shims, and pidfds."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Protocol

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.core.reconcile import Found
from grassq.run import processes, rundir
from grassq.run.crew import Crew
from grassq.worker.agent import exited
from grassq.worker.launch import run_spec

log = logging.getLogger(__name__)


class Readers(Protocol):
    """The part of an event loop that watches descriptors."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object:
        """Call back whenever a descriptor is readable."""

    def remove_reader(self, fd: int) -> object:
        """Stop that."""


class ProcessRunner:
    """The process layer of a worker on this machine."""

    def __init__(
        self,
        home: str,
        crew: Crew,
        readers: Readers,
        shim_gone: Callable[[AttemptId], None],
        *,
        store: str,
        with_daemon: bool,
    ) -> None:
        self.boot = processes.boot_id()
        self._home = home
        self._crew = crew
        self._readers = readers
        self._shim_gone = shim_gone
        self._store = store
        self._with_daemon = with_daemon
        self._watched: dict[AttemptId, int] = {}

    def path(self, attempt: AttemptId) -> str:
        """The run dir of an attempt."""
        return rundir.attempt_dir(self._home, *attempt)

    def begin(self, start: Start) -> None:
        """Lay out the run dir and order the attempt."""
        path = self.path(start.id)
        shared = rundir.attempt_dir(self._home, start.checkpoint_of or start.job, 0)
        checkpoint = rundir.checkpoint_dir(shared)
        spec = run_spec(start, path, checkpoint, store=self._store, boot=self.boot, with_daemon=self._with_daemon)
        rundir.prepare(path, spec)
        os.makedirs(checkpoint, mode=0o700, exist_ok=True)
        # When the crew's backlog is full, the agent's tick begins it again.
        self._crew.order(path)

    def look(self, attempt: AttemptId) -> Found:
        """What the run dir and the process table say."""
        found = rundir.look(self.path(attempt), self.boot)
        return Found(
            exit=None if found.exit is None else exited(attempt[1], found.exit),
            void=found.void,
            claimed=found.claimed,
            shim_alive=found.shim_alive,
            command_alive=found.command_alive or bool(found.members),
            pid=None if found.command is None else found.command[0],
        )

    def watch(self, attempt: AttemptId) -> None:
        """Watch the shim's pidfd; a shim that is gone already is told at once."""
        if attempt in self._watched:
            return
        found = rundir.look(self.path(attempt), self.boot)
        pidfd = processes.open_verified(*found.shim) if found.shim is not None else None
        if pidfd is None:
            self._shim_gone(attempt)
            return
        self._watched[attempt] = pidfd
        self._readers.add_reader(pidfd, lambda: self._gone(attempt))

    def _gone(self, attempt: AttemptId) -> None:
        self._unwatch(attempt)
        self._shim_gone(attempt)

    def _unwatch(self, attempt: AttemptId) -> None:
        pidfd = self._watched.pop(attempt)
        self._readers.remove_reader(pidfd)
        os.close(pidfd)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Leave the stop file, then wake the shim if there is one."""
        path = self.path(attempt)
        rundir.request_stop(path, grace_s, "asked by the user")
        found = rundir.look(path, self.boot)
        if found.shim is not None and found.shim_alive:
            processes.signal_verified(*found.shim, signal.SIGTERM)

    def void(self, attempt: AttemptId, boot: str) -> bool:
        """Create the claim ourselves, so that no shim ever can."""
        return rundir.void(self.path(attempt), self._store, *attempt, boot)

    def end_orphan(self, attempt: AttemptId, *, kill: bool) -> None:
        """Signal whatever is left of an attempt whose shim is gone."""
        path = self.path(attempt)
        members = rundir.orphans(path, rundir.look(path, self.boot))
        processes.signal_all(members, signal.SIGKILL if kill else signal.SIGTERM)

    def close(self) -> None:
        """Stop watching; what runs, runs on."""
        for attempt in list(self._watched):
            self._unwatch(attempt)
