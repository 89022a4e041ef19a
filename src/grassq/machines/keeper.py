"""Every machine over ssh of this daemon: adds, tests and removes them, and keeps the worker of each connected."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from msgspec.structs import replace

from grassq.core.resources.capacity import Capacity, capacity_text
from grassq.errors import GrassError, NotFound, Refused
from grassq.machines import book
from grassq.machines.book import AddedMachine, Book, MachineEntry, MachineRow, Status
from grassq.machines.checkup import Step, checkup
from grassq.machines.extra_logins import ExtraLogins, stopping
from grassq.machines.far_end import FarEnd, Uninstalled
from grassq.machines.machine_thread import MachineContext, MachineThread
from grassq.machines.measure import probe
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.mux import TooManySessions
from grassq.machines.transport import LinkLost

#: Attempts of a removed machine that are killed, and how long they have to end.
ATTEMPTS_MAX = 10_000
KILL_S, KILL_PAUSE_S = 20.0, 0.2
#: Jobs that a message names.
SHOWN_MAX = 5
#: Steps of a test that wait for their reader.
STEPS_MAX = 100
#: How long a machine that was added may take to be connected as a worker before the answer, and how often to look.
FIRST_S = 20.0
LOOK_S = 0.05


class MachineKeeper:
    """The machines of one home. Used on the daemon's event loop; what waits for ssh runs on threads."""

    def __init__(
        self,
        machines: Book,
        context: MachineContext,
        *,
        capacity_of: Callable[[str], Capacity],
        is_worker: Callable[[str], Awaitable[bool]],
        unfinished: Callable[[str], Awaitable[Sequence[int]]],
        forget_worker: Callable[[str, bool], Awaitable[None]],
    ) -> None:
        """Ask the broker by these calls.

        `capacity_of` reads a typed capacity; `unfinished` returns the jobs of a worker whose end the broker does not
        have yet; `forget_worker` removes a worker at the broker, also one with jobs.
        """
        self._book = machines
        self._context = context
        self._capacity_of = capacity_of
        self._is_worker = is_worker
        self._unfinished = unfinished
        self._forget_worker = forget_worker
        self._threads: dict[str, MachineThread] = {}
        #: One change of a machine at a time: two would stop each other's thread. A lock goes with its last user.
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._extra = ExtraLogins(context)
        self._is_closed = False

    def start(self) -> None:
        """Begin to connect every machine of the book."""
        for entry in self._book.all():
            self._keep(entry)

    async def close(self) -> None:
        """End every connection, and changes under way. Jobs on the machines go on."""
        self._is_closed = True
        await self._extra.give_up()
        threads, self._threads = list(self._threads.values()), {}
        await asyncio.gather(*(thread.stop(self._extra.call) for thread in threads))
        self._extra.close()

    async def add(self, entry: MachineEntry, *, new_key: bool) -> AddedMachine:
        """Log in to a machine, then keep it and connect it as a worker."""
        entry = book.check(entry)
        if entry.capacity is not None:
            self._capacity_of(entry.capacity)
        async with self._lock(entry.name):
            known = self._book.get(entry.name)
            await self._refuse_name(known, entry.name)
            if known is not None and known.place != entry.place:
                await self._refuse_move(entry.name)
            try:
                found = await self._extra.call(self._first_login, entry, new_key)
            except LoginFailed as error:
                if error.is_unknown_key:
                    return AddedMachine("unknown_key", (str(error),), tuple(self._extra.made(entry, "").interactive()))
                raise
            # Again: another worker may have come during the login.
            await self._refuse_name(known, entry.name)
            status = await self._put(known, entry)
            if status != "unchanged" or entry.name not in self._threads:
                await self._stop(entry.name)
                self._keep(entry)
            else:
                self._threads[entry.name].retry(entry.agent)
            thread = self._threads[entry.name]
        await self._until_worker(thread)
        return AddedMachine(status, found)

    async def remove(self, name: str, *, force: bool) -> Sequence[str]:
        """Delete what is on a machine, and forget the machine and its worker."""
        async with self._lock(name):
            entry = self.entry(name)
            if not force:
                # Before the connection ends, which may be fetching files.
                await self._refuse_removal(name)
            async with self._stopped(entry):
                if not force:
                    # Again: nothing is started there from now on, and a job may have come before.
                    await self._refuse_removal(name)
                left = await self._extra.call(self._uninstall, entry, force)
                if await self._is_worker(name):
                    await self._forget_worker(name, force)
                self._book.remove(name)
            shutil.rmtree(self._folder(name), ignore_errors=True)
            return left

    def list(self) -> Sequence[MachineRow]:
        """Return every machine, by name."""
        return [self._row(entry, self._threads.get(entry.name)) for entry in self._book.all()]

    async def test(self, name: str, agent: str | None) -> AsyncIterator[Step]:
        """Test a machine step by step, over a connection of its own."""
        entry = self.entry(name)
        entry = replace(entry, agent=agent or entry.agent)
        steps: asyncio.Queue[Step | None] = asyncio.Queue(STEPS_MAX)
        loop = asyncio.get_running_loop()

        def run() -> None:
            with self._extra.transport(entry) as transport:
                for step in checkup(transport, entry.far_store(self._context.store_id), entry.dir):
                    loop.call_soon_threadsafe(steps.put_nowait, step)

        running = asyncio.create_task(self._extra.call(run))
        running.add_done_callback(lambda _: steps.put_nowait(None))
        while (step := await steps.get()) is not None:
            yield step
        await running
        if (thread := self._threads.get(name)) is not None:
            thread.retry(agent)

    async def free(self, name: str) -> dict[str, object]:
        """Return what a machine has free now, asked over the connection of its worker."""
        entry, thread = self.entry(name), self._thread(name)
        transport, greeting = thread.transport, thread.greeting
        if transport is None or greeting is None:
            raise Refused(f"{name} is not connected: {thread.trouble}")
        try:
            return probe.free_report(await self._extra.call(probe.ask, transport, greeting.home))
        except TooManySessions:
            return await self._extra.call(self._free_by_login, entry)
        except LinkLost as error:
            raise Refused(f"{entry.target.shown} does not answer: {error.strerror}") from error

    def _free_by_login(self, entry: MachineEntry) -> dict[str, object]:
        """Return the same over a login of its own, where the server gives the worker's login few sessions."""
        with self._extra.opened(entry) as (transport, _, greeting):
            return probe.free_report(probe.ask(transport, greeting.home))

    async def retry(self, name: str, agent: str | None) -> None:
        """Connect a machine now that waits for a person, or for its next try."""
        self._thread(name).retry(agent)

    def login(self, name: str) -> Sequence[str]:
        """Return the command line that logs in to a machine on a terminal."""
        return self._extra.made(self.entry(name), "").interactive()

    def entry(self, name: str) -> MachineEntry:
        """Return what was told of a machine; raise NotFound."""
        entry = self._book.get(name)
        if entry is None:
            raise NotFound(f"there is no machine {name!r}; `grass machine list` names them")
        return entry

    def _thread(self, name: str) -> MachineThread:
        """Return the thread of a machine; raise NotFound, or Refused while a change is under way."""
        thread = self._threads.get(self.entry(name).name)
        if thread is None:
            raise Refused(f"{name} is being changed or removed now; try again in a moment")
        return thread

    def _lock(self, name: str) -> asyncio.Lock:
        return self._changing.setdefault(name, asyncio.Lock())

    def _keep(self, entry: MachineEntry) -> None:
        if self._is_closed:
            raise stopping()
        capacity = None if entry.capacity is None else self._capacity_of(entry.capacity)
        thread = self._threads[entry.name] = MachineThread(entry, capacity, self._context)
        thread.start()

    async def _until_worker(self, thread: MachineThread) -> None:
        """Wait, not for ever, until the broker knows the worker of a machine: the next command may name it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                # The connection is made on another thread, which has no event of this loop.
                while not thread.needs_person and not (thread.connected and await self._is_worker(thread.entry.name)):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)

    async def _stop(self, name: str) -> None:
        thread = self._threads.pop(name, None)
        if thread is not None:
            await thread.stop(self._extra.call)

    @asynccontextmanager
    async def _stopped(self, entry: MachineEntry) -> AsyncIterator[None]:
        """End the connection of a machine for a change, and make it again if the change fails."""
        try:
            await self._stop(entry.name)
            yield
        except BaseException:  # also after a bug: without its thread a machine is not connected until a restart
            with suppress(Refused):  # the daemon is being stopped
                self._keep(entry)
            raise

    async def _put(self, known: MachineEntry | None, entry: MachineEntry) -> Status:
        """Write an entry into the book, unless that leaves unfinished jobs behind at another place."""
        if known is None or known.place == entry.place:
            return self._book.put(entry)
        async with self._stopped(known):
            # Again: a job may have been placed there during the login.
            await self._refuse_move(entry.name)
            return self._book.put(entry)

    async def _refuse_name(self, known: MachineEntry | None, name: str) -> None:
        """Refuse the name of a worker that is no machine over ssh."""
        if known is None and await self._is_worker(name):
            raise Refused(f"a worker is named {name} already; give the machine another name")

    async def _refuse_removal(self, name: str) -> None:
        """Refuse to delete the run dirs of jobs whose end the broker does not have yet."""
        if jobs := await self._unfinished(name):
            raise Refused(
                f"{name} has {_counted(jobs)}; `grass drain {name}`, and remove the machine when `grass show` has no"
                f" job there; `grass machine remove --force {name}` gives unfinished jobs up"
            )

    async def _refuse_move(self, name: str) -> None:
        """Refuse to look elsewhere for the run dirs of such jobs: they would count as lost, and run on."""
        if jobs := await self._unfinished(name):
            raise Refused(
                f"{name} has {_counted(jobs)}, so its host, user, port and --dir stay; `grass drain {name}`, and change"
                f" them when `grass show` has no job there, or add the other machine with another name"
            )

    def _row(self, entry: MachineEntry, thread: MachineThread | None) -> MachineRow:
        row = MachineRow(entry.name, entry.target.shown, "connecting", labels=entry.labels)
        if thread is None:
            return row
        greeting = thread.greeting
        state = "connected" if thread.connected else "needs you" if thread.needs_person else "connecting"
        return replace(
            row,
            state=state,
            why=thread.trouble,
            boot=None if greeting is None else greeting.boot,
            runs=None if greeting is None else greeting.python or "sh",
            jobs=thread.jobs if thread.connected else None,
            offers=capacity_text(thread.capacity),
            addresses=thread.addresses,
        )

    def _folder(self, name: str) -> str:
        return f"{self._context.folder}/{name}"

    def _first_login(self, entry: MachineEntry, new_key: bool) -> tuple[str, ...]:
        """Log in, and return what was found there, a line each."""
        with self._extra.opened(entry, new_key=new_key) as (transport, _, greeting):
            try:
                has = probe.in_words(probe.ask(transport, greeting.home))
            except (GrassError, LinkLost) as error:
                has = f"what it has could not be measured ({error}); `grass machine test {entry.name}` says more"
            return (has, f"{greeting.python or 'sh'} supervises the jobs", *self._same_boot(entry.name, greeting.boot))

    def _same_boot(self, name: str, boot: str) -> Iterator[str]:
        """Yield a line if another machine may be the same computer. Containers of one computer share its boot id."""
        greetings = {other: thread.greeting for other, thread in list(self._threads.items()) if other != name}
        same = sorted(other for other, each in greetings.items() if each is not None and each.boot == boot)
        if same:
            yield f"{same[0]} has the same boot id; if it is the same machine, its resources count twice"

    def _uninstall(self, entry: MachineEntry, force: bool) -> Sequence[str]:
        """Delete everything there; return what is left, a line each."""
        try:
            with self._extra.opened(entry, on_any=force) as (_, far, greeting):
                rest = self._ended(far) if force else far.uninstall()
        except GrassError as error:
            if force:
                return [f"{entry.dir} on {entry.target.shown}: {error}"]
            hint = f"`grass machine remove --force {entry.name}` forgets the machine, and leaves what is there"
            raise Refused(f"{error}; {hint}") from error
        if rest.running:
            jobs = ", ".join(each.partition("/")[0] for each in rest.running[:SHOWN_MAX])
            is_one = len(rest.running) == 1
            raise Refused(
                f"{len(rest.running)} {'job runs' if is_one else 'jobs run'} on {entry.name} ({jobs});"
                f" `grass machine remove --force {entry.name}` ends {'it' if is_one else 'them'}"
            )
        if rest.why and not (force or rest.is_open_only):
            raise Refused(
                f"{entry.dir} on {entry.target.shown} cannot be deleted: {rest.why}; delete it there, or"
                f" `grass machine remove --force {entry.name}` forgets the machine and leaves it"
            )
        left = [f"{entry.dir} on {entry.target.shown}: {rest.why}"] if rest.why else []
        if greeting.other is not None:
            left.append(f"jobs that may still run on {greeting.other}, which was not asked")
        return left

    @staticmethod
    def _ended(far: FarEnd) -> Uninstalled:
        """Kill every job there and delete everything; return what is left."""
        for attempt, _ in far.inventory(ATTEMPTS_MAX):
            far.stop(attempt, 0.0)
        deadline = time.monotonic() + KILL_S
        while (rest := far.uninstall()).running and time.monotonic() < deadline:
            time.sleep(KILL_PAUSE_S)
        return rest


def _counted(jobs: Sequence[int]) -> str:
    """Return how many jobs are unfinished, and the first of them."""
    named = ", ".join(map(str, jobs[:SHOWN_MAX])) + (", ..." if len(jobs) > SHOWN_MAX else "")
    return f"{len(jobs)} unfinished {'job' if len(jobs) == 1 else 'jobs'} ({named})"
