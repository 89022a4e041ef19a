"""One history of a broker, its workers and their users, decided by a seed and played on a hand-cranked clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from functools import partial
from random import Random
from typing import cast

from msgspec.structs import replace
from tests.builders import HandClock
from tests.sim.checks import Auditor
from tests.sim.features import Features
from tests.sim.machine_users import EXTRAS, change_devices, with_slots
from tests.sim.promises.promise import Broken, demand
from tests.sim.rewind import Rewind
from tests.sim.things import Command
from tests.sim.touchy import Led, TouchyStore, steady
from tests.sim.users import Users
from tests.sim.wire import Wire
from tests.sim.world import Machine, SimRunner

from grassq.broker.decider import Decider
from grassq.broker.inbox import Call, FromWorker, Message
from grassq.broker.service import Done
from grassq.core.messages import Hello
from grassq.core.model import Job, Offer, State, WorkerInfo
from grassq.core.planner.explain import never_fits
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.limits.groups import names_in, never_within
from grassq.core.planner.prefetch import PrefetchPolicy
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Device, Devices, Pool
from grassq.core.resources.device_changes import ChangedDevices, DeviceChanges, changed_capacity
from grassq.core.waiting.start_times import LOOK_S
from grassq.errors import Deposed, StoreUnavailable
from grassq.store.relational import Store
from grassq.worker.agent import Agent

FAULTS_S = 60.0
#: Promise 7: when faults stop, what can run progresses within this.
PROGRESS_S = 30.0
END_S = 3600.0
QUEUES = ("default", "q1", "q2")
#: How the wall clock is set, where jobs wait for it.
SMALL_STEPS = (-15.0, -4.0, -1.0, 1.0, 4.0, 15.0)
FAULTS = (
    *("broker", "agent", "daemon", "shim", "shim", "launcher", "reboot", "link", "clock"),
    *("cut", "cut", "cut", "takeover", "backup", "backup"),
)
LEASE_S = 9.0
#: Jobs of the simulator take seconds; those below this are brief enough to be followed.
PACE = PrefetchPolicy(short_s=4.0, runs=1, wait_s=3.0)
#: How long a standby waits for a silent broker before it takes over.
TAKEOVER_S = 4.0


class Crash(BaseException):
    """The broker's process ends here and now."""


