"""What is streamed to a subscriber: in order, whole, and with a word about what is gone."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import is_closed, until
from tests.web.subscribed import QUEUE, SUBSCRIBE, Rig, with_rig

from grassq.broker import subscriptions
from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.protocol import LONG_POLL_S
from grassq.core.states import Exited, Started
from grassq.core.syntax.selectors import AllJobs
from grassq.web.events import queue_pages, temporary_queues
from grassq.web.events import stream as event_streams
from grassq.web.events.stream import FOLLOW_AFTER_S

SOON_S = 0.3


def test_after_what_there_was_comes_which_jobs_have_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "SETTLE_S", 0.0)
    monkeypatch.setattr(queue_pages, "PAGE", 2)

    async def test(rig: Rig) -> None:
        for _ in range(7):
            await rig.submit()
        await rig.submit(hold=True)
        await rig.end(3)
        async with rig.subscribed("?over=3-3") as stream:
            kinds = [(kind, job) for kind, job, _ in await stream.kinds(5)]
            assert kinds == [*(("started", job) for job in (1, 2, 4, 5)), ("shown", [[1, 2], [4, 8]])]
        monkeypatch.setattr(event_streams, "SHOWN_MAX", 3)
        async with rig.subscribed("?from=2") as stream:
            while "shown" not in (frame := (await stream.frame())[0]):
                pass
            assert frame == {"shown": [[2, 2], [4, 5]], "upto": 5}, "of those above nothing is said"

    with_rig(test, monkeypatch)


def test_nothing_is_said_of_what_is_gone_before_workers_had_time_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "SETTLE_S", SOON_S)
    monkeypatch.setattr(event_streams, "LIST_S", SOON_S)

    async def test(rig: Rig) -> None:
        board = await rig.fixture.engine.read(lambda batch: batch.board)
        board.unreconciled.add("v")
        async with rig.subscribed() as stream:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(4 * SOON_S):
                    await stream.frame()
            board.unreconciled.clear()
            assert (await stream.frame())[0]["shown"] == []

    with_rig(test, monkeypatch)


def test_a_queue_deleted_under_its_reader_ends_the_stream_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            await rig.submit()
            await stream.kinds(1)
            rig.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4), fresh=False)))
            assert (await stream.frame())[0] == {"gone": True}
        # Whoever comes to one that is missed by a job hears the same, and all that there was before.
        async with rig.subscribed() as stream:
            assert [kind for kind, _, _ in await stream.kinds(2)] == ["started", "gone"]
        await rig.end(1)
        # To one that nobody misses somebody may listen.
        monkeypatch.setattr(event_streams, "BEAT_S", 0.1)
        async with rig.subscribed() as stream:
            assert [kind for kind, _, _ in await stream.kinds(3)] == ["started", "ended", "beat"]
            # Once it has been there, its end is told also without a job.
            offers = [replace(an_offer(QUEUE), temporary=True)]
            rig.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=offers), fresh=False)))
            await stream.kinds(3)  # a beat after each look
            rig.fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4), fresh=False)))
            while "gone" not in (await stream.frame())[0]:
                pass

    with_rig(test, monkeypatch)


def test_frames_come_in_order_with_all_output_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            rig.logs[1] = b"one\n"
            assert await rig.submit() == 1
            assert await stream.kinds(2) == [("started", 1, b""), ("output", 1, b"one\n")]
            rig.logs[1] += b"x" * 3_000_000
            rig.logs[2] = b"two"
            await rig.end(1)
            rest = b""
            while (frame := await stream.frame())[0].get("output") == 1:
                assert frame[0]["offset"] == 4 + len(rest)
                rest += frame[1]
            assert rest == b"x" * 3_000_000
            assert frame[0] == {
                "ended": 1,
                "state": "succeeded",
                "exit_code": 0,
                "signal": None,
                "outcome": "exited",
                "error": None,
                "unread": None,
            }

    with_rig(test, monkeypatch)


def test_who_subscribes_again_is_told_from_the_offsets_on_and_a_log_that_shrank_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        rig.logs = {1: b"abcdef", 2: b"new", 3: b"other"}
        for _ in range(3):
            await rig.submit()
        await rig.end(1)
        async with rig.subscribed("?from=1&offsets=1:1:4,2:1:100,3:9:2") as stream:
            found = await stream.kinds(7)
        assert [part for part in found if part[1] == 1] == [
            ("started", 1, b""),
            ("output", 1, b"ef"),
            ("ended", 1, b""),
        ]
        assert [part for part in found if part[1] == 2] == [("started", 2, b""), ("output", 2, b"new")]
        assert [part for part in found if part[1] == 3] == [("started", 3, b""), ("output", 3, b"other")]

    with_rig(test, monkeypatch)


def test_a_job_placed_behind_another_is_told_as_started_when_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        offers = [replace(an_offer(QUEUE), temporary=True)]
        info = replace(a_worker("w", cpu=1, offers=offers), follows=True)
        rig.fixture.engine.post(FromWorker("w", Hello(info, fresh=False)))
        async with rig.subscribed() as stream:
            for _ in range(3):  # after so many short jobs, others are prefetched
                short = await rig.submit()
                rig.fixture.engine.post(
                    FromWorker("w", Report(short, Exited(1, Outcome.EXITED, 0, started=1.0, ended=1.001)))
                )
                await stream.kinds(2)
            predecessor, prefetched = await rig.submit(), await rig.submit()
            assert await stream.kinds(1) == [("started", predecessor, b"")]
            board = await rig.fixture.engine.read(lambda batch: batch.board.holding)
            placement = board[prefetched].placement
            assert placement is not None and placement.after == (predecessor, 1)
            rig.logs[predecessor] = b"whole"
            rig.fixture.engine.post(FromWorker("w", Report(predecessor, Exited(1, Outcome.EXITED, 0))))
            rig.fixture.engine.post(FromWorker("w", Report(prefetched, Started(1, 4711))))
            told = [("output", predecessor, b"whole"), ("ended", predecessor, b""), ("started", prefetched, b"")]
            assert await stream.kinds(3) == told

    with_rig(test, monkeypatch)


def test_a_job_that_never_started_has_only_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            await rig.submit(hold=True)
            await rig.fixture.engine.change(lambda batch: at_once.kill(batch, [AllJobs()], None))
            document, _ = await stream.frame()
            assert (document["ended"], document["state"]) == (1, "cancelled")

    with_rig(test, monkeypatch)


def test_a_log_that_cannot_be_read_does_not_keep_the_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        monkeypatch.undo()  # the fixture's own directory: no worker is connected
        async with rig.subscribed() as stream:
            await rig.submit()
            await rig.end(1)
            assert (await stream.frame())[0]["started"] == 1
            assert "out of touch" in (await stream.frame())[0]["unread"]

    with_rig(test, monkeypatch)


def test_silence_is_broken_by_beats_also_while_a_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "BEAT_S", 0.2)

    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            while "beat" not in (await stream.frame())[0]:
                pass
            await rig.submit()
            while "started" not in (await stream.frame())[0]:
                pass
            assert (await stream.frame())[0] == {"beat": True}

    with_rig(test, monkeypatch)


def test_no_log_is_read_while_no_job_runs_and_that_of_a_short_one_hardly_more_than_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            await asyncio.sleep(3 * FOLLOW_AFTER_S)
            assert rig.reads == []
            await rig.submit()
            await rig.end(1)
            await stream.kinds(2)
            count = len(rig.reads)
            assert count <= 2, "at its start and at its end"
            await asyncio.sleep(3 * FOLLOW_AFTER_S)
            assert len(rig.reads) == count

    with_rig(test, monkeypatch)


def test_words_of_other_jobs_make_no_more_looks_at_the_log_of_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            running = await rig.submit()
            await stream.kinds(1)
            began = asyncio.get_running_loop().time()
            for _ in range(20):
                short = await rig.submit()
                await rig.end(short)
                await stream.kinds(2)
            took_s = asyncio.get_running_loop().time() - began
            assert rig.reads.count(running) <= took_s / LONG_POLL_S + 1

    with_rig(test, monkeypatch)


def test_a_reader_that_falls_behind_is_cut_off_and_expected_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_MAX", 3)

    async def test(rig: Rig) -> None:
        async with rig.subscribed() as stream:
            rig.logs[1] = b"x" * 50_000_000
            await rig.submit()
            await until(lambda: bool(rig.reads))
            for _ in range(5):
                await rig.submit(hold=True)
            await rig.fixture.engine.change(lambda batch: at_once.kill(batch, [AllJobs()], None))
            assert await is_closed(stream.reader)
        await rig.end(1)
        await asyncio.sleep(3 * temporary_queues.LOOK_S)
        assert rig.gone == []

    with_rig(test, monkeypatch)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/queues/nowhere/subscribe", 404),
        ("/v1/queues/no%20name/subscribe", 400),
        (SUBSCRIBE + "?from=x", 400),
        (SUBSCRIBE + "?offsets=1:2", 400),
        (SUBSCRIBE + "?offsets=1:1:" + "9" * 30, 400),
        (SUBSCRIBE + "?offsets=" + ",".join(["1:1:1"] * 1100), 400),
        (SUBSCRIBE + "?over=1", 400),
        (SUBSCRIBE + "?over=1-" + "9" * 18, 400),
        (SUBSCRIBE + "?over=" + ",".join(["1-2"] * 1100), 400),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(path: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.fixture.ask("GET", path, local=True)
        assert answer.status == status
        assert answer.words
        assert not any(isinstance(key, str) for key in rig.fixture.engine.subscriptions._by_key)

    with_rig(test, monkeypatch)


def test_a_read_token_keeps_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.fixture.ask("GET", SUBSCRIBE, token=await rig.fixture.token("read"))
        assert answer.status == 403

    with_rig(test, monkeypatch)
