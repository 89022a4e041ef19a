"""GET /v1/timeline over HTTP: what ran, runs and is planned on each device, and that it stays right."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.states import Exited, Started
from grassq.web.timeline import past, plan, serve


class Machine:
    """A broker with a worker that has two GPUs, whose jobs a test runs."""

    def __init__(self, fixture: BrokerFixture) -> None:
        self.fixture = fixture
        self.begin = fixture.clock.wall()
        fixture.engine.post(FromWorker("w", Hello(a_worker("w", gpu=2, cpu=8, offers=[an_offer()]), fresh=False)))

    async def submit(self, count: int = 1, **job: Any) -> list[int]:
        body = {"key": key(), "cwd": "/", "env": [], "umask": 18}
        jobs = [{"command": ["/bin/true", "x"], **job}] * count
        answer = await self.fixture.ask("POST", "/v1/submit", {**body, "jobs": jobs}, local=True)
        assert answer.status == 200, answer.body
        found: list[int] = answer.json["ids"]
        return found

    async def start(self, job: int, attempt: int = 1) -> None:
        self.fixture.engine.post(FromWorker("w", Report(job, Started(attempt, 7))))
        await self.fixture.engine.read(lambda batch: None)

    async def end(self, job: int, code: int = 0, attempt: int = 1) -> None:
        self.fixture.engine.post(FromWorker("w", Report(job, Exited(attempt, Outcome.EXITED, code))))
        await self.fixture.engine.read(lambda batch: None)

    async def run_for(self, job: int, seconds: float, code: int = 0, attempt: int = 1) -> None:
        await self.start(job, attempt)
        self.fixture.clock.now += seconds
        await self.end(job, code, attempt)

    async def timeline(self, begin: float = -10.0, end: float | None = None, px: int = 1000) -> dict[str, Any]:
        """The timeline; times are counted from the beginning of the test."""
        upto = self.fixture.clock.wall() + 3600.0 if end is None else self.begin + end
        path = f"/v1/timeline?from={self.begin + begin}&to={upto}&px={px}"
        answer = await self.fixture.ask("GET", path, local=True)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    def lane(self, answer: dict[str, Any], id_: str | None) -> list[dict[str, Any]]:
        [lane] = [lane for lane in answer["lanes"] if lane["id"] == id_]
        blocks: list[dict[str, Any]] = lane["blocks"]
        return [block | {"from": round(block["from"] - self.begin, 3)} for block in blocks]


@pytest.fixture(autouse=True)
def _no_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question gets an answer of its own, and a plan is made as soon as something has changed."""
    monkeypatch.setattr(serve, "SAME_S", 0.0)
    monkeypatch.setattr(serve, "SHARED_S", 0.0)
    monkeypatch.setattr(plan, "FRESH_S", 0.0)
    monkeypatch.setattr(plan, "FRESH_COSTS", 0.0)


