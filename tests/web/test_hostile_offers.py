"""A worker in the wrong hands offers queues and resources: other people's lines are read as before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_worker, an_offer
from tests.web.broker_fixture import Answer, BrokerFixture, key, play

from grassq.broker import service
from grassq.broker.inbox import FromWorker
from grassq.core.messages import Hello
from grassq.core.model import Offer, QueueTemplate, WorkerInfo
from grassq.core.resources.slots import limits_of, parse_slots

TRAIN = Offer("train", an_offer("train", gpu=1).limits, (b"python", b"train.py"))
SLOTS = parse_slots(["0", "1"])
GOOD = a_worker(
    "good", offers=[an_offer(), TRAIN, Offer("slots", limits_of(SLOTS), slots=SLOTS), an_offer("open")], cpu=4, gpu=2
)
GREEDY = an_offer("x", lr=9, epochs=99, size=9).limits
#: What the worker says of itself, which is everything that a worker may say.
EVIL = {
    "limits in a queue with a command": a_worker("evil", offers=[Offer("train", GREEDY, (b"evil",))]),
    "limits in a queue without one": a_worker("evil", offers=[Offer("train", GREEDY), Offer("default", GREEDY)]),
    "resources of its machine": a_worker("evil", offers=[an_offer(), TRAIN], lr=9, epochs=99, size=9),
    "no resources at all": a_worker("evil", offers=[an_offer(), Offer("train")]),
    "commands in every queue": a_worker("evil", offers=[Offer(q, {}, (b"evil",)) for q in ("default", "open")]),
    "a queue with slots": a_worker("evil", offers=[Offer(q, {}, slots=SLOTS) for q in ("default", "train", "open")]),
    "a queue without slots": a_worker("evil", offers=[Offer("slots")], cpu=1),
}
#: A line, and the words and the request of the job that it makes.
LINES = {
    "train --lr=0.5 --epochs=3": (["--lr=0.5", "--epochs=3"], {"cpu": 1}),
    "train --gpu=1 --lr=0.5": (["--lr=0.5"], {"gpu": 1}),
    "train size=10 -v": (["size=10", "-v"], {"cpu": 1}),
    "default A=1 true": (["true"], {"cpu": 1}),
    "open -- echo {lr} {size}": (["echo", "{lr}", "{size}"], {"cpu": 1}),
    "slots -- echo {gpu}": (["echo", "{gpu}"], {"cpu": 1}),
    "--gpu=1 -- true": (["true"], {"gpu": 1}),
}


async def enqueue(fixture: BrokerFixture, line: str, **more: Any) -> Answer:
    """Type a line on the broker's own machine."""
    body = {"words": ["--hold", *line.split()], "env": [["PATH", "/usr/bin:/bin"]], "key": key(), **more}
    return await fixture.ask("POST", "/v1/enqueue", body, local=True)


async def jobs(fixture: BrokerFixture) -> list[Any]:
    return list((await fixture.ask("GET", "/v1/show?selector=all", local=True)).json["jobs"])


async def say(fixture: BrokerFixture, *infos: WorkerInfo) -> None:
    for info in infos:
        fixture.engine.post(FromWorker(info.name, Hello(info)))
        await fixture.engine.read(lambda batch: None)


@pytest.mark.parametrize("what", EVIL)
def test_a_line_is_read_as_if_a_hostile_worker_were_not_there(what: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await say(fixture, GOOD, EVIL[what])
        for line in LINES:
            answer = await enqueue(fixture, line)
            assert answer.headers["grass-exit"] == "0", (line, answer.body)
        found = [(job["command"], job["request"]) for job in await jobs(fixture)]
        assert found == list(LINES.values())

    play(test)


@pytest.mark.parametrize("what", EVIL)
def test_lines_for_a_shell_are_taken_as_if_a_hostile_worker_were_not_there(what: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await say(fixture, GOOD, EVIL[what])
        for queue, lines in (("default", "true && echo {lr}\n"), ("train", "cifar10 --lr 1\n"), ("open", "a | b\n")):
            answer = await enqueue(fixture, f"--stdin {queue}", lines=lines)
            assert answer.headers["grass-exit"] == "0", (queue, answer.body)
        found = [(job["command"], job["shell"]) for job in await jobs(fixture)]
        assert found == [(["true && echo {lr}"], True), (["cifar10", "--lr", "1"], False), (["a | b"], True)]

    play(test)


@pytest.mark.parametrize("what", EVIL)
def test_a_misspelt_queue_is_still_refused(what: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await say(fixture, GOOD, EVIL[what])
        body = {"words": ["traim", "--lr=0.5", "x"], "key": key()}
        assert (await fixture.ask("POST", "/v1/enqueue", body, local=True)).headers["grass-exit"] == "3"

    play(test)


def test_the_queue_default_belongs_to_nobody_that_came_first() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await say(fixture, a_worker("w", offers=[Offer("default", GREEDY, (b"evil",))]), GOOD)
        assert (await enqueue(fixture, "default A=1 true")).headers["grass-exit"] == "0"
        [job] = await jobs(fixture)
        assert job["command"] == ["true"]

    play(test)


def test_a_queue_made_at_the_broker_is_read_as_it_was_made_there() -> None:
    async def test(fixture: BrokerFixture) -> None:
        made = replace(TRAIN, limits=an_offer("train", printer=1).limits)
        await say(fixture, EVIL["limits in a queue with a command"])
        await fixture.engine.change(lambda batch: service.put_template(batch, QueueTemplate(made)))
        await say(fixture, EVIL["limits in a queue without one"])
        assert (await enqueue(fixture, "train --printer=1 --lr=0.5")).headers["grass-exit"] == "0"
        [job] = await jobs(fixture)
        assert (job["command"], job["request"]) == (["--lr=0.5"], {"printer": 1})

    play(test)


def test_an_amount_that_another_machine_declared_is_said() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await say(fixture, a_worker("good", offers=[Offer("print", an_offer("print", printer=1).limits, (b"lpr",))]))
        answer = await enqueue(fixture, "print --printer=1 paper.pdf")
        assert b"--printer=1 asks for the resource printer of worker good" in answer.body
        assert b"--printer=1 asks" not in (await enqueue(fixture, "print --printer=1 -- paper.pdf")).body

    play(test)
