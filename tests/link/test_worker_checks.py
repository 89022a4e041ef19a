"""Whatever a worker says is checked when it comes in: the connection ends with words, and others notice nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer
from tests.link.harness import Worker, World, play, until, world

from grassq.broker import views
from grassq.core.messages import Hello, Report, StorePosition
from grassq.core.model import CLOCK_MAX, ID_MAX, Offer, Outcome, WorkerInfo
from grassq.core.printable import TEXT_CHARS_MAX
from grassq.core.protocol import Answer
from grassq.core.resources.capacity import Device, DeviceCount, DeviceIds, Devices, Pool
from grassq.core.resources.slots import Slot
from grassq.core.states import Exited, Lost
from grassq.core.worker_checks import COMPARISONS_MAX, LABELS_MAX

PLAIN = a_worker("evil", cpu=4)


def offering(*offers: Offer) -> WorkerInfo:
    """A worker with these queues."""
    return replace(PLAIN, offers=offers)


REFUSED = {
    "a queue offered twice": (offering(an_offer("p", gpu=1), Offer("p")), "offers queue p twice"),
    "a queue called all": (offering(Offer("all")), "it selects every job"),
    "a queue called like a state": (offering(Offer("running")), "a job state"),
    "a queue called like a path": (offering(Offer("../../etc")), "cannot be a queue name"),
    "a long queue name": (offering(Offer("q" * 100_000)), "cannot be a queue name"),
    "a queue name with an escape": (offering(Offer("q\x1b[8m")), "cannot be a queue name"),
    "many labels": (replace(PLAIN, labels=("a",) * (LABELS_MAX + 1)), "labels; at most"),
    "a label with a newline": (replace(PLAIN, labels=("a\nb",)), "cannot be a label"),
    "a long boot id": (replace(PLAIN, boot="b" * 10_000), "cannot be a boot id"),
    "an amount below zero": (replace(PLAIN, given={"cpu": Pool(-1)}), "cpu: the amount -1"),
    "an amount beyond all": (replace(PLAIN, given={"cpu": Pool(2**62)}), "cpu: the amount"),
    "a worth below zero": (offering(Offer("p", {"gpu": Devices((Device("0", -5),))})), "gpu: the amount -5"),
    "memory below zero": (replace(PLAIN, given={"gpu": Devices((Device("0", 1, -5),))}), "vram: the amount -5"),
    "a device twice": (replace(PLAIN, given={"gpu": Devices((Device("0"), Device("0")))}), "named twice"),
    "a device id twice": (offering(Offer("p", {"gpu": DeviceIds(("0", "0"))})), "named twice"),
    "a device id with an escape": (offering(Offer("p", {"gpu": DeviceIds(("\x1b",))})), "not a device id"),
    "an option as a resource": (replace(PLAIN, given={"priority": Pool(1)}), "is reserved"),
    "a resource in capitals": (replace(PLAIN, given={"GPU": Pool(1)}), "cannot be a resource"),
    "many resources": (replace(PLAIN, given={f"r{i}": Pool(1) for i in range(65)}), "65 resources"),
    "a slot with an escape": (offering(Offer("p", slots=(Slot("\x1b", ("0",)),))), "name of a slot"),
    "too many devices to compare": (
        offering(*(Offer(f"q{i}", {"gpu": DeviceCount(4096)}) for i in range(COMPARISONS_MAX // 4096 + 1))),
        "too many",
    ),
    "long wrappers in every queue": (
        offering(*(Offer(f"q{i}", wrap=b"nice " + b"'x' " * 4000) for i in range(20))),
        "wrappers of the worker's queues",
    ),
    "too large a description": (offering(Offer("p", prefix=(b"x" * (3 << 20),))), "bytes; at most"),
}


async def refused(one: World, info: WorkerInfo) -> Worker:
    """A worker that describes itself like this, once it was told why it is refused."""
    worker = one.worker("evil")
    worker.info = info
    await until(lambda: "refused: " in str(worker.link.describe()["trouble"]))
    return worker


@pytest.mark.parametrize("what", REFUSED)
def test_a_hello_that_no_worker_of_ours_sends_is_refused_with_words(tmp_path: Path, what: str) -> None:
    info, words = REFUSED[what]

    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await refused(one, info)
            assert words in str(worker.link.describe()["trouble"])
            assert "evil" not in one.broker.engine.decider.board.workers
            assert (await one.broker.engine.read(views.glance))["workers"] == []

    play(test)


def test_a_worker_that_changes_into_one_that_is_refused_keeps_what_it_had(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            worker.info = replace(worker.info, offers=(Offer("p"), Offer("p")))
            worker.hello(fresh=False)
            await until(lambda: not one.broker.online("w"))
            shown: Any = await one.broker.engine.read(views.glance)
            assert [queue["name"] for queue in shown["queues"]] == ["default"]

    play(test)


def test_a_queue_that_is_older_than_a_command_of_that_name_is_no_reason_to_refuse_its_worker(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = one.worker("w")
            worker.info = replace(worker.info, offers=(Offer("default"), Offer("show")))
            await until(lambda: one.broker.online("w"))

    play(test)


def test_a_position_no_store_can_have_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            for seen in (StorePosition("x\n", 1), StorePosition("x", -1), StorePosition("x", 1, ID_MAX + 1)):
                worker = await one.joined(f"w{abs(hash(seen))}")
                worker.link.send(Hello(worker.info, seen=seen))
                await until(lambda name=worker.info.name: not one.broker.online(name))  # type: ignore[misc]

    play(test)


def test_words_about_a_job_are_shown_without_control_characters_and_cut(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            first, second = await one.broker.submit(), await one.broker.submit()
            await until(lambda: worker.started() == [first, second])
            worker.link.send(Report(first, Exited(1, Outcome.EXITED, 1, error="no\nsuch \x1b[8m\u202ething")))
            worker.link.send(Report(second, Lost(1, Outcome.LOST, "\x1b" * 60_000)))
            await until(lambda: not one.broker.engine.decider.board.jobs)
            shown: Any = await one.broker.engine.read(views.glance)
            one_error, other_error = (job["error"] for job in shown["jobs"])
            assert one_error == r"no\nsuch \x1b[8m\u202ething"
            assert other_error.isprintable() and len(other_error) <= TEXT_CHARS_MAX
            assert worker.hellos == 1

    play(test)


def test_an_end_in_a_far_year_is_shown_as_now(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            worker = await one.joined()
            jobs = [await one.broker.submit() for _ in range(2)]
            await until(lambda: worker.started() == jobs)
            worker.link.send(Report(jobs[0], Exited(1, Outcome.EXITED, 0, started=CLOCK_MAX - 7, ended=CLOCK_MAX)))
            await until(lambda: len(one.broker.engine.decider.board.jobs) == 1)
            # No date can be written for this one, so the report cannot even be read.
            worker.link.send(Report(jobs[1], Exited(1, Outcome.EXITED, 0, ended=9e11)))
            await until(lambda: worker.hellos == 2)
            shown: Any = await one.broker.engine.read(views.glance)
            ended, _ = shown["jobs"]
            assert ended["started"] < ended["finished"] < "3000"

    play(test)


def test_an_answer_that_no_worker_of_ours_gives_ends_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as one:
            for at, answer in enumerate(
                (Answer(1, amount=-1), Answer(1, b"x" * (1 << 20)), Answer(1, words=("a",) * 101))
            ):
                worker = await one.joined(f"w{at}")
                session = worker.link._session
                assert session is not None
                session._frames.send(answer)
                await until(lambda at=at: not one.broker.online(f"w{at}"))  # type: ignore[misc]

    play(test)