def test_past_running_and_planned_attempts_are_blocks_on_their_devices() -> None:
    async def test(fixture: BrokerFixture) -> None:
        machine = Machine(fixture)
        both, *_ = await machine.submit(request={"gpu": 2}, name="wide")
        await machine.run_for(both, 100.0)
        [part] = await machine.submit(request={"gpu": 0.5}, tries=2, name="s")
        await machine.run_for(part, 50.0, code=3)
        fixture.clock.now += 3600.0
        await fixture.engine.read(lambda batch: None)
        [plain] = await machine.submit(request={"cpu": 2}, name="s")
        await machine.start(part, 2)
        await machine.start(plain)
        answer = await machine.timeline()
        assert answer["is_whole"] and answer["known_from"] is None
        assert [(lane["id"], lane["resource"], lane["worth"]) for lane in answer["lanes"]] == [
            ("0", "gpu", 1.0), ("1", "gpu", 1.0), (None, "cpu", 8.0),
        ]  # fmt: skip
        first, failed, running = machine.lane(answer, "0")
        assert (first["job"], first["kind"], first["state"], first["from"], first["amount"]) == (
            both, "past", "succeeded", 0.0, 1.0,
        )  # fmt: skip
        assert machine.lane(answer, "1") == [first], "an attempt on two devices is on both lanes"
        assert (failed["job"], failed["attempt"], failed["state"], failed["cause"]) == (part, 1, "failed", "exit 3")
        assert (running["attempt"], running["kind"], running["to"], running["amount"]) == (2, "running", None, 0.5)
        [beside] = machine.lane(answer, None)
        assert (beside["job"], beside["amount"], beside["kind"]) == (plain, 2.0, "running")
        assert answer["jobs"][str(both)]["command"] == "/bin/true x" and answer["jobs"][str(both)]["by"] is None
        assert set(answer["jobs"]) == {str(both), str(part), str(plain)}

        fixture.clock.now += 10.0
        await machine.end(part, attempt=2)
        await machine.end(plain)
        for _ in range(3):
            [one] = await machine.submit(request={"gpu": 2}, name="s")
            await machine.run_for(one, 60.0)
        waiting = await machine.submit(2, request={"gpu": 2}, name="s")
        await machine.start(waiting[0])
        answer = await machine.timeline()
        # A plan of a moment ago is shown until the next one is made, and the answer says so.
        while not answer["is_plan_current"]:
            answer = await machine.timeline()
        blocks = machine.lane(answer, "0")
        attempts = [(block["job"], block["attempt"]) for block in blocks if block["kind"] == "past"]
        assert attempts[:3] == [(both, 1), (part, 1), (part, 2)] and len(attempts) == 6, "every attempt once"
        now, planned = blocks[-2:]
        assert (now["job"], planned["job"], planned["kind"]) == (waiting[0], waiting[1], "planned")
        assert now["ends"] == sorted(now["ends"]) and now["ends"][0] >= answer["now"]
        assert planned["starts"] == sorted(planned["starts"]) and planned["to"] > planned["starts"][1] > answer["now"]
        earlier = await machine.timeline(end=120.0)
        assert [block["job"] for block in machine.lane(earlier, "0")] == [both, part]
        assert earlier["plan"] and earlier["is_plan_current"], "nothing is planned for a time that is over"

    play(test)


def test_many_short_attempts_are_merged_and_removed_jobs_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "PAGE", 5)

    async def test(fixture: BrokerFixture) -> None:
        machine = Machine(fixture)
        jobs = []
        for turn in range(12):
            [job] = await machine.submit(request={"gpu": 1})
            await machine.run_for(job, 1.0, code=int(turn == 3))
            jobs.append(job)
        answer = await machine.timeline(end=4000.0, px=400)
        while not answer["is_whole"]:
            answer = await machine.timeline(end=4000.0, px=400)
        [merged] = machine.lane(answer, "0")
        assert (merged["kind"], merged["count"], merged["failed"], merged["amount"]) == ("merged", 12, 1, 1.0)
        assert answer["jobs"] == {}
        near = await machine.timeline(end=20.0)
        assert [block["job"] for block in machine.lane(near, "0")] == jobs
        body = {"key": key(), "selectors": [f"{jobs[0]}-{jobs[5]}"]}
        assert (await fixture.ask("POST", "/v1/jobs/clean", body, local=True)).status == 200
        near = await machine.timeline(end=20.0)
        assert [block["job"] for block in machine.lane(near, "0")] == jobs[6:]
        monkeypatch.setattr(past, "NEWS_MAX", 0)
        [job] = await machine.submit(request={"gpu": 1})
        await machine.run_for(job, 1.0)
        near = await machine.timeline(end=20.0)
        while not near["is_whole"]:
            near = await machine.timeline(end=20.0)
        assert [block["job"] for block in machine.lane(near, "0")] == [*jobs[6:], job]

    play(test)


def test_wrong_questions_are_refused_in_words_and_a_reader_may_ask() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for query in (
            "from=x",
            "from=nan",
            "from=1e300",
            "px=-1",
            "px=999999",
            "from=5&to=5",
            "from=0&to=5e-324",
            "from=0&to=99999999999",
        ):
            answer = await fixture.ask("GET", f"/v1/timeline?{query}", local=True)
            assert answer.status == 400 and answer.words, query
        for begin in (0.0, 1e12 - 1.0):
            query = f"from={begin}&to={begin + 2 * serve.WINDOW_MIN_S}&px={serve.PX_MAX}"
            assert (await fixture.ask("GET", f"/v1/timeline?{query}", local=True)).status == 200, query
        token = await fixture.token("read")
        answer = await fixture.ask("GET", "/v1/timeline", token=token)
        assert answer.status == 200
        [lane] = answer.json["lanes"]
        assert (lane["worker"], lane["resource"], lane["id"], lane["worth"]) == ("w", "cpu", None, 4.0)
        assert (await fixture.ask("GET", "/v1/timeline")).status == 401

    play(test)
