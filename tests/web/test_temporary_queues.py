"""Temporary queues go when nobody subscribes to them and their last job has ended."""

from __future__ import annotations

import asyncio

import pytest
from tests import at_once
from tests.builders import a_worker
from tests.web.broker_fixture import answer_from, key, until
from tests.web.subscribed import QUEUE, SUBSCRIBE, Rig, Stream, with_rig

from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello
from grassq.core.syntax.selectors import AllJobs
from grassq.errors import Refused
from grassq.web.events import temporary_queues
from grassq.web.events.stream import BEAT_S

SOON_S = 0.3


def test_a_subscribed_queue_without_jobs_stays_and_goes_with_its_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "BACK_S", SOON_S)

    async def test(rig: Rig) -> None:
        async with rig.subscribed():
            await asyncio.sleep(3 * SOON_S)  # what it must outlast: the time for subscribers to come back
            assert rig.gone == []
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_a_vanished_subscriber_leaves_its_queue_until_the_last_job_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            first, second, held = await rig.submit(), await rig.submit(), await rig.submit(hold=True)
            await stream.kinds(2)
            stream.writer.transport.abort()
        # Sooner than the next beat would find out.
        await until(lambda: QUEUE not in rig.fixture.engine.subscriptions._by_key, BEAT_S / 3)
        await rig.end(first)
        await rig.end(second)
        await asyncio.sleep(3 * temporary_queues.LOOK_S)  # in which it is looked for queues that may go
        assert rig.gone == [], "a held job is unfinished"
        await rig.fixture.engine.change(lambda batch: at_once.kill(batch, [AllJobs()], None))
        await until(lambda: rig.gone == [QUEUE])
        assert rig.fixture.directory.asked == "w"
        assert held

    with_rig(test, monkeypatch)


def test_after_a_start_a_queue_whose_subscriber_stays_away_goes_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "BACK_S", SOON_S)

    async def test(rig: Rig) -> None:
        job = await rig.submit()
        await asyncio.sleep(2 * SOON_S)  # the time for subscribers to come back
        assert rig.gone == []
        await rig.end(job)
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_a_queue_that_was_just_made_is_given_time_for_its_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        body = {"words": ["sgs-2", "--cpu=1"], "cwd": "/", "key": key(), "temporary": True}
        answer = await rig.fixture.ask("POST", "/v1/create-queue", body, local=True)
        assert answer.status == 200
        made = rig.fixture.directory.made[0][1]
        assert made.temporary
        rig.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=[made]), fresh=False)))
        await asyncio.sleep(3 * temporary_queues.LOOK_S)
        assert rig.gone == []

    with_rig(test, monkeypatch)


def test_a_subscriber_whose_network_connection_broke_is_expected_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "BACK_S", 3 * SOON_S)

    async def test(rig: Rig) -> None:
        token = await rig.fixture.token("submit")
        reader, writer = await rig.fixture.connect()
        writer.write(f"GET {SUBSCRIBE} HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert (await answer_from(reader)).status == 200
        writer.transport.abort()
        await until(lambda: QUEUE not in rig.fixture.engine.subscriptions._by_key)
        await asyncio.sleep(SOON_S)  # less than it is expected for
        assert rig.gone == []
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_a_job_that_comes_while_its_queue_goes_gets_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        rig.meanwhile = rig.submit
        async with rig.subscribed():
            pass
        await until(lambda: bool(rig.fixture.directory.made))
        [(worker, offer)] = rig.fixture.directory.made
        assert (worker, offer.queue, offer.temporary) == ("w", QUEUE, True)
        rig.meanwhile = None
        rig.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=[offer]), fresh=False)))
        board = await rig.fixture.engine.read(lambda batch: batch.board)
        await until(lambda: 1 in board.holding)
        await rig.end(1)
        await until(lambda: rig.gone == [QUEUE, QUEUE])

    with_rig(test, monkeypatch)


def test_who_comes_while_a_queue_goes_gets_it_back_or_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        came: list[Stream] = []

        async def come() -> None:
            # So early that the deletion is not known to the engine yet.
            came.append(await rig.subscribe())

        rig.meanwhile = come
        await rig.submit()
        async with rig.subscribed() as stream:
            await stream.kinds(1)
        await rig.end(1)
        await until(lambda: bool(rig.fixture.directory.made))
        came[0].writer.close()

    with_rig(test, monkeypatch)


def test_a_queue_that_cannot_be_deleted_is_not_tried_again_while_it_is_subscribed_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(temporary_queues, "RETRY_S", 2 * temporary_queues.LOOK_S)

    async def test(rig: Rig) -> None:
        tries: list[Stream] = []

        async def withdraw(queue: str) -> None:
            tries.append(await rig.subscribe())
            raise Refused("worker w is out of touch")

        monkeypatch.setattr(rig.fixture.directory, "withdraw", withdraw)
        async with rig.subscribed():
            pass
        await until(lambda: bool(tries))
        await asyncio.sleep(6 * temporary_queues.LOOK_S)  # longer than until the next try
        assert len(tries) == 1
        tries[0].writer.close()
        await until(lambda: len(tries) == 2)
        tries[1].writer.close()

    with_rig(test, monkeypatch)
