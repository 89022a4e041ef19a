"""Temporary queues go when nobody attends them and their last job has ended; what is streamed to who attends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer
from tests.web.house import House, answer_from, is_closed, key, play, until

from grassq.broker import audience, service
from grassq.broker.decide import FromWorker
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.selectors import All
from grassq.core.states import Exited, Started
from grassq.web import doors, feed
from grassq.web.logs import LOOK_S, Source

QUEUE = "sgs-1"
ATTEND = f"/v1/queues/{QUEUE}/attend"
SOON_S = 0.3


class Rig:
    """A house with a temporary queue, whose logs are in memory and whose deletions are noted."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house = house
        self.gone: list[str] = []
        self.logs: dict[int, bytes] = {}
        self.reads: list[int] = []
        monkeypatch.setattr(house.fleet, "withdraw", self._withdraw)
        monkeypatch.setattr(house.fleet, "source", lambda *_: Source(self))
        offers = [an_offer(), replace(an_offer(QUEUE), temporary=True)]
        house.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=offers), fresh=False)))

    async def _withdraw(self, queue: str) -> None:
        self.gone.append(queue)
        self.house.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4), fresh=False)))

    async def read(self, job: int, attempt: int, stream: str, offset: int) -> bytes:
        self.reads.append(job)
        return self.logs.get(job, b"")[offset : offset + (1 << 20)]

    async def size(self, job: int, attempt: int, stream: str) -> int:
        return len(self.logs.get(job, b""))

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        return 0

    async def submit(self, **more: Any) -> int:
        job = {"command": ["true"], "queue": QUEUE, **more}
        body = {"jobs": [job], "key": key(), "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18}
        answer = await self.house.ask("POST", "/v1/submit", body, local=True)
        return int(answer.json["ids"][0])

    async def end(self, job: int, attempt: int = 1) -> None:
        self.house.engine.post(FromWorker("w", Report(job, Exited(attempt, Outcome.EXITED, 0))))
        await self.house.engine.read(lambda batch: None)

    @contextlib.asynccontextmanager
    async def attending(self, more: str = "") -> AsyncIterator[Stream]:
        stream = await self.attend(more)
        try:
            yield stream
        finally:
            stream.writer.close()

    async def attend(self, more: str = "") -> Stream:
        path = str(self.house.home / "grass.sock")
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"GET {ATTEND}{more} HTTP/1.1\r\nHost: grass\r\n\r\n".encode())
        assert (await answer_from(reader)).status == 200
        return Stream(reader, writer)


