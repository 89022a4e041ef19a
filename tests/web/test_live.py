"""GET /v1/live: pages are told what changed as state, once for all, and wrong or slow pages harm nobody."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from typing import Any

import aiohttp
import pytest
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import key, play, until
from tests.web.live_page import Page, page
from tests.web.subscribed import QUEUE, Rig, with_rig

from grassq.broker import subscriptions
from grassq.broker.documents.texts import COMMAND_CHARS_MAX
from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello, Report, Silent
from grassq.core.model import Outcome
from grassq.core.states import Exited
from grassq.web.live import hub, serve

ALL: dict[str, Any] = {"totals": True, "devices": True, "queues": True, "workers": True}


async def shown(rig: Rig, path: str) -> Any:
    return (await rig.fixture.ask("GET", path, local=True)).json


def test_a_page_shows_what_the_other_routes_answer_and_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        first = await rig.submit()
        async with page(rig.fixture, jobs=[first, 99], **ALL) as seen, page(rig.fixture, totals=True) as other:
            await seen.until(lambda: "workers" in seen.parts and 99 in seen.jobs)
            assert len(seen.frames) == 1, "all at once"
            overview = await shown(rig, "/v1/show")
            assert seen.parts["queues"] == overview["queues"]
            assert seen.parts["workers"] == overview["workers"]
            assert seen.parts["totals"] == overview["totals"]
            assert seen.parts["devices"] == (await shown(rig, "/v1/devices"))["devices"]
            assert seen.jobs == {first: (await shown(rig, "/v1/jobs/window"))["jobs"][0], 99: None}
            assert seen.hello["scope"] == "admin"

            second = await rig.submit()
            await seen.until(lambda: sum(seen.parts["totals"].values()) == 2)
            assert seen.moves >= 1
            assert "jobs" not in seen.frames[-1], "a job that the page does not show is not sent"
            await seen.sub(jobs=[first, second], **ALL)
            await seen.until(lambda: second in seen.jobs)
            assert "totals" not in seen.frames[-1], "what was sent before is not sent again"
            rig.fixture.engine.post(FromWorker("w", Report(first, Exited(1, Outcome.EXITED, 3))))
            await seen.until(lambda: seen.jobs[first]["state"] == "failed")
            await other.until(lambda: other.parts["totals"].get("failed") == 1)
            assert not other.jobs

            body = {"key": key(), "queue": QUEUE}
            await rig.fixture.ask("POST", "/v1/pause", body, local=True)
            await seen.until(lambda: seen.parts["paused"] == {QUEUE: "owner"})
            heard = time.monotonic()
            rig.fixture.engine.post(FromWorker("w", Silent(heard)))
            await seen.until(lambda: not seen.parts["workers"][0]["online"])
            assert "queues" not in seen.frames[-1] or seen.frames[-1]["queues"] != seen.frames[-2].get("queues")

    with_rig(test, monkeypatch)


def test_a_page_that_comes_back_is_told_what_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "RING_MAX", 6)

    async def test(rig: Rig) -> None:
        jobs = [await rig.submit(hold=True), await rig.submit(hold=True)]
        async with page(rig.fixture, jobs=jobs, totals=True) as seen:
            await seen.until(lambda: len(seen.jobs) == 2)
            epoch, seq = seen.hello["epoch"], seen.frames[-1]["seq"]
            assert seen.hello["position"] == f"{epoch}.{seq}"
        await rig.fixture.ask("POST", "/v1/jobs/release", {"key": key(), "selectors": [str(jobs[1])]}, local=True)
        async with page(rig.fixture, f"?since={epoch}.{seq}", jobs=jobs, totals=True) as back:
            await back.until(lambda: bool(back.frames))
            assert (back.resets, back.moves, [*back.jobs]) == (0, 1, [jobs[1]])
            # The other job was not sent, as the page has it; when it changes, it is.
            await rig.fixture.ask("POST", "/v1/jobs/kill", {"key": key(), "selectors": [str(jobs[0])]}, local=True)
            await back.until(lambda: back.jobs.get(jobs[0], {}).get("state") == "cancelled")
        for _ in range(7):
            await rig.submit(hold=True)
        for position in (f"{epoch}.{seq}", f"another.{seq}"):
            async with page(rig.fixture, f"?since={position}", jobs=jobs) as late:
                await late.until(lambda: len(late.jobs) == 2)
                assert late.resets == 1
        answer = await rig.fixture.ask("GET", "/v1/live?since=nonsense", local=True)
        assert (answer.status, "since='nonsense'" in answer.words) == (400, True)

    with_rig(test, monkeypatch)


def test_many_changes_become_few_frames_and_pages_that_rest_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        reads: list[str] = []
        read = rig.fixture.engine.read

        async def counted(handler: Any, *, short: bool = False) -> Any:
            reads.append(getattr(getattr(handler, "func", handler), "__module__", ""))
            return await read(handler, short=short)

        monkeypatch.setattr(rig.fixture.engine, "read", counted)
        job = await rig.submit()
        async with page(rig.fixture, jobs=[job], **ALL) as one, page(rig.fixture, jobs=[job], **ALL) as two:
            for seen in (one, two):
                await seen.until(lambda seen=seen: job in seen.jobs and "devices" in seen.parts)  # type: ignore[misc]
            began, before = time.monotonic(), len(reads)
            for _ in range(300):
                await rig.submit(hold=True)
            # A frame may have the last total before it has the number of the last change, which another frame brings.
            _, last = rig.fixture.engine.subscriptions.position
            for seen in (one, two):
                await seen.until(
                    lambda seen=seen: seen.parts["totals"].get("held") == 300 and seen.frames[-1]["seq"] >= last  # type: ignore[misc]
                )
            most = (time.monotonic() - began) / hub.PACE_S + 2
            assert len(one.frames) <= most + 2
            made_here = [each for each in reads[before:] if each == hub.__name__]
            assert len(made_here) <= most, "both pages share what is read"
            before = len(reads)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.hear(), 0.5)
            assert reads[before:] == []

    with_rig(test, monkeypatch)


def test_jobs_with_very_long_commands_make_no_frame_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "FRAME_BYTES_MAX", 20_000)
    monkeypatch.setattr(hub, "READ_BYTES_MAX", 40_000)
    monkeypatch.setattr(hub, "JOBS_AT_ONCE", 2)

    async def test(rig: Rig) -> None:
        ids = [await rig.submit(command=["true", *["x" * 100_000] * 5], hold=True) for _ in range(12)]
        async with page(rig.fixture, jobs=ids) as seen:
            await seen.until(lambda: set(ids) <= seen.jobs.keys())
            assert max(len(json.dumps(frame)) for frame in seen.frames) < 25_000
        for path in ("/v1/jobs/window", "/v1/jobs/window?q=true&sort=name"):
            jobs = (await shown(rig, path))["jobs"]
            assert len(jobs) == 12 and {len(" ".join(job["command"])) for job in jobs} == {COMMAND_CHARS_MAX + 1}
        [whole] = (await shown(rig, f"/v1/jobs?selector={ids[0]}"))["jobs"]
        assert len(" ".join(whole["command"])) > 500_000

    with_rig(test, monkeypatch)


def test_pages_hear_beats_and_a_stop_says_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BEAT_S", 0.05)

    async def test(rig: Rig) -> None:
        async with page(rig.fixture) as seen:
            await seen.until(lambda: seen.beats >= 2)
            await rig.fixture.api.live.close()
            code, words = await seen.closed()
            assert (code, "daemon stops" in words) == (1001, True)

    with_rig(test, monkeypatch)


WRONG: list[tuple[str | bytes, int]] = [
    ("not json", 4400),
    ("[]", 4400),
    ('{"sub": {"everything": true}}', 4400),
    ('{"shout": 1}', 4400),
    ('{"sub": {"jobs": ["1"]}}', 4400),
    ('{"sub": {"jobs": [-1]}}', 4400),
    ('{"sub": {"jobs": [99999999999999999999]}}', 4400),
    (json.dumps({"sub": {"jobs": [*range(1, 502)]}}), 4400),
    ('{"sub": {"log": {"job": 1, "lines": 501}}}', 4400),
    ('{"sub": {"log": {"job": 1, "stream": "../../etc/passwd"}}}', 4400),
    ("[" * 20_000, 4400),
    (b"\x00binary", 4400),
    ("x" * (33 << 10), 1009),
]


def test_a_bug_in_a_frame_cuts_the_pages_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make, broken = hub.Hub._make_frames, [True]

    async def frames(self: hub.Hub) -> float:
        if broken and [each.wanted.totals for each in self.pages] == [True, False]:
            broken.clear()
            raise ZeroDivisionError
        return await make(self)

    monkeypatch.setattr(hub.Hub, "_make_frames", frames)

    async def test(rig: Rig) -> None:
        async with page(rig.fixture) as seen, page(rig.fixture) as other:
            await seen.sub(**ALL)
            await asyncio.gather(seen.closed(), other.closed())
        async with page(rig.fixture, **ALL) as seen:
            await seen.until(lambda: "workers" in seen.parts)
        assert "ZeroDivisionError" in caplog.text

    with_rig(test, monkeypatch)


def test_a_page_that_says_what_is_wrong_hears_why_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        job = await rig.submit()
        token = await rig.fixture.token("read")
        async with page(rig.fixture, jobs=[job]) as good:
            for said, expected in WRONG:
                async with page(rig.fixture, token=token) as bad:
                    await (bad.ws.send_str(said) if isinstance(said, str) else bad.ws.send_bytes(said))
                    code, words = await bad.closed()
                    assert code == expected and (words or expected == 1009), (said[:40], code, words)
            async with page(rig.fixture, token=token) as flood:
                for _ in range(200):
                    await flood.ws.send_str('{"beat": true}')
                assert (await flood.closed())[0] == 4429
            async with page(rig.fixture, token=token) as pings:
                for _ in range(200):
                    await pings.ws.ping(b"x" * 100)
                assert (await pings.closed())[0] == 4429
            await rig.end(job)
            await good.until(lambda: good.jobs.get(job, {}).get("state") == "succeeded")
            await until(lambda: len(rig.fixture.api.live.hub.pages) == 1)

    with_rig(test, monkeypatch)


def test_a_token_has_so_many_pages_and_loses_them_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PAGES_PER_CALLER", 2)
    monkeypatch.setattr(hub, "BEAT_S", 0.1)

    async def test(rig: Rig) -> None:
        token = await rig.fixture.token("read")
        ended = await rig.fixture.token("read")
        async with page(rig.fixture, token=token) as one, page(rig.fixture, token=token):
            with pytest.raises(AssertionError, match="4429"):
                async with page(rig.fixture, token=token):
                    pass
            async with page(rig.fixture, token=ended, totals=True) as other:
                await other.until(lambda: bool(other.frames))
                assert other.hello["scope"] == "read"
                body = {"key": key(), "id": ended.partition(".")[0]}
                answer = await rig.fixture.ask("POST", "/v1/tokens/revoke", body, local=True)
                assert answer.status == 200, answer.body
                assert (await other.closed())[0] == 1006
            await one.ws.close()
            await until(lambda: len(rig.fixture.api.live.hub.pages) == 1)
            async with page(rig.fixture, token=token) as again:
                assert again.hello
        short = await rig.fixture.token("read", expires=rig.fixture.clock.wall() + 60)
        async with page(rig.fixture, token=short, totals=True) as seen:
            await seen.until(lambda: seen.beats > 0)
            rig.fixture.clock.now += 61
            assert (await seen.closed())[0] == 1006
        worker = await rig.fixture.token("worker", name="w9")
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with page(rig.fixture, token=worker):
                pass

    with_rig(test, monkeypatch)


def test_a_page_that_does_not_read_keeps_one_frame_and_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BEAT_S", 0.1)
    monkeypatch.setattr(hub, "STALLED_S", 1.0)

    async def test(rig: Rig) -> None:
        # Long commands make large documents: the buffers of the kernel are soon full.
        many = [{"command": ["true", "x" * 20_000], "queue": QUEUE, "hold": True}] * 80
        body = {"jobs": many, "key": key(), "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
        jobs = (await rig.fixture.ask("POST", "/v1/submit", body, local=True)).json["ids"]
        live, token = rig.fixture.api.live.hub, await rig.fixture.token("read")
        async with page(rig.fixture, jobs=jobs, totals=True) as quick:
            for door in (None, token):
                async with page(rig.fixture, token=door) as slow:
                    transport = slow.ws._response.connection.transport  # type: ignore[union-attr]
                    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # type: ignore[union-attr]
                    transport.pause_reading()  # type: ignore[union-attr]
                    stuck = [*live.pages][-1]
                    async with asyncio.timeout(20):
                        for turn in itertools.cycle((0, 1)):
                            await slow.sub(jobs=jobs[turn::2])
                            await asyncio.sleep(0.05)
                            since = stuck.sending_since
                            if since is not None and asyncio.get_running_loop().time() - since > 0.3:
                                break
                    body = {"key": key(), "selectors": [str(jobs[door is None])]}
                    await rig.fixture.ask("POST", "/v1/jobs/kill", body, local=True)
                    await quick.until(lambda id_=jobs[door is None]: _state(quick, id_) == "cancelled")  # type: ignore[misc]
                    await until(lambda stuck=stuck: stuck not in live.pages)  # type: ignore[misc]

    with_rig(test, monkeypatch)


def _state(seen: Page, job: int) -> object:
    return (seen.jobs.get(job) or {}).get("state")


def test_devices_tell_their_holders() -> None:
    async def test(fixture: Any) -> None:
        fixture.engine.post(FromWorker("w", Hello(a_worker("w", gpu=2, cpu=4, offers=[an_offer()]), fresh=False)))
        body = {"key": key(), "cwd": "/", "env": [], "umask": 18}
        jobs = [{"command": ["/bin/true"], "request": {"gpu": amount}} for amount in (1, 0.25, 0.5)]
        answer = await fixture.ask("POST", "/v1/submit", {**body, "jobs": jobs}, local=True)
        assert answer.status == 200, answer.body
        async with page(fixture, devices=True) as seen:
            await seen.until(lambda: "devices" in seen.parts)
            zero, one = seen.parts["devices"]
            assert (zero["id"], zero["worth"], zero["free"], zero["online"]) == ("0", 1.0, 0.0, True)
            assert zero["holders"] == [{"job": 1, "amount": 1.0, "vram": 0}]
            assert [holder["amount"] for holder in one["holders"]] == [0.25, 0.5] and one["free"] == 0.25
            fixture.engine.post(FromWorker("w", Report(1, Exited(1, Outcome.EXITED, 0))))
            await seen.until(lambda: seen.parts["devices"][0]["holders"] == [])
            await fixture.ask("POST", "/v1/drain", {"key": key(), "worker": "w"}, local=True)
            await seen.until(lambda: [each["drained"] for each in seen.parts["devices"]] == [True, True])

    play(test)
