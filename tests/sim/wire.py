"""The network between a broker and its workers: connections, heartbeats, and cuts that nobody is told of.

Reports may be lost, late, doubled or overtaken, whatever the connection. Everything else belongs to its connection: one
that loses a hello, a check or a question is broken and made again, and nothing of the old one arrives then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from msgspec.structs import replace
from tests.sim.features import Features
from tests.sim.world import Machine

from grassq.broker.decider import Decider
from grassq.broker.inbox import FromWorker
from grassq.core.messages import (
    Check,
    Forget,
    Hello,
    Order,
    Report,
    Silent,
    Start,
    StorePosition,
    Withdraw,
    WorkerMessage,
)

HEARTBEAT_S = 1.5
#: Silence after which either end gives a connection up.
SILENCE_S = 4.5
#: What is said once in a connection, because a connection that loses a frame ends.
SAID_ONCE = (Hello, Check, Withdraw, Forget)


class Ends(Protocol):
    """The simulator, as far as the network needs it."""

    rng: Random
    faulty: bool
    decider: Decider | None
    machines: dict[str, Machine]
    features: Features

    @property
    def now(self) -> float:
        """Seconds since the beginning."""

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def post(self, message: FromWorker) -> None:
        """Something arrives at the broker."""

    def turns_away(self, worker: str) -> bool:
        """Whether a worker was removed, so that its token opens nothing."""


@dataclass(eq=False)
class Link:
    """One worker's way to the broker."""

    number: int = 0
    #: The broker at the other end; None while the worker has no connection.
    broker: Decider | None = None
    #: When the broker last heard a ping, and whether it has given the worker up since.
    heard: float = 0.0
    given_up: bool = True
    #: When the worker was last answered.
    answered: float = 0.0
    hello_at: float = 0.0
    #: The connection whose hello the broker has on disk: before that it answers nothing.
    welcome: int = 0
    no_way_in: bool = False
    no_way_out: bool = False
    #: The connection that a cut took a frame from: it ends at the next frame that gets through.
    gap: int = 0
    #: When the last order arrives.
    order_at: float = 0.0
    seen: StorePosition | None = None
    seen_at: float = 0.0


