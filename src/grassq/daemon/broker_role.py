"""The daemon as a broker: its store, its engine, its sockets, and this machine's own worker if it has one."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import psutil
from aiohttp import web

from grassq import home as homes
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.broker.tokens import TokenLimits
from grassq.configuration import config_of
from grassq.core.messages import WorkerMessage
from grassq.core.notices import rules
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.workers import in_process
from grassq.core.resources.amounts import parse_request
from grassq.core.syntax.addresses import ADDRESSES_MAX, Address, parse_addresses
from grassq.core.syntax.store_urls import is_postgres, shown_url
from grassq.daemon.context import DaemonContext, SystemClock, cancel, host_name, load_mode, raise_file_limit, serve_user
from grassq.daemon.home_lock import open_run_root
from grassq.daemon.lost_history import LostHistory
from grassq.daemon.machines import make_keeper
from grassq.daemon.notices import open_notifier
from grassq.daemon.sent_files import bound_sent_files
from grassq.daemon.standby import lead, note_key
from grassq.files.blobs import BlobStore
from grassq.settings import STORE_MEMORY
from grassq.store.high_water import HighWater
from grassq.store.open import open_store, sqlite_path
from grassq.store.relational import Store
from grassq.web.access.audit import Audit, AuditEntry
from grassq.web.access.auth import Guard
from grassq.web.access.principal import OwnDefaults
from grassq.web.app import Api
from grassq.web.listen.loopback import LoopbackDoor
from grassq.web.listen.tcp import Identity, families, is_wildcard, listen, only_here
from grassq.web.logs.cache import LogCache
from grassq.web.logs.index import LogIndexes
from grassq.web.routes.tokens import Reach
from grassq.web.submit.json5_text import parse_object
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.registry import WorkerRegistry
from grassq.worker import job_files, offers
from grassq.worker.local_machine import LocalMachine
from grassq.worker.worker import Worker

log = logging.getLogger(__name__)

STORE_NAME = "store.db"
#: The mark of a store elsewhere. Not beside a `store.db` of this home, which has a mark of its own.
MARK_NAME = "postgres.mark"
CACHE_NAME = "cache"
#: The indexes of logs.
INDEX_NAME = "log-index"
REMIND_S = 86400.0


async def open_broker(stack: AsyncExitStack, setup: DaemonContext) -> list[asyncio.Task[None]]:
    """Build everything, to be closed with the stack; return the tasks that must not end before."""
    durable = setup.values.store != STORE_MEMORY
    run_root = stack.enter_context(open_run_root(setup.home, durable))
    url = setup.values.store or f"sqlite:{setup.home}/{STORE_NAME}"
    identity = _identity(setup)
    led = await lead(setup, url, identity, _mark_in_home(setup)) if is_postgres(url) else None
    if setup.stopping.is_set():
        return []  # told to stop while it stood by
    offer_file = None if setup.mode.no_worker else _offer_file(run_root, setup, durable)
    local = None if offer_file is None else offer_file.name
    history = LostHistory(run_root)
    engine = Engine(lambda: _decider(setup, led or open_store(url), url, history, local, identity))
    stack.push_async_callback(engine.close)
    running = asyncio.create_task(engine.run())
    parts = [running]
    unknown = history.unknown
    worker = None if offer_file is None else _worker(run_root, offer_file, setup, engine, durable, unknown)
    stack.push_async_callback(cancel, running)
    if worker is not None:
        engine.connect(worker.name, worker.deliver)
        parts.append(await worker.start())
        stack.push_async_callback(worker.close)
    await _open_sockets(stack, setup, engine, worker, url, run_root, identity)
    return parts


def keeps_queue(home: str) -> bool:
    """Tell whether a daemon of this home would be a broker with a store that may have jobs."""
    mode = load_mode(home)
    return not mode.no_broker and (mode.store is not None or Path(home, STORE_NAME).exists())


def _mark(setup: DaemonContext, url: str) -> HighWater | None:
    """Return the mark of the store: beside its file, or for a store elsewhere in the home of each of its brokers."""
    if url == STORE_MEMORY:
        return None
    return _mark_in_home(setup) if is_postgres(url) else HighWater(f"{sqlite_path(url)}.mark", beside_store=True)


def _mark_in_home(setup: DaemonContext) -> HighWater:
    return HighWater(f"{setup.home}/{MARK_NAME}", beside_store=False)


def _decider(
    setup: DaemonContext, store: Store, url: str, history: LostHistory, local: str | None, identity: Identity | None
) -> Decider:
    note_key(setup, store, identity)
    history.compare(store)
    return Decider(
        store,
        SystemClock(),
        incarnation=secrets.token_hex(8),
        patience=ReservationPolicy(setup.values.passes, setup.values.patience_s),
        floor_id=history.highest_id,
        lost_jobs=history.lost_jobs,
        lease_s=setup.values.lease_s,
        roles=in_process(local),
        mark=_mark(setup, url),
        wants_notice=partial(rules.wants, setup.values.notify),
    )


def _offer_file(run_root: str, setup: DaemonContext, durable: bool) -> offers.OfferFile:
    name = setup.mode.name or host_name()
    offer_file = offers.load(run_root, name) if durable else offers.OfferFile(name)
    if durable:
        offers.save(run_root, offer_file)
    return offer_file


def _worker(
    run_root: str,
    offer_file: offers.OfferFile,
    setup: DaemonContext,
    engine: Engine,
    durable: bool,
    unknown: list[int],
) -> Worker:
    def send(message: WorkerMessage) -> None:
        engine.post(FromWorker(offer_file.name, message))

    machine = LocalMachine(
        run_root,
        store=engine.status.store_id,
        capacity=setup.capacity,
        with_daemon=not durable,
        environment=setup.default_env,
        unknown_jobs=unknown,
        nofile=raise_file_limit(),
        blobs=f"{setup.home}/{homes.BLOBS_NAME}",
        log_max=setup.log_max,
    )
    offered = offers.Offers(offer_file, run_root if durable else None)
    return Worker(machine, offered, send, labels=setup.mode.labels, disk=setup.watch_disk(run_root))


async def _open_sockets(
    stack: AsyncExitStack,
    setup: DaemonContext,
    engine: Engine,
    worker: Worker | None,
    url: str,
    run_root: str,
    identity: Identity | None,
) -> None:
    audit = Audit(run_root)
    stack.callback(audit.close)
    hosts = [*(identity.names if identity else ()), *filter(None, setup.values.hosts.split(","))]
    values = setup.values
    guard = Guard(
        audit,
        hosts,
        limits=TokenLimits(values.token_jobs, values.token_mib << 20, values.token_priority_max),
        own=OwnDefaults(setup.default_env.cwd, setup.default_env.env, setup.default_env.umask),
    )
    links = WorkerRegistry(engine, alarm=partial(_alarm, audit))
    blobs = BlobStore(os.fsencode(f"{setup.home}/{homes.BLOBS_NAME}"))
    machines = make_keeper(setup, engine, links, blobs)
    directory = _directory(stack, setup, engine, links, worker, run_root, has_machines=bool(machines.list()))
    default = parse_request(parse_object(setup.values.default_request, "default_request"))
    about = {**setup.describe(shown_url(url), engine.status.store_id), "bind": setup.mode.bind}
    check_files = partial(job_files.check, blobs)
    tidying = asyncio.create_task(bound_sent_files(engine, blobs, setup.values.sent_files_mib << 20))
    stack.push_async_callback(cancel, tidying)
    notifier = open_notifier(stack, setup, engine, run_root, directory)
    api = Api(
        engine,
        directory,
        default,
        setup.stopping.set,
        about,
        guard=guard,
        link=links.socket,
        check_files=check_files,
        machines=machines,
        notifier=notifier,
        token_notify=setup.values.token_notify,
        project=setup.values.project,
        config=config_of(setup.values, setup.origins),
        keep=setup.keep,
    )
    _forget_joined(setup.home)
    runner = await serve_user(stack, setup.home, api.app())
    _open_page(stack, setup, runner, api)
    # Closed before the web server, which waits until every connection has ended.
    stack.push_async_callback(links.close)
    stack.push_async_callback(machines.close)
    machines.start()
    if identity is not None:
        await _listen_on_tcp(stack, setup, runner, api, identity)


def _open_page(stack: AsyncExitStack, setup: DaemonContext, runner: web.AppRunner, api: Api) -> None:
    """Open the loopback door of the page again if it was open before."""
    assert runner.server is not None
    door = LoopbackDoor(runner.server, setup.home, setup.values.web_port)
    stack.push_async_callback(door.close)
    door.reopen()
    api.sessions.door = door


def _forget_joined(home: str) -> None:
    """Let commands of a home that was only a worker before go to its own queue again."""
    Path(home, homes.JOINED_NAME).unlink(missing_ok=True)


def _directory(
    stack: AsyncExitStack,
    setup: DaemonContext,
    engine: Engine,
    links: WorkerRegistry,
    worker: Worker | None,
    run_root: str,
    *,
    has_machines: bool,
) -> WorkerDirectory:
    local = None if worker is None else worker.name
    folder = Path(setup.home) / CACHE_NAME
    cache = LogCache(folder, engine, links.get, most_bytes=setup.values.log_cache_mib << 20, local=local)
    links.on_welcome = cache.greet
    stack.push_async_callback(cache.close)
    if setup.mode.bind is not None or has_machines:
        cache.start()
    return WorkerDirectory(links, worker, cache, LogIndexes(Path(run_root) / INDEX_NAME), run_root)


def _alarm(audit: Audit, words: str) -> None:
    """Write to the log and the audit that a worker connects with an identity that is in use."""
    log.error("alarm %s", words)
    entry = AuditEntry(
        at=time.time(), who="broker", name="", peer="", method="GET", path="/v1/worker", about=words, result="refused"
    )
    audit.write(entry, sync=True)


def _identity(setup: DaemonContext) -> Identity | None:
    """Return the certificate of a broker that listens on TCP; None for another broker."""
    if setup.mode.bind is None:
        return None
    # Imported here: `cryptography` is slow to load, and only a broker on TCP needs it.
    from grassq.web.listen import certificate

    password = None if setup.cert_pass is None else setup.cert_pass.encode()
    if setup.mode.cert is None:
        hosts = [address.host for address in parse_addresses(setup.mode.bind, "--bind")]
        return certificate.own(setup.home, hosts, time.time())
    return certificate.load(setup.mode.cert, password)


async def _listen_on_tcp(
    stack: AsyncExitStack, setup: DaemonContext, runner: web.AppRunner, api: Api, identity: Identity
) -> None:
    assert setup.mode.bind is not None
    typed = parse_addresses(setup.mode.bind, "--bind")
    sockets = await listen(stack, runner, typed, identity)
    addresses = reachable(typed)
    api.tokens.reach = Reach(addresses, identity.fingerprint)
    api.sessions.addresses = addresses
    for note in identity.notes:
        setup.say(note)
    reminding = asyncio.create_task(_remind(identity))
    stack.push_async_callback(cancel, reminding)
    setup.say(f"broker at {', '.join(map(str, addresses))}")
    if (here := only_here(sockets)) is not None:
        setup.say(f"it listens at {here}, where only this machine connects; --bind 0.0.0.0 lets others connect")
    if setup.background:
        # A code must not stay in a log file.
        setup.say("`grass token create` makes a code for a person, with --scope worker for a worker")
        return
    setup.say(f"`grass join` on a worker asks for this code:  {await api.tokens.start_up_code('worker')}")
    setup.say(f"`grass login` of a user asks for this code:   {await api.tokens.start_up_code('submit')}")
    setup.say("each code is for one use within 1 h; `grass token create` makes others")


async def _remind(identity: Identity) -> None:
    """Log a warning every day while the certificate has expired or is about to."""
    while True:
        if (words := identity.expiry(time.time())) is not None:
            log.warning("certificate %s", words)
        await asyncio.sleep(REMIND_S)


def reachable(typed: Sequence[Address]) -> list[Address]:
    """Return the addresses that clients can use: as typed, and for a wildcard every address of this machine.

    A loopback address is left out unless it is the only one: at another machine it would lead to that machine.
    """
    found = [each for each in typed if not is_wildcard(each.host)]
    for each in typed:
        if is_wildcard(each.host):
            found += [Address(host, each.port) for host in _own_addresses(families(each.host))]
    return list(dict.fromkeys(found))[:ADDRESSES_MAX]


def _own_addresses(versions: Sequence[int]) -> list[str]:
    """Return the addresses of this machine of these IP versions, IPv4 first: loopback only if it has no other."""
    found = []
    for entries in psutil.net_if_addrs().values():
        for entry in entries:
            try:
                address = ipaddress.ip_address(entry.address.partition("%")[0])
            except ValueError:
                continue
            if address.version in versions and not address.is_link_local:
                found.append(address)
    outward = [address for address in found if not address.is_loopback]
    return [str(address) for address in sorted(outward or found, key=lambda address: address.version)]
