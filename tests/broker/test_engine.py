"""The loop: one commit, then answers, then orders; a bug in one batch does not end it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests import at_once
from tests.broker.decider_fixture import Trouble, a_draft, chosen
from tests.builders import HandClock, a_worker
from tests.sim.touchy import TouchyStore

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.broker.engine import SLOW_S, Engine
from grassq.broker.inbox import FromWorker
from grassq.broker.subscriptions import Filter
from grassq.core.messages import Hello, Order, Report, Start
from grassq.core.model import Outcome
from grassq.core.states import Exited
from grassq.errors import GrassError, NotFound, StoreUnavailable


class Running:
    """An engine with worker `w` connected, and everything that happened, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.orders: asyncio.Queue[Order] = asyncio.Queue()
        self.trouble = Trouble()
        self.engine = Engine(self._decider)
        self.engine.connect("w", self._send)
        self.engine.post(FromWorker("w", Hello(a_worker("w", cpu=1))))

    def _decider(self) -> Decider:
        return Decider(TouchyStore(trouble=self._moment), HandClock(), incarnation="one")

    def _moment(self, moment: str) -> None:
        self.happened.append(moment)
        self.trouble(moment)

    def _send(self, order: Order) -> None:
        self.happened.append(type(order).__name__)
        self.orders.put_nowait(order)

    async def submit(self, key: str = "k") -> list[int]:
        handler = partial(service.submit, drafts=[a_draft()], key=key, digest=b"d")
        ids = await self.engine.change(handler, key=key, recall=service.ids_of, short=True)
        self.happened.append("answer")
        return ids


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    """An engine whose loop runs, and is ended at last."""
    one = Running()
    task = asyncio.create_task(one.engine.run())
    try:
        yield one
        assert not task.done(), "the loop has ended"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await one.engine.close()


def play(test: Callable[[Running], Coroutine[Any, Any, None]]) -> None:
    """Run a test inside a loop."""

    async def all_of_it() -> None:
        async with asyncio.timeout(20), running() as one:
            await test(one)

    asyncio.run(all_of_it())


def test_answers_and_orders_come_after_the_commit() -> None:
    async def test(one: Running) -> None:
        assert await one.submit() == [1]
        assert isinstance(await one.orders.get(), Start)
        last = one.happened.index("answer")
        assert one.happened.index("Start") > one.happened.index("after commit")
        assert last > len(one.happened) - 1 - one.happened[::-1].index("after commit")

    play(test)


def test_the_status_is_that_of_the_batch_that_was_answered() -> None:
    async def test(one: Running) -> None:
        before = one.engine.status
        await one.submit()
        after = one.engine.status
        assert after.history.position.highest_id == 1
        assert after.history.position.commit > before.history.position.commit
        assert after.generation > before.generation, "worker w has said hello"
        one.trouble.at = ["before commit", "before commit"]
        for key in ("k2", "k3"):
            with pytest.raises(StoreUnavailable):
                await one.submit(key)
        assert one.engine.status.read_only == "no disk before commit"

    play(test)


def test_many_calls_share_a_commit() -> None:
    async def test(one: Running) -> None:
        await one.submit("first")
        before = one.happened.count("after commit")
        ids = await asyncio.gather(*(one.submit(f"k{i}") for i in range(50)))
        assert sorted(job for made in ids for job in made) == list(range(2, 52))
        assert one.happened.count("after commit") - before <= 2

    play(test)


def test_a_bug_in_a_handler_is_answered_and_does_not_end_the_loop() -> None:
    def bug(batch: Batch) -> None:
        service.submit(batch, [a_draft()], "bug", b"d")
        raise ZeroDivisionError("a bug")

    async def test(one: Running) -> None:
        with pytest.raises(GrassError, match="the daemon failed on this"):
            await one.engine.change(bug)
        assert await one.submit() == [1]

    play(test)


def test_of_reads_that_fail_beside_submissions_only_the_reads_fail() -> None:
    def fail(batch: Batch) -> None:
        raise ValueError("year 30489 is out of range")

    async def test(one: Running) -> None:
        calls = [call for at in range(100) for call in (one.engine.read(fail), one.submit(f"key {at}"))]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(each[0] for each in answers if isinstance(each, list)) == list(range(1, 101))
        assert sum(type(each) is GrassError for each in answers) == 100

    play(test)


def test_a_bug_while_the_store_is_unreadable_does_not_end_the_loop() -> None:
    def bug(batch: Batch) -> None:
        raise ZeroDivisionError("a bug")

    async def test(one: Running) -> None:
        await one.submit()
        one.trouble.at = ["load", "load"]
        with pytest.raises(GrassError):
            await one.engine.change(bug)
        with pytest.raises(StoreUnavailable):
            await one.engine.read(lambda batch: batch.store.totals())

    play(test)


def test_a_refusal_is_raised_to_the_one_who_asked() -> None:
    async def test(one: Running) -> None:
        with pytest.raises(NotFound):
            await one.engine.change(lambda batch: at_once.hold(batch, chosen("9")))

    play(test)


def test_a_submission_whose_commit_was_unclear_is_answered_by_its_key() -> None:
    async def test(one: Running) -> None:
        await one.submit("first")
        one.trouble.at = ["after commit"]
        assert await one.submit("second") == [2]

    play(test)


def test_waiters_wake_after_the_commit_that_ended_their_job() -> None:
    async def test(one: Running) -> None:
        (job,) = await one.submit()
        ends = one.engine.subscriptions.subscribe(Filter(frozenset([job]), ended=True))
        assert await ends.next(0.01) == []
        one.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, 0))))
        assert [end.job for end in await ends.next(10) or ()] == [job]
        ends.close()
        totals = await one.engine.read(lambda batch: batch.store.totals())
        assert totals == {"succeeded": 1}

    play(test)


def test_one_who_stops_waiting_for_an_answer_disturbs_nobody() -> None:
    async def test(one: Running) -> None:
        impatient = asyncio.create_task(one.submit("gone"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await one.submit("here") in ([1], [2])

    play(test)


async def thread_of(one: Running, *, short: bool, takes_s: float = 0.0) -> str:
    """On which thread a request is worked off."""

    def handler(batch: Batch) -> str:
        time.sleep(takes_s)
        return threading.current_thread().name

    return await one.engine.change(handler, short=short)


def test_what_is_brief_is_decided_on_the_loop_and_all_else_on_the_engines_thread() -> None:
    async def test(one: Running) -> None:
        await one.submit()
        here = threading.current_thread().name
        assert await thread_of(one, short=True) == here
        assert (await thread_of(one, short=False)).startswith("engine")
        assert await thread_of(one, short=True) == here, "after a batch that is not brief comes a brief one"
        both = await asyncio.gather(thread_of(one, short=True), thread_of(one, short=False))
        assert here not in both, "one that is not brief takes its whole batch along"

    play(test)


def test_after_a_batch_that_took_long_the_thread_does_it_for_a_while() -> None:
    async def test(one: Running) -> None:
        await one.submit()
        here = threading.current_thread().name
        assert await thread_of(one, short=True, takes_s=2 * SLOW_S) == here
        assert (await thread_of(one, short=True)).startswith("engine")

    play(test)
