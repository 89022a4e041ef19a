"""The timers of simulated shims: a shim ends its attempt when a lease or a time limit is over, also without a worker.

The time limits are those of `grassq.run.limits`, for the run spec that the worker makes. A shim looks at them as
`grassq.run.shim` does: neither while the attempt is suspended, nor while the shim is ending it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.things import Command, RunDir, Shim

from grassq.core.messages import Start
from grassq.run.lease_timer import GRACE_PART
from grassq.run.limits import time_limits
from grassq.run.rundir import RunSpec
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detectors import variables_of
from grassq.worker.run_spec import run_spec

if TYPE_CHECKING:
    from tests.sim.world import Machine

TERM, KILL = 15, 9
#: What a shim waits longer than until a limit, so that it is over then.
LATER_S = 0.001
VARIABLES = variables_of(())
#: How many commands end by themselves when they are warned.
HEEDS = 0.5


class Timers:
    """The leases and limits that the shims of one machine keep."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._time = machine.time

    def begin(self, shim: Shim, folder: RunDir, command: Command) -> None:
        """A command was started."""
        self._watch_lease(shim, folder, command)
        if command.start.placement.time_limit_s is not None:
            command.limits = time_limits.of("", run_spec_of(command.start), command.began)
            self.watch_limits(shim, folder, command)

    def watch_limits(self, shim: Shim, folder: RunDir, command: Command) -> None:
        """The shim looks when something is due, also when the command goes on after a suspension."""
        if command.limits is None or command.stopped:
            return
        wait_s = command.limits.wait_s(self._time.now - command.stopped_s)
        if wait_s is not None:
            self._time.after(wait_s + LATER_S, lambda: self._keep_limits(shim, folder, command))

    def _keep_limits(self, shim: Shim, folder: RunDir, command: Command) -> None:
        if not shim.alive or not command.alive or command.stopped or folder.is_ending:
            return
        assert command.limits is not None
        now = self._time.now - command.stopped_s
        folder.timed_out = command.limits.passed(now)
        if folder.timed_out is not None:
            self._machine.terminate(command, command.start.spec.grace_s)
            return
        if command.limits.is_warning_due(now):
            command.warned_at.append(self._time.now)
            if self._time.rng.random() < HEEDS:
                self._machine.ends_later(command, 0, None)
        self.watch_limits(shim, folder, command)

    def _watch_lease(self, shim: Shim, folder: RunDir, command: Command) -> None:
        """The shim looks at the lease when it should be over, and ends the command unless it was renewed."""
        if folder.lease is None:
            return

        def look() -> None:
            assert folder.lease is not None
            if not shim.alive or not command.alive:
                return
            if folder.lease.until > self._time.now:
                return self._watch_lease(shim, folder, command)
            folder.lease_ended = not folder.is_ending
            self._machine.terminate(command, folder.lease.length_s * GRACE_PART)

        self._time.after(max(0.0, folder.lease.until - self._time.now), look)


def run_spec_of(start: Start) -> RunSpec:
    """The spec that the shim of an attempt gets from its worker."""
    launch = run_spec(
        start,
        "/run",
        "/checkpoint",
        store="s",
        boot=start.placement.boot,
        with_daemon=False,
        default_env=DefaultEnvironment(),
        variables=VARIABLES,
    )
    return RunSpec.unpacked(launch.spec)
