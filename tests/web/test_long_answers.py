"""Answers about many jobs are written page by page, and answers that take long keep their client waiting."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest
from tests.broker.decider_fixture import a_draft
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker import service, views
from grassq.broker.actions.bulk import STEP_JOBS
from grassq.net.client import ApiClient
from grassq.net.retry import fetch
from grassq.web import responses

MANY = 2 * views.SHOW_PAGE + 17


async def submit(fixture: BrokerFixture, count: int) -> None:
    """Store jobs that are held."""
    handler = partial(service.submit, drafts=[a_draft(hold=True)] * count, key=key(), digest=b"d")
    await fixture.engine.change(handler)


def test_many_jobs_are_one_document_in_pages() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, MANY)
        home = str(fixture.home)
        _, parts, connection = await asyncio.to_thread(fetch, home, "/v1/show?selector=all")
        assert parts is not None, "it has no length known in advance"
        text = await asyncio.to_thread(b"".join, parts)
        connection.close()
        shown = json.loads(text)
        assert [job["id"] for job in shown["jobs"]] == list(range(1, MANY + 1))
        assert shown["schema"] == 1 and shown["totals"] == {"held": MANY} and shown["more"] is False
        assert [json.loads(line.rstrip(b","))["id"] for line in text.splitlines()[1:-1]] == list(range(1, MANY + 1))
        with ApiClient(home) as client:
            assert await asyncio.to_thread(client.show, ["all"]) == shown
            assert len((await asyncio.to_thread(client.get, "why", ["all"]))["jobs"]) == MANY

    play(test)


def test_what_matches_nothing_is_refused_before_a_page_is_written() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, MANY)
        answer = await fixture.ask("GET", "/v1/show?selector=all&selector=succeeded", local=True)
        assert answer.status == 404 and "no job matches succeeded" in answer.words

    play(test)


def test_a_change_that_takes_long_writes_blanks_before_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "BLANK_S", 0.0)
    count = 2 * STEP_JOBS + 1

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, count)
        with ApiClient(str(fixture.home)) as client:
            done = await asyncio.to_thread(client.kill, ["all"])
            assert (done["count"], done["ids"], done["jobs"]) == (count, list(range(1, count + 1)), [])
            cleaned = await asyncio.to_thread(client.change, "jobs/clean", selectors=["all"])
            assert cleaned["count"] == count and (await asyncio.to_thread(client.show))["totals"] == {}

    play(test)
