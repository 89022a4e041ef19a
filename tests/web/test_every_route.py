"""Every route of the OpenAPI document is called, and its answer is checked against the document, field by field."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer
from tests.web.api_check import ApiCheck, AskedNames
from tests.web.broker_fixture import BrokerFixture, key, new_secret, play
from tests.web.live_page import page as live_page
from tests.web.subscribed import Rig
from tests.web.test_machines import Machines

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.notices.rules import NotifyRule
from grassq.core.states import Exited, Started
from grassq.core.syntax import join_codes
from grassq.notify.notifier import Notifier
from grassq.notify.senders import NoticeSender
from grassq.store.base import Scope
from grassq.web.logs.index import LogIndexes
from grassq.web.page.files import PageFiles

LOG = b"epoch 1\n\x1b[31mred\x1b[0m\n\r 10%|#   | 1/10\r 50%|##  | 5/10\nlast line\n"


class KnownMachines(Machines):
    """Machines that answer with everything."""

    async def free(self, name: str) -> dict[str, object]:
        gpu = {"index": 0, "name": "g", "mem_total_mib": 10, "mem_free_mib": 5, "utilisation": None}
        memory = {"mem_total_mib": 100, "mem_free_mib": 50}
        return {"cpus": 16, "free_cores": 1.5, **memory, "gpu_fault": None, "gpus": [gpu]}


async def change_devices(asked: Any) -> list[str]:
    """A worker that says that it has changed its devices."""
    return [f"{len(asked.ids)} changed"]


class Caller:
    """Asks a broker, and checks every answer."""

    def __init__(self, session: aiohttp.ClientSession, check: ApiCheck, base: str, token: str | None = None) -> None:
        self.session, self.check, self.base = session, check, base
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def ask(self, method: str, path: str, status: int = 200, **body: Any) -> Any:
        """Ask, expect a status, and return the checked answer; POST has a key unless `key` is None."""
        sent = {"key": key(), **body} if method == "POST" else None
        if sent is not None and sent["key"] is None:
            del sent["key"]
        async with self.session.request(method, self.base + path, json=sent, headers=self.headers) as answer:
            content = await answer.read()
            assert answer.status == status, (method, path, answer.status, content[:500])
            return self.check.check(method, path, answer.status, answer.content_type, content)

    async def stream(self, path: str, lines: int) -> list[Any]:
        """Ask for an answer without an end, and return its first lines."""
        async with self.session.get(self.base + path, headers=self.headers) as answer:
            found = [await answer.content.readline() for _ in range(lines)]
            self.check.check("GET", path, answer.status, answer.content_type, b"".join(found))
            return found


class EveryRoute:
    """A broker with jobs that ran, failed and wait, and a caller that asks everything as the owner."""

    def __init__(self, rig: Rig, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig, self.owner, self.fixture = rig, owner, rig.fixture
        monkeypatch.setattr(self.fixture.directory, "change_devices", change_devices)

    async def furnish(self) -> None:
        """Make jobs in every state."""
        # Some routes read the clock of the machine.
        self.fixture.clock.set_by += time.time() - self.fixture.clock.wall()
        offers = [an_offer(), an_offer("q")]
        info = replace(a_worker("w", cpu=4, gpu=2, offers=offers), suspends=True)
        self.fixture.engine.post(FromWorker("w", Hello(info, fresh=False)))
        await self.owner.ask("POST", "/v1/drain", worker="w", undo=True)
        submit = self._submit
        succeeded = await submit(queue="q", name="lr", request={"gpu": 1}, notify=["desktop"])
        failed = await submit(queue="q", name="lr", project="p")
        running = await submit(queue="q", request={"gpu": 0.5}, split=True)
        waiting = [await submit(queue="q", request={"gpu": 2}, name="lr") for _ in range(2)]
        held = await submit(queue="q", hold=True)
        away = await submit(queue="elsewhere")
        assert [succeeded, failed, running, *waiting, held, away] == [1, 2, 3, 4, 5, 6, 7]
        self.rig.logs |= {1: LOG, 2: b"RuntimeError: CUDA out of memory\n", 3: LOG}
        for job in (1, 2, 3):
            await self._report(job, Started(1, 100 + job))
        self.fixture.clock.now += 60.0
        await self._report(1, Exited(1, Outcome.EXITED, 0, result='{"loss":0.5}'))
        await self._report(2, Exited(1, Outcome.EXITED, 1))
        self.fixture.clock.now += 5.0

    async def _submit(self, **job: Any) -> int:
        answer = await self.owner.ask("POST", "/v1/submit", jobs=[{"command": ["true"], **job}], env=[["PATH", "/bin"]])
        return int(answer["ids"][0])

    async def _report(self, job: int, event: Any) -> None:
        self.fixture.engine.post(FromWorker("w", Report(job, event)))
        await self.fixture.engine.read(lambda batch: None)

    async def ask_jobs(self) -> None:
        ask = self.owner.ask
        for query in ("", "look=1", "look=failed", "brief=1", "selector=all&look=1", "within_s=100", "selector=1-7"):
            shown = await ask("GET", f"/v1/show?{query}")
            assert shown["jobs"] and shown["workers"] and shown["queues"], query
        assert len((await ask("GET", "/v1/why?selector=all"))["jobs"]) == 7
        assert (await ask("GET", "/v1/wait?selector=1&selector=2&any=1&timeout_s=0.01"))["done"]
        filters = "state=failed&queue=q&name=lr&worker=w&text=true&created_since=0&created_until=9e9&sort=finished"
        more = "finished_since=0&finished_until=9e9&order=asc&limit=3&look=1"
        assert [job["id"] for job in (await ask("GET", f"/v1/jobs?{filters}&{more}"))["jobs"]] == [2]
        first = await ask("GET", "/v1/jobs?limit=2")
        after = await ask("GET", f"/v1/jobs?cursor={quote(first['next'])}")
        assert [job["id"] for job in after["jobs"]][:2] == [5, 4]
        await ask("GET", "/v1/jobs?selector=1")
        window = "q=state:failed&sort=id&order=asc&first=0&count=5&look=1"
        assert (await ask("GET", f"/v1/jobs/window?{window}"))["count"] == 1
        assert (await ask("GET", "/v1/jobs/window"))["count"] == 7
        assert (await ask("GET", "/v1/jobs/counts?q=queue:q"))["count"] == 6
        for by in ("day", "queue", "name", "worker", "user"):
            assert (await ask("GET", f"/v1/history?by={by}&since=30d&selector=all"))["total"]["jobs"] == 2, by
        assert (await ask("GET", "/v1/history?since=30d"))["total"]["jobs"] == 2
        assert (await ask("GET", "/v1/sweeps?limit=5"))["sweeps"]
        assert (await ask("GET", "/v1/sweeps/lr"))["rows"]
        for job in range(1, 8):
            await ask("GET", f"/v1/jobs/{job}")
            await ask("GET", f"/v1/jobs/{job}/submission")
        await ask("GET", "/v1/complete?kind=job,name,queue,worker,label,resource,machine&prefix=&states=held")

    async def ask_when(self) -> None:
        ask = self.owner.ask
        for query in ("", "?selector=all", "?selector=1"):
            await ask("GET", f"/v1/eta{query}")
        await ask("GET", "/v1/eta/check")
        now = self.fixture.clock.wall()
        await ask("GET", f"/v1/timeline?from={now - 100}&to={now + 3600}&px=500")
        await ask("GET", f"/v1/what-if?capacity={quote('{gpu: 8}')}&on=w")
        await ask("GET", f"/v1/what-if?capacity={quote('{gpu: 8}')}&selector=all")
        assert (await ask("POST", "/v1/what-if", words=["q", "--gpu", "1", "true"]))["job"]["id"] is None
        await ask("GET", "/v1/line?queue=q&count=2")
        await ask("POST", "/v1/limit", group="project:p", amounts={"gpu": 8, "mem": "64G"}, jobs=10)
        assert len((await ask("GET", "/v1/limits"))["limits"]) == 1
        assert len((await ask("GET", "/v1/devices"))["devices"]) == 2

    async def ask_logs(self) -> None:
        ask = self.owner.ask
        path = "/v1/jobs/1/log"
        assert await ask("GET", f"{path}?attempt=1&stream=log&offset=0&limit=7&resume=1") == b"epoch 1"
        assert await ask("GET", f"{path}?tail=1&follow=1") == LOG
        for place in ("line=1&count=3", "line=-2", "byte=9", "since=0", "attempt=1&stream=log"):
            lines = await ask("GET", f"{path}/lines?{place}")
            assert lines["lines"] and lines["is_final"], place
        assert not (await ask("GET", "/v1/jobs/6/log/lines"))["lines"]
        hits = await ask("GET", f"{path}/search?q=E.OCH&regex=1&i=1&after=0&limit=5&attempt=1&stream=log")
        assert [hit["n"] for hit in hits if "n" in hit] == [1] and hits[-1]["end"]

    async def ask_streams(self) -> None:
        lines = await self.owner.stream("/v1/events?selector=all&ended=0", 1)
        assert json.loads(lines[0])["event"] == "subscribed"
        first = json.loads(lines[0])
        since = f"{first['epoch']}.{max(0, first['seq'] - 3)}"
        assert len(await self.owner.stream(f"/v1/events?since={since}", 3)) == 3
        # Lines of JSON, and bytes where a line says so: `test_queue_stream.py` reads them.
        assert b"started" in (await self.owner.stream("/v1/queues/q/subscribe?from=1&offsets=1:1:4&over=2-2", 1))[0]
        wanted: dict[str, Any] = {
            "totals": True,
            "jobs": [1, 3, 99],
            "look": True,
            "devices": True,
            "queues": True,
            "workers": True,
        }
        async with live_page(self.fixture, log={"job": 1, "lines": 20}, **wanted) as page:
            check = self.owner.check
            await page.until(lambda: bool(page.log) and {1, 3, 99} <= page.jobs.keys() and "workers" in page.parts)
            for frame in [{"hello": page.hello}, *page.frames]:
                check.frame("/v1/live", frame)

    async def submit_more(self) -> None:
        ask = self.owner.ask
        said = await ask("POST", "/v1/enqueue", words=["q", "--hold", "true"])
        assert said == b"job 8 held in q\n"
        await ask("POST", "/v1/submit", jobs=[{"command": ["true"], "queue": "q", "hold": True}])
        await ask("POST", "/v1/submit-many", job={"queue": "q", "hold": True}, commands=[["true"], ["false"]])
        await ask(
            "POST", "/v1/dry-run", job={"queue": "q"}, commands=["true {x}"], grid={"parameters": {"x": ["0..2"]}}
        )
        await ask("POST", "/v1/check", words=["q", "--gpu", "1", "true"])
        await ask("POST", "/v1/check", batch="a;;/tmp/out.txt;;true;;;\nwrong")
        await ask("POST", "/v1/submit-batch", text="a;;out.txt;;true;;;", job={"queue": "q", "hold": True}, cwd="/tmp")
        assert (await ask("GET", "/v1/jobs/editable?selector=6"))["jobs"][0]["version"]
        await ask("POST", "/v1/jobs/edit", selectors=["6"], set={"priority": 40})
        await ask("POST", "/v1/jobs/move", selectors=["5"], where="first")
        await ask("POST", "/v1/jobs/priority", selectors=["5"], priority=50)
        await ask("POST", "/v1/jobs/hold", selectors=["5"])
        await ask("POST", "/v1/jobs/release", selectors=["5"])
        await ask("POST", "/v1/jobs/suspend", selectors=["all"], free=True)
        await ask("POST", "/v1/jobs/resume", selectors=["5"])
        await ask("POST", "/v1/jobs/requeue", selectors=["all"])
        await ask("POST", "/v1/jobs/rerun", selectors=["2"])
        await ask("POST", "/v1/jobs/kill", selectors=["3", "5"], grace_s=1)
        for preview in (True, False):
            await ask("POST", "/v1/jobs/act", action="hold", q="state:queued", preview=preview)
        await ask("POST", "/v1/jobs/clean", selectors=["1"], dry_run=True)
        await ask("POST", "/v1/jobs/clean", selectors=["1"])

    async def administer(self) -> None:
        ask = self.owner.ask
        await ask("POST", "/v1/create-queue", words=["r", "--capacity", "{cpu: 2}"])
        await ask("POST", "/v1/create-queue", words=["s", "--at-broker", "--label", "far"])
        assert {"worker": None, "labels": ["far"]}.items() <= (await ask("GET", "/v1/show"))["queues"][-1].items()
        await ask("POST", "/v1/delete-queue", name="s", at_broker=True)
        for verb in ("pause", "resume"):
            await ask("POST", f"/v1/{verb}")
        for verb in ("add", "drain", "undrain", "remove"):
            await ask("POST", f"/v1/devices/{verb}", ids=["0"], worker="w")
        made = await ask("POST", "/v1/tokens/create", scope="submit", queues=["q"], name="ann")
        assert (await ask("GET", "/v1/tokens"))["tokens"]
        await ask("POST", "/v1/tokens/revoke", id=made["id"])
        await ask("POST", "/v1/tokens/revoke", id=(await self.fixture.token("submit")).partition(".")[0], kill=True)
        assert (await ask("GET", "/v1/audit?last=5"))["entries"]
        for path in ("/v1/info", "/v1/config", "/v1/notify", "/openapi.json"):
            await ask("GET", path)
        assert (await ask("POST", "/v1/notify/test", to="exec:true"))["results"]
        for path in ("", "/a/about", "/a/free"):
            await ask("GET", f"/v1/machines{path}")
        assert (await ask("GET", "/v1/machines/a/test?agent=/run/agent"))[-1]["ended"]
        await ask("POST", "/v1/machines/add", name="a", target="host")
        await ask("POST", "/v1/machines/remove", name="a")
        await ask("POST", "/v1/machines/retry", name="a")

    async def ask_sessions(self) -> None:
        link = await self.owner.ask("POST", "/v1/session/link")
        base = f"http://127.0.0.1:{self.fixture.page_port}"
        same = {"Origin": base, "Sec-Fetch-Site": "same-origin"}
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=same) as session:
            page = Caller(session, self.owner.check, base)
            for path in ("/", "/jobs", "/jobs/42", "/assets/main-1.js", "/icon.svg"):
                await page.ask("GET", path)
            await page.ask("POST", "/v1/session", key=None, code=link["code"])
            assert (await page.ask("GET", "/v1/session"))["scope"] == "admin"
            await page.ask("POST", "/v1/session/end", key=None)
            await page.ask("GET", "/v1/session", 401)
        await self.owner.ask("POST", "/v1/session/end-all")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        assert json.loads((await self.owner.stream(f"/v1/session/door?port={port}&queue=q", 1))[0]) == {"port": port}

    async def ask_with_tokens(self) -> None:
        made = await self.owner.ask("POST", "/v1/tokens/create", scope="read", name="bo")
        code, secret = join_codes.decode(made["code"]), new_secret()
        digest = hashlib.sha256(secret.encode()).hexdigest()
        asked: dict[str, Any] = {
            "code": code.id,
            "secret": code.secret,
            "digest": digest,
            "kind": "login",
            "name": "bo",
        }
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.fixture.client_context())) as session:
            base = f"https://127.0.0.1:{self.fixture.port}"
            redeemed = await Caller(session, self.owner.check, base).ask("POST", "/v1/redeem", key=None, **asked)
            await Caller(session, self.owner.check, base, f"{redeemed['token']}.{secret}").ask("POST", "/v1/logout")
            headers = {"Authorization": f"Bearer {await self.fixture.token('worker')}"}
            async with session.ws_connect(f"{base}/v1/worker", headers=headers):
                self.owner.check.answered.add(("GET", "/v1/worker"))

    async def end(self) -> None:
        self.fixture.engine.post(FromWorker("v", Hello(a_worker("v", cpu=1))))
        await self.owner.ask("POST", "/v1/remove-worker", worker="v", lost=True)
        await self.owner.ask("POST", "/v1/stop")


@contextlib.asynccontextmanager
async def furnished(fixture: BrokerFixture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EveryRoute]:
    """A broker with jobs, and its owner."""
    rig = Rig(fixture, monkeypatch)
    fixture.directory.indexes = LogIndexes(folder)
    sender = NoticeSender({}, str(fixture.home))
    notifier = Notifier(fixture.engine, [NotifyRule(("failed",), "exec:true")], None, sender)
    monkeypatch.setattr("grassq.web.routes.notices.Notices._known", lambda self: notifier)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(fixture.home / "grass.sock"))) as session:
        every = EveryRoute(rig, Caller(session, ApiCheck(), "http://grass"), monkeypatch)
        await every.furnish()
        yield every
    await notifier.close()


@pytest.fixture
def built(tmp_path: Path) -> PageFiles:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    for name in ("index.html", "assets/main-1.js", "icon.svg"):
        (folder / name).write_text("<html></html>")
    return PageFiles(folder)


def test_every_route_answers_as_the_document_says(
    tmp_path: Path, built: PageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AskedNames(monkeypatch)

    async def test(fixture: BrokerFixture) -> None:
        async with furnished(fixture, tmp_path, monkeypatch) as every:
            await every.ask_jobs()
            await every.ask_when()
            await every.ask_logs()
            await every.ask_streams()
            await every.submit_more()
            await every.administer()
            await every.ask_sessions()
            await every.ask_with_tokens()
            await every.end()
            check = every.owner.check
            assert sorted(check.operations.keys() - check.answered) == []
            for route, operation in check.operations.items():
                described = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
                assert asked.names.get(route, set()) == described, f"{route}: asked for, and described"

    play(test, KnownMachines(), built)


#: The scopes that each need is met by; nothing but the owner's socket meets `local`.
SCOPES = {
    "read": ("read", "submit", "admin"),
    "submit": ("submit", "admin"),
    "admin": ("admin",),
    "worker": ("worker",),
}


def test_every_route_refuses_as_the_document_says(built: PageFiles) -> None:
    async def test(fixture: BrokerFixture) -> None:
        check = ApiCheck()
        scopes: tuple[Scope, ...] = ("read", "submit", "admin", "worker")
        tokens = {scope: await fixture.token(scope) for scope in scopes}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=fixture.client_context())) as session:
            base = f"https://127.0.0.1:{fixture.port}"
            stranger, refused = Caller(session, check, base), 0
            for (method, path), operation in check.operations.items():
                need, real = operation["x-need"], concrete(path)
                if need not in ("open", "page"):
                    await stranger.ask(method, real, 401)
                    for scope, token in tokens.items():
                        if scope not in SCOPES.get(need, ()):
                            await Caller(session, check, base, token).ask(method, real, 403)
                            refused += 1
                if "requestBody" in operation and need in SCOPES:
                    admin = Caller(session, check, base, tokens["admin"])
                    # `enqueue` answers with what the command prints, and its exit code in a header.
                    await admin.ask(method, real, 200 if path == "/v1/enqueue" else 400, key="no key")
            assert refused > 100
        assert not fixture.stopped and not fixture.directory.made

    play(test, KnownMachines(), built)


def concrete(path: str) -> str:
    """A path of the document with something in its variable parts."""
    return path.replace("{id}", "1").replace("{", "").replace("}", "")
