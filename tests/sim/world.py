"""Machines as the simulator models them: run dirs that outlive everything, shims, and the commands they started.

The rules are those of `grassq.run`: one claim per run dir, a stop file found before the spawn means no start, a shim
whose agent is gone finishes its attempt and leaves, and a command whose shim was killed runs on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from errno import ENOENT
from random import Random
from typing import Any, Protocol

from tests.sim.files import FileWork
from tests.sim.things import Command, RunDir, Shim
from tests.sim.timers import KILL, TERM, Timers

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.core.reconcile import RunState
from grassq.core.states import Exited
from grassq.run.rundir import ACKED, Lease
from grassq.worker.agent import Agent
from grassq.worker.attempts import exited
from grassq.worker.machine import Inventory


class Timeline(Protocol):
    """The simulator, as far as machines need it."""

    rng: Random
    faulty: bool

    @property
    def now(self) -> float:
        """Seconds since the beginning."""

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def spawned(self, command: Command) -> None:
        """A command was started."""

    def resumed(self, command: Command) -> None:
        """A suspended command goes on."""


@dataclass(eq=False)
class Machine:
    """One machine: its disk, its processes, and the agent that happens to run on it."""

    name: str
    time: Timeline
    labels: tuple[str, ...] = ()
    boots: int = 1
    shim_pool: int = 0
    launcher: int = 0
    launcher_alive: bool = True
    agent: Agent | None = None
    dirs: dict[AttemptId, RunDir] = field(default_factory=dict)
    shims: list[Shim] = field(default_factory=list)
    watched: set[AttemptId] = field(default_factory=set)
    pids: Any = field(default_factory=lambda: itertools.count(100))

    def __post_init__(self) -> None:
        self.files = FileWork(self)
        self.timers = Timers(self)

    @property
    def boot(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    def commands(self) -> list[Command]:
        """Everything that runs now."""
        return [d.command for d in self.dirs.values() if d.command is not None and d.command.alive]

    # What the agent's side does.

    def start(self, start: Start, lease: Lease | None, after: AttemptId | None = None) -> None:
        folder = self.dirs.setdefault(start.id, RunDir(self.boot))
        folder.order = start
        folder.lease = lease or folder.lease
        if not self.files.send(start.id, at_once=after is None):
            return
        if after is None:
            self.order(start.id)
        elif after in self.dirs:
            self.dirs[after].next = start.id
        else:
            raise FileNotFoundError(ENOENT, "no run dir to come after")

    def lease(self, attempt: AttemptId, lease: Lease) -> None:
        self.dirs[attempt].lease = lease

    def leased(self, attempt: AttemptId) -> Lease | None:
        folder = self.dirs.get(attempt)
        return None if folder is None else folder.lease

    def inventory(self, most: int) -> Inventory:
        newest = sorted(self.dirs, reverse=True)[:most]
        held = [attempt for attempt in newest if not self.dirs[attempt].unrecorded]
        unacked = [attempt for attempt in held if not self.dirs[attempt].acked]
        return Inventory(held, unacked, [attempt for attempt in newest if self.dirs[attempt].unrecorded])

    def mark(self, attempt: AttemptId, marker: str) -> None:
        if attempt in self.dirs and marker == ACKED:
            self.dirs[attempt].acked = True
        elif attempt in self.dirs:
            self.dirs[attempt].unrecorded = True

    def forget(self, jobs: Collection[int], spare: Collection[int], *, keep_logs: bool = False) -> None:
        alive = {attempt[0] for attempt, folder in self.dirs.items() if folder.lives}
        for attempt in [each for each in self.dirs if each[0] in jobs and each[0] not in alive]:
            del self.dirs[attempt]
            self.watched.discard(attempt)

    def order(self, attempt: AttemptId) -> None:
        """The order goes through the launcher's socket: it may be lost with it, doubled, or outlive its sender."""
        rng, shim_pool, boots = self.time.rng, self.shim_pool, self.boots
        for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2)) if self.time.faulty else 1):
            self.time.after(rng.uniform(0, 0.4), lambda: self._taken(attempt, shim_pool, boots))

    def collect(self, attempt: AttemptId, end: Exited) -> Exited | None:
        return end if self.files.bring(attempt) else None

    def look(self, attempt: AttemptId) -> RunState:
        found = self.dirs.get(attempt)
        if found is None:
            return RunState()
        here = found.boot == self.boot
        command = found.command if here else None
        return RunState(
            exit=None if found.record is None else exited(attempt[1], found.record),
            void=found.void,
            claimed=found.claimed,
            shim_alive=here and found.shim is not None and found.shim.alive,
            command_alive=command is not None and command.alive,
            pid=None if found.command is None else found.command.pid,
            suspension=found.suspend,
        )

    def watch(self, attempt: AttemptId) -> None:
        self.watched.add(attempt)
        shim = self.dirs[attempt].shim
        if shim is None or not shim.alive:
            self._tell_watcher(attempt)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        folder = self.dirs.setdefault(attempt, RunDir(self.boot))
        if folder.shim is not None and not folder.shim.alive:
            if folder.command is not None and (grace_s <= 0 or not folder.command.stubborn):
                self._dies(folder.command, TERM if grace_s > 0 else KILL)
            return
        folder.stop = grace_s
        self.files.stop(attempt)
        if folder.shim is not None and folder.shim.alive and folder.shim.busy == attempt:
            self._terminate(folder, grace_s)

    def suspend(self, attempt: AttemptId, number: int, *, stop: bool) -> bool:
        folder = self.dirs.get(attempt)
        command = None if folder is None else folder.command
        if folder is None or folder.record is not None or command is None or not command.alive:
            return False
        if folder.suspend[0] > number:
            return False
        folder.suspend = (number, stop)
        if folder.shim is None or not folder.shim.alive:
            self._set_stopped(command, stop)
            return True
        if folder.suspended == folder.suspend:
            return True
        shim = folder.shim
        self.time.after(self.time.rng.uniform(0, 0.3), lambda: self._obey(shim, folder, command))
        return False

    def _obey(self, shim: Shim, folder: RunDir, command: Command) -> None:
        """A shim that was woken does what the newest order says; a kill comes first."""
        if not shim.alive or not command.alive or folder.is_ending:
            return
        folder.suspended = number, stop = folder.suspend
        self._set_stopped(command, stop)
        self._report(shim, command.id, "suspended", number=number, stop=stop)

    def _set_stopped(self, command: Command, stop: bool) -> None:
        if command.set_stopped(stop, self.time.now):
            self.time.resumed(command)
            folder = self.dirs[command.id]
            assert folder.shim is not None
            self.timers.watch_limits(folder.shim, folder, command)
            if command.overdue is not None:
                self.ends_later(command, *command.overdue)

    def void(self, attempt: AttemptId) -> bool:
        folder = self.dirs.setdefault(attempt, RunDir(self.boot))
        if folder.claimed:
            return False
        folder.void = True
        return True

    # What shims and commands do.

    def _taken(self, attempt: AttemptId, shim_pool: int, boots: int) -> None:
        """Some shim reads the order."""
        if boots != self.boots:
            return
        folder = self.dirs.get(attempt)
        if folder is None or folder.claimed:
            event = "duplicate" if folder else "bad_spec"
            self._say(shim_pool, {"event": event, "job": attempt[0], "attempt": attempt[1], "shim": 0})
            return
        shim = self._free_shim(shim_pool)
        folder.shim, folder.boot, shim.busy = shim, self.boot, attempt
        self.time.after(self.time.rng.uniform(0, 0.1), lambda: self._spawn(shim, folder, attempt))

    def _follow(self, shim: Shim, attempt: AttemptId) -> None:
        """A shim that has finished goes on with the attempt that was left for it."""
        folder = self.dirs.get(attempt)
        if shim.alive and shim.busy == attempt and folder is not None and not folder.claimed:
            folder.shim, folder.boot = shim, self.boot
            self._spawn(shim, folder, attempt)
        elif shim.busy == attempt:
            shim.busy = None

    def _free_shim(self, shim_pool: int) -> Shim:
        for shim in self.shims:
            if shim.alive and shim.busy is None and shim.shim_pool == shim_pool:
                return shim
        self.shims = [shim for shim in self.shims if shim.alive]
        self.shims.append(Shim(next(self.pids), shim_pool, self.launcher))
        return self.shims[-1]

    def _spawn(self, shim: Shim, folder: RunDir, attempt: AttemptId) -> None:
        if not shim.alive:
            return
        rng = self.time.rng
        if folder.lease is not None and folder.lease.until <= self.time.now:
            folder.lease_ended = True
            self._finish(shim, folder, attempt)
        elif folder.stop is not None:
            folder.cancelled = True
            self._finish(shim, folder, attempt)
        elif rng.random() < 0.04:
            self._finish(shim, folder, attempt, spawn_failed=True)
        else:
            assert folder.order is not None
            command = Command(folder.order, next(self.pids), rng.random() < 0.2, self.time.now)
            folder.command = command
            self.time.spawned(command)
            self.timers.begin(shim, folder, command)
            self._report(shim, attempt, "started", pid=command.pid)
            code, signal = rng.choice(((0, None), (0, None), (0, None), (1, None), (77, None), (None, 11)))
            # Some outlast a cut, a lease or two brokers.
            took_s = rng.expovariate(0.4) if rng.random() < 0.8 else rng.uniform(10, 40)
            self.time.after(took_s, lambda: self._ends_itself(command, code, signal))

    def ends_later(self, command: Command, code: int | None, signal: int | None) -> None:
        """A command ends by itself within moments."""
        self.time.after(self.time.rng.uniform(0, 2), lambda: self._ends_itself(command, code, signal))

    def _ends_itself(self, command: Command, code: int | None, signal: int | None) -> None:
        if command.stopped:
            command.overdue = code, signal
        else:
            self._ends(command, code, signal)

    def _ends(self, command: Command, code: int | None, signal: int | None) -> None:
        if not command.alive:
            return
        command.end(code, signal, self.time.now)
        folder = self.dirs[command.id]
        shim = folder.shim
        assert shim is not None
        if shim.alive:
            self.time.after(self.time.rng.uniform(0, 0.1), lambda: self._finish(shim, folder, command.id))

    def _dies(self, command: Command, signal: int) -> None:
        self.time.after(self.time.rng.uniform(0, 0.2), lambda: self._ends(command, None, signal))

    def _terminate(self, folder: RunDir, grace_s: float) -> None:
        command = folder.command
        if command is None or not command.alive:
            return
        # A command that is being ended by a limit keeps that outcome.
        folder.cancelled = folder.cancelled or folder.timed_out is None
        self.terminate(command, grace_s)

    def terminate(self, command: Command, grace_s: float) -> None:
        """A shim ends its command: at once, or after the grace if it does not heed."""
        if not command.stubborn:
            self._dies(command, TERM)
        self.time.after(grace_s, lambda: self._dies(command, KILL))

    def _finish(self, shim: Shim, folder: RunDir, attempt: AttemptId, *, spawn_failed: bool = False) -> None:
        if not shim.alive or folder.record is not None:
            return
        command = folder.command
        folder.record = {
            "outcome": _outcome(folder, spawn_failed),
            "code": command.code if command else None,
            "signal": command.signal if command else None,
            "error": "no such program" if spawn_failed else folder.timed_out,
            "started": command and command.began,
            "ended": self.time.now,
        }
        shim.busy = None
        heard = shim.shim_pool == self.shim_pool and self.agent is not None
        folder.synced = not heard
        prefetched = folder.next if heard else None
        self._report(shim, attempt, "exited", record=folder.record, next=prefetched is not None)
        if prefetched is not None:
            shim.busy = prefetched
            self.time.after(self.time.rng.uniform(0, 0.1), lambda: self._follow(shim, prefetched))
        if not heard:
            self._gone(shim)

    # Who hears of it.

    def _report(self, shim: Shim, attempt: AttemptId, event: str, **more: object) -> None:
        self._say(shim.shim_pool, {"event": event, "job": attempt[0], "attempt": attempt[1], "shim": shim.pid, **more})

    def _say(self, shim_pool: int, report: dict[str, Any]) -> None:
        """Reports of one crew stay in order: it is one socket, read within moments."""

        def heard() -> None:
            if shim_pool == self.shim_pool and self.agent is not None:
                self.agent.heard(report)

        self.time.after(0.02, heard)

    def _gone(self, shim: Shim) -> None:
        shim.alive = False
        if self.launcher_alive and shim.launcher == self.launcher:
            self._say(shim.shim_pool, {"event": "gone", "shim": shim.pid})
        for attempt in self.watched:
            if self.dirs[attempt].shim is shim:
                self._tell_watcher(attempt)

    def _tell_watcher(self, attempt: AttemptId) -> None:
        shim_pool = self.shim_pool

        def told() -> None:
            if shim_pool == self.shim_pool and self.agent is not None:
                self.agent.shim_gone(attempt)

        self.time.after(0.01, told)

    # Faults.

    def kill_shim(self) -> None:
        """A shim is killed, busy or not; but not one that keeps a lease, for nobody else would."""
        alive = [shim for shim in self.shims if shim.alive and not (shim.busy and self.leased(shim.busy))]
        if alive:
            self._gone(self.time.rng.choice(alive))

    def kill_launcher(self) -> None:
        """The launcher is killed; the agent starts another at its next tick."""
        self.launcher_alive = False

    def tick(self) -> None:
        """What a worker does every second."""
        if self.agent is None:
            return
        if not self.launcher_alive:
            self.launcher, self.launcher_alive = self.launcher + 1, True
            self.agent.watch_all()
        self.agent.tick()

    def agent_gone(self) -> None:
        """The agent's process ends: idle shims leave, busy ones go on."""
        self.agent = None
        self.files.end()
        self.shim_pool += 1
        self.launcher += 1
        self.launcher_alive = True
        self.watched.clear()
        for shim in self.shims:
            if shim.busy is None:
                shim.alive = False

    def reboot(self) -> None:
        """Power is cut: every process is gone, and with it what was not synced."""
        self.agent_gone()
        self.boots += 1
        for shim in self.shims:
            shim.alive = False
        for command in self.commands():
            command.end(None, KILL, self.time.now)
        for folder in self.dirs.values():
            if not folder.synced and self.time.rng.random() < 0.3:
                folder.record = None


def _outcome(folder: RunDir, spawn_failed: bool) -> str:
    if folder.lease_ended:
        return "lease_ended"
    if spawn_failed or folder.cancelled:
        return "spawn_failed" if spawn_failed else "cancelled"
    return "exited" if folder.timed_out is None else "timed_out"


class SimRunner:
    """The process layer of one agent's life: everything is the machine's, only the boot is fixed."""

    def __init__(self, machine: Machine) -> None:
        self.boot = machine.boot
        self.start = machine.start
        self.look = machine.look
        self.collect = machine.collect
        self.watch = machine.watch
        self.stop = machine.stop
        self.suspend = machine.suspend
        self.void = machine.void
        self.lease = machine.lease
        self.leased = machine.leased
        self.inventory = machine.inventory
        self.mark = machine.mark
        self.forget = machine.forget
