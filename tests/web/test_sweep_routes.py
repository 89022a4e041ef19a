"""GET /v1/sweeps: parameters and results of jobs that share a name, as they were submitted and as they change."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from tests.web.broker_fixture import BrokerFixture, key
from tests.web.subscribed import Rig, with_rig
from tests.web.test_job_window import change, submit

from grassq.broker.inbox import FromWorker
from grassq.broker.windows import sweep_jobs
from grassq.broker.windows.job_order import JobOrder, RowCollector
from grassq.core.messages import Report
from grassq.core.model import Outcome
from grassq.core.states import Exited, Started
from grassq.web.tables import windows

HOSTILE = '<img src=x onerror="alert(1)">\u202e'


async def sweep(fixture: BrokerFixture, name: str) -> dict[str, Any]:
    answer = await fixture.ask("GET", f"/v1/sweeps/{name}", local=True)
    assert answer.status == 200, answer.words
    found: dict[str, Any] = answer.json
    return found


async def end(rig: Rig, job: int, result: str | None) -> None:
    rig.fixture.engine.post(FromWorker("w", Report(job, Started(1, 100 + job))))
    rig.fixture.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 0, result=result))))
    await rig.fixture.engine.read(lambda batch: None)


def test_a_sweep_has_its_parameters_and_results_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        fixture = rig.fixture
        assert (await fixture.ask("GET", "/v1/sweeps", local=True)).json["sweeps"] == []
        points = [{"lr": lr, "opt": opt} for lr in ("0.1", "0.001", "1e-5") for opt in ("adam", HOSTILE)]
        made = [{"name": "grid", "parameters": point, "hold": False} for point in points]
        ids = await submit(fixture, *made, {"name": "alone"}, {"name": "other"}, {"name": "other"})
        await end(rig, ids[0], '{"loss":0.5,"val":{"acc":0.9},"note":"x"}')
        found = await sweep(fixture, "grid")
        assert found["columns"] == [
            {"name": "lr", "group": "parameter", "kind": "number", "is_log": True},
            {"name": "opt", "group": "parameter", "kind": "text", "is_log": False},
            {"name": "loss", "group": "result", "kind": "number", "is_log": False},
            {"name": "val.acc", "group": "result", "kind": "number", "is_log": False},
        ]
        assert [row["id"] for row in found["rows"]] == ids[5::-1] and found["count"] == 6 and not found["is_cut"]
        assert found["rows"][-1]["values"] == [0.1, "adam", 0.5, 0.9] and found["rows"][-1]["state"] == "succeeded"
        assert found["rows"][0]["values"] == [1e-5, HOSTILE, None, None] and found["rows"][0]["finished"] is None
        assert (await fixture.ask("GET", "/v1/jobs?selector=2", local=True)).json["jobs"][0]["parameters"] == points[1]
        # A table that is kept follows ends, removals and new jobs.
        await end(rig, ids[1], '{"loss":0.25}')
        await change(fixture, "clean", str(ids[0]))
        [new] = await submit(fixture, {"name": "grid", "command": ["true", "--lr", "7"]})
        found = await sweep(fixture, "grid")
        assert [row["id"] for row in found["rows"]] == [new, *ids[5:0:-1]]
        assert found["rows"][0]["values"] == [7, None, None] and found["rows"][-1]["values"][-1] == 0.25
        listed = (await fixture.ask("GET", "/v1/sweeps?limit=1", local=True)).json
        assert [(each["name"], each["jobs"], each["newest"]) for each in listed["sweeps"]] == [("grid", 6, new)]
        rest = (await fixture.ask("GET", f"/v1/sweeps?cursor={listed['next']}", local=True)).json
        assert [(each["name"], each["counts"]) for each in rest["sweeps"]] == [("other", {"held": 2})]
        assert rest["next"] is None and rest["sweeps"][0]["created"]
        assert (await fixture.ask("GET", "/v1/sweeps/nosuch", local=True)).status == 404

    with_rig(test, monkeypatch)


def test_a_sweep_is_one_line_and_one_table_whatever_its_jobs_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        fixture = rig.fixture

        async def listed(query: str = "") -> list[tuple[str, int | None, int]]:
            answer = (await fixture.ask("GET", f"/v1/sweeps{query}", local=True)).json
            return [(each["name"], each["id"], each["jobs"]) for each in answer["sweeps"]]

        body = {"commands": ["true {x}"], "env": [["PATH", "/bin"]], "sweep": {"at_once": 1, "definition": HOSTILE}}
        grid = {"parameters": {"x": ["0..2"]}}
        for name in ("fit", "fit", "p-{x}"):
            sent = {**body, "grid": grid, "key": key(), "job": {"name": name, "hold": True}}
            assert (await fixture.ask("POST", "/v1/submit-many", sent, local=True)).json["count"] == 3
        await submit(fixture, {"name": "plain"}, {"name": "plain"})
        assert await listed() == [("plain", None, 2), ("p-{x}", 7, 3), ("fit", 4, 3), ("fit", 1, 3)]
        assert await listed("?limit=2&cursor=7") == [("fit", 4, 3), ("fit", 1, 3)]
        found = await sweep(fixture, "sweep:7")
        assert (found["name"], found["id"], found["at_once"], found["definition"]) == ("p-{x}", 7, 1, HOSTILE)
        assert [row["values"] for row in found["rows"]] == [[2], [1], [0]]
        await change(fixture, "kill", "sweep:7")
        assert (await sweep(fixture, "sweep:7"))["counts"] == {"cancelled": 3}
        rows = (await fixture.ask("GET", "/v1/jobs/window?q=sweep:4", local=True)).json
        assert [job["id"] for job in rows["jobs"]] == [6, 5, 4] and rows["count"] == 3
        for wrong, status in (("sweep:99", 404), ("sweep:x", 400)):
            assert (await fixture.ask("GET", f"/v1/sweeps/{wrong}", local=True)).status == status
        assert (await fixture.ask("GET", "/v1/jobs/window?q=sweep:x", local=True)).status == 400

    with_rig(test, monkeypatch)


def test_a_sweep_of_many_jobs_has_the_newest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("grassq.web.tables.sweeps", "grassq.broker.windows.sweep_jobs"):
        monkeypatch.setattr(f"{module}.SWEEP_JOBS_MAX", 10)
    monkeypatch.setattr(sweep_jobs, "STEP_JOBS", 3)

    async def test(rig: Rig) -> None:
        commands = [["true", "--lr", str(n)] for n in range(15)]
        job = {"name": "many", "hold": True}
        columns = {"lr": [str(n) for n in range(15)], "é": ["x"] * 15}
        body = {"job": job, "commands": commands, "parameters": columns, "key": key(), "env": [["PATH", "/bin"]]}
        made = await rig.fixture.ask("POST", "/v1/submit-many", body, local=True)
        assert made.json["count"] == 15, made.body
        await change(rig.fixture, "kill", "1")
        found = await sweep(rig.fixture, "many")
        assert (len(found["rows"]), found["count"], found["is_cut"]) == (10, 15, True)
        assert found["rows"][0]["values"] == [14, "x"]
        # An older job takes the place of one that is removed.
        await change(rig.fixture, "kill", "15")
        await change(rig.fixture, "clean", "15")
        found = await sweep(rig.fixture, "many")
        assert (len(found["rows"]), found["count"], found["is_cut"]) == (10, 14, True)
        body |= {"parameters": {"lr": ["1"]}, "key": key()}
        answer = await rig.fixture.ask("POST", "/v1/submit-many", body, local=True)
        assert answer.status == 400 and "'lr' has 1 values for 15 jobs" in answer.words

    with_rig(test, monkeypatch)


def test_many_rows_are_copied_on_the_loop_and_looked_at_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[bool]] = {"copy": set(), "name_groups": set()}

    def watched(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def call(*given: Any) -> Any:
            if inspect.stack()[1].function != "_reorder":
                seen[name].add(threading.current_thread() is threading.main_thread())
            return real(*given)

        monkeypatch.setattr(kind, name, call)

    watched(RowCollector, "copy")
    watched(JobOrder, "name_groups")
    monkeypatch.setattr(windows, "ROWS_ON_LOOP", -1)

    async def test(rig: Rig) -> None:
        await submit(rig.fixture, {"name": "a"}, {"name": "a"}, {"name": "b"})
        [found] = (await rig.fixture.ask("GET", "/v1/sweeps", local=True)).json["sweeps"]
        assert (found["name"], found["jobs"], seen["name_groups"]) == ("a", 2, {False})
        monkeypatch.setattr(windows, "BUILD_WAIT_S", 0.0)
        answer = (await rig.fixture.ask("GET", "/v1/jobs/window?q=name:a*&sort=name", local=True)).json
        assert not answer["is_exact"] and seen["copy"] == {True}

    with_rig(test, monkeypatch)
