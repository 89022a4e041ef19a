"""A worker's link: greeting, heartbeats, order and loss of frames, lines that stall, and who is let in."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import BOOT
from tests.link.harness import QUICK, Broker, FrameLine, Line, kind_of, play, seen_by, until, world

from grassq.core import protocol
from grassq.core.messages import Check, Report
from grassq.core.model import State
from grassq.core.states import Started
from grassq.core.syntax.addresses import Address
from grassq.errors import Refused
from grassq.web.workers import registry
from grassq.worker import broker_link as links
from grassq.worker.broker_link import BrokerLink, Endpoint


def cut_off(broker: Broker) -> None:
    """End the worker's connection from the broker's side."""
    link = broker.links.get("w")
    assert link is not None
    link.end("cut off")


def test_a_worker_that_dials_is_welcomed_given_jobs_and_heard(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            worker.report(job)
            await until(lambda: seen_by(one, job) is None)

    play(test)


def test_the_ticket_is_on_disk_and_another_one_after_every_welcome(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            first = links.load(str(worker.place))
            assert len(first.ticket) == 32
            assert (worker.place / links.FILE_NAME).stat().st_mode & 0o077 == 0
            line.cut()
            await until(lambda: worker.hellos == 2 and worker.link.online)
            second = links.load(str(worker.place))
            assert second.ticket not in ("", first.ticket)
            assert second.position is not None

    play(test)


def test_orders_come_after_the_welcome_and_checks_name_what_runs(tmp_path: Path) -> None:
    async def test() -> None:
        kinds: list[str] = []

        def note(way: str, data: bytes) -> list[bytes]:
            if way == "down":
                kinds.append(kind_of(data))
            return [data]

        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, note).open(one.stack)
            worker = await one.joined(at=[line.address])
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            worker.link.send(Report(job, Started(1, 4711)))
            await until(lambda: seen_by(one, job) is State.RUNNING)
            kinds.clear()
            cut_off(one.broker)
            await until(lambda: any(isinstance(order, Check) for order in worker.orders))
            assert kinds[0] == "welcome"

    play(test)


def test_pongs_confirm_the_pings_that_were_sent_and_carry_the_moment(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            await until(lambda: len(worker.confirmations) >= 3)
            assert worker.confirmations == sorted(set(worker.confirmations))
            await one.broker.submit()
            await until(lambda: worker.link._memory.position == one.broker.engine.status.history.position)

    play(test)


def test_a_kind_of_frame_only_a_newer_peer_knows_is_skipped(tmp_path: Path) -> None:
    async def test() -> None:
        added: dict[str, int] = {"up": 0, "down": 0}

        def newer(way: str, data: bytes) -> list[bytes]:
            number, body = msgspec.msgpack.decode(data)
            if body["type"] == "welcome":
                body["protocol"] = protocol.PROTOCOL + 1
            shifted = msgspec.msgpack.encode([number + added[way], body])
            if added[way] or body["type"] not in ("ping", "pong"):
                return [shifted]
            added[way] = 1
            news = {"type": "weather", "degrees": 21}
            return [shifted, msgspec.msgpack.encode([number + 1, news, "and more"])]

        async with world(tmp_path) as one:
            line = await FrameLine(one.broker.address, newer).open(one.stack)
            line.headers = {protocol.PROTOCOL_HEADER: str(protocol.PROTOCOL + 1)}
            worker = await one.joined(at=[line.address])
            await until(lambda: added == {"up": 1, "down": 1})
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            worker.report(job)
            await until(lambda: seen_by(one, job) is None)
            assert line.dialled == 1

    play(test)


def test_a_version_two_away_is_refused_in_words_that_name_the_older_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            for brokers, whose in ((protocol.PROTOCOL + 2, "worker"), (protocol.PROTOCOL - 2, "broker")):
                monkeypatch.setattr(registry, "PROTOCOL", brokers)
                worker = one.worker(f"by-{whose}")
                await until(lambda worker=worker: worker.link.describe()["refused"])  # type: ignore[misc]
                assert f"update Grass on the {whose}'s machine" in str(worker.link.describe()["trouble"])

    play(test)


def test_a_version_one_away_is_welcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            for brokers in (protocol.PROTOCOL + 1, protocol.PROTOCOL - 1):
                monkeypatch.setattr(registry, "PROTOCOL", brokers)
                await one.joined(f"w{brokers}")

    play(test)


def test_a_home_whose_list_of_brokers_cannot_be_read_is_told_and_tried_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            trouble = [Refused("brokers.json is readable by others")]

            def way() -> Endpoint:
                if trouble:
                    raise trouble[0]
                return worker.way

            worker = one.worker()
            link = BrokerLink(str(tmp_path), one.broker.engine.status.store_id, way, times=one.times)
            task = asyncio.create_task(link.run(worker))
            await until(lambda: link.describe()["refused"])
            assert "readable by others" in str(link.describe()["trouble"])
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    play(test)


def test_several_addresses_are_tried_until_one_answers(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            nobody = Address("127.0.0.1", 1)
            worker = await one.joined(at=[nobody, Address("localhost", one.broker.address.port)])
            assert worker.link.describe()["address"] == f"localhost:{one.broker.address.port}"

    play(test)


def test_an_impostor_with_another_certificate_never_sees_the_token(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = one.worker()
            worker.way = replace(worker.way, fingerprint=b"\1" * 32)
            await until(lambda: worker.link.describe()["refused"])
            assert "the key is not the one" in str(worker.link.describe()["trouble"])
            assert one.broker.links.all() == []
            # Joined again: the new pin counts without a restart.
            worker.way = one.worker("other").way
            worker.way = replace(worker.way, token="w.secret")
            await until(lambda: worker.link.online)

    play(test)


def test_a_revoked_worker_is_told_so_and_comes_back_when_it_may(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            good = worker.way
            worker.way = replace(good, token="x.revoked")
            cut_off(one.broker)
            await until(lambda: worker.link.describe()["refused"])
            assert "grass join --again" in str(worker.link.describe()["trouble"])
            worker.link._memory = links.load(str(worker.place))
            worker.way = good
            await until(lambda: worker.link.online)

    play(test)


def test_a_refusal_stays_visible_when_another_address_does_not_answer(tmp_path: Path) -> None:
    async def test() -> None:
        dialled: list[int] = []

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dialled.append(1)
            writer.transport.abort()

        async with world(tmp_path) as one, await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            dead = Address("127.0.0.1", server.sockets[0].getsockname()[1])
            worker = one.worker(at=[one.broker.address, dead], token="x.revoked")
            shown: set[str] = set()

            def dialled_again() -> bool:
                shown.add(str(worker.link.describe()["trouble"]))
                return len(dialled) >= 3

            await until(dialled_again)
            (trouble,) = shown - {"no connection has been tried yet"}
            assert trouble.startswith(str(one.broker.address)) and "grass join --again" in trouble

    play(test)


def test_a_broker_with_another_store_is_refused_by_the_worker(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = one.worker(store_id="another")
            await until(lambda: worker.link.describe()["refused"])
            assert "this worker joined the store" in str(worker.link.describe()["trouble"])

    play(test)


def test_a_change_between_hello_and_welcome_is_said_after_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            held: list[bytes] = []

            def hold_welcome(way: str, data: bytes) -> list[bytes]:
                if kind_of(data) == "welcome" and not held:
                    held.append(data)
                    worker.info = replace(worker.info, labels=("new",))
                    worker.hello(fresh=False)
                return [data]

            line = await FrameLine(one.broker.address, hold_welcome).open(one.stack)
            worker = one.worker(at=[line.address])
            await until(lambda: one.broker.online("w"))
            await until(lambda: one.broker.engine.decider.board.workers["w"].info.labels == ("new",))

    play(test)


def test_a_worker_is_called_what_its_token_says(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = one.worker("mallory", token="w.secret")
            await until(lambda: worker.link.online)
            assert one.broker.online("w")
            assert "mallory" not in one.broker.engine.decider.board.workers

    play(test)


def test_a_worker_out_of_touch_is_offline_and_back_without_a_second_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, QUICK) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            job = await one.broker.submit()
            await until(lambda: worker.started() == [job])
            worker.link.send(Report(job, Started(1, 4711)))
            await until(lambda: seen_by(one, job) is State.RUNNING)
            for _ in range(3):
                hellos = worker.hellos
                line.cut()
                await until(lambda hellos=hellos: worker.hellos > hellos and worker.link.online)  # type: ignore[misc]
            worker.report(job)
            await until(lambda: seen_by(one, job) is None)
            assert set(worker.started()) == {job}

    play(test)


def test_a_link_that_is_too_far_ahead_of_the_engine_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            one.broker.engine.post = lambda message: False  # type: ignore[method-assign]
            worker.report(1)
            await until(lambda: not worker.link.online)
            del one.broker.engine.post
            await until(lambda: worker.link.online)

    play(test)


def test_silence_is_told_once_and_not_of_a_link_that_was_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            await one.joined()
            link = one.broker.links.get("w")
            assert link is not None
            one.broker.engine.connect("w", lambda order: None)
            link.end("a test")
            await until(link.over.is_set)
            await one.broker.engine.read(lambda batch: None)
            assert one.broker.online("w")

    play(test)


def test_workers_find_a_broker_that_was_started_anew(tmp_path: Path) -> None:
    async def test() -> None:
        store = str(tmp_path / "store.db")
        async with world(tmp_path, QUICK) as one:
            async with AsyncExitStack() as life:
                one.broker = Broker(tmp_path, QUICK, store)
                await one.broker.start(life)
                worker = await one.joined()
                job = await one.broker.submit()
                await until(lambda: worker.started() == [job])
                worker.link.send(Report(job, Started(1, 4711)))
                await until(lambda: seen_by(one, job) is State.RUNNING)
                port = one.broker.address.port
            await until(lambda: not worker.link.online)
            one.broker = Broker(tmp_path, QUICK, store)
            await one.broker.start(one.stack, port=port)
            await until(lambda: worker.link.online and one.broker.online("w"))
            assert [order for order in worker.orders if isinstance(order, Check)] == [Check(job, 1, BOOT)]
            worker.report(job)
            await until(lambda: seen_by(one, job) is None)
            assert worker.started() == [job]

    play(test)


def test_a_broker_at_an_ipv6_address_is_reached(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            one.broker = Broker(tmp_path, one.times)
            await one.broker.start(one.stack, host="::1")
            worker = await one.joined()
            assert worker.link.describe()["address"] == f"[::1]:{one.broker.address.port}"

    play(test)
