"""A worker that says anything its messages have types for, at random, while others work: nobody else notices."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import a_draft
from tests.builders import HandClock, a_worker, an_offer
from tests.link.harness import PATIENT, Broker, Worker, World, play, until, world

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.core.messages import Hello, Report, Start
from grassq.core.model import ATTEMPT_MAX, ID_MAX, Job, Offer, Outcome, State
from grassq.core.protocol import Answer, Ping, TicketKept
from grassq.core.states import Exited, Started
from grassq.core.syntax.selectors import AllJobs
from grassq.errors import Refused
from grassq.store.sqlite import SqliteStore
from grassq.web.submit.queue_snapshot import snapshot_of

ROUNDS = 30
MESSAGES = 25
KINDS = (Hello, Hello, Report, Report, Report, Answer, TicketKept, Ping)
#: Texts that are fine in most places; those that are fine as a queue, a resource or a device; and others.
TEXTS = ("w", "evil", "good", "a b", "boot")
NAMES = {
    "queue": ("default", "train", "later", "cpu", "lr"),
    "key": ("cpu", "gpu", "lr", "mem", "train"),
    "id": ("0", "1", "gpu7"),
    "ids": ("0", "1", "gpu7"),
    "labels": ("a100", "good"),
    "detecting": ("gpu", "lr"),
}
ODD = ("x" * 65, "all", "é", "\x1b[8m", "", "../x", "1", "GPU", "vram", "-")
#: The words of a line for the queue `train` of the honest worker, which must all reach its command.
LINE = (b"train", b"--lr=0.5", b"A=1")
GOOD = a_worker("good", offers=[an_offer(), Offer("train", {}, (b"python",))], cpu=6)


class Anything:
    """Makes values of a type at random: mostly such as a worker may send, and within the bounds of the type."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        #: Job ids and attempt numbers that exist.
        self.numbers = [0, 1, 2, 3]

    def of(self, kind: type[Any]) -> Any:
        """Return a value of a type."""
        return msgspec.convert(self._value(inspect.type_info(kind)), kind)

    def _value(self, kind: inspect.Type, name: str = "") -> Any:
        rng = self.rng
        match kind:
            case inspect.StructType():
                fields = {one.encode_name: one for one in kind.fields if one.required or rng.random() < 0.8}
                tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
                return tag | {name: self._value(one.type, name) for name, one in fields.items()}
            case inspect.UnionType():
                return self._value(rng.choice(kind.types), name)
            case inspect.LiteralType():
                return rng.choice(kind.values)
            case inspect.EnumType():
                return rng.choice(list(kind.cls)).value
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType() | inspect.FloatType():
                return self._number(kind, name)
            case inspect.StrType():
                if name == "result":
                    return "{}"
                return rng.choice(ODD if rng.random() < 0.01 else NAMES.get(name, TEXTS))[: kind.max_length]
            case inspect.BytesType():
                return rng.choice((b"", b"x", b"\xff\0"))
            case inspect.TupleType():
                return [self._value(each) for each in kind.item_types]
            case inspect.VarTupleType() | inspect.ListType() | inspect.FrozenSetType():
                return [self._value(kind.item_type, name) for _ in range(rng.randrange(3))]
            case inspect.DictType():
                return {
                    self._value(kind.key_type, "key"): self._value(kind.value_type) for _ in range(rng.randrange(3))
                }
            case _:
                return None

    def _number(self, kind: inspect.IntType | inspect.FloatType, name: str) -> float:
        some = [*self.numbers, 10**6, 4 * 10**6]
        if self.rng.random() < 0.1:
            some += [-1, ID_MAX, ATTEMPT_MAX, 2**31 - 1, 253402300799, 2**53]
        low, high = (bound if bound is not None else default for bound, default in ((kind.ge, -1), (kind.le, 2**60)))
        return min(max(self.rng.choice(some), low), high)


