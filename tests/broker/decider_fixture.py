"""A decider on a hand-cranked clock, with one worker `w` at hand: act, and look at what it answers and orders."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace
from tests import at_once
from tests.builders import HandClock, a_request, a_spec, a_worker
from tests.sim.touchy import TouchyStore

from grassq.broker import service
from grassq.broker.batch import Batch
from grassq.broker.decider import Decider
from grassq.broker.inbox import Call, Effects, FromWorker
from grassq.broker.service import Draft
from grassq.core.messages import Hello, Order, Report, Silent, StorePosition
from grassq.core.model import AttemptId, Job, Outcome, WorkerInfo
from grassq.core.planner.board import NEAR_MAX
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.planner.workers import in_process
from grassq.core.states import Exited, Started
from grassq.core.states import Report as Event
from grassq.core.syntax.selectors import ByIds, Selector, parse
from grassq.errors import StoreUnavailable
from grassq.store.high_water import HighWater
from grassq.store.sqlite import MEMORY

ENVIRONMENT = b"\x91\x92\xc4\x01A\xc4\x01b"
ENV_DIGEST = hashlib.sha256(ENVIRONMENT).digest()


class Trouble:
    """Fails at the moments it is told to, each time once."""

    def __init__(self) -> None:
        self.at: list[str] = []

    def __call__(self, moment: str) -> None:
        if moment in self.at:
            self.at.remove(moment)
            raise StoreUnavailable(f"no disk {moment}")


def a_draft(queue: str = "default", *, hold: bool = False, name: str | None = None, **more: Any) -> Draft:
    """A job as asked for: amounts and fields of the spec by name."""
    amounts = {key: more.pop(key) for key in list(more) if key in ("gpu", "cpu", "vram", "printer")}
    spec = replace(a_spec(queue, a_request(**amounts or {"cpu": 1})), env_digest=ENV_DIGEST, **more)
    return Draft(spec, ENVIRONMENT, name, hold=hold)


class DeciderFixture:
    """Broker and store, and the ways to talk to them."""

    def __init__(
        self,
        *workers: WorkerInfo,
        patience: ReservationPolicy | None = None,
        path: str = MEMORY,
        local: str | None = None,
        lease_s: float = 300.0,
        near_max: int = NEAR_MAX,
        prefetch_policy: PrefetchPolicy | None = None,
    ) -> None:
        self.clock = HandClock()
        self.near_max = near_max
        self.prefetch_policy = prefetch_policy
        self.trouble = Trouble()
        self.store = TouchyStore(path, self.trouble)
        self.patience = patience
        self.local = local
        self.lease_s = lease_s
        self.keys = (f"key-{i}" for i in itertools.count())
        self.incarnations = (f"life-{i}" for i in itertools.count())
        self.decider = self._decider()
        for info in workers:
            self.hello(info)

    def restart(self) -> None:
        """The broker's process ends and another begins."""
        self.decider = self._decider()

    def _decider(self) -> Decider:
        return Decider(
            self.store,
            self.clock,
            incarnation=next(self.incarnations),
            patience=self.patience,
            roles=in_process(self.local),
            lease_s=self.lease_s,
            near_max=self.near_max,
            prefetch_policy=self.prefetch_policy,
            mark=self.new_mark(),
        )

    def new_mark(self) -> HighWater | None:
        """The mark beside the store; this store has none."""
        return None

    def reopen(self) -> None:
        """Another broker begins on the file."""
        self.store = TouchyStore(self.store.path, self.trouble)
        self.decider = self._decider()

    def restore(self, backup: str) -> None:
        """The broker ends, and another begins with the store as it was once."""
        self.store.close()
        self.store = TouchyStore(backup, self.trouble)
        self.decider = self._decider()

    def process(self, *messages: Call | FromWorker) -> Effects:
        """One batch; afterwards board and store agree, unless the store could not be read."""
        effects = self.decider.process(messages)
        if not self.decider.stale:
            stored = {job.id: job for job in super(TouchyStore, self.store).load(NEAR_MAX).jobs}
            board = self.decider.board
            assert board.jobs == {i: job for i, job in stored.items() if i in board.jobs}
            assert board.jobs.keys() >= (stored.keys() if self.near_max == NEAR_MAX else board.holding.keys())
        return effects

    def ask(self, handler: Callable[[Batch], Any], **more: Any) -> Any:
        """Do something as a user and give the answer, also when it is an error."""
        return self.process(Call(handler, **more)).answers[0][1]

    def do(self, handler: Callable[[Batch], Any], **more: Any) -> Any:
        """Do something as a user; an error is raised."""
        answer = self.ask(handler, **more)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def submission(self, *drafts: Draft, key: str | None = None, digest: bytes = b"d") -> Call:
        """The call that submits."""
        key = key or next(self.keys)
        handler = partial(service.submit, drafts=drafts, key=key, digest=digest)
        return Call(handler, True, key, service.ids_of)

    def submit(self, *drafts: Draft, **more: Any) -> list[int]:
        """Submit, and give the ids."""
        answer = self.process(self.submission(*drafts, **more)).answers[0][1]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return answer

    def reason(self, id_: int) -> str:
        """Why a job waits, as users see it."""
        return str(self.do(lambda batch: at_once.show(batch, [ByIds(((id_, id_),))]))["jobs"][0]["reason"])

    def hello(
        self, info: WorkerInfo, *, fresh: bool = True, held: Iterable[AttemptId] = (), seen: StorePosition | None = None
    ) -> list[Order]:
        """A worker speaks of itself; what it is ordered."""
        effects = self.process(FromWorker(info.name, Hello(info, fresh, tuple(held), seen)))
        return [order for worker, order in effects.orders if worker == info.name]

    def silent(self, worker: str = "w", heard: float | None = None) -> Effects:
        """A worker's connection is gone; it was last heard now, or then."""
        return self.process(FromWorker(worker, Silent(self.clock.now if heard is None else heard)))

    def report(self, job: int, event: Event, worker: str = "w") -> Effects:
        """A worker says what became of an attempt."""
        return self.process(FromWorker(worker, Report(job, event)))

    def started(self, job: int, attempt: int = 1) -> None:
        """A job runs."""
        self.report(job, Started(attempt, 4711))

    def exited(self, job: int, code: int = 0, attempt: int = 1) -> Effects:
        """A job ended by itself."""
        return self.report(job, Exited(attempt, Outcome.EXITED, code))

    def job(self, job_id: int) -> Job:
        """A job as stored."""
        found = self.store.jobs(ByIds(((job_id, job_id),)), 1)
        assert found, f"no job {job_id}"
        return found[0]


def ended(effects: Effects) -> list[int]:
    """The jobs whose end is told."""
    return [change.job for change in effects.changed if change.has_ended]


def chosen(text: str | int) -> list[Selector]:
    """A selector as typed."""
    return [parse(str(text))]


def a_decider(*, gpu: int = 2, cpu: int = 4) -> DeciderFixture:
    """A desk with one worker of two gpus and four processors, or as told."""
    return DeciderFixture(a_worker("w", gpu=gpu, cpu=cpu))
