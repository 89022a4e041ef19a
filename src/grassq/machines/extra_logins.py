"""Logins to machines besides those of their workers: each for one change or question, on threads of their own."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from grassq.errors import Refused
from grassq.machines.book import MachineEntry
from grassq.machines.far_end import FarEnd
from grassq.machines.far_greeting import FarGreeting
from grassq.machines.machine_thread import MachineContext
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.transport import LinkLost

T = TypeVar("T")

#: Calls that wait for ssh at the same time; others wait for their turn. `execute_batch` asks 16 machines at once.
CALLS_MAX = 32
#: Logins under way at a time. With those of the workers they are fewer than ten: a bastion drops more (MaxStartups).
LOGINS_MAX = 4


class ExtraLogins:
    """Makes logins. `call` and `close` are used on the daemon's event loop, the others on the threads of `call`."""

    def __init__(self, context: MachineContext) -> None:
        self._context = context
        self._pool = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="extra login")
        self._under_way = threading.BoundedSemaphore(LOGINS_MAX)
        self._transports: set[SshTransport] = set()
        self._is_closed = False

    async def call(self, function: Callable[..., T], *args: object) -> T:
        """Call what waits for ssh, on a thread that is none of the daemon's own: submissions need those."""
        try:
            running = self._pool.submit(function, *args)
        except RuntimeError:  # it was closed
            raise stopping() from None
        return await asyncio.wrap_future(running)

    async def give_up(self) -> None:
        """End every login, also one that hangs: the calls that wait for it end at once."""
        self._is_closed = True
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in tuple(self._transports)))

    def close(self) -> None:
        """Take no more calls. A call that still goes on is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def transport(self, entry: MachineEntry, *, new_key: bool = False) -> Iterator[SshTransport]:
        """Yield a transport that is not connected yet, in a folder of its own; it is closed at the end."""
        with self._folder() as folder:
            transport = self.made(entry, folder, new_key=new_key)
            self._transports.add(transport)
            try:
                yield transport
            finally:
                self._transports.discard(transport)
                transport.close()

    @contextmanager
    def opened(
        self, entry: MachineEntry, *, new_key: bool = False, on_any: bool = False
    ) -> Iterator[tuple[SshTransport, FarEnd, FarGreeting]]:
        """Yield a connection to a machine; raise a GrassError in words.

        `on_any`: also if the name leads to another computer now.
        """
        with self.transport(entry, new_key=new_key) as transport:
            try:
                self._connect(transport)
                store = entry.far_store(self._context.store_id)
                far = FarEnd(transport, store, folder=entry.dir, python=entry.python)
                try:
                    yield transport, far, far.open(on_any=on_any)
                finally:
                    far.close()
            except LinkLost as error:
                raise Refused(f"the connection to {entry.target.shown} ended: {error.strerror}") from error
            except OSError as error:
                raise Refused(f"{entry.target.shown} cannot do it now: {error.strerror or error}") from error

    def made(self, entry: MachineEntry, folder: str, *, new_key: bool = False) -> SshTransport:
        """Return a transport to a machine."""
        return SshTransport(entry.target, folder, agent=entry.agent, program=self._context.ssh, new_key=new_key)

    def _connect(self, transport: SshTransport) -> None:
        with self._under_way:
            if self._is_closed:
                raise stopping()
            transport.connect()

    @contextmanager
    def _folder(self) -> Iterator[str]:
        with ExitStack() as stack:
            try:
                Path(self._context.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
                made = tempfile.TemporaryDirectory(prefix=".", dir=self._context.folder, ignore_cleanup_errors=True)
                folder = stack.enter_context(made)
            except OSError as error:
                raise Refused(f"no folder can be made in {self._context.folder}: {error.strerror}") from error
            yield folder


def stopping() -> Refused:
    """Return the refusal of a daemon that is about to end."""
    return Refused("the daemon is being stopped; try again when it has started")
