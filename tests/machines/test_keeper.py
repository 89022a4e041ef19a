"""The keeper of the machines, with an ssh that has no network: changes that fail, hang, or are under way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType
from tests.e2e.world import DEADLINE_S

from grassq.errors import GrassError, Refused
from grassq.files.blobs import BlobStore
from grassq.link.socket_pair import SocketEnd
from grassq.machines.book import Book, MachineEntry
from grassq.machines.keeper import MachineKeeper
from grassq.machines.machine_thread import MachineContext
from grassq.machines.ssh.target import SshTarget

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
