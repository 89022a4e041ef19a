"""GET /v1/jobs/window and /v1/jobs/counts: any row of a filtered and sorted table, which follows every change."""

from __future__ import annotations

import random
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.broker.test_job_order import sorted_anew
from tests.web.broker_fixture import BrokerFixture, key, play, until
from tests.web.subscribed import Rig, with_rig

from grassq.broker.inbox import WORKS_FOR
from grassq.broker.windows import job_order, reading
from grassq.core.query.query import JobFacts, Query
from grassq.web.tables import windows


async def window(fixture: BrokerFixture, **asked: object) -> dict[str, Any]:
    answer = await fixture.ask("GET", f"/v1/jobs/window?{urlencode(asked)}", local=True)
    assert answer.status == 200, answer.words
    found: dict[str, Any] = answer.json
    assert found["first"] == asked.get("first", 0)
    return found


async def ids(fixture: BrokerFixture, **asked: object) -> list[int]:
    found = await window(fixture, **asked)
    assert found["is_exact"]
    return [job["id"] for job in found["jobs"]]


async def submit(fixture: BrokerFixture, *jobs: dict[str, Any]) -> list[int]:
    given = [{"command": ["true"], "hold": True, **job} for job in jobs]
    body = {"jobs": given, "key": key(), "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
    found: list[int] = (await fixture.ask("POST", "/v1/submit", body, local=True)).json["ids"]
    return found


async def change(fixture: BrokerFixture, verb: str, *selectors: str, **more: object) -> None:
    body = {"selectors": [*selectors], "key": key(), **more}
    answer = await fixture.ask("POST", f"/v1/jobs/{verb}", body, local=True)
    assert answer.status == 200, answer.words


def test_a_window_is_filtered_sorted_counted_and_follows_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(fixture: BrokerFixture) -> None:
        assert (await window(fixture))["count"] == 0
        letters = "cabcabcabcab"
        await submit(fixture, *({"name": f"n{x}", "priority": 30 + i % 3} for i, x in enumerate(letters)))
        everything = await window(fixture, first=3, count=4)
        assert ([job["id"] for job in everything["jobs"]], everything["count"]) == ([9, 8, 7, 6], 12)
        assert everything["since"].count(".") == 1
        assert await ids(fixture, sort="id", order="asc", first=10) == [11, 12]
        assert await ids(fixture, sort="name", count=5) == [2, 5, 8, 11, 3]
        assert await ids(fixture, sort="name", order="desc", first=10) == [5, 2]
        assert await ids(fixture, q="name:na") == [11, 8, 5, 2]
        assert await ids(fixture, q="priority>31 held", order="asc") == [3, 6, 9, 12]
        assert await ids(fixture, q="@") == [12]
        # A change of each kind, each seen by tables that were read before.
        await change(fixture, "kill", "5")
        assert await ids(fixture, q="name:na held") == [11, 8, 2]
        assert await ids(fixture, q="failed,cancelled") == [5]
        assert (await ids(fixture, sort="state", order="desc"))[0] == 5
        await change(fixture, "clean", "5")
        await change(fixture, "priority", "2", priority=99)
        assert await ids(fixture, q="name:na") == [11, 8, 2]
        assert (await ids(fixture, sort="priority"))[0] == 2
        await submit(fixture, {"name": "na", "command": ["echo", "Needle in"]})
        assert await ids(fixture, q="name:na") == [13, 11, 8, 2]
        assert await ids(fixture, q='"needle IN"') == [13]
        assert (await window(fixture, first=12))["jobs"] == []
        assert (await window(fixture, count=0))["count"] == 12

    play(test)


def test_a_job_that_changes_its_state_while_a_table_is_read_is_in_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STEP_ROWS", 2)
    monkeypatch.setattr(reading, "STEP_LEAST", 2)

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *[{}] * 4)
        steps: list[list[int]] = []
        read = fixture.engine.read

        async def read_and_release(look: Any, *, short: bool = False) -> Any:
            found = await read(look, short=short)
            if isinstance(found, reading.RowStep):
                steps.append([job.id for job in found.found])
                if len(steps) == 1:
                    await change(fixture, "release", "4")
            return found

        monkeypatch.setattr(fixture.engine, "read", read_and_release)
        assert await ids(fixture, q="state:held,queued,placed,running") == [4, 3, 2, 1]
        assert sum(found.count(4) for found in steps) == 2, "it was read in both states"

    play(test)


@pytest.mark.parametrize("few", [0, 48])
def test_tables_are_the_same_after_any_number_of_changes(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_order, "FEW_ROWS", few)
    monkeypatch.setattr(reading, "STEP_ROWS", 7)
    monkeypatch.setattr(reading, "STEP_LEAST", 3)

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *({"priority": i % 5} for i in range(40)))
        for step in range(6):
            patched = {sort: await ids(fixture, sort=sort, count=500) for sort in ("id", "state", "priority", "name")}
            for sort, found in patched.items():
                # Another query for the same jobs has no table yet.
                assert await ids(fixture, sort=sort, count=500, q=f"id:1-{500 + step}") == found
            await change(fixture, "kill", f"{step * 3 + 1}-{step * 3 + 3}")
            await change(fixture, "priority", f"{30 + step}", priority=step)
            await change(fixture, "clean", f"{step * 3 + 1}")
            await submit(fixture, {"name": "new"})

    play(test)


