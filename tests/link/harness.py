"""Both ends of a link on loopback: a real broker behind real TLS, workers that dial it, and lines that misbehave."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import trustme
from aiohttp import web
from msgspec.structs import replace
from tests.broker.decider_fixture import a_draft
from tests.builders import a_worker

from grassq.broker import service
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.core import protocol
from grassq.core.messages import Hello, Order, Report, Start
from grassq.core.model import Constraints, Offer, Outcome, State, WorkerInfo
from grassq.core.planner.workers import machine_capacity
from grassq.core.protocol import LinkTimes
from grassq.core.resources.device_changes import DeviceChange, change
from grassq.core.states import Exited
from grassq.core.syntax.addresses import Address
from grassq.errors import Refused
from grassq.run import rundir
from grassq.store.sqlite import MEMORY, SqliteStore
from grassq.web.access.principal import CALLER, Principal
from grassq.web.logs.cache import LogCache
from grassq.web.logs.serve import serve_log
from grassq.web.responses import Handler, errors_in_words
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.registry import WorkerRegistry
from grassq.worker.broker_link import BrokerLink, Endpoint
from grassq.worker.local_logs import LocalLogs

#: Everything quick, so that what takes a minute in life takes a second here.
QUICK = LinkTimes(
    heartbeat_s=0.1,
    silence_s=0.4,
    greet_s=5.0,
    probe_s=0.3,
    ask_s=5.0,
    retry_min_s=0.02,
    retry_max_s=0.1,
    refused_s=0.1,
    stable_s=0.2,
)
#: For tests in which nothing may be given up because this machine is slow.
PATIENT = replace(QUICK, silence_s=30.0, probe_s=10.0, greet_s=30.0, ask_s=30.0)
SOON_S = 20.0
SHORT = aiohttp.ClientWSTimeout(ws_close=0.1)


class SystemClock:
    """The clock of this machine."""

    wall = staticmethod(time.time)
    mono = staticmethod(time.monotonic)


@cache
def certificate() -> tuple[ssl.SSLContext, bytes]:
    """A server's TLS context, and the fingerprint of its certificate."""
    leaf = trustme.CA().issue_cert("127.0.0.1", "localhost", "::1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    der = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
    return context, hashlib.sha256(der).digest()


async def until(condition: Callable[[], object], what: str = "it did not happen") -> None:
    """Wait for a condition, not for long."""
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test inside a loop, with a limit."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(limited())


async def serve(stack: AsyncExitStack, app: web.Application, *, host: str = "127.0.0.1", port: int = 0) -> Address:
    """An application behind TLS, until the stack is closed."""
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port, ssl_context=certificate()[0])
    await site.start()
    return Address(host, runner.addresses[0][1])


