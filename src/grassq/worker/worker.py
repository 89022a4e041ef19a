"""The worker: one machine, the queues it offers, and the agent that executes the broker's orders."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from grassq import __version__
from grassq.core.messages import LeftFolder, Order, WorkerMessage
from grassq.core.model import DiskShortage, Offer, WorkerInfo
from grassq.core.offer_changes import change_note
from grassq.core.planner.workers import machine_capacity
from grassq.core.resources.capacity import Capacity
from grassq.core.resources.device_changes import DeviceChange, change, changed_capacity
from grassq.run.lease_timer import boottime
from grassq.worker import offers
from grassq.worker.agent import Agent
from grassq.worker.machine import Machine

log = logging.getLogger(__name__)

#: How often the free space of the disk is looked at.
DISK_S = 2.0
TICK_S = 1.0
IDLE_TICK_S = 5.0
#: How long orders are executed before heartbeats and answers have a turn: on another machine each takes a round trip.
ORDERS_S = 0.5


class Worker:
    """Runs jobs on a machine for the broker that `send` reaches."""

    def __init__(
        self,
        machine: Machine,
        offered: offers.Offers,
        send: Callable[[WorkerMessage], None],
        *,
        labels: tuple[str, ...] = (),
        disk: Callable[[DiskShortage | None], DiskShortage | None] | None = None,
    ) -> None:
        """`disk` returns whether the disk is short of space, given what it returned before."""
        self.name = offered.name
        self.logs = machine.logs
        self._machine = machine
        self._offered = offered
        self._disk = disk
        #: Set, and replaced by a new event, whenever resources were found.
        self._news = asyncio.Event()
        info = WorkerInfo(
            offered.name,
            machine.boot,
            {},
            offered.all,
            machine.detects,
            labels,
            follows=machine.follows,
            version=__version__,
            takes_files=machine.takes_files,
            apart=not machine.shares_disk,
            cuts_logs=True,
            wraps=True,
            keeps_limits=True,
            suspends=True,
            devices=offered.devices,
            changes_devices=True,
            keeps_logs=machine.keeps_logs,
        )
        self._agent = Agent(info, machine, send, time.monotonic, boottime=boottime)
        self._tasks: list[asyncio.Task[None]] = []
        #: Orders that wait to be executed.
        self._orders: deque[Order] = deque()

    @property
    def queues(self) -> tuple[Offer, ...]:
        """The queues that this worker offers."""
        return self._agent.info.offers

    @property
    def capacity(self) -> Capacity:
        """What the machine has, as far as it is known."""
        return changed_capacity(self._agent.info.given, self._agent.info.devices)

    @property
    def held(self) -> int:
        """The number of attempts that have not ended."""
        return self._agent.active

    async def start(self) -> asyncio.Task[None]:
        """Send the hello and begin; return the task that ends only by `close`, or by a bug."""
        given = await self._machine.open(self._agent)
        self._agent.info = replace(self._agent.info, given=given, disk_short=self._look_at_disk())
        self._agent.hello()
        ticking = asyncio.create_task(self._tick())
        self._tasks.append(ticking)
        if self._disk is not None:
            self._tasks.append(asyncio.create_task(self._watch_disk()))
        if self._machine.detects:
            self._tasks.append(asyncio.create_task(self._detect()))
        return ticking

    def hello(self, *, fresh: bool = True) -> None:
        """Send the broker this worker's description; with `fresh`, also the attempts that have a run dir here."""
        self._agent.hello(fresh=fresh)

    def confirmed(self, at: float) -> None:
        """Renew leases: the broker has answered a ping that was sent at this time of the boot clock."""
        self._agent.confirmed(at)

    def deliver(self, order: Order) -> None:
        """Execute an order on a later turn of the event loop, never inside the broker's own turn."""
        if not self._orders:
            asyncio.get_running_loop().call_soon(self._execute)
        self._orders.append(order)

    def _execute(self) -> None:
        """Execute the orders that wait, one after another; what is left after ORDERS_S waits for a later turn."""
        until = time.monotonic() + ORDERS_S
        try:
            while self._orders and time.monotonic() <= until:
                self._agent.order(self._orders.popleft())
        finally:
            if self._orders:
                asyncio.get_running_loop().call_soon(self._execute)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(IDLE_TICK_S if self._agent.idle else TICK_S)
            try:
                self._machine.check()
                self._agent.tick()
            except OSError as error:
                # Descriptors or memory ran out for a moment; the next tick does what is left.
                log.error("tick_failed error=%s", error)

    def _look_at_disk(self) -> DiskShortage | None:
        before = self._agent.info.disk_short
        if self._disk is None:
            return before
        try:
            return self._disk(before)
        except OSError as error:
            # A disk that cannot be measured stops nothing: starting a job says what is wrong with it.
            log.error("disk_not_measured error=%s", error)
            return None

    async def _watch_disk(self) -> None:
        """Tell the broker when the disk is short of space, and when it has room again."""
        while True:
            await asyncio.sleep(DISK_S)
            before, short = self._agent.info.disk_short, self._look_at_disk()
            if short != before:
                if short is None or before is None:
                    log.warning("disk_%s", "has_room" if short is None else f"short free={short.free}")
                self._agent.describe(replace(self._agent.info, disk_short=short))

    async def _detect(self) -> None:
        async for detected in self._machine.detect():
            info = self._agent.info
            given = {**info.given, **detected.found}
            used, short = detected.used_by_others, info.disk_short if self._disk else detected.disk_short
            self._agent.describe(
                replace(info, given=given, looked_for=detected.looked_for, used_by_others=used, disk_short=short)
            )
            self._news.set()
            self._news = asyncio.Event()

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue, as soon as it is known whether this machine has the resources that it limits."""
        while any(self._agent.info.may_appear(name) for name in offer.limits.keys() - self._agent.info.given.keys()):
            await self._news.wait()
        notes = offers.check(offer, self._agent.info)
        known = next((o for o in self._agent.info.offers if o.queue == offer.queue), None)
        if known == offer:
            return "unchanged", notes
        self._offered.put(offer)
        self._agent.describe(replace(self._agent.info, offers=self._offered.all))
        if known is None:
            return "created", notes
        return "replaced", [*change_note(known, offer), *notes]

    async def change_devices(self, asked: DeviceChange) -> list[str]:
        """Add, remove, drain or undrain devices, as soon as it is known which ones this machine has; return notes."""
        while self._agent.info.may_appear(asked.resource) and asked.resource not in self._agent.info.given:
            await self._news.wait()
        info = self._agent.info
        devices, notes = change(info.devices, asked, machine_capacity(replace(info, devices={})))
        if devices != info.devices:
            self._offered.put_devices(devices)
            self._agent.describe(replace(info, devices=devices))
        return notes

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""
        self._offered.remove(queue)
        self._agent.describe(replace(self._agent.info, offers=self._offered.all))

    async def remove(self, ids: list[int], spare: set[int], *, keep_logs: bool = False) -> list[LeftFolder]:
        """Delete the folders of finished jobs, or put them aside; return those that are still there."""
        return await self._machine.remove(ids, spare, keep_logs=keep_logs)

    async def size(self, ids: list[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk."""
        return await self._machine.size(ids)

    def folders(self) -> list[int]:
        """Return the ids of the jobs that have a folder here, newest first."""
        return self._machine.folders()

    def strays(self, jobs: list[int] | None = None) -> list[dict[str, object]]:
        """Return how to submit these jobs again; without jobs, the attempts that a restored broker has no record of."""
        return self._machine.strays(jobs)

    def describe(self) -> dict[str, object]:
        """Return the state of this worker for `doctor`."""
        return {"detecting": bool(self._agent.info.looked_for), **self._machine.describe()}

    async def close(self) -> None:
        """Stop. Running attempts go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._machine.close()
