"""One machine over ssh, kept connected: its own thread logs in, makes a worker of it, and logs in again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path

from msgspec import Struct

from grassq.core.messages import StorePosition, WorkerMessage
from grassq.core.protocol import LinkTimes, Welcome
from grassq.core.resources.capacity import Capacity
from grassq.core.resources.disk_floor import DiskFloor
from grassq.errors import GrassError
from grassq.files.blobs import BlobStore
from grassq.link.connection import ConnectionEnded
from grassq.link.socket_pair import SocketEnd, socket_pair
from grassq.machines.book import MachineEntry
from grassq.machines.far_end import FarEnd
from grassq.machines.far_greeting import FarGreeting
from grassq.machines.far_job_files import FarJobFiles
from grassq.machines.measure.others_use import PROBE_S
from grassq.machines.ssh.backoff import Backoff
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.ssh_machine import SshMachine
from grassq.machines.transport import LinkLost
from grassq.worker import offers
from grassq.worker.broker_session import BrokerSession
from grassq.worker.worker import Worker

log = logging.getLogger(__name__)

#: Logins under way at a time: one bastion may be in front of all machines, and drops more than ten (MaxStartups).
LOGINS_MAX = 5
#: How often the end of a connection is looked for.
LOOK_S = 0.25
#: A connection that lasted this long ends the count of failures.
STABLE_S = 30.0
#: The pause before the next try on a machine that answers and cannot be used.
UNUSABLE_S = 60.0
#: How long a thread has to end when the daemon stops.
STOP_S = 10.0

_logins = threading.BoundedSemaphore(LOGINS_MAX)


class MachineContext(Struct, frozen=True):
    """What every machine of a daemon shares."""

    #: The folder of the machines in the home; each has one of its name below.
    folder: str
    store_id: str
    #: The contents of files that jobs are sent.
    blobs: BlobStore
    #: Serves a worker's connection on the daemon's own event loop.
    serve: Callable[[str, SocketEnd], Coroutine[None, None, None]]
    loop: asyncio.AbstractEventLoop
    ssh: str = "ssh"
    #: How often a machine is asked what others use there, in seconds; 0: only once per connection.
    probe_s: float = PROBE_S
    #: The limit of logs in bytes; 0 for none.
    log_max: int = 0
    #: What must be free of a machine's disk for a new job.
    disk_floor: DiskFloor = DiskFloor()
    times: LinkTimes = LinkTimes()


class MachineThread:
    """Keeps the worker of one machine connected, on a thread of its own: a far side that is slow delays no other."""

    def __init__(self, entry: MachineEntry, capacity: Capacity | None, context: MachineContext) -> None:
        self.entry = entry
        self._capacity = capacity
        self._context = context
        self._folder = f"{context.folder}/{entry.name}"
        #: What the last greeting said; None before the first.
        self.greeting: FarGreeting | None = None
        #: Where ssh finds the machine, as user@host:port; None while that is not known yet.
        self.addresses: tuple[str, ...] | None = None
        self.connected = False
        #: Why the machine is not connected, and whether only a person can change that.
        self.trouble = "no connection has been tried yet"
        self.needs_person = False
        self._agent = entry.agent
        self._worker: Worker | None = None
        self._transport: SshTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._hurry = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name=f"machine {entry.name}", daemon=True)

    @property
    def capacity(self) -> Capacity:
        """What the machine has: while it is connected, or if it was added with it."""
        return self._capacity or {} if self._worker is None else self._worker.capacity

    @property
    def jobs(self) -> int:
        """The number of attempts there that have not ended."""
        return 0 if self._worker is None else self._worker.held

    @property
    def transport(self) -> SshTransport | None:
        """The connection now, which other threads may use as well; None if there is none."""
        return self._transport if self.connected else None

    def start(self) -> None:
        """Begin to connect."""
        Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    def retry(self, agent: str | None) -> None:
        """Connect now, if the machine is not connected, with this agent's keys."""
        self._agent = agent or self._agent
        if self._loop is not None and not self._stopping:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hurry.set)

    async def stop(self, call: Callable[..., Awaitable[object]]) -> None:
        """End the connection and the thread, and wait for it through `call`. Running attempts go on."""
        self._stopping = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        if (transport := self._transport) is not None:
            # A call that waits for the far side ends at once.
            await call(transport.close)
        await call(self._thread.join, STOP_S)

    def _main(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        backoff, failures = Backoff(random.uniform), 0
        while not self._stopping:
            began = time.monotonic()
            delay_s: float | None = 0.0
            try:
                await self._one_connection()
            except LoginFailed as error:
                if error.needs_person:
                    delay_s = self._failed(f"{error}; then `grass machine retry {self.entry.name}`", None)
                else:
                    delay_s = self._failed(str(error), backoff.next_s(failures, error))
            except OSError as error:
                failures = 0 if time.monotonic() - began >= STABLE_S else failures
                lost = error if isinstance(error, LinkLost) else LinkLost(0, str(error))
                delay_s = self._failed(lost.strerror or "the connection ended", backoff.next_s(failures, lost))
            except GrassError as error:
                # It answers and cannot be used: a person may have to act, or a disk may have room again.
                delay_s = self._failed(str(error), UNUSABLE_S)
                self.needs_person = True
            except Exception as error:  # a bug must not end the thread: its jobs would stay unreachable for ever
                log.exception("machine_thread_failed machine=%s", self.entry.name)
                delay_s = self._failed(f"an error of Grass: {type(error).__name__}: {error}", UNUSABLE_S)
            failures += 1
            await self._pause(delay_s)

    def _failed(self, why: str, delay_s: float | None) -> float | None:
        """Note why the machine is not connected; return the seconds until the next try, None for a person's word."""
        if self._stopping:
            return 0.0
        if why != self.trouble:
            log.warning("machine_not_connected machine=%s why=%s", self.entry.name, why)
        self.trouble, self.needs_person = why, delay_s is None
        return delay_s

    async def _pause(self, delay_s: float | None) -> None:
        """Wait until the next try, or until a person asks for it."""
        if not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._hurry.wait()
        self._hurry.clear()

    async def _one_connection(self) -> None:
        """Log in, serve the broker until the connection ends, and raise why it ended."""
        entry = self.entry
        transport = SshTransport(entry.target, self._folder, agent=self._agent, program=self._context.ssh)
        self._transport = transport
        # Before the login, which may have to wait: a batch asks for it to know the machine of its file.
        self.addresses = transport.addresses()
        try:
            with _logins:
                if self._stopping:
                    return
                transport.connect()
            store = entry.far_store(self._context.store_id)
            far = FarEnd(transport, store, folder=entry.dir, python=entry.python)
            try:
                self.greeting = far.open()
                far.lead()
                await self._serve(transport, far, self.greeting)
            finally:
                far.close()
        finally:
            self._transport = None
            transport.close()

    async def _serve(self, transport: SshTransport, far: FarEnd, greeting: FarGreeting) -> None:
        """Be a worker of the broker while the connection lasts."""
        name, context = self.entry.name, self._context
        files = FarJobFiles(transport, far, context.blobs, self._folder, name)
        machine = SshMachine(
            transport,
            far,
            files,
            store=context.store_id,
            capacity=self._capacity,
            probe_s=context.probe_s,
            log_max=context.log_max,
            floor=context.disk_floor,
        )
        session: BrokerSession | None = None

        def send(message: WorkerMessage) -> None:
            if session is not None:
                session.send(message)

        file = offers.load(self._folder, name)
        worker = Worker(machine, offers.Offers(file, self._folder), send, labels=self.entry.labels)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(worker.close)
            ticking = await worker.start()
            ours, theirs = socket_pair()
            stack.push_async_callback(ours.close)
            serving = asyncio.run_coroutine_threadsafe(context.serve(name, theirs), context.loop)
            session = BrokerSession(ours, worker, None, _welcomed, _remember, times=context.times)
            tasks = {ticking, asyncio.create_task(session.run()), asyncio.create_task(self._watch(transport, far))}
            stack.push_async_callback(self._disconnect, tasks)
            self._worker, self.connected, self.trouble, self.needs_person = worker, True, "", False
            log.info("machine_connected machine=%s boot=%s", name, greeting.boot)
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            _raise_end(done, serving, far)

    async def _disconnect(self, tasks: set[asyncio.Task[None]]) -> None:
        self._worker, self.connected = None, False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, transport: SshTransport, far: FarEnd) -> None:
        """Raise LinkLost as soon as the connection is known to have ended."""
        while True:
            await asyncio.sleep(LOOK_S)
            transport.check()
            if far.lost is not None:
                raise LinkLost(0, far.lost)


async def _welcomed(_welcome: Welcome) -> bool:
    """Keep no ticket: the connection never leaves this process."""
    return False


def _remember(_position: StorePosition) -> None:
    """Forget the position: the broker that is restored from a backup restores this machine's home too."""


def _raise_end(done: set[asyncio.Task[None]], serving: Future[None], far: FarEnd) -> None:
    """Raise why a connection ended: first what the broker says, then what the link says."""
    if serving.done() and not serving.cancelled() and (error := serving.exception()) is not None:
        raise error
    if far.lost is not None:
        raise LinkLost(0, far.lost)
    for task in done:
        error = task.exception()
        if isinstance(error, ConnectionEnded):
            raise LinkLost(0, f"the broker ended the connection: {error}")
        if error is not None:
            raise error
