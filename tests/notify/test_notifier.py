"""From ends in the store to notices: jobs, sweeps, queues, first failures; and again after a crash."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.decider_fixture import a_draft
from tests.builders import HandClock, a_worker

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.broker.inbox import FromWorker
from grassq.broker.sweeps.objects import NewSweep, sweep_name
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.notices import rules as notice_rules
from grassq.core.notices.notice import Clue, JobEnd, Notice
from grassq.core.notices.rules import NotifyRule
from grassq.core.notices.targets import Target
from grassq.core.states import Exited, Started
from grassq.notify import notifier as notifiers
from grassq.notify import outbox as outboxes
from grassq.notify import sweep_watch
from grassq.notify.notifier import Notifier
from grassq.notify.outbox import RetryPolicy
from grassq.notify.record import FILE_NAME
from grassq.notify.senders import NoticeSender, SendResult
from grassq.store.sqlite import SqliteStore

HOOK, OTHER = "https://hook.example/s3cr3t", "https://other.example/x"


class Collected(NoticeSender):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__({}, "/")
        self.told: list[tuple[str, str, str]] = []
        self.clues: list[Clue] = []
        self.is_down = False

    async def send(self, target: Target, notice: Notice, cwd: bytes = b"") -> SendResult:
        if self.is_down:
            return SendResult("cannot connect")
        self.told.append((target.text, notice.event, notice.title))
        self.clues.append(notice.clue)
        return SendResult()

    def events(self, to: str = HOOK) -> list[str]:
        return [event for target, event, _ in self.told if target == to]


class NotifierFixture:
    """An engine with a worker of many cpus, and a notifier beside it."""

    def __init__(self, folder: Path, rules: Sequence[NotifyRule]) -> None:
        self.folder, self.rules = folder, rules
        self.sender = Collected()
        self.clock = HandClock()
        self.keys = 0

    @contextlib.asynccontextmanager
    async def open(self, find_clue: notifiers.FindClue | None = None) -> AsyncIterator[None]:
        wants = partial(notice_rules.wants, self.rules)
        store = f"{self.folder}/store.db"
        self.engine = Engine(
            lambda: Decider(SqliteStore(store), self.clock, incarnation=f"life-{self.keys}", wants_notice=wants)
        )
        working = asyncio.create_task(self.engine.run())
        self.engine.post(FromWorker("w", Hello(a_worker("w", cpu=1000))))
        self.notifier = Notifier(
            self.engine,
            self.rules,
            str(self.folder),
            self.sender,
            policy=RetryPolicy(first_s=0.01),
            find_clue=find_clue,
        )
        telling = asyncio.create_task(self.notifier.run())
        try:
            yield
        finally:
            for task in (telling, working):
                task.cancel()
                await asyncio.wait([task])
            await self.notifier.close()
            await self.engine.close()

    async def submit(self, count: int = 1, *, sweep: bool = False, **spec: Any) -> list[int]:
        self.keys += 1
        drafts = [a_draft(**spec) for _ in range(count)]
        handler = partial(
            service.submit,
            drafts=drafts,
            key=str(self.keys),
            digest=b"d",
            sweep=NewSweep(kind="sweep") if sweep else None,
        )
        return await self.engine.change(handler)

    async def end(self, *jobs: int, code: int = 0) -> None:
        for job in jobs:
            self.engine.post(FromWorker("w", Report(job, Started(1, 7))))
            self.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, code))))
        await self.engine.read(lambda batch: None)

    async def settled(self) -> None:
        """Wait until everything was told that is stored to be told."""

        def untold(batch: Batch) -> bool:
            return bool(batch.store.untold(0, 1))

        async with asyncio.timeout(10):
            while await self.engine.read(untold):
                pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "LOOK_S", 0.0)


def play(
    test: Callable[[NotifierFixture], Coroutine[Any, Any, None]], folder: Path, rules: Sequence[NotifyRule] = ()
) -> None:
    async def run() -> None:
        fixture = NotifierFixture(folder, rules)
        async with fixture.open():
            await test(fixture)

    asyncio.run(run())


def test_a_job_tells_its_own_targets_once_and_others_nothing(tmp_path: Path) -> None:
    async def test(fixture: NotifierFixture) -> None:
        [told] = await fixture.submit(notify=(HOOK, OTHER))
        [silent] = await fixture.submit()
        await fixture.end(told, silent, code=3)
        await fixture.settled()
        title = f"job {told} failed after 0s: exit code 3"
        assert sorted(fixture.sender.told) == [(HOOK, "job", title), (OTHER, "job", title)]

    play(test, tmp_path)


def test_a_sweep_tells_of_its_first_failure_and_of_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_watch, "STEP_JOBS", 3)

    async def test(fixture: NotifierFixture) -> None:
        jobs = await fixture.submit(10, sweep=True, notify=(HOOK,))
        await fixture.end(*jobs[1:5])
        await fixture.end(jobs[5], code=1)
        await fixture.settled()
        assert fixture.sender.events() == ["first-failure"]
        await fixture.end(*jobs[6:], code=1)
        await fixture.settled()
        assert fixture.sender.events() == ["first-failure"], "the first job of the sweep has not ended"
        await fixture.end(jobs[0])
        await fixture.settled()
        name = sweep_name(jobs[0])
        assert fixture.sender.told[1:] == [(HOOK, "sweep", f"{name} is done after 0s: 5 succeeded, 5 failed")]

    play(test, tmp_path)


def test_a_sweep_that_ends_at_once_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "PAGE", 4)

    async def test(fixture: NotifierFixture) -> None:
        jobs = await fixture.submit(21, sweep=True, notify=(HOOK,))
        await fixture.end(*jobs)
        await fixture.settled()
        assert fixture.sender.events() == ["sweep"]

    play(test, tmp_path)


def test_a_name_used_again_makes_another_sweep(tmp_path: Path) -> None:
    async def test(fixture: NotifierFixture) -> None:
        first = await fixture.submit(3, name="fit", notify=(HOOK,))
        await fixture.end(*first)
        await fixture.settled()
        fixture.clock.now += 5
        second = await fixture.submit(2, name="fit", notify=(HOOK,))
        [alone] = await fixture.submit(name="alone", notify=(HOOK,))
        await fixture.end(second[0], alone)
        await fixture.settled()
        assert fixture.sender.events() == ["sweep", "job"], "one job with a name is a job"
        await fixture.end(second[1])
        await fixture.settled()
        assert fixture.sender.told[-1][2] == "fit is done after 0s: 2 succeeded"

    play(test, tmp_path)


def test_rules_tell_of_failures_first_failures_and_empty_queues(tmp_path: Path) -> None:
    rules = [
        NotifyRule(("failed",), "https://failed.example"),
        NotifyRule(("first-failure",), "https://first.example"),
        NotifyRule(("queue-empty",), "https://empty.example", queue="default"),
        NotifyRule(("job", "failed"), "https://all.example"),
        NotifyRule(("job",), "https://named.example", name="x*"),
    ]

    async def test(fixture: NotifierFixture) -> None:
        one, two, three = await fixture.submit(3)
        await fixture.end(one, code=1)
        await fixture.end(two, code=1)
        await fixture.settled()
        assert fixture.sender.events("https://empty.example") == []
        await fixture.end(three)
        await fixture.settled()
        events = fixture.sender.events
        assert events("https://failed.example") == ["failed"] * 2
        assert events("https://first.example") == ["first-failure"]
        assert events("https://empty.example") == ["queue-empty"]
        assert events("https://all.example") == ["failed", "failed", "job"], "one notice about one end"
        assert events("https://named.example") == []
        [again] = await fixture.submit()
        await fixture.end(again, code=1)
        await fixture.settled()
        assert events("https://first.example") == ["first-failure"] * 2, "the queue was empty between"
        assert events("https://empty.example") == ["queue-empty"] * 2

    play(test, tmp_path, rules)


def test_what_was_not_told_before_a_crash_is_told_after_it_and_the_rest_is_not_repeated(tmp_path: Path) -> None:
    async def run() -> None:
        fixture = NotifierFixture(tmp_path, [NotifyRule(("sweep", "failed", "queue-empty"), OTHER)])
        async with fixture.open():
            jobs = await fixture.submit(3, sweep=True, notify=(HOOK,))
            await fixture.end(jobs[0])
            await fixture.settled()
            fixture.sender.is_down = True
            await fixture.end(*jobs[1:])
            async with asyncio.timeout(10):
                while fixture.notifier.describe()["waiting_count"] != 3:
                    await fixture.engine.read(lambda batch: None)
        assert fixture.sender.told == []
        fixture.sender.is_down = False
        async with fixture.open():
            await fixture.settled()
        assert (fixture.sender.events(), fixture.sender.events(OTHER)) == (["sweep"], ["sweep", "queue-empty"])
        async with fixture.open():
            await fixture.settled()
        assert len(fixture.sender.told) == 3

    asyncio.run(run())


def test_what_is_shown_and_saved_holds_no_secret(tmp_path: Path) -> None:
    async def test(fixture: NotifierFixture) -> None:
        await fixture.end(*await fixture.submit(notify=(HOOK,)))
        await fixture.settled()
        shown = fixture.notifier.describe()
        assert [each["state"] for each in shown["recent"]] == ["sent"]  # type: ignore[attr-defined]
        assert "s3cr3t" not in str(shown)
        saved = fixture.folder / FILE_NAME
        assert "s3cr3t" not in saved.read_text() and saved.stat().st_mode & 0o777 == 0o600

    play(test, tmp_path)


def test_a_record_that_cannot_be_read_costs_nothing_but_a_line_in_the_log(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{not json")

    async def test(fixture: NotifierFixture) -> None:
        await fixture.end(*await fixture.submit(notify=(HOOK,)))
        await fixture.settled()
        assert fixture.sender.events() == ["job"]

    play(test, tmp_path)


def test_the_last_line_of_a_failed_job_is_told_unless_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifiers, "CLUE_S", 0.05)

    async def find(end: JobEnd) -> Clue:
        if end.job == 2:
            await asyncio.Event().wait()
        return Clue(f"last line of {end.job}")

    async def run() -> None:
        fixture = NotifierFixture(tmp_path, ())
        async with fixture.open(find):
            jobs = await fixture.submit(3, notify=(HOOK,))
            await fixture.end(jobs[0], jobs[1], code=1)
            await fixture.end(jobs[2])
            await fixture.settled()
        assert fixture.sender.clues == [Clue("last line of 1"), Clue(), Clue()]

    asyncio.run(run())


def test_a_stored_target_that_is_refused_now_delays_no_other(tmp_path: Path) -> None:
    async def test(fixture: NotifierFixture) -> None:
        jobs = await fixture.submit(notify=("http://a..b/x",))
        await fixture.end(*jobs, *await fixture.submit(notify=(HOOK,)))
        await fixture.settled()
        assert fixture.sender.events("http://a..b/x") == fixture.sender.events() == ["job"]

    play(test, tmp_path)


def test_an_end_that_cannot_be_read_is_removed_and_delays_no_other(tmp_path: Path) -> None:
    async def test(fixture: NotifierFixture) -> None:
        await fixture.engine.change(lambda batch: batch.changes.untold.append(b"\xc1 of another release"))
        await fixture.end(*await fixture.submit(notify=(HOOK,)))
        await fixture.settled()
        assert fixture.sender.events() == ["job"]

    play(test, tmp_path)


def test_a_bug_in_one_look_does_not_end_all_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "AGAIN_S", 0.0)
    looks = 0
    whole = Notifier._of_queues

    async def once_wrong(self: Notifier, last: Any) -> None:
        nonlocal looks
        looks += bool(last)
        if looks == 1 and last:
            raise ValueError("a bug")
        await whole(self, last)

    monkeypatch.setattr(Notifier, "_of_queues", once_wrong)

    async def test(fixture: NotifierFixture) -> None:
        for _ in range(2):
            await fixture.end(*await fixture.submit(notify=(HOOK,)))
            await fixture.settled()
        assert fixture.sender.events() == ["job", "job"]

    play(test, tmp_path)


def test_dropped_notices_are_counted_and_push_out_nothing_that_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outboxes, "LANE_MAX", 2)

    async def test(fixture: NotifierFixture) -> None:
        await fixture.end(*await fixture.submit(notify=(OTHER,)))
        await fixture.settled()
        fixture.sender.is_down = True
        for _ in range(6):
            await fixture.end(*await fixture.submit(notify=(HOOK,)))
        async with asyncio.timeout(10):
            while fixture.notifier.describe()["dropped"] != 4:
                await fixture.engine.read(lambda batch: None)
        shown = fixture.notifier.describe()
        assert [each["to"] for each in shown["recent"]] == ["https://other.example/..."]  # type: ignore[attr-defined]
        assert shown["waiting_count"] == 2
        fixture.sender.is_down = False
        await fixture.settled()

    play(test, tmp_path)
    assert sum("notice_dropped" in record.getMessage() for record in caplog.records) == 3
