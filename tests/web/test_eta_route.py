"""GET /v1/eta over HTTP: what it says, who may ask, and what it costs to ask often."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any, cast

import pytest
from tests.web.broker_fixture import key
from tests.web.subscribed import QUEUE, Rig, with_rig

from grassq.broker.forecasts import reading
from grassq.broker.inbox import FromWorker
from grassq.core.forecast.forecast import Forecast, JobForecast
from grassq.core.forecast.scene import Scene
from grassq.core.messages import Report
from grassq.core.states import Started
from grassq.web.forecast import eta, forecaster
from grassq.web.logs.last_lines import LastLines


async def run_for(rig: Rig, job: int, seconds: float) -> None:
    """Let a placed job run for a time, and end."""
    rig.fixture.engine.post(FromWorker("w", Report(job, Started(1, 7))))
    await rig.fixture.engine.read(lambda batch: None)
    rig.fixture.clock.now += seconds
    await rig.end(job)


def test_jobs_get_intervals_from_like_runs_and_a_reader_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for seconds in (60.0, 62.0, 64.0, 61.0):
            await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), seconds)
        jobs = [await rig.submit(name="s", request={"cpu": 4}) for _ in range(3)]
        rig.fixture.engine.post(FromWorker("w", Report(jobs[0], Started(1, 7))))
        token = await rig.fixture.token("read")
        answer = (await rig.fixture.ask("GET", "/v1/eta?selector=s", token=token)).json
        assert [job["id"] for job in answer["jobs"]] == jobs and answer["unfinished"] == 3
        for job in answer["jobs"]:
            assert job["starts"]["low"] <= job["starts"]["likely"] <= job["starts"]["high"]
            assert job["n"] == 4 and job["basis"].startswith("4 like runs (same name)") and job["reason"] is None
        assert answer["jobs"][1]["starts"]["likely"] < answer["jobs"][2]["starts"]["likely"]
        assert answer["done"]["likely"] >= answer["jobs"][2]["ends"]["likely"] > answer["now"]
        overview = (await rig.fixture.ask("GET", "/v1/eta", token=token)).json
        assert [job["state"] for job in overview["jobs"]] == ["running", "queued", "queued"]
        assert (overview["running"], overview["queued"]) == (1, 2) and overview["done"] is not None
        assert (await rig.fixture.ask("GET", "/v1/eta")).status == 401

    with_rig(test, monkeypatch)


def test_no_history_a_held_job_and_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        job, held = await rig.submit(request={"cpu": 4}), await rig.submit(hold=True)
        rig.fixture.engine.post(FromWorker("w", Report(job, Started(1, 7))))
        answer = (await rig.fixture.ask("GET", f"/v1/eta?selector={QUEUE}", local=True)).json
        assert [each["reason"] for each in answer["jobs"]] == [
            "no estimate yet: no job like it has ended",
            "no estimate: the job is held",
        ]
        assert answer["done"] is None and answer["jobs"][1]["id"] == held
        assert (await rig.fixture.ask("GET", "/v1/eta?selector=77", local=True)).status == 404
        assert (await rig.fixture.ask("GET", "/v1/eta?selector=3-", local=True)).status == 400

    with_rig(test, monkeypatch)


def test_a_forecast_answers_many_questions_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        made: list[Scene] = []
        play = forecaster.Forecaster.play

        def counted(self: forecaster.Forecaster, scene: Scene, *more: Any) -> Forecast:
            made.append(scene)
            return play(self, scene, *more)

        monkeypatch.setattr(forecaster.Forecaster, "play", counted)
        for _ in range(5):
            await rig.fixture.ask("GET", "/v1/eta", local=True)
        assert len(made) == 1
        monkeypatch.setattr(forecaster, "KEPT_COSTS", 0.0)
        job = await rig.submit(hold=True)
        answer = (await rig.fixture.ask("GET", f"/v1/eta?selector={job}", local=True)).json
        assert answer["jobs"][0]["reason"] == "no estimate: the job is held" and len(made) == 2

    with_rig(test, monkeypatch)


def test_the_next_jobs_are_in_the_order_of_now_whatever_the_forecast_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async def line() -> list[int]:
            jobs = (await rig.fixture.ask("GET", "/v1/eta", local=True)).json["jobs"]
            return [job["id"] for job in jobs if job["state"] == "queued"]

        # The forecast stays as it was.
        monkeypatch.setattr(forecaster, "KEPT_COSTS", 1e9)
        await rig.submit(request={"cpu": 4})
        first, second = [await rig.submit(request={"cpu": 4}) for _ in range(2)]
        assert await line() == [first, second]
        third = await rig.submit(request={"cpu": 4})
        assert await line() == [first, second, third]
        body = {"selectors": [str(third)], "where": "first", "key": key()}
        assert (await rig.fixture.ask("POST", "/v1/jobs/move", body, local=True)).status == 200
        assert await line() == [third, first, second]

    with_rig(test, monkeypatch)


def test_no_estimate_is_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        threads: list[int] = []
        of = Forecast.of

        def noted(self: Forecast, *more: Any) -> JobForecast:
            threads.append(threading.get_ident())
            return of(self, *more)

        monkeypatch.setattr(Forecast, "of", noted)
        await rig.submit(request={"cpu": 4})
        waiting = await rig.submit(request={"cpu": 4})
        for path in (
            "eta",
            f"eta?selector={QUEUE}",
            f"why?selector={waiting}",
            "what-if?capacity=%7Bcpu:8%7D&selector=all",
        ):
            before = len(threads)
            assert (await rig.fixture.ask("GET", f"/v1/{path}", local=True)).status == 200
            assert len(threads) > before, path
        body = words("--queue", QUEUE, "--", "true")
        assert (await rig.fixture.ask("POST", "/v1/what-if", body, local=True)).status == 200
        assert threading.get_ident() not in threads

    with_rig(test, monkeypatch)


def test_plays_run_one_after_the_other_and_what_would_wait_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        at_once: list[int] = []
        begun, may_end, playing = threading.Event(), threading.Event(), threading.Semaphore(1)
        play = forecaster.Forecaster.play

        def slow(self: forecaster.Forecaster, scene: Scene, *more: Any) -> Forecast:
            at_once.append(playing.acquire(blocking=False))
            begun.set()
            assert may_end.wait(10)
            made = play(self, scene, *more)
            playing.release()
            return made

        monkeypatch.setattr(forecaster.Forecaster, "play", slow)
        monkeypatch.setattr(forecaster, "WAITING_MAX", 3)
        one = partial(rig.fixture.ask, "GET", "/v1/what-if?capacity=%7Bcpu:8%7D", local=True)
        asked = [asyncio.create_task(one()) for _ in range(5)]
        refused, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert {(await each).status for each in refused} == {409} and "ask again" in str((await refused.pop()).json)
        may_end.set()
        statuses = sorted([(await each).status for each in asked])
        assert statuses == [200, 200, 200, 409, 409] and begun.is_set() and all(at_once)

    with_rig(test, monkeypatch)


def test_work_whose_question_was_cancelled_still_has_its_turn_until_its_thread_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        begun, may_end, order = threading.Event(), threading.Event(), list[str]()

        def first() -> None:
            begun.set()
            assert may_end.wait(10)
            order.append("first")

        turns = forecaster.Forecaster(rig.fixture.engine, cast(LastLines, None))
        asked = asyncio.create_task(turns.in_turn(first))
        assert await asyncio.to_thread(begun.wait, 10)
        asked.cancel()
        second = asyncio.create_task(turns.in_turn(partial(order.append, "second")))
        await asyncio.to_thread(may_end.set)
        await second
        assert order == ["first", "second"] and asked.cancelled()

    with_rig(test, monkeypatch)


def test_the_names_that_were_looked_up_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        looked_up: list[str] = []
        page = reading.named_page

        def noted(batch: Any, name: str) -> Any:
            looked_up.append(name)
            return page(batch, name)

        monkeypatch.setattr(reading, "named_page", noted)
        monkeypatch.setattr(forecaster, "NAMES_KEPT", 2)
        monkeypatch.setattr(forecaster, "KEPT_S", 0.0)
        monkeypatch.setattr(forecaster, "KEPT_COSTS", 0.0)
        for name in ("a", "b", "c"):
            await rig.submit(name=name, request={"cpu": 4})
        for _ in range(3):
            await rig.fixture.ask("GET", "/v1/eta", local=True)
        assert looked_up == ["a", "b", "c", "a", "b"], "only the names kept last are not looked up again"

    with_rig(test, monkeypatch)


def test_why_says_when_a_queued_job_starts_and_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await run_for(rig, await rig.submit(name="s", request={"cpu": 3}), 60.0)
        running = await rig.submit(name="s", request={"cpu": 3})
        rig.fixture.engine.post(FromWorker("w", Report(running, Started(1, 7))))
        waiting = await rig.submit(name="s", request={"cpu": 2})
        answer = (
            await rig.fixture.ask("GET", f"/v1/why?selector={waiting}", token=await rig.fixture.token("read"))
        ).json
        [job] = answer["jobs"]
        assert job["when"]["starts"]["low"] <= job["when"]["starts"]["high"] and job["when"]["n"] == 1
        assert job["hints"] == ["with cpu 1 it would start now"]
        ended = (await rig.fixture.ask("GET", "/v1/why?selector=1", local=True)).json["jobs"][0]
        assert "when" not in ended and "hints" not in ended

    with_rig(test, monkeypatch)


def words(*typed: str, **more: object) -> dict[str, object]:
    return {"words": [*typed], "key": key(), "cwd": "/", "env": [["PATH", "/bin:/usr/bin"]], "umask": 18, **more}


def test_what_if_tells_when_a_job_would_start_and_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        ask, token = rig.fixture.ask, await rig.fixture.token("read")
        await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), 60.0)
        for _ in range(3):
            await rig.submit(name="s", request={"cpu": 4})
        before = (await ask("GET", "/v1/show?selector=all", local=True)).body
        position = rig.fixture.engine.subscriptions.position
        assert (await ask("GET", "/v1/what-if?capacity=%7Bcpu:8%7D", token=token)).json["unfinished"] == 3
        assert (await ask("GET", "/v1/what-if?capacity=%7Bcpu:8%7D&selector=1", token=token)).json["unfinished"] == 0
        answer = await ask(
            "POST", "/v1/what-if", words("--queue", QUEUE, "--cpu=2", "--name=s", "--", "true"), local=True
        )
        job = answer.json["job"]
        assert job["id"] is None and job["worker"] == "w" and job["starts"] is not None and job["ends"] is not None
        for typed in (("--cpu=9", "--", "true"), ("--cpu=x", "--", "true"), ("--stdin",), ("--",)):
            refused = await ask("POST", "/v1/what-if", words("--queue", QUEUE, *typed), local=True)
            assert refused.status in (400, 409), typed
        assert (await ask("POST", "/v1/what-if", words("--", "true"), token=token)).status == 403
        plain = (await ask("GET", "/v1/what-if?capacity=%7Bcpu:8%7D", token=token)).json
        assert plain["after"]["done"]["likely"] < plain["before"]["done"]["likely"]
        assert plain["after"]["mean_wait_s"] < plain["before"]["mean_wait_s"]
        some = (await ask("GET", "/v1/what-if?capacity=%7Bcpu:1%7D&selector=s", token=token)).json
        assert some["before"]["without_estimate"] == 0 and some["after"]["without_estimate"] == 1, "of each shape one"
        for bad in ("", "?capacity=8", "?capacity=%7Bcpu:-1%7D", "?capacity=%7Bcpu:8", "?capacity=" + "x" * 5000):
            assert (await ask("GET", f"/v1/what-if{bad}", token=token)).status == 400, bad
        assert (await ask("GET", "/v1/what-if?capacity=%7Bcpu:8%7D&on=nowhere", token=token)).status == 404
        assert (await ask("GET", "/v1/show?selector=all", local=True)).body == before
        assert rig.fixture.engine.subscriptions.position == position

    with_rig(test, monkeypatch)


def test_of_a_long_selection_the_first_and_the_newest_jobs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        monkeypatch.setattr(eta, "SELECTED_MAX", 3)
        monkeypatch.setattr(reading, "SELECTED_PAGE", 2)
        monkeypatch.setattr(reading, "LAST_READ", 1)
        await run_for(rig, await rig.submit(name="s", request={"cpu": 4}), 60.0)
        jobs = [await rig.submit(name="s", request={"cpu": 4}) for _ in range(12)]
        last = (await rig.fixture.ask("GET", f"/v1/eta?selector={jobs[-1]}", local=True)).json
        for selector in ("s", QUEUE, f"{jobs[0]}-{jobs[-1]}", "queued", "all"):
            answer = (await rig.fixture.ask("GET", f"/v1/eta?selector={selector}", local=True)).json
            assert answer["more"] and len(answer["jobs"]) <= 5, selector
            assert answer["done"] == last["jobs"][0]["ends"] or answer["done"]["likely"] > last["done"]["low"], selector

    with_rig(test, monkeypatch)


def test_a_token_asks_what_if_only_for_what_it_may_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        typed = words("--queue", QUEUE, "--", "true")
        body = {"words": typed["words"], "key": key()}
        other = await rig.fixture.token("submit", queues=("elsewhere",))
        assert (await rig.fixture.ask("POST", "/v1/what-if", body, token=other)).status in (403, 409)
        bare = await rig.fixture.token("submit")
        refused = await rig.fixture.ask("POST", "/v1/what-if", {**body, "key": key()}, token=bare)
        assert refused.status == 409 and "takes no jobs from other machines" in refused.words
        absurd_ones: list[dict[str, object]] = [
            {"words": ["x"] * 20_000},
            {"words": [{"b64": "!"}]},
            {"words": []},
            {"capacity": 8, "words": []},
        ]
        for absurd in absurd_ones:
            answer = await rig.fixture.ask("POST", "/v1/what-if", {**absurd, "key": key()}, token=bare)
            assert answer.status in (400, 404, 409, 413), answer.words

    with_rig(test, monkeypatch)
