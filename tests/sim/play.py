"""One history of a broker, its workers and their users, decided by a seed and played on a hand-cranked clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec.structs import replace
from tests.builders import HandClock
from tests.sim.checks import Auditor, Broken, demand
from tests.sim.touchy import TouchyStore, steady
from tests.sim.users import Users
from tests.sim.world import Command, Machine, SimRunner

from grassq.broker.decide import Call, Decider, FromWorker, Message
from grassq.broker.service import Done
from grassq.core.board import Patience
from grassq.core.messages import Check, Hello, Order, Report
from grassq.core.model import Offer, State, WorkerInfo
from grassq.core.placement import never_fits
from grassq.core.resources import ONE, Capacity, Device, Devices, Pool
from grassq.errors import StoreUnavailable
from grassq.worker.agent import Agent

FAULTS_S = 60.0
#: Promise 7: when faults stop, what can run progresses within this.
PROGRESS_S = 30.0
END_S = 3600.0
QUEUES = ("default", "q1", "q2")


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
        self.machines = {f"w{i}": Machine(f"w{i}", self) for i in range(self.rng.randint(1, 3))}
        self.capacity = {name: self._capacity() for name in self.machines}
        self.offers: dict[str, tuple[Offer, ...]] = {name: (Offer("default"),) for name in self.machines}
        self.store = TouchyStore(trouble=self._trouble)
        self.auditor = Auditor(self.store, self.machines, self.capacity)
        self.decider: Decider | None = None
        self._inbox: list[Message] = []
        self._asleep_until = float("inf")
        self._links = dict.fromkeys(self.machines, 0)
        self._hello_at = dict.fromkeys(self.machines, 0.0)
        self._progress_at = 0.0
        self.users = Users(self)
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
        action()
        self.auditor.check(self.decider)
        if not self.faulty:
            self._check_progress()

    # The end: no more faults, and nothing the users did stands in the way.

    def _make_good(self) -> None:
        self.faulty = False
        self.clock.set_by = 0.0
        self.store.trouble = steady
        for machine in self.machines.values():
            everywhere = tuple(Offer(queue) for queue in QUEUES)
            self.offers[machine.name] = everywhere
            if machine.agent is not None:
                machine.agent.describe(self._info(machine))
        self.users.let_everything_run()
        self._progress_at = self.now

    def _can_run(self, job_id: int) -> bool:
        job = self.auditor.alive[job_id]
        assert self.decider is not None
        return never_fits(self.decider.board, job.spec.queue, job.spec.request) is None

    def _all_done(self) -> bool:
        return not any(map(self._can_run, self.auditor.alive)) if self.decider is not None else False

    def _check_progress(self) -> None:
        if self._progress_at != self.now and any(machine.commands() for machine in self.machines.values()):
            self._progress_at = self.now
        if self.now - self._progress_at <= PROGRESS_S or self.decider is None:
            return
        for job in self.auditor.alive.values():
            if job.state is not State.HELD and self._can_run(job.id):
                raise Broken(f"nothing happened for {PROGRESS_S} s, and this waits: {job}")

    # Workers.

    def _info(self, machine: Machine) -> WorkerInfo:
        return WorkerInfo(machine.name, machine.boot, self.capacity[machine.name], self.offers[machine.name])

    def _start_agent(self, machine: Machine) -> None:
        if machine.agent is None:
            send = partial(self._to_broker, machine)
            machine.agent = Agent(self._info(machine), SimRunner(machine), send, self.clock.mono)
            self._connect(machine)

    def _connect(self, machine: Machine) -> None:
        self._links[machine.name] += 1
        if machine.agent is not None:
            machine.agent.hello()

    def _reconnect_later(self, machine: Machine) -> None:
        self.after(self.rng.uniform(0.1, 5), partial(self._connect, machine))

    def _tick(self, machine: Machine) -> None:
        machine.tick()
        self.after(self.rng.uniform(0.9, 1.1), partial(self._tick, machine))

    def set_offers(self, machine: Machine, offers: tuple[Offer, ...]) -> None:
        """A user makes or deletes a queue on a worker."""
        self.offers[machine.name] = offers
        if machine.agent is not None:
            machine.agent.describe(replace(machine.agent.info, offers=offers))

    def spawned(self, command: Command) -> None:
        """A command was started."""
        self._progress_at = self.now
        self.auditor.spawned(command)

    # The wire: anything but a hello may be lost, late, doubled or overtaken. A connection that loses a hello or a check
    # is broken, and a broken one is made again.

    def _fates(self) -> list[float]:
        """When the copies of a message arrive."""
        rng = self.rng
        delay = rng.expovariate(20)
        if not self.faulty:
            return [delay]
        copies = rng.choices((0, 1, 2), (8, 85, 7))[0]
        return [rng.expovariate(20) if rng.random() < 0.9 else rng.uniform(0, 8) for _ in range(copies)]

    def _to_broker(self, machine: Machine, message: Hello | Report) -> None:
        said = FromWorker(machine.name, message)
        fates = self._fates()
        if isinstance(message, Report):
            for delay in fates:
                self.after(delay, partial(self.post, said))
        elif fates:
            # A hello belongs to its connection, and overtakes no earlier one.
            at = max(self._hello_at[machine.name], self.now + fates[0])
            self._hello_at[machine.name] = at
            link = self._links[machine.name]
            self.after(at - self.now, lambda: self._hello(machine, link, said))
        else:
            self._reconnect_later(machine)

    def _hello(self, machine: Machine, link: int, said: FromWorker) -> None:
        if self.decider is not None and link == self._links[machine.name] and machine.agent is not None:
            self.post(said)

    def _to_worker(self, name: str, order: Order) -> None:
        machine = self.machines[name]
        fates = self._fates()
        if not fates and isinstance(order, Check):
            self._reconnect_later(machine)
        for delay in fates:
            self.after(delay, partial(self._deliver, machine, order))

    def _deliver(self, machine: Machine, order: Order) -> None:
        if machine.agent is not None:
            machine.agent.order(order)

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
        messages, self._inbox = self._inbox, []
        try:
            effects = self.decider.process(messages)
        except Crash:
            self._broker_gone()
            return
        self.auditor.announced(effects.finished)
        for call, answer in effects.answers:
            self.auditor.told(answer.jobs if isinstance(answer, Done) else ())
            self.users.answered(call, answer)
        for worker, order in effects.orders:
            self._to_worker(worker, order)
        wake = 0.0 if effects.again else self.decider.next_wake()
        if wake is not None:
            self._wake_in(max(wake, 0.05))

    def call(self, call: Call) -> None:
        """A user asks; on a bad day the question is lost."""
        if not self.faulty or self.rng.random() < 0.95:
            self.after(self.rng.uniform(0, 0.1), partial(self.post, call))

    def _start_broker(self) -> None:
        try:
            self.decider = Decider(self.store, self.clock, patience=Patience(8, 20.0))
        except StoreUnavailable:
            self.after(1.0, self._start_broker)
            return
        for machine in self.machines.values():
            self._reconnect_later(machine)

    def _broker_gone(self) -> None:
        self.decider = None
        self._inbox = []
        self._asleep_until = float("inf")
        self.after(self.rng.uniform(0.1, 4), self._start_broker)

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
        kind = rng.choice(("broker", "agent", "daemon", "shim", "shim", "launcher", "reboot", "link", "clock"))
        if kind in ("broker", "daemon") and self.decider is not None:
            self._broker_gone()
        if kind in ("agent", "daemon", "reboot"):
            machine.reboot() if kind == "reboot" else machine.agent_gone()
            self.after(rng.uniform(0.1, 6), partial(self._start_agent, machine))
        match kind:
            case "shim":
                machine.kill_shim()
            case "launcher":
                machine.kill_launcher()
            case "link":
                self._connect(machine)
            case "clock":
                self.clock.set_by = rng.choice((0.0, -86400.0, 86400.0))
        self.after(rng.expovariate(0.4), self._something_goes_wrong)
