"""The keeper of the machines, with an ssh that has no network: changes that fail, hang, or are under way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType
from tests.e2e.world import DEADLINE_S

from grassq.errors import GrassError, Refused
from grassq.files.blobs import BlobStore
from grassq.link.socket_pair import SocketEnd
from grassq.machines.book import Book, MachineEntry
from grassq.machines.extra_logins import CALLS_MAX, LOGINS_MAX
from grassq.machines.keeper import MachineKeeper
from grassq.machines.machine_thread import MachineContext
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.target import SshTarget

#: How long something may take that waits for no login.
SOON_S = 15.0
_FAKE = Path(__file__).with_name("fake_ssh.py")


def entry(name: str) -> MachineEntry:
    return MachineEntry(name, SshTarget(name), capacity="{cpu: 2}", python=False)


class Broker:
    """The broker, as the keeper asks it."""

    def __init__(self) -> None:
        self.workers: set[str] = set()
        #: What happens when a worker is to be forgotten.
        self.forget: Callable[[], Awaitable[None]] = self._forget

    async def _forget(self) -> None:
        pass

    async def serve(self, name: str, end: SocketEnd) -> None:
        self.workers.add(name)
        try:
            while (await end.receive()).type is not WSMsgType.CLOSED:
                pass
        finally:
            await end.close()

    async def is_worker(self, name: str) -> bool:
        return name in self.workers

    async def unfinished(self, name: str) -> list[int]:
        return []

    async def forget_worker(self, name: str, lost: bool) -> None:
        await self.forget()
        self.workers.discard(name)


class Desk:
    """A home, and hosts behind an ssh without a network."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.hosts = folder / "hosts"
        self.hosts.mkdir()
        self.ssh = folder / "ssh"
        self.write_ssh(f"exec '{sys.executable}' -I -S '{_FAKE}' '{self.hosts}' 0 \"$@\"")
        self.broker = Broker()

    def write_ssh(self, script: str) -> None:
        self.ssh.write_text(f"#!/bin/sh\n{script}\n")
        self.ssh.chmod(0o755)

    def host(self, name: str) -> MachineEntry:
        (self.hosts / name).mkdir()
        return entry(name)

    @asynccontextmanager
    async def keeper(self) -> AsyncIterator[MachineKeeper]:
        context = MachineContext(
            str(self.home / "machines"),
            "5eed",
            BlobStore(str(self.home / "blobs").encode()),
            self.broker.serve,
            asyncio.get_running_loop(),
            ssh=str(self.ssh),
        )
        keeper = MachineKeeper(
            Book(str(self.home)),
            context,
            capacity_of=lambda text: {},
            is_worker=self.broker.is_worker,
            unfinished=self.broker.unfinished,
            forget_worker=self.broker.forget_worker,
        )
        try:
            yield keeper
        finally:
            await keeper.close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def until(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {DEADLINE_S} s") from None


def test_a_machine_that_is_being_removed_answers_in_words(desk: Desk) -> None:
    async def run() -> None:
        reached, gate = asyncio.Event(), asyncio.Event()

        async def forget() -> None:
            reached.set()
            await gate.wait()

        desk.broker.forget = forget
        async with desk.keeper() as keeper:
            await keeper.add(desk.host("a"), new_key=False)
            removing = asyncio.create_task(keeper.remove("a", force=False))
            await reached.wait()
            with pytest.raises(Refused, match="a is being changed or removed now"):
                await keeper.free("a")
            with pytest.raises(Refused, match="a is being changed or removed now"):
                await keeper.retry("a", None)
            steps = [step.name async for step in keeper.test("a", None)]
            assert steps[0] == "login"
            gate.set()
            assert await removing == []

    asyncio.run(run())


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError(5, "a broken disk"), Refused("no")])
def test_a_machine_is_kept_whatever_keeps_it_from_being_removed(desk: Desk, error: Exception) -> None:
    async def run() -> None:
        async def forget() -> None:
            raise error

        desk.broker.forget = forget
        async with desk.keeper() as keeper:
            await keeper.add(desk.host("a"), new_key=False)
            with pytest.raises(type(error)):
                await keeper.remove("a", force=False)
            await until(lambda: keeper.list()[0].state == "connected", "a is connected again")

    asyncio.run(run())


