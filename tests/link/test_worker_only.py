"""The local socket of a machine that is only a worker: its own queues here, everything else is the broker's."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from tests.link.harness import play

from grassq.core.messages import LeftFolder
from grassq.core.model import Offer
from grassq.core.resources.device_changes import DeviceChange
from grassq.web.logs.tail import LogReader
from grassq.web.routes.worker_only import OwnWorkerRoutes

KEY = "0" * 32


class FakeWorker:
    """A worker that keeps its offers in memory."""

    def __init__(self) -> None:
        self.queues: tuple[Offer, ...] = ()
        self.held = 2
        self.changed: list[DeviceChange] = []
        self.name = "box"

    @property
    def logs(self) -> LogReader:
        raise NotImplementedError

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        self.queues = (*self.queues, offer)
        return "created", []

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        self.changed.append(asked)
        return ["done"]

    async def withdraw(self, queue: str) -> None:
        self.queues = tuple(offer for offer in self.queues if offer.queue != queue)

    async def remove(self, ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
        raise NotImplementedError

    async def size(self, ids: list[int]) -> int:
        raise NotImplementedError

    def folders(self) -> list[int]:
        return []

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        return []

    def describe(self) -> dict[str, object]:
        return {"worker": "box"}


def test_own_queues_info_and_stop_are_answered_and_the_rest_is_refused(tmp_path: Path) -> None:
    worker, stopping = FakeWorker(), asyncio.Event()
    path = str(tmp_path / "socket")

    async def ask(method: str, target: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as session,
            session.request(method, f"http://grass{target}", data=data) as answer,
        ):
            assert "Grass-Version" in answer.headers
            return answer.status, await answer.json()

    async def whole() -> None:
        async with AsyncExitStack() as stack:
            routes = OwnWorkerRoutes(worker, lambda: {"online": True}, stopping.set, {"pid": 1}, {})
            runner = web.AppRunner(routes.app(), shutdown_timeout=0.1, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.UnixSite(runner, path).start()
            create = {"words": ["q", "train"], "key": KEY}
            assert (await ask("POST", "/v1/create-queue", create))[1]["status"] == "created"
            assert [offer.queue for offer in worker.queues] == ["q"]
            drain = {"ids": ["3"], "key": KEY}
            assert (await ask("POST", "/v1/devices/drain", drain))[1]["notes"] == ["done"]
            assert worker.changed == [DeviceChange("drain", ("3",))]
            assert (await ask("POST", "/v1/devices/remove", drain | {"kill": True}))[0] == 409
            for method, target, body in (
                ("GET", "/v1/show", None),
                ("POST", "/v1/enqueue", {"words": ["x"], "key": KEY}),
                ("POST", "/v1/create-queue", {"words": ["--worker", "w", "r", "train"], "key": KEY}),
                ("POST", "/v1/create-queue", {"words": ["r", "train"], "key": KEY, "temporary": True}),
                ("POST", "/v1/delete-queue", {"name": "q", "worker": "w", "key": KEY}),
                ("POST", "/v1/devices/drain", {"ids": ["3"], "worker": "w", "key": KEY}),
            ):
                status, answer = await ask(method, target, body)
                assert (status, answer["error"]["exit"]) == (409, 5), target
                assert "ask its broker" in answer["error"]["message"]
            assert [offer.queue for offer in worker.queues] == ["q"]
            assert (await ask("POST", "/v1/delete-queue", {"name": "q", "key": KEY}))[0] == 200
            assert worker.queues == ()
            assert (await ask("GET", "/v1/info"))[1]["broker"] == {"online": True}
            assert (await ask("POST", "/v1/stop", {}))[1] == {"running": 2} and stopping.is_set()

    play(whole)
