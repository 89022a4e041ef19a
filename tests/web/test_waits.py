"""Waiting for jobs: what ends meanwhile is seen, and looking for it is no work without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests import at_once
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker.batch import Batch
from grassq.core.syntax.selectors import ByIds

T = TypeVar("T")
MANY = 200
#: At the beginning, and to describe the jobs.
LOOKS = 2


async def _held(fixture: BrokerFixture, count: int) -> list[int]:
    job = {"command": ["true"], "hold": True}
    body = {"jobs": [job] * count, "key": key(), "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
    answer = await fixture.ask("POST", "/v1/submit", body, local=True)
    ids: list[int] = answer.json["ids"]
    return ids


async def _end(fixture: BrokerFixture, *ids: int) -> None:
    chosen = [ByIds(tuple((id_, id_) for id_ in ids))]
    await fixture.engine.change(lambda batch: at_once.kill(batch, chosen, None))


def _end_one_before_each_look(fixture: BrokerFixture, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Jobs end as fast as they are looked at; the list grows by one at each look."""
    looks: list[int] = []
    read = fixture.engine.read

    async def noticed(handler: Callable[[Batch], T]) -> T:
        if len(looks) < len(ids):
            await _end(fixture, ids[len(looks)])
        looks.append(len(looks))
        return await read(handler)

    monkeypatch.setattr(fixture.engine, "read", noticed)
    return looks


def test_a_wait_for_many_jobs_of_which_one_always_ends_looks_at_them_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(fixture: BrokerFixture) -> None:
        ids = await _held(fixture, MANY)
        looks = _end_one_before_each_look(fixture, ids, monkeypatch)
        answer = await fixture.ask("GET", f"/v1/wait?selector={ids[0]}-{ids[-1]}&timeout_s=0.5", local=True)
        assert answer.json["done"] is False
        assert len(looks) == LOOKS
        assert sum(job["state"] == "cancelled" for job in answer.json["jobs"]) == LOOKS

    play(test)


@pytest.mark.parametrize(("query", "count"), [("selector=all", 2), ("selector=all&any=1", 3)])
def test_a_job_that_ends_between_the_look_and_the_wait_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, query: str, count: int
) -> None:
    async def test(fixture: BrokerFixture) -> None:
        ids = await _held(fixture, count)
        looks: list[int] = []
        read = fixture.engine.read

        async def noticed(handler: Callable[[Batch], T]) -> T:
            looks.append(1)
            found = await read(handler)
            if len(looks) == 1:
                # After the first look, and before anybody would be told.
                await _end(fixture, *ids[:2])
            return found

        monkeypatch.setattr(fixture.engine, "read", noticed)
        answer = await fixture.ask("GET", f"/v1/wait?{query}&timeout_s=30", local=True)
        assert answer.json["done"] is True
        assert [job["state"] for job in answer.json["jobs"]][:2] == ["cancelled"] * 2

    play(test)
