"""GET /v1/show?within_s=: jobs that have not ended, or ended lately, with a selector and without one."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from tests.broker.decider_fixture import a_draft
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker import service, views
from grassq.broker.actions import jobs as actions
from grassq.broker.actions.bulk import BulkChange
from grassq.core.syntax.selectors import ByIds
from grassq.net.retry import fetch

MANY = 2 * views.SHOW_PAGE + 17


async def submit(fixture: BrokerFixture, count: int) -> None:
    handler = partial(service.submit, drafts=[a_draft(hold=True, name="some")] * count, key=key(), digest=b"d")
    await fixture.engine.change(handler)


async def cancel(fixture: BrokerFixture, low: int, high: int) -> None:
    change = BulkChange(actions.KillJobs(None, False), [ByIds(((low, high),))], key=key(), digest=b"d")
    await fixture.engine.change_in_steps(change.start, lambda: _nothing())


async def _nothing() -> None:
    return None


async def ids(fixture: BrokerFixture, path: str) -> list[int]:
    response, parts, connection = await asyncio.to_thread(fetch, str(fixture.home), path)
    document: Any = json.loads(response.body if parts is None else await asyncio.to_thread(b"".join, parts))
    connection.close()
    assert {"schema", "totals", "workers", "queues"} <= document.keys()
    return [job["id"] for job in document["jobs"]]


@pytest.mark.parametrize("count", [9, MANY])
def test_unfinished_jobs_come_first_then_those_that_ended_lately(count: int) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, count)
        await cancel(fixture, 1, 3)
        fixture.clock.now += 1000
        await cancel(fixture, 4, 5)
        left = list(range(6, count + 1))
        assert await ids(fixture, "/v1/show?within_s=500") == [*left, 5, 4]
        assert sorted(await ids(fixture, "/v1/show?within_s=5000")) == list(range(1, count + 1))
        assert await ids(fixture, "/v1/show?within_s=500&selector=1-7") == [4, 5, 6, 7]
        assert await ids(fixture, "/v1/show?within_s=0&selector=cancelled") == [4, 5]

    play(test)


def test_what_is_no_time_is_refused() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for text in ("x", "-1", "9" * 30):
            assert (await fixture.ask("GET", f"/v1/show?within_s={text}", local=True)).status == 400

    play(test)