class Honest:
    """A worker that does its jobs, beside a worker in the wrong hands."""

    def __init__(self, one: World, worker: Worker) -> None:
        self.one, self.worker = one, worker
        self.done: set[int] = set()

    def work(self, keep: int) -> None:
        """Report the end of every job that was ordered, except `keep`, which only starts."""
        for order in self.worker.orders:
            if isinstance(order, Start) and order.job not in self.done:
                self.done.add(order.job)
                self.worker.link.send(Report(order.job, Started(order.attempt, 7)))
                if order.job != keep:
                    self.worker.link.send(Report(order.job, Exited(order.attempt, Outcome.EXITED, 0)))


def job_of(one: World, id_: int) -> Job:
    [job] = one.broker.engine.decider._store.some([id_])
    return job


def listings(batch: Batch) -> list[Any]:
    """Everything that `show` and `why` tell, as their readers read it."""
    chosen = [AllJobs()]
    told = (at_once.show(batch, []), at_once.show(batch, chosen), at_once.why(batch, chosen))
    return [json.loads(msgspec.json.encode(each)) for each in told]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_one_worker_says_others_work_on(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    anything = Anything(seed)
    store = tmp_path / "store.db"

    async def test() -> None:
        async with world(tmp_path) as one:
            one.broker = Broker(tmp_path / "real", PATIENT, str(store))
            await one.broker.start(one.stack)
            good = one.worker("good")
            good.info = GOOD
            honest = Honest(one, good)
            await until(lambda: one.broker.online("good"))
            runs = await one.broker.submit("good", cpu=2)
            draft = a_draft(cpu=1, hold=True)
            [held] = await one.broker.engine.change(lambda batch: service.submit(batch, [draft], "held", b"d"))
            queued = await one.broker.submit("good", cpu=5)
            await until(lambda: good.started() == [runs])
            honest.work(keep=runs)
            await until(lambda: job_of(one, runs).state is State.RUNNING)
            untouched = [job_of(one, id_) for id_ in (runs, held, queued)]
            evil, last = one.worker("evil"), queued
            for _ in range(ROUNDS):
                await until(lambda: evil.link.online)
                last = await speak(one, anything, evil, honest, last)
                assert [job_of(one, id_) for id_ in (runs, held, queued)] == untouched

    play(test)
    assert "failed" not in caplog.text and "Traceback" not in caplog.text
    again = Decider(SqliteStore(str(store)), HandClock(), incarnation="again")
    assert {state for state in again.board.workers} <= {"good", "evil"}
    again.close()


async def speak(one: World, anything: Anything, evil: Worker, honest: Honest, last: int) -> int:
    """Let the hostile worker say some things while another works; return the newest job."""
    # Jobs of its own, which it may lie about.
    own = last
    with contextlib.suppress(Refused):
        own = await one.broker.submit("evil")
    assert own in (last, last + 1)
    anything.numbers = [1, 2, own, own + 1, *(order.job for order in evil.orders[-3:] if isinstance(order, Start))]
    for _ in range(MESSAGES):
        body = anything.of(anything.rng.choice(KINDS))
        if isinstance(body, Hello) and anything.rng.random() < 0.5:
            body = replace(body, info=replace(body.info, given=GOOD.given), seen=evil.link._memory.position)
        if evil.link._session is not None:
            evil.link._session._frames.send(body)
    job = await one.broker.submit("good")
    assert job == own + 1, "ids go on one by one"
    await until(lambda: job in honest.worker.started())
    honest.work(keep=1)
    await until(lambda: job_of(one, job).state is State.SUCCEEDED)
    await one.broker.engine.read(listings)
    board = one.broker.engine.decider.board
    assert not board.unreconciled and one.broker.engine.status.read_only is None
    typed = snapshot_of(board).split(LINE, lambda word: True)
    assert (typed.words, typed.options.request) == (LINE[1:], None)
    return job
