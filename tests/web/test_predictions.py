"""Predictions are stored, judged when their time has come, and counted; they teach the forecaster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.subscribed import Rig, with_rig
from tests.web.test_eta_route import run_for

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Report
from grassq.core.model import Outcome
from grassq.core.states import Exited, Started
from grassq.web.forecast.forecaster import Forecaster
from grassq.web.forecast.recorder import NEW_MAX, Recorder
from grassq.web.logs.last_lines import LastLines


def a_recorder(rig: Rig) -> Recorder:
    engine = rig.fixture.engine
    return Recorder(engine, Forecaster(engine, LastLines(rig.fixture.directory)))


async def check(rig: Rig) -> Any:
    return (await rig.fixture.ask("GET", "/v1/eta/check", token=await rig.fixture.token("read"))).json


async def started(rig: Rig, job: int) -> None:
    rig.fixture.engine.post(FromWorker("w", Report(job, Started(1, 7))))
    await rig.fixture.engine.read(lambda batch: None)


def test_what_was_said_is_judged_when_the_job_starts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        assert (await check(rig))["ends"] == {"count": 0, "held": 0, "early": 0, "late": 0, "by_basis": {}}
        for seconds in (60.0, 61.0, 62.0):
            await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), seconds)
        jobs = [await rig.submit(name="s", request={"cpu": 4}) for _ in range(3)]
        await started(rig, jobs[0])
        recorder = a_recorder(rig)
        await recorder.look()
        assert (await check(rig))["waiting"] == 3, "the end of the first, and two starts"
        rig.fixture.clock.now += 61.0
        await rig.end(jobs[0])
        await started(rig, jobs[1])
        rig.fixture.clock.now += 5000.0
        await rig.end(jobs[1])
        await started(rig, jobs[2])
        await a_recorder(rig).look()  # also one that begins anew: all is in the store
        answer = await check(rig)
        assert (answer["ends"]["count"], answer["ends"]["held"]) == (1, 1)
        assert (answer["starts"]["count"], answer["starts"]["held"], answer["starts"]["late"]) == (2, 1, 1)
        assert answer["starts"]["by_basis"]["same name"]["count"] == 2 and answer["share"] == 0.8

    with_rig(test, monkeypatch)


def test_a_miss_makes_later_intervals_wider_also_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), 60.0)
        job = await rig.submit(name="s", request={"cpu": 4})
        await started(rig, job)
        recorder = a_recorder(rig)
        await recorder.look()
        rig.fixture.clock.now += 9000.0
        await rig.end(job)
        await recorder.look()
        again = a_recorder(rig)
        await again.look()
        for each in (recorder, again):
            assert each._forecaster.stretch.ends.high > 1.0 > each._forecaster.stretch.ends.low

    with_rig(test, monkeypatch)


def test_a_killed_or_lost_run_counts_for_nothing_and_a_look_makes_few_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), 60.0)
        jobs = [await rig.submit(name="s", request={"cpu": 4}) for _ in range(3 * NEW_MAX)]
        await started(rig, jobs[0])
        recorder = a_recorder(rig)
        await recorder.look()
        assert 2 <= (await check(rig))["waiting"] <= NEW_MAX + 1
        killed = await rig.fixture.ask(
            "POST", "/v1/jobs/kill", {"selectors": ["queued,running"], "key": "0" * 32}, local=True
        )
        assert killed.status == 200, killed.body
        rig.fixture.engine.post(FromWorker("w", Report(jobs[0], Exited(1, Outcome.CANCELLED))))
        await recorder.look()
        answer = await check(rig)
        assert (answer["waiting"], answer["starts"]["count"], answer["ends"]["count"]) == (0, 0, 0)

    with_rig(test, monkeypatch)