def test_a_disk_without_room_here_is_said(desk: Desk) -> None:
    (desk.home / "machines").touch()  # no folder can be made there

    async def run() -> None:
        async with desk.keeper() as keeper:
            with pytest.raises(GrassError, match="machines"):
                await keeper.add(desk.host("a"), new_key=False)

    asyncio.run(run())


def hang(desk: Desk, until_count: int) -> Callable[[], int]:
    """Let ssh wait until so many logins have begun, and then be refused; return how many have begun."""
    began = desk.home / "began"
    began.mkdir()
    desk.write_ssh(
        f"touch '{began}'/$$; until [ \"$(ls '{began}' | wc -l)\" -ge {until_count} ]; do sleep 0.05; done;"
        " echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255"
    )
    return lambda: len(list(began.iterdir()))


def test_a_login_that_hangs_takes_no_thread_of_the_daemon(desk: Desk) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        began = hang(desk, 1000)
        async with desk.keeper() as keeper:
            adding = asyncio.create_task(keeper.add(entry("a"), new_key=False))
            await until(began, "a login hangs")
            async with asyncio.timeout(SOON_S):
                await asyncio.to_thread(int)
            await keeper.close()
            await asyncio.wait([adding], timeout=SOON_S)
            assert adding.done(), "the login is given up with the keeper"
            assert isinstance(adding.exception(), GrassError)
        assert keeper.list() == []

    asyncio.run(run())


def test_machines_are_added_side_by_side(desk: Desk) -> None:
    async def run() -> None:
        hang(desk, 2)
        async with desk.keeper() as keeper, asyncio.timeout(SOON_S):
            adding = [keeper.add(entry(name), new_key=False) for name in ("a", "b")]
            errors = await asyncio.gather(*adding, return_exceptions=True)
            assert [type(error) for error in errors] == [LoginFailed, LoginFailed]

    asyncio.run(run())


def test_more_machines_than_threads_are_added(desk: Desk) -> None:
    async def run() -> None:
        count = LOGINS_MAX + CALLS_MAX
        machines = [desk.host(f"m{number}") for number in range(count)]
        hang(desk, LOGINS_MAX)
        async with desk.keeper() as keeper:
            errors = await asyncio.gather(
                *(keeper.add(each, new_key=False) for each in machines), return_exceptions=True
            )
            assert {type(error) for error in errors} == {LoginFailed}

    asyncio.run(run())


def test_a_machine_that_is_added_twice_at_once_is_added_once(desk: Desk) -> None:
    async def run() -> None:
        machine = desk.host("a")
        async with desk.keeper() as keeper:
            added = await asyncio.gather(*(keeper.add(machine, new_key=False) for _ in range(3)))
            assert sorted(each.status for each in added) == ["added", "unchanged", "unchanged"]

    asyncio.run(run())


def test_a_worker_that_joins_during_the_login_keeps_its_name(desk: Desk) -> None:
    async def run() -> None:
        machine = desk.host("a")
        gate = desk.home / "gate"
        began = desk.home / "began"
        fake = desk.ssh.read_text().splitlines()[1]
        desk.write_ssh(f"touch '{began}'; until [ -e '{gate}' ]; do sleep 0.05; done; {fake}")
        async with desk.keeper() as keeper:
            adding = asyncio.create_task(keeper.add(machine, new_key=False))
            await until(began.exists, "the login has begun")
            desk.broker.workers.add("a")
            gate.touch()
            with pytest.raises(Refused, match="a worker is named a already"):
                await adding
            assert keeper.list() == []

    asyncio.run(run())
