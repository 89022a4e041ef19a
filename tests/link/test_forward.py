"""The local socket of a machine that only works: local things here, the rest to the broker, and no secrets with it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.link.harness import certificate, play, serve, until

from grassq.core.endpoint import Endpoint
from grassq.core.syntax.addresses import Address
from grassq.web.worker_only.proxy import NO_LOGIN, Forwarder

CANARY = "hunter2-canary"
NOBODY = Address("127.0.0.1", 1)
KEY = "0" * 32


class Scene:
    """A stand-in for a broker that notes what it is sent, and the forwarder's socket before it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.path = str(folder / "socket")
        self.got: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.follow = asyncio.Event()
        self.left = asyncio.Event()
        self.way: Endpoint | None = None

    async def start(self, *addresses: Address) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._broker)
        here = await serve(self.stack, app)
        self.way = Endpoint((*addresses, here), certificate()[1], "ann.secret")
        local = {("POST", "/v1/create-queue"): self._local, ("POST", "/v1/delete-queue"): self._local}
        forwarder = Forwarder(lambda: self.way, {**local, ("GET", "/v1/info"): self._local}, seek_s=0.5)
        runner = web.AppRunner(forwarder.app(), shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.UnixSite(runner, self.path).start()

    async def _local(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"here": request.path})

    async def _broker(self, request: web.Request) -> web.StreamResponse:
        self.got.append((request.method, request.path_qs, await request.read()))
        self.headers.append(dict(request.headers))
        if request.path.endswith("/log"):
            return await self._log(request)
        if request.path == "/v1/enqueue":
            return web.Response(body=b"job 7 queued\n", headers={"Grass-Exit": "0", "Grass-Stdout": "13"})
        status = 409 if request.path == "/v1/jobs/hold" else 200
        return web.json_response({"there": request.path}, status=status, headers={"Grass-Version": "99"})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Grass-Offset": "0"})
        await response.prepare(request)
        await response.write(b"first\n")
        if "cut" in request.query:
            assert request.transport is not None
            request.transport.abort()
            return response
        try:
            while not self.follow.is_set():
                assert request.transport is not None and not request.transport.is_closing()
                await asyncio.sleep(0.01)
        except AssertionError:
            self.left.set()
            return response
        await response.write(b"last\n")
        return response

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        data = None if body is None else json.dumps(body).encode()
        async with self.session() as session, session.request(method, f"http://grass{path}", data=data) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, json.loads(raw) if is_json else raw, dict(answer.headers)

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.UnixConnector(self.path))


def play_scene(folder: Path, test: Any, *addresses: Address) -> None:
    async def whole() -> None:
        async with AsyncExitStack() as stack:
            scene = Scene(folder, stack)
            await scene.start(*addresses)
            await test(scene)

    play(whole)


OWN = {"env": [["TOKEN", CANARY]], "cwd": f"/home/{CANARY}", "umask": 0o77}


