"""What one token may take of a broker: a share, said in words when it is reached, and never that of anybody else."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from functools import partial

import pytest
from tests.broker.decider_fixture import a_draft
from tests.web.broker_fixture import Answer, BrokerFixture, key, play, until

from grassq.broker import service, subscriptions, views
from grassq.core.syntax import shell_lines
from grassq.net.client import ApiClient
from grassq.web import requests
from grassq.web.access import auth, bodies
from grassq.web.access.turns import CallerTurns

HELD = {"command": ["true"], "hold": True}
#: What a wait may keep of each job it waits for; a job itself takes far more.
BYTES_PER_JOB = 500


async def store(fixture: BrokerFixture, count: int) -> None:
    """Store jobs that are held."""
    handler = partial(service.submit, drafts=[a_draft(hold=True)] * count, key=key(), digest=b"d")
    await fixture.engine.change(handler)


async def submit(fixture: BrokerFixture, token: str | None, count: int) -> Answer:
    body = {"jobs": [HELD] * count, "key": key()}
    return await fixture.ask("POST", "/v1/submit", body, token, local=token is None)


def test_one_request_from_another_machine_has_a_bounded_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_lines, "REMOTE_LINES_MAX", 3)
    many = {"job": {"hold": True}, "commands": [["true"]] * 4}
    lines = {"words": ["--stdin", "--hold"], "lines": "true\n" * 4}

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        refused = await submit(fixture, token, 4)
        assert refused.status == 400
        assert refused.words == (
            "a submission from another machine has 1 to 3 jobs, not 4; send more in several requests"
        )
        refused = await fixture.ask("POST", "/v1/submit-many", {**many, "key": key()}, token)
        assert refused.status == 400 and "has 1 to 3 jobs" in refused.words
        refused = await fixture.ask("POST", "/v1/enqueue", {**lines, "key": key()}, token)
        assert refused.headers["grass-exit"] == "2"
        assert b"line 4: more than 3 commands at once from another machine; send them in parts" in refused.body
        assert (await submit(fixture, None, 4)).json["ids"] == [1, 2, 3, 4], "nothing of that is stored"
        assert (await submit(fixture, token, 3)).json["ids"] == [5, 6, 7]

    play(test)


def test_a_body_of_very_many_values_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "OPENINGS_MAX", 20_000)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        body = b'{"key":"%s","job":{},"commands":[%s[]]}' % (key().encode(), b"[]," * 20_000)
        refused = await fixture.ask("POST", "/v1/submit-many", body, token)
        assert refused.status == 400 and "too many values" in refused.words

    play(test)


def test_only_a_submission_may_be_large() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        body = {"selectors": ["1" * bodies.SMALL_BODY_MAX], "key": key()}
        assert (await fixture.ask("POST", "/v1/jobs/kill", body, token)).status == 413
        wide = {"selectors": [",".join(["1"] * (requests.REMOTE_SELECTORS_MAX + 1))], "key": key()}
        refused = await fixture.ask("POST", "/v1/jobs/kill", wide, token)
        assert refused.status == 400 and "2,000 selectors and ids at once" in refused.words
        assert (await fixture.ask("POST", "/v1/jobs/kill", {**wide, "key": key()}, local=True)).status == 404

    play(test)


def test_requests_of_a_token_that_wait_are_bounded_and_those_of_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "WAITING_MAX", 2)

    async def test(fixture: BrokerFixture) -> None:
        eve, ann = await fixture.token("read"), await fixture.token("read")
        await store(fixture, 1)

        async def wait(token: str | None, timeout_s: float) -> Answer:
            path = f"/v1/wait?selector=1&timeout_s={timeout_s}"
            return await fixture.ask("GET", path, token=token, local=token is None)

        waits = [asyncio.create_task(wait(eve, 30)) for _ in range(2)]
        await until(lambda: len(fixture.engine.subscriptions._by_key.get(1, ())) == 2)
        refused = await wait(eve, 0)
        assert refused.status == 429 and "2 requests of this token wait or follow" in refused.words
        assert (await fixture.ask("GET", "/v1/show", token=eve)).status == 200
        for other in (ann, None):
            assert (await wait(other, 0.01)).json["done"] is False
        await fixture.ask("POST", "/v1/jobs/kill", {"selectors": ["1"], "key": key()}, local=True)
        assert [answer.json["done"] for answer in await asyncio.gather(*waits)] == [True, True]
        assert (await wait(eve, 0)).json["done"] is True

    play(test)


def test_the_waits_of_one_token_never_refuse_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "TOKEN_SUBSCRIBED_JOBS_MAX", 5)
    monkeypatch.setattr(subscriptions, "SUBSCRIBED_JOBS_MAX", 5)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        await store(fixture, 5)
        waiting = asyncio.create_task(fixture.ask("GET", "/v1/wait?selector=all&timeout_s=30", token=token))
        await until(lambda: 5 in fixture.engine.subscriptions._by_key)
        refused = await fixture.ask("GET", "/v1/wait?selector=1&timeout_s=1", token=token)
        assert refused.status == 409 and "5 already, 1 more, limit 5" in refused.words
        answer = await fixture.ask("GET", "/v1/wait?selector=all&timeout_s=0.01", local=True)
        assert answer.status == 200 and len(answer.json["jobs"]) == 5
        waiting.cancel()

    play(test)


def test_a_wait_for_many_jobs_keeps_little_of_each_and_is_answered_in_pages() -> None:
    count = 10 * views.SHOW_PAGE + 1

    async def test(fixture: BrokerFixture) -> None:
        await store(fixture, count)
        with ApiClient(str(fixture.home)) as client:
            tracemalloc.start()
            try:
                waiting = asyncio.create_task(asyncio.to_thread(client.wait, ["all"], timeout_s=30))
                await until(lambda: count in fixture.engine.subscriptions._by_key)
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert kept < count * BYTES_PER_JOB
            await asyncio.to_thread(client.kill, ["all"])
            answer = await waiting
            assert answer["done"] is True
            assert [job["id"] for job in answer["jobs"]] == list(range(1, count + 1))
            assert {job["state"] for job in answer["jobs"]} == {"cancelled"}

    play(test)


@pytest.mark.parametrize("any_one", [False, True])
def test_a_long_answer_to_a_wait_says_at_its_end_whether_the_jobs_have_ended(any_one: bool) -> None:
    count = views.SHOW_PAGE + 1

    async def test(fixture: BrokerFixture) -> None:
        await store(fixture, count)
        await fixture.ask("POST", "/v1/jobs/kill", {"selectors": [str(count)], "key": key()}, local=True)
        with ApiClient(str(fixture.home)) as client:
            answer = await asyncio.to_thread(client.wait, [f"1-{count}"], timeout_s=0.01, any_one=any_one)
        assert answer["done"] is any_one and len(json.dumps(answer["jobs"])) > 0
        assert len(answer["jobs"]) == count

    play(test)


def test_a_caller_does_so_many_things_at_once_and_others_do_not_wait_for_it() -> None:
    async def test() -> None:
        turns, entered = CallerTurns(2), list[str]()
        let_go = asyncio.Event()

        async def work(caller: str) -> None:
            async with turns.of(caller):
                entered.append(caller)
                await let_go.wait()

        tasks = [asyncio.create_task(work(caller)) for caller in ("eve", "eve", "eve", "ann")]
        await until(lambda: len(entered) == 3)
        assert entered == ["eve", "eve", "ann"]
        let_go.set()
        await asyncio.gather(*tasks)
        assert entered == ["eve", "eve", "ann", "eve"]

    asyncio.run(test())
