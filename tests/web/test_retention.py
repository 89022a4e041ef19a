"""Ended jobs beyond the settings go by themselves: oldest first, never active ones, never those that are waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.web.broker_fixture import key
from tests.web.subscribed import Rig, with_rig

from grassq.broker.subscriptions import Filter
from grassq.core.messages import LeftFolder
from grassq.core.syntax.selectors import AllJobs
from grassq.web import removal as removal_module
from grassq.web import retention as module
from grassq.web.removal import FolderRemoval
from grassq.web.retention import KeepRules, Retention

DAY = 86_400.0


async def history(rig: Rig, count: int, every_s: float = DAY) -> None:
    """Run jobs, one after the other, each ending that long after the one before."""
    for _ in range(count):
        job = await rig.submit()
        rig.fixture.clock.now += every_s
        await rig.end(job)


async def left(rig: Rig) -> list[int]:
    jobs = await rig.fixture.engine.read(lambda batch: batch.store.jobs(AllJobs(), 1000))
    return sorted(job.id for job in jobs)


class _Sized(FolderRemoval):
    """Every folder has 1000 bytes; what is removed is noted."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.fixture.engine, rig.fixture.directory)
        self.measured: list[int] = []

    async def size(self, ids: list[int]) -> int:
        self.measured += ids
        return 1000 * len(ids)


def retention(rig: Rig, **rules: Any) -> Retention:
    words = {"age_s": "keep", "jobs": "keep_jobs", "disk_bytes": "keep_disk"}
    kept = KeepRules(**rules, words={words[name]: str(value) for name, value in rules.items()})
    return Retention(rig.fixture.engine, _Sized(rig), kept, rig.fixture.audit)


@pytest.mark.parametrize(
    ("rules", "stays"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"age_s": 2.5 * DAY}, [4, 5, 6]),
        ({"jobs": 2}, [5, 6]),
        ({"jobs": 100}, [1, 2, 3, 4, 5, 6]),
        ({"disk_bytes": 3000}, [4, 5, 6]),
        ({"disk_bytes": 10}, []),
        ({"age_s": 4.5 * DAY, "jobs": 4, "disk_bytes": 2000}, [5, 6]),
    ],
)
def test_each_setting_removes_the_oldest(
    rules: dict[str, Any], stays: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(rig: Rig) -> None:
        await history(rig, 6)
        rig.fixture.clock.now += 3600
        running = await rig.submit()
        kept = retention(rig, **rules)
        would = await kept.would_remove(_nothing)
        assert would["count"] == 6 - len(stays) and would["bytes"] == 1000 * (6 - len(stays))
        assert await left(rig) == [1, 2, 3, 4, 5, 6, running], "a look removes nothing"
        assert await kept.remove() == 6 - len(stays)
        assert await left(rig) == [*stays, running]
        entries = [entry for entry in rig.fixture.audit.read(10) if entry.who == "broker"]
        assert bool(entries) == (len(stays) < 6)

    with_rig(test, monkeypatch)


async def _nothing() -> None:
    return


def test_what_each_setting_removes_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await history(rig, 6)
        rig.fixture.clock.now += 3600
        would = await retention(rig, age_s=4.5 * DAY, jobs=4, disk_bytes=2000).would_remove(_nothing)
        by = would["by"]
        assert isinstance(by, dict)
        assert {name: rule["count"] for name, rule in by.items()} == {"keep": 1, "keep_jobs": 1, "keep_disk": 2}

    with_rig(test, monkeypatch)


def test_a_job_that_has_just_ended_or_is_waited_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await history(rig, 3, every_s=31.0)
        kept = retention(rig, jobs=1)
        assert await kept.remove() == 1, "two of three jobs ended less than a minute ago"
        assert await left(rig) == [2, 3]
        rig.fixture.clock.now += 3600
        with rig.fixture.engine.subscriptions.subscribe(Filter(frozenset({2}))):
            assert await kept.remove() == 0
        assert await kept.remove() == 1
        assert await left(rig) == [3]

    with_rig(test, monkeypatch)


def test_many_jobs_are_removed_in_small_steps_and_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_JOBS", 5)
    monkeypatch.setattr(module, "STEP_PAUSE_S", 0.0)

    async def test(rig: Rig) -> None:
        await history(rig, 23, every_s=60.0)
        rig.fixture.clock.now += 3600
        kept = retention(rig, disk_bytes=12_000)
        steps = [list(step.why) async for step in kept.expired()]
        assert steps == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11]]
        assert await kept.remove() == 11 and await left(rig) == list(range(12, 24))
        removal = kept._removal
        assert isinstance(removal, _Sized) and len(removal.measured) == 13, "twelve that stay, and the first that goes"

    with_rig(test, monkeypatch)


def test_a_dry_run_tells_the_owner_what_the_settings_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await history(rig, 3)
        body = {"selectors": ["all"], "dry_run": True, "key": key()}
        answer = await rig.fixture.ask("POST", "/v1/jobs/clean", body, local=True)
        assert answer.json["keep"] == {"count": 0, "bytes": 0, "by": {}}

    with_rig(test, monkeypatch)


def test_the_looks_go_on_after_a_bug_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await history(rig, 2)
        rig.fixture.clock.now += 3600
        removal = _Sized(rig)
        kept = Retention(rig.fixture.engine, removal, KeepRules(jobs=1), look_s=0.01)
        with monkeypatch.context() as broken:
            tried = asyncio.Event()

            async def fail(ids: list[int]) -> list[LeftFolder]:
                tried.set()
                raise RuntimeError("a bug")

            broken.setattr(removal, "remove", fail)
            kept.start()
            await asyncio.wait_for(tried.wait(), 20.0)
        await history(rig, 1)
        rig.fixture.clock.now += 3600
        async with asyncio.timeout(20.0):
            while await left(rig) != [3]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await kept.close()

    with_rig(test, monkeypatch)


def test_folders_are_removed_after_a_bug_in_an_earlier_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_module, "RETRY_S", 0.01)

    async def test(rig: Rig) -> None:
        answers: list[list[LeftFolder] | RuntimeError] = [[LeftFolder(1, 1, "in use")], RuntimeError("a bug"), []]
        is_removed = asyncio.Event()

        async def remove(ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
            answer = answers.pop(0)
            if isinstance(answer, RuntimeError):
                raise answer
            if not answers:
                is_removed.set()
            return answer

        monkeypatch.setattr(rig.fixture.directory, "remove", remove)
        removal = FolderRemoval(rig.fixture.engine, rig.fixture.directory)
        removal.start()
        await removal.remove([1])
        await asyncio.wait_for(is_removed.wait(), 20.0)
        await removal.close()

    with_rig(test, monkeypatch)