class Wire:
    """All links."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self.links = {name: Link() for name in ends.machines}
        #: Nothing happens to the link of this one.
        self.spared: str | None = None
        #: How often the store was restored: a report that was sent before that died with the broker it was sent to.
        self.rewinds = 0
        for name in self.links:
            ends.after(ends.rng.uniform(0, HEARTBEAT_S), partial(self._beat, name))
        ends.after(1.0, self._listen)

    # Connections.

    def connect(self, name: str) -> None:
        """A worker dials; where nobody answers it dials again later."""
        link, agent = self.links[name], self._ends.machines[name].agent
        if agent is None:
            return
        if self._ends.decider is None or link.no_way_in or link.no_way_out or self._ends.turns_away(name):
            link.broker = None
            return self.connect_later(name)
        link.number += 1
        link.broker = self._ends.decider
        link.heard = link.answered = self._ends.now
        link.given_up = False
        agent.hello()

    def connect_later(self, name: str) -> None:
        """A worker will dial."""
        self._ends.after(self._ends.rng.uniform(0.1, 4), partial(self._connect_if_needed, name))

    def _connect_if_needed(self, name: str) -> None:
        if self.links[name].broker is None or self.links[name].broker is not self._ends.decider:
            self.connect(name)

    def welcomed(self, name: str) -> None:
        """The broker has a worker's fresh hello on disk, and tells it how far the store's history has come."""
        link, broker = self.links[name], self._ends.decider
        link.welcome = link.number
        if broker is not None and link.broker is broker and not link.no_way_in:
            self._ends.after(self._delay(), partial(self._remember, name, link.number, broker.status.history.position))

    def _remember(self, name: str, number: int, moment: StorePosition) -> None:
        link = self.links[name]
        if number != link.number or self._ends.machines[name].agent is None or link.no_way_in:
            return
        if not moment.is_before(link.seen):
            link.seen, link.seen_at = moment, self._ends.now

    def end(self, name: str) -> None:
        """A worker was removed: the broker closes its connection, and the worker dials in vain."""
        self.links[name].given_up = True
        if self.links[name].broker is not None:
            self.links[name].broker = None
            self.connect_later(name)

    def worker_gone(self, name: str) -> None:
        """A worker's process ended: its connection is reset, and the broker knows at once if it can."""
        link = self.links[name]
        if link.broker is not None and not link.no_way_out:
            self._give_up(name)
        link.broker = None

    def broker_gone(self) -> None:
        """The broker's process ended: workers see their connection reset, or find out."""
        for name, link in self.links.items():
            if not link.no_way_in and link.broker is not None:
                link.broker = None
                self.connect_later(name)

    def cut(self, name: str, inward: bool, outward: bool, for_s: float) -> None:
        """Lose what goes to a worker, or comes from it, for a while."""
        link = self.links[name]
        if name == self.spared:
            return
        link.no_way_in, link.no_way_out = link.no_way_in or inward, link.no_way_out or outward
        self._ends.after(for_s, partial(self.heal, name))

    def heal(self, name: str) -> None:
        """Let everything through again; a connection that a cut took something from ends."""
        link = self.links[name]
        link.no_way_in = link.no_way_out = False
        if link.broker is not None and link.gap == link.number:
            self._break(name)

    # Heartbeats.

    def _beat(self, name: str) -> None:
        link = self.links[name]
        self._ends.after(HEARTBEAT_S, partial(self._beat, name))
        agent = self._ends.machines[name].agent
        if agent is None or link.broker is None:
            return
        if self._ends.now - link.answered > SILENCE_S:
            link.broker = None
            return self.connect_later(name)
        if not link.no_way_out:
            self._ends.after(self._delay(), partial(self._ping, name, link.number, self._ends.now))

    def _ping(self, name: str, number: int, at: float) -> None:
        link, broker = self.links[name], self._ends.decider
        if number != link.number or broker is None or link.broker is not broker or link.given_up:
            return
        if link.welcome != number:
            return
        link.heard = self._ends.now
        if not link.no_way_in:
            self._ends.after(self._delay(), partial(self._pong, name, number, at, broker.status.history.position))

    def _pong(self, name: str, number: int, at: float, moment: StorePosition) -> None:
        link, agent = self.links[name], self._ends.machines[name].agent
        if number == link.number and agent is not None and not link.no_way_in:
            link.answered = self._ends.now
            self._remember(name, number, moment)
            agent.confirmed(at)

    def _listen(self) -> None:
        """The broker's ear: who was silent for too long is given up."""
        self._ends.after(0.5, self._listen)
        for name, link in self.links.items():
            if not link.given_up and self._ends.now - link.heard > SILENCE_S:
                self._give_up(name)

    def _give_up(self, name: str) -> None:
        link = self.links[name]
        if not link.given_up and self._ends.decider is not None and link.broker in (None, self._ends.decider):
            link.given_up = True
            self._ends.post(FromWorker(name, Silent(link.heard)))

    # Messages.

    def _delay(self) -> float:
        rng = self._ends.rng
        return rng.expovariate(20) if not self._ends.faulty or rng.random() < 0.95 else rng.uniform(0, 3)

    def _fates(self, name: str) -> list[float]:
        """When the copies of a message arrive."""
        rng = self._ends.rng
        if not self._ends.faulty or name == self.spared:
            return [rng.expovariate(20)]
        copies = rng.choices((0, 1, 2), (8, 85, 7))[0]
        return [rng.expovariate(20) if rng.random() < 0.9 else rng.uniform(0, 8) for _ in range(copies)]

    def to_broker(self, name: str, message: WorkerMessage) -> None:
        """A worker says something; out of touch it is dropped."""
        link = self.links[name]
        if link.broker is None:
            return
        if link.no_way_out:
            self._lose(link, message)
            return
        if isinstance(message, Hello) and message.fresh:
            message = replace(message, seen=link.seen)
        said = FromWorker(name, message)
        fates = self._fates(name)
        if isinstance(message, Report):
            for delay in fates:
                self._ends.after(delay, partial(self._report, said, self.rewinds))
        elif not fates:
            self._break(name)
        else:
            # It overtakes no earlier one of its kind.
            link.hello_at = max(link.hello_at, self._ends.now + fates[0])
            self._ends.after(link.hello_at - self._ends.now, partial(self._arrive, name, link.number, said))

    def _report(self, said: FromWorker, rewinds: int) -> None:
        if rewinds == self.rewinds and not self._ends.turns_away(said.worker):
            self._ends.post(said)

    def _arrive(self, name: str, number: int, said: FromWorker) -> None:
        link = self.links[name]
        if number == link.number and link.broker is self._ends.decider and not link.given_up:
            self._ends.post(said)

    def to_worker(self, name: str, order: Order) -> None:
        """The broker gives an order."""
        link = self.links[name]
        if link.broker is not self._ends.decider:
            return
        if link.no_way_in:
            self._lose(link, order)
            return
        fates = self._fates(name)
        if not fates and isinstance(order, SAID_ONCE):
            self._break(name)
        told = self._ends.decider.status.history.position if self._ends.decider is not None else None
        for delay in fates:
            if self._ends.features.has_suspensions:
                # A start or a check says that the attempt runs: it never comes after a later order to suspend it.
                link.order_at = max(link.order_at, self._ends.now + delay)
                delay = link.order_at - self._ends.now
            self._ends.after(delay, partial(self._deliver, name, link.number, order, told))

    def _deliver(self, name: str, number: int, order: Order, told: StorePosition | None) -> None:
        agent = self._ends.machines[name].agent
        if agent is not None and number == self.links[name].number:
            if isinstance(order, Start) and told is not None:
                # The position comes before a start, on the same connection.
                self._remember(name, number, told)
            agent.order(order)

    def _lose(self, link: Link, message: WorkerMessage | Order) -> None:
        """A cut takes a frame; of those that are repeated nobody would miss one."""
        if isinstance(message, SAID_ONCE):
            link.gap = link.number

    def _break(self, name: str) -> None:
        """A frame is missing: the connection ends, and both ends know."""
        self._give_up(name)
        self.links[name].broker = None
        self.connect_later(name)