@web.middleware
async def by_token(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The id of the token is the worker's name here; `x` is nobody."""
    name = request.headers.get("Authorization", "").removeprefix("Bearer ").partition(".")[0]
    if name == "x":
        raise web.HTTPUnauthorized(reason="no such token")
    request[CALLER] = Principal("submit" if name == "ann" else "worker", name, name)
    return await handler(request)


class Broker:
    """An engine with a real store, and the broker's end of the links."""

    def __init__(self, folder: Path, times: LinkTimes, store: str = MEMORY) -> None:
        self.alarms: list[str] = []
        self.engine = Engine(lambda: Decider(SqliteStore(store), SystemClock(), incarnation=f"{time.monotonic_ns()}"))
        self.links = WorkerRegistry(self.engine, times=times, alarm=self.alarms.append)
        self.cache = LogCache(folder / "cache", self.engine, self.links.get, most_bytes=1 << 20, log_max=64 << 10)
        self.directory = WorkerDirectory(self.links, None, self.cache)
        self.task: asyncio.Task[None] | None = None
        self.address = Address("127.0.0.1", 1)
        self.keys = 0

    async def start(self, stack: AsyncExitStack, host: str = "127.0.0.1", port: int = 0) -> None:
        self.task = asyncio.create_task(self.engine.run())
        stack.push_async_callback(self.engine.close)
        stack.push_async_callback(self._stop)
        self.cache.start()
        stack.push_async_callback(self.cache.close)
        self.links.on_welcome = self.cache.greet
        app = web.Application(middlewares=[errors_in_words, by_token])
        app.router.add_get(protocol.PATH, self.links.socket)
        app.router.add_get(r"/v1/jobs/{id:\d+}/log", self._log)
        self.address = await serve(stack, app, host=host, port=port)
        stack.push_async_callback(self.links.close)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        return await serve_log(request, self.engine, self.directory)

    async def _stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def online(self, worker: str) -> bool:
        """Whether the board has this worker as in touch."""
        worker_state = self.engine.decider.board.workers.get(worker)
        return worker_state is not None and worker_state.online

    async def submit(self, worker: str = "w", **more: Any) -> int:
        """A job for one worker; its id."""
        self.keys += 1
        key = f"key {self.keys}"
        drafts = [a_draft(constraints=Constraints(worker), **more)]
        handler = partial(service.submit, drafts=drafts, key=key, digest=b"d")
        return (await self.engine.change(handler, key=key, recall=service.ids_of))[0]

    async def end(self, job: int, worker: str = "w") -> None:
        """A worker says that a job has ended, and it is stored."""
        self.engine.post(FromWorker(worker, Report(job, Exited(1, Outcome.EXITED, 0))))
        await self.engine.read(lambda batch: None)

    async def log(self, job: int, into: dict[str, str] | None = None, /, **query: str) -> tuple[int, bytes]:
        """A job's log over HTTP: the status, and the bytes; the headers are put into `into`."""
        url = f"https://{self.address}/v1/jobs/{job}/log"
        async with aiohttp.ClientSession() as session:
            pin = aiohttp.Fingerprint(certificate()[1])
            headers = {"Authorization": "Bearer ann.s"}
            async with session.get(url, params=query, headers=headers, ssl=pin) as answer:
                if into is not None:
                    into.update(answer.headers)
                return answer.status, await answer.read()


class Worker:
    """A worker that runs nothing: it notes its orders, and has the logs a test gives it."""

    def __init__(
        self, folder: Path, name: str, addresses: Iterable[Address], times: LinkTimes, store_id: str, token: str = ""
    ) -> None:
        self.info: WorkerInfo = replace(a_worker(name, cpu=4), cuts_logs=True, changes_devices=True)
        self.place = folder / f"place {name}"
        self.place.mkdir(exist_ok=True)
        self.logs = LocalLogs(str(self.place))
        self.orders: list[Order] = []
        self.confirmations: list[float] = []
        self.hellos = 0
        self.way = Endpoint(tuple(addresses), certificate()[1], token or f"{name}.secret")
        self.link = BrokerLink(str(self.place), store_id, lambda: self.way, times=times)
        self.task: asyncio.Task[None] | None = None

    def dial(self, stack: AsyncExitStack) -> None:
        self.task = asyncio.create_task(self.link.run(self))
        stack.push_async_callback(self.stop)

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def write_log(self, job: int, data: bytes, stream: str = "log", attempt: int = 1) -> None:
        path = Path(rundir.attempt_dir(str(self.place), job, attempt))
        path.mkdir(parents=True, exist_ok=True)
        (path / stream).write_bytes(data)

    def report(self, job: int, code: int = 0) -> None:
        self.link.send(Report(job, Exited(1, Outcome.EXITED, code)))

    def hello(self, *, fresh: bool = True) -> None:
        self.hellos += fresh
        self.link.send(Hello(self.info, fresh))

    def deliver(self, order: Order) -> None:
        self.orders.append(order)

    def started(self) -> list[int]:
        return [order.job for order in self.orders if isinstance(order, Start)]

    def confirmed(self, at: float) -> None:
        self.confirmations.append(at)

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        if offer.queue == "bad":
            raise Refused("there is no such device")
        self.info = replace(self.info, offers=(*self.info.offers, offer))
        self.hello(fresh=False)
        return "created", ["a note"]

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        devices, notes = change(self.info.devices, asked, machine_capacity(replace(self.info, devices={})))
        self.info = replace(self.info, devices=devices)
        self.hello(fresh=False)
        return notes

    async def withdraw(self, queue: str) -> None:
        self.info = replace(self.info, offers=tuple(o for o in self.info.offers if o.queue != queue))
        self.hello(fresh=False)


class World:
    """A broker, its workers and the lines between them, taken down together."""

    def __init__(self, folder: Path, stack: AsyncExitStack, times: LinkTimes) -> None:
        self.folder = folder
        self.stack = stack
        self.times = times
        self.broker = Broker(folder, times)

    def worker(
        self, name: str = "w", *, at: Iterable[Address] | None = None, token: str = "", store_id: str | None = None
    ) -> Worker:
        """A worker that dials from now on."""
        known = self.broker.engine.status.store_id if store_id is None else store_id
        worker = Worker(self.folder, name, at or [self.broker.address], self.times, known, token)
        worker.dial(self.stack)
        return worker

    async def joined(self, name: str = "w", **more: Any) -> Worker:
        """A worker that has been welcomed."""
        worker = self.worker(name, **more)

        def is_in_touch() -> bool:
            assert worker.task is not None and not worker.task.done(), worker.task
            return worker.link.online and self.broker.online(name)

        await until(is_in_touch, f"{name} is not in touch")
        return worker


@asynccontextmanager
async def world(folder: Path, times: LinkTimes = PATIENT) -> AsyncIterator[World]:
    """A world with a broker that listens."""
    async with AsyncExitStack() as stack:
        one = World(folder, stack, times)
        await one.broker.start(stack)
        yield one


class Line:
    """A TCP line between worker and broker that can freeze, crawl or be cut, in either direction."""

    def __init__(self, to: Address) -> None:
        self._to = to
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.flows = asyncio.Event()
        self.flows.set()
        #: Bytes that pass at a time, and the pause after each.
        self.piece, self.pause_s = 1 << 16, 0.0
        self.passed = 0
        self.dialled = 0
        self.address = to

    async def open(self, stack: AsyncExitStack) -> Line:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        stack.push_async_callback(self._close, server)
        self.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        return self

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.dialled += 1
        far_reader, far_writer = await asyncio.open_connection(self._to.host, self._to.port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._writers.add(target)
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(self.piece):
                await self.flows.wait()
                target.write(data)
                await target.drain()
                self.passed += len(data)
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        except ConnectionError:
            pass
        finally:
            target.transport.abort()
            self._writers.discard(target)


#: What becomes of a frame on its way: "up" to the broker or "down" to the worker.
Alter = Callable[[str, bytes], list[bytes]]


class FrameLine:
    """A line that ends TLS itself and sees each frame: it may drop, double or add some."""

    def __init__(self, to: Address, alter: Alter) -> None:
        self._to = to
        self.alter = alter
        #: Headers put in place of the worker's own.
        self.headers: dict[str, str] = {}
        self.dialled = 0
        self.address = to

    async def open(self, stack: AsyncExitStack) -> FrameLine:
        app = web.Application()
        app.router.add_get(protocol.PATH, self._pass)
        self.address = await serve(stack, app)
        return self

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self.dialled += 1
        kept = ("Authorization", protocol.PROTOCOL_HEADER, protocol.TICKET_HEADER, protocol.SEEN_HEADER)
        headers = {"Host": "grass", **{name: request.headers.get(name, "") for name in kept}, **self.headers}
        url = f"https://{self._to}{protocol.PATH}"
        async with aiohttp.ClientSession() as session:
            pin = aiohttp.Fingerprint(certificate()[1])
            try:
                far = await session.ws_connect(
                    url, headers=headers, ssl=pin, max_msg_size=protocol.FRAME_MAX, timeout=SHORT
                )
            except aiohttp.WSServerHandshakeError as error:
                words = error.headers.get(protocol.ERROR_HEADER, "") if error.headers else ""
                return web.Response(status=error.status, headers={protocol.ERROR_HEADER: words})
            near = web.WebSocketResponse(timeout=0.1, max_msg_size=protocol.FRAME_MAX)
            await near.prepare(request)
            pumps = [
                asyncio.create_task(self._pump("up", near, far)),
                asyncio.create_task(self._pump("down", far, near)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            if request.transport is not None:
                request.transport.abort()
            await far.close()
            return near

    async def _pump(self, way: str, source: Any, target: Any) -> None:
        send: Callable[[bytes], Awaitable[None]] = target.send_bytes
        async for message in source:
            for data in self.alter(way, message.data):
                await send(data)


def kind_of(data: bytes) -> str:
    """What sort of frame this is."""
    _, body = msgspec.msgpack.decode(data)
    return str(body["type"])


def numbered(data: bytes) -> int:
    """The number of a frame."""
    return int(msgspec.msgpack.decode(data)[0])


def seen_by(one: World, job: int) -> State | None:
    """The state of a job on the board; None when it is over."""
    found = one.broker.engine.decider.board.jobs.get(job)
    return None if found is None else found.state