class Stream:
    """The frames of an answer in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._buffer = b""

    async def frame(self) -> tuple[dict[str, Any], bytes]:
        async with asyncio.timeout(30):
            while b"\n" not in self._buffer:
                await self._more()
            line, _, self._buffer = self._buffer.partition(b"\n")
            document = json.loads(line)
            size = document.get("size", 0)
            while len(self._buffer) < size:
                await self._more()
            data, self._buffer = self._buffer[:size], self._buffer[size:]
            return document, data

    async def kinds(self, count: int) -> list[tuple[str, int, bytes]]:
        """What the next frames are: their kind, their job and their bytes."""
        found = []
        for _ in range(count):
            document, data = await self.frame()
            kind = next(iter(document))
            found.append((kind, document[kind], data))
        return found

    async def _more(self) -> None:
        size = int((await self.reader.readline()).strip(), 16)
        self._buffer += await self.reader.readexactly(size)
        await self.reader.readline()


def with_rig(test: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of_it(house: House) -> None:
        await test(Rig(house, monkeypatch))

    play(all_of_it)


def test_an_attended_queue_without_jobs_stays_and_goes_with_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "BACK_S", SOON_S)

    async def test(rig: Rig) -> None:
        async with rig.attending():
            await asyncio.sleep(3 * SOON_S)  # what it must outlast: the time for doors to come back
            assert rig.gone == []
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_a_vanished_door_leaves_its_queue_until_the_last_job_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            first, second, held = await rig.submit(), await rig.submit(), await rig.submit(hold=True)
            await stream.kinds(2)
            stream.writer.transport.abort()
        # Sooner than the next beat would find out.
        await until(lambda: not rig.house.engine.audience.queues, feed.BEAT_S / 3)
        await rig.end(first)
        await rig.end(second)
        await asyncio.sleep(3 * doors.LOOK_S)  # in which it is looked for queues that may go
        assert rig.gone == [], "a held job is unfinished"
        await rig.house.engine.change(lambda batch: service.kill(batch, [All()], None))
        await until(lambda: rig.gone == [QUEUE])
        assert rig.house.fleet.asked == "w"
        assert held

    with_rig(test, monkeypatch)


def test_after_a_start_a_queue_whose_door_stays_away_goes_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "BACK_S", SOON_S)

    async def test(rig: Rig) -> None:
        job = await rig.submit()
        await asyncio.sleep(2 * SOON_S)  # the time for doors to come back
        assert rig.gone == []
        await rig.end(job)
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_a_queue_that_was_just_made_is_given_time_for_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        body = {"words": ["sgs-2", "--cpu=1"], "cwd": "/", "key": key(), "temporary": True}
        answer = await rig.house.ask("POST", "/v1/create-queue", body, local=True)
        assert answer.status == 200
        made = rig.house.fleet.made[0][1]
        assert made.temporary
        rig.house.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, offers=[made]), fresh=False)))
        await asyncio.sleep(3 * doors.LOOK_S)
        assert rig.gone == []

    with_rig(test, monkeypatch)


def test_a_door_whose_network_connection_broke_is_expected_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "BACK_S", 3 * SOON_S)

    async def test(rig: Rig) -> None:
        token = await rig.house.token("submit")
        reader, writer = await rig.house.connect()
        writer.write(f"GET {ATTEND} HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert (await answer_from(reader)).status == 200
        writer.transport.abort()
        await until(lambda: not rig.house.engine.audience.queues)
        await asyncio.sleep(SOON_S)  # less than it is expected for
        assert rig.gone == []
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


def test_frames_come_in_order_with_all_output_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
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


def test_who_attends_again_is_told_from_the_offsets_on_and_a_log_that_shrank_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        rig.logs = {1: b"abcdef", 2: b"new", 3: b"other"}
        for _ in range(3):
            await rig.submit()
        await rig.end(1)
        async with rig.attending("?from=1&offsets=1:1:4,2:1:100,3:9:2") as stream:
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
        rig.house.engine.post(FromWorker("w", Hello(info, fresh=False)))
        async with rig.attending() as stream:
            for _ in range(3):  # so many brief ones make others follow
                brief = await rig.submit()
                rig.house.engine.post(
                    FromWorker("w", Report(brief, Exited(1, Outcome.EXITED, 0, started=1.0, ended=1.001)))
                )
                await stream.kinds(2)
            leader, follower = await rig.submit(), await rig.submit()
            assert await stream.kinds(1) == [("started", leader, b"")]
            board = await rig.house.engine.read(lambda batch: batch.board.holding)
            placement = board[follower].placement
            assert placement is not None and placement.after == (leader, 1)
            rig.logs[leader] = b"whole"
            rig.house.engine.post(FromWorker("w", Report(leader, Exited(1, Outcome.EXITED, 0))))
            rig.house.engine.post(FromWorker("w", Report(follower, Started(1, 4711))))
            told = [("output", leader, b"whole"), ("ended", leader, b""), ("started", follower, b"")]
            assert await stream.kinds(3) == told

    with_rig(test, monkeypatch)


def test_a_job_that_never_started_has_only_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            await rig.submit(hold=True)
            await rig.house.engine.change(lambda batch: service.kill(batch, [All()], None))
            document, _ = await stream.frame()
            assert (document["ended"], document["state"]) == (1, "cancelled")

    with_rig(test, monkeypatch)


def test_a_log_that_cannot_be_read_does_not_keep_the_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        monkeypatch.undo()  # the house's own fleet: no worker is in touch
        async with rig.attending() as stream:
            await rig.submit()
            await rig.end(1)
            assert (await stream.frame())[0]["started"] == 1
            assert "out of touch" in (await stream.frame())[0]["unread"]

    with_rig(test, monkeypatch)


def test_silence_is_broken_by_beats_also_while_a_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "BEAT_S", 0.2)

    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            while "beat" not in (await stream.frame())[0]:
                pass
            await rig.submit()
            while "started" not in (await stream.frame())[0]:
                pass
            assert (await stream.frame())[0] == {"beat": True}

    with_rig(test, monkeypatch)


def test_no_log_is_read_while_no_job_runs_and_that_of_a_brief_one_hardly_more_than_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            await asyncio.sleep(3 * LOOK_S)
            assert rig.reads == []
            await rig.submit()
            await rig.end(1)
            await stream.kinds(2)
            count = len(rig.reads)
            assert count <= 2, "at its start and at its end"
            await asyncio.sleep(3 * LOOK_S)
            assert len(rig.reads) == count

    with_rig(test, monkeypatch)


def test_words_of_other_jobs_make_no_more_looks_at_the_log_of_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            running = await rig.submit()
            await stream.kinds(1)
            began = asyncio.get_running_loop().time()
            for _ in range(20):
                brief = await rig.submit()
                await rig.end(brief)
                await stream.kinds(2)
            took_s = asyncio.get_running_loop().time() - began
            assert rig.reads.count(running) <= took_s / LOOK_S + 2

    with_rig(test, monkeypatch)


def test_a_reader_that_falls_behind_is_cut_off_and_expected_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "NEWS_MAX", 3)

    async def test(rig: Rig) -> None:
        async with rig.attending() as stream:
            rig.logs[1] = b"x" * 50_000_000
            await rig.submit()
            await until(lambda: bool(rig.reads))
            for _ in range(5):
                await rig.submit(hold=True)
            await rig.house.engine.change(lambda batch: service.kill(batch, [All()], None))
            assert await is_closed(stream.reader)
        await rig.end(1)
        await asyncio.sleep(3 * doors.LOOK_S)
        assert rig.gone == []

    with_rig(test, monkeypatch)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/queues/nowhere/attend", 404),
        ("/v1/queues/no%20name/attend", 400),
        (ATTEND + "?from=x", 400),
        (ATTEND + "?offsets=1:2", 400),
        (ATTEND + "?offsets=1:1:" + "9" * 30, 400),
        (ATTEND + "?offsets=" + ",".join(["1:1:1"] * 1100), 400),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(path: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.house.ask("GET", path, local=True)
        assert answer.status == status
        assert answer.words
        assert not rig.house.engine.audience.queues

    with_rig(test, monkeypatch)


def test_a_read_token_keeps_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.house.ask("GET", ATTEND, token=await rig.house.token("read"))
        assert answer.status == 403

    with_rig(test, monkeypatch)
