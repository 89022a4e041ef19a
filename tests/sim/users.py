"""Users of the simulated broker: they submit, kill, change queues and workers, and repeat what was not answered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from tests import at_once
from tests.sim.job_options import GROUPS, LIMITS, constrained, sweep_of, with_features, with_limits
from tests.sim.machine_users import with_slots

from grassq.broker import selection, service
from grassq.broker.actions.edit import EditedJob, Editor, edit, why_not
from grassq.broker.actions.jobs import RequeueJobs
from grassq.broker.actions.limits import set_limit
from grassq.broker.actions.move import Destination, move
from grassq.broker.actions.suspend import ResumeJobs, SuspendJobs
from grassq.broker.batch import Batch
from grassq.broker.inbox import Call
from grassq.broker.service import Draft
from grassq.broker.tokens import OWNER
from grassq.broker.waiting.dependents import After
from grassq.core.job_options import Pairs
from grassq.core.model import ANYWHERE, FINAL, Constraints, Offer, RemoteSubmitter, Spec, State
from grassq.core.resources.amounts import ONE, Request
from grassq.core.resources.capacity import DeviceCount, DeviceIds, Limits, Pool
from grassq.core.syntax.selectors import AllJobs
from grassq.core.syntax.selectors import ByIds as JobIds
from grassq.core.syntax.selectors import ByState as StateSelector
from grassq.core.waiting.conditions import Condition

if TYPE_CHECKING:
    from tests.sim.play import Play

JOBS_MAX = 40
BURST = 10
REQUESTS: tuple[Request, ...] = (
    (("cpu", ONE),),
    (("cpu", 2 * ONE),),
    (("gpu", ONE // 10),),
    (("gpu", ONE // 2),),
    (("gpu", ONE),),
    (("cpu", ONE), ("gpu", ONE)),
    (("gpu", ONE + ONE // 2),),
    (("gpu", 2 * ONE),),
    (("gpu", ONE // 4), ("vram", 6000 * ONE)),
    (("vram", 9000 * ONE),),
)


CONDITIONS: tuple[Condition, ...] = ("ok", "ok", "any", "fail")


class Users:
    """Everybody who talks to the broker."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._rng = play.rng
        self._keys = 0
        self._waiting: dict[Call, Callable[[object], None]] = {}
        self._sent = 0

    # What they do.

    def act(self) -> None:
        """One of them does something; while faults go on, somebody always will again."""
        if not self._play.faulty:
            return
        actions: dict[Callable[[], None], int] = {
            self._submit: 34,
            self._kill: 12,
            self._hold: 6,
            self._requeue: 4,
            self._release: 8,
            self._rerun: 5,
            self._pause: 3,
            self._resume: 6,
            self._priority: 4,
            self._edit: 6,
            self._move: 4,
            self._make_queue: 5,
            self._delete_queue: 2,
            self._clean: 2,
            self._drain: 4,
            self._remove: 2,
            self._look: 5,
        }
        self._rng.choices(list(actions), list(actions.values()))[0]()
        self._play.after(self._rng.expovariate(2.5), self.act)

    def answered(self, call: Call, answer: object) -> None:
        """The broker answered; the answer may be lost on the way."""
        if call in self._waiting and (not self._play.faulty or self._rng.random() < 0.95):
            self._waiting.pop(call)(answer)

    def _ask(
        self,
        handler: Callable[[Batch], object],
        then: Callable[[object], None] | None = None,
        *,
        key: str | None = None,
        recall: Callable[[Any], object] | None = None,
        tries: int = 3,
    ) -> None:
        call = Call(handler, True, key, recall)
        self._waiting[call] = then or (lambda answer: None)
        self._play.call(call)

        def again() -> None:
            if self._waiting.pop(call, None) is not None and tries > 1:
                self._ask(handler, then, key=key, recall=recall, tries=tries - 1)

        if key is not None:
            self._play.after(self._rng.choice((0.05, 3.0)), again)

    def keys(self) -> list[str]:
        """Every key that was ever used."""
        return [f"key{number}" for number in range(1, self._keys + 1)]

    def _key(self) -> tuple[str, bytes]:
        self._keys += 1
        key = f"key{self._keys}"
        return key, hashlib.sha256(key.encode()).digest()

    def _some_job(self) -> JobIds | None:
        alive = self._play.auditor.alive
        ids = list(alive) if self._rng.random() < 0.8 and alive else range(1, self._sent + 1)
        if not ids:
            return None
        job = self._rng.choice(ids)
        return JobIds(((job, job),))

    def _on_a_job(self, action: Callable[[Batch, list[Any]], object]) -> None:
        if (chosen := self._some_job()) is not None:
            self._ask(lambda batch: action(batch, [chosen]))

    def _submit(self) -> None:
        count = self._rng.choice((1, 1, 1, 3, BURST))
        if self._sent + count > JOBS_MAX or self._play.rewind.is_unsettled:
            return
        self._sent += count
        key, digest = self._key()
        # A burst is of one shape: its jobs may be placed behind one another.
        drafts = [self._draft(key)] * count if count == BURST else [self._draft(key) for _ in range(count)]
        sweep = sweep_of(self._play, count)
        handler = partial(service.submit, drafts=drafts, key=key, digest=digest, sweep=sweep)
        self._ask(handler, partial(self._submitted, key), key=key, recall=service.ids_of)

    def _submitted(self, key: str, answer: object) -> None:
        if isinstance(answer, list):
            self._play.auditor.acknowledge(key, answer)

    def _draft(self, key: str) -> Draft:
        rng = self._rng
        pairs: Pairs = ((b"WHO", rng.choice((b"ann", b"bob"))),)
        environment = msgspec.msgpack.encode(pairs)
        constraints = self._constraints()
        spec = Spec(
            command=(key.encode(), b"\xff\x00raw"),
            queue=rng.choice(("default", "q1" if self._play.features.has_slots else "default", "q1", "q2")),
            request=rng.choice(REQUESTS),
            cwd=b"/tmp",
            env_digest=hashlib.sha256(environment).digest(),
            grace_s=rng.choice((0.0, 1.0, 5.0)),
            on_lost=rng.choice(("fail", "requeue")),
            tries=rng.choice((1, 1, 2, 3)),
            constraints=constraints,
            by=None if constraints.remote is None else "token",
        )
        draft = Draft(spec, environment, None, rng.choice((30, 30, 30, 10, 50)), hold=rng.random() < 0.1)
        draft = replace(draft, after=self._after(), in_s=rng.choice((None, None, None, None, 0.5, 5.0)))
        return with_features(self._play, draft)

    def _after(self) -> After:
        """Some jobs start after others, which may not exist, or have ended."""
        rng = self._rng
        if not self._sent or rng.random() < 0.75:
            return ()
        ids = tuple(str(rng.randint(1, self._sent)) for _ in range(rng.choice((1, 1, 3))))
        return ((rng.choice(CONDITIONS), ids),)

    def _constraints(self) -> Constraints:
        """Most jobs run anywhere; some want one worker or a label, or come from another machine."""
        rng = self._rng
        if rng.random() < 0.7:
            return ANYWHERE
        worker = rng.choice((None, None, *sorted(self._play.machines)))
        labels = rng.choice(((), (), ("big",), ("big",), ("new",)))
        remote = RemoteSubmitter(bare=rng.random() < 0.3, env=rng.choice(((), (b"X",))), own_cwd=rng.random() < 0.2)
        return Constraints(worker, labels, remote if rng.random() < 0.5 else None)

    def _kill(self) -> None:
        if (chosen := self._some_job()) is not None:
            self._play.auditor.cancel_asked.add(chosen.ranges[0][0])
            grace_s = self._rng.choice((None, 0.0, 2.0))
            self._ask(lambda batch: at_once.kill(batch, [chosen], grace_s))

    def _requeue(self) -> None:
        if (chosen := self._some_job()) is not None:
            self._play.auditor.requeue_asked[chosen.ranges[0][0]] += 1
            self._ask(lambda batch: at_once.change(batch, RequeueJobs(), [chosen]))

    def _hold(self) -> None:
        self._on_a_job(at_once.hold)

    def _release(self) -> None:
        self._on_a_job(at_once.release)

    def suspend(self) -> None:
        """Somebody suspends a job, and keeps its devices or not, or lets one go on; and somebody will again."""
        if not self._play.faulty:
            return
        running = [job.id for job in self._play.auditor.alive.values() if job.state is State.RUNNING]
        if running and (job := self._rng.choice(running)):
            action = self._rng.choice((SuspendJobs(), SuspendJobs(frees=True), SuspendJobs(frees=True), ResumeJobs()))
            self._ask(lambda batch: at_once.change(batch, action, [JobIds(((job, job),))]))
        self._play.after(self._rng.expovariate(1.2), self.suspend)

    def limit_group(self) -> None:
        """Somebody sets, changes or removes the limit of a group; and somebody will again."""
        if not self._play.faulty:
            return
        group, limit = self._rng.choice(GROUPS), self._rng.choice(LIMITS)
        self._ask(lambda batch: set_limit(batch, group, limit))
        self._play.after(self._rng.expovariate(0.4), self.limit_group)

    def _priority(self) -> None:
        priority = self._rng.choice((0, 30, 90))
        self._on_a_job(lambda batch, chosen: at_once.set_priority(batch, chosen, priority))

    def _edit(self) -> None:
        """Some jobs ask for something else from now on, if they have not started; the command stays what it was."""
        rng, play = self._rng, self._play
        chosen = [each for _ in range(rng.choice((1, 1, 3))) if (each := self._some_job()) is not None]
        request, queue, priority = rng.choice(REQUESTS), rng.choice((None, "default", "q1", "q2")), rng.choice((10, 30))
        constraints, tries, grace_s = self._constraints(), rng.choice((0, 1)), rng.choice((0.0, 5.0))
        key, digest = self._key()

        def change(batch: Batch) -> object:
            edits = []
            for job in selection.select(batch, chosen):
                if (play.features.has_slots and "q1" in (queue, job.spec.queue)) or why_not(job) is not None:
                    continue
                spec = replace(job.spec, request=request, queue=queue or job.spec.queue, grace_s=grace_s)
                spec = replace(spec, tries=spec.tries + tries, constraints=constraints)
                edits.append(EditedJob(job, constrained(spec, job.spec), job.name, priority))
            return edit(batch, edits, Editor("ann", OWNER), key, digest)

        if chosen:
            self._ask(change, key=key)

    def _move(self) -> None:
        """Some jobs go before or after others, as far as the priorities allow it."""
        chosen = {
            each.ranges[0][0] for _ in range(self._rng.choice((1, 1, 3))) if (each := self._some_job()) is not None
        }
        target = self._some_job()
        if not chosen or target is None:
            return
        place = self._rng.choice(
            (Destination("first"), Destination("last"), Destination("before", target.ranges[0][0]))
        )
        key, digest = self._key()
        self._ask(lambda batch: move(batch, sorted(chosen), place, Editor("ann", OWNER), key, digest), key=key)

    def _rerun(self) -> None:
        if self._sent >= JOBS_MAX or self._play.rewind.is_unsettled or (chosen := self._some_job()) is None:
            return
        self._sent += 1
        key, digest = self._key()
        handler = partial(at_once.rerun, selectors=[chosen], key=key, digest=digest)
        self._ask(handler, partial(self._submitted, key), key=key, recall=service.ids_of)

    def _pause(self) -> None:
        queue = self._rng.choice((None, "default", "q1"))
        self._ask(lambda batch: service.pause(batch, queue))

    def _resume(self) -> None:
        queue = self._rng.choice((None, None, "default", "q1"))
        self._ask(lambda batch: service.resume(batch, queue))

    def _look(self) -> None:
        action = self._rng.choice((at_once.show, at_once.why))
        self._ask(lambda batch: action(batch, [AllJobs()]))

    def _clean(self) -> None:
        """What has ended is removed; its workers are told to forget it when they connect again."""
        states = [StateSelector((state,)) for state in sorted(FINAL) if self._rng.random() < 0.6]
        if not states:
            return
        play = self._play

        def clean(batch: Batch) -> None:
            ended = selection.select(batch, states)
            chosen = {job.id for job in ended if play.rewind.may_clean(job.id, job.attempt)}
            if chosen:
                at_once.clean(batch, selection.by_ids(chosen), None)
            play.auditor.removed |= chosen

        self._ask(clean)

    def _drain(self) -> None:
        worker, undo = self._rng.choice(sorted(self._play.machines)), self._rng.random() < 0.6
        self._ask(lambda batch: service.drain(batch, worker, undo))

    def _remove(self) -> None:
        """A worker that is out of touch, or holds nothing, is given up for good; one at least stays."""
        worker, play = self._rng.choice(sorted(self._play.machines)), self._play

        def remove(batch: Batch) -> object:
            if len(batch.board.workers) < 2 or play.rewind.is_unsettled:
                return None
            return service.remove_worker(batch, worker, lost=True)

        decider = play.decider
        worker_state = None if decider is None else decider.board.workers.get(worker)
        if worker_state is not None and (not worker_state.online or self._rng.random() < 0.1):
            self._ask(remove)

    def _make_queue(self) -> None:
        machine = self._play.machines[self._rng.choice(sorted(self._play.machines))]
        queue = self._rng.choice(("q1", "q2", "default"))
        limits: tuple[Limits, ...] = ({}, {"gpu": DeviceCount(1)}, {"gpu": DeviceIds(("0",))}, {"cpu": Pool(2 * ONE)})
        prefix: tuple[bytes, ...] = self._rng.choice(((), (b"nice",)))
        offer = Offer(
            queue,
            {} if queue == "default" else self._rng.choice(limits),
            prefix,
            unsecure=not prefix and self._rng.random() < 0.5,
            allow_env=self._rng.choice(((), (b"X",))) if prefix else (),
        )
        if self._play.features.has_slots and queue == "q1" and self._rng.random() < 0.8:
            offer = with_slots(self._play, machine.name, offer)
        others = tuple(known for known in self._play.offers[machine.name] if known.queue != queue)
        self._play.set_offers(machine, (*others, with_limits(self._play, offer)))

    def _delete_queue(self) -> None:
        machine = self._play.machines[self._rng.choice(sorted(self._play.machines))]
        queue = self._rng.choice(("q1", "q2"))
        self._play.set_offers(machine, tuple(o for o in self._play.offers[machine.name] if o.queue != queue))

    # The end.

    def let_everything_run(self) -> None:
        """Nothing is parked or paused any more; asked again until it is so, as a job may be held once more."""
        self._play.call(Call(lambda batch: service.resume(batch, None)))
        self._play.call(Call(_undrain))
        if any(job.state is State.HELD for job in self._play.auditor.alive.values()):
            self._play.call(Call(lambda batch: at_once.release(batch, [StateSelector(("held",))])))
        if any(job.is_suspended for job in self._play.auditor.alive.values()):
            self._play.call(Call(lambda batch: at_once.change(batch, ResumeJobs(), [StateSelector(("running",))])))
        self._play.after(5.0, self.let_everything_run)


def _undrain(batch: Batch) -> None:
    for name, worker in batch.board.workers.items():
        if worker.drained:
            service.drain(batch, name, undo=True)
