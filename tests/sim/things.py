"""What is on a simulated machine's disk and in its process table: run dirs, shims and commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.run.limits.time_limits import TimeLimits
from grassq.run.rundir import Lease


@dataclass(eq=False)
class Command:
    """A process tree, and the wait status it really ended with."""

    start: Start
    pid: int
    stubborn: bool
    began: float
    alive: bool = True
    code: int | None = None
    signal: int | None = None
    #: It is suspended now, or was; and how it would have ended by itself meanwhile.
    stopped: bool = False
    was_stopped: bool = False
    overdue: tuple[int | None, int | None] | None = None
    #: How long it was stopped, without the present stop, which began at a time.
    stopped_s: float = 0.0
    stopped_at: float = 0.0
    #: What its shim keeps, when it was warned, and when it ended.
    limits: TimeLimits | None = None
    warned_at: list[float] = field(default_factory=list)
    ended: float | None = None

    def set_stopped(self, stop: bool, now: float) -> bool:
        """Stop it or let it go on; tell whether it goes on."""
        goes_on = self.stopped and not stop
        if stop and not self.stopped:
            self.stopped_at = now
        elif goes_on:
            self.stopped_s += now - self.stopped_at
        self.stopped, self.was_stopped = stop, self.was_stopped or stop
        return goes_on

    def end(self, code: int | None, signal: int | None, now: float) -> None:
        """It is gone."""
        self.alive, self.code, self.signal, self.ended = False, code, signal, now

    def ran_s(self, now: float) -> float:
        """How long it has run by now, without the time in which it was stopped."""
        until = now if self.ended is None else self.ended
        return (min(until, self.stopped_at) if self.stopped else until) - self.began - self.stopped_s

    @property
    def id(self) -> AttemptId:
        """The attempt it belongs to."""
        return self.start.id


@dataclass(eq=False)
class Shim:
    """A supervisor: the agent it talks to, the launcher that forked it, and the attempt at hand."""

    pid: int
    shim_pool: int
    launcher: int
    alive: bool = True
    busy: AttemptId | None = None


@dataclass(eq=False)
class RunDir:
    """What is on disk of one attempt."""

    boot: str
    stop: float | None = None
    void: bool = False
    shim: Shim | None = None
    command: Command | None = None
    cancelled: bool = False
    record: dict[str, Any] | None = None
    lease: Lease | None = None
    lease_ended: bool = False
    #: The limit that ended it, in words.
    timed_out: str | None = None
    #: What was ordered.
    order: Start | None = None
    #: Who begins when this one has ended, without being ordered.
    next: AttemptId | None = None
    acked: bool = False
    #: A restored broker has said that its store has no record of it.
    unrecorded: bool = False
    #: The files that the attempt is sent are there.
    sent: bool = False
    #: The files that the attempt leaves were brought back.
    collected: bool = False
    #: The newest order to suspend it or to let it go on, and what its shim has done.
    suspend: tuple[int, bool] = (0, False)
    suspended: tuple[int, bool] = (0, False)
    #: On disk for good; else a power cut may take it.
    synced: bool = False

    @property
    def is_ending(self) -> bool:
        """Whether its shim is ending it."""
        return self.cancelled or self.lease_ended or self.timed_out is not None

    @property
    def claimed(self) -> bool:
        """Whether nobody may begin it any more."""
        return self.void or self.shim is not None

    @property
    def lives(self) -> bool:
        """Whether something of it is at work that has not recorded its end."""
        shim, command = self.shim, self.command
        return self.record is None and ((shim is not None and shim.alive) or (command is not None and command.alive))
