"""The daemon as a worker of a broker elsewhere: it connects to the broker and runs what the broker orders.

Commands and the SDK on this machine go to that broker directly; they read its addresses from a file the daemon writes.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from msgspec.structs import replace

from grassq import atomic_files
from grassq import home as homes
from grassq.configuration import config_of
from grassq.core.syntax.addresses import parse_addresses
from grassq.daemon.context import (
    DaemonContext,
    SavedMode,
    cancel,
    load_mode,
    raise_file_limit,
    save_mode,
    serve_user,
)
from grassq.errors import GrassError, Refused
from grassq.net import broker as remote_broker
from grassq.net.broker import Credential
from grassq.run.own_daemon import SOCKETS_NAME
from grassq.web.routes.worker_only import OwnWorkerRoutes
from grassq.worker import offers
from grassq.worker.broker_link import BrokerLink, Endpoint
from grassq.worker.local_machine import LocalMachine
from grassq.worker.worker import Worker

BROKERS_NAME = "brokers"


async def open_worker(stack: AsyncExitStack, setup: DaemonContext) -> list[asyncio.Task[None]]:
    """Build everything, to be closed with the stack; return the tasks that must not end before."""
    credential = await asyncio.to_thread(_credential, setup)
    run_root = _run_root(setup.home, credential.store_id)
    offer_file = replace(offers.load(run_root, credential.name), name=credential.name)
    offers.save(run_root, offer_file)
    link = BrokerLink(run_root, credential.store_id, lambda: _endpoint(setup, credential))
    machine = LocalMachine(
        run_root,
        store=credential.store_id,
        capacity=setup.capacity,
        environment=setup.default_env,
        remote_broker=True,
        nofile=raise_file_limit(),
        log_max=setup.log_max,
    )
    offered = offers.Offers(offer_file, run_root)
    worker = Worker(machine, offered, link.send, labels=setup.mode.labels, disk=setup.watch_disk(run_root))
    ticking = await worker.start()
    stack.push_async_callback(worker.close)
    dialling = asyncio.create_task(link.run(worker))
    stack.push_async_callback(cancel, dialling)
    _note_joined(setup.home, credential)
    about = setup.describe("", credential.store_id)
    routes = OwnWorkerRoutes(worker, link.describe, setup.stopping.set, about, config_of(setup.values, setup.origins))
    await serve_user(stack, setup.home, routes.app())
    setup.say(f"worker {credential.name} of the broker at {', '.join(map(str, credential.addresses))}")
    return [ticking, dialling]


def become_worker(home: str, broker: Credential) -> list[str]:
    """Let the next daemon of this home be a worker of a broker; return the queues of this machine that it offers.

    What was made on this machine before it joined, such as its queues, goes with it.
    """
    before = load_mode(home)
    addresses = ",".join(map(str, broker.addresses))
    mode = SavedMode(connect=addresses, no_broker=True, labels=before.labels, capacity=before.capacity)
    save_mode(home, mode)
    _note_joined(home, broker)
    run_root = _run_root(home, broker.store_id)
    own = offers.load(home, broker.name)
    if offers.load(run_root, broker.name).offers or not own.offers:
        return []
    offers.save(run_root, replace(own, name=broker.name))
    return [offer.queue for offer in own.offers]


def _note_joined(home: str, broker: Credential) -> None:
    """Let the commands of this home go to the broker that its daemon works for."""
    addresses = ",".join(map(str, broker.addresses))
    atomic_files.write_aside(home, homes.JOINED_NAME, f"{addresses}\n".encode(), sync=True)


def _credential(setup: DaemonContext) -> Credential:
    """Return what this machine joined its broker with."""
    if setup.mode.connect is not None:
        return remote_broker.credential(setup.home, parse_addresses(setup.mode.connect, "--connect"), "worker")
    joined = remote_broker.joined(setup.home)
    if len(joined) != 1:
        raise Refused("say which broker to work for: --connect HOST:PORT; `grass join` joins one")
    return joined[0]


def _endpoint(setup: DaemonContext, first: Credential) -> Endpoint:
    """Return how to reach the broker now: a new `grass join` may have brought another token or address."""
    now = first
    with suppress(GrassError):
        for each in remote_broker.joined(setup.home):
            if each.store_id == first.store_id:
                now = each
    return Endpoint(tuple(dict.fromkeys([*first.addresses, *now.addresses])), now.fingerprint, now.token)


def _run_root(home: str, store_id: str) -> str:
    """Return the directory of the run dirs for one broker. Ids of two stores overlap, so each store has one."""
    run_root = Path(home) / BROKERS_NAME / store_id
    run_root.mkdir(0o700, parents=True, exist_ok=True)
    noted = run_root / SOCKETS_NAME
    if not noted.is_symlink():
        # The shim of a job that starts a daemon finds this daemon by the file beside the job's run dir.
        noted.symlink_to(Path("..") / ".." / SOCKETS_NAME)
    return str(run_root)
