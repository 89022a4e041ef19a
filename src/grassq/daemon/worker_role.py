"""The daemon as a worker of a broker elsewhere: it dials out and runs what it is given.

Commands and the SDK on this machine go to that broker directly; the daemon only tells them its addresses, in a file.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from msgspec.structs import replace

from grassq import atomic_files
from grassq import home as homes
from grassq.core.endpoint import Endpoint
from grassq.core.syntax.addresses import parse_addresses
from grassq.daemon.context import DaemonContext, cancel, raise_file_limit, serve_user
from grassq.errors import GrassError, Refused
from grassq.net import broker as remote_broker
from grassq.net.broker import Credential
from grassq.run.own_daemon import LOCK_NAME
from grassq.web.worker_only.routes import OwnWorkerRoutes
from grassq.worker import offers
from grassq.worker.broker_link import BrokerLink
from grassq.worker.local_machine import LocalMachine
from grassq.worker.worker import Worker

BROKERS_NAME = "brokers"


async def open_worker(stack: AsyncExitStack, setup: DaemonContext) -> list[asyncio.Task[None]]:
    """Build everything, take it down with the stack; the tasks that end only by that, or by a bug."""
    credential = await asyncio.to_thread(_credential, setup)
    place = _place(setup.home, credential.store_id)
    book = replace(offers.load(place, credential.name), name=credential.name)
    offers.save(place, book)
    link = BrokerLink(place, credential.store_id, lambda: _way_to_work(setup, credential))
    machine = LocalMachine(
        place,
        store=credential.store_id,
        capacity=setup.capacity,
        environment=setup.default_env,
        remote_broker=True,
        nofile=raise_file_limit(),
    )
    worker = Worker(machine, offers.Offers(book, place), link.send, labels=setup.mode.labels)
    ticking = await worker.start()
    stack.push_async_callback(worker.close)
    dialling = asyncio.create_task(link.run(worker))
    stack.push_async_callback(cancel, dialling)
    addresses = ",".join(map(str, credential.addresses))
    atomic_files.write_aside(setup.home, homes.JOINED_NAME, f"{addresses}\n".encode(), sync=True)
    about = setup.describe("", credential.store_id)
    routes = OwnWorkerRoutes(worker, link.describe, setup.stopping.set, about)
    await serve_user(stack, setup.home, routes.app())
    setup.say(f"worker {credential.name} of the broker at {', '.join(map(str, credential.addresses))}")
    return [ticking, dialling]


def _credential(setup: DaemonContext) -> Credential:
    """What this machine joined its broker with."""
    if setup.mode.connect is not None:
        return remote_broker.credential(setup.home, parse_addresses(setup.mode.connect, "--connect"), "worker")
    joined = remote_broker.joined(setup.home)
    if len(joined) != 1:
        raise Refused("say which broker to work for: --connect HOST:PORT; `grass join CODE` joins one")
    return joined[0]


def _way_to_work(setup: DaemonContext, first: Credential) -> Endpoint:
    """How to come to the broker now: who joins again, or learns another address, need not start anew."""
    now = first
    with suppress(GrassError):
        for each in remote_broker.joined(setup.home):
            if each.store_id == first.store_id:
                now = each
    return Endpoint(tuple(dict.fromkeys([*first.addresses, *now.addresses])), now.fingerprint, now.token)


def _place(home: str, store_id: str) -> str:
    """Where the run dirs for one broker are: never among those of this home's own store, for ids would meet."""
    place = Path(home) / BROKERS_NAME / store_id
    place.mkdir(0o700, parents=True, exist_ok=True)
    lock = place / LOCK_NAME
    if not lock.is_symlink():
        # A daemon that a job starts is known by its home's lock; the run dirs of this place find it here.
        lock.symlink_to(Path("..") / ".." / LOCK_NAME)
    return str(place)