def test_the_environment_directory_and_umask_stay_on_this_machine(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.ask("POST", "/v1/enqueue", {"words": ["train", "x"], "key": KEY, "verb": "enqueue", **OWN})
        await scene.ask("POST", "/v1/submit", {"jobs": [{"command": ["x"]}], "key": KEY, **OWN})
        words = ["--worker", "w", "q", "train"]
        await scene.ask("POST", "/v1/create-queue", {"words": words, "key": KEY, **OWN})
        assert [path for _, path, _ in scene.got] == ["/v1/enqueue", "/v1/submit", "/v1/create-queue"]
        assert json.loads(scene.got[0][2]) == {"words": ["train", "x"], "key": KEY, "verb": "enqueue"}
        assert CANARY not in repr((scene.got, scene.headers))

    play_scene(tmp_path, test)


def test_what_concerns_the_machine_is_done_here(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        create = {"words": ["q", "train"], "key": KEY, **OWN}
        assert (await scene.ask("POST", "/v1/create-queue", create))[1] == {"here": "/v1/create-queue"}
        assert (await scene.ask("POST", "/v1/delete-queue", {"name": "q", "key": KEY}))[1]["here"]
        assert (await scene.ask("GET", "/v1/info"))[1]["here"]
        assert scene.got == []
        other = {"name": "q", "worker": "w", "key": KEY}
        assert (await scene.ask("POST", "/v1/delete-queue", other))[1] == {"there": "/v1/delete-queue"}

    play_scene(tmp_path, test)


def test_answers_come_as_the_broker_gave_them_with_this_daemons_version(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        status, _, headers = await scene.ask("GET", "/v1/show?selector=a%26b&selector=c")
        assert status == 200
        assert headers["Grass-Version"] != "99"
        assert scene.got == [("GET", "/v1/show?selector=a%26b&selector=c", b"")]
        assert scene.headers[0]["Authorization"] == "Bearer ann.secret"
        assert scene.headers[0]["Host"] == "grass"
        status, body, headers = await scene.ask("POST", "/v1/enqueue", {"words": [], "key": KEY})
        assert (status, body, headers["Grass-Exit"], headers["Grass-Stdout"]) == (200, b"job 7 queued\n", "0", "13")
        assert (await scene.ask("POST", "/v1/jobs/hold", {"selectors": ["1"], "key": KEY}))[0] == 409

    play_scene(tmp_path, test)


def test_without_a_login_one_is_told_what_to_type(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        way, scene.way = scene.way, None
        status, body, _ = await scene.ask("GET", "/v1/show")
        assert (status, body["error"]) == (409, {"exit": 5, "message": NO_LOGIN})
        _, text, headers = await scene.ask("POST", "/v1/enqueue", {"words": ["x"], "key": KEY})
        assert (text, headers["Grass-Exit"]) == (f"grass: {NO_LOGIN}\n".encode(), "5")
        scene.way = way
        assert (await scene.ask("GET", "/v1/show"))[0] == 200

    play_scene(tmp_path, test)


def test_a_broker_that_is_not_there_is_exit_4(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        assert scene.way is not None
        scene.way = Endpoint((NOBODY,), scene.way.fingerprint, scene.way.token)
        status, body, _ = await scene.ask("GET", "/v1/show")
        assert (status, body["error"]["exit"]) == (503, 4)
        assert "jobs that run here run on" in body["error"]["message"]
        _, text, headers = await scene.ask("POST", "/v1/enqueue", {"words": ["x"], "key": KEY})
        assert text.startswith(b"grass: the broker is not reached") and headers["Grass-Exit"] == "4"

    play_scene(tmp_path, test)


def test_the_next_address_is_asked_when_the_first_is_dead(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        assert (await scene.ask("GET", "/v1/show"))[0] == 200

    play_scene(tmp_path, test, NOBODY)


def test_another_certificate_gets_nothing_of_us(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        assert scene.way is not None
        scene.way = Endpoint(scene.way.addresses, b"\1" * 32, scene.way.token)
        status, body, _ = await scene.ask("GET", "/v1/show")
        assert status == 409 and "another certificate" in body["error"]["message"]
        assert scene.got == []

    play_scene(tmp_path, test)


def test_a_followed_log_streams_through(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        async with scene.session() as session, session.get("http://grass/v1/jobs/1/log?follow=1") as answer:
            assert await answer.content.readany() == b"first\n"
            scene.follow.set()
            assert await answer.content.read() == b"last\n"

    play_scene(tmp_path, test)


def test_a_log_that_breaks_off_at_the_broker_breaks_off_here(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        async with scene.session() as session, session.get("http://grass/v1/jobs/1/log?cut=1") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()

    play_scene(tmp_path, test)


def test_a_follower_that_goes_away_is_not_followed_for(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        async with scene.session() as session:
            answer = await session.get("http://grass/v1/jobs/1/log?follow=1")
            assert await answer.content.readany() == b"first\n"
            answer.close()
        await until(scene.left.is_set)

    play_scene(tmp_path, test)


def test_a_request_that_makes_no_sense_goes_nowhere(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        status, body, _ = await scene.ask("POST", "/v1/submit", ["no object"])
        assert (status, body["error"]["exit"]) == (400, 2)
        assert scene.got == []

    play_scene(tmp_path, test)
