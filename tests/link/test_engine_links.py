"""What the engine does with links: silence, full inboxes, and a broker whose store was taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.builders import HandClock, a_worker
from tests.link.harness import play, until

from grassq.broker import engine as engines
from grassq.broker import inbox
from grassq.broker.decider import Decider
from grassq.broker.engine import Engine
from grassq.broker.inbox import Effects, FromWorker, Message
from grassq.core.messages import Hello, Order, Report, Silent
from grassq.core.model import Outcome
from grassq.core.states import Exited
from grassq.errors import Deposed, Refused, Unreachable
from grassq.store.sqlite import MEMORY, SqliteStore


class Fickle(Decider):
    """A decider that finds its store taken over when told so, and may be made to seem one with a beat."""

    deposed = False
    beats: float | None = None

    def process(self, messages: Sequence[Message]) -> Effects:
        if self.deposed:
            raise Deposed("another broker has taken the store over")
        return super().process(messages)

    @property
    def beat_s(self) -> float | None:
        return self.beats


@asynccontextmanager
async def an_engine() -> AsyncIterator[tuple[Engine, Fickle]]:
    """An engine whose loop does not run yet."""
    engine = Engine(lambda: Fickle(SqliteStore(MEMORY), HandClock(), incarnation="one"))
    assert isinstance(engine.decider, Fickle)
    try:
        yield engine, engine.decider
    finally:
        await engine.close()


HELLO = FromWorker("w", Hello(a_worker("w", cpu=1)))
REPORT = FromWorker("w", Report(1, Exited(1, Outcome.EXITED, 0)))


def test_who_waits_when_the_store_is_taken_over_is_told_and_the_loop_ends() -> None:
    async def test() -> None:
        async with an_engine() as (engine, decider):
            decider.deposed = True
            waiting = [asyncio.create_task(engine.read(lambda batch: None)) for _ in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(Deposed):
                await engine.run()
            for answer in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(answer, Unreachable) and "another broker" in str(answer)
            with pytest.raises(Unreachable, match="ask again"):
                await engine.change(lambda batch: None)
            assert not engine.post(HELLO)
            assert not engine.leads

    play(test)


def test_a_full_inbox_takes_no_reports_but_still_who_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "INBOX_MAX", 3)
    monkeypatch.setattr(inbox, "INBOX_FULL", 5)

    async def test() -> None:
        async with an_engine() as (engine, _):
            assert [engine.post(REPORT) for _ in range(4)] == [True, True, True, False]
            with pytest.raises(Refused, match="try again"):
                await engine.read(lambda batch: None)
            assert engine.post(HELLO) and engine.post(FromWorker("w", Silent(0.0)))
            assert not engine.post(HELLO)

    play(test)


def test_only_the_link_that_is_in_use_can_be_disconnected() -> None:
    async def test() -> None:
        async with an_engine() as (engine, decider):
            running = asyncio.create_task(engine.run())

            def old(order: Order) -> None:
                raise AssertionError("replaced")

            def new(order: Order) -> None:
                pass

            engine.connect("w", old)
            engine.post(HELLO)
            engine.connect("w", new)
            engine.disconnect("w", old, 1.0)
            await engine.read(lambda batch: None)
            assert decider.board.workers["w"].online
            engine.disconnect("w", new, 2.0)
            await until(lambda: not decider.board.workers["w"].online)
            assert decider.board.workers["w"].heard == 2.0
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(test)


def test_a_broker_that_has_not_heard_from_a_shared_store_confirms_no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with an_engine() as (engine, decider):
            assert engine.leads
            decider.beats = 1.0
            assert engine.leads
            decider.read_only = "no database"
            assert not engine.leads
            decider.read_only = None
            monkeypatch.setattr(engines, "LEADS_S", -1.0)
            assert not engine.leads
            # A store of its own can be taken over by nobody: a full disk ends no jobs.
            decider.beats, decider.read_only = None, "the disk is full"
            assert engine.leads

    play(test)
