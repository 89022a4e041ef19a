"""A broker that listens: the real engine, store, application and TLS, on the unix socket and on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct
from tests.builders import HandClock, a_request, a_worker

from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello
from grassq.core.model import Offer
from grassq.core.resources.device_changes import DeviceChange
from grassq.core.syntax.addresses import Address
from grassq.errors import Refused
from grassq.store.base import Scope, Token
from grassq.store.sqlite import MEMORY, SqliteStore
from grassq.web.access.audit import Audit
from grassq.web.access.auth import Guard
from grassq.web.access.principal import CALLER
from grassq.web.app import Api
from grassq.web.listen import certificate
from grassq.web.listen.loopback import LoopbackDoor
from grassq.web.listen.tcp import listen, make_runner
from grassq.web.page.files import PageFiles
from grassq.web.routes.tokens import Reach
from grassq.web.workers.directory import WorkerDirectory
from grassq.web.workers.machine_admin import MachineAdmin
from grassq.web.workers.registry import WorkerRegistry

Test = Callable[["BrokerFixture"], Coroutine[Any, Any, None]]
WAIT_S = 30.0


class NoWorkers(WorkerDirectory):
    """No worker is connected; the queues that are made are recorded."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(WorkerRegistry(engine))
        self.made: list[tuple[str | None, Offer]] = []
        self.asked: str | None = None

    def queue_admin(self, worker: str | None = None) -> NoWorkers:
        if worker == "gone":
            raise Refused("worker 'gone' is out of touch")
        self.asked = worker
        return self

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        self.made.append((self.asked, offer))
        return "created", []

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        raise NotImplementedError

    async def withdraw(self, queue: str) -> None:
        self.made = [(worker, offer) for worker, offer in self.made if offer.queue != queue]


class Answer(Struct):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as read."""
        return json.loads(self.body)

    @property
    def words(self) -> str:
        """What an error says."""
        return str(self.json["error"]["message"])


class BrokerFixture:
    """The broker, and ways to ask it."""

    def __init__(self, home: Path, machines: MachineAdmin | None = None, pages: PageFiles | None = None) -> None:
        self.home = home
        self.clock = HandClock()
        self.audit = Audit(str(home))
        self.engine = Engine(lambda: Decider(SqliteStore(MEMORY), self.clock, incarnation="life-1"))
        self.directory = NoWorkers(self.engine)
        self.guard = Guard(self.audit, ["broker.example", "*.lab.example"], now=self.clock.wall)
        self.api = Api(
            self.engine,
            self.directory,
            a_request(cpu=1),
            self._stop,
            {"pid": 1},
            guard=self.guard,
            link=self._link,
            machines=machines,
            page=pages,
            check_files=lambda send, fetch: None,
        )
        self.app = self.api.app()
        self.identity = certificate.own(str(home), ["127.0.0.1", "box"], self.clock.wall())
        self.linked = asyncio.Event()
        self.unlinked = asyncio.Event()
        self.stopped = False
        self.port = 0
        self.page_port = 0
        self.writers: list[asyncio.StreamWriter] = []

    def _stop(self) -> None:
        self.stopped = True

    async def _link(self, request: web.Request) -> web.StreamResponse:
        """A worker's end: it stays until it is cut."""
        assert request[CALLER].scope == "worker"
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        self.linked.set()
        try:
            await ws.receive()
        finally:
            self.unlinked.set()
        return ws

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[BrokerFixture]:
        """Serve until the end of the block."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.audit.close)
            stack.push_async_callback(self.engine.close)
            loop_task = asyncio.create_task(self.engine.run())
            stack.push_async_callback(_cancel, loop_task)
            self.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4))))
            runner = make_runner(self.app, 0.2)
            await runner.setup()
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.bind(str(self.home / "grass.sock"))
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, sock, backlog=8).start()
            sockets = await listen(stack, runner, [Address("127.0.0.1", 0)], self.identity)
            self.port = sockets[0].getsockname()[1]
            self.api.tokens.reach = Reach([Address("127.0.0.1", self.port)], self.identity.fingerprint)
            assert runner.server is not None
            self.api.sessions.door = LoopbackDoor(runner.server, str(self.home), 7580)
            stack.push_async_callback(self.api.sessions.door.close)
            self.page_port = await self.api.sessions.door.open(0)
            stack.push_async_callback(self._hang_up)
            yield self

    async def _hang_up(self) -> None:
        for writer in self.writers:
            writer.close()
        for writer in self.writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def client_context(self) -> ssl.SSLContext:
        """Trusts this broker's certificate and no other."""
        return ssl.create_default_context(cafile=str(self.home / certificate.FILE_NAME))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TLS connection."""
        streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.client_context())
        self.writers.append(streams[1])
        return streams

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        local: bool = False,
    ) -> Answer:
        """One request on a connection of its own."""
        if local:
            reader, writer = await asyncio.open_unix_connection(str(self.home / "grass.sock"))
        else:
            reader, writer = await self.connect()
        try:
            return await exchange(reader, writer, method, path, body, token, headers)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def token(self, scope: Scope, **more: Any) -> str:
        """A token as its holder shows it."""
        id_, secret = secrets.token_hex(4), new_secret()
        token = Token(id=id_, digest=digest_of(secret), scope=scope, name=more.pop("name", "ann"), created=0.0, **more)

        def put(batch: Batch) -> None:
            batch.changes.tokens[id_] = token

        await self.engine.change(put)
        self.guard.put(token)
        return f"{id_}.{secret}"


async def exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: object = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request and its answer."""
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Host": "grass", "Content-Length": str(len(raw))}
    if token is not None:
        lines["Authorization"] = f"Bearer {token}"
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + raw)
    return await answer_from(reader)


async def answer_from(reader: asyncio.StreamReader) -> Answer:
    """Read one answer."""
    async with asyncio.timeout(WAIT_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        for line in head[1:]:
            if line.lower().startswith("set-cookie: "):
                fields["set-cookie"] = line.partition(": ")[2]
        size = int(fields.get("content-length", "0"))
        return Answer(int(head[0].split()[1]), fields, await reader.readexactly(size))


def new_secret() -> str:
    """A secret as clients make them."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def digest_of(secret: str) -> bytes:
    """What the store keeps of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def key() -> str:
    """A fresh key."""
    return secrets.token_hex(16)


async def until(condition: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def is_closed(reader: asyncio.StreamReader, seconds: float = WAIT_S) -> bool:
    """Whether the other side closes the connection within a time."""
    try:
        async with asyncio.timeout(seconds):
            while await reader.read(1 << 16):
                pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def play(test: Test, machines: MachineAdmin | None = None, pages: PageFiles | None = None) -> None:
    """Run a test with a broker of its own."""

    async def all_of_it(home: Path) -> None:
        fixture = BrokerFixture(home, machines, pages)
        async with asyncio.timeout(90), fixture.open():
            await test(fixture)

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(all_of_it(Path(home)))


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def raw_connection(port: int) -> socket.socket:
    """A TCP connection without TLS."""
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