def test_prepared_sorts_are_the_plain_sort_of_all_jobs_after_any_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "PREPARE_AFTER_S", 0.0)
    monkeypatch.setattr(reading, "STEP_ROWS", 7)
    monkeypatch.setattr(reading, "STEP_LEAST", 3)
    dice = random.Random(5)

    held: list[int] = []

    async def some_change(fixture: BrokerFixture) -> None:
        match dice.randrange(4):
            case 0:
                held.extend(
                    await submit(fixture, *({"name": dice.choice("abc")} for _ in range(dice.randrange(1, 60))))
                )
            case 1:
                await change(fixture, "priority", f"{dice.choice(held)}", priority=dice.randrange(90))
            case 2:
                await change(fixture, "kill", f"{held.pop(dice.randrange(len(held)))}")
            case 3:
                job = held.pop(dice.randrange(len(held)))
                await change(fixture, "kill", f"{job}")
                await change(fixture, "clean", f"{job}")

    async def test(fixture: BrokerFixture) -> None:
        held.extend(await submit(fixture, *({"priority": i % 5, "name": dice.choice("abc")} for i in range(40))))
        columns = reading.columns_of(Query(), "duration")
        tables = windows.JobWindows(fixture.engine)
        tables.prepare_sorts(Query())
        await submit(fixture, {"name": "late"})
        await until(lambda: len(tables) == len(windows.PREPARED_SORTS))
        for _ in range(12):
            await some_change(fixture)
            step = reading.RowStep([], 0, reading.sources_of(Query()), 0.0)
            jobs: dict[int, JobFacts] = {}
            while step.left:
                read = partial(reading.read_step, query=Query(), columns=columns, left=step.left, at=None)
                step = await fixture.engine.read(read)
                jobs |= {job.id: job for job in step.found}
            for sort in windows.PREPARED_SORTS:
                for down in (False, True):
                    view = partial(_slice, descending=down)
                    assert await tables.look(Query(), sort, view) == sorted_anew(jobs, sort, descending=down)
        await tables.close()

    play(test)


def _slice(view: windows.View, *, descending: bool) -> list[int]:
    assert view.is_exact
    return view.order.slice(0, len(view.order), descending=descending)


def test_a_table_whose_changes_have_left_the_ring_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHANGED_MAX", 3)

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *({} for _ in range(10)))
        assert await ids(fixture, q="held", order="asc") == [*range(1, 11)]
        await change(fixture, "kill", "1-8")
        assert await ids(fixture, q="held") == [10, 9]

    play(test)


def test_counts_say_what_another_choice_would_find(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for queue in ("default", "sgs-1", "sgs-1"):
            await submit(rig.fixture, {"queue": queue, "name": "x"})
        await change(rig.fixture, "kill", "1")
        ask = rig.fixture.ask
        told = (await ask("GET", "/v1/jobs/counts", local=True)).json
        assert (told["count"], told["states"]) == (3, {"held": 2, "cancelled": 1})
        assert told["queues"] == {"sgs-1": 2, "default": 1}
        told = (await ask("GET", "/v1/jobs/counts?q=state:held+queue:default", local=True)).json
        assert (told["count"], told["states"], told["queues"]) == (0, {"cancelled": 1}, {"sgs-1": 2})

    with_rig(test, monkeypatch)


@pytest.mark.parametrize(
    "query",
    ["q=stat:x", "sort=size", "order=up", "first=-1", "count=501", "nosuch=1", "q=" + "x" * 5000, 'q="'],
)
def test_what_cannot_be_shown_is_refused_in_words(query: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await fixture.ask("GET", f"/v1/jobs/window?{query}", local=True)
        assert answer.status == 400 and "\n" not in answer.words

    play(test)


def test_too_many_jobs_are_cut_and_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOOKED_AT_MAX", 6)
    monkeypatch.setattr(reading, "STEP_ROWS", 4)
    monkeypatch.setattr(reading, "STEP_LEAST", 4)

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *({} for _ in range(20)))
        found = await window(fixture, sort="name")
        assert not found["is_exact"] and found["count"] == 8
        assert (await window(fixture))["count"] == 20, "the first rows of all jobs need no table"

    play(test)


def test_tables_are_bounded_per_caller_and_in_all() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, {})
        tables = windows.JobWindows(fixture.engine)
        for caller in range(windows.CALLERS_MAX + 3):
            WORKS_FOR.set(f"token-{caller}")
            for number in range(windows.TABLES_PER_CALLER + 2 if caller < 2 else 1):
                await tables.look(Query(ids=((1, number + 1),)), "id", lambda view: None)
        assert len(tables) <= windows.TABLES_PER_CALLER + 1
        await tables.close()

    play(test)
