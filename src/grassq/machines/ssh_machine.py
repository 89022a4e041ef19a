"""A computer that is reached over ssh, as a machine: its run dirs are on its own disk, and far_end.py asks for them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from typing import Any, TypeVar

from grassq.core.messages import LeftFolder, Start
from grassq.core.model import AttemptId
from grassq.core.protocol import READ_MAX, LogCut
from grassq.core.reconcile import RunState
from grassq.core.resources.capacity import Capacity
from grassq.core.resources.disk_floor import DiskFloor
from grassq.core.states import Exited
from grassq.errors import GrassError
from grassq.machines.far_end import FarEnd, journal_event
from grassq.machines.far_job_files import FarJobFiles
from grassq.machines.measure import probe
from grassq.machines.measure.others_use import PROBE_S, MachineWatch
from grassq.machines.ssh.mux import TooManySessions
from grassq.machines.transport import LinkLost, Stream, Transport
from grassq.run import rundir
from grassq.run.lease_timer import boottime
from grassq.run.rundir import Lease
from grassq.worker.attempts import one_alone, run_state
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detectors import DETECTORS, variables_of
from grassq.worker.machine import Detected, Inventory, MachineEvents
from grassq.worker.run_spec import Launch, run_spec

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Job folders that `doctor` is told of, and folders whose removal failed and is tried again.
FOLDERS_MAX = 10_000
UNREMOVED_MAX = 10_000
UNREMOVED_S = 5.0
#: The pause before a machine is measured again that could not be measured yet.
FIRST_MEASURE_S = 2.0
#: A machine that was not asked anything for this long is asked, so that a dead connection is noticed.
HEARTBEAT_S = 5.0
#: The pauses between two looks at a log that a reader waits for: the first, and the longest.
LOG_PAUSE_MIN_S, LOG_PAUSE_MAX_S = 0.1, 1.0
#: Bytes of the journal that are read at a time, and the longest line of it.
EVENTS_MAX = 64 << 10
LINE_MAX = 200
#: How long a read of the journal may take: the loop says that there is something to read.
LOOK_S = 0.1


class SshMachine:
    """One connection to a far side; a new one is made for each connection. Used on one thread."""

    follows = False
    takes_files = True
    keeps_logs = False
    shares_disk = False

    def __init__(
        self,
        transport: Transport,
        far: FarEnd,
        files: FarJobFiles,
        *,
        store: str,
        capacity: Capacity | None,
        probe_s: float = PROBE_S,
        log_max: int = 0,
        floor: DiskFloor | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`far` is open on the transport. `capacity` None means: measure it, and what others use.

        `log_max` is the limit of logs in bytes, 0 for none; `floor` is what must be free of the disk there.
        """
        greeting = far.greeting
        self.boot = greeting.boot
        self.detects = capacity is None
        self.logs = _FarLogs(far)
        self._far = far
        self._home = os.fsdecode(greeting.home)
        self._store = store
        self._capacity = capacity
        self._log_max = log_max
        self._files = files
        self._probe_s = probe_s
        self._measure = MachineWatch(partial(probe.ask, transport, greeting.home), time.monotonic, floor)
        self._environment = DefaultEnvironment(greeting.env, greeting.user_home, greeting.umask)
        #: The variables that name devices to jobs.
        self._variables = variables_of(DETECTORS)
        #: What the boot clock there is ahead of ours. Asked before now, so that no lease lasts longer there than here.
        self._ahead_s = greeting.uptime_s - clock()
        self._events: MachineEvents | None = None
        self._journal: Stream | None = None
        self._line = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked_at = 0.0
        #: The attempts whose files are on their way, each with its newest lease.
        self._bringing: dict[AttemptId, Lease | None] = {}
        #: The attempt that was looked at last, if its shim lived.
        self._seen_alive: AttemptId | None = None
        #: The jobs whose folders are to be removed, and whether their checkpoints are spared.
        self._unremoved: dict[int, bool] = {}
        self._removed_at = 0.0
        self._removing: asyncio.Task[None] | None = None

    async def open(self, events: MachineEvents) -> Capacity:
        """Follow the journal there; return the capacity that was set."""
        self._events, self._loop = events, asyncio.get_running_loop()
        self._files.open(self._loop.call_soon_threadsafe)
        self._follow_journal()
        return self._capacity or {}

    async def detect(self) -> AsyncIterator[Detected]:
        """Measure the machine again and again; yield what has changed."""
        while True:
            try:
                detected = await asyncio.to_thread(self._measure.look)
            except TooManySessions:
                self.drop_journal()
            except (LinkLost, GrassError) as error:
                # A dead connection is noticed elsewhere; a report that cannot be read may be better next time.
                log.warning("machine_not_measured error=%s", error)
            else:
                if detected is not None:
                    self._variables = self._measure.variables
                    yield detected
            if self._measure.first is None:
                await asyncio.sleep(FIRST_MEASURE_S)
            elif self._probe_s:
                await asyncio.sleep(self._probe_s)
            else:
                return

    def _follow_journal(self) -> None:
        try:
            journal = self._far.events()
        except LinkLost as error:
            # The server allows few sessions: `check` asks for changes instead.
            log.info("journal_polled why=%s", error.strerror)
            return
        assert self._loop is not None
        self._journal = journal
        self._loop.add_reader(journal.fileno(), self._read_journal)

    def drop_journal(self) -> None:
        """Give up the session of the journal, so that another one may use it; changes are asked for instead."""
        journal, self._journal = self._journal, None
        if journal is not None and self._loop is not None:
            self._loop.remove_reader(journal.fileno())
            journal.close()

    def _read_journal(self) -> None:
        journal = self._journal
        if journal is None:
            return
        try:
            came = journal.read_some(EVENTS_MAX, LOOK_S)
        except LinkLost:
            came = b""
        *lines, self._line = (self._line + came).split(b"\n")
        if not came or len(self._line) > LINE_MAX:
            # It has ended, or it is no journal: `check` asks for changes from now on.
            self.drop_journal()
        self._changes(event for line in lines if (event := journal_event(line)) is not None)

    def _changes(self, events: Iterable[tuple[AttemptId, str]]) -> None:
        """Look once at each attempt of some events."""
        for attempt in dict.fromkeys(attempt for attempt, _ in events):
            self._changed(attempt)

    def _changed(self, attempt: AttemptId) -> None:
        """Tell the worker what happened to an attempt, as its run dir says it."""
        try:
            found = self._far.look(attempt)
        except OSError as error:
            # The worker looks at its attempts by itself, some seconds later.
            log.warning("change_not_read job=%s attempt=%s error=%s", *attempt, error)
            return
        if found.exit is not None:
            self._tell("exited", attempt, record=found.exit)
        elif found.command is not None:
            self._tell("started", attempt, pid=found.command[0])
            if (done := found.suspension.done) is not None:
                self._tell("suspended", attempt, number=done[0], stop=done[1])

    def _tell(self, event: str, attempt: AttemptId, **more: Any) -> None:
        assert self._events is not None
        self._events.heard({"event": event, "job": attempt[0], "attempt": attempt[1], "shim": 0, **more})

    def check(self) -> None:
        """Ask for changes if the journal is not followed, or if nothing was asked lately. Remove folders left over."""
        assert self._loop is not None
        now = self._loop.time()
        if self._journal is None or now - self._asked_at >= HEARTBEAT_S:
            self._asked_at = now
            changes = self._far.changed()
            if self._journal is None:
                self._changes(changes)
        if self._unremoved and now - self._removed_at >= UNREMOVED_S:
            self._remove_soon()

    def path(self, attempt: AttemptId) -> str:
        """Return the run dir of an attempt there."""
        return rundir.attempt_dir(self._home, *attempt)

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        """Order the attempt there; the machine claims it before anything runs."""
        path = self.path(start.id)
        shared = path if start.checkpoint_of is None else self.path((start.checkpoint_of, 0))
        launch = run_spec(
            start,
            path,
            rundir.checkpoint_dir(shared),
            store=self._store,
            boot=self.boot,
            with_daemon=False,
            default_env=self._environment,
            variables=self._variables,
            shares_disk=False,
            log_max=self._log_max,
        )
        self._files.note_fetch(start, path, launch.cwd)
        if not self._files.is_sent(start):
            self._bringing[start.id] = lease
            self._files.send(
                start,
                path,
                sent=partial(self._start_sent, start),
                refused=partial(self._put_off, start.id),
                failed=lambda why: self._tell("refused", start.id, why=why),
                told=lambda why: self._tell("delayed", start.id, why=why),
            )
        else:
            self._order(start.id, launch, lease)

    def _order(self, attempt: AttemptId, launch: Launch, lease: Lease | None) -> None:
        try:
            is_new = self._far.start(attempt, launch, None if lease is None else self._there(lease))
        except LinkLost as error:
            # No trouble of the job: the next connection finds what came of the order, and orders it again if need be.
            log.warning("order_without_answer job=%s attempt=%s error=%s", *attempt, error)
            return
        if not is_new:
            assert self._loop is not None
            self._loop.call_soon(lambda: self._tell("duplicate", attempt))

    def _start_sent(self, start: Start) -> None:
        """Order an attempt whose files are there now. If that fails, the worker orders it again."""
        with one_alone(start.id):
            self.start(start, self._bringing.pop(start.id, None))

    def _put_off(self, attempt: AttemptId, error: LinkLost) -> None:
        """Say why files wait, and give them the session of the journal; the worker tries again what was not carried."""
        log.warning("files_put_off job=%s attempt=%s error=%s", *attempt, error)
        self._tell("delayed", attempt, why=f"its files wait for the connection: {error}")
        if isinstance(error, TooManySessions):
            self.drop_journal()

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        """Fetch files over a session of its own; what is to be fetched was noted at the start."""
        assert self._events is not None
        fetched, refused = partial(self._events.shim_gone, attempt), partial(self._put_off, attempt)
        return self._files.collect(attempt, self.path(attempt), end, fetched, refused)

    def look(self, attempt: AttemptId) -> RunState:
        """Return what the run dir and the process table there say."""
        found = run_state(attempt, self._far.look(attempt))
        self._seen_alive = attempt if found.shim_alive else None
        return found

    def watch(self, attempt: AttemptId) -> None:
        """Report a shim that is gone already; the journal and the worker's own looks tell of the others."""
        assert self._loop is not None and self._events is not None
        # Most calls follow a look: one round trip less for each attempt that runs when a connection begins.
        if attempt != self._seen_alive and not self.look(attempt).shim_alive:
            self._loop.call_soon(self._events.shim_gone, attempt)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Ask the attempt's supervisor there to end it, or end what a supervisor has left."""
        self._far.stop(attempt, grace_s)

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        """Ask the attempt's supervisor there to stop it or to let it go on, or signal what a supervisor has left."""
        return self._far.suspend(attempt, number, stop)

    def void(self, attempt: AttemptId) -> bool:
        """Claim the attempt there, so that it never starts."""
        self._bringing.pop(attempt, None)
        return self._far.void(attempt, self.boot)

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        """Write until when the attempt may run, on the clock there; it is noted while files are on their way."""
        if attempt in self._bringing:
            self._bringing[attempt] = lease
            return
        self._far.write_lease(attempt, self._there(lease), self.boot)

    def leased(self, attempt: AttemptId) -> Lease | None:
        """Return the lease in the run dir, on the clock here."""
        found = self._far.read_lease(attempt, self.boot)
        return None if found is None else Lease(found.until - self._ahead_s, found.length_s)

    def _there(self, lease: Lease) -> Lease:
        return Lease(lease.until + self._ahead_s, lease.length_s)

    def inventory(self, most: int) -> Inventory:
        """Return the newest attempts that have a run dir there."""
        found = Inventory()
        for attempt, markers in self._far.inventory(most):
            (found.unrecorded if rundir.UNRECORDED in markers else found.held).append(attempt)
            if not markers & {rundir.UNRECORDED, rundir.ACKED}:
                found.unacked.append(attempt)
        return found

    def mark(self, attempt: AttemptId, marker: str) -> None:
        """Make the marker's file there."""
        self._far.mark(attempt, marker)

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        """Remove the folders of jobs soon; `check` tries again what fails. Folders are never put aside here."""
        if keep_logs:
            return
        self._unremoved |= {job: job in spare for job in jobs}
        self._remove_soon()

    def _remove_soon(self) -> None:
        """Remove the folders that are to be removed, beside other work: large folders take minutes."""
        if self._unremoved and (self._removing is None or self._removing.done()):
            self._removing = asyncio.create_task(self._remove_all())

    async def _remove_all(self) -> None:
        assert self._loop is not None
        asked, self._unremoved = self._unremoved, {}
        try:
            left = {each.job for each in await self.remove(asked, [job for job, spared in asked.items() if spared])}
        except OSError as error:
            log.warning("folders_left count=%s error=%s", len(asked), error)
            left = set(asked)
        # For the others the broker repeats the order at the next connection.
        self._unremoved |= {job: asked[job] for job in sorted(left & asked.keys())[:UNREMOVED_MAX]}
        self._removed_at = self._loop.time()

    async def remove(
        self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False
    ) -> list[LeftFolder]:
        """Remove the folders of jobs there, and return those that are still there; with `keep_logs`, leave them."""
        if keep_logs:
            return []
        left = await self._in_session(partial(self._far.remove, list(jobs), frozenset(spare)))
        self._files.forget(set(jobs) - {each.job for each in left})
        return left

    async def size(self, jobs: Collection[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk there."""
        return await self._in_session(partial(self._far.size, list(jobs)))

    async def _in_session(self, call: Callable[[], T]) -> T:
        """Call, on a thread, what has a session of its own; if the server allows no more, use the journal's."""
        try:
            return await asyncio.to_thread(call)
        except TooManySessions:
            self.drop_journal()
            return await asyncio.to_thread(call)

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder there, newest first."""
        return self._far.folders(FOLDERS_MAX)

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        """Return nothing: run dirs on another machine are not read for `doctor`."""
        return []

    def describe(self) -> dict[str, object]:
        """Return the state of the connection."""
        return {"journal": self._journal is not None, "lost": self._far.lost}

    async def close(self) -> None:
        """End the connection's streams. Running attempts go on."""
        if self._removing is not None:
            self._removing.cancel()
        self.drop_journal()
        self._far.close()


class _FarLogs:
    """The logs of the attempts on a far side."""

    def __init__(self, far: FarEnd) -> None:
        self._far = far

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        """Return bytes of a stream and its size; at its end ask again for up to `wait_s` seconds."""
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + wait_s, LOG_PAUSE_MIN_S
        while True:
            data, size = self._far.read(job, attempt, stream, offset, READ_MAX)
            left = until - loop.time()
            if data or size != offset or left <= 0:
                return data, size
            await asyncio.sleep(min(pause_s, left))
            pause_s = min(2 * pause_s, LOG_PAUSE_MAX_S)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        """Return what was cut out of a stream; None if nothing was."""
        found = self._far.cut(job, attempt, stream)
        return None if found is None else LogCut(found.end, found.mark)

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin."""
        return self._far.tail_offset(job, attempt, stream, lines)
