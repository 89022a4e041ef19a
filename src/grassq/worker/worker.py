"""The worker of this machine: crew, runner and agent on one event loop, and the desk where its queues are made."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable

from msgspec.structs import replace

from grassq.core.messages import Order, WorkerMessage
from grassq.core.model import Job, Offer, WorkerInfo
from grassq.core.resources.capacity import Capacity
from grassq.run import processes
from grassq.run.lease_timer import boottime
from grassq.run.shim_pool import ShimPool
from grassq.worker import offers, strays
from grassq.worker.agent import Agent
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detector import Detector
from grassq.worker.devices.detectors import DETECTORS, found_by, installed, variables_of
from grassq.worker.local_logs import LocalLogs
from grassq.worker.local_machine import LocalMachine

log = logging.getLogger(__name__)

TICK_S = 1.0
IDLE_TICK_S = 5.0
FOLDERS_MAX = 10_000


class Worker:
    """Runs jobs on this machine for whoever `send` reaches."""

    def __init__(
        self,
        home: str,
        book: offers.OfferFile,
        send: Callable[[WorkerMessage], None],
        *,
        store_id: str,
        capacity: Capacity | None,
        keeps: bool,
        nofile: int | None = None,
        default_env: DefaultEnvironment | None = None,
        apart: bool = False,
        labels: tuple[str, ...] = (),
    ) -> None:
        """`capacity` None means detect it; `keeps` False is for a store in memory: nothing outlives this process.

        `around` is what jobs from other machines are given; `apart` says that the broker is another process.
        """
        self._home = home
        self._book = book
        self._keeps = keeps
        self.logs = LocalLogs(home)
        self._loop = asyncio.get_running_loop()
        self._shim_pool = ShimPool(sys.executable, home, nofile=nofile)
        self._machine = LocalMachine(
            home,
            self._shim_pool,
            self._loop,
            self._shim_gone,
            store=store_id,
            with_daemon=not keeps,
            default_env=default_env,
            apart=apart,
            aside=lambda work: self._loop.run_in_executor(None, work),
        )
        self._detects = capacity is None
        #: Set, and replaced by a new one, whenever more is known of this machine.
        self._news = asyncio.Event()
        all_offers = offers.all_offers(book)
        info = WorkerInfo(
            book.name, processes.boot_id(), capacity or {}, all_offers, self._detects, labels, follows=True
        )
        self._agent = Agent(info, self._machine, send, time.monotonic, boottime=boottime)
        self._launcher: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        """What this worker is called."""
        return self._book.name

    @property
    def queues(self) -> tuple[Offer, ...]:
        """What it offers."""
        return self._agent.info.offers

    @property
    def held(self) -> int:
        """How many attempts it knows of that have not ended."""
        return self._agent.active

    async def start(self) -> asyncio.Task[None]:
        """Say hello and begin; the task that ends only by `close`, or by a bug."""
        os.makedirs(os.path.join(self._home, "jobs"), mode=0o700, exist_ok=True)
        self._shim_pool.start()
        self._launcher = self._shim_pool.launcher_pid
        self._loop.add_reader(self._shim_pool.fileno(), self._hear)
        if self._detects:
            await self._detect_at_once()
        self._agent.hello()
        ticking = self._loop.create_task(self._tick())
        self._tasks.append(ticking)
        if self._detects:
            self._tasks.append(self._loop.create_task(self._detect()))
        return ticking

    def hello(self, *, fresh: bool = True) -> None:
        """Say who this is; on a fresh connection also what it holds."""
        self._agent.hello(fresh=fresh)

    def confirmed(self, at: float) -> None:
        """The broker has heard a ping sent at this moment of the boot clock."""
        self._agent.confirmed(at)

    def deliver(self, order: Order) -> None:
        """An order from the broker; done on the next turn of the loop, never inside the broker's own."""
        self._loop.call_soon(self._agent.order, order)

    def _hear(self) -> None:
        for report in self._shim_pool.read():
            self._agent.heard(report)

    def _shim_gone(self, attempt: tuple[int, int]) -> None:
        self._loop.call_soon(self._agent.shim_gone, attempt)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(IDLE_TICK_S if self._agent.idle else TICK_S)
            try:
                self._look_after()
            except OSError as error:
                # No descriptor or no memory for a moment: what was not done now is done at the next tick.
                log.error("tick_failed error=%s", error)

    def _look_after(self) -> None:
        self._shim_pool.check()
        if self._shim_pool.launcher_pid != self._launcher:
            log.warning("launcher_restarted pid=%s", self._shim_pool.launcher_pid)
            self._launcher = self._shim_pool.launcher_pid
            self._agent.watch_all()
        self._agent.tick()

    async def _detect_at_once(self) -> None:
        info = self._agent.info
        found = [await found_by(detector) for detector in DETECTORS if detector.quick]
        self._agent.info = replace(info, given={name: supply for one in found for name, supply in one.items()})

    async def _detect(self) -> None:
        """Run the other detectors beside one another, and tell the broker what each of them finds."""
        more = await asyncio.to_thread(lambda: [*installed()])
        self._machine.variables = variables_of((*DETECTORS, *more))
        slow = [detector for detector in (*DETECTORS, *more) if not detector.quick]
        self._known({}, frozenset(name for detector in slow for name in detector.names))

        async def detect(detector: Detector) -> None:
            found = await found_by(detector)
            self._known(found, self._agent.info.detecting - detector.names)
            log.info("devices_detected names=%s", ",".join(found) or "none")

        await asyncio.gather(*map(detect, slow))

    def _known(self, found: Capacity, looked_for: frozenset[str]) -> None:
        info = self._agent.info
        self._agent.describe(replace(info, given={**info.given, **found}, looked_for=looked_for))
        self._news.set()
        self._news = asyncio.Event()

    async def offer(self, offer: Offer) -> tuple[str, list[str]]:
        """Make or replace a queue, as soon as it is known which of the resources it limits this machine has."""
        while any(self._agent.info.may_appear(name) for name in offer.limits.keys() - self._agent.info.given.keys()):
            await self._news.wait()
        notes = offers.check(offer, self._agent.info)
        known = next((o for o in self._agent.info.offers if o.queue == offer.queue), None)
        if known == offer:
            return "unchanged", notes
        self._set_book(offers.with_offer(self._book, offer))
        return ("created" if known is None else "replaced"), notes

    async def withdraw(self, queue: str) -> None:
        """Delete a queue."""
        self._set_book(offers.without(self._book, queue))

    def _set_book(self, book: offers.OfferFile) -> None:
        if self._keeps:
            offers.save(self._home, book)
        self._book = book
        self._agent.describe(replace(self._agent.info, offers=offers.all_offers(book)))

    async def remove(self, jobs: list[Job], spare: set[int]) -> None:
        """Delete the folders of finished jobs."""
        await asyncio.to_thread(self._machine.remove, [job.id for job in jobs], spare)

    def folders(self) -> list[int]:
        """The ids that have a folder here, newest first."""
        return folder_ids(self._home)[:FOLDERS_MAX]

    def strays(self, jobs: list[int]) -> list[dict[str, str]]:
        """Return how to submit these jobs again, which have a folder here and no stored job."""
        return strays.of_jobs(self._home, jobs)

    def unrecorded(self) -> list[dict[str, str]]:
        """Return the attempts here that a restored broker has no record of."""
        return strays.unrecorded(self._home)

    def describe(self) -> dict[str, object]:
        """What `doctor` wants to know of this worker."""
        return {
            "detecting": bool(self._agent.info.looked_for),
            "launcher": {"pid": self._shim_pool.launcher_pid, "trouble": self._shim_pool.trouble},
        }

    async def close(self) -> None:
        """Let go; what runs, runs on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._loop.remove_reader(self._shim_pool.fileno())
        self._machine.close()
        await asyncio.to_thread(self._shim_pool.close)


def folder_ids(home: str) -> list[int]:
    """Every id that has a folder below a home, newest first."""
    try:
        names = os.listdir(os.path.join(home, "jobs"))
    except OSError:
        return []
    return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)
