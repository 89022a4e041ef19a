"""A broker with a temporary queue that has a subscriber: its frames, its logs and its deletion, all in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import BrokerFixture, answer_from, key, play, until

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.protocol import LogCut
from grassq.core.states import Exited
from grassq.web.logs.tail import Source

QUEUE = "sgs-1"
SUBSCRIBE = f"/v1/queues/{QUEUE}/subscribe"


class Rig:
    """A broker with a temporary queue, whose logs are in memory and whose deletions are noted."""

    def __init__(self, fixture: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fixture = fixture
        self.gone: list[str] = []
        self.logs: dict[int, bytes] = {}
        self.reads: list[int] = []
        #: What happens while a queue is deleted.
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        monkeypatch.setattr(fixture.directory, "withdraw", self._withdraw)
        monkeypatch.setattr(fixture.directory, "source", lambda *_: Source(self))
        offers = [an_offer(), replace(an_offer(QUEUE), temporary=True)]
        fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=offers), fresh=False)))

    async def _withdraw(self, queue: str) -> None:
        self.gone.append(queue)
        self.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4), fresh=False)))
        if self.meanwhile is not None:
            await self.meanwhile()

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        self.reads.append(job)
        if wait_s:
            with contextlib.suppress(TimeoutError):
                await until(lambda: len(self.logs.get(job, b"")) != offset, wait_s)
        log = self.logs.get(job, b"")
        return log[offset : offset + (1 << 20)], len(log)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        return 0

    async def submit(self, **more: Any) -> int:
        job = {"command": ["true"], "queue": QUEUE, **more}
        body = {"jobs": [job], "key": key(), "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
        answer = await self.fixture.ask("POST", "/v1/submit", body, local=True)
        return int(answer.json["ids"][0])

    async def end(self, job: int, attempt: int = 1) -> None:
        self.fixture.engine.post(FromWorker("w", Report(job, Exited(attempt, Outcome.EXITED, 0))))
        await self.fixture.engine.read(lambda batch: None)

    @contextlib.asynccontextmanager
    async def subscribed(self, more: str = "") -> AsyncIterator[Stream]:
        stream = await self.subscribe(more)
        try:
            yield stream
        finally:
            stream.writer.close()

    async def subscribe(self, more: str = "", *, path: str = SUBSCRIBE) -> Stream:
        reader, writer = await asyncio.open_unix_connection(str(self.fixture.home / "grass.sock"))
        self.fixture.writers.append(writer)
        writer.write(f"GET {path}{more} HTTP/1.1\r\nHost: grass\r\n\r\n".encode())
        assert (await answer_from(reader)).status == 200
        return Stream(reader, writer)


class Stream:
    """The frames of an answer in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._buffer = b""

    async def frame(self) -> tuple[dict[str, Any], bytes]:
        async with asyncio.timeout(30):
            while b"\n" not in self._buffer:
                await self._more()
            line, _, self._buffer = self._buffer.partition(b"\n")
            document = json.loads(line)
            size = document.get("size", 0)
            while len(self._buffer) < size:
                await self._more()
            data, self._buffer = self._buffer[:size], self._buffer[size:]
            return document, data

    async def kinds(self, count: int) -> list[tuple[str, int, bytes]]:
        """What the next frames are: their kind, their job and their bytes."""
        found = []
        for _ in range(count):
            document, data = await self.frame()
            kind = next(iter(document))
            found.append((kind, document[kind], data))
        return found

    async def _more(self) -> None:
        size = int((await self.reader.readline()).strip(), 16)
        self._buffer += await self.reader.readexactly(size)
        await self.reader.readline()


def with_rig(test: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of_it(fixture: BrokerFixture) -> None:
        await test(Rig(fixture, monkeypatch))

    play(all_of_it)
