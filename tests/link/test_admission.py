"""Who is the worker it says it is: copies of a home are found out, and nobody is locked out for a lost answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.link.harness import PATIENT, QUICK, Broker, FrameLine, Line, Worker, World, kind_of, play, until, world

from grassq.core import protocol
from grassq.store.base import WorkerRecord
from grassq.worker import broker_link as links


def copy_of(one: World, worker: Worker, folder: str) -> Worker:
    """A second worker with a copy of the first one's home."""
    place = one.folder / folder
    place.mkdir()
    shutil.copytree(worker.place, place / worker.place.name)
    name = worker.info.name
    double = Worker(place, name, worker.way.addresses, one.times, one.broker.engine.status.store_id)
    double.dial(one.stack)
    return double


def worker_record(one: World, worker: str = "w") -> WorkerRecord:
    """What the broker keeps of a worker."""
    return one.broker.engine.decider._worker_records.get(worker, WorkerRecord())


def test_a_copy_is_refused_while_the_worker_answers_and_an_alarm_is_raised(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            double = copy_of(one, worker, "elsewhere")
            await until(lambda: double.link.describe()["refused"])
            assert "its home was copied and runs twice" in str(double.link.describe()["trouble"])
            assert one.broker.alarms
            assert worker.link.online and worker.hellos == 1

    play(test)


def test_a_copy_that_comes_later_is_refused_by_its_old_ticket(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: worker_record(one).next_ticket == "")
            shutil.copytree(worker.place, tmp_path / "copy")
            line.cut()
            await until(lambda: worker.hellos == 2 and worker.link.online)
            await worker.stop()
            await until(lambda: not one.broker.online("w"))
            shutil.copytree(tmp_path / "copy", worker.place, dirs_exist_ok=True)
            double = one.worker()
            await until(lambda: double.link.describe()["refused"])
            assert "shows an old ticket" in str(double.link.describe()["trouble"])
            assert one.broker.alarms

    play(test)


def test_when_the_copy_was_quicker_the_first_is_refused_and_never_both_are_let_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            await until(lambda: worker_record(one).next_ticket == "")
            await worker.stop()
            await until(lambda: not one.broker.online("w"))
            double = copy_of(one, worker, "elsewhere")
            await until(lambda: double.link.online)
            await double.stop()
            await until(lambda: not one.broker.online("w"))
            first = one.worker()
            await until(lambda: first.link.describe()["refused"])
            assert "shows an old ticket" in str(first.link.describe()["trouble"])

    play(test)


def test_a_lost_welcome_or_a_lost_kept_locks_nobody_out(tmp_path: Path) -> None:
    async def test() -> None:
        lost = ["welcome", "kept", "welcome", "kept"]

        def lose(way: str, data: bytes) -> list[bytes]:
            if lost and kind_of(data) == lost[0]:
                lost.pop(0)
                # As if the line had been cut: what follows has a gap, and the connection ends.
                return []
            return [data]

        async with world(tmp_path, QUICK) as one:
            line = await FrameLine(one.broker.address, lose).open(one.stack)
            worker = one.worker(at=[line.address])
            await until(lambda: not lost and worker.link.online and worker_record(one).next_ticket == "")
            assert worker_record(one).ticket == links.load(str(worker.place)).ticket
            assert not one.broker.alarms

    play(test)


def test_a_connection_that_does_not_answer_makes_way_for_the_next(tmp_path: Path) -> None:
    async def test() -> None:
        # The broker is patient here, so that it is the newcomer that finds the dead connection.
        async with world(tmp_path, PATIENT) as one:
            one.broker.links._times = PATIENT
            line = await Line(one.broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: worker_record(one).next_ticket == "")
            line.flows.clear()
            old = one.broker.links.get("w")
            assert old is not None
            old._times = QUICK
            await worker.stop()
            # Its end reaches nobody: the line is frozen.
            again = one.worker()
            await until(lambda: again.link.online)
            assert one.broker.links.get("w") is not old
            assert one.broker.online("w")
            assert not one.broker.alarms

    play(test)


def test_who_joins_again_begins_without_a_ticket(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            await worker.stop()
            await until(lambda: not one.broker.online("w"))
            again = one.worker(token="w-2.secret")
            await until(lambda: again.link.online)
            assert one.broker.online("w-2")
            assert links.load(str(again.place)).token == "w-2"

    play(test)


@pytest.mark.parametrize(
    "claim",
    ["x 99999999", "\xff 99999999 5 \xff", "x 99999999 5 00ff", "{life} 99999999 9 {proof}", "{life} 1 9 {proof}"],
)
def test_no_claim_to_know_later_commits_stands_for_a_ticket(tmp_path: Path, claim: str) -> None:
    async def test() -> None:
        store = tmp_path / "store.db"
        async with world(tmp_path) as one:
            one.broker = Broker(tmp_path / "first", PATIENT, str(store))
            await one.broker.start(one.stack)
            worker = await one.joined()
            await until(lambda: worker_record(one).next_ticket == "")
            await worker.stop()
            stolen = links.load(str(worker.place))
            await (await one.joined()).stop()
            # The broker starts again, and the copy of the home is the first that comes.
            again = Broker(tmp_path / "again", PATIENT, str(store))
            await again.start(one.stack)
            one.broker = again
            assert stolen.position is not None
            line = await FrameLine(again.address, lambda way, data: [data]).open(one.stack)
            seen = claim.format(life=stolen.position.incarnation, proof=stolen.position.proof)
            line.headers = {protocol.TICKET_HEADER: stolen.ticket, protocol.SEEN_HEADER: seen}
            thief = Worker(tmp_path / "first", "w", [line.address], PATIENT, again.engine.status.store_id)
            thief.dial(one.stack)
            await until(lambda: thief.link.describe()["refused"])
            assert again.alarms and not again.online("w")
            await thief.stop()
            await one.joined()

    play(test)


def test_a_broker_restored_from_a_backup_lets_its_workers_in_once_whatever_their_tickets(tmp_path: Path) -> None:
    async def test() -> None:
        store = tmp_path / "store.db"
        async with world(tmp_path) as one:
            broker = Broker(tmp_path / "real", PATIENT, str(store))
            await broker.start(one.stack)
            one.broker = broker
            line = await Line(broker.address).open(one.stack)
            worker = await one.joined(at=[line.address])
            await until(lambda: worker_record(one).next_ticket == "")
            backup = tmp_path / "backup"
            backup.mkdir()
            for ending in ("", "-wal"):
                shutil.copy(f"{store}{ending}", backup)
            for _ in range(2):
                before = worker.hellos
                line.cut()
                await until(lambda before=before: worker.hellos > before and worker.link.online)  # type: ignore[misc]
            moment = broker.engine.status.history.position
            await until(lambda: worker.link._memory.position == moment)
            await worker.stop()
            old = links.load(str(worker.place))
            restored = Broker(tmp_path / "restored", PATIENT, str(backup / "store.db"))
            await restored.start(one.stack)
            one.broker = restored
            again = one.worker()
            await until(lambda: again.link.online)
            assert restored.alarms == []
            # The excuse counts once: a copy with the same old ticket is a copy.
            await until(lambda: worker_record(one).next_ticket == "")
            await again.stop()
            await until(lambda: not restored.online("w"))
            links.save(str(again.place), old, sync=False)
            double = one.worker()
            await until(lambda: double.link.describe()["refused"])

    play(test)
