"""A worker on a machine it did not make: what it says of itself, and what it does with orders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from tests.builders import BOOT, a_capacity, a_placement, a_spec, an_offer
from tests.worker.fake_machine import FakeMachine
from tests.worker.test_machine import until

from grassq.core.messages import Check, Hello, Report, Start, WorkerMessage
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import RunState
from grassq.core.resources.amounts import ONE
from grassq.core.states import Exited, Started
from grassq.errors import Refused
from grassq.worker.machine import Detected
from grassq.worker.offers import OfferFile, Offers
from grassq.worker.worker import ORDERS_S, Worker


def test_a_worker_says_what_its_machine_has_as_soon_as_it_is_known() -> None:
    async def test() -> None:
        said: list[WorkerMessage] = []
        worker = Worker(FakeMachine(), Offers(OfferFile("w")), said.append, labels=("big",))
        await worker.start()
        await until(lambda: len(said) == 3)
        infos = [message.info for message in said if isinstance(message, Hello)]
        assert [(info.given, info.looked_for) for info in infos] == [
            (a_capacity(cpu=2), True),
            (a_capacity(cpu=2), frozenset({"gpu"})),
            (a_capacity(cpu=2, gpu=1), frozenset()),
        ]
        assert (infos[0].name, infos[0].labels, worker.describe()) == ("w", ("big",), {"detecting": False})
        await worker.close()

    asyncio.run(test())


def test_an_order_becomes_a_process_and_its_end_a_report() -> None:
    async def test() -> None:
        said: list[WorkerMessage] = []
        worker = Worker(FakeMachine(), Offers(OfferFile("w")), said.append)
        await worker.start()
        worker.deliver(Start(1, 1, a_spec(), a_placement("w"), ()))
        await until(lambda: sum(isinstance(message, Report) for message in said) == 2)
        assert [message.event for message in said if isinstance(message, Report)] == [
            Started(1, 7),
            Exited(1, Outcome.EXITED, 0),
        ]
        await worker.close()

    asyncio.run(test())


class _SlowMachine(FakeMachine):
    """A machine that is far away: a look takes a while, on a clock that tests turn."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        super().__init__()
        self._sleep = sleep
        self.looks = 0

    def look(self, attempt: AttemptId) -> RunState:
        self._sleep(0.2)
        self.looks += 1
        return super().look(attempt)


def test_many_orders_for_a_slow_machine_leave_turns_to_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("time.monotonic", lambda: now)

    async def test() -> None:
        machine = _SlowMachine(sleep)
        worker = Worker(machine, Offers(OfferFile("w")), lambda message: None)
        await worker.start()
        turns: list[int] = []

        def take_a_turn() -> None:
            turns.append(machine.looks)
            if len(turns) < 100:
                asyncio.get_running_loop().call_soon(take_a_turn)

        for job in range(20):
            worker.deliver(Check(job, 1, BOOT))
        take_a_turn()
        await until(lambda: machine.looks == 20)
        assert max(after - before for before, after in pairwise(turns)) * 0.2 <= ORDERS_S + 0.2
        await worker.close()

    asyncio.run(test())


def test_a_queue_is_checked_against_devices_that_are_still_looked_for() -> None:
    async def test() -> None:
        worker = Worker(FakeMachine(), Offers(OfferFile("w")), lambda message: None)
        await worker.start()
        with pytest.raises(Refused, match="no gpu 7"):
            await worker.offer(an_offer("q", gpu=[7]))
        assert await worker.offer(an_offer("q", gpu=[0])) == ("created", [])
        assert await worker.offer(an_offer("q", gpu=[0])) == ("unchanged", [])
        await worker.withdraw("q")
        assert [offer.queue for offer in worker.queues] == ["default"]
        await worker.close()

    asyncio.run(test())


def test_a_worker_says_what_others_use_whenever_that_changes() -> None:
    class Shared(FakeMachine):
        async def detect(self) -> AsyncIterator[Detected]:
            yield Detected(a_capacity(gpu=1), frozenset(), {"gpu": {"0": ONE}})
            yield Detected(a_capacity(gpu=1), frozenset())

    async def test() -> None:
        said: list[WorkerMessage] = []
        worker = Worker(Shared(), Offers(OfferFile("w")), said.append)
        await worker.start()
        await until(lambda: len(said) == 3)
        infos = [message.info for message in said if isinstance(message, Hello)]
        assert [info.used_by_others for info in infos] == [{}, {"gpu": {"0": ONE}}, {}]
        assert infos[1].given == infos[2].given == a_capacity(cpu=2, gpu=1)
        await worker.close()

    asyncio.run(test())
