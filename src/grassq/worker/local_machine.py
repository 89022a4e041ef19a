"""Attempts as real processes: run dirs below the home, a crew of shims, and pidfds."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Callable, Collection
from typing import Any, Protocol

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.run import processes, rundir, shim
from grassq.run.shim_pool import ShimPool
from grassq.worker.attempts import exited
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detectors import DETECTORS, variables_of
from grassq.worker.leases import Lease
from grassq.worker.run_spec import run_spec

log = logging.getLogger(__name__)

#: Of so many attempts that come after another one it is remembered what to run.
FOLLOWING_MAX = 128


class Readers(Protocol):
    """The part of an event loop that watches descriptors."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object:
        """Call back whenever a descriptor is readable."""

    def remove_reader(self, fd: int) -> object:
        """Stop that."""


class LocalMachine:
    """The process layer of a worker on this machine."""

    def __init__(
        self,
        home: str,
        shim_pool: ShimPool,
        readers: Readers,
        shim_gone: Callable[[AttemptId], None],
        *,
        store: str,
        with_daemon: bool,
        default_env: DefaultEnvironment | None = None,
        apart: bool = False,
        aside: Callable[[Callable[[], None]], object] = lambda work: work(),
    ) -> None:
        """`around` is what jobs from other machines are given; `aside` does what may take long.

        `apart` is for a broker in another process: it is told what is held here, and what it has acknowledged is
        marked, so that nothing waits for it to ask. A broker in this process has the same disk, asks about all it
        believes to run at every start, and a home may well have 100,000 old run dirs: there both are left out.
        """
        self.boot = processes.boot_id()
        self._home = home
        self._shim_pool = shim_pool
        self._readers = readers
        self._shim_gone = shim_gone
        self._store = store
        self._with_daemon = with_daemon
        self._around = default_env or DefaultEnvironment()
        self._apart = apart
        self._aside = aside
        #: How jobs are told which devices they hold; detectors of other packages are added when they are loaded.
        self.variables = variables_of(DETECTORS)
        self._watched: dict[AttemptId, int] = {}
        #: What to run, of attempts that were laid out behind another one; of the oldest it is made anew if need be.
        self._following: dict[AttemptId, tuple[Any, ...]] = {}

    def path(self, attempt: AttemptId) -> str:
        """The run dir of an attempt."""
        return rundir.attempt_dir(self._home, *attempt)

    def begin(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Lay out the run dir, with the lease if there is one, and then order the attempt, or let it take over."""
        path = self.path(start.id)
        laid_out = self._following.pop(start.id, None)
        if laid_out is not None and after is None and lease is None:
            # The one before it was over before it was told who comes next: only the order is missing.
            self._shim_pool.order(path, laid_out)
            return
        shared = path if start.checkpoint_of is None else self.path((start.checkpoint_of, 0))
        checkpoint = rundir.checkpoint_dir(shared)
        launch = run_spec(
            start,
            path,
            checkpoint,
            store=self._store,
            boot=self.boot,
            with_daemon=self._with_daemon,
            default_env=self._around,
            variables=self.variables,
        )
        rundir.prepare(path, launch.content)
        if lease is not None:
            self.lease(start.id, lease)
        if start.checkpoint_of is not None:
            os.makedirs(checkpoint, mode=0o700, exist_ok=True)
        if after is not None:
            rundir.follow(self.path(after), shim.order_of(path, launch.spec))
            self._following[start.id] = launch.spec
            if len(self._following) > FOLLOWING_MAX:
                del self._following[next(iter(self._following))]
            return
        # When the crew's backlog is full, the agent's tick begins it again.
        self._shim_pool.order(path, launch.spec)

    def look(self, attempt: AttemptId) -> RunState:
        """What the run dir and the process table say."""
        found = rundir.look(self.path(attempt), self.boot)
        return RunState(
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

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Write until when the attempt may run."""
        rundir.write_lease(self.path(attempt), rundir.LeaseRecord(lease.until, lease.length_s), self.boot)

    def leased(self, attempt: AttemptId) -> Lease | None:
        """The lease in the run dir."""
        found = rundir.read_lease(self.path(attempt), self.boot)
        return None if found is None else Lease(found.until, found.length_s)

    def inventory(self, most: int) -> list[AttemptId]:
        """Return the attempts that have a run dir here, without those marked unrecorded."""
        return [attempt for attempt in self._attempts(most) if not rundir.is_unrecorded(self.path(attempt))]

    def unrecorded(self, most: int) -> list[AttemptId]:
        """Return the attempts marked unrecorded whose end nobody has acknowledged."""
        paths = ((attempt, self.path(attempt)) for attempt in self._attempts(most))
        return [attempt for attempt, path in paths if rundir.is_unrecorded(path) and not rundir.is_acked(path)]

    def _attempts(self, most: int) -> list[AttemptId]:
        try:
            return rundir.attempts(self._home, most) if self._apart else []
        except OSError as error:
            # Said again at the next connection; until then the broker asks about what it believes to run.
            log.error("inventory_failed error=%s", error)
            return []

    def unacked(self, most: int) -> list[AttemptId]:
        """Those of them without the marker."""
        return [attempt for attempt in self.inventory(most) if not rundir.is_acked(self.path(attempt))]

    def acked(self, attempt: AttemptId) -> None:
        """Leave the marker; one that cannot be written costs one more report in the next life."""
        if self._apart:
            with contextlib.suppress(OSError):
                rundir.mark_acked(self.path(attempt))

    def mark_unrecorded(self, attempt: AttemptId) -> None:
        """Leave the marker that `doctor` looks for."""
        rundir.mark_unrecorded(self.path(attempt))

    def forget(self, jobs: Collection[int], spare: Collection[int]) -> None:
        """Remove the folders of jobs, in its own time."""
        self._aside(lambda: self.remove(jobs, frozenset(spare)))

    def remove(self, jobs: Collection[int], spare: Collection[int]) -> None:
        """Remove the folders of jobs now, except what is alive, and except the checkpoints of those to spare."""
        for job in jobs:
            folder = os.path.dirname(self.path((job, 0)))
            attempts = [f"{folder}/{attempt}" for attempt in rundir.numbers(folder)]
            try:
                if any(self._is_alive(path) for path in attempts):
                    log.warning("forget_refused job=%s: something of it is alive", job)
                    continue
            except OSError as error:
                log.error("forget_failed job=%s error=%s", job, error)
                continue
            for path in attempts if job in spare else [folder]:
                shutil.rmtree(path, ignore_errors=True)

    def _is_alive(self, path: str) -> bool:
        found = rundir.look(path, self.boot)
        # A shim that has recorded the end waits for its next order.
        return found.exit is None and (found.shim_alive or found.command_alive or bool(found.members))

    def close(self) -> None:
        """Stop watching; what runs, runs on."""
        for attempt in list(self._watched):
            self._unwatch(attempt)
