"""What a worker claims of ids and attempts, at a real broker: it moves no id and holds nobody's job."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.broker.decider_fixture import a_draft
from tests.link.harness import FrameLine, play, until, world

from grassq.broker import service
from grassq.core.messages import Hello, Report, StorePosition
from grassq.core.model import ID_MAX, Outcome, State
from grassq.core.protocol import NO_PING
from grassq.core.states import Exited, Started


def test_a_worker_that_says_hello_again_and_again_moves_no_id_and_holds_no_job(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined("evil")
            await one.joined("other")
            await one.broker.submit("other", cpu=4)
            draft = a_draft(cpu=1, hold=True)
            [first] = await one.broker.engine.change(lambda batch: service.submit(batch, [draft], "held", b"d"))
            waits = await one.broker.submit("other", cpu=4)
            real = one.broker.engine.status.history.position
            for round_ in range(20):
                for seen in (replace(real, highest_id=ID_MAX), StorePosition("another life", 10**9, ID_MAX)):
                    worker.link.send(Hello(worker.info, True, ((waits, 3 + round_), (ID_MAX, 1)), seen))
                worker.link.send(Report(waits, Exited(1, Outcome.EXITED, 0)))
                worker.link.send(Report(first, Exited(1, Outcome.EXITED, 0)))
                assert await one.broker.submit("other", cpu=4) == waits + 1 + round_
            board = one.broker.engine.decider.board
            assert (board.jobs[first].state, board.jobs[first].attempt) == (State.HELD, 0)
            assert (board.jobs[waits].state, board.jobs[waits].attempt) == (State.QUEUED, 0)
            assert not board.unreconciled

    play(test)


def test_a_start_comes_with_the_position_that_proves_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            told = worker.link._memory.position
            assert told == one.broker.engine.status.history.position

    play(test)


def test_a_position_that_a_heartbeat_has_overtaken_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    waits: list[dict[str, Any]] = []
    newest: list[int] = []
    numbers = itertools.count(1)

    def overtaken(way: str, data: bytes) -> list[bytes]:
        """Let the position before the first start wait until a heartbeat has told a later one, the last of all."""
        if way == "up":
            return [data]
        _, body = msgspec.msgpack.decode(data)
        bodies = [body]
        if body["type"] == "pong":
            if newest:
                bodies = []
            elif body["at"] == NO_PING and not waits:
                waits.append(body)
                bodies = []
            elif waits and body["moment"]["commit"] > waits[0]["moment"]["commit"]:
                newest.append(body["moment"]["commit"])
                bodies = [body, waits[0]]
        return [msgspec.msgpack.encode([next(numbers), each]) for each in bodies]

    async def test() -> None:
        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, overtaken).open(one.stack)
            worker = await one.joined(at=[line.address])
            first = await one.broker.submit(cpu=1)
            await until(lambda: worker.started() == [first])
            worker.link.send(Report(first, Started(1, 4711)))
            await until(lambda: newest)
            second = await one.broker.submit(cpu=1)
            await until(lambda: worker.started() == [first, second])
            told = worker.link._memory.position
            assert told is not None and told.commit == newest[0]

    play(test)