class Play:
    """The parts, what is on its way between them, and what goes wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.clock = HandClock()
        self.steps = 0
        self.faulty = True
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        labels = [self.rng.choice(((), ("big",), ("big", "new"))) for _ in range(self.rng.randint(1, 3))]
        self.machines = {f"w{i}": Machine(f"w{i}", self, each) for i, each in enumerate(labels)}
        self.capacity = {name: self._capacity() for name in self.machines}
        self.offers: dict[str, tuple[Offer, ...]] = {}
        self.features = Features(seed)
        for name in self.machines:
            self.offers[name] = (Offer("default", unsecure=self.rng.random() < 0.5),)
            if self.features.has_slots:
                self.offers[name] += (with_slots(self, name, Offer("q1", unsecure=True)),)
        self.devices: dict[str, DeviceChanges] = {name: {} for name in self.machines}
        self.store = TouchyStore(trouble=self._trouble)
        extra = {"gpu": ChangedDevices(EXTRAS)}
        physical = {name: changed_capacity(capacity, extra) for name, capacity in self.capacity.items()}
        self.auditor = Auditor(self.store, self.machines, physical, self.clock)
        self.decider: Decider | None = None
        self._inbox: list[Message] = []
        self._asleep_until = float("inf")
        self._progress_at = 0.0
        self._incarnations = itertools.count(1)
        #: Whether the board may have changed in this step.
        self._decided = False
        #: The workers whose brief jobs are followed, and how many jobs that wait are kept whole.
        self._following = {name for name in self.machines if self.rng.random() < 0.7}
        self._near_max = self.rng.choice((2, 4096))
        self.users = Users(self)
        self.wire = Wire(self)
        self.rewind = Rewind(self)
        self._begin()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock.now

    def _capacity(self) -> Capacity:
        cards = tuple(Device(str(i), ONE, 16384 * ONE) for i in range(self.rng.randint(1, 3)))
        return {"gpu": Devices(cards), "cpu": Pool(self.rng.randint(2, 6) * ONE)}

    def _begin(self) -> None:
        self._start_broker()
        for machine in self.machines.values():
            self.after(self.rng.uniform(0, 3), partial(self._start_agent, machine))
            self.after(1.0, partial(self._tick, machine))
        self.after(0.5, self.users.act)
        self.after(2.0, self._something_goes_wrong)
        if self.features.has_device_changes:
            self.after(1.0, partial(change_devices, self))
        if self.features.has_suspensions:
            self.after(1.5, self.users.suspend)
        if self.features.has_caps:
            self.after(0.7, self.users.limit_group)

    # Time.

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), action))

    def run(self) -> None:
        """Play until every job has ended."""
        while self.now < FAULTS_S:
            self._step()
        self._make_good()
        while self.now < END_S:
            self._step()
            if self.steps % 16 == 0 and self._all_done():
                break
        self.auditor.check_all()
        left = [job for job in self.auditor.alive.values() if self._can_run(job.id)]
        demand(not left, f"not finished after {END_S} s: {left}")

    def _step(self) -> None:
        self.steps += 1
        at, _, action = heapq.heappop(self._events)
        self.clock.now = at
        self._decided = False
        action()
        self.auditor.check(self.decider, self._decided)
        if not self.faulty:
            self._check_progress()

    # The end: no more faults, and nothing the users did stands in the way.

    def _make_good(self) -> None:
        self.faulty = False
        self.clock.set_by = 0.0
        self.store.trouble = steady
        for name in self.machines:
            self.wire.heal(name)
        for machine in self.machines.values():
            everywhere = tuple(Offer(queue, unsecure=True) for queue in QUEUES)
            if self.features.has_slots:
                everywhere = tuple(with_slots(self, machine.name, o) if o.queue == "q1" else o for o in everywhere)
            self.offers[machine.name], self.devices[machine.name] = everywhere, {}
            if machine.agent is not None:
                machine.agent.describe(self._info(machine))
        self.users.let_everything_run()
        self._progress_at = self.now

    def _can_run(self, job_id: int) -> bool:
        job = self.auditor.alive[job_id]
        assert self.decider is not None
        if job.waits_for_jobs and not self._can_be_ready(job):
            return False
        board, spec = self.decider.board, job.spec
        if never_within(board, names_in(spec.constraints), spec.request) is not None:
            return False
        return never_fits(board, spec.queue, spec.request, spec.constraints) is None

    def _can_be_ready(self, job: Job) -> bool:
        """Whether the jobs that a job waits for can end."""
        for each in job.spec.dependencies:
            can = [self._can_run(id_) for id_ in each.ids if id_ in self.auditor.alive]
            if can and not (any(can) if each.condition == "fail" else all(can)):
                return False
        return True

    def _all_done(self) -> bool:
        if self.decider is None or self.decider.board.awaited or self.decider.board.unreconciled:
            return False
        return not any(map(self._can_run, self.auditor.alive))

    def _check_progress(self) -> None:
        if self._progress_at != self.now and self.decider is not None and self.decider.board.unreconciled:
            # Nothing is started until every worker has spoken.
            self._progress_at = self.now
        if self._progress_at != self.now and any(machine.commands() for machine in self.machines.values()):
            self._progress_at = self.now
        if self.now - self._progress_at <= PROGRESS_S or self.decider is None:
            return
        for job in self.auditor.alive.values():
            is_early = job.ready_at is not None and self.now - self._progress_at <= self._look_s(job.ready_at)
            if job.state is not State.HELD and not is_early and self._can_run(job.id):
                raise Broken(f"nothing happened for {PROGRESS_S} s, and this waits: {job}")

    def _look_s(self, at: float) -> float:
        """Within how much time a job that waits for a time starts."""
        return PROGRESS_S + LOOK_S + max(0.0, at - self.clock.wall())

    # Workers.

    def _info(self, machine: Machine) -> WorkerInfo:
        capacity, offers = self.capacity[machine.name], self.offers[machine.name]
        follows = machine.name in self._following
        devices = self.devices[machine.name]
        return WorkerInfo(
            machine.name,
            machine.boot,
            capacity,
            offers,
            labels=machine.labels,
            follows=follows,
            devices=devices,
            keeps_limits=True,
            suspends=self.features.has_suspensions,
        )

    def _start_agent(self, machine: Machine) -> None:
        if machine.agent is None:
            send = partial(self.wire.to_broker, machine.name)
            machine.agent = Agent(
                self._info(machine), SimRunner(machine), send, self.clock.mono, boottime=self.clock.mono
            )
            self.wire.connect(machine.name)

    def _tick(self, machine: Machine) -> None:
        machine.tick()
        self.after(self.rng.uniform(0.9, 1.1), partial(self._tick, machine))

    def set_offers(self, machine: Machine, offers: tuple[Offer, ...]) -> None:
        """A user makes or deletes a queue on a worker."""
        self.offers[machine.name] = offers
        if machine.agent is not None:
            machine.agent.describe(replace(machine.agent.info, offers=offers))

    def turns_away(self, worker: str) -> bool:
        """Whether a worker was removed, so that its token opens nothing."""
        return worker in self.auditor.gone

    def spawned(self, command: Command) -> None:
        """A command was started."""
        self._progress_at = self.now
        self.auditor.spawned(command)

    def resumed(self, command: Command) -> None:
        """A suspended command goes on."""
        self._progress_at = self.now
        self.auditor.resumed(command)

    # The broker.

    def post(self, message: Message) -> None:
        """Something arrives at the broker, if there is one."""
        if self.decider is not None:
            self._inbox.append(message)
            # Now and then the disk is slow, and much comes together in one batch.
            self._wake_in(self.rng.uniform(0, 0.1 if self.rng.random() < 0.9 else 1.5))

    def _wake_in(self, delay: float) -> None:
        at = self.now + delay
        if at < self._asleep_until:
            self._asleep_until = at
            self.after(delay, self._process)

    def _process(self) -> None:
        if self.decider is None or self.now < self._asleep_until:
            return
        self._asleep_until = float("inf")
        self._decided = True
        messages, self._inbox = self._inbox, []
        try:
            effects = self.decider.process(messages)
        except Crash:
            self.broker_gone()
            return
        self.auditor.look_at_store()
        for name in sorted(self.auditor.gone):
            self.wire.end(name)
        self.auditor.announced([change.job for change in effects.changed if change.has_ended])
        if not self.decider.stale:
            self._welcome(messages)
        for call, answer in effects.answers:
            self.auditor.told(answer.jobs if isinstance(answer, Done) else ())
            self.users.answered(call, answer)
        for worker, order in effects.orders:
            self.wire.to_worker(worker, order)
        self.rewind.look()
        wake = 0.0 if effects.again else self.decider.next_wake()
        if wake is not None:
            self._wake_in(max(wake, 0.05))

    def _welcome(self, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, FromWorker) and isinstance(message.message, Hello) and message.message.fresh:
                self.wire.welcomed(message.worker)

    def call(self, call: Call) -> None:
        """A user asks; on a bad day the question is lost."""
        if self.rewind.is_unsettled and call.key is not None:
            return
        if not self.faulty or self.rng.random() < 0.95:
            self.after(self.rng.uniform(0, 0.1), partial(self.post, call))

    def _start_broker(self) -> None:
        self._decided = True
        self.store.term += 1
        led = cast(Store, Led(self.store))
        try:
            self.decider = Decider(
                led,
                self.clock,
                patience=ReservationPolicy(2, 4.0) if self.features.has_limits else ReservationPolicy(8, 20.0),
                lease_s=LEASE_S,
                incarnation=f"life{next(self._incarnations)}",
                near_max=self._near_max,
                prefetch_policy=PACE,
            )
        except StoreUnavailable:
            self.after(1.0, self._start_broker)
            return
        for machine in self.machines.values():
            self.wire.connect_later(machine.name)

    def broker_gone(self, for_s: float | None = None) -> None:
        """The broker's process ends, and another is started after a while."""
        self.decider = None
        self._inbox = []
        self._asleep_until = float("inf")
        self.wire.broker_gone()
        self.after(self.rng.uniform(0.1, 4) if for_s is None else for_s, self._start_broker)

    def _broker_freezes(self) -> None:
        """The broker stands still; another takes the store over, and the first one comes back to life."""
        frozen = self.decider
        assert frozen is not None
        messages = list(self._inbox)
        self.broker_gone(self.rng.uniform(TAKEOVER_S, TAKEOVER_S + 2))
        self.after(self.rng.uniform(TAKEOVER_S + 3, 30), partial(self._thaws, frozen, messages))

    def _thaws(self, frozen: Decider, messages: list[Message]) -> None:
        try:
            frozen.process(messages)
        except Deposed:
            return
        except StoreUnavailable:
            raise Broken("a broker that was taken over believes that its store is unwell") from None
        raise Broken("a broker that was taken over goes on as if nothing had happened")

    # Faults.

    def _trouble(self, moment: str) -> None:
        rng = self.rng
        if not self.faulty or not hasattr(self, "decider") or self.decider is None:
            return
        if rng.random() > 0.02:
            return
        if "commit" in moment and rng.random() < 0.5:
            raise Crash
        raise StoreUnavailable(f"the disk is unwell ({moment})")

    def _something_goes_wrong(self) -> None:
        if not self.faulty:
            return
        rng = self.rng
        machine = self.machines[rng.choice(sorted(self.machines))]
        kind = rng.choice((*FAULTS, "clock", "clock", "broker") if self.features.has_start_times else FAULTS)
        if kind in ("broker", "daemon") and self.decider is not None:
            self.broker_gone()
        if kind == "takeover" and self.decider is not None:
            self._broker_freezes()
        if kind in ("agent", "daemon", "reboot") and machine.name != self.wire.spared:
            self.wire.worker_gone(machine.name)
            machine.reboot() if kind == "reboot" else machine.agent_gone()
            self.after(rng.uniform(0.1, 6), partial(self._start_agent, machine))
        match kind:
            case "backup":
                self.rewind.back_up()
            case "shim":
                machine.kill_shim()
            case "launcher":
                machine.kill_launcher()
            case "link":
                self.wire.connect(machine.name)
            case "cut":
                inward, outward = rng.choice(((True, True), (True, False), (False, True)))
                self.wire.cut(machine.name, inward, outward, rng.expovariate(0.08))
            case "clock":
                steps = (0.0, -86400.0, 86400.0)
                self.clock.set_by = rng.choice((*steps, *SMALL_STEPS) if self.features.has_start_times else steps)
        self.after(rng.expovariate(0.4), self._something_goes_wrong)
