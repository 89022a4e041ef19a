"""This computer as a machine: attempts become real processes, each under a shim, with a run dir below the home."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Collection, Iterable
from functools import partial
from typing import Any

from grassq import atomic_files
from grassq.core.messages import LeftFolder, Start
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.core.resources.capacity import Capacity
from grassq.core.states import Exited
from grassq.errors import GrassError
from grassq.files.blobs import BlobStore
from grassq.run import attempt_notes, processes, rundir, shim
from grassq.run.rundir import Lease
from grassq.run.shim_pool import ShimPool
from grassq.run.suspension import order
from grassq.worker import folders, job_files, strays
from grassq.worker.attempts import one_alone, run_state
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detector import Detector
from grassq.worker.devices.detectors import DETECTORS, found_by, installed, variables_of
from grassq.worker.local_files import project_links, tree
from grassq.worker.local_files.background import BackgroundWork
from grassq.worker.local_files.fetch import fetch, not_fetched
from grassq.worker.local_logs import LocalLogs
from grassq.worker.machine import Detected, Inventory, MachineEvents
from grassq.worker.run_spec import Launch, run_spec

log = logging.getLogger(__name__)

#: Prefetched attempts whose run spec is kept in memory.
PREFETCHED_MAX = 128
#: Folders that could not be removed and are tried again every UNREMOVED_S seconds.
UNREMOVED_MAX = 10_000
UNREMOVED_S = 5.0
#: Folders that `doctor` is told of.
FOLDERS_MAX = 10_000


class LocalMachine:
    """This computer: run dirs below a home, a pool of shims, pidfds, log files and detectors."""

    def __init__(
        self,
        home: str,
        *,
        store: str,
        capacity: Capacity | None = None,
        with_daemon: bool = False,
        environment: DefaultEnvironment | None = None,
        remote_broker: bool = False,
        unknown_jobs: Iterable[int] = (),
        nofile: int | None = None,
        blobs: str | None = None,
        log_max: int = 0,
    ) -> None:
        """`capacity` None means: detect it. `with_daemon` ends jobs with this process, for a store in memory.

        `environment` is for jobs from other machines. `remote_broker` is for a broker in another process: it is told
        which attempts have a run dir here, and its acknowledgements are marked in the run dirs. A broker in this
        process has the same disk and asks at every start about the attempts it believes to run. A home may have
        100,000 old run dirs, so inventory and marks are left out then, except that the broker is told which attempts
        still run of `unknown_jobs`, which it has no record of. `blobs` is the folder with the content of what jobs are
        sent; without it jobs with files do not run here. `log_max` is the limit of logs in bytes, 0 for none.
        """
        self.boot = processes.boot_id()
        self.detects = capacity is None
        self.follows = True
        self.takes_files = blobs is not None
        self.keeps_logs = True
        self.shares_disk = True
        self.logs = LocalLogs(home)
        self.shim_pool = ShimPool(sys.executable, home, nofile=nofile)
        self._home = home
        self._store = store
        self._capacity = capacity
        self._log_max = log_max
        self._with_daemon = with_daemon
        self._environment = environment or DefaultEnvironment()
        self._remote_broker = remote_broker
        self._unknown_jobs = list(unknown_jobs)
        #: The variables for jobs that hold devices; those of other packages are added when they are loaded.
        self._variables = variables_of(DETECTORS)
        self._events: MachineEvents | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._launcher: int | None = None
        self._watched: dict[AttemptId, int] = {}
        #: Run specs of prefetched attempts; over PREFETCHED_MAX the oldest is dropped, and made again if needed.
        self._prefetched: dict[AttemptId, tuple[Any, ...]] = {}
        self._blobs = None if blobs is None else BlobStore(os.fsencode(blobs))
        self._background = BackgroundWork()
        #: Run specs of attempts that are ordered when their trees are made; why the trees of others could not be made.
        self._unmade: dict[AttemptId, tuple[Any, ...]] = {}
        self._tree_errors: dict[AttemptId, OSError] = {}
        #: Jobs whose folders are to be removed, whether their checkpoints are spared, and whether the folders are put
        #: aside; the task that removes some.
        self._unremoved: dict[int, tuple[bool, bool]] = {}
        self._removing: asyncio.Task[None] | None = None
        self._removed_at = 0.0

    async def open(self, events: MachineEvents) -> Capacity:
        """Start the launcher, and run the detectors that answer at once."""
        self._events, self._loop = events, asyncio.get_running_loop()
        self._background.open(self._loop.call_soon_threadsafe)
        os.makedirs(os.path.join(self._home, "jobs"), mode=0o700, exist_ok=True)
        self.shim_pool.start()
        self._launcher = self.shim_pool.launcher_pid
        self._loop.add_reader(self.shim_pool.fileno(), self._hear)
        if self._capacity is not None:
            return self._capacity
        found = [await found_by(detector) for detector in DETECTORS if detector.quick]
        return {name: supply for one in found for name, supply in one.items()}

    async def detect(self) -> AsyncIterator[Detected]:
        """Run the other detectors in parallel, also those of other packages."""
        more = await asyncio.to_thread(lambda: [*installed()])
        self._variables = variables_of((*DETECTORS, *more))
        running = {asyncio.create_task(found_by(one)): one for one in (*DETECTORS, *more) if not one.quick}
        try:
            yield self._detected({}, running.values())
            while running:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                left = {task: detector for task, detector in running.items() if task not in done}
                running, found = left, {name: supply for task in done for name, supply in task.result().items()}
                log.info("devices_detected names=%s", ",".join(found) or "none")
                yield self._detected(found, running.values())
        finally:
            for task in running:
                task.cancel()

    @staticmethod
    def _detected(found: Capacity, running: Iterable[Detector]) -> Detected:
        return Detected(found, frozenset(name for detector in running for name in detector.names))

    def _hear(self) -> None:
        assert self._events is not None
        for report in self.shim_pool.read():
            self._events.heard(report)

    def check(self) -> None:
        """Start the launcher again if it died; the shims are then watched by pidfd. Remove folders that are left."""
        self.shim_pool.check()
        if self._loop is not None and self._loop.time() - self._removed_at >= UNREMOVED_S:
            self._removed_at = self._loop.time()
            self._forget_again()
        if self.shim_pool.launcher_pid != self._launcher:
            log.warning("launcher_restarted pid=%s", self.shim_pool.launcher_pid)
            self._launcher = self.shim_pool.launcher_pid
            if self._events is not None:
                self._events.watch_all()

    def path(self, attempt: AttemptId) -> str:
        """Return the run dir of an attempt."""
        return rundir.attempt_dir(self._home, *attempt)

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Make the run dir, with the lease if there is one; then order the attempt, unless it has a predecessor."""
        path = self.path(start.id)
        laid_out = self._prefetched.pop(start.id, None)
        if laid_out is not None and after is None and lease is None:
            # The predecessor ended before its shim was told of this attempt: only the order is missing.
            self.shim_pool.order(path, laid_out)
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
            default_env=self._environment,
            variables=self._variables,
            log_max=self._log_max,
        )
        rundir.prepare(path, launch.content)
        if lease is not None:
            self.lease(start.id, lease)
        if start.checkpoint_of is not None:
            os.makedirs(checkpoint, mode=0o700, exist_ok=True)
        if start.spec.project is not None:
            project_links.make(self._home, start.job, start.spec.project, start.name)
        job_files.note_fetch(path, job_files.fetch_order(start.spec, path, launch.cwd))
        if start.spec.send and not tree.is_made(path):
            return self._make_tree(start, launch, at_once=after is None)
        if after is not None:
            rundir.follow(self.path(after), shim.order_of(path, launch.spec))
            self._prefetched[start.id] = launch.spec
            if len(self._prefetched) > PREFETCHED_MAX:
                del self._prefetched[next(iter(self._prefetched))]
            return
        # When the pool's backlog is full, the agent's tick starts it again.
        self.shim_pool.order(path, launch.spec)

    def _make_tree(self, start: Start, launch: Launch, *, at_once: bool) -> None:
        """Make the tree of an attempt on a thread, and then order the attempt, unless it waits for a predecessor."""
        if (error := self._tree_errors.pop(start.id, None)) is not None:
            raise error  # the agent tells it, and tries again
        assert self._blobs is not None, "a worker without blobs gets no job with files"
        if at_once:
            self._unmade[start.id] = launch.spec
        make = partial(tree.make, self.path(start.id), start.spec.send, self._blobs, start.spec.umask)
        self._background.ask(start.id, make, partial(self._tree_made, start.id))

    def _tree_made(self, attempt: AttemptId, error: OSError | GrassError | None) -> None:
        spec, path = self._unmade.pop(attempt, None), self.path(attempt)
        if isinstance(error, OSError):
            log.error("tree_failed job=%s attempt=%s error=%s", *attempt, error)
            if spec is not None:
                self._tree_errors[attempt] = OSError(error.errno, f"its files: {error.strerror}")
            return
        if error is not None:
            # It never can be made: the shim finds no directory, and says why.
            with one_alone(attempt):
                attempt_notes.note_unstarted(path, str(error))
        if spec is not None:
            self.shim_pool.order(path, spec)

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        """Bring files on a thread; the run dir says what is to be brought, and what was."""
        path = self.path(attempt)
        order = job_files.noted_fetch(path, end)
        if order is None:
            end = job_files.with_fetch_error(path, end)
            self._prune(attempt, end)
            return end
        work = partial(self._fetch, order, attempt)
        self._background.ask(attempt, work, partial(self._fetched, attempt, order))
        return None

    def _fetch(self, order: job_files.FetchOrder, attempt: AttemptId) -> None:
        attempt_notes.write_fetched(self.path(attempt), fetch(order, f"{attempt[0]}-{attempt[1]}"))

    def _prune(self, attempt: AttemptId, end: Exited) -> None:
        """Remove what a job that succeeded has left as it was sent, on a thread; a job that failed is kept whole."""
        path = self.path(attempt)
        if self._blobs is None or end.code != 0 or end.error is not None or attempt_notes.read_sent(path) is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if not rundir.read_spec(path).keep_children:
                self._background.ask(("prune", attempt), partial(tree.prune, path, self._blobs), lambda _: None)

    def _fetched(self, attempt: AttemptId, order: job_files.FetchOrder, error: OSError | GrassError | None) -> None:
        assert self._events is not None
        if isinstance(error, OSError):
            log.error("fetch_put_off job=%s attempt=%s error=%s", *attempt, error)
            return
        with one_alone(attempt):
            if error is not None:  # it would be the same at every try: the end must not wait for it
                attempt_notes.write_fetched(self.path(attempt), not_fetched(order, [str(error)]))
            self._events.shim_gone(attempt)

    def look(self, attempt: AttemptId) -> RunState:
        """Return what the run dir and the process table say."""
        return run_state(attempt, rundir.look(self.path(attempt), self.boot))

    def watch(self, attempt: AttemptId) -> None:
        """Watch the shim's pidfd."""
        if attempt in self._watched or self._loop is None:
            return
        found = rundir.look(self.path(attempt), self.boot)
        pidfd = processes.open_verified(*found.shim) if found.shim is not None else None
        if pidfd is None:
            self._loop.call_soon(self._gone, attempt)
            return
        self._watched[attempt] = pidfd
        self._loop.add_reader(pidfd, self._gone, attempt)

    def _gone(self, attempt: AttemptId) -> None:
        self._unwatch(attempt)
        assert self._events is not None
        self._events.shim_gone(attempt)

    def _unwatch(self, attempt: AttemptId) -> None:
        pidfd = self._watched.pop(attempt, None)
        if pidfd is not None:
            assert self._loop is not None
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Write the stop file, then wake the shim if there is one; signal what a shim that is gone has left."""
        path = self.path(attempt)
        if members := rundir.look(path, self.boot).members:
            processes.signal_all(members, signal.SIGTERM if grace_s > 0 else signal.SIGKILL)
            # What is suspended keeps its TERM pending until it goes on.
            processes.signal_all(members, signal.SIGCONT)
            return
        rundir.request_stop(path, grace_s, "asked by the user")
        self._tree_errors.pop(attempt, None)
        if (unmade := self._unmade.pop(attempt, None)) is not None:
            # Without its tree: the shim finds the stop file, and starts nothing.
            self.shim_pool.order(path, unmade)
        # Looked for only now: a shim that claims the attempt from now on finds the file.
        found = rundir.look(path, self.boot)
        if found.shim is not None and found.shim_alive:
            processes.signal_verified(*found.shim, signal.SIGTERM)

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        """Write the order, then wake the shim; signal what a shim that is gone has left."""
        return order.give(self.path(attempt), self.boot, number, stop)

    def void(self, attempt: AttemptId) -> bool:
        """Create the claim, so that no shim ever can."""
        return rundir.void(self.path(attempt), self._store, *attempt, self.boot)

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Write until when the attempt may run."""
        rundir.write_lease(self.path(attempt), lease, self.boot)

    def leased(self, attempt: AttemptId) -> Lease | None:
        """Return the lease in the run dir."""
        return rundir.read_lease(self.path(attempt), self.boot)

    def inventory(self, most: int) -> Inventory:
        """Return the newest attempts that have a run dir here; for a broker in this process, only unknown ones."""
        try:
            if not self._remote_broker:
                return Inventory(unrecorded=strays.running(self._home, self._unknown_jobs, self.boot)[:most])
            attempts = rundir.attempts(self._home, most)
        except OSError as error:
            # Sent at the next connection; until then the broker asks about the attempts it believes to run.
            log.error("inventory_failed error=%s", error)
            return Inventory()
        found = Inventory()
        for attempt in attempts:
            path = self.path(attempt)
            is_unrecorded = rundir.is_marked(path, rundir.UNRECORDED)
            (found.unrecorded if is_unrecorded else found.held).append(attempt)
            if not is_unrecorded and not rundir.is_marked(path, rundir.ACKED):
                found.unacked.append(attempt)
        return found

    def mark(self, attempt: AttemptId, marker: str) -> None:
        """Make the marker's file, unless the broker is in this process."""
        if self._remote_broker:
            rundir.mark(self.path(attempt), marker)

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        """Remove the folders of jobs on another thread, without waiting; `check` tries again what fails."""
        self._unremoved |= {job: (job in spare, keep_logs) for job in jobs}
        self._forget_again()

    def _forget_again(self) -> None:
        if self._removing is None and self._unremoved:
            asked, self._unremoved = self._unremoved, {}
            self._removing = asyncio.get_running_loop().create_task(self._forget(asked))

    async def _forget(self, asked: dict[int, tuple[bool, bool]]) -> None:
        spare = {job for job, (is_spared, _) in asked.items() if is_spared}
        try:
            for keep_logs in (False, True):
                jobs = [job for job, (_, is_kept) in asked.items() if is_kept == keep_logs]
                left = await self.remove(jobs, spare, keep_logs=keep_logs)
                # For the others the broker repeats the order at the next connection.
                self._unremoved |= {each.job: asked[each.job] for each in left[:UNREMOVED_MAX]}
        finally:
            self._removing = None

    async def remove(
        self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False
    ) -> list[LeftFolder]:
        """Remove the folders of jobs, or put them aside; return those that are still there."""
        work = folders.put_aside if keep_logs else folders.remove
        return await asyncio.to_thread(work, self._home, list(jobs), frozenset(spare), self.boot)

    async def size(self, jobs: Collection[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk."""
        return await asyncio.to_thread(folders.size, [f"{self._home}/jobs/{job}" for job in jobs])

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first."""
        return atomic_files.numbers(f"{self._home}/jobs")[:FOLDERS_MAX]

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        """Return how to submit these jobs again; without jobs, the attempts that a restored broker has no record of."""
        return strays.unrecorded(self._home, self.boot) if jobs is None else strays.of_jobs(self._home, jobs, self.boot)

    def describe(self) -> dict[str, object]:
        """Return the state of the launcher."""
        return {"launcher": {"pid": self.shim_pool.launcher_pid, "trouble": self.shim_pool.trouble}}

    async def close(self) -> None:
        """Stop watching, and let the launcher and idle shims exit. Running attempts go on."""
        for attempt in list(self._watched):
            self._unwatch(attempt)
        if self._removing is not None:
            await self._removing
        if self._loop is not None:
            self._loop.remove_reader(self.shim_pool.fileno())
        await asyncio.to_thread(self.shim_pool.close)
