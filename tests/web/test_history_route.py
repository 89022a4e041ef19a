"""The route of `history`: exact numbers of a store with retries, pages, groups and rights."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_job, a_placement
from tests.web.broker_fixture import BrokerFixture, play

from grassq.broker.batch import Batch
from grassq.core.model import Job, State
from grassq.core.resources.amounts import ONE
from grassq.store.base import Attempt
from grassq.web.routes import history

DAY_S = 86_400.0
#: The middle of a day, so that all ends of a test are on the day they seem to be.
NOON = time.mktime((*time.localtime()[:3], 12, 0, 0, 0, 0, -1)) - DAY_S


def put(batch: Batch, job: Job, attempts: list[tuple[float | None, float, dict[str, Any]]]) -> None:
    """Store a job that has ended, with (start, end, allocation) of each attempt."""
    job = replace(job, attempt=len(attempts))
    batch.changes.inserted[job.id] = job
    batch.next_id = max(batch.next_id, job.id + 1)
    batch.changes.environments[job.spec.env_digest] = b""
    for number, (started, ended, allocation) in enumerate(attempts, 1):
        where = a_placement(f"w{number}", allocation)
        batch.changes.attempts[job.id, number] = Attempt(
            job=job.id, number=number, placement=where, started=started, ended=ended
        )


def ended(id_: int, state: State, finished: float, **more: Any) -> Job:
    good = {"outcome": "exited", "exit_code": 0} if state is State.SUCCEEDED else {}
    job = a_job(id_, state=state)
    return replace(job, created=finished - 100.0, finished=finished, **good, **more)


def fill(batch: Batch) -> None:
    gpu = {"gpu": {"0": ONE // 2}, "cpu": 2 * ONE}
    retried = ended(1, State.SUCCEEDED, NOON, name="fit")
    put(batch, retried, [(NOON - 90, NOON - 54, gpu), (None, NOON - 50, gpu), (NOON - 36, NOON, gpu)])
    put(batch, ended(2, State.FAILED, NOON - DAY_S, name="fit"), [(NOON - DAY_S - 72, NOON - DAY_S, {"cpu": ONE})])
    put(batch, ended(3, State.CANCELLED, NOON - DAY_S), [])
    put(batch, ended(4, State.SUCCEEDED, NOON - 40 * DAY_S), [(NOON - 40 * DAY_S - 9, NOON - 40 * DAY_S, {"cpu": ONE})])


async def ask(fixture: BrokerFixture, query: str = "", token: str | None = None) -> Any:
    answer = await fixture.ask("GET", f"/v1/history{query}", token=token, local=token is None)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.mark.parametrize("rows", [500, 1, 2])
def test_the_numbers_are_those_counted_by_hand(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "STEP_RUNS", rows)

    async def test(fixture: BrokerFixture) -> None:
        await fixture.engine.change(fill)
        days = await ask(fixture)
        before, last = days["groups"]
        assert last == {
            "group": time.strftime("%Y-%m-%d", time.localtime(NOON)), "jobs": 1, "runs": 2, "succeeded": 1, "failed": 0,
            "cancelled": 0, "success_rate": 1.0, "run_hours": 0.02, "hours": {"cpu": 0.04, "gpu": 0.01},
            "wait_median_s": 10.0, "wait_p90_s": 10.0,
        }  # fmt: skip
        assert (before["jobs"], before["failed"], before["cancelled"], before["success_rate"]) == (2, 1, 1, 0.0)
        assert days["total"]["jobs"] == 3 and days["total"]["hours"]["cpu"] == 0.06
        assert (await ask(fixture, "?since=60d"))["total"]["jobs"] == 4
        assert (await ask(fixture, "?selector=fit&by=queue"))["groups"][0]["jobs"] == 2
        assert (await ask(fixture, "?selector=1-4&since=60d"))["total"] == (await ask(fixture, "?since=60d"))["total"]

    play(test)


def test_runs_are_grouped_by_queue_name_worker_and_user() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await fixture.engine.change(fill)
        token = await fixture.token("read", name="ann")
        job = ended(5, State.FAILED, NOON, token=token.partition(".")[0])
        await fixture.engine.change(lambda batch: put(batch, job, [(NOON - 9, NOON, {"cpu": ONE})]))
        names = {by: await ask(fixture, f"?by={by}", token) for by in ("queue", "name", "worker", "user")}
        groups = {by: {group["group"]: group["jobs"] for group in each["groups"]} for by, each in names.items()}
        assert groups == {
            "queue": {"default": 4},
            "name": {"fit": 2, "(none)": 2},
            "worker": {"w1": 2, "w2": 0, "w3": 1, "(none)": 1},
            "user": {"owner": 3, "ann": 1},
        }

    play(test)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?by=project", "there are no projects yet"),
        ("?by=colour", "the ways are day, queue, name, worker, user"),
        ("?since=soon", "since needs a number and its unit"),
        ("?selector=nothing-like-it", "no job matches"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(query: str, words: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await fixture.ask("GET", f"/v1/history{query}", local=True)
        assert answer.status >= 400 and words in answer.words

    play(test)
